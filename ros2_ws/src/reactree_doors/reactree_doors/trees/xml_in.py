"""Reads XML of BehaviorTree.CPP, Nav2 and py_trees as a routine; what has no counterpart is an error with its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from reactree_doors.trees import bt_nodes as bt
from reactree_doors.trees.xml_file import POINTER, TRUE, File, Scope, parsed
from reactree_ros.agent.observation import Outcome
from reactree_ros.agent.parameters import List, Names, Parameter, ParameterError, Thing, any_name, each_of
from reactree_ros.agent.skill import WAIT, look_at
from reactree_ros.agent.skill import Skill as Declared
from reactree_ros.agent.text import shortened_line
from reactree_ros.files.read_back import text_of
from reactree_ros.files.xml import LARGEST_XML, Element
from reactree_ros.plugins.settings import did_you_mean, fault_of
from reactree_ros.routine import model
from reactree_ros.routine.model import has_role, say, taken_apart
from reactree_ros.routine.script import ScriptError, renamed, script_of

_LABELS = TypeAdapter[dict[str, str]](model.Labels)
_NUMERAL = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


def read_routine(
    path: Path,
    skills: Iterable[Declared] = (),
    *,
    goal: str | None = "",
    names: Names = any_name,
    missing: dict[str, str] | None = None,
) -> model.Routine:
    """Read a file of XML; see :func:`routine_of_xml`. Trees of other files come from its own folder alone."""
    root = parsed(text_of(path, most=LARGEST_XML), str(path))
    return _routine(File(root, tuple(skills), names, str(path), path.parent, missing), goal)


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
    return _routine(File(parsed(text, where), tuple(skills), names, where), goal)


def _routine(file: File, goal: str | None) -> model.Routine:
    tree, scope = file.main(), Scope()
    own = {"ID": "tree", **tree.attributes}
    said = goal or own.get(bt.GOAL, "")
    if not said and goal is not None:
        file.refuse(tree, f'say what it is for, with its roles, as {bt.GOAL}="bring me the {{thing}}" or with --goal')
    file.find_roles(own["ID"], said)
    scope.names = {name: f"{{{name}}}" for name in file.roles}
    for name, value in file.defaults(own["ID"], tree).items():
        if name not in file.roles and value != f"{{{name}}}":
            scope.names[name] = file.given(value, scope, tree)
    labels = file.labels(tree, {bt.GOAL, bt.NAME})
    body = _only_child(file, tree, scope, (own["ID"],))
    for name in file.unset():
        called, element = file.reads[name]
        if goal is not None or f"{{{name}}}" not in scope.names.values():
            file.refuse(
                element,
                f"'{{{called}}}' is not a role, and nothing sets it or finds it; a role stands in the goal, or is an "
                f'input_port of <SubTree ID="{own["ID"]}"> in the TreeNodesModel',
            )
        file.roles[name] = ""
    roles = [{"name": name, "kind": kind or "text"} for name, kind in file.roles.items()]
    said = said or " and ".join(["do it", *(f"{{{name}}}" for name in file.roles)])
    name = own.get(bt.NAME) or re.sub(r"[^\w .-]", "_", own["ID"])[:80].lstrip(" .-") or "tree"
    whole = {"name": name, "goal": said, "roles": roles, "body": body, "labels": labels}
    return model.Routine.from_data(whole, where=file.where)


def _node(
    file: File, element: Element, scope: Scope, trees: tuple[str, ...], depth: int, *, goes_on: bool
) -> model.Node:
    tag = file.name_of(element)
    file.count += tag != bt.SUBTREE
    if file.count > model.MOST_NODES or depth > model.DEEPEST:
        file.refuse(element, f"a routine has at most {model.MOST_NODES} nodes, {model.DEEPEST} in one another")
    try:
        return _Reading(file, element, tag, scope, trees, depth, goes_on).node()
    except ValidationError as error:
        fault = fault_of(error, model.Routine)
        at = ".".join(map(str, fault.path))
        file.refuse(element, f"{at and f'{at}: '}{fault.said}")


def _only_child(
    file: File, element: Element, scope: Scope, trees: tuple[str, ...], depth: int = 0, *, goes_on: bool = True
) -> model.Node:
    if len(element.children) != 1:
        file.refuse(element, f"it has {len(element.children)} nodes in it; put just one there")
    return _node(file, element.children[0], scope, trees, depth + 1, goes_on=goes_on)


def _quoted(text: str) -> str:
    return f'"{text}"' if "'" in text else f"'{text}'"


@dataclass
class _Reading:
    _file: File
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
            special |= {bt.EXPECTED, bt.ASKS}
        labels = _LABELS.validate_python(self._file.labels(self._element, special))
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
        then = [one for one in bt.AFTER if one in code]
        if then and not {"_skipIf", "_while"}.isdisjoint(code):
            self._refuse(f"{then[0]} is not for what may be skipped; put a sequence with that around it")
        for one, (end, holds, watched) in reversed([*bt.GUARDS.items()]):
            if one in code:
                made = self._unless(code[one] if holds else f"!({code[one]})", made, end, watched=watched)
        succeeded, failed = (
            tuple(model.Script(code=code[one]) for one in (name, "_post") if one in code)
            for name in ("_onSuccess", "_onFailure")
        )
        if then:
            made = model.Sequence(children=(made, *succeeded))
        if failed:
            failure = model.Sequence(children=(*failed, model.Always(succeeds=False)))
            made = model.Fallback(children=(made, failure))
        return made

    def _unless(self, code: str, made: model.Node, end: str, *, watched: bool = False) -> model.Node:
        """Return a node that does not do what it is made for, but ends so, if a script holds."""
        if end not in bt.ENDS:
            self._refuse(f"'{shortened_line(end, 40)}' is not an end; {did_you_mean(end, bt.ENDS)}")
        ends = self._goes_on if end == "SKIPPED" else end == "SUCCESS"
        look = model.Script(code=code if ends else f"!({code})", checks=True)
        return (model.Fallback if ends else model.Sequence)(children=(look, made), memory=not watched)

    def _refuse(self, reason: str) -> NoReturn:
        self._file.refuse(self._element, reason)

    # ------------------------------------------------------------------ what is in it

    def _children(self) -> tuple[model.Node, ...]:
        below = self._element.children
        if not below:
            self._refuse("there is nothing in it")
        file, on = self._file, self._child_goes_on
        return tuple(_node(file, child, self._scope, self._trees, self._depth + 1, goes_on=on) for child in below)

    def _only_child(self) -> model.Node:
        on = self._child_goes_on
        return _only_child(self._file, self._element, self._scope, self._trees, self._depth, goes_on=on)

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
        if POINTER.fullmatch(text):
            return text[1:-1]
        if has_role(text) or ("'" in text and '"' in text):
            self._refuse(f"{shortened_line(text, 60)!r} cannot stand in a script")
        text = text.format()
        return f"({text})" if _NUMERAL.fullmatch(text) else _quoted(text)

    def _fresh(self, name: str) -> str:
        return self._file.written(name, Scope(), self._element)

    # ------------------------------------------------------------------ by its name

    def _turns(self) -> model.Node:
        memory: Any
        of, memory = bt.TURNS[self._tag]
        ports = self._ports((), () if self._file.version == "4" else ("memory",))
        memory = ports.get("memory", "true").lower() == "true" and memory
        return of(children=self._children(), memory=memory) if memory in (True, "kept") else self._again(of, memory)

    def _again(self, of: Any, memory: Any) -> model.Node:
        """Return a node that begins its children anew in each tick; what is limited in its rate waits before that."""
        children, first = [*self._children()], list[str]()
        for at, element in enumerate(self._element.children):
            name = self._file.name_of(element)
            if name not in bt.AS_ITS_CHILD or (memory and at == len(children) - 1):
                continue
            if name != bt.RATE or not memory:
                self._file.refuse(
                    element,
                    f"in {self._tag} it goes by time, way, speed or goal, which is not known there; use {bt.RATE} in "
                    "PipelineSequence",
                )
            try:
                pause = model.Pause(milliseconds=round(1000 / float(element.attributes.get("hz", bt.HZ))))
            except (ValueError, ArithmeticError):
                self._file.refuse(element, "hz has to be a number more than 0, such as 1.0, or 0.0003 for each hour")
            first.append(self._fresh("first"))
            waits = model.Fallback(children=(model.Script(code=first[-1], checks=True), pause))
            children[at] = model.Sequence(children=(waits, children[at], model.Script(code=f"{first[-1]} := false")))
        made = of(children=tuple(children), memory=memory)
        begins = "; ".join(f"{one} := true" for one in first)
        return model.Sequence(children=(model.Script(code=begins), made)) if first else made

    def _always(self) -> model.Node:
        self._ports(())
        return model.Always(succeeds=bt.ALWAYS[self._tag])

    def _decorator(self) -> model.Node:
        does: Any
        does, port = bt.DECORATORS[self._tag]
        ports = self._ports([port] if port else ())
        if does == "repeat" and POINTER.fullmatch(ports[port]):
            return self._repeated(ports[port][1:-1])
        times = self._number(port, ports[port]) if port else 1
        if times < 1 and times != -1:
            self._refuse(f"{port} is {times}; write how often, or -1 for ever")
        return model.Decorator(does=does, times=max(times, 0), child=self._only_child())

    def _for_ever(self) -> model.Node:
        self._ports(())
        self._unskipped(*self._element.children)
        return model.Decorator(does="repeat", times=0, child=self._only_child())

    def _repeated(self, times: str) -> model.Node:
        count = self._fresh("count")
        more = model.Script(code=f"{count} < {times} || {times} == -1", checks=True)
        once = model.Sequence(children=(more, self._only_child(), model.Script(code=f"{count} += 1")))
        enough = model.Script(code=f"{times} != -1 && {count} >= {times}", checks=True)
        repeats = model.Fallback(children=(model.Decorator(does="repeat", times=0, child=once), enough))
        return model.Sequence(children=(model.Script(code=f"{count} := 0"), repeats))

    def _as_its_child(self) -> model.Node:
        self._ports((), bt.AS_ITS_CHILD[self._tag], raw=bt.AS_ITS_CHILD[self._tag])
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
        shared = self._element.attributes.get(bt.SHARED) in TRUE
        return model.Parallel(children=children, policy="concurrent" if shared else "majority")

    def _timeout(self) -> model.Node:
        of_py_trees = self._file.version != "4" and "duration" in self._element.attributes
        port = "duration" if of_py_trees else bt.MSEC
        value = self._ports((port,))[port]
        msec = 1000 * self._number(port, value.removesuffix(".0")) if of_py_trees else self._number(port, value)
        child, seconds = self._only_child(), msec / 1000 if msec % 1000 else msec // 1000
        in_turn = isinstance(child, model.Sequence) and child.memory is True and not child.labels
        return model.Within(seconds=seconds, children=child.children if in_turn else (child,))  # type: ignore[union-attr]

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
        key = POINTER.fullmatch(ports["output_key"])
        name = self._file.written(key[1] if key else ports["output_key"], self._scope, self._element)
        pointer = POINTER.fullmatch(ports["value"])
        text = self._meant(bt.of_port(ports["value"]))
        # a constant is a text, also if it is a numeral: it takes the type of what was there
        value = _quoted(text) if pointer is None and not has_role(text) else self._literal(text)
        return model.Script(code=f"{name} := {value}")

    def _precondition(self) -> model.Node:
        ports = self._ports(("if",), ("else",), raw=("if", "else"))
        return self._unless(f"!({self._script(ports['if'], 'if')})", self._only_child(), ports.get("else", "FAILURE"))

    def _compared(self) -> model.Node:
        ports = self._ports(("value_A", "value_B", "return_on_mismatch"))
        differ = " != ".join(self._literal(ports[one]) for one in ("value_A", "value_B"))
        return self._unless(differ, self._only_child(), ports["return_on_mismatch"], watched=True)

    def _branches(self) -> model.Node:
        self._ports(())
        self._unskipped(*self._element.children[:1])
        condition, *branches = self._children()
        watched, held = self._tag == bt.WATCHED, self._fresh("held")
        if len(branches) not in (1, 2 - watched):
            two = f", or use {bt.BRANCHES}: what runs would be broken off for another" if watched else ", and what else"
            self._refuse(f"it has {len(branches) + 1} nodes in it; put a condition, what is done then{two}")
        if watched:
            return model.Sequence(children=(condition, branches[0]), memory=False)
        looked = model.Sequence(children=(condition, model.Script(code=f"{held} := true")))
        looks = model.Fallback(children=(looked, model.Script(code=f"{held} := false")))
        first, second = (*branches, model.Always(succeeds=False))[:2]
        either = (self._unless(f"!{held}", first, "SUCCESS"), self._unless(held, second, "SUCCESS"))
        return model.Sequence(children=(looks, *either))

    def _switch(self) -> model.Node:
        cases = [f"case_{number + 1}" for number in range(bt.SWITCHES[self._tag])]
        ports, chosen = self._ports(("variable", *cases)), self._fresh("chosen")
        self._unskipped(*self._element.children)
        *each, other = self._children()
        if len(each) != len(cases):
            self._refuse(f"it has {len(each) + 1} nodes in it; put one for each case, and what else")
        is_it = f"{chosen} == 0 && {self._literal(ports['variable'])} .. '' == "
        codes = [f"{chosen} += ({is_it}{_quoted(ports[case])}) * {at}" for at, case in enumerate(cases, 1)]
        looks = model.Script(code="; ".join((f"{chosen} := 0", *codes)))
        parts = (self._unless(f"{chosen} != {at}", one, "SUCCESS") for at, one in enumerate((other, *each)))
        return model.Sequence(children=(looks, *parts))

    def _tries(self) -> model.Node:
        if self._ports((), ("catch_on_halt",)).get("catch_on_halt", "false") in TRUE:
            self._refuse("nothing is done here once it is broken off; leave catch_on_halt out")
        self._unskipped(*self._element.children)
        *tried, last = self._children()
        if not tried:
            self._refuse("it has 1 nodes in it; put what is tried there, and what is done if that fails")
        caught = model.Decorator(does="fail", child=last)
        return model.Fallback(children=(model.Sequence(children=tuple(tried)), caught))

    def _recovers(self) -> model.Node:
        most = self._number("number_of_retries", self._ports((), ("number_of_retries",)).get("number_of_retries", "1"))
        self._unskipped(*self._element.children)
        children, tries, over = self._children(), self._fresh("tries"), self._fresh("over")
        if len(children) != 2:
            self._refuse("put two nodes there: what is done, and what is done before it is tried again")
        again = model.Sequence(children=(children[1], model.Script(code=f"{tries} += 1")))
        recovered = self._unless(f"{tries} >= {most}", again, "FAILURE")
        counted = model.Fallback(children=(recovered, model.Script(code=f"{over} := true")))
        once = model.Fallback(children=(children[0], model.Decorator(does="fail", child=counted)))
        tried = model.Decorator(does="retry", times=most + 1, child=self._unless(over, once, "FAILURE"))
        return model.Sequence(children=(model.Script(code=f"{tries} := 0; {over} := false"), tried))

    def _for_each(self) -> model.Node:
        ports = self._ports(("queue", "value"), raw=("queue", "value"))
        pointer = POINTER.fullmatch(ports["value"])
        if POINTER.fullmatch(ports["queue"]) or pointer is None:
            self._refuse('only values that stand here are gone through, such as queue="1;2;3" value="{one}"')
        name, made = self._file.written(pointer[1], self._scope, self._element), list[model.Node]()
        for value in ports["queue"].split(";"):
            literal = self._literal(self._meant(value.strip()))
            made += [model.Script(code=f"{name} := {literal}"), self._only_child()]
        return model.Sequence(children=tuple(made))

    # ------------------------------------------------------------------ searches, subtrees and skills

    def _search(self) -> model.Node:
        ports = self._ports(("of", "finds"), ("order",), raw=("finds",))
        order = tuple(ports["order"].split(";")) if ports.get("order") else ()
        for place, name in (("of", ports["of"]), *(("order", one) for one in order)):
            self._check_names({place: Thing()}, {place: name})
        return model.Search(finds=self._finds(), of=ports["of"], order=order)

    def _finds(self) -> str:
        found = POINTER.fullmatch(self._element.attributes["finds"])
        if found is None:
            self._refuse("finds needs a name in braces, such as {found}")
        meant = self._file.meant(found[1], self._scope)
        if not POINTER.fullmatch(meant) or meant[1:-1] in self._file.roles:
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
        same = any(told.get(one, "false") in TRUE for one in bt.SAME_NAMES)
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
        return _only_child(self._file, tree, scope, (*self._trees, name), self._depth - 1, goes_on=on)

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
        said = self._ports(needed, (*skill.parameters, *only), raw=only)
        ports = usual | {name: value for name, value in said.items() if value or name not in usual}  # Groot's are empty
        values = {name: ports[name] for name in skill.parameters}
        self._check_names(skill.parameters, values)
        given = self._given().items()
        both = {name for name, value in given if name in skill.parameters and not POINTER.fullmatch(value)}
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
                "there is no tree '{}', here or in a file beside it"
                if is_tree
                else "'{}' is not a node and no skill here"
            )
            hint = did_you_mean(name, [*(self._file.trees if is_tree else _READ), *known])
            self._refuse(f"{what.format(shortened_line(name, 60))}{self._file.unread}; {hint}")
        self._file.missing.setdefault(name, f"{self._file.place(self._element)}{self._file.unread if is_tree else ''}")
        returns = dict[str, str]()
        for port, value in self._given().items():  # it may return what stands there
            meant = self._file.meant(value[1:-1], self._scope) if POINTER.fullmatch(value) else ""
            if POINTER.fullmatch(meant) and meant[1:-1] not in self._file.roles:
                returns[port] = self._file.written(value[1:-1], self._scope, self._element)
        return model.Skill(
            wording=re.sub("[{}]", "", name)[:100] or "nothing", returns=returns, looks=self._looks(name)
        )

    def _looks(self, name: str) -> bool:
        usual = self._element.tag == "Condition" or (self._element.tag != "Action" and name in self._file.looks)
        return self._element.attributes.get(bt.ASKS, str(usual)) in TRUE

    def _check_names(self, places: Mapping[str, Parameter], values: Mapping[str, str]) -> None:
        for place, value in values.items():
            kind, role = places[place], value[1:-1]
            if POINTER.fullmatch(value) and self._file.roles.get(role) == "":
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
            if (pointer := POINTER.fullmatch(value)) is None:
                self._refuse(f"{name} is returned; it needs a name in braces, such as {{{name}}}")
            entries[name] = self._file.written(pointer[1], self._scope, self._element)
        return model.Skill(wording=wording, expected=expected, returns=entries, looks=self._looks(self._tag))


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
