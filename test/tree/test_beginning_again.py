"""A node that begins again is new: nothing of the attempt before is left."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import textwrap
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from doubles import ScriptedModel, ScriptedWorld
from py_trees.common import Status

import reactree_lab.planners
from reactree_ros.tree.agent_node import Abilities, AgentNode
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal import OfAttempt
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.program_node import ProgramNode

#: Set anew whenever a node begins: py_trees' own, and where the node stands in the run.
KEPT = {"status", "feedback_message", "current_child", "index", "start", "_post"}
EMPTY = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp)


def kinds(of: type = ProgramNode) -> Iterator[type]:
    for kind in of.__subclasses__():
        if kind.__module__.startswith("reactree_ros."):
            yield kind
        yield from kinds(kind)


def every_kind() -> list[type]:
    importlib.import_module("reactree_ros.routine.running")
    for module in pkgutil.walk_packages(reactree_lab.planners.__path__, "reactree_lab.planners."):
        importlib.import_module(module.name)
    return [ProgramNode, *dict.fromkeys(kinds())]


def declared(kind: type) -> dict[str, OfAttempt[Any]]:
    found = {}
    for one in reversed(kind.__mro__):
        found.update({name: value for name, value in vars(one).items() if isinstance(value, OfAttempt)})
    return found


def assigned(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield what a method sets of its own node, with the value."""
    for node in ast.walk(function):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) else ():
            for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == "self":
                    yield one.attr, node.value


@pytest.mark.parametrize("kind", every_kind(), ids=lambda kind: kind.__name__)
def test_all_that_a_goal_node_changes_belongs_to_one_attempt(kind: type) -> None:
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    setters = {name for one in kind.__mro__ for name, value in vars(one).items() if isinstance(value, property)}
    for function in (one for one in body.body if isinstance(one, ast.FunctionDef)):  # type: ignore[attr-defined]
        for name, value in assigned(function):
            if function.name == "__init__":  # what it is; something empty is to be filled
                assert name == "attempt" or not isinstance(value, EMPTY), name
            else:
                assert name in {*declared(kind), *setters, *KEPT, "attempt"}, f"{function.name} sets {name}"


def state(value: Any, node: GoalNode) -> Any:
    """What a node has come to, without the node and what it shares with others."""
    if value in (node, node.context):
        return "itself"
    if isinstance(value, list | tuple | deque):
        return [state(one, node) for one in value]
    own = vars(value) if type(value).__module__.startswith("reactree_ros.tree.") else None
    return value if own is None else {name: state(one, node) for name, one in own.items()}


@pytest.mark.parametrize(
    "kind", [one for one in every_kind() if issubclass(one, GoalNode)], ids=lambda kind: kind.__name__
)
def test_beginning_again_every_goal_node_equals_a_new_one(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> GoalNode:
        node: GoalNode = kind.__new__(kind)
        GoalNode.__init__(node, "goal", context)
        node._given = "given"  # type: ignore[attr-defined]
        return node

    def program(self: GoalNode) -> Iterator[Any]:
        seen.append({name: state(getattr(self, name), self) for name in declared(kind) if name not in ("_program",)})
        for name in declared(kind):
            if name not in ("_program", "_step", "_begun", "budget"):
                setattr(self, name, None if name in ("failure",) else f"of the attempt before: {name}")
        return True
        yield

    monkeypatch.setattr(kind, "program", program)
    monkeypatch.setattr(kind, "__abstractmethods__", frozenset(), raising=False)
    context, seen = RunContext(model=ScriptedModel({}), world=ScriptedWorld()), list[dict[str, Any]]()
    again, new = made(), made()
    for node in (again, again, new):
        for _ in node.tick():
            pass
        assert node.status == Status.SUCCESS
    assert seen[1] == seen[0] == seen[2]


def test_what_bars_a_node_from_deciding_again_is_one_question() -> None:
    context = RunContext(model=ScriptedModel({}), world=ScriptedWorld())
    node = AgentNode("goal", context, Abilities(()))
    assert node.barred() is None
    context.budget.max_decisions = context.budget.decisions = 1
    barred = node.barred()
    assert barred is not None
    assert barred.message == "all of the 1 decisions are used up"
    context.fatal = replace(barred, message="the tree ends")
    assert node.barred() is context.fatal
