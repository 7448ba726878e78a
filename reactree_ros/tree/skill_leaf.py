"""The skill leaf: one skill of an agent node, on its way through the world."""

from __future__ import annotations

from typing import Any

from py_trees.behaviour import Behaviour
from py_trees.common import Status

from reactree_ros.pending import Pending
from reactree_ros.tree.context import RunContext
from reactree_ros.world.port import Observation, Outcome


class SkillLeaf(Behaviour):
    """Executes the skill of its agent node.

    Every agent node has one and gives it each of its skills in turn; its name is the skill.

    Status: RUNNING while the world carries the skill out, SUCCESS where it was done, FAILURE where it was refused,
    failed, or took too long. Interrupted, it cancels the skill.

    Attributes:
        observation: What came back; None where an error came instead.
        error: What went wrong, with the skill; empty where an observation came back.
    """

    IDLE = "skill"

    def __init__(self, context: RunContext) -> None:
        super().__init__(self.IDLE)
        self._context = context
        self._pending: Pending[Observation] | None = None
        self._deadline = 0.0
        self.observation: Observation | None = None
        self.error = ""

    def setup(self, **kwargs: Any) -> None:
        """Nothing to set up: the world is there."""

    def initialise(self) -> None:
        """Send the skill to the world."""
        self.observation, self.error, self.feedback_message = None, "", ""
        self._deadline = self._context.clock() + self._context.options.skill_timeout
        self._pending = self._context.world.execute(self.name)
        if not self._pending.done():
            self._pending.add_done_callback(lambda _: self._context.wake())

    def update(self) -> Status:
        """Look whether the skill has ended."""
        pending = self._pending
        assert pending is not None  # set by initialise
        if not pending.done():
            if self._context.clock() < self._deadline:
                return Status.RUNNING
            pending.cancel()
            self.error = f"'{self.name}' took longer than {self._context.options.skill_timeout:g} s"
        else:
            try:
                self.observation = pending.take()
            except Exception as error:
                self.error = f"'{self.name}' failed: {error}"
        self._pending = None
        if self.observation is None:
            self.feedback_message = self.error
            return Status.FAILURE
        self.feedback_message = self.observation.text
        return Status.SUCCESS if self.observation.outcome is Outcome.DONE else Status.FAILURE

    def terminate(self, new_status: Status) -> None:
        """Cancel the skill where it is still in flight."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.cancel()
