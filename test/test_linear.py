"""What a model, a world or a person says is read in time that grows with its length, not with its square."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
import pkgutil
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from reactree_lab.planners.adapt import read_plan
from reactree_lab.planners.codeact import _apart
from reactree_lab.planners.plan import tidied
from reactree_lab.planners.recode.code_block import BlockError, read_block
from reactree_ros.agent.control_flow import default_flows
from reactree_ros.agent.decision import MalformedDecision
from reactree_ros.agent.grammar import DecisionGrammar, parse_decision
from reactree_ros.agent.labels import in_lines
from reactree_ros.agent.prompt import read_summary
from reactree_ros.agent.reading import Unreadable, read, read_call, read_choice
from reactree_ros.agent.transcript import TranscriptError, parse_transcript
from reactree_ros.files.secrecy import redacted
from reactree_ros.llm.chat import broken
from reactree_ros.llm.reasoning import split_reasoning
from reactree_ros.person.port import approves, is_stop, quoted
from reactree_ros.world.skill_policy import policy_from_list

parser: Any = importlib.import_module("re._parser" if hasattr(re, "_parser") else "sre_parse")
#: Folders whose patterns read what others have said.
READING = (
    *("agent", "llm", "memory", "person", "planners", "tree", "world"),
    *("cli", "household", "reactree_doors", "reactree_lab", "record", "robot", "view"),
    *("files", "plugins"),
)
METHODS = {"match": "match", "fullmatch": "fullmatch"} | dict.fromkeys(
    ("search", "sub", "subn", "finditer", "findall", "split"), "search"
)
#: What is repeated for every pattern.
FILLERS = (
    *" \n\ta1-*()[<{\"'\\`~_.,:#", "a ", "A ", "a,", "a, ", "a. ", "A. ", "- ", "1. ", "<a", "\na", " \n", "~~~",
    "```", "//", "a.", "a://", "key=",
)  # fmt: skip
#: How many characters, and how much longer that takes which is four times as long, at most: linear is 4, square 16.
LENGTH, MOST = 500, 9.0


class Use(NamedTuple):
    """A pattern, and whether it is looked for anywhere in a text."""

    name: str
    pattern: re.Pattern[str]
    method: str


def _modules() -> Iterator[ModuleType]:
    for folder in READING:
        package = importlib.import_module(folder if folder.startswith("reactree_") else f"reactree_ros.{folder}")
        if not hasattr(package, "__path__"):
            yield package
            continue
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with suppress(ImportError):  # of an extra that is not here
                yield importlib.import_module(found.name)


def _patterns_in(value: object, depth: int = 0) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield value
    elif depth < 3 and isinstance(value, dict):
        yield from _patterns_in(list(value.values()), depth + 1)
    elif depth < 3 and isinstance(value, tuple | list | set | frozenset):
        for one in value:
            yield from _patterns_in(one, depth + 1)


def _uses() -> Iterator[Use]:
    for module in _modules():
        calls = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Attribute)]
        methods: dict[str, set[str]] = {}
        for node in calls:
            if isinstance(node.value, ast.Name) and node.attr in METHODS:
                methods.setdefault(node.value.id, set()).add(METHODS[node.attr])
        for name, value in vars(module).items():
            for number, pattern in enumerate(_patterns_in(value)):
                for method in sorted(methods.get(name, {"search"})):
                    yield Use(f"{module.__name__}.{name}.{number}:{method}", pattern, method)
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_inline(node):
                text = node.args[0].value  # type: ignore[attr-defined]
                yield Use(f"{module.__name__}:{node.lineno}", re.compile(text), METHODS[node.func.attr])


def _is_inline(call: ast.Call) -> bool:
    assert isinstance(call.func, ast.Attribute)
    of = call.func.value
    is_re = isinstance(of, ast.Name) and of.id == "re" and call.func.attr in METHODS
    return is_re and bool(call.args) and isinstance(call.args[0], ast.Constant)


def _texts_in(tree: Any) -> Iterator[str]:
    word = ""
    for op, value in tree:
        if str(op) == "LITERAL":
            word += chr(value)
            yield chr(value)
            continue
        if len(word) > 1:
            yield word
        word = ""
        if str(op) == "IN":
            yield from (chr(one if isinstance(one, int) else one[0]) for kind, one in value if str(kind) in _OF_SETS)
        elif str(op) == "BRANCH":
            yield from (text for branch in value[1] for text in _texts_in(branch))
        elif isinstance(value, tuple):
            yield from (text for one in value if isinstance(one, parser.SubPattern) for text in _texts_in(one))
        elif isinstance(value, parser.SubPattern):
            yield from _texts_in(value)
    if len(word) > 1:
        yield word


_OF_SETS = ("LITERAL", "RANGE")


def _adversaries(known: Collection[str]) -> Iterator[tuple[str, str, str]]:
    known = list(dict.fromkeys(known))
    signs, words = [one for one in known if len(one) == 1][:10], [one for one in known if len(one) > 1][:12]
    pairs = ("".join(pair) for pair in itertools.product([*signs[:6], " ", "a"], repeat=2))
    for filler in dict.fromkeys([*FILLERS, *signs, *words, *(f"{word} " for word in words), *pairs]):
        yield "", filler, ""
    for before in ("a", *words[:6]):
        for filler in (" ", "a", "\n", "1", "a ", "- ", *words[:3]):
            for after in ("\u2603", words[-1] if words else "b"):
                yield before, filler, after


def _seconds(reads: Callable[[str], object], adversary: tuple[str, str, str], length: int) -> float:
    before, filler, after = adversary
    text = before + (filler * (length // len(filler) + 1))[:length] + after
    begin = time.thread_time()
    reads(text)
    return time.thread_time() - begin


def growth(reads: Callable[[str], object], known: Collection[str] = ()) -> tuple[float, tuple[str, str, str]]:
    worst = max(_adversaries(known), key=lambda one: _seconds(reads, one, LENGTH))
    least = [min(_seconds(reads, worst, length) for _ in range(3)) for length in (4 * LENGTH, 16 * LENGTH)]
    return least[1] / max(least[0], 1e-5), worst


def _all(use: Use) -> Callable[[str], object]:
    if use.method == "search":
        return lambda text: [None for _ in use.pattern.finditer(text)]
    return functools.partial(getattr(use.pattern, use.method))


@pytest.mark.slow
def test_every_pattern_is_linear(sweep: int) -> None:
    uses = {use.name: use for use in _uses()}
    rooms = {room for name in uses for room in name.split(".")[:2]}
    assert rooms >= {"agent", "reactree_lab", "llm", "world", "person"}
    assert len(uses) > 100
    square = []
    for use in [*uses.values()][::sweep]:
        ratio, worst = growth(_all(use), list(_texts_in(parser.parse(use.pattern.pattern, use.pattern.flags))))
        if ratio >= MOST:
            square.append(f"{use.pattern.pattern!r} takes {ratio:.0f} times as long for 4 times as much of {worst!r}")
    assert square == []


GRAMMAR = DecisionGrammar(("go to kitchen 1", "pick up apple 2", "open fridge 1", "done"), default_flows())
KNOWN = (
    *("Think:", "Act:", "Expand:", "- control flow: sequence", "- subgoals: ", "go to kitchen 1", "~~~\n", "```\n"),
    *("<think>", "</think>", "<execute>", "</execute>", "<thought>", "</thought>", "<solution>", "OK.\n", '{"act": '),
    *("Step 1: ", "Execution Order: ", "(Step 1 AND ", "and then ", "I will not ", "**Act**: ", "\\", "assistantfinal"),
)
POLICY = policy_from_list([{"skill": "take", "object": "knife", "verdict": "deny"}], where="the test")


def _quietly(read: Callable[..., object], *given: Any) -> Callable[[str], object]:
    def reads(text: str) -> None:
        with suppress(Unreadable, MalformedDecision, TranscriptError, BlockError, ValueError):
            read(text, *given)

    return reads


READERS: dict[str, Callable[[str], object]] = {
    "a decision": _quietly(read, GRAMMAR),
    "a tool's call": _quietly(lambda text: read_call([("act", text)], GRAMMAR, text=text)),
    "a choice": _quietly(read_choice, GRAMMAR.skills),
    "a recorded decision": _quietly(parse_decision),
    "a transcript": _quietly(lambda text: parse_transcript(f"You are in the house\n{text}")),
    "a summary": _quietly(read_summary, "nothing"),
    "reasoning": split_reasoning,
    "code": _quietly(read_block),
    "thoughts beside code": _apart,
    "a plan of ADaPT": _quietly(read_plan),
    "a step of a plan": tidied,
    "words that stop": is_stop,
    "words that allow": approves,
    "a person's words": quoted,
    "lines of others": in_lines,
    "markers": broken,
    "an error that may tell a key": redacted,
    "a skill that is judged": lambda text: POLICY.judge(f"take {text}"),
}


@pytest.mark.parametrize("name", READERS)
def test_a_reader_is_linear(name: str) -> None:
    ratio, worst = growth(READERS[name], KNOWN)
    assert ratio < MOST, f"{name} takes {ratio:.0f} times as long for 4 times as much of {worst!r}"


@pytest.mark.parametrize("square", [r"\s*x", r"~+\n", r"<a>.*?</a>", r"\d+ Subgoal"])
def test_what_is_square_is_found(square: str) -> None:
    pattern = re.compile(square)
    known = list(_texts_in(parser.parse(square)))
    # Several tries: a busy machine makes the shorter text's time longer.
    assert any(growth(lambda text: list(pattern.finditer(text)), known)[0] > MOST for _ in range(5))
