"""A run in which nothing new comes ends as stuck, and says what repeated; one that gets on does not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from doubles import ScriptedWorld, expand, scripted_episode

from reactree_ros.agent.observation import Observation, Outcome, Seen
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.household import WAH_NL
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import TreeOptions


class Says(LanguageModel):
    """Says one thing after the other, for ever."""

    def __init__(self, texts: Iterator[str]) -> None:
        self._texts = texts

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        return Pending.ready(Reply(next(self._texts)))


GO, OPEN = "Act: go to kitchen 1", "Act: open fridge 1"
numbers = itertools.count
#: What never gets on, and what is said to have repeated.
ENDLESS: dict[str, tuple[Any, str]] = {
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


def of(texts: Iterator[str], **options: Any) -> EpisodeResult:
    run = scripted_episode({}, model=Says(texts), working_memory=True, options=TreeOptions(**REFUSALS, **options))
    return run.run()


@pytest.mark.parametrize("name", ENDLESS)
def test_what_never_gets_on_ends_as_stuck_and_says_what_repeated(name: str) -> None:
    texts, what = ENDLESS[name]
    result = of(texts())
    assert result.end == "stuck"
    assert result.decisions <= 61
    assert result.message.startswith("stuck: ")
    assert result.verdict.because == result.message
    assert what in result.reason
    assert of(texts(), stuck_after=0, max_decisions=99).end != "stuck"


#: What is refused in turns, none of it often enough.
REFUSED = {
    "unreadable": [f"sing {n} songs" for n in range(11)],
    "unavailable": [f"Act: go to attic {n}" for n in range(11)],
    "of several kinds": [*(f"sing {n}" for n in range(6)), *(f"Act: go to attic {n}" for n in range(5))],
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_that_differ_are_not_the_same_event(name: str) -> None:
    assert of(itertools.chain(REFUSED[name], REFUSED[name][:3], itertools.repeat("Act: done"))).end == "done"
    again = of(itertools.cycle(REFUSED[name][:3]))
    assert (again.end, again.decisions) == ("stuck", 34)
    assert "came 12 times" in again.reason


def test_nodes_that_fail_alike_one_after_the_other_are_stuck() -> None:
    part = [OPEN, "Act: failure"]
    texts = itertools.chain([expand("fallback", *(f"way {n}" for n in range(30)))], itertools.cycle(part))
    result = of(texts)
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
    run = scripted_episode({}, model=Says(itertools.repeat(GO)), world=Changing(show))
    assert run.run().end == end


def waiting(texts: Iterator[str], *, changes: int) -> EpisodeResult:
    world = Changing(lambda n: Observation("Nothing happens." if n < changes else f"The door is open, {n}."))
    world.household = replace(WAH_NL, actions=(*WAH_NL.actions, "wait"))  # type: ignore[misc]
    return scripted_episode({}, model=Says(texts), world=world).run()


def test_a_robot_may_wait_in_capitals() -> None:
    assert not WAH_NL.waits("wait")
    assert all(replace(WAH_NL, actions=("wait",)).waits(one) for one in ("wait", "Wait", "WAIT for 5 s"))


def test_a_robot_may_wait_and_look_again() -> None:
    assert waiting(itertools.cycle(["Act: wait", GO]), changes=80).end == "out_of_steps"
    assert waiting(itertools.repeat("Act: wait"), changes=50).end == "out_of_steps"
    assert waiting(itertools.repeat("Act: wait"), changes=100).end == "stuck"


def test_rounds_that_are_refused_count_too() -> None:
    with ScriptedWorld() as world:
        who: dict[str, Any] = {"world": world, "model": Says(itertools.repeat(GO)), "options": TreeOptions(**REFUSALS)}
        result = Episode("go", planner=planner("react:break_rounds=true"), **who).run()
    assert (result.end, result.decisions < 20) == ("stuck", True)


def test_what_a_person_says_is_new() -> None:
    run = scripted_episode({}, model=Says(itertools.repeat(GO)), options=TreeOptions(max_steps=15, stuck_after=4))
    said = 0
    while not run.finished:
        run.tick()
        if not run.finished and run.context.budget.steps == 3 * (said + 1):
            said += 1
            run.hear(f"go on {said}")
    assert run.result().end == "out_of_steps"
