"""The decision grammar: everything an agent node may say next, as one regular expression or one EBNF grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from reactree_ros.agent.decision import ALL_CONTROL_FLOWS, ControlFlow


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
        """Render as a regular expression that matches a whole decision, in the subset that servers agree on."""
        line = f"[^\\n]{{1,{self.max_characters}}}"
        kinds = [f"Think: {line}"]
        if self.skills:
            kinds.append(f"Act: (?:{'|'.join(map(re.escape, self.skills))})")
        if self.control_flows:
            flows = "|".join(flow.value for flow in self.control_flows)
            kinds.append(f"Expand:\\n- control flow: (?:{flows})\\n- subgoals: {line}")
        return f"(?:{'|'.join(kinds)})"

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
        return "\n".join([f"root ::= {' | '.join(kinds)}", *rules])


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
