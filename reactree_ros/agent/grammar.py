"""The decision grammar: everything an agent node may say next, as regular expression, EBNF grammar or JSON schema."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reactree_ros.agent.decision import ALL_CONTROL_FLOWS, ControlFlow

_NOT_OF_SCHEMA = "Not of the JSON schema that was asked for: {!r}"


@dataclass(frozen=True)
class DecisionGrammar:
    """What may be said in one decision.

    Attributes:
        skills: Every skill that may follow ``Act: ``, with ``done``, ``failure`` and the recalls.
        control_flows: Control flows an expansion may use; empty: no expansion (ReAct).
        max_characters: Longest thought or subgoal line, in characters.
    """

    skills: Sequence[str]
    control_flows: Sequence[ControlFlow] = ALL_CONTROL_FLOWS
    max_characters: int = 1000

    def regex(self) -> str:
        """Render as a regular expression that matches a whole decision, in the subset that servers agree on.

        A line end may follow: a model without a chat template ends a line with it, and would have to go on without.
        """
        line = f"[^\\n]{{1,{self.max_characters}}}"
        kinds = [f"Think: {line}"]
        if self.skills:
            kinds.append(f"Act: (?:{'|'.join(map(re.escape, self.skills))})")
        if self.control_flows:
            flows = "|".join(flow.value for flow in self.control_flows)
            kinds.append(f"Expand:\\n- control flow: (?:{flows})\\n- subgoals: {line}")
        return f"(?:{'|'.join(kinds)})\\n?"

    def ebnf(self) -> str:
        """Render as an EBNF grammar in the GBNF notation (llama.cpp, xgrammar, llguidance's converter)."""
        kinds, rules = ["think"], ['think ::= "Think: " line']
        if self.skills:
            kinds.append("act")
            rules.append('act ::= "Act: " skill')
            rules.append(f"skill ::= {' | '.join(map(_quoted, self.skills))}")
        if self.control_flows:
            kinds.append("expand")
            rules.append('expand ::= "Expand:\\n- control flow: " flow "\\n- subgoals: " line')
            rules.append(f"flow ::= {' | '.join(_quoted(flow.value) for flow in self.control_flows)}")
        rules.append(f"line ::= [^\\n]{{1,{self.max_characters}}}")
        return "\n".join([f'root ::= ({" | ".join(kinds)}) "\\n"?', *rules])

    def json_schema(self) -> dict[str, Any]:
        """Render as a JSON schema, for servers that take nothing else; :func:`text_of_json` reads what comes back."""
        text = {"type": "string", "minLength": 1}
        kinds = [_object(Think=text)]
        if self.skills:
            kinds.append(_object(Act={"type": "string", "enum": list(self.skills)}))
        if self.control_flows:
            flow = {"type": "string", "enum": [flow.value for flow in self.control_flows]}
            kinds.append(_object(Expand=_object(control_flow=flow, subgoals={"type": "array", "items": text})))
        return _object(decision={"anyOf": kinds})


def text_of_json(text: str) -> str:
    """Return the decision that a reply in JSON stands for, in the words of the grammar.

    Raises:
        ValueError: The reply is not of the schema.
    """
    try:
        ((kind, what),) = json.loads(text)["decision"].items()
        if kind == "Expand":
            subgoals = ", ".join(" ".join(subgoal.split()) for subgoal in what["subgoals"])
            return f"Expand:\n- control flow: {what['control_flow']}\n- subgoals: {subgoals}"
        return f"{kind}: {' '.join(what.split())}"
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(_NOT_OF_SCHEMA.format(text[:200])) from error


def choice_regex(options: Sequence[str]) -> str:
    """Render a choice as a regular expression; a line end may follow."""
    return f"(?:{'|'.join(map(re.escape, options))})\\n?"


def choice_ebnf(options: Sequence[str]) -> str:
    """Render a choice as an EBNF grammar; a line end may follow."""
    return f'root ::= ({" | ".join(map(_quoted, options))}) "\\n"?'


def choice_schema(options: Sequence[str]) -> dict[str, Any]:
    """Render a choice as a JSON schema; :func:`chosen_of_json` reads what comes back."""
    return _object(choice={"type": "string", "enum": list(options)})


def chosen_of_json(text: str) -> str:
    """Return the option that a reply in JSON stands for.

    Raises:
        ValueError: The reply is not of the schema.
    """
    try:
        return str(json.loads(text)["choice"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(_NOT_OF_SCHEMA.format(text[:200])) from error


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
