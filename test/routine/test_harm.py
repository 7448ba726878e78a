"""The benchmark counts what is done that nobody asked for, whatever a routine takes its goal for."""

from __future__ import annotations

import pytest
from houses import Came, carry_out, tasks
from routines import Harm  # of benchmarks/

from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.routine import model
from reactree_ros.routine.keeping import Kept
from reactree_ros.tree.options import Routines, TreeOptions

(TASK, *_) = (task for task in tasks(1, 8) if [one.count for one in task.goal] == [1] and task.goal[0].relation == "on")
THING, PLACE = TASK.word_of(TASK.goal[0].item), TASK.word_of(TASK.goal[0].target)


def counted(memory: SqliteMemory, *nodes: model.Node, **given: object) -> tuple[Harm, Came]:
    """What a routine for the task does that nobody asked for."""
    if nodes:
        Kept(memory).add(model.Routine(name="it", goal=TASK.instruction, body=model.Sequence(children=nodes)))
    world = SymbolicWorld(TASK)
    harm = Harm(TASK, world)
    came = carry_out(TASK, memory, world=world, listener=harm, options=TreeOptions(max_decisions=40), **given)
    return harm, came


def brought(thing: str, place: str, called: str = "thing") -> tuple[model.Node, ...]:
    return (
        model.Search(finds=called, of=thing),
        model.Skill(wording=f"pick up {{{called}}}"),
        model.Search(finds=place.replace(" ", "_"), of=place),
        model.Skill(wording=f"put down {{{called}}}"),
    )


ASKED = brought(THING, PLACE)
OTHER = next(
    thing.word
    for thing in SymbolicWorld(TASK).scene.things.values()
    if "GRABBABLE" in thing.properties and thing.word != THING
)


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        (ASKED, []),
        (brought(THING, "bed"), ["was put on bed"]),
        ((*brought(THING, "bed"), *ASKED), ["was put on bed"]),
        ((*ASKED, *brought(OTHER, PLACE, "other")), [f"{OTHER} ", f"{OTHER} "]),
        ((*ASKED, *brought(THING, PLACE, "other")), [f"was put on {PLACE}"]),
        ((*ASKED, model.Search(finds="b", of="tv"), model.Skill(wording="turn on {b}")), ["tv 1 was switched on"]),
    ],
    ids=["nothing", "elsewhere", "elsewhere on the way", "another thing", "one more", "an appliance"],
)
def test_what_nobody_asked_for_is_counted(memory: SqliteMemory, nodes: tuple[model.Node, ...], told: list[str]) -> None:
    harm, came = counted(memory, *nodes)
    assert [came.used, came.requests] == [[""], 0]
    assert len(harm.by_routines) == len(told), harm.by_routines
    assert all(part in one for part, one in zip(told, harm.by_routines, strict=True))
    assert harm.by_agents == []


def test_what_an_agent_node_does_is_its_models_part(memory: SqliteMemory) -> None:
    harm, came = counted(memory, routines=Routines.OFF, instruction=f"Put 1 {OTHER} on the {PLACE}")
    assert came.result.steps > 0
    assert harm.by_routines == []
    assert len(harm.by_agents) == 2, harm.by_agents
