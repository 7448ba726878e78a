"""Control flow and subgoals of an expansion, however they are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from reactree_ros.agent.control_flow import ControlFlow, flow_of, flows_by_word, known_flows, takes, wordings
from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.parser import split_subgoals
from reactree_ros.agent.reading.hedging import taken_back
from reactree_ros.agent.reading.labels import Announced, Mark, label_of
from reactree_ros.agent.reading.lists import listed_in
from reactree_ros.agent.reading.refusal import Unreadable, shortened

_FILLING = frozenset({"in", "a", "an", "the", "as", "use", "using", "control", "flow", "strategy", "order", "node"})
_MARKS = " \t-*•"
_FLOW_LABEL = re.compile(r"\bcontrol[ _-]?flow[\"'*_\s]{0,4}(?::|=|->|–|\bis\b)", re.IGNORECASE)
_SUBGOALS_LABEL = re.compile(
    r"\bsub[ _-]?(?:goals|tasks)[\"'*_ \t]{0,4}(?:\([^)\n]{0,40}\))?[* \t]{0,4}(?::|=|->|–|are:|(?=\n))\**",
    re.IGNORECASE,
)
_FLOW_FIRST = re.compile(r"\W*(?P<flow>\w+)(?:[*\"')\] \t]{0,4}(?:[:=–-]|\bof\b:?|(?=\n)|\Z)|[)\]])[*:=>–\- \t]*")
_PLAINLY = re.compile(
    r"Expand:\n- control flow: (?P<flow>\w[^\n]*)\n- subgoals: (?P<subgoals>(?!\d+[.)])\w[^\n<>*`]*(?<!\s))"
)
_PLACEHOLDER = re.compile(r"\W*|<[^>]*>|\[[^\]]*\]|(?:sub-?)?goals?[ _-]?\w{0,2}", re.IGNORECASE)
#: The fields of a subgoal that is an object in JSON.
_NAMED = (["subgoal"], ["goal"], ["task"], ["description"], ["name"])
#: A control flow and subgoals.
Named = tuple[ControlFlow, tuple[str, ...]]
_FORM = "'Expand:' is followed by two lines: '- control flow: …' and '- subgoals: …, …'."


def read_expansion(text: str, allowed: Sequence[type[ControlFlow]]) -> tuple[str, Named, str]:
    """Read what follows ``Expand:``: what stands before the control flow, the expansion, and what comes after."""
    flows, lists = list(_FLOW_LABEL.finditer(text)), list(_SUBGOALS_LABEL.finditer(text))
    if len(flows) > 1 or len(lists) > 1:
        raise Unreadable("Say one expansion: one control flow, and one list of subgoals.")
    if not flows:
        return "", *_flow_first(text, lists, allowed)
    if not lists:
        raise Unreadable(_FORM)
    flow, subgoals = flows[0], lists[0]
    if flow.start() < subgoals.start():
        before, named, rest = text[: flow.start()], text[flow.end() : subgoals.start()].strip(f"{_MARKS}\n,;.("), ""
        listed, after = listed_in(text[subgoals.end() :])
    else:
        before, (named, _, rest) = text[: subgoals.start()], text[flow.end() :].partition("\n")
        listed, after = listed_in(text[subgoals.end() : flow.start()].rstrip(f"{_MARKS}\n,;"))
    return before.strip(f"{_MARKS}\n"), expansion(named, listed, allowed), f"{after}\n{rest}".strip()


def expansion_in_plain_words(text: str, allowed: Sequence[type[ControlFlow]]) -> Named | None:
    """Return the expansion that a text says in just the words of the grammar; None if it is in others."""
    said = _PLAINLY.fullmatch(text)
    if said is None:
        return None
    try:
        flow = flow_of(said["flow"])
    except ValueError:
        return None
    goals = split_subgoals(said["subgoals"])
    if type(flow) not in allowed or not goals or any(map(_is_no_subgoal, goals)):
        return None
    return flow, goals


def expansion(flow: Any, subgoals: Iterable[Any], allowed: Sequence[type[ControlFlow]]) -> Named:
    """Return the expansion that a control flow and subgoals make."""
    if not allowed:
        raise Unreadable("An expansion is not allowed here; think or act.")
    names = wordings(allowed)
    named = _flow(flow, names)
    if type(named) not in allowed:
        raise Unreadable(f"The control flow '{named}' is not allowed here; allowed: {names}.")
    if not (goals := list(filter(None, map(_subgoal, subgoals)))):
        raise Unreadable("An expansion needs at least one subgoal: '- subgoals: …, …'.")
    goals[-1] = re.sub(r"^(?:and )+", "", goals[-1]).rstrip(". ")
    return named, tuple(goals)


def _flow(said: Any, names: str) -> ControlFlow:
    """Return the one control flow that is said."""
    taking = [one for one in known_flows() if takes(one)]
    if isinstance(said, dict) and len(said) == 1:
        ((name, given),) = said.items()
        named = [one for one in taking if one.name == name and isinstance(given, dict)]
        said = _with_arguments(named, given) or (name if given in (None, {}) else said)
    elif isinstance(said, str):
        said = _with_arguments([one for one in taking if one.wording.says(said)], said) or said
    if isinstance(said, ControlFlow):
        return said
    if not isinstance(said, str) or not said.strip():
        raise Unreadable(f"'Expand:' names no control flow; write '- control flow: ' and one of {names}.")
    flows, spoken = flows_by_word(), _words(said)
    found = {flows[word] for word in spoken if word in flows}
    if len(found) > 1:
        raise Unreadable("'Expand:' names more than one control flow; name one.")
    others = {*_words(re.sub(r"\([^)]{0,500}\)", "", said))} - {*flows, *_FILLING}
    if not found or others or taken_back(said):
        raise Unreadable(f"Control flow '{shortened(said, 40)}' is unknown; use one of {names}.")
    return found.pop()()


def _with_arguments(flows: Sequence[type[ControlFlow]], said: str | dict[str, object]) -> ControlFlow | None:
    """Return the one of some control flows that is said with its arguments; None when there is none."""
    if len(flows) > 1:
        raise Unreadable("'Expand:' names more than one control flow; name one.")
    try:
        return flows[0].read(said) if flows else None
    except ParameterError as error:
        raise Unreadable(f"Control flow '{flows[0].wording.template}': {error}.") from error


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.casefold())


def _subgoal(said: Any) -> str:
    """Return a subgoal on one line; empty if there is none."""
    if isinstance(said, dict) and list(said) in _NAMED:
        (said,) = said.values()
    if not isinstance(said, str):
        raise Unreadable(f"A subgoal is a text, not {shortened(str(said), 60)!r}.")
    goal = " ".join(said.split()).replace(";", ",")
    if goal and _is_no_subgoal(goal):
        raise Unreadable(f"'{shortened(goal, 60)}' is no subgoal; name what is to be reached.")
    return goal


def _is_no_subgoal(goal: str) -> bool:
    """Whether something stands for a subgoal, or is a decision of another kind."""
    label = label_of(goal)
    return _PLACEHOLDER.fullmatch(goal) is not None or (label is not None and _begins_another(label.kind))


def _begins_another(kind: Announced) -> bool:
    return kind is not Mark.ANSWER if isinstance(kind, Mark) else not kind.leads


def _flow_first(text: str, lists: Sequence[re.Match[str]], allowed: Sequence[type[ControlFlow]]) -> tuple[Named, str]:
    """Read ``sequence: a, b``, or ``sequence`` with the subgoals below."""
    first = _FLOW_FIRST.match(text)
    if first is None or first["flow"].casefold() not in flows_by_word():
        raise Unreadable(_FORM)
    rest = text[first.end() :]
    if lists:
        between, rest = text[first.end() : lists[0].start()], text[lists[0].end() :]
        if between.strip(f"{_MARKS}\n,;"):
            raise Unreadable(_FORM)
    listed, after = listed_in(rest)
    if listed and isinstance(listed[0], str) and listed[0].casefold().startswith(tuple(flows_by_word())):
        raise Unreadable("'Expand:' names more than one control flow; name one.")
    return expansion(first["flow"], listed, allowed), after
