"""The state of a task on py_trees' blackboard, for the viewer and ``py-trees-blackboard-watcher``."""

from __future__ import annotations

from py_trees.behaviour import Behaviour
from py_trees.common import Access

from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal import Goal
from reactree_ros.world.port import GONE, Observation

#: Keys of the board, under the node's name, with their values while there is nothing to show.
BLANK = {
    **dict.fromkeys(("instruction", "subgoal", "decision", "decisions", "steps", "observation", "seen"), "-"),
    "holding": "nothing",
    "held_because": "it is not",
}
#: Number of sightings shown: the last ones.
SIGHTINGS = 12


class TaskBoard:
    """Writes a task's state to the blackboard.

    Args:
        root: A behaviour that every tick visits; it owns the keys.
        name: The node's name; the keys begin with it.
    """

    def __init__(self, root: Behaviour, name: str) -> None:
        self._board = root.attach_blackboard_client(name=name.lstrip("/"), namespace=name)
        self._places: dict[str, str] = {}
        for key, blank in BLANK.items():
            self._board.register_key(key, access=Access.WRITE)
            self._board.set(key, blank)

    def begin(self, instruction: str, context: RunContext) -> None:
        """Show a new task."""
        self._places = {}
        for key, blank in BLANK.items():
            self._board.set(key, blank)
        self._board.set("instruction", instruction)
        self._count(context)

    def decided(self, node: Goal, decision: str, context: RunContext) -> None:
        """Show a decision, and the budget."""
        self._board.set("subgoal", node.subgoal)
        self._board.set("decision", decision)
        self._count(context)

    def saw(self, observation: Observation, context: RunContext) -> None:
        """Show an observation, the things held, and the last things seen."""
        self._board.set("observation", observation.text)
        for seen in observation.seen:
            name = context.household.name_of(seen.word, seen.instance)
            self._places.pop(name, None)  # the latest sighting comes last
            if GONE not in seen.states:
                self._places[name] = "held" if seen.held else seen.place or seen.room or "here"
        holding = ", ".join(name for name, place in self._places.items() if place == "held")
        self._board.set("holding", holding or BLANK["holding"])
        last = list(self._places.items())[-SIGHTINGS:]
        self._board.set("seen", ", ".join(f"{name} ({place})" for name, place in reversed(last)) or BLANK["seen"])

    def held(self, reason: str) -> None:
        """Show why the task holds; empty: it goes on."""
        self._board.set("held_because", reason or BLANK["held_because"])

    def close(self) -> None:
        """Take the keys off the blackboard."""
        self._board.unregister()

    def _count(self, context: RunContext) -> None:
        budget = context.budget
        self._board.set("decisions", f"{budget.decisions} of {budget.max_decisions}")
        self._board.set("steps", f"{budget.steps} of {budget.max_steps}")
