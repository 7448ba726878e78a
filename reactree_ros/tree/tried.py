"""What came of the subgoals of an expansion that failed, for the node that decides again."""

from __future__ import annotations

from collections.abc import Iterator

from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Selector

from reactree_ros.agent.decision import FAILURE
from reactree_ros.agent.kinds.think import Think
from reactree_ros.agent.text import shortened_line
from reactree_ros.agent.told import ToldFailed, Tried
from reactree_ros.agent.turns import Said, Saw, Told
from reactree_ros.memory.experience import End
from reactree_ros.tree.goal_node import GoalNode

#: Most characters of a reason.
LONGEST = 200


def tried(child: Behaviour) -> Tried:
    """Return what came of one subgoal."""
    subgoal = child.subgoal if isinstance(child, GoalNode) else child.name
    if child.status == Status.INVALID:
        return Tried(subgoal, None)
    return Tried(subgoal, child.status == Status.SUCCESS, why(child) if child.status == Status.FAILURE else "")


def why(failed: Behaviour) -> str:
    """Say why a behaviour failed: what its last node that failed thought or saw before it gave up, or what ended it."""
    for child in reversed(failed.children):
        if child.status == Status.FAILURE and (not isinstance(failed, GoalNode) or failed.end is End.EXPAND):
            return why(child)
    if not isinstance(failed, GoalNode):
        return failed.feedback_message
    return shortened_line(_last_words(failed) or failed.feedback_message, LONGEST)


def left_undone(succeeded: Behaviour) -> Iterator[str]:
    """Yield what failed below a behaviour that succeeded all the same, and nothing else has done in its place.

    Branches of a fallback are tried in place of each other; those of a parallel are not.
    """
    if isinstance(succeeded, GoalNode) and succeeded.end is not End.EXPAND:
        return
    below = succeeded.children[-1:] if isinstance(succeeded, GoalNode) else succeeded.children
    for child in below:
        if child.status == Status.SUCCESS:
            yield from left_undone(child)
        elif child.status == Status.FAILURE and not isinstance(succeeded, Selector):
            yield f"'{child.subgoal if isinstance(child, GoalNode) else child.name}' failed: {why(child)}"


def _last_words(node: GoalNode) -> str:
    """Return what a node thought before it gave up, or what came of its last act or expansion.

    Nothing if it did not give up, but was ended.
    """
    *before, last = node.turns or [Told("")]
    if not isinstance(last, Said) or last.decision is None or last.decision.gist != FAILURE:
        return ""
    seen = ""
    for turn in reversed(before):
        if isinstance(turn, Saw):
            seen = turn.text
        elif isinstance(turn, ToldFailed):
            return next(one.reason for one in reversed(turn.tried) if one.succeeded is False)
        elif isinstance(turn, Said) and isinstance(turn.decision, Think):
            return turn.decision.thought
        elif isinstance(turn, Said) and turn.decision is not None and turn.decision.skill_asked:
            return seen
    return "gave up at once"
