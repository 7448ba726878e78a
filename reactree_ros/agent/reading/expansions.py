"""Control flow and subgoals of an expansion: on two lines, on one, or in JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from reactree_ros.agent.control_flow import ControlFlow, flow_of, flows_by_word, known_flows, takes, wordings
from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.parser import split_subgoals
from reactree_ros.agent.reading.labels import PICTURE, Mark, label_of, undressed
from reactree_ros.agent.reading.refusal import Unreadable, shortened
from reactree_ros.agent.reading.values import value_at
from reactree_ros.agent.words import typed

_MARKS = " \t\n-*•–,;.\"'"
_FLOW_LABEL = re.compile(r"\bcontrol[ _-]?flow[\"'*_\s]{0,4}(?::|=)", re.IGNORECASE)
_SUBGOALS_LABEL = re.compile(r"\bsub[ _-]?(?:goals|tasks)[\"'*_ \t]{0,4}:\**", re.IGNORECASE)
_FLOW_FIRST = re.compile(r"[\s(\[*]{0,9}(?P<flow>\w+)[\s)\]*]{0,9}:")
_PLAINLY = re.compile(
    r"Expand:\n- control flow: (?P<flow>\w[^\n]*)\n- subgoals: (?P<subgoals>(?!\d+[.)])\w[^\n<>*`]*(?<!\s))"
)
_PLACEHOLDER = re.compile(r"\W*|<[^>]*>|\[[^\]]*\]|(?:sub-?)?goals?[ _-]?\w{0,2}", re.IGNORECASE)
#: An entry of a list with the mark before it.
_ENTRY = re.compile(r"(?P<indent>\s*)(?:(?P<bullet>[-*+•‣▪–])\s+|(?P<number>\(?\d{1,2}[.)])\s*(?=\D))?(?P<text>.*)")
_NUMBERED, _NEW_SENTENCE = re.compile(r"\(?\d{1,2}[.)]\s+"), re.compile(r"[.!?]\s+[A-Z]")
_LABELLED = re.compile(r"(?:sub-?goal|step|task)\s?\d{0,2}\s?:\s*", re.IGNORECASE)
_PICTURES = re.compile(PICTURE)
#: The fields of a subgoal that is an object in JSON.
_NAMED = (["subgoal"], ["goal"], ["task"], ["description"], ["name"])
#: A control flow and subgoals.
Named = tuple[ControlFlow, tuple[str, ...]]
_ENDLESS = "It cannot be told where the list of subgoals ends; begin each subgoal with '- '."
_FORM = "'Expand:' is followed by two lines: '- control flow: …' and '- subgoals: …, …'."


def read_expansion(text: str, allowed: Sequence[type[ControlFlow]]) -> tuple[Named, str]:
    text = typed(text)
    flows, lists = list(_FLOW_LABEL.finditer(text)), list(_SUBGOALS_LABEL.finditer(text))
    first = _FLOW_FIRST.match(text)
    if flows and first is not None and first.end() < flows[0].start():
        raise Unreadable(_FORM)
    if not flows and not lists and first is not None and first["flow"].casefold() in flows_by_word():
        flow, begin = first["flow"], first.end()
    elif len(flows) == len(lists) == 1 and not text[: flows[0].start()].strip(_MARKS):
        flow, begin = text[flows[0].end() : lists[0].start()].strip(f"{_MARKS}("), lists[0].end()
    else:
        raise Unreadable(_FORM)
    subgoals, after = _listed(text[begin:])
    return expansion(flow, subgoals, allowed), after


def expansion_in_plain_words(text: str, allowed: Sequence[type[ControlFlow]]) -> Named | None:
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
    if (flow := flows_by_word().get(said.strip().casefold())) is None:
        raise Unreadable(f"Control flow '{shortened(said, 40)}' is unknown; use one of {names}.")
    return flow()


def _with_arguments(flows: Sequence[type[ControlFlow]], said: str | dict[str, object]) -> ControlFlow | None:
    if len(flows) > 1:
        raise Unreadable("'Expand:' names more than one control flow; name one.")
    try:
        return flows[0].read(said) if flows else None
    except ParameterError as error:
        raise Unreadable(f"Control flow '{flows[0].wording.template}': {error}.") from error


def _subgoal(said: Any) -> str:
    if isinstance(said, dict) and list(said) in _NAMED:
        (said,) = said.values()
    if not isinstance(said, str):
        raise Unreadable(f"A subgoal is a text, not {shortened(str(said), 60)!r}.")
    goal = " ".join(said.split()).replace(";", ",")
    if goal and _is_no_subgoal(goal):
        raise Unreadable(f"'{shortened(goal, 60)}' is no subgoal; name what is to be reached.")
    return goal


def _is_no_subgoal(goal: str) -> bool:
    label = label_of(goal)
    if label is None:
        return _PLACEHOLDER.fullmatch(goal) is not None
    return label.announces is not Mark.ANSWER if isinstance(label.announces, Mark) else not label.announces.leads


def _listed(text: str) -> tuple[Sequence[Any], str]:
    if text.lstrip().startswith("["):
        values, end = value_at(text.lstrip(), 0)
        if not isinstance(values, list):
            raise Unreadable("The list of subgoals cannot be read; put commas between them, and no brackets.")
        return values, text.lstrip()[end:]
    line, _, below = text.partition("\n")
    if not line.strip():
        return _column(below.split("\n"))
    goals = [_tidied(goal) for goal in split_subgoals(line.strip().strip("*`"))]
    goes_on = line.rstrip().endswith(",") and below.partition("\n")[0].strip()
    if goes_on or _NUMBERED.match(line.strip()) or any(map(_NEW_SENTENCE.search, goals)):
        raise Unreadable("It cannot be told where a subgoal ends; put commas between them, and nothing after the list.")
    return goals, below


def _column(lines: Sequence[str]) -> tuple[Sequence[str], str]:
    entries: list[str] = []
    ends = set[bool]()
    first, gap = "", False
    for number, line in enumerate(lines):
        entry = _ENTRY.match(line.expandtabs(4))
        assert entry is not None  # every part of it may be empty
        form = f"{entry['indent']}{'-' if entry['bullet'] else '1' if entry['number'] else ''}"
        if not entry["text"].strip():
            gap = bool(entries)
        elif entries and gap and (form != first or not form.strip()):
            return entries, "\n".join(lines[number:])
        elif entries and form != first:
            raise Unreadable(_ENDLESS)
        else:
            first, gap = form, False
            ends.add(line.rstrip().endswith((".", "!", ":")))
            entries.append(_tidied(_LABELLED.sub("", entry["text"], count=1)))
    if not first.strip() and len(ends) > 1:
        raise Unreadable(_ENDLESS)
    return entries, ""


def _tidied(entry: str) -> str:
    entry = _PICTURES.sub("", entry).strip()
    return (undressed(entry) if entry[:1] in tuple('*_`"') else entry).rstrip(".,; ")
