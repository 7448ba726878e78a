"""The reader: from the parts of a reply to the decisions that it is taken for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.grammar import Grammar
from reactree_ros.agent.reading.hedging import declined, doubt_after, doubt_before, doubt_in_thought
from reactree_ros.agent.reading.labels import Mark
from reactree_ros.agent.reading.parts import Part
from reactree_ros.agent.reading.refusal import Unreadable, shortened
from reactree_ros.agent.reading.skills import Skills, act_of
from reactree_ros.agent.turns import Said
from reactree_ros.agent.words import words

_ONE = "Say one decision at a time"
_LABEL_ALONE = re.compile(r"\A\s*act(?:ion)?\s+", re.IGNORECASE)


class Reader:
    """Reads one reply; ``chooses``: one of the skills is all that may be said."""

    def __init__(self, grammar: Grammar, *, cut: bool, chooses: bool = False) -> None:
        self.grammar = grammar
        self.cut = cut
        self._chooses = chooses
        self.skills = Skills.of(grammar)

    @property
    def thinks(self) -> bool:
        """Whether a thought is a decision of its own."""
        return self.grammar.thinks and not self._chooses

    @property
    def expected(self) -> str:
        """What a reply looks like."""
        return "Say one of the options, and nothing else" if self._chooses else self.grammar.expected

    def read(self, parts: Sequence[Part]) -> tuple[Said, ...]:
        """Return the decisions that the parts of a reply are taken for."""
        parts = [self._settled(part) for part in parts]
        at = next((number for number, part in enumerate(parts) if part.decides), None)
        if at is None:
            return self._undecided(parts)
        before, decisive, after = parts[:at], parts[at], parts[at + 1 :]
        assert decisive.decision is not None  # it decides
        return self.grammar.said(before, decisive.decision.read(self, decisive, before, after))

    def _settled(self, part: Part) -> Part:
        """Return a part that may be a decision of any kind as what it is: an act, or nothing that is announced."""
        if part.kind is not Mark.ANSWER:
            return part
        skill = self.skills.meant(part.first)
        return replace(part, kind=None if skill is None else type(act_of(skill)))

    # ------------------------------------------------------------------ without an act or an expansion

    def _undecided(self, parts: Sequence[Part]) -> tuple[Said, ...]:
        """Read a reply that names no act and no expansion as one: a thought, or nothing but a skill."""
        if any(part.leads for part in parts) and self.grammar.by_subgoals:
            raise Unreadable(f"A subgoal comes with its first action. {self.expected}.")
        thought = next((part.decision for part in parts if part.is_thought and part.in_a_line), None)
        if thought is not None and self.thinks:
            self._check_thoughts(parts)
            return self.grammar.said(parts, None)
        if thought is not None and not self._chooses and not self.grammar.by_subgoals:
            raise Unreadable(f"{thought.not_now(self.grammar)} {self.expected}.")
        text = "\n".join(part.text for part in parts).strip()
        announcement, _, line = text.rpartition("\n")
        said = _LABEL_ALONE.sub("", line)
        skill = self.skills.meant(said)
        announced = not announcement or (announcement.rstrip().endswith(":") and not doubt_before(announcement))
        if skill is not None and announced and not (self.cut and self.skills.may_go_on(skill, said)):
            return self.grammar.said((), act_of(skill))
        if not text and (kind := next((part.decision for part in parts if part.is_thought), None)) is not None:
            raise Unreadable(f"Nothing follows '{kind.word}:'; write {kind.noun} on the same line.")
        if not text:
            raise Unreadable(f"Nothing was said. {self.expected}.")
        if self.cut:
            raise Unreadable(f"The reply was cut before it came to a decision; be brief. {self.expected}.")
        if not announcement and (self._chooses or (self.skills.begins_like_one(line) and not self.grammar.free)):
            self.skills.find(line)
        raise Unreadable(f"{self.expected}, not with '{shortened(text, 40)}'.")

    def _check_thoughts(self, parts: Sequence[Part]) -> None:
        """Look whether thoughts are the model's own: neither what it lists when it declines, nor the prompt's words."""
        first = next(number for number, part in enumerate(parts) if part.is_thought)
        before = [parts[first].lead, *(part.text for part in parts[:first] if part.kind is None)]
        quoted = (part.in_a_line for part in parts if part.decision is not None and _is_rule(part.decision, part.text))
        if said := next(filter(None, (*map(declined, before), *quoted)), ""):
            raise Unreadable(f"With '{shortened(said, 60)}' nothing is decided. {self.expected}.")

    # ------------------------------------------------------------------ with one

    def check_before(self, before: Sequence[Part], decisive: Part) -> None:
        """Look whether a decision is taken, and not told, denied, imagined or quoted."""
        if decisive.quoted:
            raise Unreadable(f"A decision inside a quotation is not taken. {self.expected}.")
        line = next((part.text for part in reversed(before) if part.kind is None and part.text), "").rpartition("\n")[2]
        other = self.skills.marked_up(line)
        if other is not None and len(words(other)) > 1 and not self._is(decisive.first, other):
            raise Unreadable(f"{_ONE}; '{shortened(line, 60)}' is said as well.")
        doubts = [doubt_before(part.lead, same_line=True) for part in (*before, decisive)]
        doubts += [doubt_before(part.text) for part in before if part.kind is None]
        doubts += [doubt_in_thought(part.text) for part in before if part.is_thought]
        if doubt := next(filter(None, doubts), ""):
            raise Unreadable(
                f"It cannot be told whether the decision after '{shortened(doubt, 60)}' is meant. {_ONE}, and nothing "
                "before it."
            )

    def check_after(self, skill: str, tail: str, after: Sequence[Part]) -> None:
        """Look whether a decision is the only one, and not taken back."""
        doubts = [doubt_after(tail)]
        for part in after:
            if part.decides and not (skill and self._is(part.first, skill, last=part is after[-1])):
                raise Unreadable(f"{_ONE}; '{shortened(part.first or part.name, 60)}' is said as well.")
            doubts.append(doubt_after(part.lead))
            if part.kind is None or part.is_thought:
                doubts.append(doubt_after(part.text, labelled=part.is_thought))
                tail += f"\n{part.text}"
        if doubt := next(filter(None, doubts), ""):
            raise Unreadable(
                f"It cannot be told whether the decision is meant: '{shortened(doubt, 60)}' is said after it. {_ONE}, "
                "and nothing after it."
            )
        if skill and (other := self.skills.named_in(tail)) not in (None, skill):
            raise Unreadable(f"{_ONE}; '{other}' is said after '{skill}'.")

    def _is(self, said: str, skill: str, *, last: bool = False) -> bool:
        """Whether what is said is a certain skill, which may be one that is not listed; the last may be cut."""
        meant = self.skills.meant(said)
        if self.cut and last and meant is None:
            return " ".join(words(skill)).startswith(" ".join(words(said)))
        return meant == skill or (self.grammar.free and words(said) == words(skill))


def _is_rule(kind: type[Decision], said: str) -> bool:
    """Whether words are those with which the prompt explains a kind of decision."""
    return words(f"{kind.word} {said}") == words(kind.rule)
