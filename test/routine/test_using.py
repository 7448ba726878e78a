"""A routine is run instead of decisions; what is not as expected, an agent node goes on from."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from doubles import ScriptedModel
from houses import Came, Refusing, carry_out, tasks
from memory.word_hash_embedder import WordHashEmbedder
from persons import Says
from recorded_runs import assert_replays

from reactree_ros.background.pending import Pending
from reactree_ros.episode.going_on import go_on
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import moved
from reactree_ros.memory.port import EpisodicMemoryError
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.routine import model
from reactree_ros.routine.fitting import Kept
from reactree_ros.tree.options import Routines, TreeOptions
from reactree_ros.world.port import Observation, Outcome, World
from reactree_ros.world.skill_policy import policy_from_list
from reactree_ros.world.wrappers import PolicyGuard, WorldWrapper

(TASK, *_) = (task for task in tasks(1, 8) if len(task.goal) == 1)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("once") / "memory.db"
    with SqliteMemory(path, WordHashEmbedder()) as memory:
        assert carry_out(TASK, memory).requests > 5
        assert len(memory.routines()) == 1
    return path


@pytest.fixture
def learnt(once: Path, tmp_path: Path) -> Iterator[SqliteMemory]:
    with SqliteMemory(shutil.copy(once, tmp_path / "learnt.db"), WordHashEmbedder()) as memory:
        yield memory


def refusing(skill: str, outcome: Outcome = Outcome.EXECUTION) -> World:
    return Refusing(SymbolicWorld(TASK), skill, outcome, times=1)


def did_by_routine(came: Came) -> bool:
    return came.used == [""] and came.requests == 0 and came.result.gsr == 1.0


def test_the_second_time_no_model_is_asked(learnt: SqliteMemory) -> None:
    came = carry_out(TASK, learnt, model=ScriptedModel({}))
    assert did_by_routine(came)
    assert came.result.decisions == 0
    assert came.result.steps == len(came.skills)
    assert_replays(came.kept)


@pytest.mark.parametrize("seed", range(1, 6))
def test_things_at_other_places_are_found_there(learnt: SqliteMemory, seed: int) -> None:
    assert did_by_routine(carry_out(TASK, learnt, world=SymbolicWorld(moved(TASK, seed))))


def test_of_other_things_the_same_is_done(learnt: SqliteMemory) -> None:
    (routine,) = Kept(learnt).all().values()
    other = next(task for task in tasks(1, 8) if task is not TASK and len(task.goal) > 1)
    thing, place = (other.word_of(getattr(other.goal[0], name)) for name in ("item", "target"))
    values = {role.name: {"thing": thing, "place": place}[role.kind] for role in routine.roles}
    came = carry_out(other, learnt, instruction=routine.goal.format(**values))
    assert came.used == [""]
    assert came.result.ssr == 1 / len(other.goal)


@pytest.mark.parametrize(("first", "again"), [(Routines.OFF, Routines.OFF), (Routines.ON, Routines.OFF)])
def test_without_being_wanted_nothing_is_learnt_or_run(memory: SqliteMemory, first: Routines, again: Routines) -> None:
    assert TreeOptions().routines is Routines.OFF
    carry_out(TASK, memory, routines=first)
    assert len(memory.routines()) == (first is Routines.ON)
    came = carry_out(TASK, memory, routines=again)
    assert (came.used, came.kept.events_of("routine")) == ([], [])
    assert came.requests > 5


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_search_looks_at_tables_before_it_opens_cupboards(memory: SqliteMemory, seed: int) -> None:
    start = moved(TASK, seed)
    scene = SymbolicWorld(start).scene
    hidden = next(one for one in scene.things.values() if "GRABBABLE" in one.properties and scene.hidden(one))
    find = model.Search(finds="it", of=hidden.word)
    Kept(memory).add(model.Routine(name="find", goal="find something", body=find))
    came = carry_out(TASK, memory, world=SymbolicWorld(start), instruction="find something")
    assert came.used == [""]
    shown, open_here = set[str](), set[str]()
    for event, after in pairwise(event for event in came.kept.record.events if event["e"] in ("skill", "observation")):
        if event["e"] != "skill":
            continue
        names = {f"{seen['word']} {seen['instance']}": seen for seen in after["seen"]}
        if event["skill"].startswith("open"):
            assert open_here <= shown
        elif event["skill"].removeprefix("go to ") not in rooms_of(scene):
            shown |= {*names}
        else:
            fixed = (name for name in names if "GRABBABLE" not in scene.by_name[name].properties)
            open_here = {name for name in fixed if "CLOSED" not in names[name].get("states", ())}


def rooms_of(scene: Any) -> set[str]:
    return {room.name for room in scene.rooms}


# ---------------------------------------------------------------------- what is not as expected


@pytest.mark.parametrize("verb", ["go to", "pick up", "put down"])
@pytest.mark.parametrize("outcome", [Outcome.EXECUTION, Outcome.PRECONDITION, Outcome.TIMEOUT])
def test_an_agent_node_goes_on_and_does_nothing_twice(learnt: SqliteMemory, verb: str, outcome: Outcome) -> None:
    came = carry_out(TASK, learnt, world=refusing(verb, outcome))
    (reason,) = came.used
    assert reason.endswith("The gripper slipped.")
    assert came.result.gsr == 1.0
    assert came.requests > 0
    (told,) = [
        event["told"] for event in came.kept.events_of("turn") if event.get("told", "").startswith("Done for this by")
    ]
    assert "The gripper slipped." in told
    done = told.partition(": ")[2].partition(". Then")[0].split("; ")
    assert done == came.skills[: len(done)] or done == ["nothing"]
    lasting = [skill for skill in done if skill.startswith(("pick up", "put down"))]
    assert not set(lasting) & set(came.skills[len(done) + 1 :])
    assert_replays(came.kept)
    (routine,) = Kept(learnt).all().values()
    assert (routine.counts.uses, routine.counts.successes) == (1, 0)
    assert routine.counts.last_failure == reason


def test_one_that_fails_too_often_is_not_used_any_more_and_is_learnt_anew(learnt: SqliteMemory) -> None:
    for _ in range(9):
        if not carry_out(TASK, learnt, world=refusing("put down")).used:
            break
    else:
        pytest.fail("it is used however often it failed")
    (routine,) = Kept(learnt).all().values()
    assert routine.counts.uses <= 3
    assert did_by_routine(carry_out(TASK, learnt)) is (routine.counts.runs > 1 and not routine.counts.last_failure)


def test_a_skill_policy_holds(learnt: SqliteMemory) -> None:
    allowed = [{"skill": verb, "verdict": "allow"} for verb in ("go to", "open", "close", "pick up", "put down")]
    thing = TASK.word_of(TASK.goal[0].item)
    rules = [{"skill": "pick up", "object": thing, "verdict": "deny"}, *allowed]
    world = PolicyGuard(
        SymbolicWorld(TASK), policy_from_list(rules, where="here"), lambda skill, why: Pending.ready("")
    )
    came = carry_out(TASK, learnt, world=world, options=TreeOptions(max_decisions=30))
    assert "the skill policy says deny" in came.used[0]
    assert not any(event["outcome"] == "done" for event in picked_up(came))


def picked_up(came: Came) -> list[dict[str, Any]]:
    events = came.kept.record.events
    return [
        after
        for event, after in pairwise(events)
        if event["e"] == "skill" and event["skill"].startswith("pick up") and after["e"] == "observation"
    ]


@pytest.mark.parametrize("error", [EpisodicMemoryError("the disk is full"), TimeoutError()])
def test_a_use_that_cannot_be_counted_is_told_and_loses_nothing(
    learnt: SqliteMemory, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(Kept, "used", lambda *_: Pending.failed(error))
    came = carry_out(TASK, learnt)
    assert did_by_routine(came)
    (told,) = came.episode.learning.report
    assert told.startswith("What came of a routine is not counted: ")
    assert told.endswith(("the disk is full", "it takes longer than 10 s"))


def test_the_budget_holds(learnt: SqliteMemory) -> None:
    came = carry_out(TASK, learnt, options=TreeOptions(max_steps=3))
    assert (came.result.end, came.result.steps, came.requests) == ("out_of_steps", 3, 0)


# ---------------------------------------------------------------------- resumed runs


@pytest.mark.parametrize("differs", [False, True])
@pytest.mark.parametrize("at", ["skill", "its end", "after it", "the end"])
def test_a_run_that_is_resumed_counts_a_routine_once(learnt: SqliteMemory, differs: bool, at: str) -> None:

    def world() -> World:
        return refusing("put down") if differs else SymbolicWorld(TASK)

    before = carry_out(TASK, learnt, world=world()).kept.record
    kinds = [event["e"] for event in before.events]
    ended = kinds.index("routine_ended")
    until = {"skill": ended // 2, "its end": ended, "after it": ended + 1, "the end": len(kinds) - 1}[at]
    resumed = go_on(before, until, world=world(), model=ExpertModel(), memory=learnt)
    result = resumed.run()
    resumed.remember(result)
    assert result.gsr == 1.0
    (routine,) = Kept(learnt).all().values()
    again = until <= ended  # the run that was stopped there has not counted it
    assert (routine.counts.uses, routine.counts.successes) == (1 + again, (1 + again) * (not differs))


# ---------------------------------------------------------------------- the person


@pytest.mark.parametrize(("words", "by_routine"), [("yes", True), ("no", False), ("maybe", False)])
def test_a_person_may_say_no_before(learnt: SqliteMemory, words: str, by_routine: bool) -> None:
    person = Says(words)
    came = carry_out(TASK, learnt, routines=Routines.PROPOSE, person=person)
    assert did_by_routine(came) is by_routine
    assert TASK.instruction.rstrip(".") in person.asked[0].text
    assert came.result.gsr == 1.0
    assert_replays(came.kept)


def test_without_a_person_nothing_is_proposed(learnt: SqliteMemory) -> None:
    came = carry_out(TASK, learnt, routines=Routines.PROPOSE)
    assert (came.used, came.result.gsr) == ([], 1.0)


class Interrupts(WorldWrapper):
    """Skills take until the next tick; a person says something when one is carried out."""

    episode: Any = None
    says = "not that one"

    def __init__(self, inner: World) -> None:
        super().__init__(inner)
        self._under_way: list[tuple[Pending[Observation], Observation]] = []

    def execute(self, skill: str) -> Pending[Observation]:
        if self.says and skill.startswith("pick up"):
            words, self.says = self.says, ""
            self.episode.hear(words)
        self._under_way.append((Pending(), self.inner.execute(skill).result()))
        return self._under_way[-1][0]

    def halted(self) -> str:
        under_way, self._under_way = self._under_way, []
        for pending, observation in under_way:
            pending.succeed(observation)
        return ""


@pytest.mark.slow
def test_what_a_person_says_on_the_way_is_taken_in_by_an_agent_node(learnt: SqliteMemory) -> None:
    world = Interrupts(SymbolicWorld(TASK))
    came = carry_out_with(world, learnt)
    assert came.used == ['the person says "not that one"']
    told = [event["told"] for event in came.kept.events_of("turn") if "told" in event]
    assert any('The person says: "not that one"' in one for one in told)


def test_a_person_may_stop_it(learnt: SqliteMemory) -> None:
    world = Interrupts(SymbolicWorld(TASK))
    world.says = "stop"
    came = carry_out_with(world, learnt)
    assert (came.result.end, came.requests) == ("interrupted", 0)
    assert len([skill for skill in came.skills if skill.startswith("put down")]) == 0


def carry_out_with(world: Interrupts, memory: SqliteMemory) -> Came:
    from recorded_runs import Kept as Lines

    from reactree_ros.episode import Episode
    from reactree_ros.household.expert.model import ExpertModel
    from reactree_ros.planners.spec import planner
    from reactree_ros.record.writer import Recorder

    kept = Lines()
    world.episode = episode = Episode(
        TASK.instruction,
        world=world,
        model=ExpertModel(),
        planner=planner("reactree_wm"),
        memory=memory,
        examples=None,
        options=TreeOptions(routines=Routines.ON),
        record=Recorder(kept.write),
    )
    return Came(episode, episode.run(), kept)


# ---------------------------------------------------------------------- other words


class Chooses(ScriptedModel):
    """Says which of the options it takes, by its place; keeps the requests."""

    def __init__(self, which: int) -> None:
        super().__init__({})
        self._which = which

    def decide(self, request: Any) -> Any:
        from reactree_ros.llm.port import Choice, Reply, RequestRejected

        self.requests.append(request)
        if not isinstance(request.may_say, Choice):
            return Pending.failed(RequestRejected("it only chooses"))
        return Pending.ready(Reply(request.may_say.options[self._which]))


@pytest.mark.parametrize(("which", "by_routine"), [(0, True), (-1, False)])
def test_for_a_goal_in_other_words_the_model_chooses_once(learnt: SqliteMemory, which: int, by_routine: bool) -> None:
    instruction = f"{TASK.instruction.rstrip('.')}, and be so kind"
    model = Chooses(which)
    options = TreeOptions(thoughts_in_a_row=1)
    came = carry_out(TASK, learnt, instruction=instruction, model=model, options=options)
    assert came.used == ([""] if by_routine else [])
    assert model.requests[0].may_say.options[-1] == "none of these"
    assert TASK.instruction.rstrip(".") in model.requests[0].may_say.options[0]
    if by_routine:
        assert (came.result.gsr, len(model.requests), came.result.decisions) == (1.0, 1, 1)
    assert_replays(came.kept)


def test_a_trained_model_is_not_asked_which_is_meant(learnt: SqliteMemory) -> None:
    model = Chooses(0)
    carry_out(TASK, learnt, instruction=f"{TASK.instruction.rstrip('.')}, and be so kind", model=model)
    assert model.requests[0].may_say.__class__.__name__ == "DecisionGrammar"
