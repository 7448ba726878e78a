"""Free text that a skill takes: in quotes or to the end of its line, it is kept as it is said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from reactree_ros.agent.reading.labels import Mark, inline_label, label_of
from reactree_ros.agent.reading.markup import bare, plain
from reactree_ros.agent.reading.refusal import Unreadable, shortened
from reactree_ros.agent.reading.skills import act_of
from reactree_ros.agent.reading.values import object_of, objects_in
from reactree_ros.agent.wording import QUOTES, Wording, key_of

if TYPE_CHECKING:
    from reactree_ros.agent.grammar import Grammar

#: What ends a model's turn, or begins somebody else's.
TURNS = re.compile(
    r"<[|\uff5c](?:im_end|im_start|eot_id|eom_id|end|start|endoftext|end_of_text|begin_of_text|end_of_turn"
    r"|start_of_turn|start_header_id|end▁of▁sentence|END_OF_TURN_TOKEN|return|call|user|system|assistant)[|\uff5c]>"
    r"|</s>|<end_of_turn>|<start_of_turn>|<eos>|<bos>|\[/?INST\]|\A\s*<s>"
)
#: Signs that nobody uses; there are more than a reply can have texts.
_SIGNS = range(0xF0000, 0xFFFFE)
#: How far into a line a skill is looked for, in characters.
_REACH = 120
#: How far back a tag or a fence is looked for that a text ends with, in characters.
_BEFORE = 2000
#: What ends no quotation, though it is the sign of its end: an apostrophe.
_INSIDE = {sign: rf"|(?<=\w){sign}(?=\w)" for sign in "'\u2019"}
_QUOTED = re.compile(
    r"[ \t]*(?::[ \t]*)?\(?(?:"
    + "|".join(rf"{begin}(?:[^{end}\\]|\\.{_INSIDE.get(end, '')})*({end})?" for begin, end in QUOTES.items())
    + ")",
    re.DOTALL,
)
_CLOSED = re.compile(r"[ \t.)*`_]*(?=\n|\Z)")
_ARGUMENT = re.compile(r"[^:=>→\n]{0,80}(?::|=>?|->|→)")
_LINE = re.compile(r"[^\n]*")
_CLOSERS = {**QUOTES, "(": ")", "{": "}"}
_PAIRED = ("```", "**", "__", "`", "*", "_", '"', "'")
_ENDING_TAG = re.compile(r"</(\w{1,20})>\s*\Z")
#: What stands for a skill when it is looked at what leads to it.
_SKILL = "x"


class FreeText:
    """A text in which one sign stands for each free text of a skill, so that no word and no mark of it is read.

    Args:
        text: What a model said.
        grammar: What may be said.

    Attributes:
        words: The text with the signs.
        goes_on: Whether it ends inside a quotation.
        doubtful: A line with a skill that nothing announces, and with another decision; empty: there is none.
    """

    def __init__(self, text: str, grammar: Grammar) -> None:
        self._grammar, self._text = grammar, text
        self._wordings = [offer.skill.words for offer in grammar.offers if offer.skill.words.takes_text]
        self._signs: dict[str, str] = {}
        self._free_signs = (sign for sign in map(chr, _SIGNS) if sign not in text)
        self.goes_on, self.doubtful = False, ""
        self._said: dict[int, str] = {}
        self.words = "".join(self._masked()) if self._wordings else text

    def check(self) -> None:
        """Refuse what may be a text with a decision in it, or a decision behind a text."""
        if self.doubtful:
            raise Unreadable(
                f"It cannot be told where '{self.doubtful}' ends; begin it with 'Act: ', put its text in quotes, and "
                "say one decision.",
                act_of(self.doubtful),
            )

    def restored(self, masked: str, *, in_lines: bool = True) -> str:
        """Return a part of the words as it was said; a text of several lines on one, where that is wanted."""
        return masked.translate(self._said if in_lines else self._on_one_line)

    @cached_property
    def _on_one_line(self) -> dict[int, str]:
        return {sign: on_one_line(said) for sign, said in self._said.items()}

    def _masked(self) -> Iterator[str]:
        at, named, objects = 0, False, [span for span, _ in objects_in(self._text)]
        while at < len(self._text):
            line = _LINE.match(self._text, at)
            assert line is not None  # it may be empty
            wordings, begin = self._skill_in(line[0], named)
            until = at + (begin if wordings else len(line[0]))
            if (over := next((end for start, end in objects if at <= start < until), 0)) > 0:  # fields are said
                yield self._text[at:over]
                at, named = over, False
                continue
            end = self._end(at + begin, wordings, self._text[at : at + begin]) if wordings else at
            if end > at + begin:
                yield self._text[at : at + begin] + self._sign(self._text[at + begin : end])
                at = end
                line = _LINE.match(self._text, at)
                assert line is not None  # as above
            named = bool(wordings) and end <= at + begin
            yield self._text[at : line.end() + 1]
            at = line.end() + 1

    def _sign(self, said: str) -> str:
        if said not in self._signs and (sign := next(self._free_signs, "")):
            self._signs[said] = sign
            self._said[ord(sign)] = said
        return self._signs.get(said, said)

    def _skill_in(self, line: str, named: bool) -> tuple[list[Wording], int]:
        """Return the wordings with a text as which a line can be read, and where their arguments begin.

        ``named``: whether the line before named such a skill, and nothing else.
        """
        label = label_of(line) if named else None
        if label is not None and label.kind is Mark.ARGUMENT and (announced := _ARGUMENT.match(line)) is not None:
            return self._wordings, announced.end()
        named_at = [(span, one) for one in self._wordings for span in one.heads(line[:_REACH])]
        for begin, end in dict.fromkeys(span for span, _ in named_at):
            lead = line[:begin]
            alone = bare(lead + _SKILL).strip("\"'([ ") == _SKILL and line[end:].strip()
            if alone and inline_label(line, self._grammar) is not None:
                self.doubtful = shortened(line, 60)
            if alone or self._announces(lead):
                return [one for span, one in named_at if span == (begin, end)], end
        return [], 0

    def _announces(self, lead: str) -> bool:
        """Whether words announce a skill that stands behind them."""
        said = plain(lead + _SKILL).rpartition("\n")[2]
        labels = (label_of(said), inline_label(said, self._grammar))
        acts = (Mark.ANSWER, type(act_of(_SKILL)))
        return any(label is not None and label.kind in acts and label.rest == _SKILL for label in labels)

    def _end(self, begin: int, wordings: list[Wording], lead: str) -> int:
        """Return where the text ends that begins at a place; the place itself if none does."""
        line = _LINE.match(self._text, begin)
        assert line is not None  # it may be empty
        said, longest = line[0], max(one.longest() for one in wordings)
        if self._is_object(said, wordings):
            return begin
        quoted = _QUOTED.match(self._text, begin, begin + 2 * longest)
        in_line = quoted is not None and begin + len(said) >= quoted.end()
        closed = quoted is not None and quoted.lastindex and _CLOSED.match(self._text, quoted.end()) is not None
        if quoted is not None and closed and not in_line and TURNS.search(quoted[0]) is None:
            return quoted.end()
        self.goes_on = quoted is not None and not quoted.lastindex and quoted.end() == len(self._text)
        if not any(one.ends_with_text for one in wordings):
            return quoted.end() if quoted is not None and quoted.lastindex and in_line else begin
        quote = quoted.end() - begin if quoted is not None and quoted.lastindex and in_line else 0
        over = max(quote, len(said) * _is_closed(said))  # nothing in quotes ends a turn
        if (turn := TURNS.search(said, over)) is not None:
            said = said[: turn.start()]
        return begin + len(_without_closers(said, lead, self._text[max(0, begin - _BEFORE) : begin]))

    def _is_object(self, said: str, wordings: list[Wording]) -> bool:
        """Whether fields are said, and not a text."""
        fields = object_of(said.strip().rstrip("`*. "))
        known = {key_of(name) for one in wordings for name in one.parameters}
        return fields is not None and known.issuperset(map(key_of, fields))


def on_one_line(text: str) -> str:
    """Return a text of several lines on one."""
    return " ".join(filter(None, map(str.strip, text.split("\n")))) if "\n" in text else text


def _is_closed(said: str) -> bool:
    """Whether a text ends with the mark that closes the one with which it begins."""
    inside = said.strip(" \t.!`*_")
    return inside[:1] in _CLOSERS and inside.endswith(_CLOSERS[inside[:1]])


def _without_closers(said: str, lead: str, before: str) -> str:
    """Return a text without the marks at its end that close what was opened before it."""
    while True:
        inside = said.rstrip()
        for mark in _PAIRED:
            opened = before if mark == "```" else lead
            if opened.count(mark) % 2 and inside.endswith(mark):
                return _without_closers(inside.removesuffix(mark), lead.replace(mark, ""), before.replace(mark, ""))
        for opens, closes in ("()", "[]"):
            if lead.count(opens) > lead.count(closes) and inside.endswith(closes) and opens not in inside:
                inside, lead = inside.removesuffix(closes), lead.replace(opens, "")
        if (tag := _ENDING_TAG.search(inside)) is not None and before.count(f"<{tag[1]}>") > before.count(
            tag[0].strip()
        ):
            inside = inside[: tag.start()]
        if inside == said:
            return said
        said = inside
