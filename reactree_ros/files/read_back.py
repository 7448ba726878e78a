"""Reads files that somebody else, or a crash, may have written: everything is limited and checked.

Whatever the file contains, reading it ends with a value or a one-line error.
"""

from __future__ import annotations

import codecs
import dataclasses
import json
import math
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from reactree_ros.errors import UserError

T = TypeVar("T")

#: Most bytes of a file that is read as a whole, and of one of its lines.
LARGEST_FILE, LONGEST_LINE = 160 << 20, 16 << 20
#: Most levels of nested lists and mappings.
DEEPEST = 100
#: Most characters of YAML, and most values after expansion.
LARGEST_YAML, MOST_YAML = 8 << 20, 500_000
#: Most digits of a written whole number; Python allows 4,300.
MOST_DIGITS = 300


def well_formed(text: str) -> str:
    """Return a text that any file and message accepts: lone surrogates become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def bytes_of(path: Path, *, most: int = LARGEST_FILE) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > most:
        raise UserError(f"{path}: is larger than {most >> 20} MiB, the most that is read")
    return content


def text_of(path: Path, *, most: int = LARGEST_FILE) -> str:
    try:
        return bytes_of(path, most=most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not text in UTF-8: {error.reason} at byte {error.start}") from error


def parse_json(text: str | bytes, *, halves: bool = False) -> Any:
    text = text.removeprefix(codecs.BOM_UTF8) if isinstance(text, bytes) else text.removeprefix("\ufeff")
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        if not halves or rb"\u" not in (text if isinstance(text, bytes) else text.encode(errors="replace")):
            raise
        problem = error
    try:
        found = json.loads(text, parse_constant=_refuse)
        check_values(found)
    except RecursionError:
        raise ValueError(f"lists and mappings are nested more than {DEEPEST} levels deep") from None
    except ValueError as error:
        raise (problem if isinstance(error, json.JSONDecodeError) else error) from None
    return found


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def check_values(values: Any) -> None:
    waiting = [(values, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > DEEPEST:
            raise ValueError(f"lists and mappings are nested more than {DEEPEST} levels deep")
        if isinstance(value, dict):
            waiting += [(one, depth + 1) for one in value.values()]
        elif isinstance(value, list):
            waiting += [(one, depth + 1) for one in value]
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is not a finite number")
        elif isinstance(value, int) and value.bit_length() > 64:
            raise ValueError(f"a number of {value.bit_length()} bits is too long; it may have 64")


def checked(kind: type[T], values: Any) -> T:
    """Make a value, such as a dataclass, from JSON values, and check the type of each field."""
    if dataclasses.is_dataclass(kind) and isinstance(values, dict):
        named = {field.name for field in dataclasses.fields(kind)}
        if strange := [name for name in values if name not in named]:
            raise ValueError(f"there is no field {shown(strange[0])}")
    declared: Any = kind
    try:
        made: T = adapter_of(declared).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise ValueError(problem_of(error)) from None
    return made


@cache
def adapter_of(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def problem_of(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    what = ".".join(map(str, first["loc"])) or "the value"
    if first["type"] == "missing":
        return f"{what} lacks"
    return f"{what} {message[0].lower()}{message[1:]}, not {shown(first['input'])}"


def shown(value: Any) -> str:
    try:
        return ascii(value)[:60]
    except ValueError:  # more digits than Python writes
        return "a very long number"


def read_json(path: Path, what: str, make: Callable[[Any], T] = lambda values: values) -> T:
    content = bytes_of(path)
    try:
        values = parse_json(content)
        check_values(values)
        return make(values)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise UserError(f"{path}: cannot be read as {what}: {in_a_line(error)}") from error


def in_a_line(error: BaseException) -> str:
    said = " ".join(str(error).split())[:200]
    return f"{said} lacks" if isinstance(error, KeyError) else said or type(error).__name__


class NoYaml(ValueError):
    """A text is not acceptable YAML; the line is from 1, if known."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


def parse_yaml(text: str, loader: Any = None) -> tuple[Any, Any]:
    """Read YAML; return its values, and the nodes with their positions in the text. Raises NoYaml.

    An alias (``*name``) counts like a copy of its value.
    """
    import yaml

    if len(text) > LARGEST_YAML:
        raise NoYaml(f"is longer than {LARGEST_YAML >> 20} MiB, the most that is read")
    reading = None
    try:
        reading = (loader or yaml.SafeLoader)(text)
        node = reading.get_single_node()
        if node is None:
            return None, None
        _bound(node)
        return reading.construct_document(node), node
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        said = ": ".join(part for name in ("context", "problem") if (part := getattr(error, name, None)))
        said = "a tab stands before the words; indent with blanks" if "'\\t'" in said else said
        raise NoYaml(said or "it cannot be read", None if mark is None else mark.line + 1) from None
    except RecursionError:
        raise NoYaml(f"lists and mappings are nested more than {DEEPEST} levels deep") from None
    except NoYaml:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:  # of a value with a tag
        raise NoYaml(f"a value does not match its tag ({type(error).__name__})") from None
    finally:
        if reading is not None:
            reading.dispose()


def _bound(root: Any) -> None:
    import yaml

    sizes: dict[int, int] = {}  # size of each node with everything below it, once known
    waiting = [(root, 0, False)]
    inside: set[int] = set()
    while waiting:
        node, depth, done = waiting.pop()
        line, below = node.start_mark.line + 1, _below(node)
        if done:
            inside.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(one)] for one in below)
            if sizes[id(node)] > MOST_YAML:
                raise NoYaml(f"stands for more than {MOST_YAML:,} values", line)
            continue
        if id(node) in inside:
            raise NoYaml("a value contains itself", line)
        if depth > DEEPEST:
            raise NoYaml(f"lists and mappings are nested more than {DEEPEST} levels deep", line)
        if isinstance(node.value, str) and not node.value.isascii() and well_formed(node.value) != node.value:
            raise NoYaml("a text holds half a character", line)
        if node.tag.endswith((":int", ":float")) and len(node.value) > MOST_DIGITS:
            raise NoYaml(f"a number of {len(node.value)} characters is too long", line)
        if id(node) not in sizes:
            inside.add(id(node))
            waiting.append((node, depth, True))
            waiting += [(one, depth + 1, False) for one in below]
            if isinstance(node, yaml.MappingNode):
                _refuse_twice(node)


def _below(node: Any) -> list[Any]:
    if isinstance(node.value, str):
        return []
    return [one for each in node.value for one in (each if isinstance(each, tuple) else (each,))]


def _refuse_twice(mapping: Any) -> None:
    lines: dict[str, list[int]] = {}
    for key, _ in mapping.value:
        if isinstance(key.value, str):
            lines.setdefault(key.value, []).append(key.start_mark.line + 1)
    for name, found in lines.items():
        if len(found) > 1:
            raise NoYaml(f"'{name[:60]}' is there {len(found)} times; leave one", found[-1])


def read_yaml(path: Path, loader: Any = None) -> tuple[Any, Any]:
    return yaml_of(text_of(path, most=LARGEST_YAML), where=str(path), loader=loader)


def yaml_of(text: str, *, where: str, loader: Any = None) -> tuple[Any, Any]:
    try:
        return parse_yaml(text, loader)
    except NoYaml as error:
        line = "" if error.line is None else f":{error.line}"
        said = str(error)
        raise UserError(f"{where}{line}: {said if 'times; leave one' in said else f'is not YAML: {said}'}") from None


def append_line(file: BinaryIO, line: str) -> None:
    file.write(f"{line}\n".encode())
    file.flush()
    os.fsync(file.fileno())


def cut_torn_line(path: Path) -> None:
    """Remove an incomplete last line that a kill left in a file, if the file exists."""
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)


def read_lines(path: Path, kind: type[T]) -> list[T]:
    """Read a file line by line; skip a last line without its end, which may still be written."""
    found = []
    for number, line in enumerate(bytes_of(path).split(b"\n")[:-1], 1):
        try:
            found.append(checked(kind, parse_json(line)))
        except ValueError as error:
            said = f"{path}: line {number} is broken: {in_a_line(error)}: {shown(line)}; take it out to run it again"
            raise UserError(said) from error
    return found
