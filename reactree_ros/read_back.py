"""Reads files back that somebody else, or a crash, may have written: all of it is bounded and checked.

Whatever is in such a file, reading it ends with a value or with one line that says what is wrong.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from reactree_ros.errors import UserError

T = TypeVar("T")

#: Most bytes of a file that is read as a whole, and of one of its lines.
LARGEST_FILE, LONGEST_LINE = 160 << 20, 16 << 20
#: How deep lists and mappings may lie in one another.
DEEPEST = 100
#: Most digits of a whole number that is written out; Python takes no more than 4,300.
MOST_DIGITS = 300
#: Largest number that a sentence is taken to mean: of things, steps and subgoals there are fewer.
MOST_SAID = 9999


def number_of(text: str, *, most: int = 2**53 - 1) -> int | None:
    """Read a whole number, 0 or more, that somebody wrote; None where it is none, or more than `most`."""
    if not text.isascii() or not text.isdecimal() or len(text.lstrip("0")) > MOST_DIGITS:
        return None
    number = int(text.lstrip("0") or "0")
    return number if number <= most else None


def said_number(word: str) -> int | None:
    """Read a number that somebody says, in digits; None where it is none, or more than anybody means."""
    return number_of(word, most=MOST_SAID)


def bytes_of(path: Path, *, most: int = LARGEST_FILE) -> bytes:
    """Read a file.

    Raises:
        UserError: It cannot be read, or is larger than that.
    """
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > most:
        raise UserError(f"{path}: is larger than {most >> 20} MiB, the most that is read")
    return content


def text_of(path: Path, *, most: int = LARGEST_FILE) -> str:
    """Read a text file, which is UTF-8.

    Raises:
        UserError: It cannot be read, is larger than that, or is no text.
    """
    try:
        return bytes_of(path, most=most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is no text in UTF-8: {error.reason} at byte {error.start}") from error


def parse_json(text: str | bytes) -> Any:
    """Read JSON. Half a character in a text, as an operating system's file name may have, is left as it is.

    Raises:
        ValueError: It is none, lies too deep in itself, or a number of it is too long or none; says what is wrong.
    """
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        if rb"\u" not in (text if isinstance(text, bytes) else text.encode(errors="replace")):
            raise
        problem = error
    try:
        found = json.loads(text, parse_constant=_refuse)
        check_values(found)
    except RecursionError:
        raise ValueError(f"lists and mappings lie more than {DEEPEST} deep in one another") from None
    except ValueError as error:
        raise (problem if isinstance(error, json.JSONDecodeError) else error) from None
    return found


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def check_values(values: Any) -> None:
    """Look whether what was read is bounded: its depth, and its numbers.

    Raises:
        ValueError: It is not; says what.
    """
    waiting = [(values, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > DEEPEST:
            raise ValueError(f"lists and mappings lie more than {DEEPEST} deep in one another")
        if isinstance(value, dict):
            waiting += [(one, depth + 1) for one in value.values()]
        elif isinstance(value, list):
            waiting += [(one, depth + 1) for one in value]
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is no number of JSON")
        elif isinstance(value, int) and value.bit_length() > 64:
            raise ValueError(f"a number of {value.bit_length()} bits is too long; it may have 64")


def checked(kind: Any, values: Any) -> Any:
    """Make a value of what was read from JSON, such as a dataclass, and check the type of each of its fields.

    Raises:
        ValueError: A field lacks or is wrong; says which, and what was there.
    """
    try:
        return _adapter(kind).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise ValueError(problem_of(error)) from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def problem_of(error: ValidationError) -> str:
    """Say in one line what pydantic found first: the field, what is wrong with it, and what was there."""
    first = error.errors(include_url=False, include_context=False)[0]
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    what = ".".join(map(str, first["loc"])) or "the value"
    if first["type"] == "missing":
        return f"{what} lacks"
    return f"{what} {message[0].lower()}{message[1:]}, not {shown(first['input'])}"


def shown(value: Any) -> str:
    """Return the begin of a value as a message shows it."""
    try:
        return ascii(value)[:60]
    except ValueError:  # more digits than Python writes
        return "a very long number"


def read_json(path: Path, what: str, make: Callable[[Any], T] = lambda values: values) -> T:
    """Read a file of JSON.

    Args:
        path: The file.
        what: What it should be, for errors, such as ``goal of a run``.
        make: Makes of its values what is wanted; raises ValueError, TypeError, KeyError, … where it cannot.

    Raises:
        UserError: The file cannot be read, is no JSON, or is not what it should be.
    """
    content = bytes_of(path)
    try:
        values = parse_json(content)
        check_values(values)
        return make(values)
    except UserError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise UserError(f"{path}: is no {what}: {in_a_line(error)}") from error


def in_a_line(error: BaseException) -> str:
    """Return what an error says, in one line of bounded length."""
    said = " ".join(str(error).split())[:200]
    return f"{said} lacks" if isinstance(error, KeyError) else said or type(error).__name__
