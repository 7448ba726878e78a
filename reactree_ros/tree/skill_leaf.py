"""The skill leaf: one skill of a goal node, on its way through the world."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, cast

from py_trees.behaviour import Behaviour
from py_trees.common import Status

from reactree_ros.background.pending import Pending, asked
from reactree_ros.tree.context import Call, RunContext
from reactree_ros.world.port import Observation, Outcome, WorldError

if TYPE_CHECKING:
    from reactree_ros.tree.goal_node import GoalNode


class SkillLeaf(Behaviour):
    """Executes one skill of a goal node; its name is the skill.

    How long a skill may take is the world's part: a run wraps it in a
    :class:`reactree_ros.world.wrappers.SkillTimeLimit`.

    Status: RUNNING while the world carries the skill out, SUCCESS if it was done, FAILURE if it was refused or
    failed. Interrupted, it cancels the skill.

    Attributes:
        observation: What came back; None if an error came instead.
        error: What was raised instead of an observation; None if none was.
    """

    def __init__(self, context: RunContext, skill: str) -> None:
        super().__init__(skill)
        self._context = context
        self._pending: Pending[Observation] | None = None
        self.observation: Observation | None = None
        self.error: Exception | None = None

    def setup(self, **kwargs: Any) -> None:
        """Nothing to set up: the world is there."""

    @property
    def _node(self) -> GoalNode:
        return cast("GoalNode", self.parent)

    def initialise(self) -> None:
        """Send the skill to the world."""
        self.observation, self.error, self.feedback_message = None, None, ""
        self._context.listener.sent(self._node, self.name)
        context, robot = self._context, self._node.post.robot
        self._pending = asked(context.team.execute, robot, self.name, context.options.skill_timeout)
        if not self._pending.done():
            self._pending.add_done_callback(lambda _: self._context.wake())

    def update(self) -> Status:
        """Look whether the skill has ended."""
        pending = self._pending
        assert pending is not None  # set by initialise
        if not pending.done():
            return Status.RUNNING
        self._pending = None
        try:
            self.observation = pending.take()
        except CancelledError:
            self.error = WorldError(f"'{self.name}' was canceled by the world")
        except Exception as error:
            self.error = error
        listener, call = self._context.listener, Call("execute")
        if self.error is not None:
            listener.call_failed(self._node, call, self.error)
        else:
            listener.came(self._node, call, self.observation)
        if self.observation is None:
            self.feedback_message = f"'{self.name}' failed: {self.error}"
            return Status.FAILURE
        self.feedback_message = self.observation.text
        return Status.SUCCESS if self.observation.outcome is Outcome.DONE else Status.FAILURE

    def terminate(self, new_status: Status) -> None:
        """Cancel the skill where it is still in flight."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.cancel()
