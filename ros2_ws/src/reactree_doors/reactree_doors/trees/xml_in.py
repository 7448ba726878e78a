"""Reads XML of BehaviorTree.CPP, Nav2 and py_trees as a routine; what has no counterpart is an error with its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from string import Formatter
from typing import Any, NoReturn
from xml.sax.saxutils import unescape

from pydantic import ValidationError

from reactree_doors.trees import bt_nodes as bt
from reactree_doors.trees.bt_nodes import by_node_name
from reactree_ros.agent.observation import Outcome
from reactree_ros.agent.parameters import List, Names, Parameter, ParameterError, Thing, any_name, each_of
from reactree_ros.agent.skill import WAIT, look_at
from reactree_ros.agent.skill import Skill as Declared
from reactree_ros.agent.text import LONGEST_TEMPLATE, shortened_line
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import text_of
from reactree_ros.files.xml import LARGEST_XML, Element, NoXml, parse_xml
from reactree_ros.plugins.settings import did_you_mean, fault_of, or_nearest
from reactree_ros.routine import model
from reactree_ros.routine.model import has_role, say, taken_apart
from reactree_ros.routine.script import ScriptError, renamed, script_of


class Scope:
    """What the names of one tree stand for, as texts with the routine's own names in braces.

    Args:
        outer: The scope that has what this one has not; None: then a name is an entry of its own.
        root: The scope of the main tree; None: this is it.
    """

    def __init__(self, outer: Scope | None = None, root: Scope | None = None) -> None:
        self.names: dict[str, str] = {}
        self.outer, self.root = outer, root or self


class Unset(model.RoutineError):
    """An entry is read that nothing sets."""


_ROLE = re.compile(r"[a-z][a-z0-9_]{0,39}")
_POINTER = re.compile(r"\{([^{}]+)\}")
_NUMERAL = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
#: An ampersand that begins no entity, as in the scripts of BehaviorTree.CPP, whose reader takes it for itself.
_BARE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});)")
_TREE = re.compile(r"<BehaviorTree\s[^<>]{0,2000}?\bID=\"([^<>\"]{1,200})\"")
_TRUE = ("true", "True", "TRUE", "1")
_KIND_OF = {other: kind for kind, others in bt.TYPES.items() for other in others}
_ROLES = ("thing", "place", "room", "person", "number", "text")
#: The most files that one names, and the most names in it for what it sets, finds and is given.
MOST_FILES, MOST_ENTRIES = 100, 1000


def read_routine(
    path: Path,
    skills: Iterable[Declared] = (),
    *,
    goal: str | None = "",
    names: Names = any_name,
    missing: dict[str, str] | None = None,
) -> model.Routine:
    """Read a file of XML; see :func:`routine_of_xml`. Trees of other files come from its own folder alone."""
    root = _parsed(text_of(path, most=LARGEST_XML), str(path))
    return _File(root, tuple(skills), names, str(path), path.parent, missing).routine(goal)


def read_routines(path: Path, skills: Iterable[Declared] = (), names: Names = any_name) -> list[model.Routine]:
    """Read a file of XML, or each ``.xml`` of a folder in order of their names; see :func:`routine_of_xml`."""
    files = sorted(path.glob("*.xml")) if path.is_dir() else [path]
    if not files:
        raise model.RoutineError(f"{path}: there is no .xml in this folder")
    return [read_routine(file, skills, names=names) for file in files]


def routine_of_xml(
    text: str,
    skills: Iterable[Declared] = (),
    *,
    goal: str | None = "",
    where: str = "routine",
    names: Names = any_name,
) -> model.Routine:
    """Read XML as a routine. Its roles are what the goal names, and the input ports of the main tree.

    Comments and descriptions are not kept. Raises RoutineError: it is no such XML, or a node has no counterpart; the
    message names node and line.

    Args:
        skills: The declared skills of the world, which are the actions.
        goal: What the routine is for, with each of its roles in braces; empty: as the tree says with ``_goal``; None:
            that, or to do it with what nothing in the tree sets.
        where: Where the text is from, for errors.
        names: Says which names can ever stand in a place of a skill.
    """
    return _File(_parsed(text, where), tuple(skills), names, where).routine(goal)


def _parsed(text: str, where: str) -> Element:
    try:
        return parse_xml(_BARE.sub("&amp;", text))
    except NoXml as error:
        raise model.RoutineError(f"{where}:{error.line}: is not XML: {error}") from None


class _File:
    def __init__(
        self,
        root: Element,
        declared: Collection[Declared],
        names: Names,
        where: str,
        folder: Path | None = None,
        missing: dict[str, str] | None = None,
    ) -> None:
        # takes the nodes that are no skill yet, with file and line, instead of an error
        self.missing = missing
        self.declared, self.names, self.where = declared, names, where
        self.skills = by_node_name(declared)
        self.trees: dict[str, Element] = {}
        self.models: dict[str, tuple[Element, ...]] = {}
        self.roles: dict[str, str] = {}  # the kind of each; empty: it is not known yet
        self.found = set[str]()  # the names of what searches find
        self.set_here, self._names = set[str](), set[str]()
        self._read: dict[str, tuple[str, Element]] = {}  # what is read, with its name there, and where first
        self._count = 0  # of nodes
        self._skips: dict[int, bool] = {}  # elements by identity
        self._root, self._folder, self._files = root, folder, [Path(where).resolve()]
        self._elsewhere: dict[int, tuple[Element, str]] = {}  # the elements of other files, by identity
        self.version = root.attributes.get("BTCPP_format", "3")
        self._sort(root, folder)

    def refuse(self, element: Element, reason: str, of: type[model.RoutineError] = model.RoutineError) -> NoReturn:
        name = element.attributes.get("name") or element.attributes.get("ID")
        called = f"<{element.tag}{f' {shortened_line(name, 40)!r}' if name else ''}>"
        raise of(shortened_line(f"{self.place(element)}: {called}: {reason}", 600))

    def place(self, element: Element) -> str:
        where = self._elsewhere.get(id(element), (element, self.where))[1]
        return f"{where}:{element.line}"

    def routine(self, goal: str | None) -> model.Routine:
        tree, scope = self._main(), Scope()
        own = {"ID": "tree", **tree.attributes}
        said = goal or own.get(bt.GOAL, "")
        if not said and goal is not None:
            self.refuse(
                tree, f'say what it is for, with its roles, as {bt.GOAL}="bring me the {{thing}}" or with --goal'
            )
        self._find_roles(own["ID"], said)
        scope.names = {name: f"{{{name}}}" for name in self.roles}
        for name, value in self.defaults(own["ID"], tree).items():
            if name not in self.roles and value != f"{{{name}}}":
                scope.names[name] = self.given(value, scope, tree)
        labels = self.labels(tree, {bt.GOAL, bt.NAME})
        body = self.only_child(tree, scope, (own["ID"],))
        for name in [name for name in self._read if name not in (self.roles.keys() | self.set_here | self.found)]:
            called, element = self._read[name]
            if goal is not None or f"{{{name}}}" not in scope.names.values():
                self.refuse(
                    element,
                    f"'{{{called}}}' is no role, and nothing sets it or finds it; a role stands in the goal, or is an "
                    f'input_port of <SubTree ID="{own["ID"]}"> in the TreeNodesModel',
                    Unset,
                )
            self.roles[name] = ""
        roles = [{"name": name, "kind": kind or "text"} for name, kind in self.roles.items()]
        said = said or " and ".join(["do it", *(f"{{{name}}}" for name in self.roles)])
        name = own.get(bt.NAME) or re.sub(r"[^\w .-]", "_", own["ID"])[:80].lstrip(" .-") or "tree"
        whole = {"name": name, "goal": said, "roles": roles, "body": body, "labels": labels}
        return model.Routine.from_data(whole, where=self.where)

    def _find_roles(self, tree: str, goal: str) -> None:
        named = list[str]()
        with suppress(ValueError):  # which the routine will say
            named += [name for _, name, _, _ in Formatter().parse(goal) if name]
        for port in self.ports(tree):
            name = port.attributes.get("name", "")
            if name in named or (port.tag == "input_port" and "default" not in port.attributes):
                self.roles[name] = self._role(port)
        self.roles |= {name: "" for name in named if name not in self.roles}
        self._names = {*self.roles}

    def _role(self, port: Element) -> str:
        name, kind = port.attributes.get("name", ""), port.attributes.get("type", "")
        if not _ROLE.fullmatch(name):
            self.refuse(port, "call a role in small letters, digits and _, such as 'thing'")
        if (known := "text" if "::" in kind else _KIND_OF.get(kind, kind)) not in _ROLES:
            self.refuse(port, f"a role of type '{kind}' is not known; {did_you_mean(kind, _ROLES)}")
        return known

    def ports(self, tree: str) -> list[Element]:
        return [one for one in self.models.get(tree, ()) if one.tag.endswith("_port")]

    def defaults(self, tree: str, element: Element) -> dict[str, str]:
        """Return what a tree's or a node's ports hold that are not given: as the model says, or the tree itself."""
        said = {port.attributes.get("name", ""): port.attributes.get("default") for port in self.ports(tree)}
        own = element.attributes.items() if element.tag == "BehaviorTree" else ()
        return {name: value for name, value in said.items() if value is not None} | {
            name: value for name, value in own if name not in ("ID", "name") and name[:1] != "_"
        }

    def labels(self, element: Element, special: Collection[str]) -> dict[str, str]:
        labels = {name: text for name, text in element.attributes.items() if name == "name" or name[:1] == "_"}
        for name in [name for name in labels if name != "name"][: model.MOST_LABELS]:
            if (meant := bt.meant(name)) and (name != meant or meant not in special):
                hint = "cannot stand here" if name == meant else f"says nothing; did you mean '{meant}'?"
                self.refuse(element, f"'{name}' {hint}")
        return {name: text for name, text in labels.items() if name not in special}

    # ------------------------------------------------------------------ names

    def meant(self, name: str, scope: Scope) -> str:
        """Return what a name stands for; one that is new becomes an entry of the blackboard."""
        if name[:1] == "@":
            return self.meant(name[1:], scope.root)
        if name not in scope.names:
            if scope.outer is not None:
                return self.meant(name, scope.outer)
            scope.names[name] = f"{{{self._fresh(name)}}}"
        return scope.names[name]

    def read(self, name: str, scope: Scope, element: Element) -> str:
        meant = self.meant(name, scope)
        if _POINTER.fullmatch(meant):
            self._read.setdefault(meant[1:-1], (name, element))
        return meant

    def written(self, name: str, scope: Scope, element: Element) -> str:
        """Return the entry that a name stands for, which is set."""
        meant = self.meant(name, scope)
        if not _POINTER.fullmatch(meant) or meant[1:-1] in self.roles:
            self.refuse(element, f"'{{{name}}}' stands for {meant} already, and cannot be set")
        self.set_here.add(meant[1:-1])
        return meant[1:-1]

    def given(self, value: str, scope: Scope, element: Element) -> str:
        """Return what a port stands for that has a value: an entry, or a text with what is in its braces."""
        if pointer := _POINTER.fullmatch(value):
            return self.meant(pointer[1], scope)
        return self.filled(bt.of_port(value), scope, element)

    def filled(self, text: str, scope: Scope, element: Element) -> str:
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            self.refuse(element, f"{shortened_line(text, 60)!r}: {error}; a brace that is none of a role is doubled")
        meant = ""
        for literal, name, spec, conversion in parts:
            meant += literal.replace("{", "{{").replace("}", "}}")
            if name is not None and (not name or spec or conversion):
                self.refuse(element, f"{shortened_line(text, 60)!r}: a brace that is none of a role is doubled")
            meant += "" if name is None else self.read(name, scope, element)
            if len(meant) > LONGEST_TEMPLATE:  # also of ports that have each other twice, tree by tree
                self.refuse(element, f"{shortened_line(text, 60)!r} comes to more than {LONGEST_TEMPLATE} characters")
        return meant

    def _fresh(self, name: str) -> str:
        if len(self._names) > MOST_ENTRIES:
            self.refuse(self._root, f"it has more than {MOST_ENTRIES:,} names for what it sets and is given")
        plain = re.sub(r"[^a-z0-9_]", "_", name[:80].lower()).lstrip("_0123456789")[:40] or "entry"
        number, fresh = 1, plain
        while fresh in self._names:
            number += 1
            fresh = f"{plain[:35]}_{number}"
        self._names.add(fresh)
        return fresh

    # ------------------------------------------------------------------ trees, and those of other files

    def _sort(self, root: Element, folder: Path | None, *, known: bool = True) -> None:
        if root.tag != "root":
            self.refuse(root, "the first element of a file of BehaviorTree.CPP is <root>")
        if (version := root.attributes.get("BTCPP_format", "3")) not in ("3", "4"):
            self.refuse(root, f"there is no version '{shortened_line(version, 20)}'; 3 and 4 are read")
        for child in root.children:
            if child.tag == "BehaviorTree":
                self._add_tree(child, known=known)
            elif child.tag == "TreeNodesModel":
                for one in child.children:
                    self.models.setdefault(one.attributes.get("ID", ""), one.children)
            elif child.tag.lower() in ("include", "import"):
                self._include(child, folder)
            else:
                self.refuse(child, "only BehaviorTree, TreeNodesModel and include stand here")

    def _add_tree(self, tree: Element, *, known: bool) -> None:
        name = tree.attributes.get("ID", "")
        if name in self.trees and known:
            self.refuse(tree, f"this ID is that of line {self.trees[name].line}, too")
        self.trees.setdefault(name, tree)

    def _include(self, element: Element, folder: Path | None) -> None:
        named = next((element.attributes[one] for one in ("path", "src", "file") if one in element.attributes), "")
        if folder is None or self._folder is None or not named or "ros_pkg" in element.attributes:
            self.refuse(element, "it has to name a file below its own folder, as path")
        try:
            file = (folder / named).resolve()
        except (OSError, ValueError) as error:
            self.refuse(element, f"{shortened_line(named, 60)!r} cannot be read: {error}")
        if not self._is_below(file):
            self.refuse(element, f"{shortened_line(named, 60)!r} is not below the folder of {self.where}")
        if len(self._files) > MOST_FILES:
            self.refuse(element, f"a file has at most {MOST_FILES} others in it")
        if file not in self._files:
            try:
                self._add_file(file, text_of(file, most=LARGEST_XML))
            except model.RoutineError:
                raise
            except UserError as error:
                self.refuse(element, str(error))

    def _add_file(self, file: Path, text: str, *, known: bool = True) -> None:
        self._files.append(file)
        root = _parsed(text, str(file))
        self._elsewhere |= {id(one): (one, str(file)) for one in (root, *_below(root))}
        self._sort(root, file.parent, known=known)

    def tree(self, name: str) -> Element | None:
        """Return a tree of this file, of one that it includes, or of one beside it; None if none has it."""
        if name not in self.trees and name in self._beside:
            self._add_file(*self._beside[name], known=False)
        return self.trees.get(name)

    @cached_property
    def _beside(self) -> dict[str, tuple[Path, str]]:
        found, left = dict[str, tuple[Path, str]](), LARGEST_XML
        for file in [one.resolve() for one in sorted(self._folder.glob("*.xml"))] if self._folder else ():
            with suppress(UserError):  # what is no text has no tree
                text = text_of(file, most=left) if self._is_below(file) and file not in self._files else ""
                left -= len(text)
                for name in _TREE.findall(text):
                    found.setdefault(unescape(name, {"&quot;": '"'}), (file, text))
        return found

    def _is_below(self, file: Path) -> bool:
        return self._folder is not None and file.is_relative_to(self._folder.resolve())

    def _main(self) -> Element:
        named = self._root.attributes.get("main_tree_to_execute", "")
        if named in self.trees:
            return self.trees[named]
        if named or not self.trees:
            self.refuse(self._root, f"there is no tree '{named}'{or_nearest(named, self.trees)}")
        own = {tree.attributes.get("ID", ""): tree for tree in self._root.named("BehaviorTree")}
        used = {one.attributes.get("ID") for tree in own.values() for one in _below(tree) if one.tag in bt.SUBTREES}
        first = [tree for name, tree in own.items() if name not in used]
        if len(first) != 1:
            self.refuse(self._root, f"say which tree it is: main_tree_to_execute is one of {', '.join(self.trees)}")
        return first[0]

    def node(self, element: Element, scope: Scope, trees: tuple[str, ...], depth: int, *, goes_on: bool) -> model.Node:
        tag = element.attributes.get("ID", "") if element.tag in bt.KINDS else element.tag
        tag = tag if self.version == "4" else bt.OLD.get(tag.lower(), tag)
        self._count += tag != bt.SUBTREE
        if self._count > model.MOST_NODES or depth > model.DEEPEST:
            self.refuse(element, f"a routine has at most {model.MOST_NODES} nodes, {model.DEEPEST} in one another")
        try:
            return _Reading(self, element, tag, scope, trees, depth, goes_on).node()
        except ValidationError as error:
            fault = fault_of(error, model.Routine)
            at = ".".join(map(str, fault.path))
            self.refuse(element, f"{at and f'{at}: '}{fault.said}")

    def only_child(
        self, element: Element, scope: Scope, trees: tuple[str, ...], depth: int = 0, *, goes_on: bool = True
    ) -> model.Node:
        if len(element.children) != 1:
            self.refuse(element, f"it has {len(element.children)} nodes in it; put just one there")
        return self.node(element.children[0], scope, trees, depth + 1, goes_on=goes_on)

    def skips(self, element: Element) -> bool:
        """Return whether all of a node may be skipped."""
        if id(element) not in self._skips:
            self._skips[id(element)] = False  # also for what stands in itself
            given = element.attributes
            tree = self.trees.get(given.get("ID", "")) if element.tag in bt.SUBTREES else None
            below = element.children if tree is None else tree.children
            alone = not {"_skipIf", "_while"}.isdisjoint(given) or given.get("else") == "SKIPPED"
            self._skips[id(element)] = alone or (bool(below) and all(map(self.skips, below)))
        return self._skips[id(element)]


def _below(element: Element) -> Iterator[Element]:
    for child in element.children:
        yield child
        yield from _below(child)


def _quoted(text: str) -> str:
    return f'"{text}"' if "'" in text else f"'{text}'"


@dataclass
class _Reading:
    _file: _File
    _element: Element
    _tag: str  # its name in the file
    _scope: Scope
    _trees: tuple[str, ...]  # the trees that it is in, from the main one
    _depth: int
    _goes_on: bool  # whether what it is in goes on after a success, as a sequence does, or after a failure

    def node(self) -> model.Node:
        tag, read = self._tag, _READ.get(self._tag)
        if tag in bt.WITHOUT:
            self._refuse(bt.WITHOUT[tag])
        special = {*bt.GUARDS, *bt.AFTER, *bt.SPECIAL_OF.get(tag, ())}
        if read is None:
            declared = tag.replace(" ", "_") in self._file.skills
            read = _Reading._declared if declared else _Reading._undeclared
            special |= {bt.EXPECTED}
        labels = self._file.labels(self._element, special)
        if self._element.children and read not in (*_INNER, _Reading._undeclared):
            self._refuse("nothing may stand in it")
        if bt.SKIPPED_AS.get(tag, self._goes_on) != self._goes_on and all(
            map(self._file.skips, self._element.children)
        ):
            self._refuse("all that is in it may be skipped, and what it is in would take that for its end")
        made = read(self)
        if labels and tag != bt.SUBTREE:
            made = made.model_copy(update={"labels": labels})
        return self._with_scripts(made)

    def _with_scripts(self, made: model.Node) -> model.Node:
        code = {one: self._script(text, one) for one, text in self._element.attributes.items() if one in bt.SCRIPTED}
        skips, then = not {"_skipIf", "_while"}.isdisjoint(code), [one for one in bt.AFTER if one in code]
        if skips and then:
            self._refuse(f"{then[0]} is not for what may be skipped; put a sequence with that around it")
        if "_while" in code:
            holds = self._check(code["_while"], is_so=self._goes_on is False)
            made = (model.Fallback if self._goes_on else model.Sequence)(children=(holds, made), memory=False)
        if "_skipIf" in code:
            made = self._unless(code["_skipIf"], made, ends=self._goes_on)
        if "_successIf" in code:
            made = self._unless(code["_successIf"], made, ends=True)
        if "_failureIf" in code:
            made = self._unless(code["_failureIf"], made, ends=False)
        succeeded, failed = (
            tuple(model.Script(code=code[one]) for one in (name, "_post") if one in code)
            for name in ("_onSuccess", "_onFailure")
        )
        if failed:
            failure = model.Sequence(children=(*failed, model.Always(succeeds=False)))
            made = model.Fallback(children=(model.Sequence(children=(made, *succeeded)), failure))
        return model.Sequence(children=(made, *succeeded)) if succeeded and not failed else made

    def _unless(self, code: str, made: model.Node, *, ends: bool) -> model.Node:
        """Return a node that ends so at once, and not as it would, if a script holds."""
        look = self._check(code, is_so=ends)
        return (model.Fallback if ends else model.Sequence)(children=(look, made))

    def _check(self, code: str, *, is_so: bool = True) -> model.Script:
        return model.Script(code=code if is_so else f"!({code})", checks=True)

    def _refuse(self, reason: str) -> NoReturn:
        self._file.refuse(self._element, reason)

    # ------------------------------------------------------------------ what is in it

    def _children(self) -> tuple[model.Node, ...]:
        below = self._element.children
        if not below:
            self._refuse("there is nothing in it")
        file, on = self._file, self._child_goes_on
        return tuple(file.node(child, self._scope, self._trees, self._depth + 1, goes_on=on) for child in below)

    def _only_child(self) -> model.Node:
        on = self._child_goes_on
        return self._file.only_child(self._element, self._scope, self._trees, self._depth, goes_on=on)

    @property
    def _child_goes_on(self) -> bool:
        return not self._goes_on if self._tag == "Inverter" else bt.SKIPPED_AS.get(self._tag, self._goes_on)

    def _unskipped(self, *elements: Element) -> None:
        if any(map(self._file.skips, elements)):
            self._refuse("what is in it may be skipped, and then nothing says how it ends")

    def _ports(self, needed: Iterable[str], more: Iterable[str] = (), raw: Iterable[str] = ()) -> dict[str, str]:
        needed, more, given = list(needed), list(more), dict[str, str]()
        for written, value in self._given().items():
            old = self._file.version != "4" and written not in (*needed, *more)
            name = bt.OLD.get(written, written) if old else written
            if name not in (*needed, *more):
                has = did_you_mean(name, [*needed, *more]) if needed or more else "it has none"
                self._refuse(f"there is no port '{name}'; {has}")
            given[name] = value if name in raw else self._meant(bt.of_port(value))
        if missing := [name for name in needed if name not in given]:
            self._refuse(f"the port '{missing[0]}' is missing")
        return given

    def _given(self) -> dict[str, str]:
        is_long = self._element.tag in (*bt.KINDS, *bt.SUBTREES)
        others = ("name", "ID") if is_long else ("name",)
        given = self._element.attributes.items()
        return {name: value for name, value in given if name[:1] != "_" and name not in others}

    def _meant(self, text: str) -> str:
        return self._file.filled(text, self._scope, self._element)

    def _number(self, port: str, value: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,9}", value):
            self._refuse(f"{port} is '{shortened_line(value, 40)}'; write a whole number")
        return int(value)

    def _script(self, code: str, port: str) -> str:
        try:
            for name in script_of(code).writes:
                self._file.written(name, self._scope, self._element)
            said = renamed(code, self._in_script)
            script_of(said)
        except ScriptError as error:
            self._refuse(f"{port} {shortened_line(code, 60)!r}: {error}")
        return said

    def _in_script(self, name: str) -> str:
        return self._literal(self._file.read(name, self._scope, self._element))

    def _literal(self, text: str) -> str:
        if _POINTER.fullmatch(text):
            return text[1:-1]
        if has_role(text) or ("'" in text and '"' in text):
            self._refuse(f"{shortened_line(text, 60)!r} cannot stand in a script")
        text = text.format()
        return f"({text})" if _NUMERAL.fullmatch(text) else _quoted(text)

    def _fresh(self, name: str) -> str:
        scope = Scope()  # of its own, so that it is no other entry
        return self._file.written(name, scope, self._element)

    # ------------------------------------------------------------------ by its name

    def _turns(self) -> model.Node:
        of, memory = bt.TURNS[self._tag]
        ports = self._ports((), () if self._file.version == "4" else ("memory",))
        return of(children=self._children(), memory=memory and ports.get("memory", "true").lower() == "true")

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

    def _for_ever(self) -> model.Node:
        self._ports(())
        self._unskipped(*self._element.children)
        return model.Decorator(does="repeat", times=0, child=self._only_child())

    def _as_its_child(self) -> model.Node:
        self._ports((), ("hz",))
        return self._only_child()

    def _parallel(self) -> model.Node:
        ports = bt.ALL_SUCCEED | self._ports((), (*bt.ALL_SUCCEED, *(("policy",) if self._file.version != "4" else ())))
        children = self._children()
        wanted, most = (self._number(name, ports[name]) for name in bt.ALL_SUCCEED)
        of_py_trees = ports.get("policy", "success_on_all") == "success_on_all"
        if wanted not in (-1, len(children)) or most not in (1, -len(children)) or not of_py_trees:
            self._refuse(
                f"all have to succeed here, and one failure ends it; to go by most of them, use {bt.TO_THE_END}"
            )
        return model.Parallel(children=children)

    def _to_the_end(self) -> model.Node:
        ports = self._ports((), (bt.MOST_FAILURES,))
        children = self._children()
        most, needed = self._number(bt.MOST_FAILURES, ports.get(bt.MOST_FAILURES, "1")), bt.most_failures(len(children))
        if most != needed:
            self._refuse(f"{bt.MOST_FAILURES} is {most}; most have to succeed: of {len(children)} write {needed}")
        shared = self._element.attributes.get(bt.SHARED) in _TRUE
        return model.Parallel(children=children, policy="concurrent" if shared else "majority")

    def _timeout(self) -> model.Node:
        of_py_trees = self._file.version != "4" and "duration" in self._element.attributes
        port = "duration" if of_py_trees else bt.MSEC
        value = self._ports((port,))[port]
        msec = 1000 * self._number(port, value.removesuffix(".0")) if of_py_trees else self._number(port, value)
        if msec % 1000:
            self._refuse(f"{bt.MSEC} is {msec}; write whole seconds, such as 5000")
        child = self._only_child()
        in_turn = isinstance(child, model.Sequence) and child.memory and not child.labels
        return model.Within(seconds=msec // 1000, children=child.children if in_turn else (child,))  # type: ignore[union-attr]

    def _pause(self) -> model.Node:
        port = bt.PAUSES[self._tag]
        return model.Pause(milliseconds=self._number(port, self._ports((port,))[port]))

    def _delay(self) -> model.Node:
        self._unskipped(*self._element.children)
        return model.Sequence(children=(self._pause(), self._only_child()))

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

    # ------------------------------------------------------------------ scripts, and what chooses by them

    def _code(self) -> model.Node:
        code = self._script(self._ports(("code",), raw=("code",))["code"], "code")
        return model.Script(code=code, checks=self._tag == bt.CHECK)

    def _sets(self) -> model.Node:
        ports = self._ports(("output_key", "value"), raw=("output_key", "value"))
        key = _POINTER.fullmatch(ports["output_key"])
        name = self._file.written(key[1] if key else ports["output_key"], self._scope, self._element)
        pointer = _POINTER.fullmatch(ports["value"])
        text = self._meant(bt.of_port(ports["value"]))
        # a constant is a text, also if it is a numeral: it takes the type of what was there
        value = _quoted(text) if pointer is None and not has_role(text) else self._literal(text)
        return model.Script(code=f"{name} := {value}")

    def _precondition(self) -> model.Node:
        ports = self._ports(("if",), ("else",), raw=("if", "else"))
        return self._unless(f"!({self._script(ports['if'], 'if')})", self._only_child(), ends=self._end(ports, "else"))

    def _end(self, ports: Mapping[str, str], port: str) -> bool:
        end = ports.get(port, "SUCCESS" if port == "if_empty" else "FAILURE")
        if end not in bt.ENDS:
            self._refuse(f"{port} is '{shortened_line(end, 40)}'; {did_you_mean(end, bt.ENDS)}")
        return self._goes_on if end == "SKIPPED" else end == "SUCCESS"

    def _compared(self) -> model.Node:
        ports = self._ports(("value_A", "value_B"), ("return_on_mismatch",))
        ends, same = (
            self._end(ports, "return_on_mismatch"),
            " == ".join(map(self._literal, (ports["value_A"], ports["value_B"]))),
        )
        of = model.Fallback if ends else model.Sequence
        return of(children=(self._check(same, is_so=not ends), self._only_child()), memory=False)

    def _branches(self) -> model.Node:
        self._ports(())
        self._unskipped(*self._element.children[:1])
        condition, *branches = self._children()
        if len(branches) not in (1, 2):
            self._refuse(f"it has {len(branches) + 1} nodes in it; put a condition, what is done then, and what else")
        if self._tag == bt.WATCHED:
            if len(branches) == 2:
                self._refuse(f"what runs would be broken off for the other; use {bt.BRANCHES}, or leave the third out")
            return model.Sequence(children=(condition, branches[0]), memory=False)
        held = self._fresh("held")
        looked = model.Sequence(children=(condition, model.Script(code=f"{held} := true")))
        looks = model.Fallback(children=(looked, model.Script(code=f"{held} := false")))
        second = branches[1] if len(branches) == 2 else model.Always(succeeds=False)
        first, other = self._unless(f"!{held}", branches[0], ends=True), self._unless(held, second, ends=True)
        return model.Sequence(children=(looks, first, other))

    def _switch(self) -> model.Node:
        cases = [f"case_{number}" for number in range(1, int(self._tag[-1]) + 1)]
        ports, children = self._ports(("variable", *cases)), self._children()
        if len(children) != len(cases) + 1:
            self._refuse(f"it has {len(children)} nodes in it; put one for each case, and one for any other")
        value, is_it = self._fresh("value"), list[str]()
        made: list[model.Node] = [model.Script(code=f"{value} := {self._literal(ports['variable'])} .. ''")]
        for case, child in zip(cases, children, strict=False):
            same = f"{value} == {self._literal(ports[case])} .. ''"
            made.append(self._unless(" || ".join((*is_it, f"!({same})")), child, ends=True))
            is_it.append(f"{same}")
        return model.Sequence(children=(*made, self._unless(" || ".join(is_it), children[-1], ends=True)))

    def _tries(self) -> model.Node:
        if self._ports((), ("catch_on_halt",)).get("catch_on_halt", "false") in _TRUE:
            self._refuse("nothing is done here once it is broken off; leave catch_on_halt out")
        self._unskipped(*self._element.children)
        *tried, last = self._children()
        if not tried:
            self._refuse("it has 1 node in it; put what is tried there, and what is done if that fails")
        caught = model.Decorator(does="fail", child=last)
        return model.Fallback(children=(model.Sequence(children=tuple(tried)), caught))

    def _recovers(self) -> model.Node:
        port = "number_of_retries"
        most = self._number(port, self._ports((), (port,)).get(port, "1"))
        self._unskipped(*self._element.children)
        children = self._children()
        if len(children) != 2 or most < 0:
            self._refuse("put two nodes there: what is done, and what is done before it is tried again")
        tries, over = self._fresh("tries"), self._fresh("over")
        again = (self._check(f"{tries} < {most}"), children[1], model.Script(code=f"{tries} += 1"))
        counted = model.Fallback(children=(model.Sequence(children=again), model.Script(code=f"{over} := true")))
        once = model.Fallback(children=(children[0], model.Decorator(does="fail", child=counted)))
        tried = model.Decorator(does="retry", times=most + 1, child=self._unless(over, once, ends=False))
        return model.Sequence(children=(model.Script(code=f"{tries} := 0; {over} := false"), tried))

    def _for_each(self) -> model.Node:
        ports = self._ports(("queue", "value"), ("if_empty",), raw=("queue", "value", "if_empty"))
        pointer = _POINTER.fullmatch(ports["value"])
        if _POINTER.fullmatch(ports["queue"]) or pointer is None:
            self._refuse('only values that stand here are gone through, such as queue="1;2;3" value="{one}"')
        name, made = self._file.written(pointer[1], self._scope, self._element), list[model.Node]()
        for value in filter(None, ports["queue"].split(";")):
            made += [model.Script(code=f"{name} := {self._literal(self._meant(value.strip()))}"), self._only_child()]
        last = model.Always(succeeds=self._end(ports, "if_empty"))
        return model.Sequence(children=(*made, last))

    # ------------------------------------------------------------------ searches, subtrees and skills

    def _search(self) -> model.Node:
        ports = self._ports(("of", "finds"), ("order",), raw=("finds",))
        order = tuple(ports["order"].split(";")) if ports.get("order") else ()
        for place, name in (("of", ports["of"]), *(("order", one) for one in order)):
            self._check_names({place: Thing()}, {place: name})
        return model.Search(finds=self._finds(), of=ports["of"], order=order)

    def _finds(self) -> str:
        found = _POINTER.fullmatch(self._element.attributes["finds"])
        if found is None:
            self._refuse("finds needs a name in braces, such as {found}")
        meant = self._file.meant(found[1], self._scope)
        if not _POINTER.fullmatch(meant) or meant[1:-1] in self._file.roles:
            self._refuse(f"'{{{found[1]}}}' stands for {meant} already; call what is found otherwise")
        self._file.found.add(meant[1:-1])
        return meant[1:-1]

    def _subtree(self) -> model.Node:
        given, told = self._given(), self._element.attributes
        name = told.get("ID", "")
        if (tree := self._file.tree(name)) is None:
            if name.replace(" ", "_") in self._file.skills:
                return self._declared()
            return self._undeclared()
        if name in self._trees or len(self._trees) > model.DEEPEST:
            self._refuse(f"its trees stand in one another: {', '.join((*self._trees[-3:], name))}")
        same = any(told.get(one, "false") in _TRUE for one in bt.SAME_NAMES)
        scope = Scope(self._scope if same else None, self._scope.root)
        for port in self._file.ports(name):
            called = port.attributes.get("name", "")
            if called not in given and not same and port.tag == "input_port" and "default" not in port.attributes:
                self._refuse(f"the port '{called}' is missing")
        in_words = self._file.version != "4" and self._element.tag == bt.SUBTREE  # a name without braces
        for called, value in (({} if same else self._file.defaults(name, tree)) | given).items():
            meant = f"{{{value}}}" if in_words and called in given and value[:1] != "{" else value
            meant = f"{{{called}}}" if value == "{=}" else meant
            scope.names[called] = self._file.given(meant, self._scope, self._element)
        on = self._goes_on
        return self._file.only_child(tree, scope, (*self._trees, name), self._depth - 1, goes_on=on)

    def _skill(self) -> model.Node:
        returns = {name: value for name, value in self._given().items() if name != "wording"}
        wording = self._ports(("wording",), returns, raw=returns)["wording"]
        begun = [one for one in self._file.declared if one.words.begins(wording)]
        if begun and not any(one.words.says(wording) for one in begun):
            self._refuse(f"{shortened_line(wording, 60)!r} is not said as '{begun[0].wording}'")
        begun = [one for one in begun if taken_apart(wording, one) is not None]
        for skill in sorted(begun, key=lambda one: one.words.letters_in(wording))[-1:]:
            self._check_names(skill.parameters, taken_apart(wording, skill) or {})
            if strange := [name for name in returns if name not in skill.returns]:
                self._refuse(
                    f"there is no port '{strange[0]}'; {did_you_mean(strange[0], ['wording', *skill.returns])}"
                )
        return self._skill_node(wording, returns)

    def _declared(self) -> model.Node:
        name = self._element.attributes.get("ID", "") if self._tag == bt.SUBTREE else self._tag
        skill = self._file.skills[name.replace(" ", "_")]
        usual = {name: one.write(one.default) for name, one in skill.parameters.items() if one.default is not None}
        said = self._file.defaults(name, self._element)
        usual |= {name: self._meant(value) for name, value in said.items() if name in skill.parameters}
        needed = [name for name in skill.parameters if name not in usual]
        only = [name for name in skill.returns if name not in skill.parameters]
        ports = usual | self._ports(needed, (*skill.parameters, *only), raw=only)
        values = {name: ports[name] for name in skill.parameters}
        self._check_names(skill.parameters, values)
        given = self._given().items()
        both = {name for name, value in given if name in skill.parameters and not _POINTER.fullmatch(value)}
        returns = {name: value for name, value in given if name in skill.returns and name not in both}
        try:
            return self._skill_node(say(skill, values), returns)
        except ParameterError as error:
            self._refuse(str(error))

    def _undeclared(self) -> model.Node:
        is_tree, known = self._tag == bt.SUBTREE, [*self._file.skills]
        name = self._element.attributes.get("ID", "") if is_tree else self._tag
        if self._element.children or self._file.missing is None:
            what = (
                "there is no tree '{}', here or in a file beside it" if is_tree else "'{}' is no node and no skill here"
            )
            hint = did_you_mean(name, [*(self._file.trees if is_tree else _READ), *known])
            self._refuse(f"{what.format(shortened_line(name, 60))}; {hint}")
        self._file.missing.setdefault(name, self._file.place(self._element))
        returns = dict[str, str]()
        for port, value in self._given().items():  # it may return what stands there
            meant = self._file.meant(value[1:-1], self._scope) if _POINTER.fullmatch(value) else ""
            if _POINTER.fullmatch(meant) and meant[1:-1] not in self._file.roles:
                returns[port] = self._file.written(value[1:-1], self._scope, self._element)
        return model.Skill(wording=re.sub("[{}]", "", name)[:100] or "nothing", returns=returns)

    def _check_names(self, places: Mapping[str, Parameter], values: Mapping[str, str]) -> None:
        for place, value in values.items():
            kind, role = places[place], value[1:-1]
            if _POINTER.fullmatch(value) and self._file.roles.get(role) == "":
                named = kind.named
                self._file.roles[role] = type(named).__name__.lower() if named else bt.kind_of(kind)
            try:
                if kind.named and not has_role(value):
                    for name in each_of(kind.read(value) if isinstance(kind, List) else value):
                        kind.named.check_known(name, self._file.names(kind.named))
            except ParameterError as error:
                self._refuse(f"{place}: {error}")

    def _skill_node(self, wording: str, returns: Mapping[str, str]) -> model.Node:
        expected: Any = self._element.attributes.get(bt.EXPECTED, Outcome.DONE)
        entries = dict[str, str]()
        for name, value in returns.items():
            if (pointer := _POINTER.fullmatch(value)) is None:
                self._refuse(f"{name} is returned; it needs a name in braces, such as {{{name}}}")
            entries[name] = self._file.written(pointer[1], self._scope, self._element)
        return model.Skill(wording=wording, expected=expected, returns=entries)


#: What reads a node by its name; a skill has no name here.
_READ: Mapping[str, Callable[[_Reading], model.Node]] = {
    **dict.fromkeys(bt.TURNS, _Reading._turns),
    **dict.fromkeys(bt.DECORATORS, _Reading._decorator),
    **dict.fromkeys(bt.AS_ITS_CHILD, _Reading._as_its_child),
    **dict.fromkeys(bt.FOR_EACH, _Reading._for_each),
    **dict.fromkeys((bt.BRANCHES, bt.WATCHED), _Reading._branches),
    **dict.fromkeys(bt.SWITCHES, _Reading._switch),
    **dict.fromkeys(bt.COMPARED, _Reading._compared),
    "KeepRunningUntilFailure": _Reading._for_ever,
    "Precondition": _Reading._precondition,
    "TryCatch": _Reading._tries,
    "RecoveryNode": _Reading._recovers,
    "Delay": _Reading._delay,
    bt.PARALLEL: _Reading._parallel,
    bt.TO_THE_END: _Reading._to_the_end,
    bt.TIMEOUT: _Reading._timeout,
    **dict.fromkeys((bt.REPEAT, bt.WHILE), _Reading._loop),
    **dict.fromkeys(bt.ALWAYS, _Reading._always),
    **dict.fromkeys((bt.SCRIPT, bt.CHECK), _Reading._code),
    "SetBlackboard": _Reading._sets,
    bt.PAUSE: _Reading._pause,
    bt.SUBTREE: _Reading._subtree,
    bt.AGENT: _Reading._goal,
    bt.SKILL: _Reading._skill,
    bt.SEARCH: _Reading._search,
    **dict.fromkeys((bt.WAIT, bt.HOLDS), _Reading._wait),
}
#: Those that others stand in.
_INNER = frozenset(list(_READ.values())[: [*_READ].index(bt.WHILE) + 1])
