"""Runs of every planner, with every ending, are played again identically from their records."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from doubles import Builds, Clock, ScriptedModel, ScriptedWorld, expand
from drawn import data_of, drawn
from recorded_runs import Kept, assert_replays, recorded_episode

from reactree_lab.household.generator import generate_house
from reactree_lab.recordings import episode_of, load_recording
from reactree_ros.agent.observation import Spot
from reactree_ros.agent.turns import Told
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.episode.player import replay
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.port import (
    DecisionRequest,
    FreeText,
    LanguageModel,
    PromptTooLong,
    Reply,
    ServerUnavailable,
)
from reactree_ros.memory.experience import End, Experience
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.record.moment import Moment
from reactree_ros.record.reader import Record
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.options import TreeOptions
from reactree_ros.tree.program_node import Program
from reactree_ros.world.port import Observation, Outcome, Score, Seen, World, WorldError
from reactree_ros.world.wrappers import WorldWrapper


class Late(LanguageModel):
    """Answers when a tick has passed."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._waiting: list[tuple[Pending[Reply], DecisionRequest]] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        pending: Pending[Reply] = Pending()
        self._waiting.append((pending, request))
        return pending

    def settle(self) -> None:
        waiting, self._waiting = self._waiting, []
        for pending, request in waiting:
            pending.succeed(self._model.decide(request).take())


class LateWorld(WorldWrapper):
    """Looks around, and carries skills out, when a tick has passed."""

    def __init__(self, inner: World) -> None:
        super().__init__(inner)
        self._waiting: list[tuple[Pending[Any], Pending[Any]]] = []

    def _later(self, source: Pending[Any]) -> Pending[Any]:
        pending: Pending[Any] = Pending()
        self._waiting.append((pending, source))
        return pending

    def observe(self) -> Pending[Observation]:
        return self._later(super().observe())

    def available_skills(self) -> Pending[Any]:
        return self._later(super().available_skills())

    def execute(self, skill: str) -> Pending[Observation]:
        return self._later(super().execute(skill))

    def settle(self) -> None:
        waiting, self._waiting = self._waiting, []
        for pending, source in waiting:
            pending.succeed(source.take())


def test_what_comes_later_than_the_tick_is_played_again_between_the_same_ticks() -> None:
    task = parse_tasks(generate_house(seed=3, tasks=1))[0]
    model, world = Late(ExpertModel()), LateWorld(SymbolicWorld(task))
    episode, kept = recorded_episode({}, model=model, world=world, instruction=task.instruction)
    while not episode.finished:
        episode.tick()
        model.settle()
        episode.tick()
        world.settle()
    episode.scored()
    skills = {node["node"] for event in kept.events_of("grow") for node in event["nodes"] if node["kind"] == "skill"}
    running = {node for event in kept.events_of("status") for node, status, *_ in event["of"] if status == "running"}
    assert skills & running  # a skill was seen under way
    assert_replays(kept)


# ---------------------------------------------------------------------- endings


class Breaking(ScriptedWorld):
    """A world in which one call goes wrong."""

    def __init__(self, what: str, error: Exception | None = None) -> None:
        super().__init__()
        self._what, self._error = what, error

    def _broken(self, what: str) -> Pending[Any] | None:
        if what != self._what:
            return None
        return Pending() if self._error is None else Pending.failed(self._error)

    def observe(self) -> Pending[Observation]:
        return self._broken("observe") or super().observe()

    def available_skills(self) -> Pending[Any]:
        return self._broken("skills") or super().available_skills()

    def execute(self, skill: str) -> Pending[Observation]:
        return self._broken("execute") or super().execute(skill)

    def score(self) -> Pending[Score | None]:
        return self._broken("score") or super().score()


class Failing(ScriptedModel):
    """Fails at the third request."""

    def __init__(self, error: Exception | None, *, raises: bool = False) -> None:
        super().__init__({"root": ["Think: a", "Act: open fridge 1", "Act: done"]})
        self._error, self._raises = error, raises

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if len(self.requests) < 2:
            return super().decide(request)
        if self._raises and self._error is not None:
            raise self._error
        return Pending() if self._error is None else Pending.failed(self._error)


class Unheard(Exception):
    """Of a model that nobody knows."""


ACTS = {"root": ["Think: a", "Act: open fridge 1", "Act: done"]}
ENDINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "done": ("done", {}),
    "failure": ("failure", {"model": ScriptedModel({"root": ["Act: failure"]})}),
    "refused replies": ("done", {"model": ScriptedModel({"root": ["sing", "Act: fly", "Act: done"]})}),
    "nothing but refusals": (
        "refused",
        {"model": ScriptedModel({"root": ["sing"] * 9}), "options": TreeOptions(max_decisions=4)},
    ),
    "model raises": ("model_gone", {"model": Failing(ServerUnavailable("it rains"), raises=True)}),
    "bug of a model": ("bug", {"model": Failing(Unheard("what is this?"))}),
    "world gone at the start": ("world_gone", {"world": Breaking("observe", WorldError("no graph"))}),
    "world gone in a skill": ("world_gone", {"world": Breaking("execute", WorldError("no arm"))}),
    "world without skills": ("world_gone", {"world": Breaking("skills", WorldError("no list"))}),
    "bug of a world": ("bug", {"world": Breaking("skills", KeyError("fridge"))}),
    "no score": ("world_gone", {"world": Breaking("score", WorldError("no graph"))}),
    "hostile words": (
        "done",
        {"model": ScriptedModel({"root": ["Think: <b>\u202e\x1b[31m</script> \ud83d", "Act: done"]})},
    ),
}


@pytest.mark.parametrize(("end", "given"), ENDINGS.values(), ids=ENDINGS)
def test_every_ending_is_played_again(end: str, given: dict[str, Any]) -> None:
    episode, kept = recorded_episode(ACTS, **given)
    assert episode.run().end == end
    assert_replays(kept)
    assert Moment.after(kept.record.events).result == kept.record.events[-1]["result"]


LATE: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "reply": ("too_slow", {"model": Failing(None)}, ["reply"]),
    "observation": ("world_gone", {"world": Breaking("observe")}, ["observe"]),
    "examples": ("memory_gone", {"examples": lambda subgoal: Pending()}, ["examples"]),
}


@pytest.mark.parametrize(("end", "given", "of"), LATE.values(), ids=LATE)
def test_what_did_not_come_in_time_does_not_come_in_time_again(end: str, given: dict[str, Any], of: list[str]) -> None:
    clock = Clock()
    episode, kept = recorded_episode(ACTS, clock=clock, **given)
    for _ in range(5):
        episode.tick()
    clock.now += 1e4
    assert episode.run().end == end
    assert [event["of"] for event in kept.events_of("failed") if event["late"]] == of
    assert_replays(kept)


def test_a_bug_of_a_planner_is_played_again() -> None:
    class Buggy(GoalNode):
        def program(self) -> Program:
            yield from self.look_around()
            raise ZeroDivisionError("division by zero")

    builder = Builds(lambda goal, context: Buggy(goal, context))
    episode, kept = recorded_episode({}, builder=builder)
    assert episode.run().end == "bug"
    assert_replays(kept, builder)


@pytest.mark.parametrize("ticks", range(0, 9, 2))
def test_a_run_that_was_interrupted_is_played_again(ticks: int) -> None:
    script = {"root": [expand("sequence", "a", "b")], "a": [*["Think: x"] * 9, "Act: done"], "b": []}
    episode, kept = recorded_episode(script, model=ScriptedModel(script, settle=ticks != 4))
    for _ in range(ticks):
        episode.tick()
    episode.interrupt()
    assert episode.conclude().end == "interrupted"
    assert_replays(kept)


def test_a_run_that_control_c_broke_off_in_the_middle_of_a_tick_is_played_again() -> None:
    class Stops(ScriptedWorld):
        def execute(self, skill: str) -> Pending[Observation]:
            raise KeyboardInterrupt

    episode, kept = recorded_episode(ACTS, world=Stops())
    with pytest.raises(KeyboardInterrupt):
        episode.run()
    assert kept.record.events[-1]["result"]["end"] == "interrupted"
    assert_replays(kept)


class Stop(ScriptedWorld):
    """A world with an emergency stop."""

    stop = ""

    def halted(self) -> str:
        return self.stop


@pytest.mark.parametrize("ticks", range(1, 8))
@pytest.mark.parametrize("settle", [True, False])
def test_holds_are_played_again_where_they_came(ticks: int, settle: bool) -> None:
    script = {"root": ["Think: a", "Act: open fridge 1", "Act: go to kitchen 1", *["Act: done"] * 3]}
    world, model = Stop(settle=settle), ScriptedModel(script, settle=settle)

    def go_on(times: int) -> None:
        for _ in range(times):
            if not episode.finished:
                episode.tick()
            world.settle_all()
            model.settle_all()

    episode, kept = recorded_episode(ACTS, world=world, model=model)
    go_on(ticks)
    world.stop = "the button"
    go_on(3)
    world.stop = "the other button"
    go_on(2)
    world.stop = ""
    for _ in range(30):
        go_on(1)
    assert episode.scored().end == "done"
    assert_replays(kept)


def test_pictures_and_odd_outcomes_are_played_again() -> None:
    taken = drawn(7, width=3, camera="head", frame="head_optical", words="an apple")

    class Camera(ScriptedWorld):
        def execute(self, skill: str) -> Pending[Observation]:
            seen = (Seen("apple", 2, None, held=True, states=("HOT",)), Seen("egg", 1, "kitchen 1", "fridge 1"))
            spots = (Spot("", 1.0, 2.0, 0.5), Spot("fridge 1", 1.5, 2.5, outline=((1.0, 2.0), (2.0, 2.0), (2.0, 3.0))))
            more = ("fridge 1", ("kitchen 1",), (taken, taken), spots)
            return Pending.ready(Observation("\ud83d", Outcome.EXECUTION, seen, *more))

    episode, kept = recorded_episode(ACTS, world=Camera())
    episode.run()
    came = kept.events_of("observation")[-1]
    said = {"media": "image/png", "width": 3, "height": 4, "size": taken.size, "camera": "head"}
    said |= {"id": taken.id, "frame": "head_optical", "words": "an apple"}
    assert came["pictures"] == [said | {"data": base64.b64encode(data_of(taken)).decode()}, said], "its bytes once"
    assert kept.events_of("turn")[-2]["saw"].endswith("\nPicture of camera head: an apple")
    assert came["spots"] == [
        {"name": "", "x": 1.0, "y": 2.0, "yaw": 0.5},
        {"name": "fridge 1", "x": 1.5, "y": 2.5, "outline": [[1.0, 2.0], [2.0, 2.0], [2.0, 3.0]]},
    ]
    assert_replays(kept)


# ---------------------------------------------------------------------- memory and tokenizers


class Room(ScriptedModel):
    """Counts tokens with a tokenizer of its own, and takes prompts of so many."""

    def count_tokens(self, text: str) -> int:
        return len(text)

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        excess = len(request.prompt) - 4000
        return Pending.failed(PromptTooLong(excess, 4000)) if excess > 0 else super().decide(request)


def test_examples_that_were_found_and_left_out_are_played_again(tmp_path: Path) -> None:
    from memory.word_hash_embedder import WordHashEmbedder

    with SqliteMemory(tmp_path / "memory.db", WordHashEmbedder()) as memory:
        for number in range(4):
            turns = (Told("Your task is to: root"), Told(f"{'long ' * 300}{number}"))
            memory.add_run([Experience("root", turns, End.SUCCESS, "1", "x", number, 1)])
        episode, kept = recorded_episode({}, model=Room(ACTS), memory=memory)
        assert episode.run().end == "done"
    (retrieved,) = kept.events_of("retrieved")
    assert [one["similarity"] for one in retrieved["experiences"]] == [1.0] * len(retrieved["experiences"])
    assert kept.events_of("shortened")
    assert kept.events_of("counted")
    assert_replays(kept)


def test_summaries_that_a_tokenizer_asked_for_are_played_again() -> None:
    script = {"root": [f"Think: {number} {'so ' * 30}" for number in range(8)] + ["It is done.", "Act: done"]}
    name = "reactree:summarise_after=300:fixed_example=false"

    class Any_(Room):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            return Pending.ready(Reply("Short.")) if isinstance(request.may_say, FreeText) else super().decide(request)

    episode, kept = recorded_episode(script, name=name, model=Any_(script), options=TreeOptions(max_decisions=8))
    episode.run()
    assert any(event["may_say"]["kind"] == "text" for event in kept.events_of("request"))
    assert_replays(kept)


# ---------------------------------------------------------------------- what is not the same


def changed(kept: Kept, kind: str, **values: Any) -> Record:
    events = [json.loads(line) for line in kept.lines]
    next(event for event in events if event["e"] == kind).update(values)
    return Record(events)


@pytest.mark.parametrize(
    ("kind", "values", "difference"),
    [
        ("observation", {"text": "You see a dragon."}, "saw is"),
        ("reply", {"text": "Think: b"}, "think is"),
        ("decided", {"decisions": 5}, "decisions is 1, recorded 5"),
        ("run", {"instruction": "sing"}, "nodes is"),
        ("end", {"failures": [{"kind": "bug", "message": ""}]}, "failures is []"),
        ("grow", {"nodes": []}, "nodes is"),
        ("observation", {"outcome": "sung"}, "cannot be used"),
    ],
)
def test_a_record_that_was_changed_departs_where_it_was(kind: str, values: dict[str, Any], difference: str) -> None:
    episode, kept = recorded_episode(ACTS)
    episode.run()
    replayed = replay(changed(kept, kind, **values))
    assert not replayed.identical
    assert difference in replayed.difference


def test_a_record_that_misses_an_event_departs_there() -> None:
    episode, kept = recorded_episode(ACTS)
    episode.run()
    for number in range(2, len(kept.lines)):
        events = [json.loads(line) for at, line in enumerate(kept.lines) if at != number]
        assert not replay(Record(events)).identical or number == len(kept.lines) - 1, kept.lines[number]


def test_every_beginning_of_a_record_is_played_again() -> None:
    episode, kept = recorded_episode(
        {"root": [expand("fallback", "a", "b")], "a": ["Act: failure"], "b": ["Act: done"]}
    )
    episode.run()
    events = kept.record.events
    for count in range(1, len(events) + 1):
        replayed = replay(Record(events[:count]))
        assert (replayed.difference, replayed.events) == ("", count)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["react", "react_wm", "reactree", "reactree_wm"])
def test_the_authors_runs_are_converted_to_records_that_are_played_again(wah_nl: Path, variant: str) -> None:
    for run in load_recording(wah_nl / "trajectories" / f"{variant}.jsonl")[:12]:
        kept = Kept()
        episode: Episode = episode_of(run, variant, write=kept.write)
        episode.run()
        assert kept.record.run["instruction"] == run.instruction
        assert_replays(kept)


def test_a_planner_that_is_not_here_is_named() -> None:
    from reactree_ros.errors import UserError

    episode, kept = recorded_episode(ACTS)
    episode.run()
    with pytest.raises(UserError, match="planner 'gardener' is unknown"):
        replay(changed(kept, "run", planner={"name": "gardener", "options": {}}))
    with pytest.raises(UserError, match="what the run is cannot be used"):
        replay(changed(kept, "run", options={"max_depth": "deep"}))
