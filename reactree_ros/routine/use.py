"""An agent node runs a routine that fits its goal, and goes on as an agent node where something is not as expected."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Literal

from reactree_ros.agent.kinds.expand import normal
from reactree_ros.agent.turns import About, Told, Turn, told_broken_off
from reactree_ros.background.pending import Pending, asked
from reactree_ros.llm.port import Choice, InvalidReply
from reactree_ros.routine.fitting import Fit, describe
from reactree_ros.routine.running import RoutineNode, Run, Unusable
from reactree_ros.tree.agent_node import AgentNode
from reactree_ros.tree.failure import LimitReached, MemoryGone
from reactree_ros.tree.listener import Call
from reactree_ros.tree.program import Step, Wait

#: Finds the routines that fit a goal, the best first.
Find = Callable[[str], Pending[tuple[Fit, ...]]]

#: What a language model says if none of the routines is meant that are near, and what it is asked.
NONE = "none of these"
MEANT = f"Task: {{goal}}\n\nWhich of these says the very same task? If none does, say: {NONE}.{{options}}\n- {NONE}"
#: How many routines run in one another at most, by the goals in them.
MOST_NESTED = 3
#: Told of a routine that was run: what was not as expected, and where its searches found what they looked for.
Tells = Callable[[Fit, str, Mapping[str, Sequence[str]]], object]
#: Makes what finds routines, and what is told of them, of those of the memory, e.g. along a record.
Wrap = Callable[[Find | None, Tells], tuple[Find | None, Tells]]


class Use:
    """Does what an agent node is for by a routine; it is what :attr:`RunContext.routines` is.

    Args:
        proposes: Whether a person has to agree before each.
        tells: Told of each that was run.
    """

    def __init__(self, find: Find, *, proposes: bool = False, tells: Tells = lambda *_: None) -> None:
        self._find, self._proposes, self._tells = find, proposes, tells
        #: Which were run, in order, with what was not as expected.
        self.used: list[tuple[Fit, str]] = []

    def __call__(self, node: AgentNode) -> Generator[Step, Any, Literal[True] | Turn | None]:
        above = [one.fit.routine.name for one in _above(node)]
        if normal(node.subgoal) in node.parent_goals or len(above) >= MOST_NESTED:
            return None
        yield from node.hold()
        found = [fit for fit in (yield from self._found(node)) if fit.routine.name not in above]
        fit = (yield from self._chosen(node, found)) if found else None
        if fit is None:
            return None
        question = f"May I do '{fit}' by {describe(fit)}?"
        if self._proposes and not (yield from node.agrees(question, f"routine {node.index}")):
            return None
        if above:  # one has this goal in it: they end with the budget, however many goals they have
            node.check_budget()
            node.budget.count()
        return (yield from self._run(node, fit))

    def _chosen(self, node: AgentNode, found: Sequence[Fit]) -> Generator[Step, Any, Fit | None]:
        if not found[0].near:
            return found[0]
        options = {str(fit): fit for fit in found}
        listed = "".join(f"\n- {one}" for one in options)
        asks = Told(MEANT.format(goal=node.subgoal, options=listed), About.TASK)
        try:
            reply = yield from node.ask_with([asks], Choice((*options, NONE)))
        except InvalidReply:
            return None
        node.budget.count()
        return options.get(reply.text.strip())

    def _found(self, node: AgentNode) -> Generator[Step, Any, tuple[Fit, ...]]:
        pending = asked(self._find, node.subgoal)
        try:
            found: tuple[Fit, ...] = yield Wait("routines", pending, MemoryGone, next_tick=True, call=Call("routine"))
        except (MemoryGone, LimitReached):
            raise
        except Exception as error:
            raise MemoryGone(f"no routines: {error}") from error
        return found

    def _run(self, node: AgentNode, fit: Fit) -> Generator[Step, Any, Literal[True] | Turn | None]:
        run = Run(node, fit)
        try:
            grown = RoutineNode(run)
        except Unusable as error:
            self._ended(run, str(error))
            return None
        if (yield from node.run_below(grown)):
            self._ended(run, "")
            return True
        reason = run.reason or node.feedback_message
        self._ended(run, reason)
        node.end, node.failure, node.feedback_message = None, None, ""
        return told_broken_off(run.done, reason)

    def _ended(self, run: Run, reason: str) -> None:
        self.used.append((run.fit, reason))
        self._tells(run.fit, reason, run.where)  # before it is recorded: what a record holds is counted
        run.node.context.listener.routine_ended(run.node, run.fit.routine.name, reason)


def _above(node: AgentNode) -> Iterator[RoutineNode]:
    above = node.parent
    while above is not None:
        if isinstance(above, RoutineNode):
            yield above
        above = above.parent
