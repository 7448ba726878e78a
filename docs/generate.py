"""Writes the pages of the reference that are made from the code, into reference/generated/, which is not committed.

``conf.py`` calls it before the pages are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sphinx.ext.autodoc.mock import mock

from reactree_ros.cli import below, load
from reactree_ros.cli.commands import COMMANDS
from reactree_ros.cli.help import argument_name, described, examples_of, groups_of_options, option_name, paragraphs
from reactree_ros.cli.listing import words_of_worlds
from reactree_ros.cli.options import allowed_text, default_text
from reactree_ros.household.vocabulary import CLASSES
from reactree_ros.nodes.settings import (
    BridgeSettings,
    HouseholdBridgeSettings,
    InferenceNodeSettings,
    PlannerNodeSettings,
    RobotBridgeSettings,
    TaskSettings,
    Watching,
)
from reactree_ros.plugins import REGISTRIES, Spec
from reactree_ros.plugins.settings import Settings
from reactree_ros.tree.options import RunOptions

INTERFACES = Path(__file__).parents[1] / "ros2_ws/src/reactree_interfaces"
ROS = [
    "action_msgs",
    "builtin_interfaces",
    "diagnostic_msgs",
    "launch",
    "launch_ros",
    "lifecycle_msgs",
    "rcl_interfaces",
    "rclpy",
    "reactree_interfaces",
    "std_msgs",
    "std_srvs",
    "unique_identifier_msgs",
]
#: What each node declares as parameters, and whose settings beside.
NODES: dict[str, tuple[Sequence[type[Settings]], str]] = {
    "reactree_planner": ((PlannerNodeSettings, TaskSettings), ""),
    "household_bridge": ((HouseholdBridgeSettings, BridgeSettings), "those of its [world](worlds.md)"),
    "robot_bridge": ((RobotBridgeSettings, BridgeSettings), ""),
    "inference": ((InferenceNodeSettings,), "those of its [language model](language-models.md)"),
    "watchdog": ((Watching,), ""),
}
#: The parts of a file, by its ending.
PARTS = {".action": ("goal", "result", "feedback"), ".srv": ("request", "response"), ".msg": ("",)}
_LINE = re.compile(
    r"(?P<type>[\w/\[\]<>=]+)\s+(?P<name>\w+)\s*(?:=\s*(?P<value>\S+)|(?P<default>[^#\s]\S*))?\s*(?:#(?P<text>.*))?"
)


def write(folder: Path) -> None:
    """Write every page."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {
        "planners": named("planners"),
        "worlds": named("worlds"),
        "language-models": named("models"),
        "memories": named("memories"),
        "suites": named("suites"),
        "words": words(),
        "command-line": command_line(),
        "ros-interfaces": interfaces(),
        "ros-parameters": parameters(),
    }
    for name, lines in pages.items():
        text = "\n".join(lines) + "\n"
        page = folder / f"{name}.md"
        if not page.exists() or page.read_text(encoding="utf-8") != text:  # what stays is not read again
            page.write_text(text, encoding="utf-8")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, then an empty one."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(_cell(text) for text in row)} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def code(text: str) -> str:
    """Return a text as code; an empty one stays empty."""
    return text and f"`{text}`"


# ---------------------------------------------------------------------- what can be named


def named(kind: str) -> Iterator[str]:
    """Say what is in a registry: one table of all, then the settings of each."""
    registry = REGISTRIES.get(kind)
    specs = [registry.get(name) for name in registry.own]
    rows = [(", ".join(map(code, names_of(spec))), plain(spec.summary), code(spec.extra)) for spec in specs]
    yield from table((registry.kind, "description", "package to install"), rows)
    for spec in specs:
        if spec.settings.model_fields:
            yield f"## `{spec.name}`\n"
            yield f"{spec.summary[0].upper()}{spec.summary[1:]}.\n"
            yield from settings_table(spec.settings)


def names_of(spec: Spec) -> list[str]:
    """Return the names that a user may give; a planner's second one is that with a memory."""
    return [spec.name, *([f"{spec.name}_wm"] if getattr(spec, "remembers", False) else [])]


def settings_table(*kinds: type[Settings]) -> Iterator[str]:
    """Say what can be set."""
    rows = [
        (code(name), code(default_text(field)), allowed_text(field), plain(field.description or ""))
        for kind in kinds
        for name, field in kind.model_fields.items()
    ]
    return table(("setting", "default", "allowed", "description"), rows)


def plain(text: str) -> str:
    """Return a text in which Markdown finds nothing."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([<>*_\[\]])", r"\\\1", part) for part in parts)


def words() -> Iterator[str]:
    """Say what furniture and objects are called, and which classes are not called as they are written."""
    rows = [(use, ", ".join(map(code, properties)), ", ".join(words)) for use, properties, words in words_of_worlds()]
    yield from table(("use", "properties", "words"), rows)
    plain_names = ((entry, entry.word.replace(" ", "").lower()) for entry in CLASSES.values())
    others = ", ".join(f"`{entry.name}` ({entry.word})" for entry, name in plain_names if name != entry.name)
    yield f"In task files a class is its word in lower case without spaces, but for {others}."


# ---------------------------------------------------------------------- the command line


def command_line() -> Iterator[str]:
    """Say what each command does, with its options."""
    for one in COMMANDS:
        yield from command(f"reactree {one.name}", load(one), level=2)
    yield "## Options of a run\n"
    yield "Give one as `--option NAME=VALUE`.\n"
    yield from settings_table(RunOptions)


def command(name: str, of: Any, *, level: int) -> Iterator[str]:
    """Say what a command does, and those below it."""
    yield f"{'#' * level} `{name}`\n"
    yield from (f"{plain(paragraph)}\n" for paragraph in paragraphs(of.help or ""))
    if hasattr(of, "list_commands"):
        for one in of.list_commands(None):
            yield from command(f"{name} {one}", below(of, one), level=level + 1)
        return
    arguments = [one for one in of.params if one.param_type_name == "argument"]
    yield "```text\n" + " ".join([name, "[OPTIONS]", *map(argument_name, arguments)]) + "\n```\n"
    if arguments:
        rows = [(code(argument_name(one).strip("[]")), plain(described(one))) for one in arguments]
        yield from table(("argument", "description"), rows)
    for group, options in groups_of_options(of).items():
        rows = [(code(option_name(one)), plain(described(one))) for one in options]
        yield from table((group, "description"), rows)
    yield "\n".join(["```bash", *examples_of(of), "```\n"])


# ---------------------------------------------------------------------- ROS


def parameters() -> Iterator[str]:
    """Say what parameters each node has, and what arguments each launch."""
    for node, (kinds, others) in NODES.items():
        yield f"## `{node}`\n"
        yield from settings_table(*kinds)
        if others:
            yield f"And {others}.\n"
    with mock(ROS):
        from reactree_ros.nodes.launching import COMMON, DECIDING
    yield "## Launch arguments\n"
    yield "Beside the parameters of the nodes that it starts, every launch has:\n"
    head = ("argument", "default", "allowed", "description")
    yield from table(head, [_argument(*one) for one in COMMON])
    yield "`household.launch.py` and `mobile_manipulator.launch.py` also have:\n"
    yield from table(head, [_argument(*one) for one in DECIDING])


def _argument(name: str, default: str, text: str, choices: Sequence[str]) -> tuple[str, str, str, str]:
    return code(name), code(default), ", ".join(choices), plain(text)


def interfaces() -> Iterator[str]:
    """Say what each action, service and message of the package holds."""
    for kind, ending in (("Actions", ".action"), ("Services", ".srv"), ("Messages", ".msg")):
        yield f"## {kind}\n"
        for file in sorted(INTERFACES.rglob(f"*{ending}")):
            yield from interface(file)


def interface(file: Path) -> Iterator[str]:
    """Say what one file holds."""
    yield f"### {file.stem}\n"
    text = file.read_text(encoding="utf-8")
    head = re.match(r"(?:#.*\n)+", text)
    if head is not None:
        yield plain(" ".join(line.lstrip("# ") for line in head[0].splitlines())) + "\n"
        text = text[head.end() :]
    for part, lines in zip(PARTS[file.suffix], re.split("^---$", text, flags=re.MULTILINE), strict=True):
        constants, fields = members(lines)
        if part:
            yield f"*{part.capitalize()}*{'' if constants or fields else ': nothing.'}\n"
        if constants:
            yield from table(("constant", "value", "what it means"), constants)
        if fields:
            yield from table(("field", "type", "default", "description"), fields)


def members(text: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return the constants and the fields of a part, each with its comment."""
    found: list[list[str]] = []
    for line in text.splitlines():
        if found and line.startswith(" ") and line.lstrip().startswith("#"):
            found[-1][-1] += f" {line.lstrip(' #')}"  # a comment goes on
        elif line.strip() and not line.startswith("#"):
            match = _LINE.fullmatch(line.rstrip())
            if match is None:
                raise ValueError(f"not a line of an interface: {line!r}")
            found.append([match[name] or "" for name in ("type", "name", "value", "default", "text")])
    constants = [(code(name), value, plain(said.strip())) for _, name, value, _, said in found if value]
    fields = [
        (code(name), code(kind), code(default), plain(said.strip()))
        for kind, name, value, default, said in found
        if not value
    ]
    return constants, fields
