"""The reader: from the parts of a reply to the decisions that it is taken for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from reactree_ros.agent.decision import Act, Ask, BeginSubgoal, Decision, Expand, Think
from reactree_ros.agent.grammar import LONGEST_SKILL, DecisionGrammar, Grammar, SubgoalGrammar
from reactree_ros.agent.parser import split_subgoals
from reactree_ros.agent.reading.beside import doubt_after, doubt_before, doubt_in_thought
from reactree_ros.agent.reading.dress import unquoted
from reactree_ros.agent.reading.expansions import expansion, read_expansion
from reactree_ros.agent.reading.labels import Kind, label_of
from reactree_ros.agent.reading.parts import Part
from reactree_ros.agent.reading.refusal import Unreadable, shortened
from reactree_ros.agent.reading.skills import Skills
from reactree_ros.agent.turns import Said
from reactree_ros.agent.words import words

_ONE = "Say one decision at a time"
_NOTHING = "Nothing follows 'Act:'; write an action that is available now on the same line."
#: Where a skill ends and a sentence follows on its line.
_SENTENCE = re.compile(r"(?<=[.!])\s+(?=[A-Z])")
#: What a reply comes to at the latest, beside thoughts.
_DECISIVE = (Kind.ACT, Kind.EXPAND, Kind.ASK)
_LABEL_ALONE = re.compile(r"\A\s*act(?:ion)?\s+", re.IGNORECASE)


class Reader:
    """Reads one reply.

    Args:
        grammar: What may be said.
        cut: Whether the token limit ended the reply.
        chooses: Whether one of the skills is all that may be said.
    """

    def __init__(self, grammar: Grammar, *, cut: bool, chooses: bool = False) -> None:
        self._grammar = grammar
        self._cut = cut
        self._chooses = chooses
        self._skills = Skills(grammar.skills)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of decision that there are, allowed or not."""
        if isinstance(self._grammar, SubgoalGrammar):
            return (Kind.THINK, Kind.ACT, Kind.SUBGOAL)
        asks = isinstance(self._grammar, DecisionGrammar) and self._grammar.questions is not None
        return (Kind.THINK, Kind.ACT, Kind.EXPAND, *([Kind.ASK] if asks else []))

    @property
    def _thinks(self) -> bool:
        """Whether a thought is a decision of its own."""
        return isinstance(self._grammar, DecisionGrammar) and not self._chooses

    @property
    def expected(self) -> str:
        """What a reply looks like."""
        if self._chooses:
            return "Say one of the options, and nothing else"
        if isinstance(self._grammar, DecisionGrammar):
            kinds = ["'Think: '", "'Act: '", *(["'Expand:'"] if self._grammar.control_flows else [])]
            kinds += ["'Ask: '"] if self._grammar.questions else []
            return f"A decision starts with {', '.join(kinds[:-1])} or {kinds[-1]}"
        assert isinstance(self._grammar, SubgoalGrammar)  # the two there are
        subgoal = "'Subgoal: ' with a subgoal and, in the next line, 'Action: ' with its first action"
        if not self._grammar.begins:
            return "Say 'Action: ' and an action"
        return f"Say 'Action: ' and an action, or {subgoal}" if self._grammar.goes_on else f"Say {subgoal}"

    def read(self, parts: Sequence[Part]) -> tuple[Said, ...]:
        """Return the decisions that the parts of a reply are taken for.

        Raises:
            Unreadable: Not exactly one decision can be meant, or it may not be said.
        """
        parts = [self._settled(part) for part in parts]
        at = next((number for number, part in enumerate(parts) if part.kind in _DECISIVE), None)
        if at is None:
            return self._undecided(parts)
        before, decisive, after = parts[:at], parts[at], parts[at + 1 :]
        if decisive.kind is Kind.ASK and not decisive.quoted:  # whoever asks may be in doubt
            return self._said(before, self._question(decisive, after))
        self._check_before(before, decisive)
        if decisive.kind is Kind.EXPAND:
            return self._said(before, self._expansion(decisive, after))
        return self._said(before, self._act(decisive, before, after))

    def _settled(self, part: Part) -> Part:
        """Return a part that may be a decision of any kind as what it is: an act, or nothing that is announced."""
        if part.kind is not Kind.ANSWER:
            return part
        return replace(part, kind=None if self._skills.meant(part.first) is None else Kind.ACT)

    # ------------------------------------------------------------------ without an act or an expansion

    def _undecided(self, parts: Sequence[Part]) -> tuple[Said, ...]:
        """Read a reply that names no act and no expansion as one: a thought, or nothing but a skill."""
        if any(part.kind is Kind.SUBGOAL for part in parts) and isinstance(self._grammar, SubgoalGrammar):
            raise Unreadable(f"A subgoal comes with its first action. {self.expected}.")
        if _thought(parts) and self._thinks:
            return self._said(parts, None)
        text = "\n".join(part.text for part in parts).strip()
        announcement, _, line = text.rpartition("\n")
        skill = self._skills.meant(_LABEL_ALONE.sub("", line))
        announced = not announcement or (announcement.rstrip().endswith(":") and not doubt_before(announcement))
        if skill is not None and announced and not (self._cut and self._skills.may_go_on(skill)):
            return self._said((), Act(skill))
        if not text and any(part.kind is Kind.THINK for part in parts):
            raise Unreadable("Nothing follows 'Think:'; write a thought on the same line.")
        if not text:
            raise Unreadable(f"Nothing was said. {self.expected}.")
        if self._cut:
            raise Unreadable(f"The reply was cut before it came to a decision; be brief. {self.expected}.")
        if not announcement and (self._chooses or (self._skills.begins_like_one(line) and not self._grammar.free)):
            self._skills.find(line)
        raise Unreadable(f"{self.expected}, not with '{shortened(text, 40)}'.")

    # ------------------------------------------------------------------ with one

    def _check_before(self, before: Sequence[Part], decisive: Part) -> None:
        """Look whether a decision is taken, and not told, denied, imagined or quoted."""
        if decisive.quoted:
            raise Unreadable(f"A decision inside a quotation is not taken. {self.expected}.")
        doubts = [doubt_before(part.lead, same_line=True) for part in (*before, decisive)]
        doubts += [doubt_before(part.text) for part in before if part.kind is None]
        doubts += [doubt_in_thought(part.text) for part in before if part.kind is Kind.THINK]
        if doubt := next(filter(None, doubts), ""):
            raise Unreadable(
                f"It cannot be told whether the decision after '{shortened(doubt, 60)}' is meant. {_ONE}, and nothing "
                "before it."
            )

    def _check_after(self, skill: str, tail: str, after: Sequence[Part]) -> None:
        """Look whether a decision is the only one, and not taken back."""
        doubts = [doubt_after(tail)]
        for part in after:
            if part.kind in _DECISIVE and not (skill and self._is(part.first, skill)):
                raise Unreadable(f"{_ONE}; '{shortened(part.first or str(part.kind), 60)}' is said as well.")
            doubts.append(doubt_after(part.lead))
            if part.kind in (None, Kind.THINK):
                doubts.append(doubt_after(part.text, labelled=part.kind is Kind.THINK))
                tail += f"\n{part.text}"
        if doubt := next(filter(None, doubts), ""):
            raise Unreadable(
                f"It cannot be told whether the decision is meant: '{shortened(doubt, 60)}' is said after it. {_ONE}, "
                "and nothing after it."
            )
        if skill and (other := self._skills.named_in(tail)) not in (None, skill):
            raise Unreadable(f"{_ONE}; '{other}' is said after '{skill}'.")

    def _act(self, decisive: Part, before: Sequence[Part], after: Sequence[Part]) -> Act | None:
        """Return the one act that is meant; None where it was cut, and a thought stands before it."""
        said, tail = decisive.first, decisive.rest
        if (label := label_of(said)) is not None and label.kind is Kind.ACT and decisive.whole:
            said = label.rest
        if after and after[0].kind is Kind.ARGUMENT and not self._is_said_already(after[0].text, said):
            said = f"{said} {after[0].text}"
        skill, sentence = self._skills.meant(said), None
        if skill is None and (sentence := self._sentence_in(said)) is not None:
            skill = self._skills.meant(said[: sentence.start()])
            tail = f"{said[sentence.end() :]}\n{tail}"
        ends = not decisive.whole and not tail and not any(part.text for part in after)
        if self._cut and ends and (skill is None or self._skills.may_go_on(skill)):
            if _thought(before) and self._thinks:
                return None
            raise Unreadable(f"'{shortened(said)}' was cut. Say the decision again, and nothing before it.")
        if not said:
            raise Unreadable(_NOTHING)
        if skill is None and self._grammar.free:
            skill = _in_own_words(said[: sentence.start()] if sentence is not None else said)
        elif skill is None:
            skill = self._skills.find(said)
        self._check_after(skill, tail, after)
        return Act(skill)

    def _sentence_in(self, said: str) -> re.Match[str] | None:
        """Return where a sentence follows a skill; what is said freely may have several in its brackets."""
        ends = _SENTENCE.finditer(said)
        if self._grammar.free:
            ends = (end for end in ends if said.count("[", 0, end.start()) <= said.count("]", 0, end.start()))
        return next(ends, None)

    def _is(self, said: str, skill: str) -> bool:
        """Whether what is said is a certain skill, which may be one that is not listed."""
        return self._skills.meant(said) == skill or (self._grammar.free and words(said) == words(skill))

    def _is_said_already(self, argument: str, said: str) -> bool:
        """Whether a skill is whole without an argument that comes with it: it is none, or part of it."""
        return self._skills.meant(said) is not None and {"none", "null", *words(said)}.issuperset(words(argument))

    def _expansion(self, decisive: Part, after: Sequence[Part]) -> Expand:
        assert isinstance(self._grammar, DecisionGrammar)  # no other has the kind
        if decisive.value is not None:
            flow, subgoals = decisive.value
            listed = subgoals if isinstance(subgoals, list) else split_subgoals(str(subgoals or ""))
            expand, tail = expansion(flow, listed, self._grammar.control_flows), ""
        else:
            head, expand, tail = read_expansion(decisive.text, self._grammar.control_flows)
            self._check_before([Part(None, [head])], Part(Kind.EXPAND))
            if self._cut and not tail and not any(part.text for part in after):
                raise Unreadable("The list of subgoals was cut; name fewer and shorter ones.")
        self._check_after("", tail, after)
        return expand

    def _question(self, decisive: Part, after: Sequence[Part]) -> Ask:
        if not isinstance(self._grammar, DecisionGrammar) or self._grammar.questions is None:
            raise Unreadable(f"There is nobody to ask. {self.expected}.")
        if not self._grammar.questions:
            raise Unreadable(f"No more questions may be asked. {self.expected}.")
        question = _one_line(decisive)
        if not question:
            raise Unreadable("Nothing follows 'Ask:'; write a question on the same line.")
        if self._cut and not decisive.whole and not any(part.text for part in after):
            raise Unreadable("The question was cut; ask a shorter one.")
        self._check_after("", "", after)
        return Ask(question)

    # ------------------------------------------------------------------ what comes of it

    def _said(self, before: Sequence[Part], decision: Decision | None) -> tuple[Said, ...]:
        if isinstance(self._grammar, SubgoalGrammar):
            assert isinstance(decision, Act)  # a subgoal comes with its first action
            return (*self._begun(before, self._grammar), Said(f"Action: {decision.skill}", decision))
        thought = _thought(before)
        decisions = [*([Think(thought)] if thought else []), *([decision] if decision is not None else [])]
        return tuple(Said(str(one), one) for one in decisions)

    def _begun(self, before: Sequence[Part], grammar: SubgoalGrammar) -> tuple[Said, ...]:
        """Return the subgoal that an action begins; nothing where it goes on with the current one."""
        subgoals = {_one_line(part) for part in before if part.kind is Kind.SUBGOAL}
        if not subgoals:
            if not grammar.goes_on:
                raise Unreadable(f"There is no subgoal yet. {self.expected}.")
            return ()
        if not grammar.begins:
            raise Unreadable(f"The current subgoal has just begun; nothing was done for it yet. {self.expected}.")
        if len(subgoals) > 1:
            raise Unreadable(f"Say one subgoal at a time. {self.expected}.")
        if not (subgoal := subgoals.pop()):
            raise Unreadable(f"A subgoal is one line, not an empty one. {self.expected}.")
        return (begin_subgoal(grammar, subgoal),)


def begin_subgoal(grammar: SubgoalGrammar, subgoal: str) -> Said:
    """Return the beginning of a subgoal, in the words of the grammar."""
    return Said(f"{grammar.number} Subgoal: {subgoal}", BeginSubgoal(f"Subgoal {grammar.number}: {subgoal}", subgoal))


def _in_own_words(said: str) -> str:
    """Return a skill that is not listed, as the world is to be asked for it.

    Raises:
        Unreadable: It says nothing, or is too long.
    """
    skill = " ".join(unquoted(said.removesuffix(".")).split())
    if not skill:
        raise Unreadable(_NOTHING)
    if len(skill) > LONGEST_SKILL:
        raise Unreadable(f"'{shortened(skill)}' is too long for an action ({len(skill)} characters).")
    return skill


def _thought(parts: Sequence[Part]) -> str:
    """Return what was thought in parts of a reply, on one line."""
    return " ".join(filter(None, (_one_line(part) for part in parts if part.kind is Kind.THINK)))


def _one_line(part: Part) -> str:
    line = " ".join(part.text.split())
    return line if part.whole else unquoted(line)
