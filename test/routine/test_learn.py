"""From a run to a routine: what was needed of it, with roles in place of things."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from doubles import AgentNodes, ScriptedModel, ScriptedWorld, expand
from houses import carry_out, tasks
from memory.word_hash_embedder import WordHashEmbedder

from reactree_ros.agent.control_flow import flow_named
from reactree_ros.agent.grammar import parse_decision
from reactree_ros.agent.household import Household
from reactree_ros.agent.parameters import Number, Person, Thing
from reactree_ros.agent.skill import Skill, skill_of, wait_skill
from reactree_ros.agent.turns import Said
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.episode.assembly import needed, tried_out
from reactree_ros.household.household import SKILLS
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, moved
from reactree_ros.llm.port import Reply
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.routine import model
from reactree_ros.routine.fitting import Kept, Routines
from reactree_ros.routine.learn import NotLearnt, learnt, overlooked
from reactree_ros.routine.use import vocabulary_of
from reactree_ros.tree.agent_node import Abilities
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, Outcome, Seen, World

EXTRA = (
    Skill(
        name="hand",
        wording="hand {thing} to {to}",
        parameters={"thing": Thing(), "to": Person(names=("Anna", "Bob"))},
        effect={"released": "thing"},
    ),
    Skill(
        name="pour", wording="pour {amount} ml into {thing}", parameters={"amount": Number(0, 500), "thing": Thing()}
    ),
    Skill(name="ring", wording="ring"),
)
FLOWS = tuple(map(flow_named, ("sequence", "fallback", "parallel", "repeat_until", "within")))


class Flat(ScriptedWorld):
    """A flat with declared skills, in which each skill goes well that is not refused."""

    recallable = ("mug", "apple")
    words = ("mug", "apple", "desk", "fridge", "kitchen")

    def __init__(self, refused: Sequence[str] = (), skills: Sequence[Skill] = SKILLS) -> None:
        super().__init__(refused=refused)
        self.household = Household(name="flat", skills=(*skills, *EXTRA, wait_skill(["the tray is full"])))
        self.skills = ("go to kitchen 1",)
        self._held: tuple[Seen, ...] = ()

    def execute(self, skill: str) -> Pending[Observation]:
        call = self.household.call(skill)
        self.executed.append(skill)
        if skill in self.refused:
            return Pending.ready(Observation(f"You cannot {skill}.", Outcome.PRECONDITION))
        seen = (
            Seen("mug", 1, "kitchen 1", "fridge 1" if "fridge" in skill else "desk 1"),
            Seen("mug", 2, "kitchen 1", "desk 1"),
            Seen("apple", 1, "kitchen 1", "fridge 1"),
        )
        held = {one.word for one in self._held}
        if call.value("held"):
            self._held = tuple(
                replace(one, held=True) for one in seen if f"{one.word} {one.instance}" == call.value("held")
            )
        if call.value("released"):
            self._held = ()
        return Pending.ready(
            Observation(f"You {skill}.", seen=(*(one for one in seen if one.word not in held), *self._held))
        )


class Taken(ScriptedModel):
    """Says what nobody has to read, and so may say what is not on offer."""

    def settle_all(self) -> None:
        settling, self.in_flight = self.in_flight, []
        for pending, text in settling:
            pending.succeed(Reply(text, said=(Said(text, parse_decision(text)),)))


def routine_of(
    script: Mapping[str, Sequence[str]],
    instruction: str,
    *,
    refused: Sequence[str] = (),
    words: str = "",
    skills: Sequence[Skill] = SKILLS,
) -> model.Routine:
    world = Flat(refused, skills)
    episode = Episode(
        instruction,
        world=world,
        model=Taken(
            {goal: [f"Act: {act}" if ":" not in act else act for act in acts] for goal, acts in script.items()}
        ),
        planner=AgentNodes(Abilities(FLOWS)),
        options=TreeOptions(stuck_after=0),
        working_memory=True,
    )
    if words:
        episode.hear(words)
    episode.run()
    return learnt(episode.root, vocabulary_of(world), run="run 1")


def leaves(routine: model.Routine) -> list[str]:
    return [
        f"find {node.of}" if isinstance(node, model.Search) else node.wording
        for node in routine.nodes
        if isinstance(node, model.Search | model.Skill)
    ]


BRING = "bring the mug to the desk"
FETCH = ("go to fridge 1", "open fridge 1", "pick up mug 1", "go to desk 1", "put down mug 1", "done")
FETCHED = ["find {thing_1}", "pick up {found_1}", "find {place_2}", "put down {found_1}"]


def test_things_become_roles_and_the_way_to_them_a_search() -> None:
    routine = routine_of({BRING: FETCH}, BRING)
    assert routine.goal == "bring the {thing_1} to the {place_2}"
    assert [(role.name, role.kind) for role in routine.roles] == [("thing_1", "thing"), ("place_2", "place")]
    assert leaves(routine) == FETCHED
    assert routine.name == "bring-the-thing-to-the-place"
    assert routine.origin == model.Origin(run="run 1", instruction=BRING, household="flat")


def test_a_way_that_has_more_than_a_place_is_kept_whole() -> None:
    drive = Skill(
        name="drive",
        wording="drive to {place} at {speed} m/s",
        parameters={"place": Thing(), "speed": Number(0, 2, 0.1)},
        effect={"at": "place"},
    )
    acts = ("drive to sink 1 at 0.5 m/s", "drive to fridge 1 at 0.5 m/s", "open fridge 1", "pick up mug 1", "ring")
    acts += ("drive to desk 1 at 0.8 m/s", "done")
    routine = routine_of({BRING: acts}, BRING, skills=(drive, *SKILLS[1:]))
    assert leaves(routine) == [act for act in acts if act not in (acts[0], "done")]


def test_a_search_begins_where_such_a_thing_was_and_names_no_one_place() -> None:
    (search, *_) = (node for node in routine_of({BRING: FETCH}, BRING).nodes if isinstance(node, model.Search))
    assert search.order == ("fridge", "kitchen")


def test_detours_refusals_recalls_and_what_was_done_in_vain_are_left_out() -> None:
    acts = ("recall location of mug", "go to desk 1", "go to kitchen 1", "close fridge 1", "open desk 1", *FETCH)
    assert leaves(routine_of({BRING: acts}, BRING, refused=["open desk 1"])) == FETCHED


def test_subgoals_in_a_sequence_become_one() -> None:
    script = {BRING: [expand("sequence", "get it", "put it")], "get it": [*FETCH[:3], "done"], "put it": FETCH[3:]}
    routine = routine_of(script, BRING)
    assert (leaves(routine), routine.body.kind) == (FETCHED, "sequence")


def test_a_branch_that_only_searched_is_left_out_of_a_fallback() -> None:
    script = {BRING: [expand("fallback", "look", "do it")], "look": ["go to kitchen 1", "failure"], "do it": FETCH}
    assert leaves(routine_of(script, BRING)) == FETCHED


def test_a_branch_that_tried_something_stays_before_the_one_that_succeeded() -> None:
    script = {BRING: [expand("fallback", "ring", "do it")], "ring": ["ring", "failure"], "do it": FETCH}
    routine = routine_of(script, BRING)
    assert (leaves(routine), routine.body.kind) == (["ring", *FETCHED], "fallback")


def test_parallel_repeat_until_and_within_stay() -> None:
    both = {BRING: [expand("parallel", "ring", "do it")], "ring": ["ring", "done"], "do it": FETCH}
    assert routine_of(both, BRING).body.kind == "parallel"
    again = {BRING: [expand("repeat until the tray is full", "do it")], "do it": FETCH}
    body = routine_of(again, BRING).body
    assert isinstance(body, model.RepeatUntil)
    assert (body.condition, [child.kind for child in body.children]) == (
        "the tray is full",
        ["search", "skill", "search", "skill"],
    )
    soon = routine_of({BRING: [expand("within 20 s", "do it")], "do it": FETCH}, BRING).body
    assert isinstance(soon, model.Within)
    assert soon.seconds == 20


def test_persons_and_numbers_that_the_goal_names_are_roles() -> None:
    goal = "pour 200 ml into the mug and hand it to Anna"
    acts = ("pick up mug 1", "pour 200 ml into mug 1", "hand mug 1 to Anna", "done")
    routine = routine_of({goal: acts}, goal)
    assert routine.goal == "pour {number_1} ml into the {thing_1} and hand it to {person_2}"
    assert leaves(routine) == [
        "find {thing_1}",
        *("pick up {found_1}", "pour {number_1} ml into {found_1}"),
        "hand {found_1} to {person_2}",
    ]


def test_what_the_goal_does_not_name_or_names_twice_stays_as_it_is() -> None:
    goal = "bring the mug to the desk, the mug of the kitchen"
    assert routine_of({goal: FETCH}, goal).goal == "bring the mug to the {place_1}, the mug of the kitchen"
    assert leaves(routine_of({"tidy up": FETCH}, "tidy up")) == [
        "find mug",
        "pick up {found_1}",
        "find desk",
        "put down {found_1}",
    ]


def test_braces_in_an_instruction_are_no_roles() -> None:
    goal = "bring the mug to the desk {now}"
    assert routine_of({goal: FETCH}, goal).goal == "bring the {thing_1} to the {place_2} {{now}}"


def test_a_part_that_was_left_out_is_left_out_and_taken_apart_with_its_default() -> None:
    pour = skill_of(
        {
            "name": "serve",
            "wording": "serve {what}[ for {who}][ in {seconds} s]",
            "parameters": {
                "what": "thing",
                "who": {"list": "person", "default": ["Anna"]},
                "seconds": {"number": {"from": 1, "to": 9}, "default": 5},
            },
        }
    )
    for wording, values in {
        "serve mug 1": ("mug 1", "Anna", "5"),
        "serve mug 1 for Anna and Bob": ("mug 1", "Anna and Bob", "5"),
        "serve {thing_1} for {person_2} in 7 s": ("{thing_1}", "{person_2}", "7"),
        "serve mug 1 in {number_1} s": ("mug 1", "Anna", "{number_1}"),
    }.items():
        taken = dict(zip(pour.parameters, values, strict=True))
        assert model.taken_apart(wording, pour) == taken
        assert model.say(pour, taken) == wording
    goal = "serve mug 1 for Bob"
    assert (
        leaves(
            routine_of(
                {goal: ["serve mug 1 in 7 s", "done"]},
                goal,
                skills=(replace(pour, parameters={**pour.parameters, "who": Person(default="Anna")}),),
            )
        )[-1]
        == "serve {found_1} in 7 s"
    )
    with pytest.raises(NotLearnt, match="'serve mug 1 for Anna and Bob' names a list"):
        routine_of({goal: ["serve mug 1 for Anna and Bob", "done"]}, goal, skills=(pour,))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ({"do": ["done"]}, "nothing was done"),
        ({"do": ["recall location of mug", "go to desk 1", "done"]}, "nothing was"),
    ],
)
def test_a_run_that_did_nothing_teaches_nothing(script: dict[str, list[str]], said: str) -> None:
    with pytest.raises(NotLearnt, match=said):
        routine_of(script, "do")


def test_what_the_goal_names_with_its_number_is_that_one() -> None:
    goal = "bring mug 2 to the desk"
    routine = routine_of({goal: ("pick up mug 2", "go to desk 1", "put down mug 2", "done")}, goal)
    assert routine.goal == "bring mug 2 to the {place_1}"
    assert leaves(routine) == ["find mug 2", "pick up {found_1}", "find {place_1}", "put down {found_1}"]
    assert overlooked(routine, KNOWN) == ""
    index = Routines([routine], KNOWN)
    assert [str(fit) for fit in index.fitting("Bring mug 2 to the fridge")] == ["bring mug 2 to the fridge"]
    for other in ("bring mug 1 to the desk", "bring the mug to the desk", "bring apple 2 to the desk"):
        assert index.fitting(other) == []


def test_what_the_goal_names_twice_or_by_number_is_closed_and_gone_to_at_the_end() -> None:
    acts = ("pick up mug 1", "go to fridge 1", "open fridge 1", "put down mug 1", "close fridge 1", "done")
    goal = "put the mug into the fridge and close the fridge"
    assert leaves(routine_of({goal: acts}, goal))[-1] == "close {found_2}"
    goal = "bring the mug to the fridge, then go to desk 1"
    assert leaves(routine_of({goal: (*acts[:-1], "go to desk 1", "done")}, goal))[-1] == "find desk 1"


BAKE = ("pick up apple 1", "go to fridge 1", "put down apple 1", "turn on fridge 1", "done")


@pytest.mark.parametrize(
    ("goal", "is_role"),
    [
        ("put the apple into the fridge and turn it on", True),
        ("put the apple into the fridge; then turn that on", True),
        ("put the apple into the icebox, and turn the fridge on", False),
        ("put the apple into the fridge and turn the ice box on", False),
        ("the fridge: put an apple inside and let the ice box run", False),
    ],
)
def test_what_a_goal_may_name_twice_in_words_that_nobody_knows_is_no_role(goal: str, is_role: bool) -> None:
    """Else "into the icebox, and turn the oven on" would put it into the oven."""
    routine = routine_of({goal: BAKE}, goal)
    assert ("place" in [role.kind for role in routine.roles]) is is_role
    assert ("fridge" in routine.goal) is not is_role
    assert leaves(routine)[-1] == "turn on {found_2}"


@pytest.mark.slow
def test_what_was_carried_though_nobody_wanted_it_is_left_out() -> None:
    task, routine = fetching()
    again, (find, take, way, put) = moving(task), model.children_of(routine.body)
    assert isinstance(find, model.Search)
    vain = [find.model_copy(update={"finds": "other", "of": other_thing(task)}), in_place(take, find), way]
    more = model.Sequence(children=(*vain, in_place(put, find), find, take, way, put))
    bigger = routine.model_copy(update={"body": more})
    assert tried_out(bigger, task.instruction, again) == ""
    assert leaves(needed(bigger, task.instruction, again)) == leaves(routine)


def fetching() -> tuple[Task, model.Routine]:
    for task in tasks(1, 20):
        with TemporaryDirectory() as folder, SqliteMemory(Path(folder) / "m.db", WordHashEmbedder()) as memory:
            carry_out(task, memory)
            (routine,) = Kept(memory).all().values()
        if [node.kind for node in routine.nodes] == ["sequence", "search", "skill", "search", "skill"]:
            return task, routine
    raise AssertionError("there is none")


def moving(task: Task) -> Callable[[int], World]:
    return lambda seed: SymbolicWorld(moved(task, seed) if seed else task)


def other_thing(task: Task) -> str:
    things = SymbolicWorld(task).scene.things.values()
    used = {task.word_of(one.item) for one in task.goal if one.item}
    return next(one.word for one in things if "GRABBABLE" in one.properties and one.word not in used)


def in_place(skill: model.Node, search: model.Search) -> model.Node:
    text = skill.model_dump_json().replace(f"{{{search.finds}}}", "{other}")
    return model.Skill.model_validate_json(text)


KNOWN = vocabulary_of(Flat())


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        (BRING, ""),
        ("please bring me a mug, and put it on the desk", ""),
        ("bring the glass of mug to the desk", ""),
        ("bring the red mug to the desk", "says 'red mug'"),
        ("bring 1 clean, red mug to the desk", "says 'clean red mug'"),
        ("bring the mug to my own desk", "says 'own desk'"),
        ("bring the mug of the fridge to the desk", "'fridge'"),
        ("bring the mug to the desk if the apple is there", "'apple'"),
        ("bring the mug to the desk, the mug of the kitchen", "'kitchen'"),
        ("bring the mug to the desk if it is clean", "'if'"),
        ("bring the mug to the desk, not the red one", "'not'"),
        ("bring every mug to the desk", "'every'"),
        ("bring the mugs to the desk", "'several'"),
        ("when the tray is full, bring the mug to the desk", "'when'"),
    ],
)
def test_what_a_goal_says_and_no_node_stands_for_is_found(goal: str, said: str) -> None:
    found = overlooked(routine_of({goal: FETCH}, goal), KNOWN)
    assert said in found
    assert bool(found) is bool(said)


def test_what_a_wait_stands_for_is_not_overlooked() -> None:
    goal = "when the tray is full, bring the mug to the desk"
    waited = {goal: ("wait until the tray is full for up to 60 s", *FETCH)}
    assert overlooked(routine_of(waited, goal), KNOWN) == ""


def test_nothing_is_learnt_of_a_goal_that_says_more_where_nobody_can_try_it_out(memory: SqliteMemory) -> None:
    task = next(task for task in tasks(1, 8) if f"the {task.word_of(task.goal[0].item)}" in task.instruction)
    thing = task.word_of(task.goal[0].item)
    instruction = task.instruction.replace(thing, f"red {thing}")
    carry_out(task, memory, instruction=instruction, proves=None)
    assert memory.routines() == {}
    carry_out(task, memory, instruction=task.instruction, proves=None)
    assert len(memory.routines()) == 1


def test_nothing_is_learnt_of_a_run_in_which_a_person_said_what_to_do() -> None:
    with pytest.raises(NotLearnt, match="a person has said the blue one on the way"):
        routine_of({BRING: FETCH}, BRING, words="the blue one")


@pytest.mark.parametrize("task", tasks(3, 6), ids=lambda task: task.task_name)
def test_what_the_expert_did_is_learnt_and_does_it_again(memory: SqliteMemory, task: Task) -> None:
    first = carry_out(task, memory)
    (routine,) = Kept(memory).all().values()
    again = carry_out(task, memory)
    assert (again.used, again.requests, again.result.gsr) == ([""], 0, 1.0)
    assert routine.origin.run == first.kept.record.run["id"]
