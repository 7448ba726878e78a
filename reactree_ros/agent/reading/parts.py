"""The parts of a reply: what stands behind each of its labels, and each value in JSON."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from reactree_ros.agent.reading.calls import call_of, named_by, worded
from reactree_ros.agent.reading.dress import bare, plain, unquoted
from reactree_ros.agent.reading.labels import Kind, Label, inline_label, label_of
from reactree_ros.agent.reading.refusal import Unreadable
from reactree_ros.agent.reading.values import argument_in, pieces_of, said_in
from reactree_ros.agent.skill import Offer

#: What follows a thought in a prompt.
_OKS = ("OK.", "OK")
_SUBGOALS = re.compile(r"\bsub[ _-]?(?:goals|tasks)\b", re.IGNORECASE)
_MARKED = re.compile(r"\s*(?:[-*+•‣▪]\s|\(?\d{1,2}[.)])")
_SENTENCE_END = re.compile(r"[.!?…:][\"')\]]*$")
#: What a value may say behind a label of another kind.
_INSIDE = {Kind.ANSWER: tuple(Kind), Kind.SUBGOAL: (Kind.ACT,)}


@dataclass
class Part:
    """One part of a reply.

    Attributes:
        kind: What it is; None: what nothing announces.
        lines: What it says, without what dresses it; of an expansion, as it was said.
        lead: What stands before its label on the same line.
        quoted: Whether it stands inside a quotation.
        value: Control flow and subgoals of an expansion that was said in JSON.
        whole: Whether it is known to be whole though the reply was cut.
    """

    kind: Kind | None
    lines: list[str] = field(default_factory=list)
    lead: str = ""
    quoted: bool = False
    value: tuple[Any, Any] | None = None
    whole: bool = False

    @property
    def text(self) -> str:
        """What it says."""
        return "\n".join(self.lines).strip()

    @property
    def first(self) -> str:
        """The first line that is not blank."""
        return self.text.partition("\n")[0].strip()

    @property
    def rest(self) -> str:
        """What comes after that line."""
        return self.text.partition("\n")[2].strip()


def parts_of(
    text: str, kinds: Collection[Kind], values: Iterable[Any] = (), offers: Sequence[Offer] = ()
) -> list[Part]:
    """Take a reply apart.

    Args:
        text: What was said.
        kinds: The kinds of decision there are; labels of others are words like any other.
        values: What was said after it in JSON.
        offers: The declared skills that may be said.

    Raises:
        Unreadable: A value in it cannot be read.
    """
    try:
        return _parts_of(text, kinds, values, offers)
    except RecursionError:
        raise Unreadable("The JSON is nested too deeply; say one decision.") from None


def _parts_of(text: str, kinds: Collection[Kind], values: Iterable[Any], offers: Sequence[Offer]) -> list[Part]:
    parts = _Parts(kinds, offers)
    pieces = pieces_of(text)
    if len(pieces) == 1:  # no value, unless it is in typographic quotes
        pieces = pieces_of(unquoted(plain(text)))
    for piece in pieces:
        if isinstance(piece, str):
            parts.add_text(plain(piece))
        else:
            parts.add_value(piece)
    for value in values:
        parts.add_text("\n")
        parts.add_value(value)
    return parts.found


class _Parts:
    def __init__(self, kinds: Collection[Kind], offers: Sequence[Offer]) -> None:
        self._kinds, self._offers = kinds, offers
        self._labels = {*kinds, Kind.ANSWER, Kind.ARGUMENT} | ({Kind.FLOW} if Kind.EXPAND in kinds else set())
        self._quotes = 0
        self.found = [Part(None)]

    # ------------------------------------------------------------------ text

    def add_text(self, text: str) -> None:
        lines = text.split("\n")
        lists = [number for number, line in enumerate(lines) if _SUBGOALS.search(line)]
        for number, line in enumerate(lines):
            label = self._label(line, listed=bool(lists) and number <= lists[-1])
            quoted = self._is_quoted or line.lstrip().startswith(">")
            last = self.found[-1]
            if label is not None and label.kind is Kind.FLOW:
                self.found.append(Part(Kind.EXPAND, [line], quoted=quoted))
            elif label is not None:
                self.found.append(Part(label.kind, [label.rest], quoted=quoted))
            elif last.kind is Kind.EXPAND:
                last.lines.append(line)
            elif last.kind is not Kind.THINK or bare(line) not in _OKS:
                last.lines.append(bare(line))
            self._split(quoted=quoted)
            self._quotes += line.count('"')

    @property
    def _is_quoted(self) -> bool:
        return self._quotes % 2 == 1

    def _label(self, line: str, *, listed: bool) -> Label | None:
        """Return the label of a line where it begins a part; ``listed``: whether subgoals come on it or later."""
        label, inside = label_of(line), self.found[-1].kind
        if label is None or label.kind not in self._labels:
            return None
        if label.kind is Kind.FLOW:
            return label if listed and inside is not Kind.EXPAND else None
        if label.kind is Kind.ARGUMENT:
            return label if inside is Kind.ACT else None
        if inside is Kind.EXPAND and _MARKED.match(line) and label.kind not in (Kind.ACT, Kind.EXPAND):
            return None  # an entry of its list
        return label

    def _split(self, *, quoted: bool) -> None:
        """Take the last line apart where a label stands in the middle of it; in a thought, after a sentence."""
        while (part := self.found[-1]).kind in (None, Kind.THINK, Kind.SUBGOAL) and not self._is_quoted:
            label = inline_label(part.lines[-1], asks=Kind.ASK in self._kinds) if part.lines else None
            if label is None or label.kind not in self._kinds:
                return
            if part.kind is Kind.THINK and not _SENTENCE_END.search(label.before):
                return
            if part.kind is None:
                part.lines.pop()
                self.found.append(Part(label.kind, [label.rest], lead=label.before, quoted=quoted))
            else:
                part.lines[-1] = label.before
                self.found.append(Part(label.kind, [label.rest], quoted=quoted))

    # ------------------------------------------------------------------ values

    def add_value(self, value: Any) -> None:
        last = self.found[-1]
        if last.kind is Kind.ARGUMENT and not last.text:
            act = self.found[-2]
            if called := named_by(act.first, self._offers):
                act.lines, act.whole = [str(call_of(called, value))], True
                self.found.pop()
            else:
                last.lines = [argument_in(value)]
            return
        said = said_in(worded(value, self._offers))
        lead, quoted = "", self._is_quoted
        if last.kind is not None and not last.text:  # only its label: Act: {…}
            if not {kind for kind, _ in said} <= {last.kind, Kind.THINK, *_INSIDE.get(last.kind, ())}:
                raise Unreadable(f"'{last.kind.value}' is announced, and something else is said; say one decision.")
            lead, quoted = last.lead, quoted or last.quoted
            self.found.pop()
        elif last.lines and last.lines[-1].strip():
            lead = last.lines[-1] if last.kind is not None else last.lines.pop()
        for kind, one in said:
            self.found += self._parts_of_value(kind, one, lead, quoted)
        self.found.append(Part(None))

    def _parts_of_value(self, kind: Kind, said: Any, lead: str, quoted: bool) -> list[Part]:
        if kind is Kind.EXPAND:
            return [Part(kind, lead=lead, quoted=quoted, value=said, whole=True)]
        inside = parts_of(said, self._kinds, (), self._offers) if kind is Kind.ANSWER else []
        if any(part.kind for part in inside):
            inside[0].lead = lead
            return inside
        return [Part(kind, [said], lead=lead, quoted=quoted, whole=True)]
