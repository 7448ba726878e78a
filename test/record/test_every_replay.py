"""Every planner, in generated houses, with every ending: played again identically from its record.

``REPLAYED_HOUSES=20 REPLAYED_SEEDS=3`` carries all of it out; by default a few houses.
"""

from __future__ import annotations

import importlib.util
import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from doubles import Builds, Clock, ScriptedWorld, expand
from hypothesis import given, settings
from hypothesis import strategies as st
from persons import Says
from planners.test_zsp import WordEmbedder
from recode_doubles import Coder
from recorded_runs import Kept, assert_replays, recorded_episode
from solving import solution

from reactree_lab.household.generator import generate_house
from reactree_lab.planners.plan import tidied
from reactree_lab.planners.recode.sandbox import Limits
from reactree_lab.planners.zsp import ZspNode
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.background.pending import Pending
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.port import (
    Choice,
    DecisionRequest,
    FreeText,
    InvalidReply,
    LanguageModel,
    PromptTooLong,
    Reply,
    ServerUnavailable,
)
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, World, WorldError
from reactree_ros.world.wrappers import WorldWrapper

HOUSES = range(int(os.environ.get("REPLAYED_HOUSES", "2")))
SEEDS = range(int(os.environ.get("REPLAYED_SEEDS", "1")))
needs_monty = pytest.mark.skipif(not importlib.util.find_spec("pydantic_monty"), reason="needs the recode extra")


class Plan(LanguageModel):
    """Says a plan, line by line or all of it, and takes the first that is offered."""

    def __init__(self, plan: list[str], *, whole: bool) -> None:
        self._lines, self._whole = plan, whole
        self._asked = 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if isinstance(request.may_say, Choice):
            return Pending.ready(Reply(request.may_say.options[0]))
        self._asked += 1
        return Pending.ready(Reply("\n".join(self._lines) if self._whole else self._lines[self._asked - 1]))


class Fails(LanguageModel):
    """Says what another model says, up to a request; then it fails, does not answer, or says something else."""

    def __init__(self, model: LanguageModel, at: int, what: Exception | str | None) -> None:
        self._model, self._left, self._what = model, at, what

    @property
    def silent(self) -> bool:
        """Whether it was asked what it will never answer."""
        return self._left < 0 and self._what is None

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self._left -= 1
        if self._left >= 0:
            return self._model.decide(request)
        if self._what is None:
            return Pending()
        return Pending.ready(Reply(self._what)) if isinstance(self._what, str) else Pending.failed(self._what)


class Breaks(WorldWrapper):
    """A world that fails from so many looks and skills on, or may not move any more."""

    def __init__(self, inner: World, at: int, *, error: Exception | None = None, halted: str = "") -> None:
        super().__init__(inner)
        self._left, self._error, self._halted = at, error, halted

    def _or_failed(self, answer: Callable[[], Pending[Observation]]) -> Pending[Observation]:
        self._left -= 1
        return answer() if self._left >= 0 or self._error is None else Pending.failed(self._error)

    def observe(self) -> Pending[Observation]:
        return self._or_failed(super().observe)

    def survey(self) -> Pending[Observation]:
        return self._or_failed(super().survey)

    def execute(self, skill: str) -> Pending[Observation]:
        return self._or_failed(lambda: super(Breaks, self).execute(skill))

    def halted(self) -> str:
        return self._halted if self._left < 0 else ""


def code_of(plan: list[str]) -> dict[str, str]:
    """Code that carries a plan out in two parts."""
    skills = [f"run({step!r})" for step in plan if step != "done"]
    half = len(skills) // 2
    return {"solve": "\n".join(["first()", *skills[half:]]), "first": "\n".join([*skills[:half], "return 1"])}


class InTwoTurns(LanguageModel):
    """Writes code that carries a plan out in two turns."""

    def __init__(self, plan: list[str]) -> None:
        skills = [f"print(run({step!r}))" for step in plan if step != "done"]
        half = len(skills) // 2
        parts = ("\n".join(part) for part in (skills[:half], skills[half:]))
        self.texts = [*(f"<execute>\n{part}\n</execute>" for part in parts), "<solution>done</solution>"]

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        return Pending.ready(Reply(self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]))


class RefinesThePlan(LanguageModel):
    """Writes a plan that asks, does one half and then fails, and refines it to do the other half."""

    def __init__(self, plan: list[str]) -> None:
        skills = [f"agent.run({step!r})" for step in plan if step != "done"]
        half = len(skills) // 2
        first, second = ("; ".join(part) for part in (skills[:half], skills[half:]))
        code = f" if start_from <= 1:\n  ask('Well?'); {first}\n if start_from <= 2:\n  "
        self.texts = [
            f"<execute>\ndef solution(agent, start_from={start}):\n{code}{last}\n</execute>"
            for start, last in ((1, "assert False"), (2, second))
        ]

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if request.prompt.startswith("Answer the question."):
            return Pending.ready(Reply("yes"))
        return Pending.ready(Reply(self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]))


class GivesUpAtFirst(ExpertModel):
    """The expert, which gives up at first, and then has the same tried again as the one step of a plan."""

    def __init__(self) -> None:
        super().__init__()
        self.tried = False

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if isinstance(request.may_say, FreeText):
            return Pending.ready(Reply(f"Step 1: {request.prompt.rpartition('Task: ')[2].partition(chr(10))[0]}"))
        if self.tried:
            return super().decide(request)
        self.tried = True
        return Pending.ready(Reply("Act: failure"))


MODELS: dict[str, Callable[[list[str]], LanguageModel]] = {
    **dict.fromkeys(("reactree", "reactree_wm", "react", "react_wm", "hiagent", "hiagent_wm"), lambda _: ExpertModel()),
    "tree_planner:plans=3": lambda plan: Plan(plan, whole=True),
    "zsp": lambda plan: Plan(plan, whole=False),
    "recode": lambda plan: Coder(code_of(plan)),
    **dict.fromkeys(("adapt", "adapt_wm"), lambda _: GivesUpAtFirst()),
    "codeact": lambda plan: InTwoTurns(plan),
    "adaplanner": lambda plan: RefinesThePlan(plan),
}
#: Those whose code runs in the sandbox.
CODE = ("recode", "codeact", "adaplanner")
#: How a run may end where nothing is done to it, or before it is.
WELL = {"done", "failure", "out_of_decisions"}
#: How it ends where something is, in the middle of it: model, world and options are changed by where that is.
Ending = tuple[set[str], Callable[[int, dict[str, Any]], None]]


def _model(what: Exception | str | None) -> Callable[[int, dict[str, Any]], None]:
    return lambda at, given: given.update(model=Fails(given["model"], at, what))


def _world(**how: Any) -> Callable[[int, dict[str, Any]], None]:
    return lambda at, given: given.update(world=Breaks(given["world"], at, **how))


def _options(**given_at: Callable[[int], int]) -> Callable[[int, dict[str, Any]], None]:
    def change(at: int, given: dict[str, Any]) -> None:
        given["options"] = given["options"].model_copy(update={name: of(at) for name, of in given_at.items()})

    return change


def _no_memory(at: int, given: dict[str, Any]) -> None:
    given["examples"] = lambda subgoal: Pending.failed(OSError("the disk is gone"))


def _no_time(at: int, given: dict[str, Any]) -> None:
    _model(None)(at, given)
    _options(max_seconds=lambda at: 5000.0, decision_timeout=lambda at: 86400.0)(at, given)


ENDINGS: dict[str, Ending] = {
    "as it comes": (WELL, lambda at, given: None),
    "gave up": ({"failure", *WELL}, _model(InvalidReply("none of what may be said"))),
    "nonsense": ({"refused", "stuck", *WELL}, _model("sing <b>\u202e\x1b[31m \ud83d")),
    "out of decisions": ({"out_of_decisions", *WELL}, _options(max_decisions=lambda at: at)),
    "out of steps": ({"out_of_steps", *WELL}, _options(max_steps=lambda at: 1 + at // 2)),
    "out of tokens": ({"out_of_tokens", *WELL}, _options(max_prompt_tokens=lambda at: 100 * at)),
    "out of time": ({"out_of_time", *WELL}, _no_time),
    "context full": ({"context_full", *WELL}, _model(PromptTooLong(7, 100))),
    "model gone": ({"model_gone", *WELL}, _model(ServerUnavailable("it rains"))),
    "model late": ({"too_slow", *WELL}, _model(None)),
    "world gone": ({"world_gone", *WELL}, _world(error=WorldError("no arm"))),
    "held": ({"held", *WELL}, _world(halted="the button")),
    "memory gone": ({"memory_gone", *WELL}, _no_memory),
    "bug": ({"bug", *WELL}, _model(KeyError("fridge"))),
    "canceled": ({"interrupted", *WELL}, lambda at, given: None),
}


def carry_out(episode: Any, clock: Clock, *, ticks: int | None = None) -> str:
    """Tick to the end, or to a cancel after so many ticks; where nothing comes any more, time passes."""
    model = episode.context.model
    while not episode.finished:
        if ticks is not None and episode.tree.count >= ticks:
            episode.interrupt()
            return str(episode.conclude().end)
        episode.tick()
        holds = any(node.feedback_message.startswith("held: ") for node in episode.context.nodes)
        if holds or getattr(model, "silent", False):
            clock.now += 1e4
        else:
            episode.wait()  # for what a thread works out: an embedding, code in a sandbox
    return str(episode.scored().end)


#: Of a planner that needs what is not here: sentence embeddings.
BUILDERS: dict[str, Any] = {
    "zsp": Builds(lambda goal, context: ZspNode(goal, context, max_plan=50, embedder=WordEmbedder())),
}


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("house", HOUSES)
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", [pytest.param(one, marks=[needs_monty] if one in CODE else []) for one in MODELS])
def test_whatever_the_end_a_run_is_played_again(name: str, ending: str, house: int, seed: int) -> None:
    document = generate_house(seed=house, tasks=3)[seed % 3]
    task = parse_tasks([document])[0]
    plan = [*(tidied(skill) for skill in solution(document)), "done"]
    at, clock = 1 + (5 * house + 3 * seed) % 9, Clock()
    given: dict[str, Any] = {
        "model": MODELS[name](plan),
        "world": SymbolicWorld(task),
        "options": TreeOptions(seed=seed, max_decisions=60),
        "instruction": task.instruction,
        "clock": clock,
    }
    ends, change = ENDINGS[ending]
    change(at, given)
    episode, kept = recorded_episode({}, name=name, builder=BUILDERS.get(name), **given)
    end = carry_out(episode, clock, ticks=at if ending == "canceled" else None)
    assert end in ends
    assert_replays(kept, BUILDERS.get(name))


@pytest.mark.slow
def test_every_ending_is_reached_by_some_planner() -> None:
    for ending, (ends, change) in ENDINGS.items():
        given: dict[str, Any] = {"options": TreeOptions(max_decisions=60), "clock": (clock := Clock())}
        given |= {"model": ExpertModel(), "world": SymbolicWorld(parse_tasks(generate_house(seed=1, tasks=1))[0])}
        change(3, given)
        episode, _ = recorded_episode({}, instruction="Put 1 apple on the coffee table", **given)
        end = carry_out(episode, clock, ticks=3 if ending == "canceled" else None)
        assert end in (ends - WELL or WELL), ending


@pytest.mark.slow
@needs_monty
def test_code_that_ran_out_of_time_is_played_again() -> None:
    limits = Limits(seconds=0.3)

    def build(goal: str, context: Any) -> Any:
        root: Any = planner("recode").build(goal, context)
        root._shared.limits = limits
        return root

    code = {"solve": ["while True:\n    pass", "run('open fridge 1')"]}
    kept: Kept
    episode, kept = recorded_episode({}, builder=Builds(build), model=Coder(code), world=ScriptedWorld())
    assert episode.run().end == "done"
    assert "TimeoutError" in kept.events_of("refused")[0]["reason"]
    assert_replays(kept, Builds(build))


class Hasty(LanguageModel):
    """Says whatever may be said, by chance, and soon that it is done."""

    def __init__(self, seed: int, goals: list[str]) -> None:
        self._random, self._goals = random.Random(seed), goals

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if not isinstance(may_say := request.may_say, DecisionGrammar):
            return Pending.ready(Reply("nothing"))
        said = ["Act: done"] * 3 + [f"Act: {self._random.choice([*may_say.skills])}"] * 6
        said += ["Act: fly", "Think: what now?", "Ask: Which one?", f"Act: {self._random.choice(self._goals)}"]
        said += [expand(flow.name, *self._goals[:2]) for flow in [*may_say.control_flows][:3]]
        return Pending.ready(Reply(self._random.choice(said)))


GOALS = [
    "Put 1 apple on the bookshelf",
    "Open the garage door and the coffee maker",
    "Bring a slice of bread and the book to the kitchen table",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["react", "react_wm", "react:questions=3", "reactree", "reactree_wm:re_expand=2"])
@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    thoughts=st.integers(0, 2),
    checks=st.booleans(),
    heard=st.sampled_from(["", "the apple is in the fridge", "no, the other one"]),
    limit=st.integers(3, 40),
)
def test_whatever_changes_what_is_asked_is_in_the_record(
    name: str, seed: int, thoughts: int, checks: bool, heard: str, limit: int
) -> None:
    task = parse_tasks(generate_house(seed=seed % 5, tasks=1))[0]
    options = TreeOptions(thoughts_in_a_row=thoughts, check_done=checks, max_decisions=limit, stuck_after=6)
    episode, kept = recorded_episode(
        {},
        name=name,
        model=Hasty(seed, GOALS),
        world=SymbolicWorld(task),
        options=options,
        person=Says(*["the second one"] * 9),
        instruction=f"{GOALS[seed % 3]}. {task.instruction}",
    )
    while not episode.finished:
        episode.tick()
        if heard and episode.tree.count == 3 and not episode.finished:
            episode.hear(heard)
    episode.scored()
    assert_replays(kept)
