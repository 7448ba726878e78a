"""A routine does the same under an agent node, by py_trees, and as a skill of a world, by its steps."""

from __future__ import annotations

import random
from typing import Any

import pytest
from doubles import ScriptedModel, ScriptedWorld

from reactree_ros.agent.household import Household
from reactree_ros.agent.skill import Skill
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.planners.spec import planner
from reactree_ros.routine.keeping import Kept
from reactree_ros.routine.model import Routine
from reactree_ros.routine.skills import RoutineSkills
from reactree_ros.tree.options import Routines, TreeOptions
from reactree_ros.world.port import Observation, Offered, Outcome

NAMES = ("beep", "blink", "bow", "turn")


class Robot(ScriptedWorld):
    household = Household(name="robot", skills=tuple(Skill(name=name, wording=name) for name in NAMES))

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        self._goes_well = {name: [draw.random() < 0.6 for _ in range(200)] for name in NAMES}

    def available_skills(self) -> Pending[tuple[Offered, ...]]:  # type: ignore[override]
        return Pending.ready(NAMES)

    def execute(self, skill: str) -> Pending[Observation]:
        well = self._goes_well[str(skill)][self.executed.count(str(skill))]
        self.executed.append(str(skill))
        return self._pending(skill, Observation(f"{skill}.", Outcome.DONE if well else Outcome.EXECUTION))


def body(draw: random.Random, depth: int = 0) -> Any:
    kind = "skill" if depth > 3 or draw.random() < 0.3 else draw.choice(("flow", "flow", "decorator", "always"))
    if kind == "skill":
        return {"kind": kind, "wording": draw.choice(NAMES)}
    if kind == "always":
        return {"kind": kind, "succeeds": draw.random() < 0.5}
    if kind == "decorator":
        does = draw.choice(("invert", "succeed", "fail", "retry", "repeat"))
        times = draw.randint(1, 3) if does in ("retry", "repeat") else 1
        return {"kind": kind, "does": does, "times": times, "child": body(draw, depth + 1)}
    children = [body(draw, depth + 1) for _ in range(draw.randint(1, 3))]
    more = draw.choice(({"kind": "sequence"}, {"kind": "fallback"}, {"kind": "parallel"}))
    return {**more, "children": children, **draw.choice(({}, {"policy": "majority"} if "par" in more["kind"] else {}))}


@pytest.mark.parametrize("seed", range(40))
def test_the_same_skills_in_the_same_order_to_the_same_end(seed: int, memory: SqliteMemory) -> None:
    routine = Routine.of({"name": "dance", "goal": "dance for me", "body": body(random.Random(seed))})
    alone, below = Robot(seed), Robot(seed)
    ended = RoutineSkills(alone, [routine]).execute("dance for me").take()
    Kept(memory).replace(routine.name, routine)
    episode = Episode(
        "dance for me",
        world=below,
        model=ScriptedModel({"dance": ["Act: failure"]}),
        planner=planner("reactree"),
        memory=memory,
        options=TreeOptions(routines=Routines.ON),
    )
    result = episode.run()
    assert below.executed == alone.executed
    assert (result.end == "done") is (ended.outcome is Outcome.DONE)
