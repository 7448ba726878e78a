"""What came of subgoals, and how siblings are told apart in displays that show little of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from py_trees import composites
from py_trees.behaviour import Behaviour
from py_trees.common import Status

from reactree_ros.agent.turns import Tried
from reactree_ros.memory.experience import End
from reactree_ros.tree.flows import Parallel
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.program_node import SkillLeaf
from reactree_ros.tree.reason import why


def tried(child: Behaviour) -> Tried:
    subgoal = child.subgoal if isinstance(child, GoalNode) else child.name
    if child.status == Status.INVALID:
        return Tried(subgoal, None)
    return Tried(subgoal, child.status == Status.SUCCESS, why(child) if child.status == Status.FAILURE else "")


def branches(node: Behaviour) -> list[Behaviour]:
    """Return what a person would count of what was to be done at a behaviour; itself if there is nothing to count.

    These are the subgoals of the first expansion that has several, in order or in parallel, and in place of a subgoal
    those of a parallel below it. Of a fallback counts the branch that was done, else the last that was tried.
    """
    return _branches(node, in_order=True)


def _branches(node: Behaviour, *, in_order: bool) -> list[Behaviour]:
    flow = _flow(node)
    if isinstance(flow, composites.Selector):
        below = [child for child in flow.children if child.status != Status.INVALID][-1:]
    else:  # a sequence is one thing, unless it is the whole
        below = flow.children if isinstance(flow, Parallel) or (in_order and type(flow) is composites.Sequence) else []
    in_order &= len(below) == 1
    found = [branch for child in below for branch in _branches(child, in_order=in_order)]
    return found if len(found) > 1 else [node]


def _flow(node: Behaviour) -> Behaviour | None:
    """Return the composite whose end is a behaviour's: its own, or of a goal node that of its last expansion."""
    if not isinstance(node, GoalNode):
        return node
    grown = [child for child in node.children if not isinstance(child, SkillLeaf)]
    return grown[-1] if grown and (node.end is End.EXPAND or node.status == Status.FAILURE) else None


def undone(branch: Behaviour) -> Iterator[Behaviour]:
    """Yield what of a branch was not done: itself, or what failed below it although it succeeded.

    Only a parallel of the method succeeds in spite of what fails in it. A fallback has done another branch in its
    place, and whoever made a tree of their own has said there what may fail.
    """
    if branch.status != Status.SUCCESS:
        yield branch
        return
    flow = _flow(branch)
    for child in () if flow is None else flow.children:
        if child.status == Status.SUCCESS or isinstance(flow, Parallel):
            yield from undone(child)


def said_undone(undone: Behaviour) -> str:
    name = undone.subgoal if isinstance(undone, GoalNode) else undone.name
    if undone.status == Status.FAILURE and not is_unreached(undone):
        return f"'{name}' failed: {why(undone)}"
    begun = undone.status != Status.FAILURE and isinstance(undone, GoalNode) and undone.start
    return f"'{name}' was {'broken off' if begun else 'not reached'}"


def is_unreached(behaviour: Behaviour) -> bool:
    if behaviour.status != Status.FAILURE:
        return False
    if isinstance(behaviour, GoalNode):
        return behaviour.unreached
    begun = [child for child in behaviour.children if child.status != Status.INVALID]
    return bool(begun) and all(map(is_unreached, begun))


#: What several siblings begin with is moved where it is at least so long, in characters.
LONG = 10


def telling_names(goals: Sequence[str]) -> list[str]:
    """Return a name for each goal, such that the first words tell them apart.

    What a goal begins with as another one does comes last, in parentheses: ``find and pick up apple`` beside ``find and
    pick up juice`` is ``apple (find and pick up ...)``. A number stays with the word before it: ``bedroom 1``.
    Where that does not tell them apart, their numbers do, from 1.
    """
    words = [goal.split() for goal in goals]
    shared = [_shared(mine, [other for other in words if other != mine]) for mine in words]
    rests = [" ".join(mine[count:]) for mine, count in zip(words, shared, strict=True)]
    names = []
    for number, (mine, count, rest) in enumerate(zip(words, shared, rests, strict=True), start=1):
        name = f"{rest} ({' '.join(mine[:count])} ...)" if count else rest
        names.append(f"#{number} {name}" if Counter(rests)[rest] > 1 else name)
    return names


def _shared(mine: Sequence[str], others: Sequence[Sequence[str]]) -> int:
    """Return how many words at the beginning of a goal are those of another one; 0 if that is little, or all."""
    count = max((_common(mine, other) for other in others), default=0)
    if 0 < count < len(mine) and mine[count].isdigit():
        count -= 1
    return count if count < len(mine) and len(" ".join(mine[:count])) >= LONG else 0


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = zip(one, other, strict=False)
    return next((count for count, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
