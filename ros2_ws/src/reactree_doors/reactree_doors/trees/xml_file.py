"""A file of XML with behaviour trees, those of files beside it, and what the names in them stand for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from string import Formatter
from typing import NoReturn
from xml.sax.saxutils import unescape

from reactree_doors.trees import bt_nodes as bt
from reactree_doors.trees.bt_nodes import by_node_name
from reactree_ros.agent.parameters import Names
from reactree_ros.agent.skill import Skill
from reactree_ros.agent.text import LONGEST_TEMPLATE, shortened_line
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import text_of
from reactree_ros.files.xml import LARGEST_XML, Element, NoXml, parse_xml
from reactree_ros.plugins.settings import did_you_mean, or_nearest
from reactree_ros.routine import model


class Scope:
    """What the names of one tree stand for, as texts with the routine's own names in braces.

    Args:
        outer: The scope that has what this one has not; None: then a name is an entry of its own.
        root: The scope of the main tree; None: this is it.
    """

    def __init__(self, outer: Scope | None = None, root: Scope | None = None) -> None:
        self.names: dict[str, str] = {}
        self.outer, self.root = outer, root or self


_ROLE = re.compile(r"[a-z][a-z0-9_]{0,39}")
#: A port that stands for an entry.
POINTER = re.compile(r"\{([^{}]+)\}")
#: An ampersand that begins no entity, as in the scripts of BehaviorTree.CPP, whose reader takes it for itself.
_BARE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});)")
_TREE = re.compile(r"<BehaviorTree\s[^<>]{0,2000}?\bID=\"([^<>\"]{1,200})\"")
TRUE = ("true", "True", "TRUE", "1")
_KIND_OF = {other: kind for kind, others in bt.TYPES.items() for other in others}
_ROLES = ("thing", "place", "room", "person", "number", "text")
#: The most files that one names, and the most names in it for what it sets, finds and is given.
MOST_FILES, MOST_ENTRIES = 100, 1000


def parsed(text: str, where: str) -> Element:
    try:
        return parse_xml(_BARE.sub("&amp;", text))
    except NoXml as error:
        raise model.RoutineError(f"{where}:{error.line}: is not XML: {error}") from None


class File:
    """A file with its trees, its nodes models, and what its names stand for.

    Raises RoutineError: it is none; the message names file and line.
    """

    def __init__(
        self,
        root: Element,
        declared: Collection[Skill],
        names: Names,
        where: str,
        folder: Path | None = None,
        missing: dict[str, str] | None = None,
    ) -> None:
        self.missing = missing  # takes the nodes that are not skills yet, with file and line; None: each is an error
        self.declared, self.names, self.where = declared, names, where
        self.skills = by_node_name(declared)
        self.trees: dict[str, Element] = {}
        self.models: dict[str, tuple[Element, ...]] = {}
        self.looks = {*bt.LOOKS}  # the names of conditions
        self.roles: dict[str, str] = {}  # the kind of each; empty: it is not known yet
        self.found = set[str]()  # the names of what searches find
        self.set_here, self._names = set[str](), set[str]()
        self.reads: dict[str, tuple[str, Element]] = {}  # what is read, with its name there, and where first
        self.count, self.unread = 0, ""  # how many nodes there are, and why a file beside it is not read
        self._skips: dict[int, bool] = {}  # elements by identity
        self._root, self._folder, self._files = root, folder, [Path(where).resolve()]
        self._elsewhere: dict[int, tuple[Element, str]] = {}  # the elements of other files, by identity
        self.version = root.attributes.get("BTCPP_format", "3")
        self._sort(root, folder)

    def name_of(self, element: Element) -> str:
        """Return what a node is called in version 4."""
        name = element.attributes.get("ID", "") if element.tag in bt.KINDS else element.tag
        return name if self.version == "4" else bt.OLD.get(name.lower(), name)

    def refuse(self, element: Element, reason: str) -> NoReturn:
        name = element.attributes.get("name") or element.attributes.get("ID")
        called = f"<{element.tag}{f' {shortened_line(name, 40)!r}' if name else ''}>"
        raise model.RoutineError(shortened_line(f"{self.place(element)}: {called}: {reason}", 600))

    def place(self, element: Element) -> str:
        where = self._elsewhere.get(id(element), (element, self.where))[1]
        return f"{where}:{element.line}"

    def find_roles(self, tree: str, goal: str) -> None:
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

    def unset(self) -> list[str]:
        """Return the names of what is read that nothing sets, finds or gives."""
        return [name for name in self.reads if name not in (self.roles.keys() | self.set_here | self.found)]

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
        if POINTER.fullmatch(meant):
            self.reads.setdefault(meant[1:-1], (name, element))
        return meant

    def written(self, name: str, scope: Scope, element: Element) -> str:
        """Return the entry that a name stands for, which is set."""
        meant = self.meant(name, scope)
        if not POINTER.fullmatch(meant) or meant[1:-1] in self.roles:
            self.refuse(element, f"'{{{name}}}' stands for {meant} already, and cannot be set")
        self.set_here.add(meant[1:-1])
        return meant[1:-1]

    def given(self, value: str, scope: Scope, element: Element) -> str:
        """Return what a port stands for that has a value: an entry, or a text with what is in its braces."""
        if pointer := POINTER.fullmatch(value):
            return self.meant(pointer[1], scope)
        return self.filled(bt.of_port(value), scope, element)

    def filled(self, text: str, scope: Scope, element: Element) -> str:
        parts: list[tuple[str, str | None, str | None, str | None]] = [(text, None, None, None)]
        with suppress(ValueError):
            read = list(Formatter().parse(text))
            is_text = any(name is not None and (not name or spec or to) for _, name, spec, to in read)
            parts = parts if is_text else read  # a brace without a name is text, as in BehaviorTree.CPP
        meant = ""
        for literal, name, _, _ in parts:
            meant += literal.replace("{", "{{").replace("}", "}}")
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
                self.looks |= {one.attributes.get("ID", "") for one in child.named("Condition")}
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
        root = parsed(text, str(file))
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
            try:
                text = text_of(file, most=left) if self._is_below(file) and file not in self._files else ""
            except UserError:
                most = f"files beside it are read that are texts, of {LARGEST_XML >> 20} MiB together"
                self.unread = self.unread or f"; {file.name} is not looked through: {most}"
                continue
            left -= len(text)
            for name in _TREE.findall(text):
                found.setdefault(unescape(name, {"&quot;": '"'}), (file, text))
        return found

    def _is_below(self, file: Path) -> bool:
        return self._folder is not None and file.is_relative_to(self._folder.resolve())

    def main(self) -> Element:
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
