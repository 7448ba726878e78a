"""Acts: skills for the world, questions to memory, and the end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reactree_ros.agent.decision import ASKS_MEMORY, DONE, FAILURE, RECALL, Counts, Decision, Look, Node, Program
from reactree_ros.agent.grammar import LONGEST_SKILL, Grammar
from reactree_ros.agent.kinds.line import Line
from reactree_ros.agent.reading.free_text import on_one_line
from reactree_ros.agent.reading.labels import Mark, label_of
from reactree_ros.agent.reading.markup import unquoted
from reactree_ros.agent.reading.parts import Part
from reactree_ros.agent.reading.reader import Reader
from reactree_ros.agent.reading.refusal import Unreadable, shortened
from reactree_ros.agent.reading.skills import Skills, said_exactly
from reactree_ros.agent.turns import Said, Saw, Turn
from reactree_ros.agent.words import words

_NOTHING = "Nothing follows 'Act:'; write an action that is available now on the same line."
#: Where a skill ends and a sentence follows on its line.
_SENTENCE, _ESCAPED = re.compile(r"(?<=[.!])\s+(?=[A-Z])"), re.compile(r"\\.")


@dataclass(frozen=True)
class Act(Line):
    """A skill for the world, a ``recall`` for working memory, or the end: ``done`` or ``failure``."""

    name = "act"
    word = "Act"
    rule = (
        "Act: Execute a specific action to accomplish the current goal condition. "
        "You should use one of actions of this list: [{actions}]"
    )
    noun = "an action"
    spellings = "act|actions?"
    inline = tags = "act|action"
    keys = ("act", "action", "nextaction", "skill", "command", "nextstep", "step")
    tools = (*keys, "execute", "executeskill", "doaction")
    marks = (Mark.ARGUMENT,)
    nests = True
    last_lines = (f"Act: {DONE}", f"Act: {FAILURE}")
    counts = Counts(steps=1)
    look = Look("Act", "{act}", colour="--accent", style="cyan")
    tally = "act"
    learnt = True

    skill: str

    @classmethod
    def is_known(cls, grammar: Grammar) -> bool:
        """Whether the model was told of acts, as it always is."""
        return True

    @classmethod
    def may_be_said(cls, grammar: Grammar) -> bool:
        """Whether there is any skill."""
        return bool(grammar.skills or grammar.offers)

    @classmethod
    def regex(cls, grammar: Grammar) -> str:
        return f"Act: {grammar.skill_regex()}"

    @classmethod
    def ebnf(cls, grammar: Grammar) -> Sequence[str]:
        return 'act ::= "Act: " skill', grammar.skill_rule()

    @classmethod
    def schema(cls, grammar: Grammar, skill: Mapping[str, Any]) -> Mapping[str, Any]:
        return skill

    @classmethod
    def rounds(cls, grammar: Grammar) -> Sequence[tuple[str, Sequence[str] | None]]:
        return (("Act:", None if grammar.free or grammar.offers else grammar.skills),)

    # ------------------------------------------------------------------ reading

    @classmethod
    def read_exactly(cls, text: str, grammar: Grammar, *, cut: bool) -> Decision | None:
        skill = said_exactly(text[len("Act: ") :], grammar, cut)
        return None if skill is None else cls(skill)

    @classmethod
    def recorded_turns(cls, line: str, rest: list[str]) -> Sequence[Turn] | None:
        """See :meth:`Decision.recorded_turns`; an observation follows, but after an end."""
        act = cls(line.removeprefix("Act: "))
        if act.ends:
            return (Said(line, act),)
        return (Said(line, act), Saw(rest.pop())) if rest else None

    @classmethod
    def read(cls, reader: Reader, part: Part, before: Sequence[Part], after: Sequence[Part]) -> Decision | None:
        """Read the one act that is meant; None if it was cut, and a thought stands before it."""
        reader.check_before(before, part)
        skills, free = reader.skills, reader.grammar.free
        said, tail = part.first, part.rest
        if (label := label_of(said)) is not None and label.kind is cls and part.whole:
            said = label.rest
        if part.whole and skills.take_all_of(said):  # the value's end is that of the text
            said, tail = on_one_line(part.text), ""
        if after and after[0].kind is Mark.ARGUMENT and not _is_said_already(skills, after[0].text, said):
            said = f"{said} {after[0].text}"
        skill, sentence = skills.meant(said), None
        ends_there = skill is None and not skills.take_all_of(said)
        if ends_there and (sentence := _sentence_in(said, free)) is not None:
            skill = skills.meant(said[: sentence.start()])
            tail = f"{said[sentence.end() :]}\n{tail}"
        ends = not part.whole and not tail and not any(one.text for one in after)
        if reader.cut and ends and (skill is None or skills.may_go_on(skill, said)):
            if reader.thinks and any(one.is_thought and one.text for one in before):
                return None
            raise Unreadable(f"'{shortened(said)}' was cut. Say the decision again, and nothing before it.")
        if not said:
            raise Unreadable(_NOTHING)
        if skill is None and free:
            skill = _in_own_words(said[: sentence.start()] if sentence is not None else said)
        elif skill is None:
            skill = skills.find(said)
        reader.check_after(skill, tail, after)
        return cls(skill)

    # ------------------------------------------------------------------ what it does

    @property
    def ends(self) -> bool:
        """Whether this ends the goal node; an end adds to neither count."""
        return self.skill in (DONE, FAILURE)

    @property
    def asks_memory(self) -> bool:
        """Whether it asks what the agent remembers, not the world: a recall, or HiAgent's retrieval of a subgoal."""
        return self.skill.startswith(ASKS_MEMORY)

    @property
    def recalls(self) -> bool:
        """Whether this asks working memory where something is."""
        return self.skill.startswith(RECALL)

    @property
    def counted(self) -> Counts:
        return Counts(0) if self.ends else self.counts

    @property
    def tallied(self) -> str:
        if self.ends:
            return "end"
        return "recall" if self.asks_memory else self.tally

    @property
    def node_end(self) -> str:
        return {DONE: "success", FAILURE: "failure"}.get(self.skill, "")

    @property
    def gist(self) -> str:
        return self.skill

    @property
    def skill_asked(self) -> str:
        return "" if self.ends else self.skill

    def carry_out(self, node: Node) -> Program:
        """End the node, or have the skill carried out."""
        if self.ends:
            node.take(self)
            node.feedback_message = self.skill
            return self.skill == DONE
        yield from node.do(self)
        return None


def _sentence_in(said: str, free: bool) -> re.Match[str] | None:
    """Return where a sentence follows a skill; quotes, and brackets of what is said freely, may have several."""
    ends = (end for end in _SENTENCE.finditer(said) if _ESCAPED.sub("", said[: end.start()]).count('"') % 2 == 0)
    if free:
        ends = (end for end in ends if said.count("[", 0, end.start()) <= said.count("]", 0, end.start()))
    return next(ends, None)


def _is_said_already(skills: Skills, argument: str, said: str) -> bool:
    """Whether a skill is whole without an argument that comes with it: it is none, or part of it."""
    return skills.meant(said) is not None and {"none", "null", *words(said)}.issuperset(words(argument))


def _in_own_words(said: str) -> str:
    """Return a skill that is not listed, as the world is to be asked for it."""
    skill = " ".join(unquoted(said.removesuffix(".")).split())
    if not skill:
        raise Unreadable(_NOTHING)
    if len(skill) > LONGEST_SKILL:
        raise Unreadable(f"'{shortened(skill)}' is too long for an action ({len(skill)} characters).")
    if label_of(skill) is not None:  # it would be read back as something else
        raise Unreadable(f"'{shortened(skill)}' begins like another decision; say one decision at a time.")
    return skill
