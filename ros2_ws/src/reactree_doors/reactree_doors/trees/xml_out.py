"""Writes a routine as XML of BehaviorTree.CPP 4, with the nodes model that Groot2 wants."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from reactree_doors.trees import bt_nodes as bt
from reactree_doors.trees.bt_nodes import by_node_name
from reactree_ros.agent.observation import Outcome
from reactree_ros.agent.skill import Skill as Declared
from reactree_ros.agent.text import shortened_line
from reactree_ros.files.xml import Element, as_xml
from reactree_ros.routine import model
from reactree_ros.routine.model import apart

#: Characters that XML cannot hold.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DECORATORS = {does: (tag, port) for tag, (does, port) in bt.DECORATORS.items()}
_ALWAYS = {succeeds: tag for tag, succeeds in bt.ALWAYS.items()}
_TURNS = {turns: tag for tag, turns in bt.TURNS.items()}


def xml_of(routine: model.Routine, skills: Iterable[Declared] = ()) -> str:
    """Write a routine as XML; :func:`~reactree_doors.trees.xml_in.routine_of_xml` reads it.

    What the routine went through (its origin, counts and version) stays with the memory. Raises RoutineError: a node
    cannot be written; the message names it.

    Args:
        skills: The declared skills of the world; a skill that is none of them is written with its whole wording.
    """
    return as_xml(_Writer(by_node_name(skills)).root(routine))


def nodes_model(skills: Iterable[Declared]) -> str:
    """Write the nodes model alone: what Groot2 offers for a tree of one's own."""
    return as_xml(_root(_models(by_node_name(skills))))


class _Writer:
    def __init__(self, skills: Mapping[str, Declared]) -> None:
        self._skills = skills

    def root(self, routine: model.Routine) -> Element:
        name = re.sub(r"[^\w-]", "_", routine.name)
        told = {"ID": name, **({bt.NAME: routine.name} if name != routine.name else {}), bt.GOAL: routine.goal}
        tree = Element("BehaviorTree", {**told, **_labels(routine)}, children=(self.node(routine.body),))
        roles = (Element("input_port", {"name": role.name, "type": role.kind}) for role in routine.roles)
        own = Element(bt.SUBTREE, {"ID": name}, children=tuple(roles))
        return _root(tree, _models(self._skills, own), main_tree_to_execute=name)

    def node(self, node: model.Node) -> Element:
        return _WRITTEN[type(node)](self, node)

    def _parallel(self, node: model.Parallel) -> Element:
        if node.policy == "all":
            return self._element(node, bt.PARALLEL, bt.ALL_SUCCEED)
        most = {bt.MOST_FAILURES: str(bt.most_failures(len(node.children)))}
        return self._element(node, bt.TO_THE_END, most | ({bt.SHARED: "true"} if node.policy == "concurrent" else {}))

    def _decorator(self, node: model.Decorator) -> Element:
        tag, port = _DECORATORS[node.does]
        if not port and node.times != 1:
            raise model.RoutineError(f"{_named(node)}: {node.does} is done once, not {node.times} times")
        return self._element(node, tag, {port: str(node.times or -1)} if port else {}, (node.child,))

    def _within(self, node: model.Within) -> Element:
        first = node.children[0]
        alone = len(node.children) == 1 and not (isinstance(first, model.Sequence) and first.memory is True)
        below = (first,) if alone else (model.Sequence(children=node.children),)
        return self._element(node, bt.TIMEOUT, {bt.MSEC: str(round(node.seconds * 1000))}, below)

    def _search(self, node: model.Search) -> Element:
        if odd := next((one for one in node.order if ";" in one), ""):
            raise model.RoutineError(f"{_named(node)}: '{odd}' has a ;, which parts the places in XML")
        order = {"order": ";".join(node.order)} if node.order else {}
        return self._element(node, bt.SEARCH, {"of": node.of, "finds": f"{{{node.finds}}}", **order})

    def _wait(self, node: model.WaitFor) -> Element:
        looks = node.seconds == 0
        seconds = {} if looks or node.seconds is None else {"seconds": repr(node.seconds).removesuffix(".0")}
        return self._element(node, bt.HOLDS if looks else bt.WAIT, {"condition": node.condition, **seconds})

    def _skill(self, node: model.Skill) -> Element:
        more = {bt.EXPECTED: node.expected.value} if node.expected is not Outcome.DONE else {}
        more |= {name: f"{{{entry}}}" for name, entry in node.returns.items()}
        known = (
            one for one in self._skills.values() if node.returns.keys() <= one.returns.keys() - one.parameters.keys()
        )
        name, values = bt.SKILL, {"wording": node.wording}
        if said := apart(node.wording, known):
            name, values = said[0].name.replace(" ", "_"), said[1]
        asks = {bt.ASKS: str(node.looks).lower()} if node.looks != (name in bt.LOOKS) else {}
        return self._element(node, name, values | more | asks)

    def _element(
        self,
        node: model.Node,
        tag: str,
        ports: Mapping[str, str] | None = None,
        below: tuple[model.Node, ...] | None = None,
    ) -> Element:
        for port, value in (ports or {}).items():
            if _NO_XML.search(value):
                raise model.RoutineError(f"{_named(node)}: {port} has a character that XML cannot hold")
        children = getattr(node, "children", ()) if below is None else below
        written = {port: bt.as_port(value) for port, value in (ports or {}).items()}
        return Element(tag, {**written, **_labels(node)}, children=tuple(map(self.node, children)))


_WRITTEN: Mapping[type, Callable[[_Writer, Any], Element]] = {
    model.Sequence: lambda to, node: to._element(node, _TURNS[model.Sequence, node.memory]),
    model.Fallback: lambda to, node: to._element(node, _TURNS[model.Fallback, node.memory]),
    model.Parallel: _Writer._parallel,
    model.Decorator: _Writer._decorator,
    model.Within: _Writer._within,
    model.RepeatUntil: lambda to, node: to._element(node, bt.REPEAT, {"condition": node.condition}),
    model.While: lambda to, node: to._element(node, bt.WHILE, {"condition": node.condition}),
    model.Goal: lambda to, node: to._element(node, bt.AGENT, {"goal": node.text}),
    model.Search: _Writer._search,
    model.WaitFor: _Writer._wait,
    model.Skill: _Writer._skill,
    model.Script: lambda to, node: to._element(node, bt.CHECK if node.checks else bt.SCRIPT, {"code": node.code}),
    model.Pause: lambda to, node: to._element(node, bt.PAUSE, {bt.PAUSES[bt.PAUSE]: str(node.milliseconds)}),
    model.Always: lambda to, node: to._element(node, _ALWAYS[node.succeeds]),
}


def _labels(labelled: model.Node | model.Routine) -> Mapping[str, str]:
    for name, text in labelled.labels.items():
        if bt.meant(name) or _NO_XML.search(text):
            raise model.RoutineError(
                f"the label '{name}' says what a node does, or has a character that XML cannot hold"
            )
    return labelled.labels


def _named(node: model.Node) -> str:
    return " ".join((node.kind, *(f"'{shortened_line(text, 60)}'" for text in model.templates_of(node))))


# ---------------------------------------------------------------------- the nodes model


def _root(*children: Element, **more: str) -> Element:
    return Element("root", {"BTCPP_format": "4", **more}, children=children)


def _models(skills: Mapping[str, Declared], *more: Element) -> Element:
    own = (_model(name, one["kind"], one["about"], one["ports"]) for name, one in bt.OWN.items())
    declared = (
        _model(
            name,
            "Action",
            skill.wording,
            [
                *(("input_port", port, of.words()) for port, of in skill.parameters.items()),
                *(
                    ("output_port", port, of.words())
                    for port, of in skill.returns.items()
                    if port not in skill.parameters
                ),
            ],
        )
        for name, skill in skills.items()
    )
    return Element("TreeNodesModel", children=(*own, *declared, *more))


def _model(name: str, kind: str, about: str, ports: Iterable[tuple[str, str, str]]) -> Element:
    children = [Element(tag, {"name": port}, text=holds) for tag, port, holds in ports]
    return Element(kind, {"ID": name}, children=(*children, Element("description", text=about)))
