"""The goal node: works on one goal by any planner's program, and keeps what it was told, said and saw."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from py_trees.behaviour import Behaviour
from py_trees.common import Status

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.foreign import in_lines
from reactree_ros.agent.grammar import Grammar
from reactree_ros.agent.reading import Unreadable, read
from reactree_ros.agent.turns import About, Said
from reactree_ros.llm.port import Reply
from reactree_ros.memory.experience import End
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.failure import Failure, FailureKind
from reactree_ros.tree.goal import Goal, OfAttempt
from reactree_ros.tree.program import Grow, Program, Step
from reactree_ros.tree.talking import TalkingNode
from reactree_ros.world.port import Observation


class GoalNode(TalkingNode):
    """Works on one goal by its :meth:`program`, in which these methods, and those of its bases, are used.

    Status: As of :class:`~reactree_ros.tree.program_node.ProgramNode`.
    """

    _taking = OfAttempt(lambda _: (Reply(""), ""))  # what is being carried out: the reply, and the words for it

    def __init__(self, subgoal: str, context: RunContext, *, name: str = "", parent: GoalNode | None = None) -> None:
        super().__init__(name or " ".join(subgoal.split()), context, parent)
        self.subgoal = subgoal
        self.depth = 1 if parent is None else parent.depth + 2

    def decisions(self, reply: Reply, grammar: Grammar) -> tuple[Said, ...]:
        """Return the decisions that a reply is taken for; none if it is refused, which the model is told."""
        said, objection = reply.said, reply.objection
        if not said and not objection:
            try:
                return read(reply.text, grammar, cut=reply.cut)
            except Unreadable as error:
                objection, said = str(error), error.said
        if not objection:
            return said
        self.refuse(reply.text.strip("\n"), objection, said[-1].decision if said else None)
        return ()

    def take(self, decision: Decision, reply: Reply | None = None, said: str = "") -> None:
        """Count a decision, tell the listener of it, and add what was said.

        Args:
            decision: The decision.
            reply: What it was read from; None: that of :meth:`taking`.
            said: The words for it; empty: those of :meth:`taking`, or its own.
        """
        taken_from, words = self._taking if reply is None else (reply, said)
        self.budget.count(decision.counted)
        self.refusals.end_row()
        self.context.listener.decided(self, decision, taken_from)
        self.say(words or str(decision), decision)

    def taking(self, decision: Decision, reply: Reply, said: str = "") -> Generator[Step, Any, bool | None]:
        """Carry out a decision as its kind does; returns whether the goal is reached if the node ends by it, else None.

        ``reply`` is what it was read from, ``said`` the words for it; empty: its own.
        """
        node: Any = self  # a node of a program that takes such decisions has what they need
        self._taking = reply, said
        return (yield from decision.carry_out(node))

    def refuse(self, said: str, reason: str, decision: Decision | None = None) -> None:
        """Count what was said and is not carried out, and tell the model why; after too many, Refused is raised.

        ``decision`` is what it was read as; None if it is no decision.
        """
        reason = in_lines(reason, first=False)
        self.budget.count()
        self.context.refused(self.index, reason)
        self.context.listener.refused(self, Said(said, decision), reason)
        self.say(said, None)
        self.tell(reason, About.REFUSAL)
        self.refusals.add(said, reason)

    def act(self, act: Decision, reply: Reply | None = None, said: str = "") -> Generator[Step, Any, Observation]:
        """Take an act as :meth:`take` does, and carry its skill out; what is seen is added to the turns."""
        self.take(act, reply, said)
        observation = yield from self.perform(act.skill_asked)
        self.see(observation)
        return observation

    def run_below(self, subtree: Behaviour) -> Program:
        status: Status = yield Grow(subtree)
        self.end = End.EXPAND
        self.feedback_message = subtree.feedback_message or f"{subtree.name} ended in {status.value.lower()}"
        if status == Status.SUCCESS:
            return True
        self.failure = Failure(kind_of_failure(subtree), self.feedback_message)
        return False


def kind_of_failure(failed: Behaviour) -> FailureKind:
    """Return the kind of failure of a subtree: that of the goal node in it that failed last."""
    if isinstance(failed, Goal) and failed.failure is not None:
        return failed.failure.kind
    last = next((child for child in reversed(failed.children) if child.status == Status.FAILURE), None)
    return FailureKind.GAVE_UP if last is None else kind_of_failure(last)
