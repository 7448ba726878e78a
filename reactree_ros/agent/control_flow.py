"""Control flow: how the subgoals of an expansion are carried out, each way declared in one class (paper, Algorithm 2).

This package's are in ``tree/flows/``. Another distribution names its own as entry points of the group
``reactree_ros.control_flows``.
"""

from __future__ import annotations

import abc
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from reactree_ros.plugins import Registry

if TYPE_CHECKING:
    from py_trees.behaviour import Behaviour
    from py_trees.composites import Composite

#: The control flows of the paper, which an expansion may use by default.
PAPER = ("sequence", "fallback", "parallel")
_DECLARED = ("name", "text", "phrase", "ordered", "sign", "does")


@dataclass(frozen=True)
class ControlFlow(abc.ABC):
    """How the subgoals of one expansion are carried out. A subclass declares a way of it.

    Grammar, schema, reading, prompt, record and page follow from what the class declares.

    Attributes:
        name: Its name, e.g. ``sequence``, in settings, records and messages.
        text: How the system text explains it.
        phrase: How a subgoal's node is told of it, e.g. ``in sequence``.
        ordered: Whether the order of the subgoals matters.
        sign: The character that stands for it on the page.
        does: What it does with what is below it, in a few words.
        synonyms: Other words that language models use for it.
    """

    name: ClassVar[str]
    text: ClassVar[str]
    phrase: ClassVar[str]
    ordered: ClassVar[bool]
    sign: ClassVar[str]
    does: ClassVar[str]
    synonyms: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Look whether a subclass declares everything.

        Raises:
            TypeError: It does not.
        """
        if missing := [name for name in _DECLARED if not hasattr(cls, name)]:
            raise TypeError(f"control flow {cls.__name__} does not declare {', '.join(missing)}")

    def __str__(self) -> str:
        """Return it as an expansion says it."""
        return self.name

    @classmethod
    def regex(cls) -> str:
        """Render what an expansion may say of it as a regular expression."""
        return re.escape(cls.name)

    @classmethod
    def ebnf(cls) -> str:
        """Render what an expansion may say of it as the right side of an EBNF rule."""
        return json.dumps(cls.name, ensure_ascii=False)

    @abc.abstractmethod
    def composite(self, node: Any, children: Sequence[Behaviour]) -> Composite:
        """Build what carries it out.

        Args:
            node: The goal node that expands.
            children: One behaviour for each subgoal, in order.
        """

    def over(self, node: Any, children: Sequence[Behaviour]) -> Composite:
        """Build what carries it out, and note there which control flow it is; see :func:`flow_over`."""
        composite = self.composite(node, children)
        setattr(composite, _FLOW, self)
        return composite


_FLOW = "reactree_control_flow"
CONTROL_FLOWS: Registry[type[ControlFlow]] = Registry(
    "control flow",
    "reactree_ros.control_flows",
    {
        "sequence": "reactree_ros.tree.flows.sequence:SequenceFlow",
        "fallback": "reactree_ros.tree.flows.fallback:FallbackFlow",
        "parallel": "reactree_ros.tree.flows.parallel:ParallelFlow",
    },
)


def flow_over(behaviour: Behaviour) -> ControlFlow | None:
    """Return the control flow that a composite carries out; None for any other behaviour."""
    flow: ControlFlow | None = getattr(behaviour, _FLOW, None)
    return flow


def flow_schema(flows: Sequence[type[ControlFlow]]) -> dict[str, Any]:
    """Render the control flows that an expansion may use as a JSON schema."""
    return {"type": "string", "enum": [flow.name for flow in flows]}


def known_flows() -> Iterator[type[ControlFlow]]:
    """Yield every control flow that is declared, by this package or by others."""
    return iter(CONTROL_FLOWS)


def default_flows() -> tuple[type[ControlFlow], ...]:
    """Return the control flows of the paper."""
    return tuple(map(flow_named, PAPER))


@cache
def flows_by_word() -> Mapping[str, type[ControlFlow]]:
    """Return every control flow by each of the words that it goes by."""
    return {word: flow for flow in known_flows() for word in (flow.name, *flow.synonyms)}


@cache
def flow_named(name: str) -> type[ControlFlow]:
    """Return the control flow of a name.

    Raises:
        ValueError: There is none.
    """
    flows = {flow.name: flow for flow in known_flows()}
    if name not in flows:
        raise ValueError(f"control flow {name[:80]!r} is unknown; use one of {', '.join(flows)}")
    return flows[name]


def flow_of(text: str) -> ControlFlow:
    """Return the control flow that a text says, in just its words.

    Raises:
        ValueError: It says none.
    """
    return flow_named(text)()
