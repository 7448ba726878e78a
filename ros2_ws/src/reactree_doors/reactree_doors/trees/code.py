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
    """Write a routine as a module of Python, whose ``ROUTINE`` is the same again; called, it prints that as XML."""
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


def _call(name: str, *arguments: str, depth: int) -> str:
    line = f"{name}({', '.join(arguments)})"
    if len(line) + 4 * depth <= _LONGEST and "\n" not in line:
        return line
    inner = "    " * (depth + 1)
    return f"{name}(\n{inner}" + f",\n{inner}".join(arguments) + f",\n{'    ' * depth})"


def _written(node: model.Node, depth: int) -> str:
    write: Callable[[Any, int], str] = _WRITE[type(node)]
    return write(node, depth)


def _list(nodes: tuple[model.Node, ...], depth: int) -> str:
    inner = "    " * (depth + 1)
    return f"[\n{''.join(f'{inner}{_written(node, depth + 1)},{chr(10)}' for node in nodes)}{'    ' * depth}]"


def _turns(node: model.Sequence | model.Fallback, depth: int) -> str:
    name = "Sequence" if isinstance(node, model.Sequence) else "Selector"
    children = f"children={_list(node.children, depth + 1)}"
    return _call(f"composites.{name}", _quoted(node.kind), f"memory={node.memory}", children, depth=depth)


def _parallel(node: model.Parallel, depth: int) -> str:
    children = _list(node.children, depth + 1)
    if node.policy != "all":
        return _call("run.parallel", _quoted(node.policy), children, depth=depth)
    policy = "policy=common.ParallelPolicy.SuccessOnAll()"
    return _call("composites.Parallel", _quoted(node.kind), policy, f"children={children}", depth=depth)


def _flow(name: str, first: Callable[[Any], str]) -> Callable[[Any, int], str]:
    return lambda node, depth: _call(name, first(node), _list(node.children, depth + 1), depth=depth)


def _decorator(node: model.Decorator, depth: int) -> str:
    name, counts = _DECORATORS[node.does]
    for_ever = "-1" if node.does == "repeat" else f"{model.FOR_EVER:_}"
    times = [f"{counts}={node.times or for_ever}"] if counts else []
    child = _written(node.child, depth + 1)
    return _call(f"decorators.{name}", _quoted(node.does), child, *times, depth=depth)


def _skill(node: model.Skill, depth: int) -> str:
    more = [] if node.expected is Outcome.DONE else [f"expected={_quoted(node.expected.value)}"]
    for name in ("needs", "effect"):
        facts = [f"({_quoted(fact.what)}, {_quoted(fact.about)})" for fact in getattr(node, name)]
        more += [f"{name}=[{', '.join(facts)}]"] if facts else []
    return _call("run.step" if more else "run.skill", _quoted(node.wording), *more, depth=depth)


def _search(node: model.Search, depth: int) -> str:
    order = [f"order=[{', '.join(map(_quoted, node.order))}]"] if node.order else []
    return _call("run.search", _quoted(node.finds), f"of={_quoted(node.of)}", *order, depth=depth)


def _wait(node: model.WaitFor, depth: int) -> str:
    seconds = [] if node.seconds is None else [repr(node.seconds).removesuffix(".0")]
    return _call("run.wait_for", _quoted(node.condition), *seconds, depth=depth)


_WRITE: Mapping[type, Callable[[Any, int], str]] = {
    model.Sequence: _turns,
    model.Fallback: _turns,
    model.Parallel: _parallel,
    model.Decorator: _decorator,
    model.Skill: _skill,
    model.Goal: lambda node, depth: _call("run.goal", _quoted(node.text), depth=depth),
    model.Search: _search,
    model.WaitFor: _wait,
    model.Always: lambda node, _: f'behaviours.{"Success" if node.succeeds else "Failure"}("always")',
    model.RepeatUntil: _flow("run.repeat_until", lambda node: _quoted(node.condition)),
    model.While: _flow("run.while_holds", lambda node: _quoted(node.condition)),
    model.Within: _flow("run.within", lambda node: str(node.seconds)),
}
