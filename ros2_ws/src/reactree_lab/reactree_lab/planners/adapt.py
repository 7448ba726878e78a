"""ADaPT (Prasad et al., 2024): a node tries its goal by itself, and breaks it up only if it fails.

The paper's executor is an agent node that does not expand; it says itself whether it is done or has failed. The planner
is asked for steps, joined by AND and OR. They become a sequence and a fallback of nodes that do the same (the paper's
Algorithm 1). The paper leaves two points to its prompts. Here, every node looks around first, so that it knows where
the last one left the robot. An unreadable plan is asked for again.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py_trees.behaviour import Behaviour
from py_trees.composites import Composite
from pydantic import Field

from reactree_lab.planners.plan import PROMPTS
from reactree_ros.agent.control_flow import ControlFlow
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.labels import in_lines
from reactree_ros.agent.prompt import prompt
from reactree_ros.agent.text import said_number
from reactree_ros.agent.turns import About, Told
from reactree_ros.llm.port import FreeText, Reply
from reactree_ros.planners.reactree import flat_abilities
from reactree_ros.planners.spec import AgentNodeSettings, PlannerSpec
from reactree_ros.tree.agent_node import AgentNode
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.flows import FallbackFlow, SequenceFlow
from reactree_ros.tree.program_node import Program, Step

#: How often a plan is asked for if it cannot be read.
PLANS = 3
_STEP = re.compile(r"^[^\w\n]*Step +(\d{1,9})[^\w\n:]*:[^\w\n]*(\w.*\S|\w)", re.IGNORECASE | re.MULTILINE)
_ORDER = re.compile(r"^[^\w\n]*Execution Order[^\w:]*:[^\w(]*(.*)", re.IGNORECASE | re.MULTILINE)
_TOKEN = re.compile(r"\s*(?:(\()|(\))|(AND|OR)\b|Step\s+(\d{1,9}))", re.IGNORECASE)
_FLOWS: Mapping[str, ControlFlow] = {"AND": SequenceFlow(), "OR": FallbackFlow()}
#: Where a base model continues after its plan.
_STOPS = ("\nTask:",)


class AdaptSettings(AgentNodeSettings):
    depth: int = Field(default=3, ge=1, le=100, description="most levels of goals, including the instruction")
    tries: int = Field(default=20, ge=0, description="most replies of a node that works by itself; 0: no limit")


@dataclass(frozen=True)
class Order:
    flow: ControlFlow  # in sequence, or each step only if the ones before it failed
    parts: tuple[int | Order, ...]  # numbers of steps, and nested orders


@dataclass(frozen=True)
class StepPlan:
    steps: dict[int, str]  # the steps, by number
    order: Order  # their order


def read_plan(text: str, *, cut: bool = False) -> StepPlan:
    """Read a plan; without an order, its steps are carried out one after the other."""
    if cut:
        raise ValueError("The plan was cut; name fewer and shorter steps.")
    found = [(said_number(number) or 0, step) for number, step in _STEP.findall(text)]
    steps = dict(found)
    if not steps:
        raise ValueError("There is no line 'Step 1: …'; write a plan of such lines.")
    if len(steps) < len(found):
        raise ValueError("Two steps have the same number.")
    if sorted(steps) != list(range(1, len(steps) + 1)):
        raise ValueError(f"Steps are numbered from 1 and each says something; these are: {_listed(steps)}.")
    orders = _ORDER.findall(text)
    if len(orders) > 1:
        raise ValueError("There are several lines 'Execution Order: …'; write one.")
    order = _read_order(orders[0].strip(" .*_`")) if orders else Order(SequenceFlow(), tuple(steps))
    named = _numbers(order)
    if sorted(named) != sorted(steps):
        raise ValueError(
            f"The execution order has to name each of the steps {_listed(steps)} once, not {_listed(named)}."
        )
    return StepPlan(steps, order)


def _read_order(text: str) -> Order:
    tokens = []
    at = 0
    while at < len(text):
        if (token := _TOKEN.match(text, at)) is None:
            raise ValueError(f"The execution order cannot be read from '{text[at : at + 20].strip()}' on.")
        tokens.append(next(filter(None, token.groups())).upper())
        at = token.end()
    try:
        order, rest = _group(tokens)
    except RecursionError:
        raise ValueError("The execution order has too many parentheses.") from None
    if rest:
        raise ValueError(f"The execution order has '{rest[0]}' too many.")
    return order if isinstance(order, Order) else Order(SequenceFlow(), (order,))


def _group(tokens: Sequence[str]) -> tuple[int | Order, Sequence[str]]:
    """Read parts joined by one word; return them with the rest."""
    part, rest = _part(tokens)
    parts, joints = [part], set()
    while rest and rest[0] in _FLOWS:
        joints.add(rest[0])
        part, rest = _part(rest[1:])
        parts.append(part)
    if len(joints) > 1:
        raise ValueError("The execution order joins steps by AND and OR; say by parentheses what belongs together.")
    return (Order(_FLOWS[joints.pop()], tuple(parts)) if joints else part), rest


def _part(tokens: Sequence[str]) -> tuple[int | Order, Sequence[str]]:
    if tokens and (number := said_number(tokens[0])) is not None:
        return number, tokens[1:]
    if not tokens or tokens[0] != "(":
        raise ValueError(f"The execution order has {tokens[0] if tokens else 'an end'} where a step is to be.")
    part, rest = _group(tokens[1:])
    if not rest or rest[0] != ")":
        raise ValueError("The execution order lacks a closing parenthesis.")
    return part, rest[1:]


def _numbers(order: Order) -> list[int]:
    return [one for part in order.parts for one in (_numbers(part) if isinstance(part, Order) else [part])]


def _listed(numbers: Sequence[int] | dict[int, str]) -> str:
    return ", ".join(map(str, numbers))


class AdaptNode(AgentNode):
    """Tries its goal by itself; if it fails, it has the goal broken up.

    Its children are its last skills and, after breaking up, the nodes of the steps under their control flow.

    Status:
        SUCCESS on ``done``, or if the steps succeeded.
        FAILURE if it failed and may not be broken up any more, if the steps failed, or as for
        :class:`~reactree_ros.tree.agent_node.AgentNode`.
    """

    def __init__(
        self, subgoal: str, context: RunContext, settings: AdaptSettings, parent: AdaptNode | None = None
    ) -> None:
        super().__init__(subgoal, context, flat_abilities(context, settings), parent=parent)
        self._settings = settings
        self._level: int = 1 if parent is None else parent._level + 1

    def program(self) -> Program:
        yield from self.begin()
        if (yield from self._try()):
            return True
        if self._level >= self._settings.depth:
            return False
        plan, reply = yield from self._plan()
        if plan is None:
            self.feedback_message = "no plan that could be read"
            return False
        expand = Expand(plan.order.flow, tuple(plan.steps[number] for number in _numbers(plan.order)))
        return (yield from self.expand(expand, self._composite(plan, plan.order), reply))

    def _try(self) -> Generator[Step, Any, bool]:
        """Work on the goal by itself; return whether it says that it is done."""
        replies = 0
        while not self._settings.tries or replies < self._settings.tries:
            replies += 1
            if (reached := (yield from self.decide_once())) is not None:
                return reached
        self.feedback_message = f"no end within {replies} replies"
        return False

    def _plan(self) -> Generator[Step, Any, tuple[StepPlan | None, Reply]]:
        household = self.context.household
        skills = f"The robot can: {', '.join(household.listed)}.\n{household.rules_text}".strip()
        asked = f"{prompt(PROMPTS, 'adapt.txt')}\n\n{skills}"
        corrections = ""
        for _ in range(PLANS):
            turn = Told(f"{asked}\n\nTask: {in_lines(self.subgoal, first=False)}\n{corrections}Plan:", About.TASK)
            reply = yield from self.ask_with([turn], FreeText(_STOPS))
            try:
                return read_plan(reply.text, cut=reply.cut), reply
            except ValueError as error:
                self.refuse(reply.text.strip("\n"), str(error))
                corrections = f"(The last plan could not be read: {error})\n"
        return None, reply

    def _composite(self, plan: StepPlan, order: Order) -> Composite:
        def behaviour(part: int | Order) -> Behaviour:
            if isinstance(part, Order):
                return self._composite(plan, part)
            return AdaptNode(plan.steps[part], self.context, self._settings, parent=self)

        return order.flow.over(self, [behaviour(part) for part in order.parts])


SPEC = PlannerSpec(
    name="adapt",
    summary="tries a goal by itself, and breaks it up only if that fails",
    settings=AdaptSettings,
    build=AdaptNode,
    remembers=True,
)
