"""A goal node whose replies are refused again and again ends with that as its reason; the node above may go on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from doubles import ScriptedWorld, expand, goal_of, scripted_episode

from reactree_ros.agent.observation import Observation, Outcome, Seen
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.household import WAH_NL
from reactree_ros.llm.port import FAILED, Attempt, DecisionRequest, LanguageModel, Reply
from reactree_ros.planners.spec import planner
from reactree_ros.record.verdict import EpisodeEnd
from reactree_ros.tree.asking import LAST
from reactree_ros.tree.failure import FailureKind
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.options import TreeOptions

NAMED = "put down pie on kitchen table"
GO = "Act: go to kitchen 1"
#: Nothing else ends the run but its decisions.
ENDLESS: dict[str, Any] = {"stuck_after": 0, "max_decisions": 200}


class Says(LanguageModel):
    """Says one thing after the other, each after so many tries in vain."""

    def __init__(self, texts: Iterator[str], attempts: tuple[Attempt, ...] = ()) -> None:
        self.texts, self.attempts = texts, attempts

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        text = next(self.texts)
        objection = "" if text.startswith("Act: ") else "A decision starts with 'Act: '."
        last = (Attempt(objection=objection),) if self.attempts else ()
        return Pending.ready(Reply(text, objection=objection, attempts=(*self.attempts, *last)))


class Acts(Says):
    """Says one thing after the other, whatever it is."""

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        return Pending.ready(Reply(next(self.texts)))


def run_of(texts: Iterator[str], attempts: tuple[Attempt, ...] = (), **options: Any) -> Episode:
    return scripted_episode({}, model=Says(texts, attempts), options=TreeOptions(**(ENDLESS | options)))


def different() -> Iterator[str]:
    return (f"{NAMED} {number}" for number in itertools.count())


def mixed(refused: int, taken: int) -> Iterator[str]:
    """Replies of which so many are refused, each in its own words, and then so many are taken, again and again."""
    texts = different()
    while True:
        yield from itertools.islice(texts, refused)
        yield from itertools.repeat(GO, taken)


@pytest.mark.parametrize(
    ("texts", "decisions", "reason"),
    [
        (lambda: itertools.repeat(NAMED), 3, f"the same reply was refused 3 times in a row: '{NAMED}' (A decision"),
        (lambda: itertools.cycle([NAMED, NAMED.upper()]), 3, "the same reply was refused 3 times in a row: "),
        (lambda: itertools.repeat(""), 3, "the same reply was refused 3 times in a row: '' ("),
        (different, LAST, f"{LAST} of the last {LAST} requests were refused, the last reply was '{NAMED} 19' ("),
        (lambda: mixed(9, 1), LAST, f"18 of the last {LAST} requests were refused, the last reply was "),
    ],
)
def test_two_hundred_refused_replies_are_not_waited_for(
    texts: Callable[[], Iterator[str]], decisions: int, reason: str
) -> None:
    run = run_of(texts())
    result = run.run()
    assert (result.status, result.end, result.broken) == ("failure", "refused", False)
    assert abs(result.decisions - decisions) <= 1  # the last one may be one that is taken
    assert result.reason.startswith(reason)
    assert result.verdict.because == f"{EpisodeEnd.REFUSED.words}: {result.reason}"
    assert run.root.failure.kind is FailureKind.REFUSED
    assert "\n" not in result.message
    off = {"refused_in_a_row": 0, "refused_share": 1.0}
    assert run_of(texts(), **off, max_decisions=60).run().end == "out_of_decisions"


@pytest.mark.parametrize(
    "texts",
    [
        lambda: itertools.cycle([NAMED, NAMED, GO]),
        lambda: itertools.cycle([NAMED, "sing", NAMED, GO]),
        lambda: itertools.cycle([NAMED, NAMED, "Think: hm"]),
        lambda: mixed(4, 1),
    ],
)
def test_a_node_that_gets_on_goes_on(texts: Callable[[], Iterator[str]]) -> None:
    run = scripted_episode({}, model=Acts(texts()), options=TreeOptions(**ENDLESS))
    assert run.run().end == "out_of_decisions"


def test_how_many_is_an_option() -> None:
    assert run_of(itertools.repeat(NAMED), refused_in_a_row=5).run().decisions == 5
    assert run_of(mixed(4, 1), refused_share=0.7).run().end == "refused"
    assert run_of(mixed(4, 1), refused_share=0.8).run().end == "out_of_decisions"


VAIN = Attempt("sing", "A decision starts with 'Act: '.")
GONE = Attempt("", "the connection was reset", FAILED)


@pytest.mark.parametrize(
    ("attempts", "end", "decisions"),
    [
        ((VAIN,) * 3, "refused", 5),  # four requests for each reply
        ((VAIN,), "refused", 10),
        ((), "refused", 20),
        ((GONE,) * 3, "out_of_decisions", 200),  # what did not come was not refused
    ],
)
def test_each_request_of_a_reply_counts(attempts: tuple[Attempt, ...], end: str, decisions: int) -> None:
    result = run_of(different(), attempts).run()
    assert (result.end, result.decisions) == (end, decisions)


def test_replies_that_are_taken_at_last_end_nothing() -> None:
    assert run_of(itertools.repeat(GO), (VAIN,) * 9, max_decisions=40).run().end == "out_of_decisions"


class ByGoal(LanguageModel):
    """Says for one goal what is always refused, and what a script says for the others."""

    def __init__(self, script: dict[str, list[str]]) -> None:
        self.script = script

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        left = self.script.get(goal_of(request.prompt))
        return Pending.ready(Reply(left.pop(0) if left else NAMED))


@pytest.mark.parametrize(
    ("flow", "end", "decisions"), [("fallback", "done", 4), ("sequence", "refused", 4), ("parallel", "refused", 4)]
)
def test_the_node_above_goes_on_as_its_control_flow_has_it(flow: str, end: str, decisions: int) -> None:
    model = ByGoal({"root": [expand(flow, "a", "b")], "b": ["Act: done"]})
    run = scripted_episode({}, model=model, options=TreeOptions(**ENDLESS))
    result = run.run()
    assert (result.end, result.decisions) == (end, decisions)
    refused = run.context.nodes[1]
    assert (refused.failure.kind, refused.end) == (FailureKind.REFUSED, None)  # nothing is to be learnt from it
    assert refused.experience(task_id="0", task_name="x") is None


def test_a_run_whose_nodes_are_all_refused_is_stuck_where_that_comes_first() -> None:
    model = ByGoal({"root": [expand("fallback", *(f"way {number}" for number in range(9)))]})
    result = scripted_episode({}, model=model, options=TreeOptions(stuck_after=8, max_decisions=200)).run()
    assert (result.end, result.decisions) == ("stuck", 9)


@pytest.mark.parametrize("name", ["react", "hiagent", "codeact", "adapt"])
def test_it_is_so_with_every_planner_that_tells_its_model_of_refusals(name: str) -> None:
    with ScriptedWorld() as world:
        run = Episode(
            "go", world=world, model=Says(itertools.repeat("")), planner=planner(name), options=TreeOptions(**ENDLESS)
        )
        result = run.run()
    assert isinstance(run.root, GoalNode)
    assert (result.end, result.decisions <= 4) == ("refused", True)


# ---------------------------------------------------------------------- what brings nothing new


OPEN = "Act: open fridge 1"
numbers = itertools.count
#: What never gets on, and what is said to have repeated.
BARREN: dict[str, tuple[Any, str]] = {
    "one skill": (lambda: itertools.repeat(GO), "'go to kitchen 1' came 12 times without anything new"),
    "a round of two": (lambda: itertools.cycle([GO, OPEN]), "came 12 times"),
    "a round of five": (lambda: itertools.cycle([GO, OPEN, GO, "Think: hm", "Think: well"]), "came 12 times"),
    "one thought": (lambda: itertools.repeat("Think: I wonder."), "'Think: I wonder.' came 12 times"),
    "new thoughts": (lambda: (f"Think: thought {'x' * n}" for n in numbers()), "60 decisions in a row"),
    "garbage": (lambda: itertools.repeat("sing"), "the refused reply 'sing' ("),
    "nothing": (lambda: itertools.repeat(""), "the refused reply '' (Nothing was said."),
    "new garbage": (lambda: (f"sing {n} songs" for n in numbers()), "60 decisions in a row"),
    "recalls": (lambda: itertools.repeat("Act: recall location of apple"), "'recall location of apple' came 12 times"),
    "new expansions": (lambda: (expand("sequence", f"part {n}") for n in numbers()), "60 decisions in a row"),
    "garbage between": (lambda: itertools.cycle([GO, "sing", "Think: a", "dance"]), "came 12 times"),
}


#: Refusals end no node by themselves.
REFUSALS: dict[str, Any] = {"refused_in_a_row": 0, "refused_share": 1.0}


def result_of(texts: Iterator[str], **options: Any) -> EpisodeResult:
    run = scripted_episode({}, model=Acts(texts), working_memory=True, options=TreeOptions(**REFUSALS, **options))
    return run.run()


@pytest.mark.parametrize("name", BARREN)
def test_what_never_gets_on_ends_as_stuck_and_says_what_repeated(name: str) -> None:
    texts, what = BARREN[name]
    result = result_of(texts())
    assert result.end == "stuck"
    assert result.decisions <= 61
    assert result.message.startswith("stuck: ")
    assert result.verdict.because == result.message
    assert what in result.reason
    assert result_of(texts(), stuck_after=0, max_decisions=99).end != "stuck"


#: What is refused in turns, none of it often enough.
REFUSED = {
    "unreadable": [f"sing {n} songs" for n in range(11)],
    "unavailable": [f"Act: go to attic {n}" for n in range(11)],
    "of several kinds": [*(f"sing {n}" for n in range(6)), *(f"Act: go to attic {n}" for n in range(5))],
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_that_differ_are_not_the_same_event(name: str) -> None:
    assert result_of(itertools.chain(REFUSED[name], REFUSED[name][:3], itertools.repeat("Act: done"))).end == "done"
    again = result_of(itertools.cycle(REFUSED[name][:3]))
    assert (again.end, again.decisions) == ("stuck", 34)
    assert "came 12 times" in again.reason


def test_nodes_that_fail_alike_one_after_the_other_are_stuck() -> None:
    part = [OPEN, "Act: failure"]
    texts = itertools.chain([expand("fallback", *(f"way {n}" for n in range(30)))], itertools.cycle(part))
    result = result_of(texts)
    assert (result.end, result.steps) == ("stuck", 12)


class Changing(ScriptedWorld):
    """Shows something else after every skill: as data, in words, or neither."""

    household = WAH_NL

    def __init__(self, show: Any) -> None:
        super().__init__(skills=["go to kitchen 1", "wait"])
        self._shown = (show(n) for n in numbers())

    def execute(self, skill: str) -> Pending[Observation]:
        super().execute(skill)
        return Pending.ready(next(self._shown))


@pytest.mark.parametrize(
    ("show", "end"),
    [
        (lambda n: Observation(f"You see cabinet {n}."), "out_of_steps"),
        (lambda n: Observation("You look.", seen=(Seen("mug", n, None),)), "out_of_steps"),
        (lambda n: Observation("You look.", seen=(Seen("door", 1, None, states=(str(n),)),)), "out_of_steps"),
        (lambda n: Observation("You had to wait.", Outcome.HALTED), "out_of_steps"),
        (lambda n: Observation("You look."), "stuck"),
        (lambda n: Observation(f"It is {n} o'clock.", seen=(Seen("mug", 1, None),)), "stuck"),
        (lambda n: Observation(f"There is no kitchen {n}.", Outcome.UNKNOWN_SKILL), "stuck"),
    ],
)
def test_new_is_what_the_world_shows(show: Any, end: str) -> None:
    run = scripted_episode({}, model=Acts(itertools.repeat(GO)), world=Changing(show))
    assert run.run().end == end


def waiting(texts: Iterator[str], *, changes: int) -> EpisodeResult:
    world = Changing(lambda n: Observation("Nothing happens." if n < changes else f"The door is open, {n}."))
    world.household = replace(WAH_NL, actions=(*WAH_NL.actions, "wait"))  # type: ignore[misc]
    return scripted_episode({}, model=Acts(texts), world=world).run()


def test_a_robot_may_wait_in_capitals() -> None:
    assert not WAH_NL.waits("wait")
    assert all(replace(WAH_NL, actions=("wait",)).waits(one) for one in ("wait", "Wait", "WAIT for 5 s"))


def test_a_robot_may_wait_and_look_again() -> None:
    assert waiting(itertools.cycle(["Act: wait", GO]), changes=80).end == "out_of_steps"
    assert waiting(itertools.repeat("Act: wait"), changes=50).end == "out_of_steps"
    assert waiting(itertools.repeat("Act: wait"), changes=100).end == "stuck"


def test_rounds_that_are_refused_count_too() -> None:
    with ScriptedWorld() as world:
        who: dict[str, Any] = {"world": world, "model": Acts(itertools.repeat(GO)), "options": TreeOptions(**REFUSALS)}
        result = Episode("go", planner=planner("react:break_rounds=true"), **who).run()
    assert (result.end, result.decisions < 20) == ("stuck", True)


def test_what_a_person_says_is_new() -> None:
    run = scripted_episode({}, model=Acts(itertools.repeat(GO)), options=TreeOptions(max_steps=15, stuck_after=4))
    said = 0
    while not run.finished:
        run.tick()
        if not run.finished and run.context.budget.steps == 3 * (said + 1):
            said += 1
            run.hear(f"go on {said}")
    assert run.result().end == "out_of_steps"
