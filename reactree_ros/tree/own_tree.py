"""A tree of one's own in a run: any py_trees behaviours, with skills and agent nodes as its leaves."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

from py_trees.behaviour import Behaviour
from py_trees.common import Status

from reactree_ros.agent.budget import Limit
from reactree_ros.agent.decision import Counts
from reactree_ros.agent.parameters import ParameterError, Value
from reactree_ros.errors import UserError
from reactree_ros.tree.agent_node import Abilities, AgentNode
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.failure import FailureKind
from reactree_ros.tree.goal import OfAttempt
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.program_node import Program, Step
from reactree_ros.world.port import Observation, Outcome


class OwnTree(GoalNode):
    """Runs a tree of one's own, whose leaves it makes by :meth:`skill` and :meth:`goal`; it ends as that tree does.

    The tree may consist of any py_trees behaviours. Each leaf stands for itself: its limits begin anew each time that
    it begins, and what ends it, be it that the language model is gone, ends nothing beside it. A robot carries out one
    skill at a time: a leaf waits until the skill of another one has ended, also one that was cancelled. A leaf that
    fails in the same way again and again ends the run as stuck; see ``reactree_ros.tree.stuck.Watch``.

    Status: As of :class:`~reactree_ros.tree.program_node.ProgramNode`.
    """

    listens = True
    holds_own_tree = True
    _is_over = OfAttempt[bool](lambda _: False)

    def __init__(
        self, instruction: str, context: RunContext, make: Callable[[OwnTree], Behaviour], abilities: Abilities
    ) -> None:
        super().__init__(instruction, context)
        self._abilities = abilities
        self._tree = make(self)

    def program(self) -> Program:
        return (yield from self.run_below(self._tree))

    def tick(self) -> Iterator[Behaviour]:
        """Go on, but not if the run is stuck, nor after a tick in which a limit of the run has ended each leaf."""
        limit = self.context.budget.reached_for_all()
        if self.status == Status.RUNNING and (limit is Limit.STUCK or (limit is not None and self._is_over)):
            self._tree.stop(Status.INVALID)
            self._throw(self.limited(limit))
        self._is_over = limit is not None
        yield from super().tick()

    def skill(self, skill: str, /, **values: Value) -> SkillNode:
        """Return a leaf that carries a skill out.

        Args:
            skill: In whole, e.g. ``pick up mug 1``; of a declared one also its name or its verb, with its values.
            values: What stands in its places, by parameter.
        """
        try:
            said = self.context.household.say(skill, values)
        except ParameterError as error:
            raise UserError(f"skill '{skill}': {error}") from None
        return SkillNode(said, self.context, parent=self)

    def goal(self, subgoal: str) -> AgentNode:
        return AgentNode(subgoal, self.context, self._abilities, parent=self)


class SkillNode(GoalNode):
    """A leaf of a tree of one's own: carries one skill out, and counts it as a step.

    A skill that an emergency stop or a pause breaks off is carried out again after that.

    Status: RUNNING until the skill has ended, then SUCCESS if it was done, FAILURE if it was refused or failed; the
    feedback message says why. INVALID when interrupted: the skill is cancelled.
    """

    teaches = False
    observation = OfAttempt[Observation | None](lambda _: None)  # what came back last; None before

    @property
    def sees_not(self) -> bool:
        """Whether it looked at a condition, or waited for it, and that did not hold."""
        gave_up = self.failure is not None and self.failure.kind is FailureKind.GAVE_UP
        return gave_up and self.observation is not None and self.observation.outcome is Outcome.TIMEOUT

    def program(self) -> Program:
        return (yield from self.do(self.subgoal)).outcome is Outcome.DONE

    def do(self, skill: str) -> Generator[Step, Any, Observation]:
        while True:
            yield from self.hold()
            self.check_budget()
            self.budget.count(Counts(decisions=0, steps=1))
            self.observation = seen = yield from self.perform(skill)
            if seen.outcome is not Outcome.HALTED:
                self.feedback_message = "" if seen.outcome is Outcome.DONE else seen.text
                return seen
