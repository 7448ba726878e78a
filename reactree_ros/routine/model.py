"""A routine as data: a tree of skills with roles in place of things, read from JSON and written as JSON."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from typing_extensions import Self

from reactree_ros.agent.observation import Outcome
from reactree_ros.agent.parameters import ParameterError, Text, Value
from reactree_ros.agent.skill import Skill as Declared
from reactree_ros.agent.text import LONGEST_TEMPLATE, check_template, shortened_line
from reactree_ros.errors import UserError
from reactree_ros.plugins.settings import fault_of
from reactree_ros.routine.script import ScriptError, script_of

#: The most nodes of a routine, and the most levels of them.
MOST_NODES, DEEPEST = 500, 20
#: The longest JSON of a routine, in characters.
LONGEST_JSON = 500_000
#: How often py_trees' Retry and Repeat begin again where it is meant for ever, for which they have no common word.
FOR_EVER = 10**9
#: How often in a row a retry may come to the same failure, whatever its number: then it fails, and the agent is told.
MOST_ALIKE = 12

#: The most that is counted of anything.
MOST_COUNTED = 10**9

R = TypeVar("R")
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
#: Words with roles in braces, such as ``pick up {thing}``.
Template = Annotated[str, Field(min_length=1, max_length=LONGEST_TEMPLATE)]
#: The most that an editor says of a node.
MOST_LABELS = 50
#: What an editor says of a node, by the names of the attributes.
Labels = Annotated[
    dict[Annotated[str, Field(pattern=r"^(name|_[A-Za-z0-9_.-]{0,79})$")], Annotated[str, Field(max_length=2000)]],
    Field(max_length=MOST_LABELS),
]
Count = Annotated[int, Field(ge=0, le=MOST_COUNTED)]
Seconds = Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)]


class RoutineError(UserError, ValueError):
    """A routine makes no sense; the message is one line."""


class Data(BaseModel):
    """Frozen data that takes no other fields than its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_serializer(mode="wrap")
    def _without_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        return {
            name: value
            for name, value in write(self).items()
            if name == "kind" or getattr(self, name) != fields[name].default
        }


class Role(Data):
    """What another goal may name in its place."""

    name: Name  # what stands in braces
    kind: Literal["thing", "place", "room", "person", "number", "text"]  # what may stand there


class Labelled(Data):
    labels: Labels = {}  # what an editor says of it, which does nothing


class Skill(Labelled):
    kind: Literal["skill"] = "skill"
    wording: Template  # how it is said
    expected: Outcome = Outcome.DONE  # how it has to end
    returns: dict[str, Name] = {}  # the entries of the blackboard that take what it returns, by the names of that
    looks: bool = False  # whether it only asks: a node without memory does it again as long as what comes after runs


class Goal(Labelled):
    kind: Literal["goal"] = "goal"
    text: Template


class Search(Labelled):
    """Looks for a thing or a place until the robot stands where it is."""

    kind: Literal["search"] = "search"
    finds: Name  # what the nodes after it call what was found, in braces
    of: Template  # what is looked for: a role, or words such as `kitchen table`. Two searches find two things
    # where such things were found, the latest first: the words of rooms and places, never their numbers
    order: tuple[Annotated[str, Field(min_length=1, max_length=120)], ...] = ()


class WaitFor(Labelled):
    kind: Literal["wait for"] = "wait for"
    condition: Template  # as the world says it
    seconds: Seconds | None = None  # longest wait; 0: it only looks; None: any


class Always(Labelled):
    kind: Literal["always"] = "always"
    succeeds: bool


class Script(Labelled):
    """Sets entries of the blackboard, or looks at them; see :mod:`reactree_ros.routine.script`."""

    kind: Literal["script"] = "script"
    code: Annotated[str, Field(max_length=LONGEST_TEMPLATE)]
    checks: bool = False  # whether what it comes to has to hold


class Pause(Labelled):
    kind: Literal["pause"] = "pause"
    milliseconds: Annotated[int, Field(ge=0, le=3_600_000)]


class InTurn(Labelled):
    children: Children
    # whether it goes on where it was. Otherwise each tick begins with the first child: what only looks is asked again
    # while what comes after runs. Of the rest just the last may take time, as a skill and a goal do: it would be begun
    # again and again. `again`: whatever comes before is. `kept`: it goes on where it was also after a failure, and a
    # fallback after a success
    memory: bool | Literal["kept", "again"] = True

    @model_validator(mode="after")
    def _breaks_nothing_off(self) -> Self:
        slow = [one for one in self.children if takes_time(one)]
        if not self.memory and (busy := [one for one in slow[:-1] if not only_looks(one)]):
            raise ValueError(
                f"without memory just the last of its children may take time, or conditions, and {len(busy)} before "
                "it do: each tick would begin them anew; give it memory, or use a loop with a condition"
            )
        return self


class Sequence(InTurn):
    kind: Literal["sequence"] = "sequence"


class Fallback(InTurn):
    kind: Literal["fallback"] = "fallback"
    memory: bool | Literal["kept"] = True


class Parallel(Labelled):
    """All of them; ``policy`` says when that succeeds, and whether several robots share them."""

    kind: Literal["parallel"] = "parallel"
    children: Children
    policy: Literal["majority", "all", "concurrent"] = "all"


class RepeatUntil(Labelled):
    """One after the other, again and again until a condition holds, which is looked at after each round."""

    kind: Literal["repeat until"] = "repeat until"
    condition: Template
    children: Children


class While(Labelled):
    """One after the other, again and again as long as a condition holds, which is looked at before each round."""

    kind: Literal["while"] = "while"
    condition: Template
    children: Children


class Within(Labelled):
    kind: Literal["within"] = "within"
    seconds: Annotated[int | float, Field(ge=0.001, le=3600)]
    children: Children


class Decorator(Labelled):
    kind: Literal["decorator"] = "decorator"
    # `invert` turns success and failure round, `succeed` and `fail` end so whatever the child's end is, `retry` begins
    # it again after a failure, `repeat` after a success
    does: Literal["invert", "succeed", "fail", "retry", "repeat"]
    # how often it is begun at most, by `retry` and `repeat`; 0: for ever
    times: Annotated[int, Field(ge=0, le=10_000)] = 1
    child: Node  # what is changed


Node: TypeAlias = Annotated[
    Skill
    | Goal
    | Search
    | WaitFor
    | Always
    | Script
    | Pause
    | Sequence
    | Fallback
    | Parallel
    | RepeatUntil
    | While
    | Within
    | Decorator,
    Field(discriminator="kind"),
]
Children: TypeAlias = Annotated[tuple[Node, ...], Field(min_length=1, max_length=MOST_NODES)]


class Origin(Data):
    run: Annotated[str, Field(max_length=500)] = ""  # the run it was learnt from; empty if a person wrote it
    instruction: Annotated[str, Field(max_length=LONGEST_TEMPLATE)] = ""  # what that run was asked
    # the household whose skills it has; empty: any that knows them
    household: Annotated[str, Field(max_length=200)] = ""


class Counts(Data):
    runs: Count = 0  # from how many runs it was learnt
    uses: Count = 0  # how often it was begun
    successes: Count = 0  # how often it reached its goal by itself
    # what was not as expected, the last time; empty after a success
    last_failure: Annotated[str, Field(max_length=2000)] = ""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.successes > self.uses:
            raise ValueError(f"{self.successes} successes of {self.uses} uses cannot be")
        return self

    def and_one(self, failure: str) -> Counts:
        """Return them after one more use, which failed so, or, if that is empty, succeeded."""
        more = int(self.uses < MOST_COUNTED)
        return Counts(
            runs=self.runs,
            uses=self.uses + more,
            successes=self.successes + (more if not failure else 0),
            last_failure=failure,
        )


class Routine(Data):
    """A tree that needs no language model, or only at its goals."""

    name: Annotated[str, Field(pattern=r"^\w[\w .-]{0,79}$")]  # what it is called; no two of a memory are called alike
    goal: Template  # what it is for, with each of its roles once, e.g. `bring me the {thing}`
    roles: tuple[Role, ...] = ()  # what another goal may name otherwise
    body: Node
    labels: Labels = {}
    origin: Origin = Origin()  # where it comes from
    counts: Counts = Counts()  # what came of it
    version: Annotated[int, Field(ge=1, le=MOST_COUNTED)] = 1  # it counts up with each change of the tree

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        names = [role.name for role in self.roles]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two roles are called '{twice[0]}'")
        check_template(self.goal, names)
        named = [name for _, name, _, _ in string.Formatter().parse(self.goal) if name is not None]
        if sorted(named) != sorted(names):
            raise ValueError(f"'{self.goal}' has to name each of its roles once: {', '.join(names) or 'it has none'}")
        nodes = list(walk(self.body))
        if len(nodes) > MOST_NODES or max(depth for depth, _ in nodes) > DEEPEST:
            raise ValueError(f"a routine has at most {MOST_NODES} nodes, {DEEPEST} in one another")
        _check_names(nodes, names)
        return self

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(node for _, node in walk(self.body))

    @property
    def next_version(self) -> int:
        return min(self.version + 1, MOST_COUNTED)

    def to_json(self) -> str:
        """Write it as JSON; :meth:`of_json` reads it."""
        return self.model_dump_json()

    @classmethod
    def of_json(cls, text: str | bytes, *, where: str = "routine") -> Self:
        """Read what :meth:`to_json` wrote, or somebody else.

        Raises RoutineError: it is not a routine; the message says in one line where and why.
        """
        return _checked(lambda: cls.model_validate_json(text), len(text), where)

    @classmethod
    def from_data(cls, data: Any, *, where: str = "routine") -> Self:
        """Make it of plain data, such as a file's; see :meth:`of_json`."""
        return _checked(lambda: cls.model_validate(data), 0, where)


def children_of(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Decorator):
        return (node.child,)
    children: tuple[Node, ...] = getattr(node, "children", ())
    return children


def with_children(node: Node, children: Iterable[Node]) -> Node:
    below = tuple(children)
    return node.model_copy(update={"child": below[0]} if isinstance(node, Decorator) else {"children": below})


def takes_time(node: Node) -> bool:
    children = children_of(node)
    return any(map(takes_time, children)) if children else not isinstance(node, Always | Script)


def only_looks(node: Node) -> bool:
    children = children_of(node)
    if children:
        return all(not takes_time(child) or only_looks(child) for child in children)
    return (isinstance(node, Skill) and node.looks) or (isinstance(node, WaitFor) and node.seconds == 0)


def walk(node: Node, depth: int = 1) -> Iterator[tuple[int, Node]]:
    yield depth, node
    for child in children_of(node):
        yield from walk(child, depth + 1)


def templates_of(node: Node) -> tuple[str, ...]:
    text = {"skill": "wording", "goal": "text", "search": "of"}.get(node.kind, "condition")
    return (getattr(node, text),) if hasattr(node, text) else ()


def written_by(node: Node) -> Collection[str]:
    """Return the entries of the blackboard that a node sets. Raises ScriptError."""
    return (
        node.returns.values()
        if isinstance(node, Skill)
        else script_of(node.code).writes
        if isinstance(node, Script)
        else ()
    )


def _check_names(nodes: list[tuple[int, Node]], roles: list[str]) -> None:
    others = {*roles, *(node.finds for _, node in nodes if isinstance(node, Search))}
    try:
        written = {name for _, node in nodes for name in written_by(node)}
        read = {name for _, node in nodes if isinstance(node, Script) for name in script_of(node.code).reads}
    except ScriptError as error:
        raise ValueError(f"script: {error}") from None
    if odd := sorted(name for name in written if name in others or not re.fullmatch("[a-z][a-z0-9_]{0,39}", name)):
        raise ValueError(f"script: call what it sets otherwise than '{odd[0]}', in small letters, digits and _")
    if unset := sorted(read - written - others):
        raise ValueError(f"script: nothing sets '{unset[0]}'")
    known = [*roles, *written]
    for _, node in nodes:
        for text in templates_of(node):
            try:
                check_template(text, known)
            except ValueError as error:
                raise ValueError(f"{node.kind}: {error}") from None
        if isinstance(node, Search):
            if node.finds in roles:
                raise ValueError(f"search: '{node.finds}' is a role; call what it finds otherwise")
            known.append(node.finds)


def _checked(read: Callable[[], R], length: int, where: str) -> R:
    if length > LONGEST_JSON:
        raise RoutineError(f"{where}: {length} characters are too many for a routine; the most are {LONGEST_JSON}")
    try:
        return read()
    except ValidationError as error:
        fault = fault_of(error, Routine)
        at = shortened_line(".".join(map(str, fault.path)), 100)
        raise RoutineError(shortened_line(f"{where}: {at + ': ' if at else ''}{fault.said}", 500)) from None
    except RecursionError:
        raise RoutineError(f"{where}: its nodes stand too deep in one another; the most levels are {DEEPEST}") from None


# ---------------------------------------------------------------------- wordings of skills, with roles in braces


def say(skill: Declared, values: Mapping[str, str]) -> str:
    """Return a skill's wording with values in its places; roles in braces may be in them.

    Raises ParameterError: a value may not stand in its place.
    """
    said: dict[str, Value] = {}
    for name, value in values.items():
        try:
            said[name] = value if has_role(value) else skill.parameters[name].read(value)
        except ParameterError as error:
            raise ParameterError(f"{name}: {error}") from None
    # a role stands as it is, but in quotes where it is a part of a text
    as_is = {name for name, value in values.items() if has_role(value) and not isinstance(skill.parameters[name], Text)}
    return "".join(
        literal + ("" if name is None else values[name] if name in as_is else skill.words.written(name, said[name]))
        for literal, name, *_ in string.Formatter().parse(skill.words.form_of(said))
    )


def taken_apart(wording: str, skill: Declared) -> dict[str, str] | None:
    """Return the values that stand in a skill's places in a wording; None if the wording is another skill's."""
    usual = {name: one.write(one.default) for name, one in skill.parameters.items() if one.default is not None}
    for way in skill.words.ways(wording):
        with suppress(ParameterError):
            if say(skill, values := usual | way) == wording:
                return values
    return None


def has_role(text: str) -> bool:
    try:
        return any(name is not None for _, name, _, _ in string.Formatter().parse(text))
    except ValueError:
        return False


def apart(wording: str, skills: Iterable[Declared]) -> tuple[Declared, dict[str, str]] | None:
    """Return the skill that a wording says, and the values in its places; None if it is none of them.

    Of two, it is the one with more words of its own: ``open drawer {number}``, not ``open {thing}``.
    """
    found = ((skill, values) for skill in skills if (values := taken_apart(wording, skill)) is not None)
    return max(found, key=lambda one: one[0].words.letters_in(wording), default=None)


def effects_of(wording: str, skills: Iterable[Declared]) -> Mapping[str, str]:
    """Return what a wording changes, each with the value that says of what; see :attr:`Skill.effect`."""
    if (found := apart(wording, skills)) is None:
        return {}
    skill, values = found
    return {what: values[about] for what, about in skill.effect.items() if about in values}


for _model in (Sequence, Fallback, Parallel, RepeatUntil, While, Within, Decorator, Routine):
    _model.model_rebuild()
