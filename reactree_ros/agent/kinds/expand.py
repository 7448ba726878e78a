"""Expansions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import Self

from reactree_ros.agent.control_flow import ControlFlow, flow_of, flow_options, flow_schema
from reactree_ros.agent.decision import ONE, Decision, Look, Node, Program, as_object, text_of
from reactree_ros.agent.grammar import TEXT, Grammar
from reactree_ros.agent.parser import MalformedDecision, split_subgoals
from reactree_ros.agent.reading.expansions import expansion, expansion_in_plain_words, read_expansion
from reactree_ros.agent.reading.reader import Reader
from reactree_ros.agent.turns import Said, Turn

_RECORDED = re.compile(r"Expand:[ \t]*\n- control flow: (?P<flow>[^\n]*)\n- subgoals: (?P<subgoals>[^\n]*)\n?")
_FLOW = "Expand:\n- control flow:"
_SUBGOALS = "\n- subgoals:"


@dataclass(frozen=True)
class Expand(Decision):
    """A control flow over subgoals, to grow under the agent node."""

    name = "expand"
    word = "Expand"
    opening = "Expand:"
    rule = (
        "Expand: Decompose the current goal condition into more detailed subgoals. When expanding, generate "
        "appropriate control flow and subgoals. Control flow can be {control_flows}."
    )
    spellings = "expand|expansion|decompose|decomposition"
    keys = ("expand", "expansion", "decompose", "decomposition")
    of_lines = True
    many = ("subgoals",)
    counts = ONE
    look = Look("Expand", "{expand}: {subgoals}", colour="--expansion", style="magenta", mark="expansion")
    tally = "expand"
    learnt = True

    control_flow: ControlFlow
    subgoals: tuple[str, ...]

    @classmethod
    def is_known(cls, grammar: Grammar) -> bool:
        return not grammar.by_subgoals

    @classmethod
    def may_be_said(cls, grammar: Grammar) -> bool:
        return bool(grammar.control_flows)

    @classmethod
    def is_told(cls, grammar: Grammar) -> bool:
        return cls.may_be_said(grammar)

    @classmethod
    def regex(cls, grammar: Grammar) -> str:
        flows = "|".join(flow.wording.regex() for flow in grammar.control_flows)
        return f"Expand:\\n- control flow: (?:{flows})\\n- subgoals: {grammar.line}"

    @classmethod
    def ebnf(cls, grammar: Grammar) -> Sequence[str]:
        return (
            'expand ::= "Expand:\\n- control flow: " flow "\\n- subgoals: " line',
            f"flow ::= {' | '.join(flow.wording.ebnf() for flow in grammar.control_flows)}",
        )

    @classmethod
    def schema(cls, grammar: Grammar, skill: Mapping[str, Any]) -> Mapping[str, Any]:
        subgoals = {"type": "array", "items": TEXT}
        return as_object(control_flow=flow_schema(grammar.control_flows), subgoals=subgoals)

    @classmethod
    def rounds(cls, grammar: Grammar) -> Sequence[tuple[str, Sequence[str] | None]]:
        return (_FLOW, flow_options(grammar.control_flows)), (_SUBGOALS, None)

    # ------------------------------------------------------------------ reading

    @classmethod
    def read_exactly(cls, text: str, grammar: Grammar, *, cut: bool) -> Decision | None:
        found = None if cut else expansion_in_plain_words(text, grammar.control_flows)
        return None if found is None else cls(*found)

    @classmethod
    def read_recorded(cls, text: str, *, keep_and: bool = False) -> Decision:
        match = _RECORDED.fullmatch(text)
        if match is None:
            raise MalformedDecision(
                "'Expand:' is followed by exactly two lines: '- control flow: …' and '- subgoals: …, …'."
            )
        try:
            flow = flow_of(match["flow"].strip())
        except ValueError as error:
            raise MalformedDecision(f"C{str(error)[1:]}.") from error
        return cls(flow, split_subgoals(match["subgoals"], keep_and=keep_and))

    @classmethod
    def recorded_turns(cls, line: str, rest: list[str]) -> Sequence[Turn] | None:
        if line != cls.opening or len(rest) < 2:
            return None
        said = "\n".join([line, rest.pop(), rest.pop()])
        try:
            return (Said(said, cls.read_recorded(said, keep_and=True)),)
        except MalformedDecision:
            return (Said(said),)

    @classmethod
    def read(cls, said: Any, reader: Reader, *, cut: bool) -> Decision | None:
        allowed = reader.grammar.control_flows
        if isinstance(said, str):
            found, after = read_expansion(said, allowed)
            return None if cut and not after.strip() else cls(*found)
        flow, subgoals = said
        return cls(*expansion(flow, subgoals if isinstance(subgoals, list) else split_subgoals(str(subgoals)), allowed))

    # ------------------------------------------------------------------ what it does

    @property
    def node_end(self) -> str:
        return self.name

    @property
    def subgoals_named(self) -> tuple[str, ...]:
        return self.subgoals

    def objection(self, node: Node) -> str:
        return node.objection_to(self)

    def carry_out(self, node: Node) -> Program:
        return (yield from node.grow(self))

    def is_the_same(self, other: Expand) -> bool:
        mine, others = list(map(normal, self.subgoals)), list(map(normal, other.subgoals))
        if len(mine) == 1:
            return mine == others
        same = mine == others if self.control_flow.ordered else sorted(mine) == sorted(others)
        return self.control_flow == other.control_flow and same

    # ------------------------------------------------------------------ how it is written down and shown

    def __str__(self) -> str:
        commas = any("," in subgoal for subgoal in self.subgoals)
        listed = "; ".join((*self.subgoals, "")).rstrip() if commas else ", ".join(self.subgoals)
        return f"{_FLOW} {self.control_flow}{_SUBGOALS} {listed}"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(flow_of(text_of(values["expand"])), tuple(map(text_of, values["subgoals"])))

    def lines(self) -> Sequence[str]:
        return f"⊕ {self.control_flow}", *(f"○ {subgoal}" for subgoal in self.subgoals)

    def in_a_line(self) -> str:
        return f"Expand: {self.control_flow} of {'; '.join(self.subgoals)}"


def normal(goal: str) -> str:
    return " ".join(goal.lower().removeprefix("and ").split()).rstrip(".")
