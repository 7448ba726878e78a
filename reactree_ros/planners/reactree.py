"""ReAcTree: an agent node that grows a tree of agent nodes (paper, section 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from py_trees.behaviour import Behaviour
from pydantic import Field

from reactree_ros.agent.control_flow import CONTROL_FLOWS, PAPER, flow_named
from reactree_ros.planners.spec import AgentNodeSettings, PlannerSpec, fixed_example, joined, known_in
from reactree_ros.plugins.settings import Harmless, plain
from reactree_ros.tree.agent_node import Abilities, AgentNode
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.own_tree import OwnTree

#: Control flows of an expansion, by the names of the paper's ablation (section 5.4).
_OF_THE_PAPER = {"all": PAPER, "seq+fb": ("sequence", "fallback"), "seq": ("sequence",)}


class ReactreeSettings(AgentNodeSettings):
    """Options of ReAcTree."""

    control_flow: Literal["all", "seq+fb", "seq"] = Field(
        default="all", description="control flows of an expansion (section 5.4)"
    )
    more_control_flows: Annotated[str, Harmless(plain), known_in(CONTROL_FLOWS)] = Field(
        default="", description="further control flows of an expansion, by name, joined by +, e.g. of a plug-in"
    )
    summarise_after: int = Field(
        default=0,
        ge=0,
        description="tokens of a node's own turns above which the older half is summarised in its prompt; 0: never",
    )
    re_expand: int = Field(
        default=0,
        ge=0,
        description="after how many failed expansions a node decides again, knowing what failed and why",
    )

    @property
    def takes_examples(self) -> bool:
        return super().takes_examples and self.control_flow == "all"


def reactree(instruction: str, context: RunContext, settings: ReactreeSettings) -> AgentNode:
    return AgentNode(instruction, context, abilities_of(context, settings))


def abilities_of(context: RunContext, settings: ReactreeSettings) -> Abilities:
    household = context.household
    flows = [flow for flow in _OF_THE_PAPER[settings.control_flow] if flow in household.control_flows]
    own = [flow for flow in household.control_flows if flow not in PAPER]
    few = "" if [*flows, *own] == list(household.control_flows) else f"_{settings.control_flow.replace('+', '_')}"
    names = [f"reactree_wm{few}"] if context.recalls else []
    examples = fixed_example(household, *names, f"reactree{few}")  # this is an example without recalls, too
    named = [*flows, *(own if settings.control_flow == "all" else ()), *joined(settings.more_control_flows)]
    return Abilities(
        tuple(map(flow_named, dict.fromkeys(named))),
        settings.summarise_after,
        examples,
        settings.break_rounds,
        settings.own_examples,
        questions=settings.questions,
        re_expand=settings.re_expand,
        more=settings.kinds,
    )


SPEC = PlannerSpec(
    name="reactree",
    summary="agent nodes that think, act and expand into a growing tree",
    settings=ReactreeSettings,
    build=reactree,
    remembers=True,
)


def own_tree(name: str, make: Callable[[OwnTree], Behaviour], summary: str = "a tree of one's own") -> PlannerSpec:
    """Return a planner that runs a tree of one's own."""

    def build(instruction: str, context: RunContext, settings: ReactreeSettings) -> OwnTree:
        return OwnTree(instruction, context, make, abilities_of(context, settings))

    return PlannerSpec(name=name, summary=summary, settings=ReactreeSettings, build=build, remembers=True)


def flat_abilities(context: RunContext, settings: AgentNodeSettings) -> Abilities:
    names = ("react_wm", "react") if context.recalls else ("react",)
    examples = fixed_example(context.household, *names)
    return Abilities(
        (), 0, examples, settings.break_rounds, settings.own_examples, settings.questions, more=settings.kinds
    )


def react(instruction: str, context: RunContext, settings: AgentNodeSettings) -> AgentNode:
    return AgentNode(instruction, context, flat_abilities(context, settings))


REACT = PlannerSpec(
    name="react", summary="one agent node that thinks and acts", settings=AgentNodeSettings, build=react, remembers=True
)
