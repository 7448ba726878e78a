"""Code blocks of ReCode: reads a reply, and checks which statements may run at all.

The code is parsed, never compiled. Refusals here tell the model in plain words what is wrong; the sandbox is what makes
code harmless.
"""

from __future__ import annotations

import ast
import builtins
import copy
import re
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from reactree_lab.planners.recode.sandbox import MODULES, RESERVED, RUN, RUN_ALONE
from reactree_ros.llm.reasoning import split_reasoning

#: Longest code of one reply, in characters.
MAX_CODE = 10_000
#: Deepest nesting of statements and expressions.
MAX_NESTING = 60

_BEGIN = "<execute>"
#: Code and its closing tag; the tag is empty if missing.
_EXECUTE = re.compile(rf"{_BEGIN}(.*?)(</execute>|\Z)", re.DOTALL)
_FENCED = re.compile(r"^[ \t]*(`{3,}(?!`)|~{3,}(?!~))[^\n`]*\n(.*?)(?:\1|\Z)", re.DOTALL | re.MULTILINE)
_BUILTINS = frozenset(dir(builtins))
_FORBIDDEN = frozenset({"breakpoint", "compile", "eval", "exec", "open"})
_KINDS: dict[type[ast.AST], str] = {
    ast.FunctionDef: "def",
    ast.AsyncFunctionDef: "async def",
    ast.ClassDef: "class",
    ast.Await: "await",
    ast.AsyncFor: "async for",
    ast.AsyncWith: "async with",
    ast.Yield: "yield",
    ast.YieldFrom: "yield from",
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.Delete: "del",
}
_ONCE_OR_NOT = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp, ast.BoolOp)


_Node = TypeVar("_Node", bound=ast.AST)


class BlockError(Exception):
    """Code that cannot run, or failed; the message is for the model."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(problem)
        self.line = line  # line of the code, from 1; 0 if nothing of it ran


@dataclass(frozen=True)
class Block:
    thought: str  # the reasoning about the code
    code: str
    statements: tuple[ast.stmt, ...]


@dataclass(frozen=True)
class Placeholder:
    """A statement that calls a function without code (paper, section 3.2)."""

    call: ast.Call
    targets: tuple[str, ...]  # variables that the function's code has to set: the names before the equals sign

    @property
    def function(self) -> str:
        assert isinstance(self.call.func, ast.Name)
        return self.call.func.id

    def __str__(self) -> str:
        call = ast.unparse(self.call)
        return f"{', '.join(self.targets)} = {call}" if self.targets else call


def read_block(said: str, *, reasoning: str = "", cut: bool = False) -> Block:
    """Read the thought and the code of a reply, and check that the code may run."""
    thought, code = read_code(said, reasoning=reasoning, cut=cut)
    tree = parsed(code)
    check(tree)
    return Block(thought, code, tuple(tree.body))


def read_code(said: str, *, reasoning: str = "", cut: bool = False) -> tuple[str, str]:
    """Return the thought and the code of a reply; see :func:`read_block`."""
    answer = split_reasoning(said.replace("\r\n", "\n"))
    thought, text = answer.reasoning, answer.text
    if answer.unfinished and not cut:  # unclosed thinking ends where the code begins
        thought, begin, rest = thought.partition(_BEGIN)
        text = begin + rest
    return thought.strip() or reasoning, textwrap.dedent(_the_code(text, cut)).strip("\n").rstrip()


def _the_code(text: str, cut: bool) -> str:
    blocks = _EXECUTE.findall(text)
    if cut and not any(end for _, end in blocks):
        raise BlockError("RuntimeError: the answer was cut at its token limit; write less")
    codes = [code for code, _ in blocks] or _fenced(text)
    if not codes:
        raise BlockError("SyntaxError: there is no code between <execute> and </execute>")
    if len(blocks) == 1:
        codes = _fenced(codes[0]) or codes
    if len(codes) > 1:
        raise BlockError(f"SyntaxError: there are {len(codes)} blocks of code; write one, with all of it")
    return codes[0]


def _fenced(text: str) -> list[str]:
    return [code for _, code in _FENCED.findall(text)]


def parsed(code: str) -> ast.Module:
    if len(code) > MAX_CODE:
        raise BlockError(f"SyntaxError: the code has {len(code)} characters; at most {MAX_CODE} are allowed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in texts
            tree = ast.parse(code)
    except SyntaxError as error:
        raise BlockError(
            f"SyntaxError: {error.msg} (line {error.lineno}): {(error.text or '').strip()[:200]}"
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        problem = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise BlockError(f"SyntaxError: the code cannot be read: {problem}") from None
    if not tree.body:
        raise BlockError("SyntaxError: there is no code between <execute> and </execute>")
    return tree


def check(tree: ast.Module, functions: Collection[str] = RUN_ALONE) -> None:
    """Check that code may run, with calls of these functions outside of the sandbox."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    level: list[ast.AST] = [tree]
    for _ in range(MAX_NESTING):
        for node in level:
            if problem := _problem(node, functions=functions, is_called=id(node) in called):
                raise BlockError(f"SyntaxError: {problem} (line {getattr(node, 'lineno', 1)})")
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise BlockError(f"SyntaxError: the code is nested deeper than {MAX_NESTING} levels; write shorter statements")
    try:
        ast.unparse(tree)  # as when it runs
    except ValueError as error:
        raise BlockError(f"SyntaxError: the code cannot be read: {error}") from None


def _problem(node: ast.AST, *, functions: Collection[str], is_called: bool) -> str:
    """Return what is wrong with a node; empty if nothing is."""
    if word := _KINDS.get(type(node)):
        return f"'{word}' is not allowed; write statements, and calls of functions for the parts"
    if isinstance(node, ast.Import):
        return _not_there(alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return _not_there([node.module or "."])
    if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
        return f"the attribute '{node.attr}' is not allowed"
    if isinstance(node, ast.Name) and node.id in functions and not is_called:
        return f"'{node.id}' can only be called"
    for field in ("id", "name", "arg", "asname", "rest"):
        name = getattr(node, field, None)
        if isinstance(name, str) and (name.startswith(("__", RESERVED)) or name in _FORBIDDEN):
            return f"the name '{name}' is not allowed"
        if isinstance(name, str) and name in functions and field != "id":
            return f"the name '{name}' is taken"
    return ""


def _not_there(modules: Iterable[str]) -> str:
    missing = [name for name in modules if name not in MODULES]
    return f"the module '{missing[0]}' is not there; there are {', '.join(MODULES)}" if missing else ""


def called_functions(node: ast.AST) -> frozenset[str]:
    """Return called functions, except ``run``, Python's own and arguments of lambdas."""
    everything = list(ast.walk(node))
    own = {one.arg for one in everything if isinstance(one, ast.arg)}
    own |= {name for one in everything if isinstance(one, ast.comprehension) for name in assigned_names([one.target])}
    names = {one.func.id for one in everything if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)}
    return frozenset(names - own - _BUILTINS - {RUN})


def jumps_out(statement: ast.AST) -> bool:
    """Return whether a statement contains a ``return``, or a ``break`` or ``continue`` of an outer loop."""
    if isinstance(statement, ast.Return | ast.Break | ast.Continue):
        return True
    if isinstance(statement, ast.For | ast.While):
        return any(map(jumps_out, statement.orelse)) or any(
            isinstance(one, ast.Return) for child in statement.body for one in ast.walk(child)
        )
    return any(map(jumps_out, ast.iter_child_nodes(statement)))


def assigned_names(statements: Iterable[ast.AST]) -> list[str]:
    """Return the variables that statements set, in order."""
    names = (one for node in statements for one in ast.walk(node) if isinstance(one, ast.Name))
    return list(dict.fromkeys(name.id for name in names if isinstance(name.ctx, ast.Store)))


def placeholder(statement: ast.stmt, unknown: Collection[str]) -> Placeholder | None:
    """Read a statement that is one call of a function without code; None for every other statement."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        first = statement.targets[0]
        targets = list(first.elts) if isinstance(first, ast.Tuple | ast.List) else [first]
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    elif not isinstance(statement, ast.Expr):
        return None
    call = statement.value
    names = tuple(target.id for target in targets if isinstance(target, ast.Name))
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or len(names) != len(targets):
        return None
    return Placeholder(call, names) if call.func.id in unknown else None


def calls_of(statement: ast.stmt, functions: Collection[str]) -> list[str]:
    """List the calls of some functions in a statement, with their targets if the call is the whole value."""
    if (whole := placeholder(statement, functions)) is not None:
        return [str(whole)]
    calls = (one for one in ast.walk(statement) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name))
    return [ast.unparse(call) for call in calls if isinstance(call.func, ast.Name) and call.func.id in functions]


def take_out(node: _Node, unknown: Collection[str], new_name: Callable[[], str]) -> tuple[list[ast.stmt], _Node]:
    """Move calls of functions without code out of an expression, into statements of their own."""
    taker = _Taker(unknown, new_name)
    changed: Any = ast.fix_missing_locations(taker.visit(copy.deepcopy(node)))
    return taker.before, changed


class _Taker(ast.NodeTransformer):
    def __init__(self, unknown: Collection[str], new_name: Callable[[], str]) -> None:
        self.before: list[ast.stmt] = []
        self._unknown = unknown
        self._new_name = new_name

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, _ONCE_OR_NOT):
            if hidden := sorted(called_functions(node) & frozenset(self._unknown)):
                said = f"'{hidden[0]}' has no code yet; give its call a statement of its own"
                raise BlockError(f"NameError: {said}, outside of other expressions")
            return node
        self.generic_visit(node)
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._unknown):
            return node
        name = self._new_name()
        self.before.append(assignment(name, node))
        return ast.copy_location(ast.Name(name, ast.Load()), node)


def assignment(name: str, value: ast.expr) -> ast.stmt:
    made = ast.Assign(targets=[ast.Name(name, ast.Store())], value=value)
    return ast.fix_missing_locations(ast.copy_location(made, value))


def not_inside(statement: ast.stmt, unknown: Collection[str]) -> BlockError:
    """Return the error for a function without code, or a return, inside of a statement that cannot hold it."""
    kind = type(statement).__name__.lower()
    what = f"the function '{min(unknown)}', which has no code yet, is called" if unknown else "a jump stands"
    return BlockError(f"SyntaxError: {what} inside of a {kind} statement; write it outside", statement.lineno)
