"""The goal of a run and how far it was reached, by condition, as saved with the run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from reactree_ros.files.read_back import checked, read_json


@dataclass(frozen=True)
class Condition:
    """One goal condition at the end of a run, in the words of the observations."""

    relation: str  # ``on``, ``inside`` or ``turnOn``
    item: str  # the thing to move, e.g. ``water glass``; empty for ``turnOn``
    target: str  # the receptacle, or the thing to turn on
    count: int  # number wanted
    fulfilled: int  # number reached, at the instance of the target that has most

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
    conditions: tuple[Condition, ...]  # in the order of the task
    rooms: tuple[str, ...]  # of the house, e.g. ``kitchen 1``
    start_room: str  # the agent's at the start

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
