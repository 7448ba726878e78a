"""Expansions, and how their control flow and subgoals are read: on three lines, on one, or in JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import Self

from reactree_ros.agent.control_flow import (
    ControlFlow,
    flow_of,
    flow_options,
    flow_schema,
    flows_by_word,
    known_flows,
    takes,
    wordings,
)
from reactree_ros.agent.decision import (
    ONE,
    Decision,
    Look,
    MalformedDecision,
    Node,
    Program,
    as_object,
    split_subgoals,
    text_of,
)
from reactree_ros.agent.grammar import TEXT, Grammar
from reactree_ros.agent.labels import PICTURE, Mark, label_of, shortened, undressed
from reactree_ros.agent.parameters import GBNF, REGEX, ParameterError
from reactree_ros.agent.reading.reader import Reader, value_at
from reactree_ros.agent.text import typed
from reactree_ros.agent.turns import Said, Turn, Unreadable

_RECORDED = re.compile(r"Expand:[ \t]*\n- control flow: (?P<flow>[^\n]*)\n- subgoals: (?P<subgoals>[^\n]*)\n?")
_FLOW, _SUBGOALS = "Expand:\n- control flow:", "\n- subgoals:"
#: A control flow and subgoals in just the words of the grammar.
_PLAINLY = re.compile(
    rf"{_FLOW} (?P<flow>\w[^\n]*){_SUBGOALS} (?P<subgoals>(?!\d+[.)])\w[^\n<>*`]*(?<!\s))"  # so that nothing is dressed
)
_MARKS = " \t\n-*•–,;.\"'"
_FLOW_LABEL = re.compile(r"\bcontrol[ _-]?flow[\"'*_\s]{0,4}(?::|=)", re.IGNORECASE)
_SUBGOALS_LABEL = re.compile(r"\bsub[ _-]?(?:goals|tasks)[\"'*_ \t]{0,4}:\**", re.IGNORECASE)
_FLOW_FIRST = re.compile(r"[\s(\[*]{0,9}(?P<flow>\w+)[\s)\]*]{0,9}:")
_PLACEHOLDER = re.compile(r"\W*|<[^>]*>|\[[^\]]*\]|(?:sub-?)?goals?[ _-]?\w{0,2}", re.IGNORECASE)
#: An entry of a list with the mark before it.
_ENTRY = re.compile(r"(?P<indent>\s*)(?:(?P<bullet>[-*+•‣▪–])\s+|(?P<number>\(?\d{1,2}[.)])\s*(?=\D))?(?P<text>.*)")
_NUMBERED, _NEW_SENTENCE = re.compile(r"\(?\d{1,2}[.)]\s+"), re.compile(r"[.!?]\s+[A-Z]")
_LABELLED = re.compile(r"(?:sub-?goal|step|task)\s?\d{0,2}\s?:\s*", re.IGNORECASE)
_PICTURES = re.compile(PICTURE)
#: The fields of a subgoal that is an object in JSON.
_NAMED = (["subgoal"], ["goal"], ["task"], ["description"], ["name"])


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
    noun = "a subgoal"
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
        return not grammar.by_subgoals  # one that may not expand may try

    @classmethod
    def may_be_said(cls, grammar: Grammar) -> bool:
        return bool(grammar.control_flows)

    @classmethod
    def regex(cls, grammar: Grammar) -> str:
        flows = "|".join(flow.wording.pattern(REGEX) for flow in grammar.control_flows)
        return f"Expand:\\n- control flow: (?:{flows})\\n- subgoals: {grammar.line}"

    @classmethod
    def ebnf(cls, grammar: Grammar) -> Sequence[str]:
        flows = " | ".join(flow.wording.pattern(GBNF) for flow in grammar.control_flows)
        return r'expand ::= "Expand:\n- control flow: " flow "\n- subgoals: " line', f"flow ::= {flows}"

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
        said = None if cut else _PLAINLY.fullmatch(text)
        if said is None:
            return None
        try:
            flow = flow_of(said["flow"])
        except ValueError:
            return None
        goals = split_subgoals(said["subgoals"])
        allowed = type(flow) in grammar.control_flows and goals and not any(map(_is_no_subgoal, goals))
        return cls(flow, goals) if allowed else None

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
        if isinstance(said, str):
            named, subgoals, after = _in_words(typed(said))
        else:
            named, listed = said
            subgoals, after = listed if isinstance(listed, list) else split_subgoals(str(listed)), "all"
        allowed = reader.grammar.control_flows
        if not allowed:
            raise Unreadable("An expansion is not allowed here; think or act.")
        if type(flow := _flow(named, wordings(allowed))) not in allowed:
            raise Unreadable(f"The control flow '{flow}' is not allowed here; allowed: {wordings(allowed)}.")
        if not (goals := list(filter(None, map(_subgoal, subgoals)))):
            raise Unreadable("An expansion needs at least one subgoal: '- subgoals: …, …'.")
        goals[-1] = re.sub(r"^(?:and )+", "", goals[-1]).rstrip(". ")
        return None if cut and not after.strip() else cls(flow, tuple(goals))

    # ------------------------------------------------------------------ what it does

    @property
    def node_end(self) -> str:
        return self.name

    @property
    def subgoals_named(self) -> tuple[str, ...]:
        return self.subgoals

    @property
    def value(self) -> Any:
        return {"control_flow": self.control_flow.value, "subgoals": list(self.subgoals)}

    def objection(self, node: Node) -> str:
        return node.objection_to(self)

    def carry_out(self, node: Node) -> Program:
        """Grow nodes for the subgoals; the node's end is theirs, unless it decides again after they failed."""
        return (yield from node.grow(self))

    def is_the_same(self, other: Expand) -> bool:
        """Whether two expansions come to the same: the order of subgoals counts in a sequence only."""
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
    """Return a goal without what does not tell it from another."""
    return " ".join(goal.lower().removeprefix("and ").split()).rstrip(".")


def _in_words(text: str) -> tuple[str, Sequence[Any], str]:
    """Return control flow and subgoals in what follows ``Expand:``, and what comes after the expansion."""
    flows, lists = list(_FLOW_LABEL.finditer(text)), list(_SUBGOALS_LABEL.finditer(text))
    first = _FLOW_FIRST.match(text)
    is_before = flows and first is not None and first.end() < flows[0].start()
    if not flows and not lists and first is not None and first["flow"].casefold() in flows_by_word():
        flow, begin = first["flow"], first.end()
    elif len(flows) == len(lists) == 1 and not is_before and not text[: flows[0].start()].strip(_MARKS):
        flow, begin = text[flows[0].end() : lists[0].start()].strip(f"{_MARKS}("), lists[0].end()
    else:
        raise Unreadable("'Expand:' is followed by two lines: '- control flow: …' and '- subgoals: …, …'.")
    text = text[begin:]
    if text.lstrip().startswith("["):
        values, end = value_at(text.lstrip())
        if not isinstance(values, list):
            raise Unreadable("The list of subgoals cannot be read; put commas between them, and no brackets.")
        return flow, values, text.lstrip()[end:]
    line, _, below = text.partition("\n")
    if not line.strip():
        return flow, *_column(below.split("\n"))
    goals = [_tidied(goal) for goal in split_subgoals(line.strip().strip("*`"))]
    goes_on = line.rstrip().endswith(",") and below.partition("\n")[0].strip()
    if goes_on or _NUMBERED.match(line.strip()) or any(map(_NEW_SENTENCE.search, goals)):
        raise Unreadable("It cannot be told where a subgoal ends; put commas between them, and nothing after the list.")
    return flow, goals, below


def _column(lines: Sequence[str]) -> tuple[Sequence[str], str]:
    """Read a list that has one entry a line, with the same marks, up to a blank line or to what has none."""
    entries, ends = list[str](), set[bool]()
    first, gap = "", False
    endless = Unreadable("It cannot be told where the list of subgoals ends; begin each subgoal with '- '.")
    for number, line in enumerate(lines):
        entry = _ENTRY.match(line.expandtabs(4))
        assert entry is not None  # every part of it may be empty
        form = f"{entry['indent']}{'-' if entry['bullet'] else '1' if entry['number'] else ''}"
        if not entry["text"].strip():
            gap = bool(entries)
        elif entries and gap and (form != first or not form.strip()):
            return entries, "\n".join(lines[number:])
        elif entries and form != first:
            raise endless
        else:
            first, gap = form, False
            ends.add(line.rstrip().endswith((".", "!", ":")))
            entries.append(_tidied(_LABELLED.sub("", entry["text"], count=1)))
    if not first.strip() and len(ends) > 1:
        raise endless
    return entries, ""


def _tidied(entry: str) -> str:
    """Return an entry without emphasis, quotes, pictures and what ends it."""
    entry = _PICTURES.sub("", entry).strip()
    return (undressed(entry) if entry[:1] in tuple('*_`"') else entry).rstrip(".,; ")


def _flow(said: Any, names: str) -> ControlFlow:
    """Return the one control flow that is said: a name, words with arguments, or an object of these."""
    taking = [one for one in known_flows() if takes(one)]
    if isinstance(said, dict) and len(said) == 1:
        ((name, given),) = said.items()
        flows = [one for one in taking if one.name == name and isinstance(given, dict)]
        said = name if not flows and given in (None, {}) else said if not flows else given
    else:
        flows = [one for one in taking if isinstance(said, str) and one.wording.says(said)]
    if len(flows) > 1:
        raise Unreadable("'Expand:' names more than one control flow; name one.")
    try:
        if flows:
            return flows[0].read(said)
    except ParameterError as error:
        raise Unreadable(f"Control flow '{flows[0].wording.template}': {error}.") from error
    if not isinstance(said, str) or not said.strip():
        raise Unreadable(f"'Expand:' names no control flow; write '- control flow: ' and one of {names}.")
    if (flow := flows_by_word().get(said.strip().casefold())) is None:
        raise Unreadable(f"Control flow '{shortened(said, 40)}' is unknown; use one of {names}.")
    return flow()


def _subgoal(said: Any) -> str:
    """Return a subgoal on one line; empty if there is none."""
    if isinstance(said, dict) and list(said) in _NAMED:
        (said,) = said.values()
    if not isinstance(said, str):
        raise Unreadable(f"A subgoal is a text, not {shortened(str(said), 60)!r}.")
    goal = " ".join(said.split()).replace(";", ",")
    if goal and _is_no_subgoal(goal):
        raise Unreadable(f"'{shortened(goal, 60)}' is not a subgoal; name what is to be reached.")
    return goal


def _is_no_subgoal(goal: str) -> bool:
    """Whether something stands for a subgoal, or is a decision of another kind."""
    label = label_of(goal)
    if label is None:
        return _PLACEHOLDER.fullmatch(goal) is not None
    return label.announces is not Mark.ANSWER if isinstance(label.announces, Mark) else not label.announces.leads
