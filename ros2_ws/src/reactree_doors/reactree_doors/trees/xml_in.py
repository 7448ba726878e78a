"""Reads XML of BehaviorTree.CPP 4 as a routine; what has no counterpart is an error with the node and its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Any, NoReturn

from pydantic import ValidationError

from reactree_doors.trees import bt_nodes as bt
from reactree_doors.trees.bt_nodes import by_node_name
from reactree_ros.agent.observation import Outcome
from reactree_ros.agent.parameters import List, Names, Parameter, ParameterError, Thing, any_name, each_of
from reactree_ros.agent.skill import WAIT, look_at
from reactree_ros.agent.skill import Skill as Declared
from reactree_ros.agent.text import LONGEST_TEMPLATE, shortened_line
from reactree_ros.files.read_back import text_of
from reactree_ros.files.xml import LARGEST_XML, Element, NoXml, parse_xml
from reactree_ros.plugins.settings import did_you_mean, fault_of, or_nearest
from reactree_ros.routine import model
from reactree_ros.routine.model import has_role, say, taken_apart


@dataclass
class Scope:
    # by name a text with the routine's names in braces: of a role, of what an earlier search found, of what a subtree
    # was given
    names: dict[str, str]
    # what the tree above calls what a subtree is to find, by its name in the subtree
    outs: dict[str, str] = field(default_factory=dict)


_ROLE = re.compile(r"[a-z][a-z0-9_]{0,39}")
_POINTER = re.compile(r"\{([^{}]+)\}")
_TRUE = ("true", "True", "TRUE", "1")
_KIND_OF = {other: kind for kind, others in bt.TYPES.items() for other in others}
_ROLES = ("thing", "place", "room", "person", "number", "text")


def read_routine(
    path: Path, skills: Iterable[Declared] = (), *, goal: str = "", names: Names = any_name
) -> model.Routine:
    return routine_of_xml(text_of(path, most=LARGEST_XML), skills, goal=goal, where=str(path), names=names)


def read_routines(path: Path, skills: Iterable[Declared] = (), names: Names = any_name) -> list[model.Routine]:
    """Read a file of XML, or each ``.xml`` of a folder in order of their names; see :func:`routine_of_xml`."""
    files = sorted(path.glob("*.xml")) if path.is_dir() else [path]
    if not files:
        raise model.RoutineError(f"{path}: there is no .xml in this folder")
    return [read_routine(file, skills, names=names) for file in files]


def routine_of_xml(
    text: str, skills: Iterable[Declared] = (), *, goal: str = "", where: str = "routine", names: Names = any_name
) -> model.Routine:
    """Read XML as a routine. Its roles are the ports that the nodes model declares for the main tree.

    Comments, descriptions and the names of single nodes are not kept. Raises RoutineError: it is no such XML, or a node
    has no counterpart; the message names node and line.

    Args:
        skills: The declared skills of the world, which are the actions.
        goal: What the routine is for, with each of its roles in braces; empty: as the tree says with ``_goal``.
        where: Where the text is from, for errors.
        names: Says which names can ever stand in a place of a skill.
    """
    try:
        root = parse_xml(text)
    except NoXml as error:
        raise model.RoutineError(f"{where}:{error.line}: is not XML: {error}") from None
    return _File(root, tuple(skills), names, where).routine(goal)


class _File:
    def __init__(self, root: Element, declared: Collection[Declared], names: Names, where: str) -> None:
        self.declared, self.names, self.where = declared, names, where
        self.skills = by_node_name(declared)
        self.trees: dict[str, Element] = {}
        self.models: dict[str, tuple[Element, ...]] = {}
        self.roles, self._names = frozenset[str](), set[str]()
        self._count = 0  # of nodes
        self._root = root
        self._sort(root)

    def refuse(self, element: Element, reason: str) -> NoReturn:
        name = element.attributes.get("name") or element.attributes.get("ID")
        called = f"<{element.tag}{f' {shortened_line(name, 40)!r}' if name else ''}>"
        raise model.RoutineError(shortened_line(f"{self.where}:{element.line}: {called}: {reason}", 600))

    def routine(self, goal: str) -> model.Routine:
        tree = self._main()
        own = {"ID": "tree", **tree.attributes}
        if strange := [name for name in own if name not in {"ID", bt.GOAL, bt.NAME, *bt.LABELS}]:
            self.refuse(tree, f"'{strange[0]}' cannot be carried over")
        goal = goal or own.get(bt.GOAL, "")
        if not goal:
            self.refuse(
                tree, f'say what it is for, with its roles, as {bt.GOAL}="bring me the {{thing}}" or with --goal'
            )
        roles = tuple(self._role(port) for port in self.ports(own["ID"]))
        names = [role["name"] for role in roles]
        scope = Scope({name: f"{{{name}}}" for name in names})
        self.roles, self._names = frozenset(names), set(names)
        body = self.only_child(tree, scope, (own["ID"],))
        name = own.get(bt.NAME, own["ID"])
        return model.Routine.from_data({"name": name, "goal": goal, "roles": roles, "body": body}, where=self.where)

    def ports(self, tree: str) -> list[Element]:
        return [one for one in self.models.get(tree, ()) if one.tag.endswith("_port")]

    def _sort(self, root: Element) -> None:
        if root.tag != "root":
            self.refuse(root, "the first element of a file of BehaviorTree.CPP is <root>")
        if root.attributes.get("BTCPP_format") != "4":
            self.refuse(root, 'this is no file of version 4; convert it, and write <root BTCPP_format="4">')
        for child in root.children:
            if child.tag == "BehaviorTree":
                self._add_tree(child)
            elif child.tag == "TreeNodesModel":
                for one in child.named(bt.SUBTREE):
                    self.models[one.attributes.get("ID", "")] = one.children
            elif child.tag == "include":
                self.refuse(child, "other files are not read; put its trees into this one")
            else:
                self.refuse(child, "only BehaviorTree and TreeNodesModel stand here")

    def _add_tree(self, tree: Element) -> None:
        name = tree.attributes.get("ID", "")
        if name in self.trees:
            self.refuse(tree, f"this ID is that of line {self.trees[name].line}, too")
        self.trees[name] = tree

    def _main(self) -> Element:
        named = self._root.attributes.get("main_tree_to_execute", "")
        if named in self.trees:
            return self.trees[named]
        if named or not self.trees:
            self.refuse(self._root, f"there is no tree '{named}'{or_nearest(named, self.trees)}")
        used = {
            one.attributes.get("ID") for tree in self.trees.values() for one in _below(tree) if one.tag == bt.SUBTREE
        }
        first = [tree for name, tree in self.trees.items() if name not in used]
        if len(first) != 1:
            self.refuse(self._root, f"say which tree it is: main_tree_to_execute is one of {', '.join(self.trees)}")
        return first[0]

    def _role(self, port: Element) -> dict[str, str]:
        name, kind = port.attributes.get("name", ""), port.attributes.get("type", "")
        if port.tag != "input_port":
            self.refuse(port, "a routine gives nothing back; its roles are each an input_port")
        if not _ROLE.fullmatch(name):
            self.refuse(port, "call a role in small letters, digits and _, such as 'thing'")
        if "default" in port.attributes:
            self.refuse(port, "a role has no default; what it stands for is in the goal")
        if (known := _KIND_OF.get(kind, kind)) not in _ROLES:
            self.refuse(port, f"a role of type '{kind}' is not known; {did_you_mean(kind, _ROLES)}")
        return {"name": name, "kind": known}

    def node(self, element: Element, scope: Scope, trees: tuple[str, ...], depth: int = 1) -> model.Node:
        self._count += element.tag != bt.SUBTREE
        if self._count > model.MOST_NODES or depth > model.DEEPEST:
            self.refuse(element, f"a routine has at most {model.MOST_NODES} nodes, {model.DEEPEST} in one another")
        tag = element.attributes.get("ID", "") if element.tag in bt.KINDS else element.tag
        reading = _Reading(self, element, tag, scope, trees, depth)
        try:
            return reading.node()
        except ValidationError as error:
            fault = fault_of(error, model.Routine)
            at = ".".join(map(str, fault.path))
            self.refuse(element, f"{at and f'{at}: '}{fault.said}")

    def only_child(self, element: Element, scope: Scope, trees: tuple[str, ...], depth: int = 0) -> model.Node:
        if len(element.children) != 1:
            self.refuse(element, f"it has {len(element.children)} nodes in it; put just one there")
        return self.node(element.children[0], scope, trees, depth + 1)

    def fresh(self, name: str) -> str:
        plain = re.sub(r"[^a-z0-9_]", "_", name.lower()).lstrip("_0123456789")[:40] or "found"
        number, fresh = 1, plain
        while fresh in self._names:
            number += 1
            fresh = f"{plain[:35]}_{number}"
        self._names.add(fresh)
        return fresh


def _below(element: Element) -> Iterator[Element]:
    for child in element.children:
        yield child
        yield from _below(child)


@dataclass
class _Reading:
    _file: _File
    _element: Element
    _tag: str  # its name in the file
    _scope: Scope
    _trees: tuple[str, ...]  # the trees that it is in, from the main one
    _depth: int

    def node(self) -> model.Node:
        tag = self._tag
        if tag in bt.WITHOUT:
            self._refuse(bt.WITHOUT[tag])
        if inner := _INNER.get(tag):
            return inner(self)
        leaf = _LEAVES.get(tag, _Reading._declared if tag in self._file.skills else None)
        if leaf is None:
            known = [*_INNER, *_LEAVES, *self._file.skills]
            self._refuse(f"'{shortened_line(tag, 60)}' is no node and no skill here; {did_you_mean(tag, known)}")
        if self._element.children:
            self._refuse("nothing may stand in it")
        return leaf(self)

    def _refuse(self, reason: str) -> NoReturn:
        self._file.refuse(self._element, reason)

    # ------------------------------------------------------------------ what is in it

    def _children(self) -> tuple[model.Node, ...]:
        below = self._element.children
        if not below:
            self._refuse("there is nothing in it")
        return tuple(self._file.node(child, self._scope, self._trees, self._depth + 1) for child in below)

    def _only_child(self) -> model.Node:
        return self._file.only_child(self._element, self._scope, self._trees, self._depth)

    def _ports(self, needed: Iterable[str], more: Iterable[str] = (), raw: Iterable[str] = ()) -> dict[str, str]:
        needed, more = list(needed), list(more)
        labels = bt.LABELS | ({"ID"} if self._element.tag in bt.KINDS else frozenset())
        given = {name: value for name, value in self._element.attributes.items() if name not in labels}
        for name in given:
            if name not in (*needed, *more):
                has = did_you_mean(name, [*needed, *more]) if needed or more else "it has none"
                self._refuse(
                    f"'{name}' cannot be carried over" if name[:1] == "_" else f"there is no port '{name}'; {has}"
                )
        if missing := [name for name in needed if name not in given]:
            self._refuse(f"the port '{missing[0]}' is missing")
        return {
            name: value if name[:1] == "_" or name in raw else self._meant(bt.of_port(value))
            for name, value in given.items()
        }

    def _meant(self, text: str) -> str:
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            self._refuse(f"{shortened_line(text, 60)!r}: {error}; a brace that is none of a role is doubled")
        meant = ""
        for literal, name, spec, conversion in parts:
            meant += literal.replace("{", "{{").replace("}", "}}")
            if name is not None and (name not in self._scope.names or spec or conversion):
                given = f'; <SubTree ID="{self._trees[-1]}" …> may give it as a port' if len(self._trees) > 1 else ""
                self._refuse(
                    f"'{{{name}}}' is no role and was not found before; a role is an input_port of "
                    f'<SubTree ID="{self._trees[0]}"> in the TreeNodesModel{given}'
                )
            meant += "" if name is None else self._scope.names[name]
            if len(meant) > LONGEST_TEMPLATE:  # also of ports that have each other twice, tree by tree
                self._refuse(f"{shortened_line(text, 60)!r} comes to more than {LONGEST_TEMPLATE} characters")
        return meant

    def _number(self, port: str, value: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,9}", value):
            self._refuse(f"{port} is '{shortened_line(value, 40)}'; write a whole number")
        return int(value)

    # ------------------------------------------------------------------ by its name

    def _turns(self) -> model.Node:
        of, memory = bt.TURNS[self._tag]
        self._ports(())
        return of(children=self._children(), memory=memory)

    def _always(self) -> model.Node:
        self._ports(())
        return model.Always(succeeds=bt.ALWAYS[self._tag])

    def _decorator(self) -> model.Node:
        does: Any
        does, port = bt.DECORATORS[self._tag]
        ports = self._ports([port] if port else ())
        times = self._number(port, ports[port]) if port else 1
        if times < 1 and times != -1:
            self._refuse(f"{port} is {times}; write how often, or -1 for ever")
        return model.Decorator(does=does, times=max(times, 0), child=self._only_child())

    def _parallel(self) -> model.Node:
        ports = bt.ALL_SUCCEED | self._ports((), bt.ALL_SUCCEED)
        children = self._children()
        wanted, most = (self._number(name, ports[name]) for name in bt.ALL_SUCCEED)
        if wanted not in (-1, len(children)) or most != 1:
            self._refuse(
                f"all have to succeed here, and one failure ends it; to go by most of them, use {bt.TO_THE_END}"
            )
        return model.Parallel(children=children)

    def _to_the_end(self) -> model.Node:
        ports = self._ports((), (bt.MOST_FAILURES, bt.SHARED))
        children = self._children()
        most, needed = self._number(bt.MOST_FAILURES, ports.get(bt.MOST_FAILURES, "1")), bt.most_failures(len(children))
        if most != needed:
            self._refuse(f"{bt.MOST_FAILURES} is {most}; most have to succeed: of {len(children)} write {needed}")
        return model.Parallel(children=children, policy="concurrent" if ports.get(bt.SHARED) in _TRUE else "majority")

    def _timeout(self) -> model.Node:
        msec = self._number(bt.MSEC, self._ports((bt.MSEC,))[bt.MSEC])
        if msec % 1000:
            self._refuse(f"{bt.MSEC} is {msec}; write whole seconds, such as 5000")
        child = self._only_child()
        children = child.children if isinstance(child, model.Sequence) and child.memory else (child,)
        return model.Within(seconds=msec // 1000, children=children)

    def _loop(self) -> model.Node:
        of = model.While if self._tag == bt.WHILE else model.RepeatUntil
        return of(condition=self._condition(self._ports(("condition",))), children=self._children())

    def _goal(self) -> model.Node:
        return model.Goal(text=self._ports(("goal",))["goal"])

    def _wait(self) -> model.Node:
        looks = self._tag == bt.HOLDS
        ports = self._ports(("condition",), () if looks else ("seconds",))
        seconds: Any = 0 if looks else ports.get("seconds")
        return model.WaitFor(condition=self._condition(ports), seconds=seconds)

    def _condition(self, ports: Mapping[str, str]) -> str:
        condition, skills = ports["condition"], [one for one in self._file.declared if one.name == WAIT]
        try:
            if skills and not has_role(condition):
                look_at(condition, skills)
        except ParameterError as error:
            self._refuse(str(error))
        return condition

    def _search(self) -> model.Node:
        ports = self._ports(("of", "finds"), ("order",), raw=("finds",))
        order = tuple(ports["order"].split(";")) if ports.get("order") else ()
        for place, name in (("of", ports["of"]), *(("order", one) for one in order)):
            self._check_names({place: Thing()}, {place: name})
        return model.Search(finds=self._found(), of=ports["of"], order=order)

    def _found(self) -> str:
        found = _POINTER.fullmatch(self._element.attributes["finds"])
        if found is None:
            self._refuse("finds needs a name in braces, such as {found}")
        name, names = found[1], self._scope.names
        if name in names and (names[name][1:-1] in self._file.roles or not _POINTER.fullmatch(names[name])):
            self._refuse(f"'{{{name}}}' stands for {names[name]} already; call what is found otherwise")
        called = names[name][1:-1] if name in names else self._file.fresh(self._scope.outs.get(name, name))
        names[name] = f"{{{called}}}"
        return called

    def _subtree(self) -> model.Node:
        given = {name: value for name, value in self._element.attributes.items() if name not in bt.LABELS}
        name = given.pop("ID", "")
        if name not in self._file.trees:
            self._refuse(f"there is no tree '{shortened_line(name, 60)}'; {did_you_mean(name, self._file.trees)}")
        if name in self._trees or len(self._trees) > model.DEEPEST:
            self._refuse(f"its trees stand in one another: {', '.join((*self._trees[-3:], name))}")
        scope = self._given(name, given)
        before = set(scope.names)
        node = self._file.only_child(self._file.trees[name], scope, (*self._trees, name), self._depth - 1)
        for found in set(scope.names) - before:
            if found in scope.outs:
                self._scope.names[scope.outs[found]] = scope.names[found]
        return node

    def _given(self, tree: str, given: dict[str, str]) -> Scope:
        same = given.pop(bt.AUTOREMAP, "false") in _TRUE
        if strange := [name for name in given if name[:1] == "_"]:
            self._refuse(f"'{strange[0]}' cannot be carried over")
        for port in self._file.ports(tree):
            name = port.attributes.get("name", "")
            if name not in given and not same and port.tag == "input_port" and "default" not in port.attributes:
                self._refuse(f"the port '{name}' is missing")
            if "default" in port.attributes:
                given.setdefault(name, port.attributes["default"])
        scope = Scope(dict(self._scope.names) if same else {})
        for name, value in given.items():
            outer = _POINTER.fullmatch(f"{{{name}}}" if value == "{=}" else value)
            if outer and outer[1] not in self._scope.names:
                scope.outs[name] = outer[1]
                scope.names.pop(name, None)
            else:
                scope.names[name] = self._meant(outer[0] if outer else bt.of_port(value))
        return scope

    def _skill(self) -> model.Node:
        wording = self._ports(("wording",), (bt.EXPECTED,))["wording"]
        begun = [one for one in self._file.declared if one.words.begins(wording)]
        if begun and not any(one.words.says(wording) for one in begun):
            self._refuse(f"{shortened_line(wording, 60)!r} is not said as '{begun[0].wording}'")
        begun = [one for one in begun if taken_apart(wording, one) is not None]
        for skill in sorted(begun, key=lambda one: one.words.letters_in(wording))[-1:]:
            self._check_names(skill.parameters, taken_apart(wording, skill) or {})
        return self._skill_node(wording)

    def _declared(self) -> model.Node:
        skill = self._file.skills[self._tag]
        ports = self._ports(skill.parameters, (bt.EXPECTED,))
        values = {name: ports[name] for name in skill.parameters}
        self._check_names(skill.parameters, values)
        try:
            return self._skill_node(say(skill, values))
        except ParameterError as error:
            self._refuse(str(error))

    def _check_names(self, places: Mapping[str, Parameter], values: Mapping[str, str]) -> None:
        for place, value in values.items():
            kind = places[place]
            try:
                if kind.named and not has_role(value):
                    for name in each_of(kind.read(value) if isinstance(kind, List) else value):
                        kind.named.check_known(name, self._file.names(kind.named))
            except ParameterError as error:
                self._refuse(f"{place}: {error}")

    def _skill_node(self, wording: str) -> model.Node:
        expected: Any = self._element.attributes.get(bt.EXPECTED, Outcome.DONE)
        return model.Skill(wording=wording, expected=expected)


#: What reads a node by its name: those with nodes in them, and those without, but the skills.
_INNER: Mapping[str, Callable[[_Reading], model.Node]] = {
    **dict.fromkeys(bt.TURNS, _Reading._turns),
    **dict.fromkeys(bt.DECORATORS, _Reading._decorator),
    bt.PARALLEL: _Reading._parallel,
    bt.TO_THE_END: _Reading._to_the_end,
    bt.TIMEOUT: _Reading._timeout,
    **dict.fromkeys((bt.REPEAT, bt.WHILE), _Reading._loop),
}
_LEAVES: Mapping[str, Callable[[_Reading], model.Node]] = {
    **dict.fromkeys(bt.ALWAYS, _Reading._always),
    bt.SUBTREE: _Reading._subtree,
    bt.AGENT: _Reading._goal,
    bt.SKILL: _Reading._skill,
    bt.SEARCH: _Reading._search,
    **dict.fromkeys((bt.WAIT, bt.HOLDS), _Reading._wait),
}
