"""The grammar of HiAgent: an action, or the next subgoal with its first action (Hu et al., section 3.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from reactree_ros.agent.decision import Decision, as_object
from reactree_ros.agent.grammar import TEXT, Grammar
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.think import BeginSubgoal
from reactree_ros.agent.reading.reader import Part
from reactree_ros.agent.reading.skills import said_exactly
from reactree_ros.agent.turns import Said, Unreadable

_SUBGOAL = re.compile(r"(?:(?P<number>\d+) Subgoal: (?P<subgoal>\S(?:[^\n<]*\S)?)\n)?Action: (?P<action>[^\n]+)")


@dataclass(frozen=True)
class SubgoalGrammar(Grammar):
    """What HiAgent may say: an action, or the next subgoal with its first action (Hu et al., section 3.1)."""

    number: int = 1  # number of the next subgoal, from 1
    begins: bool = True  # whether a subgoal may begin
    goes_on: bool = True  # whether an action may be said for the current one
    by_subgoals: ClassVar[bool] = True

    def regex(self) -> str:
        action = f"Action: {self.skill_regex()}"
        subgoal = f"{self.number} Subgoal: {self.line}\\n"
        start = f"(?:{subgoal}){'?' if self.goes_on else ''}" if self.begins else ""
        return f"{start}{action}\\n?"

    def ebnf(self) -> str:
        start = f"subgoal{'?' if self.goes_on else ''} " if self.begins else ""
        return "\n".join(
            [
                f'root ::= {start}action "\\n"?',
                *([f'subgoal ::= "{self.number} Subgoal: " line "\\n"'] if self.begins else []),
                'action ::= "Action: " skill',
                self.skill_rule(),
                *([f"line ::= {self.line}"] if self.begins else []),
            ]
        )

    def _schema(self, skill: dict[str, Any]) -> dict[str, Any]:
        kinds = [as_object(Subgoal=TEXT, Action=skill)] if self.begins else []
        if self.goes_on:
            kinds.append(as_object(Action=skill))
        return as_object(decision={"anyOf": kinds})

    @property
    def expected(self) -> str:
        subgoal = "'Subgoal: ' with a subgoal and, in the next line, 'Action: ' with its first action"
        if not self.begins:
            return "Say 'Action: ' and an action"
        return f"Say 'Action: ' and an action, or {subgoal}" if self.goes_on else f"Say {subgoal}"

    def read_exactly(self, text: str, *, cut: bool) -> tuple[Said, ...]:
        said = _SUBGOAL.fullmatch(text)
        if said is None or (action := said_exactly(said["action"], self, cut)) is None:
            return ()
        subgoal = said["subgoal"]
        if not (self.goes_on if subgoal is None else self.begins):
            return ()
        begun = () if subgoal is None else (BeginSubgoal.in_words(self.number, subgoal),)
        return *begun, action_said(action)

    def said_turns(self, before: Sequence[Part], decision: Decision | None) -> tuple[Said, ...]:
        subgoals = {part.text for part in before if part.kind is BeginSubgoal}
        if decision is None:
            what = "A subgoal comes with its first action. " if subgoals else ""
            raise Unreadable(f"{what}{self.expected}.")
        return *self._begun(subgoals), action_said(decision.gist)

    def _begun(self, subgoals: set[str]) -> tuple[Said, ...]:
        if not subgoals:
            if not self.goes_on:
                raise Unreadable(f"There is no subgoal yet. {self.expected}.")
            return ()
        if not self.begins:
            raise Unreadable(f"The current subgoal has just begun; nothing was done for it yet. {self.expected}.")
        if len(subgoals) > 1:
            raise Unreadable(f"Say one subgoal at a time. {self.expected}.")
        if not (subgoal := subgoals.pop()):
            raise Unreadable(f"A subgoal is one line, not an empty one. {self.expected}.")
        return (BeginSubgoal.in_words(self.number, subgoal),)


def action_said(action: str) -> Said:
    return Said(f"Action: {action}", Act(action))


def kind_by_subgoals(said: str) -> type[Decision]:
    return Act if said.startswith("Action: ") else BeginSubgoal
