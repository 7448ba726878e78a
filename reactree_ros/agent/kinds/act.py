"""Acts: skills for the world, questions to memory, and the end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reactree_ros.agent.decision import ASKS_MEMORY, DONE, FAILURE, RECALL, Counts, Decision, Look, Node, Program
from reactree_ros.agent.grammar import LONGEST_SKILL, Grammar
from reactree_ros.agent.kinds.line import Line
from reactree_ros.agent.labels import label_of, shortened, undressed
from reactree_ros.agent.reading.reader import Reader
from reactree_ros.agent.reading.skills import said_exactly
from reactree_ros.agent.turns import Said, Saw, Turn, Unreadable

_NOTHING = "Nothing follows 'Act:'; write an action that is available now on the same line."
#: Where a sentence follows a skill on its line, but in brackets and quotes.
_SENTENCE, _ENCLOSED = re.compile(r"(?<=[.!\]])\s+(?=[A-Z])"), re.compile(r"\[[^\[\]]*|\"[^\"]*\"")


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
    keys = ("act", "action", "nextaction", "skill", "command", "nextstep", "step")
    nests = True
    counts = Counts(steps=1)
    look = Look("Act", "{act}", colour="--accent", style="cyan")
    tally = "act"
    learnt = True

    skill: str

    @classmethod
    def is_known(cls, grammar: Grammar) -> bool:
        return True

    @classmethod
    def may_be_said(cls, grammar: Grammar) -> bool:
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
        act = cls(line.removeprefix("Act: "))
        if act.ends:
            return (Said(line, act),)
        return (Said(line, act), Saw(rest.pop())) if rest else None

    @classmethod
    def read(cls, said: Any, reader: Reader, *, cut: bool) -> Decision | None:
        skills, skill = reader.skills, reader.skills.meant(said)
        if cut and (skill is None or skills.may_go_on(skill, said)):
            return None
        if not said:
            raise Unreadable(_NOTHING)
        if "\n" not in said and any(offer.skill.words.is_open(said) for offer in reader.grammar.offers):
            raise Unreadable(f"'{shortened(said)}' has no end; say the text on one line, in quotes.")
        if skill is None and reader.grammar.free:
            skill = _in_own_words(said)
        return cls(skills.find(said) if skill is None else skill)

    # ------------------------------------------------------------------ what it does

    @property
    def ends(self) -> bool:
        return self.skill in (DONE, FAILURE)

    @property
    def asks_memory(self) -> bool:
        return self.skill.startswith(ASKS_MEMORY)

    @property
    def recalls(self) -> bool:
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
        if self.ends:
            node.take(self)
            node.feedback_message = self.skill
            return self.skill == DONE
        yield from node.do(self)
        return None


def _in_own_words(said: str) -> str:
    skill = " ".join(undressed(said.removesuffix(".")).split())
    skill = skill[1:-1] if skill.startswith("[") and skill.endswith("]") else skill
    if not skill:
        raise Unreadable(_NOTHING)
    if len(skill) > LONGEST_SKILL:
        raise Unreadable(f"'{shortened(skill)}' is too long for an action ({len(skill)} characters).")
    if _SENTENCE.search(_ENCLOSED.sub("", skill)):
        raise Unreadable(f"It cannot be told where '{shortened(skill)}' ends; say nothing after it.")
    if label_of(skill) is not None:  # it would be read back as something else
        raise Unreadable(f"'{shortened(skill)}' begins like another decision; say one decision at a time.")
    return skill
