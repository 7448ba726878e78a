"""The reader: from what a reply says to the decisions that it is taken for.

Before a decision may stand a thought, and courtesy; what goes on behind it is dropped, if it is no other decision in
full. All else is refused, and asked for again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.grammar import Grammar
from reactree_ros.agent.reading.calls import call_of, named_by, worded
from reactree_ros.agent.reading.labels import Mark
from reactree_ros.agent.reading.lines import BLANK, Part, Parts, sentence_that_decides
from reactree_ros.agent.reading.refusal import Unreadable, shortened
from reactree_ros.agent.reading.skills import Skills, act_of
from reactree_ros.agent.reading.values import argument_in, said_in
from reactree_ros.agent.turns import Said
from reactree_ros.agent.words import words

_ONE = "Say one decision at a time"
#: The courtesies and announcements that may stand before a decision, and nothing else.
COURTESY = re.compile(
    r"(?:(?:ok|okay|sure|certainly|of course|all ?right|great|good|understood|got it|thanks|thank you"
    r"|(?:sorry|i apologi[sz]e) for the (?:confusion|mistake|error))\b[\s.,!]*)*"
    r"(?:(?:(?:based on|given|since|as) [^.:!?\n]{1,200}, )?(?:here is|here's|this is|it is)?\s?"
    r"(?:my |the )?(?:next |final )?(?:decision|action|act|step|answer|choice|response|expansion)"
    r"(?: in (?:json|text))?(?: is)?\s?[.:]?)?",
    re.IGNORECASE,
)


class Reader:
    """Reads one reply; ``cut``: whether the token limit ended it."""

    def __init__(self, grammar: Grammar, *, cut: bool = False) -> None:
        self.grammar, self.cut = grammar, cut
        self.skills = Skills.of(grammar)

    def parts_of(self, text: str, values: Iterable[Any] = ()) -> list[Part]:
        found = [*Parts(text, self.grammar).found, *(Part(None, value=value) for value in values)]
        try:
            return list(self._resolved(found))
        except RecursionError:
            raise Unreadable("The JSON is nested too deeply; say one decision.") from None

    def read(self, parts: Sequence[Part]) -> tuple[Said, ...]:
        at = next((number for number, part in enumerate(parts) if part.decides), len(parts))
        before, after = [part for part in parts[:at] if part.kind or part.text], parts[at + 1 :]
        if at == len(parts):
            return self._undecided(before)
        decisive, kind = parts[at], parts[at].kind
        assert kind is not None  # it decides
        self._check_before(before)
        ends = not (decisive.whole or any(part.text or part.kind for part in after))
        decision = kind.read(decisive.said, self, cut=self.cut and ends)
        if decision is None:
            if self.grammar.thinks and any(part.kind is not None and part.kind.accompanies for part in before):
                return self.grammar.said(before, None)
            if kind.of_lines:
                raise Unreadable("The list of subgoals was cut; name fewer and shorter ones.")
            cut = shortened(str(decisive.said)) or kind.word
            raise Unreadable(f"'{cut}' was cut. Say the decision again, and nothing before it.")
        self._check_after(decision, after)
        return self.grammar.said(before, decision)

    # ------------------------------------------------------------------ parts

    def _resolved(self, parts: Sequence[Part]) -> Iterator[Part]:
        acts = type(act_of(""))
        last = Part(None)
        for part in parts:
            if part.mark is Mark.ARGUMENT and last.kind is acts:
                self._add_argument(last, part)
                continue
            for last in self._in_json(part) if part.value is not None else [self._announced(part)]:
                yield last

    def _add_argument(self, act: Part, part: Part) -> None:
        called = named_by(act.said, self.grammar.offers)
        if called and part.value is not None:
            act.said, act.whole = str(call_of(called, part.value)), True
            return
        argument = argument_in(part.value) if part.value is not None else part.said.partition("\n")[0]
        if self.skills.meant(act.said) is None or not {"none", *words(act.said)}.issuperset(words(argument)):
            act.said = f"{act.said} {argument}"

    def _announced(self, part: Part) -> Part:
        said = part.said.strip()
        if part.mark is Mark.ANSWER and (skill := self.skills.meant(said)) is not None:
            return Part(type(act_of(skill)), said)
        return Part(part.kind, said)

    def _in_json(self, part: Part) -> Iterator[Part]:
        for kind, said in said_in(worded(part.value, self.grammar)):
            if kind is Mark.ANSWER:
                inside = self.parts_of(said)
                yield from inside if any(one.kind for one in inside) else [self._announced(Part(None, said, mark=kind))]
                continue
            assert not isinstance(kind, Mark)
            fits = part.kind is kind or (part.kind is None and part.mark is not Mark.ARGUMENT) or kind.accompanies
            if not (fits or (part.kind is not None and part.kind.leads)):
                raise Unreadable("One kind of decision is announced, and another is said; say one decision.")
            yield Part(kind, said, whole=True)

    # ------------------------------------------------------------------ what stands around a decision

    def _check_before(self, before: Sequence[Part]) -> None:
        quoted = sum(part.text.count('"') for part in before if not part.whole) % 2
        ahead = [part for part in before[-1:] if part.kind is not None and part.text.endswith(":")]
        prose = [part for part in before if part.kind is None and COURTESY.fullmatch(part.text) is None]
        if doubt := next(iter([*prose, *ahead, *before[:quoted]]), None):
            raise Unreadable(
                f"It cannot be told whether the decision after '{shortened(str(doubt.said), 60)}' is meant. {_ONE}, "
                "and nothing before it."
            )

    def _check_after(self, decision: Decision, after: Sequence[Part]) -> None:
        for part in after:
            others = self._said_in_prose(part) if part.kind is None else [part] if part.decides else []
            for other in others:
                if not self._is_again(decision, other, is_last=part is after[-1]):
                    raise Unreadable(f"{_ONE}; '{shortened(other.text, 60) or str(part.kind)}' is said as well.")

    def _said_in_prose(self, part: Part) -> Iterator[Part]:
        for line in filter(str.strip, dict.fromkeys(part.said.split("\n"))):
            if (found := sentence_that_decides(line, self.grammar, BLANK)) is not None:
                yield Part(*found[1:])
            elif (skill := self.skills.meant(line)) is not None:
                yield Part(type(act_of(skill)), line)

    def _is_again(self, decision: Decision, part: Part, *, is_last: bool) -> bool:
        assert part.kind is not None  # it decides
        try:
            again = part.kind.read(part.said, self, cut=False)
        except Unreadable:
            cut = self.cut and is_last and isinstance(decision, part.kind)
            return cut and " ".join(words(decision.gist)).startswith(" ".join(words(part.text)))
        return words(str(again)) == words(str(decision))

    # ------------------------------------------------------------------ without an act or an expansion

    def _undecided(self, parts: Sequence[Part]) -> tuple[Said, ...]:
        expected, kinds = self.grammar.expected, [part.kind for part in parts if part.kind is not None]
        if self.grammar.by_subgoals and any(kind.leads for kind in kinds):
            raise Unreadable(f"A subgoal comes with its first action. {expected}.")
        thought = next((kind for kind in kinds if kind.accompanies), None)
        if thought is not None and not any(part.text for part in parts):
            raise Unreadable(f"Nothing follows '{thought.word}:'; write {thought.noun} on the same line.")
        if thought is not None and self.grammar.thinks:
            self._check_before([part for part in parts if part.kind is None][:1])
            return self.grammar.said(parts, None)
        if thought is not None and not self.grammar.by_subgoals:
            raise Unreadable(f"{thought.not_now(self.grammar)} {expected}.")
        text = "\n".join(part.said for part in parts)
        if not text:
            raise Unreadable(f"Nothing was said. {expected}.")
        if self.cut and not (parts and parts[-1].whole):
            raise Unreadable(f"The reply was cut before it came to a decision; be brief. {expected}.")
        if (
            "\n" not in text.strip()
            and (skill := self.skills.meant(text)) is not None
            and not sentence_that_decides(text, self.grammar)
        ):
            return self.grammar.said((), act_of(skill))
        if "\n" not in text.strip() and self.skills.begins_like_one(text) and not self.grammar.free:
            self.skills.find(text)
        raise Unreadable(f"{expected}, not with '{shortened(text, 40)}'.")
