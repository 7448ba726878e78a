"""The decision grammar: everything a goal node may say next, as regular expression, EBNF grammar or JSON schema."""

from __future__ import annotations

import abc
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reactree_ros.agent.control_flow import ControlFlow, default_flows, flow_schema

#: The longest skill that may be said where skills are free, in characters.
LONGEST_SKILL = 500
_FREE = f"[^\\n]{{1,{LONGEST_SKILL}}}"
_TEXT = {"type": "string"}


class Grammar(abc.ABC):
    """What may be said in one decision, whoever plans; :func:`~reactree_ros.agent.reading.read` reads what is said.

    Attributes:
        skills: Every skill that may be said, with ``done``, ``failure`` and what memory may be asked.
        free: Whether others may be said, too, as in a household with free skills.
    """

    skills: Sequence[str]
    free: bool

    @abc.abstractmethod
    def regex(self) -> str:
        """Render as a regular expression that matches all of it, in the subset that servers agree on.

        A line end may follow: a model without a chat template ends a line with it, and would have to go on without.
        """

    @abc.abstractmethod
    def ebnf(self) -> str:
        """Render as an EBNF grammar in the GBNF notation (llama.cpp, xgrammar, llguidance's converter)."""

    def json_schema(self) -> dict[str, Any]:
        """Render as a JSON schema, for servers that take nothing else."""
        return self._schema(_TEXT if self.free else {"type": "string", "enum": list(self.skills)})

    def one_schema(self) -> dict[str, Any]:
        """Render as a JSON schema that stays the same while the skills change; which there are is up to the reader."""
        return self._schema(_TEXT)

    @abc.abstractmethod
    def _schema(self, skill: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with the part that stands for a skill."""

    def _skill_regex(self) -> str:
        """Return the part of the regular expression that stands for a skill."""
        return _FREE if self.free else f"(?:{'|'.join(map(re.escape, self.skills))})"

    def _skill_rule(self) -> str:
        """Return the EBNF rule that stands for a skill."""
        return f"skill ::= {_FREE if self.free else ' | '.join(map(_quoted, self.skills))}"


@dataclass(frozen=True)
class DecisionGrammar(Grammar):
    """What an agent node may say in one decision.

    Attributes:
        skills: Every skill that may follow ``Act:``, with ``done``, ``failure`` and the recalls.
        control_flows: Control flows an expansion may use; empty: no expansion (ReAct).
        max_characters: Longest thought or subgoal line, in characters.
        free: Whether other skills may follow ``Act:``, too.
        questions: How many questions may still be asked of a person; None: there is nobody to ask.
    """

    skills: Sequence[str]
    control_flows: Sequence[type[ControlFlow]] = field(default_factory=default_flows)
    max_characters: int = 1000
    free: bool = False
    questions: int | None = None

    def regex(self) -> str:
        """Render as a regular expression; see :meth:`Grammar.regex`."""
        line = f"[^\\n]{{1,{self.max_characters}}}"
        kinds = [f"Think: {line}"]
        if self.skills:
            kinds.append(f"Act: {self._skill_regex()}")
        if self.control_flows:
            flows = "|".join(flow.wording.regex() for flow in self.control_flows)
            kinds.append(f"Expand:\\n- control flow: (?:{flows})\\n- subgoals: {line}")
        if self.questions:
            kinds.append(f"Ask: {line}")
        return f"(?:{'|'.join(kinds)})\\n?"

    def ebnf(self) -> str:
        """Render as an EBNF grammar; see :meth:`Grammar.ebnf`."""
        kinds, rules = ["think"], ['think ::= "Think: " line']
        if self.skills:
            kinds.append("act")
            rules.append('act ::= "Act: " skill')
            rules.append(self._skill_rule())
        if self.control_flows:
            kinds.append("expand")
            rules.append('expand ::= "Expand:\\n- control flow: " flow "\\n- subgoals: " line')
            rules.append(f"flow ::= {' | '.join(flow.wording.ebnf() for flow in self.control_flows)}")
        if self.questions:
            kinds.append("ask")
            rules.append('ask ::= "Ask: " line')
        rules.append(f"line ::= [^\\n]{{1,{self.max_characters}}}")
        return "\n".join([f'root ::= ({" | ".join(kinds)}) "\\n"?', *rules])

    def _schema(self, skill: dict[str, Any]) -> dict[str, Any]:
        kinds = [_object(Think=_TEXT)]
        if self.skills:
            kinds.append(_object(Act=skill))
        if self.control_flows:
            flow = flow_schema(self.control_flows)
            kinds.append(_object(Expand=_object(control_flow=flow, subgoals={"type": "array", "items": _TEXT})))
        if self.questions:
            kinds.append(_object(Ask=_TEXT))
        return _object(decision={"anyOf": kinds})


@dataclass(frozen=True)
class SubgoalGrammar(Grammar):
    """What HiAgent may say: an action, or the next subgoal with its first action (Hu et al., section 3.1).

    Attributes:
        skills: Every action.
        number: Number of the next subgoal, from 1.
        begins: Whether a subgoal may begin.
        goes_on: Whether an action may be said for the current one.
        max_characters: Longest subgoal, in characters.
        free: Whether other actions may be said, too.
    """

    skills: Sequence[str]
    number: int = 1
    begins: bool = True
    goes_on: bool = True
    max_characters: int = 1000
    free: bool = False

    def regex(self) -> str:
        """Render as a regular expression; see :meth:`Grammar.regex`."""
        action = f"Action: {self._skill_regex()}"
        subgoal = f"{self.number} Subgoal: [^\\n]{{1,{self.max_characters}}}\\n"
        start = f"(?:{subgoal}){'?' if self.goes_on else ''}" if self.begins else ""
        return f"{start}{action}\\n?"

    def ebnf(self) -> str:
        """Render as an EBNF grammar; see :meth:`Grammar.ebnf`."""
        start = f"subgoal{'?' if self.goes_on else ''} " if self.begins else ""
        return "\n".join(
            [
                f'root ::= {start}action "\\n"?',
                *([f'subgoal ::= "{self.number} Subgoal: " line "\\n"'] if self.begins else []),
                'action ::= "Action: " skill',
                self._skill_rule(),
                *([f"line ::= [^\\n]{{1,{self.max_characters}}}"] if self.begins else []),
            ]
        )

    def _schema(self, skill: dict[str, Any]) -> dict[str, Any]:
        kinds = [_object(Subgoal=_TEXT, Action=skill)] if self.begins else []
        if self.goes_on:
            kinds.append(_object(Action=skill))
        return _object(decision={"anyOf": kinds})


def choice_regex(options: Sequence[str]) -> str:
    """Render a choice as a regular expression; a line end may follow."""
    return f"(?:{'|'.join(map(re.escape, options))})\\n?"


def choice_ebnf(options: Sequence[str]) -> str:
    """Render a choice as an EBNF grammar; a line end may follow."""
    return f'root ::= ({" | ".join(map(_quoted, options))}) "\\n"?'


def choice_schema(options: Sequence[str] | None) -> dict[str, Any]:
    """Render a choice as a JSON schema, or, with None, what is the same for all choices.

    :func:`chosen_of_json` reads what comes back.
    """
    return _object(choice=_TEXT if options is None else {"type": "string", "enum": list(options)})


def chosen_of_json(text: str) -> str:
    """Return the option that a reply in JSON stands for.

    Raises:
        ValueError: The reply is not of the schema.
    """
    try:
        return str(json.loads(text)["choice"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"Not of the JSON schema that was asked for: {text[:200]!r}") from error


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
