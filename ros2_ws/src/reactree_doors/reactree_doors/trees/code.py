"""Writes a routine as Python: a function that makes a py_trees tree, which its owner may change."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable, Mapping
from typing import Any

from reactree_ros.agent.observation import Outcome
from reactree_ros.routine import model

#: The longest line.
_LONGEST = 110

#: What a decorator is in py_trees, with the argument that counts.
_DECORATORS = {
    "invert": ("Inverter", ""),
    "succeed": ("FailureIsSuccess", ""),
    "fail": ("SuccessIsFailure", ""),
    "retry": ("Retry", "num_failures"),
    "repeat": ("Repeat", "num_success"),
}
_HEAD = '''"""The routine "{name}", as py_trees has it."""

from py_trees import behaviours, common, composites, decorators

from reactree_doors.trees.by_hand import routine_of
from reactree_doors.trees.xml_out import xml_of


def {function}(run):
    """Make the tree; its leaves are made by `run`."""
    return {body}


ROUTINE = routine_of({function}, name={quoted}, goal={goal}, roles={roles})

if __name__ == "__main__":
    print(xml_of(ROUTINE))
'''


def python_of(routine: model.Routine) -> str:
    """Write a routine as a module of Python, whose ``ROUTINE`` is the same again; called, it prints that as XML.

    What only an editor of XML says of nodes is left out.
    """
    function = re.sub(r"\W", "_", routine.name)
    if not function.isidentifier() or keyword.iskeyword(function):
        function = f"routine_{function}"
    return _HEAD.format(
        name=routine.name,
        function=function,
        body=_written(routine.body, 1),
        quoted=_quoted(routine.name),
        goal=_quoted(routine.goal),
        roles=repr({role.name: role.kind for role in routine.roles}).replace("'", '"'),
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _written(node: model.Node, depth: int) -> str:
    name, arguments = _MADE[type(node)](node)
    if isinstance(node, model.Decorator):
        arguments.insert(1, _written(node.child, depth))
    elif children := model.children_of(node):
        inner = "    " * (depth + 2)
        each = "".join(f"{inner}{_written(child, depth + 2)},\n" for child in children)
        listed = f"[\n{each}{'    ' * (depth + 1)}]"
        arguments.append(f"children={listed}" if name.startswith("composites.") else listed)
    line = f"{name}({', '.join(arguments)})"
    if len(line) + 4 * depth <= _LONGEST and "\n" not in line:
        return line
    inner = "    " * (depth + 1)
    return f"{name}(\n{inner}" + f",\n{inner}".join(arguments) + f",\n{'    ' * depth})"


def _parallel(node: model.Parallel) -> tuple[str, list[str]]:
    if node.policy != "all":
        return "run.parallel", [_quoted(node.policy)]
    return "composites.Parallel", [_quoted(node.kind), "policy=common.ParallelPolicy.SuccessOnAll()"]


def _decorator(node: model.Decorator) -> tuple[str, list[str]]:
    name, counts = _DECORATORS[node.does]
    for_ever = "-1" if node.does == "repeat" else f"{model.FOR_EVER:_}"
    times = [f"{counts}={node.times or for_ever}"] if counts else []
    return f"decorators.{name}", [_quoted(node.does), *times]


def _skill(node: model.Skill) -> tuple[str, list[str]]:
    if node.expected is Outcome.DONE and not node.returns and not node.looks:
        return "run.skill", [_quoted(node.wording)]
    returns = [f"{name}={_quoted(entry)}" for name, entry in node.returns.items()]
    looks = ["looks=True"] if node.looks else []
    return "run.step", [_quoted(node.wording), f"expected={_quoted(node.expected.value)}", *looks, *returns]


def _search(node: model.Search) -> tuple[str, list[str]]:
    order = [f"order=[{', '.join(map(_quoted, node.order))}]"] if node.order else []
    return "run.search", [_quoted(node.finds), f"of={_quoted(node.of)}", *order]


def _wait(node: model.WaitFor) -> tuple[str, list[str]]:
    seconds = [] if node.seconds is None else [repr(node.seconds).removesuffix(".0")]
    return "run.wait_for", [_quoted(node.condition), *seconds]


#: What makes each kind of node, with its arguments but the nodes in it.
_MADE: Mapping[type, Callable[[Any], tuple[str, list[str]]]] = {
    model.Sequence: lambda node: ("composites.Sequence", [_quoted(node.kind), f"memory={node.memory!r}"]),
    model.Fallback: lambda node: ("composites.Selector", [_quoted(node.kind), f"memory={node.memory!r}"]),
    model.Parallel: _parallel,
    model.Decorator: _decorator,
    model.Skill: _skill,
    model.Goal: lambda node: ("run.goal", [_quoted(node.text)]),
    model.Search: _search,
    model.WaitFor: _wait,
    model.Script: lambda node: ("run.script", [_quoted(node.code), *(["checks=True"] if node.checks else [])]),
    model.Pause: lambda node: ("run.pause", [str(node.milliseconds)]),
    model.Always: lambda node: (f"behaviours.{'Success' if node.succeeds else 'Failure'}", ['"always"']),
    model.RepeatUntil: lambda node: ("run.repeat_until", [_quoted(node.condition)]),
    model.While: lambda node: ("run.while_holds", [_quoted(node.condition)]),
    model.Within: lambda node: ("run.within", [str(node.seconds)]),
}
