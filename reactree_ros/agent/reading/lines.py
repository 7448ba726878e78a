"""The lines of a reply: which are the model's own, and what each label or value in JSON says."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.reading.labels import Label, Mark, label_of, undressed
from reactree_ros.agent.reading.values import holds_an_object, value_at

if TYPE_CHECKING:
    from reactree_ros.agent.grammar import Grammar

#: What ends a model's turn, or begins somebody else's.
_TURNS = re.compile(
    r"<[|\uff5c](?:im_end|im_start|eot_id|eom_id|end|start|endoftext|end_of_text|begin_of_text|end_of_turn"
    r"|start_of_turn|start_header_id|end▁of▁sentence|END_OF_TURN_TOKEN|return|call|user|system|assistant)[|\uff5c]>"
    r"|</s>|<end_of_turn>|<start_of_turn>|<eos>|<bos>|\[/?INST\]|\A\s*<s>"
)
_ROLE = re.compile(r"\s*(?:assistant|model)(?:<\|end_header_id\|>|\s*\n)")
_ESCAPED = re.compile(r"\\.")
#: How the world and people begin to speak, as prompts have it.
_OTHERS = re.compile(
    r"\s*(?:you \w|your task is\b|(?:user|human|system|environment|world|person|owner)\s?:)", re.IGNORECASE
)
#: What follows a thought in a prompt; where one tag follows another; the end of a sentence in a thought.
_OK, _TAGS, _SENTENCE = (
    re.compile(r"\s*ok\.?\s*", re.IGNORECASE),
    re.compile(r"</\w{1,20}>(?=<\w)"),
    re.compile(r"[.!?…]\s+"),
)
BLANK = re.compile(r"\s+")
_ENTRY = re.compile(r"\s*(?:[-*+•‣▪]\s|\(?\d{1,2}[.)])")
_SUBGOALS = re.compile(r"\bsub[ _-]?(?:goals|tasks)\b", re.IGNORECASE)
#: How far into a line a decision is looked for behind a thought, in characters.
_LONGEST = 4000
#: What may stand before a label on its line.
_COURTESY = re.compile(
    r"\A\W{0,9}(?:ok|okay|sure|certainly|of course|all right|great|understood|got it)[.,!]\s+", re.IGNORECASE
)
#: How many beginnings of a value in JSON are tried; what follows them is plain text.
_TRIED = 12


@dataclass
class Part:
    """What one label announces, or one value in JSON says."""

    kind: type[Decision] | None  # the kind of decision; None: it is none
    said: Any = ""  # its text; from JSON its arguments, too
    whole: bool = False  # whether it is known to be whole though the reply was cut
    value: Any = None  # what it says in JSON, before that is read; None: nothing
    mark: Mark | None = None  # what else its label announces; None: nothing

    @property
    def text(self) -> str:
        return " ".join(str(self.said).split())

    @property
    def decides(self) -> bool:
        return self.kind is not None and not (self.kind.accompanies or self.kind.leads)

    @property
    def has_lines(self) -> bool:
        return self.kind is not None and self.kind.of_lines

    @property
    def goes_on(self) -> bool:
        return self.has_lines or (self.kind is not None and self.kind.accompanies)

    @property
    def is_prose(self) -> bool:
        return self.kind is None and self.mark is None

    @property
    def is_empty(self) -> bool:
        return not self.is_prose and self.value is None and not self.said

    def add(self, line: str) -> None:
        self.said = f"{self.said}\n{line}" if self.said else line


def own_words(text: str, grammar: Grammar) -> str:
    turn, _ = first_turn(text)
    decided = False
    lines = turn.split("\n")
    for number, line in enumerate(lines):
        label = label_of(line)
        if decided and (_OTHERS.match(line) or (label is not None and label.kind is Mark.OBSERVATION)):
            return "\n".join(lines[:number])
        decided = decided or (label is not None and label.kind in grammar.kinds and not label.kind.leads)
    return turn


def first_turn(text: str) -> tuple[str, bool]:
    begin = 0
    for mark in _TURNS.finditer(text):
        if _is_quoted(text, mark):
            continue
        if text[begin : mark.start()].strip():
            return _without_role(text[begin : mark.start()]), True
        begin = mark.end()
    return _without_role(text[begin:]), False


def _without_role(turn: str) -> str:
    return turn if (role := _ROLE.match(turn)) is None else turn[role.end() :]


def _is_quoted(text: str, mark: re.Match[str]) -> bool:
    begin, end = text.rfind("\n", 0, mark.start()) + 1, text.find("\n", mark.end())
    after = text[mark.end() : end if end >= 0 else None]
    return _ESCAPED.sub("", text[begin : mark.start()]).count('"') % 2 == 1 and '"' in _ESCAPED.sub("", after)


def sentence_that_decides(
    line: str, grammar: Grammar, ends: re.Pattern[str] = _SENTENCE
) -> tuple[str, type[Decision], str] | None:
    for end in ends.finditer(line[:_LONGEST]):
        label = label_of(line[end.end() :]) if line.count('"', 0, end.end()) % 2 == 0 else None
        kind = None if label is None or isinstance(label.kind, Mark) else label.kind
        if label is not None and kind in grammar.kinds and not (kind.accompanies or kind.of_lines):
            return line[: end.end()].strip(), kind, label.rest
    return None


class Parts:
    """Takes a reply apart, line by line; labels of kinds that the model was not told of are plain words.

    Attributes:
        found: Its parts.
    """

    def __init__(self, text: str, grammar: Grammar) -> None:
        self._grammar = grammar
        self._expands = next((kind for kind in grammar.kinds if kind.of_lines), None)
        self._labels = {*grammar.kinds, Mark.ANSWER, Mark.ARGUMENT}
        self._tried = 0
        self.found = [Part(None)]
        text = text.strip()
        if text.count('"') == 2 and text[0] == text[-1] == '"':
            text = text[1:-1]
        lines = _TAGS.sub(lambda tag: f"{tag[0]}\n", text).split("\n")
        self._lists = [number for number, line in enumerate(lines) if _SUBGOALS.search(line)]
        at = 0
        while at < len(lines):
            at += self._add(lines, at)

    def _add(self, lines: list[str], at: int) -> int:
        line, last = lines[at], self.found[-1]
        label = self._label(line, at)
        said = undressed(line) if label is None else label.rest
        in_a_list = label is None and last.goes_on and not last.is_empty
        if said.startswith("{") or (said.startswith("[") and not in_a_list):
            value, took = self._value(said, lines[at + 1 :])
            if took:
                begun = _labelled(label) if label is not None else self.found.pop() if last.is_empty else Part(None)
                self.found += [replace(begun, said="", value=value), Part(None)]
                return took
        if label is not None:
            self.found.append(_labelled(label))
        elif not (last.is_prose or last.goes_on or last.is_empty):
            self.found.append(Part(None, said))
        elif last.is_empty or not (last.goes_on and _OK.fullmatch(line)):
            last.add(line.removeprefix("> ") if said and last.has_lines else said)
        self._split()
        return 1

    def _label(self, line: str, at: int) -> Label | None:
        label, inside = label_of(_COURTESY.sub("", line, count=1)), self.found[-1].kind
        if label is None:
            return None
        if label.kind is Mark.FLOW and self._expands is not None:
            begins = inside is not self._expands and bool(self._lists) and at <= self._lists[-1]
            return Label(self._expands, line) if begins else None
        if label.kind not in self._labels:
            return None
        if inside is not None and inside is self._expands and _ENTRY.match(line):
            entry = isinstance(label.kind, Mark) or label.kind.accompanies or label.kind.leads
            return None if entry else label
        return label

    def _value(self, said: str, more: list[str]) -> tuple[Any, int]:
        self._tried += 1
        if self._tried > _TRIED:
            return None, 0
        text = "\n".join([said, *more])
        value, end = value_at(text, 0)
        rest = undressed(text[end:].partition("\n")[0].strip("` *"))
        closes = re.fullmatch(r"(?:</\w{1,20}>)?", rest)
        return (value, text.count("\n", 0, end) + 1) if holds_an_object(value) and closes else (None, 0)

    def _split(self) -> None:
        last = self.found[-1]
        if last.kind is None or last.decides or not last.said:
            return
        before, line_end, line = last.said.rpartition("\n")
        if found := sentence_that_decides(line, self._grammar, BLANK if last.kind.leads else _SENTENCE):
            line, kind, said = found
            last.said = f"{before}{line_end}{line}"
            self.found.append(Part(kind, said))


def _labelled(label: Label) -> Part:
    mark = label.kind if isinstance(label.kind, Mark) else None
    return Part(None if isinstance(label.kind, Mark) else label.kind, label.rest, mark=mark)
