"""The goal of a run and how far it was reached, by condition, as saved with the run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from reactree_ros.files.read_back import checked, read_json


@dataclass(frozen=True)
class Condition:
    """One goal condition at the end of a run, in the words of the observations.

    Attributes:
        relation: ``on``, ``inside`` or ``turnOn``.
        item: The thing to move, e.g. ``water glass``; empty for ``turnOn``.
        target: The receptacle, or the thing to turn on.
        count: Number wanted.
        fulfilled: Number reached, at the instance of the target that has most.
    """

    relation: str
    item: str
    target: str
    count: int
    fulfilled: int

    @property
    def thing(self) -> str:
        """The thing to find: the item, or the thing to turn on."""
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
        start_room: The agent's room at the start.
    """

    conditions: tuple[Condition, ...]
    rooms: tuple[str, ...]
    start_room: str

    @property
    def size(self) -> int:
        """Size of the goal: the number of things to move or to turn on."""
        return sum(one.count for one in self.conditions)

    @property
    def unmet(self) -> tuple[Condition, ...]:
        """The conditions that do not hold, each judged separately."""
        return tuple(one for one in self.conditions if one.fulfilled < one.count)


def goal_as_json(goal: Goal) -> str:
    return json.dumps(asdict(goal), indent=1) + "\n"


def read_goal(path: Path) -> Goal:
    return read_json(path, "goal of a run", lambda values: checked(Goal, values))
