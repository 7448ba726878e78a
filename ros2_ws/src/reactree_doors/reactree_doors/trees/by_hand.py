"""A routine from a py_trees tree that a person wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import py_trees
from py_trees import behaviours, decorators
from py_trees.behaviour import Behaviour
from py_trees.common import ParallelPolicy
from py_trees.composites import Parallel, Selector

from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.skill import Skill as Declared
from reactree_ros.agent.text import shortened_line
from reactree_ros.plugins.settings import did_you_mean
from reactree_ros.routine.model import FOR_EVER, Routine, RoutineError, say, taken_apart

_Data = dict[str, Any]


def routine_of(
    make: Callable[[Sketch], Behaviour],
    *,
    goal: str,
    name: str = "",
    roles: Mapping[str, str] | None = None,
    skills: Iterable[Declared] = (),
) -> Routine:
    """Return the routine of a tree of one's own: py_trees' sequences, selectors, parallels and decorators.

    Raises RoutineError: a behaviour has no counterpart; the message names it.

    Args:
        make: Makes the tree; its argument makes the leaves, with roles in braces.
        goal: What it is for, with each of its roles once.
        name: What it is called; empty: as ``make`` is.
        roles: What may stand for each role, e.g. ``{"thing": "thing", "to": "place"}``.
        skills: The declared skills of the world. Without them, skills are taken as they are said.
    """
    name = name or make.__name__
    kinds = [{"name": role, "kind": kind} for role, kind in (roles or {}).items()]
    body = _data_of(make(Sketch(goal, tuple(skills))))
    return Routine.from_data({"name": name, "goal": goal, "roles": kinds, "body": body}, where=name)


class Noted(Behaviour):
    """A node of a sketch, with those in it.

    Status: It has none; to be ticked is an error.

    Attributes:
        data: What is said of the node, without those in it.
    """

    def __init__(self, children: Sequence[Behaviour] = (), **data: Any) -> None:
        super().__init__(str(data["kind"]))
        self.children, self.data = list(children), data

    def update(self) -> NoReturn:
        """Refuse."""
        raise RoutineError(f"this {self.name} is part of a sketch, which is not carried out; use routine_of")


class Sketch:
    """Makes the leaves of a tree that becomes a routine, as :class:`~reactree_ros.tree.own_tree.OwnTree` does in a run.

    Roles, and what a search has found, stand in braces: ``run.skill("pick up {box}")``.

    Attributes:
        subgoal: What the tree is for.
    """

    def __init__(self, subgoal: str, skills: Sequence[Declared] = ()) -> None:
        self.subgoal = subgoal
        self._skills = skills

    def skill(self, skill: str, /, **values: object) -> Noted:
        """Return a leaf that carries a skill out: in whole, or a declared one by its name or verb with its values."""
        if not self._skills and not values:
            return Noted(kind="skill", wording=skill)
        words = {name: str(value) for name, value in values.items()}
        for one in self._skills:
            found = words if skill in (one.name, one.verb) and words.keys() == one.parameters.keys() else None
            found = found if values else taken_apart(skill, one)
            try:
                if found is not None:
                    return Noted(kind="skill", wording=say(one, found))
            except ParameterError as error:
                raise RoutineError(f"skill '{one.name}': {error}") from None
        known = [one.name for one in self._skills]
        more = did_you_mean(skill, known) if known else "say it in whole, or give the skills"
        raise RoutineError(f"skill '{shortened_line(skill, 60)}': there is no such skill; {more}")

    def step(self, wording: str, *, expected: str = "done", looks: bool = False, **returns: str) -> Noted:
        """Return a leaf that carries a skill out: how it has to end, if it only asks, what takes what it returns."""
        return Noted(kind="skill", wording=wording, expected=expected, looks=looks, returns=returns)

    def script(self, code: str, *, checks: bool = False) -> Noted:
        """Return a leaf that carries a script out; ``checks``: what that comes to has to hold."""
        return Noted(kind="script", code=code, checks=checks)

    def pause(self, milliseconds: int) -> Noted:
        """Return a leaf that waits."""
        return Noted(kind="pause", milliseconds=milliseconds)

    def goal(self, subgoal: str) -> Noted:
        """Return a leaf that works on a goal in natural language: an agent node."""
        return Noted(kind="goal", text=subgoal)

    def search(self, finds: str, *, of: str, order: Sequence[str] = ()) -> Noted:
        """Return a leaf that looks for something; ``finds`` stands for it in braces from then on."""
        return Noted(kind="search", finds=finds, of=of, order=order)

    def wait_for(self, condition: str, seconds: float | None = None) -> Noted:
        """Return a leaf that waits until a condition holds, for so many seconds at most; 0: it only looks."""
        return Noted(kind="wait for", condition=condition, seconds=seconds)

    def parallel(self, policy: str, children: Sequence[Behaviour]) -> Noted:
        """Return a parallel that runs each child to its end: ``majority``, or ``concurrent`` for several robots."""
        return Noted(children, kind="parallel", policy=policy)

    def repeat_until(self, condition: str, children: Sequence[Behaviour]) -> Noted:
        """Return a sequence that is done again and again until a condition holds after a round."""
        return Noted(children, kind="repeat until", condition=condition)

    def while_holds(self, condition: str, children: Sequence[Behaviour]) -> Noted:
        """Return a sequence that is done again and again as long as a condition holds before a round."""
        return Noted(children, kind="while", condition=condition)

    def within(self, seconds: float, children: Sequence[Behaviour]) -> Noted:
        """Return a sequence that fails when so many seconds are over."""
        return Noted(children, kind="within", seconds=seconds)


def _data_of(behaviour: Behaviour) -> _Data:
    if isinstance(behaviour, Noted):
        return behaviour.data | ({"children": _below(behaviour)} if behaviour.children else {})
    if of := _OF.get(type(behaviour)):
        return of(behaviour)
    known = [one.__name__ for one in _OF]
    said = f"behaviour '{shortened_line(behaviour.name, 60)}' is a {type(behaviour).__name__}"
    raise RoutineError(
        f"{said}, which has no counterpart in a routine; there are {', '.join(known)} and its own leaves"
    )


def _below(behaviour: Behaviour) -> list[_Data]:
    return [_data_of(child) for child in behaviour.children]


def _parallel(behaviour: Any) -> _Data:
    if type(behaviour.policy) is not ParallelPolicy.SuccessOnAll:
        said = f"parallel '{shortened_line(behaviour.name, 60)}' has the policy {type(behaviour.policy).__name__}"
        raise RoutineError(f"{said}; a routine has SuccessOnAll, or run.parallel('majority', …)")
    return {"kind": "parallel", "children": _below(behaviour)}


def _decorator(does: str, times: Callable[[Any], int] = lambda _: 1) -> Callable[[Any], _Data]:
    return lambda one: {"kind": "decorator", "does": does, "times": times(one), "child": _data_of(one.decorated)}


_OF: Mapping[type, Callable[[Any], _Data]] = {
    py_trees.composites.Sequence: lambda one: {"kind": "sequence", "memory": one.memory, "children": _below(one)},
    Selector: lambda one: {"kind": "fallback", "memory": one.memory, "children": _below(one)},
    Parallel: _parallel,
    behaviours.Success: lambda _: {"kind": "always", "succeeds": True},
    behaviours.Failure: lambda _: {"kind": "always", "succeeds": False},
    decorators.Inverter: _decorator("invert"),
    decorators.FailureIsSuccess: _decorator("succeed"),
    decorators.SuccessIsFailure: _decorator("fail"),
    decorators.Retry: _decorator("retry", lambda one: 0 if one.num_failures == FOR_EVER else one.num_failures),
    decorators.Repeat: _decorator("repeat", lambda one: max(one.num_success, 0)),
}
