"""The goal of a run and how far it was reached, condition by condition, as it is saved beside the run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from reactree_ros.errors import UserError
from reactree_ros.world import household
from reactree_ros.world.symbolic import SymbolicWorld
from reactree_ros.world.tasks import Task
from reactree_ros.world.vocabulary import CLASSES


@dataclass(frozen=True)
class Condition:
    """One goal condition at the end of a run, in the words of the observations.

    Attributes:
        relation: ``on``, ``inside`` or ``turnOn``.
        item: What is moved, e.g. ``water glass``; empty for ``turnOn``.
        target: The receptacle, or what is turned on.
        count: How many are asked for.
        fulfilled: How many of them there are, at the instance of the target that has most.
    """

    relation: str
    item: str
    target: str
    count: int
    fulfilled: int

    @property
    def thing(self) -> str:
        """What has to be found: the item, or what is turned on."""
        return self.item or self.target

    def __str__(self) -> str:
        if self.relation == "turnOn":
            return f"turn on the {self.target}"
        return f"{self.count} {self.item} {self.relation} the {self.target}"


@dataclass(frozen=True)
class Goal:
    """The goal of a run.

    Attributes:
        conditions: Its conditions, in the order of the task.
        rooms: Rooms of the house, e.g. ``kitchen 1``.
        start_room: Where the agent started.
    """

    conditions: tuple[Condition, ...]
    rooms: tuple[str, ...]
    start_room: str

    @property
    def unmet(self) -> tuple[Condition, ...]:
        """The conditions that do not hold, each looked at on its own."""
        return tuple(one for one in self.conditions if one.fulfilled < one.count)


def goal_at_the_end(task: Task, world: SymbolicWorld) -> Goal:
    """Look at the goal of a task in the world as it is now."""
    conditions = []
    for one in task.goal:
        share = household.score((one,), world.scene).ssr
        item, target = CLASSES[one.item].word if one.item else "", CLASSES[one.target].word
        conditions.append(Condition(one.relation, item, target, one.count, round(share * one.count)))
    start = next(room.name for room in world.scene.rooms if room.class_name == task.init_room)
    return Goal(tuple(conditions), tuple(room.name for room in world.scene.rooms), start)


def write_goal(goal: Goal, path: Path) -> None:
    """Write a goal as JSON."""
    path.write_text(json.dumps(asdict(goal), indent=1) + "\n", encoding="utf-8")


def read_goal(path: Path) -> Goal:
    """Read a goal back.

    Raises:
        UserError: The file cannot be read or holds no goal.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        conditions = tuple(Condition(**one) for one in values["conditions"])
        return Goal(conditions, tuple(values["rooms"]), values["start_room"])
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path}: holds no goal of a run: {error}") from error
