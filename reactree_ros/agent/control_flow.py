"""Control flow: how the subgoals of an expansion are carried out, each way declared in one class (paper, Algorithm 2).

This package's are in ``tree/flows.py``. Another distribution names its own as entry points of the group
``reactree_ros.control_flows``.
"""

from __future__ import annotations

import abc
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from reactree_ros.agent.decision import as_object
from reactree_ros.agent.wording import Wording
from reactree_ros.plugins import Registry
from reactree_ros.plugins.settings import NoSettings, Settings

if TYPE_CHECKING:
    from py_trees.behaviour import Behaviour
    from py_trees.composites import Composite

    from reactree_ros.agent.skill import Skill

#: The control flows of the paper, which an expansion may use by default.
PAPER = ("sequence", "fallback", "parallel")
C = TypeVar("C", bound="Composite")
_DECLARED = ("name", "text", "phrase", "ordered", "sign", "summary")


@dataclass(frozen=True)
class ControlFlow(abc.ABC):
    """How the subgoals of one expansion are carried out. A subclass declares a way of it.

    Grammar, schema, reading, prompt, record and page follow from what the class declares.

    Attributes:
        wording: How an expansion says it, with the arguments in their places, e.g. ``repeat until {condition}``. By
            default it is the name. The class has one field for each argument.
    """

    name: ClassVar[str]  # its name, e.g. ``sequence``, in settings, records and messages
    wording: ClassVar[Wording]
    text: ClassVar[str]  # how the system text explains it
    phrase: ClassVar[str]  # how a subgoal's node is told of it, e.g. ``in sequence``; arguments may stand in braces
    ordered: ClassVar[bool]  # whether the order of the subgoals matters
    sign: ClassVar[str]  # the character that stands for it on the page
    summary: ClassVar[str]  # what it does with what is below it, in a few words
    settings: ClassVar[type[Settings]] = NoSettings
    extra: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if missing := [name for name in _DECLARED if not hasattr(cls, name)]:
            raise TypeError(f"control flow {cls.__name__} does not declare {', '.join(missing)}")
        if not hasattr(cls, "wording"):
            cls.wording = Wording(cls.name)
        if {*cls.wording.parameters} != {*inspect.get_annotations(cls)}:
            raise TypeError(f"control flow {cls.__name__} needs one field per argument of '{cls.wording.template}'")

    def __str__(self) -> str:
        return self.wording.write(vars(self))

    @property
    def value(self) -> Any:
        """What stands for it in JSON, as :func:`flow_schema` describes it."""
        return {self.name: dict(vars(self))} if takes(type(self)) else self.name

    @property
    def in_words(self) -> str:
        return self.phrase.format(**vars(self))

    @classmethod
    def read(cls, said: str | Mapping[str, object]) -> ControlFlow:
        """Read it from words, or its arguments from the fields of an object. Raises ParameterError."""
        return cls(**cls.wording.read(said))

    def objection(self, skills: Sequence[Skill]) -> str:
        """Say why it may not be used in a world with these skills; empty if it may."""
        return ""

    @abc.abstractmethod
    def composite(self, node: Any, children: Sequence[Behaviour]) -> Composite:
        """Build what carries it out."""

    def over(self, node: Any, children: Sequence[Behaviour]) -> Composite:
        return marked(self, self.composite(node, children))


def marked(flow: ControlFlow, composite: C) -> C:
    setattr(composite, _FLOW, flow)
    return composite


_FLOW = "reactree_control_flow"
CONTROL_FLOWS: Registry[type[ControlFlow]] = Registry(
    "control flow", "reactree_ros.control_flows", ControlFlow, first=PAPER
)


def flow_over(behaviour: Behaviour) -> ControlFlow | None:
    flow: ControlFlow | None = getattr(behaviour, _FLOW, None)
    return flow


def flow_schema(flows: Sequence[type[ControlFlow]]) -> dict[str, Any]:
    names = [flow.name for flow in flows if not takes(flow)]
    one = {"type": "string", "enum": names}
    others = [as_object(**{flow.name: flow.wording.schema()}) for flow in flows if takes(flow)]
    return {"anyOf": [*([one] if names else []), *others]} if others else one


def takes(flow: type[ControlFlow]) -> bool:
    return bool(flow.wording.parameters)


def flow_options(flows: Sequence[type[ControlFlow]]) -> list[str] | None:
    """Return everything that an expansion may say as its control flow; None if only a pattern tells."""
    each = [flow.wording.options() for flow in flows]
    return None if None in each else [one for options in each for one in options or ()]


def wordings(flows: Iterable[type[ControlFlow]]) -> str:
    return ", ".join(flow.wording.template for flow in flows)


def known_flows() -> Iterator[type[ControlFlow]]:
    return CONTROL_FLOWS.every()


def default_flows() -> tuple[type[ControlFlow], ...]:
    return tuple(map(flow_named, PAPER))


@cache
def flows_by_word() -> Mapping[str, type[ControlFlow]]:
    plain = [flow for flow in known_flows() if not takes(flow)]
    return {word.casefold(): flow for flow in plain for word in (flow.name, flow.wording.template)}


@cache
def flow_named(name: str) -> type[ControlFlow]:
    """Return the control flow of a name. Raises ValueError."""
    flows = {flow.name: flow for flow in known_flows()}
    if name not in flows:
        raise ValueError(f"control flow {name[:80]!r} is unknown; use one of {', '.join(flows)}")
    return flows[name]


@lru_cache(maxsize=1024)
def flow_of(text: str) -> ControlFlow:
    """Return the control flow that a text says, in just its words. Raises ValueError."""
    for flow in known_flows():
        if flow.wording.says(text) and str(said := flow.read(text)) == text:
            return said
    raise ValueError(f"control flow {text[:80]!r} is unknown; use one of {wordings(known_flows())}")
