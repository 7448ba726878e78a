"""Reads a dataset folder for training: every goal node is a text with decisions in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from reactree_lab.dataset import settings
from reactree_lab.dataset.settings import ABOUT, SCHEMA
from reactree_lab.training.vocabulary import ACT, MaySay, Words
from reactree_ros.agent.turns import kind_said
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import LONGEST_LINE, parse_json, read_json, shown

TRAIN, HELD_OUT = (f"{name}.jsonl" for name in (settings.TRAIN, settings.HELD_OUT))


@dataclass(frozen=True)
class Decision:
    """A decision in a node's text."""

    begin: int  # its beginning, in characters
    text: str  # the decision; a line end follows
    #: Its kind, e.g. ``act``.
    kind: str
    may_say: MaySay | None = None  # the constraint; None allows anything
    learn: bool = True  # whether to learn it; otherwise it is context for later decisions
    instead: str = ""  # the text to learn instead, up to the first token that differs; empty for none
    end: str = "\n"  # what ends it: a line end, or in a chat the end of a reply


@dataclass(frozen=True)
class NodeText:
    text: str  # the whole text, with a line end at its end
    decisions: tuple[Decision, ...]
    source: int = 0  # number of its dataset among those that are learnt together


def about(folder: Path) -> Mapping[str, Any]:
    if not (folder / ABOUT).is_file():
        raise UserError(f"--data {folder}: holds no {ABOUT} of a dataset; `reactree lab dataset` makes one")
    values: Any = read_json(folder / ABOUT, "description of a dataset; `reactree lab dataset` makes one")
    schema = values.get("schema") if isinstance(values, dict) else None
    if schema != SCHEMA:
        raise UserError(
            f"--data {folder}: {ABOUT} has the schema {shown(schema)}, but this version reads {SCHEMA}; make it again"
        )
    return dict(values)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), ""), 1):
                yield _line(line, where=f"{path}: line {number}")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _line(line: str, *, where: str) -> dict[str, Any]:
    try:
        values = parse_json(line)
        texts = [values[name] for name in ("prompt", "completion", "kind")]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{where} is not a decision of a dataset: {line[:60]!r}") from error
    may_say, learn = values.get("may_say"), values.get("learn", True)
    if not isinstance(may_say, dict | None) or not isinstance(learn, bool):
        raise UserError(f"{where}: may_say must be a mapping, and learn true or false")
    if not all(isinstance(text, str) for text in texts) or not values["completion"].strip():
        raise UserError(f"{where}: prompt, completion and kind must be texts, and the completion not empty")
    return dict(values)


def node_texts(path: Path, *, joined: bool = False) -> Iterator[NodeText]:
    """Yield the complete nodes of a dataset's file: no decision is left out, however long a node is.

    ``joined`` attaches right skills to the wrong ones in one text. This shows only where the two differ, but saves a
    text that repeats the whole node.

    Consecutive lines become one text. If a prompt has several completions (the decision, and the right one), those
    without a continuation become texts of their own.
    """
    for _, lines in groupby(read_lines(path), key=lambda one: [one.get(name) for name in ("house", "task", "node")]):
        yield from _woven(list(lines), joined)


def nodes_of(
    folders: Sequence[Path], file: str, *, joined: bool = False, words: Words | None = None
) -> Iterator[NodeText]:
    """Yield the nodes of a file in each dataset, one dataset after the other; see :func:`node_texts`.

    If ``words`` lay prompts out as a chat, each decision is a text of its own.
    """
    for source, folder in enumerate(folders):
        path = folder / file
        chats = words is not None and words.chat is not None
        for node in _chats(path, words) if words and chats else node_texts(path, joined=joined):
            yield replace(node, source=source)


def _chats(path: Path, words: Words) -> Iterator[NodeText]:
    assert words.chat is not None  # the caller asks for chats
    chats = path.with_suffix(f".chat{path.suffix}")
    if not chats.is_file():
        raise UserError(f"{path.parent}: holds no {chats.name}; make the dataset with --format chat")
    learnt = (line for line in read_lines(path) if line.get("learn", True))
    with chats.open(encoding="utf-8-sig") as file:
        for line, chat in zip(learnt, file, strict=True):
            decision, (*before, _) = decision_of(line), parse_json(chat)["messages"]
            prompt = words.chat(before)
            decision = replace(decision, begin=len(prompt), end=words.said)
            yield NodeText(f"{prompt}{decision.text}{decision.end}", (decision,))


def _woven(lines: list[dict[str, Any]], joined: bool) -> Iterator[NodeText]:
    left = [(one, f"{one['prompt']}{one['completion']}\n") for one in lines]
    while left:
        trunk = max((text for _, text in left), key=len)
        inside = _in_order([decision_of(one) for one, text in left if trunk.startswith(text)])
        left = [(one, text) for one, text in left if not trunk.startswith(text)]
        if joined:
            said = {one.begin: one for one in inside if not one.learn and one.text.startswith(ACT)}
            beside = [one for one, _ in left if _is_beside(one, said, trunk)]
            instead = {len(one["prompt"]): one["completion"] for one in beside}
            inside = tuple(replace(one, instead=instead.get(one.begin, "")) for one in inside)
            left = [(one, text) for one, text in left if one not in beside]
        yield NodeText(trunk, inside)


def _is_beside(line: Mapping[str, Any], said: Mapping[int, Decision], trunk: str) -> bool:
    prompt, completion = line["prompt"], line["completion"]
    return (
        len(prompt) in said
        and bool(line.get("learn", True))
        and completion.startswith(ACT)
        and trunk.startswith(prompt)
    )


def _in_order(decisions: list[Decision]) -> tuple[Decision, ...]:
    """Order decisions by position; duplicates at one position count once, and are learnt if any is."""
    found: dict[int, Decision] = {}
    for one in decisions:
        known = found.get(one.begin)
        found[one.begin] = one if known is None else replace(known, learn=known.learn or one.learn)
    return tuple(found[begin] for begin in sorted(found))


def decision_of(line: Mapping[str, Any]) -> Decision:
    try:
        may_say = MaySay.from_values(line.get("may_say") or {}) if in_agents_words(line) else None
    except (ValueError, TypeError) as error:
        raise UserError(f"may_say of the decision {line['completion']!r} cannot be read: {error}") from error
    return Decision(len(line["prompt"]), line["completion"], line["kind"], may_say, bool(line.get("learn", True)))


def in_agents_words(line: Mapping[str, Any]) -> bool:
    """Return whether a line's words are those of a choice or an agent node; HiAgent's are learnt among all tokens."""
    return "options" in (line.get("may_say") or {}) or kind_said(line["completion"]) is not None
