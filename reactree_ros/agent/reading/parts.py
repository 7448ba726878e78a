"""The parts of a reply: what stands behind each of its labels, and each value in JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reactree_ros.agent.decision import Decision, DecisionKind
from reactree_ros.agent.reading.calls import call_of, named_by, worded
from reactree_ros.agent.reading.free_text import FreeText
from reactree_ros.agent.reading.labels import Announced, Label, Mark, inline_label, label_of
from reactree_ros.agent.reading.markup import bare, blocks_once, plain, unquoted
from reactree_ros.agent.reading.refusal import Unreadable
from reactree_ros.agent.reading.values import argument_in, pieces_of, said_in

if TYPE_CHECKING:
    from reactree_ros.agent.grammar import Grammar

#: What follows a thought in a prompt.
_OKS = ("OK.", "OK")
_SUBGOALS = re.compile(r"\bsub[ _-]?(?:goals|tasks)\b", re.IGNORECASE)
_MARKED = re.compile(r"\s*(?:[-*+•‣▪]\s|\(?\d{1,2}[.)])")
_SENTENCE_END = re.compile(r"[.!?…:][\"')\]]*$")


@dataclass
class Part:
    """One part of a reply.

    Attributes:
        kind: What it is; None: what nothing announces.
        lines: What it says, without markup; of an expansion, as it was said.
        lead: What stands before its label on the same line.
        quoted: Whether it stands inside a quotation.
        value: Its arguments, if it was said in JSON and has several; of an expansion, control flow and subgoals.
        whole: Whether it is known to be whole though the reply was cut.
    """

    kind: Announced | None
    lines: list[str] = field(default_factory=list)
    lead: str = ""
    quoted: bool = False
    value: Any = None
    whole: bool = False

    @property
    def text(self) -> str:
        """What it says."""
        return "\n".join(self.lines).strip()

    @property
    def in_a_line(self) -> str:
        """What it says, on one line."""
        line = " ".join(self.text.split())
        return line if self.whole else unquoted(line)

    @property
    def name(self) -> str:
        """The name of its kind; empty if nothing announces it."""
        return "" if self.kind is None else self.kind.name.lower()

    @property
    def decision(self) -> type[Decision] | None:
        """The kind of decision that it is; None if it is none."""
        return self.kind if isinstance(self.kind, DecisionKind) else None

    @property
    def is_thought(self) -> bool:
        """Whether it may stand before a decision."""
        return self.decision is not None and self.decision.accompanies

    @property
    def leads(self) -> bool:
        """Whether it comes with the decision after it."""
        return self.decision is not None and self.decision.leads

    @property
    def decides(self) -> bool:
        """Whether it is a decision that nothing follows."""
        return self.decision is not None and not (self.is_thought or self.leads)

    @property
    def has_lines(self) -> bool:
        """Whether all of its lines are kept as they were said."""
        return self.decision is not None and self.decision.of_lines

    @property
    def first(self) -> str:
        """The first line that is not blank."""
        return self.text.partition("\n")[0].strip()

    @property
    def rest(self) -> str:
        """What comes after that line."""
        return self.text.partition("\n")[2].strip()


def parts_of(text: str, grammar: Grammar, values: Iterable[Any] = ()) -> list[Part]:
    """Take a reply apart, with the values in JSON that were said after it; of unknown kinds labels are plain words."""
    free = FreeText(text, grammar)
    free.check()
    try:
        found = _parts_of(blocks_once(free.words), grammar, values)
    except RecursionError:
        raise Unreadable("The JSON is nested too deeply; say one decision.") from None
    for part in found:
        part.lines = [free.restored(line, in_lines=False) for line in part.lines]
        part.lead = free.restored(part.lead)
    return found


def _parts_of(text: str, grammar: Grammar, values: Iterable[Any]) -> list[Part]:
    parts = _Parts(grammar)
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
    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._owners = {mark: kind for kind in grammar.kinds for mark in kind.marks}
        self._labels = {*grammar.kinds, *self._owners, Mark.ANSWER}
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
            if label is not None and label.kind is Mark.FLOW:
                self.found.append(Part(self._owners[Mark.FLOW], [line], quoted=quoted))
            elif label is not None:
                self.found.append(Part(label.kind, [label.rest], quoted=quoted))
            elif last.has_lines:
                last.lines.append(line)
            elif not last.is_thought or bare(line) not in _OKS:
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
        if label.kind is Mark.FLOW:
            return label if listed and inside is not self._owners[Mark.FLOW] else None
        if label.kind is Mark.ARGUMENT:
            return label if inside is self._owners[Mark.ARGUMENT] else None
        if self.found[-1].has_lines and _MARKED.match(line) and not Part(label.kind).decides:
            return None  # an entry of its list
        return label

    def _split(self, *, quoted: bool) -> None:
        """Take the last line apart where a label stands in the middle of it; in a thought, after a sentence."""
        while ((part := self.found[-1]).kind is None or part.is_thought or part.leads) and not self._is_quoted:
            label = inline_label(part.lines[-1], self._grammar) if part.lines else None
            if label is None or (part.is_thought and not _SENTENCE_END.search(label.before)):
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
        is_announced = last.kind is Mark.ARGUMENT and not last.text
        act = self.found[-2] if is_announced else last
        if act.kind is self._owners[Mark.ARGUMENT] and (called := named_by(act.text, self._grammar.offers)):
            act.lines, act.whole = [str(call_of(called, value, self._grammar))], True
            self.found[self.found.index(act) + 1 :] = [Part(None)]
            return
        if is_announced:
            last.lines = [argument_in(value)]
            return
        said = said_in(worded(value, self._grammar))
        lead, quoted = "", self._is_quoted
        if last.kind is not None and not last.text:  # only its label: Act: {…}
            if not all(_may_stand_behind(last, Part(kind)) for kind, _ in said):
                raise Unreadable(f"'{last.name}' is announced, and something else is said; say one decision.")
            lead, quoted = last.lead, quoted or last.quoted
            self.found.pop()
        elif last.lines and last.lines[-1].strip():
            lead = last.lines[-1] if last.kind is not None else last.lines.pop()
        for kind, one in said:
            self.found += self._parts_of_value(kind, one, lead, quoted)
        self.found.append(Part(None))

    def _parts_of_value(self, kind: Announced, said: Any, lead: str, quoted: bool) -> list[Part]:
        if not isinstance(said, str):
            return [Part(kind, lead=lead, quoted=quoted, value=said, whole=True)]
        inside = parts_of(said, self._grammar) if kind is Mark.ANSWER else []
        if any(part.kind for part in inside):
            inside[0].lead = lead
            return inside
        return [Part(kind, [said], lead=lead, quoted=quoted, whole=True)]


def _may_stand_behind(label: Part, said: Part) -> bool:
    """Whether a value may say this behind a label."""
    if said.kind is label.kind or said.is_thought or label.kind is Mark.ANSWER:
        return True
    return label.leads and said.decides
