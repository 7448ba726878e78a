"""The registry's entry of a planner, and a chosen planner: its name with options."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from reactree_ros.agent.decision import DECISIONS
from reactree_ros.agent.household import Household
from reactree_ros.agent.prompt import prompt
from reactree_ros.agent.transcript import Example
from reactree_ros.errors import UserError
from reactree_ros.plugins import Registry, Spec, more_come
from reactree_ros.plugins.settings import (
    Harmless,
    Settings,
    did_you_mean,
    named_settings,
    plain,
    reaching,
    read_settings,
)
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal_node import GoalNode

#: Ending of the name of a planner with working memory.
WM = "_wm"


def joined(names: str) -> tuple[str, ...]:
    return tuple(filter(None, names.split("+")))


def known_in(registry: Registry[Any]) -> AfterValidator:
    def check(names: str) -> str:
        for name in joined(names):
            try:
                registry.get(name)
            except UserError as error:
                raise ValueError(str(error)) from error
        return names

    return AfterValidator(check)


class PlannerSettings(Settings):
    """Settings of every planner."""

    system_text: bool = Field(default=True, description="begin prompts with the system text")
    fixed_example: bool = Field(
        default=True, description="show examples that nobody names: a package's, or a fixed one (section 5.3)"
    )

    @property
    def takes_examples(self) -> bool:
        return self.fixed_example


class AgentNodeSettings(PlannerSettings):
    """Settings of planners with agent nodes."""

    break_rounds: bool | None = Field(
        default=None,
        description="do not offer a skill whose repetition brought nothing new, until something new is seen; "
        "auto: unless the model is trained for the planner",
    )
    own_examples: bool | None = Field(
        default=None,
        description="find examples for each node's own goal (section 4.2), not once for the instruction and all nodes, "
        "where a prefix cache serves them; auto: if the model is trained for the planner",
    )
    questions: int = Field(default=0, ge=0, description="most questions to a person in a run, by `Ask:`; 0: ask nobody")
    more_decisions: Annotated[str, Harmless(plain), known_in(DECISIONS)] = Field(
        default="", description="further kinds of decision that nodes may take, by name, joined by +, e.g. of a plug-in"
    )
    search_memory: bool = Field(
        default=False,
        description="tell nodes which places were searched, by whom, in which order, and which were not; for NAME_wm",
    )

    @property
    def kinds(self) -> tuple[str, ...]:
        return joined(self.more_decisions)


@dataclass(frozen=True, kw_only=True)
class PlannerSpec(Spec):
    """A planner.

    Attributes:
        build: Builds the tree for an instruction from its nodes' shared state and the settings.
    """

    build: Callable[[str, RunContext, Any], GoalNode]
    settings: type[Settings] = PlannerSettings  # its options, a :class:`PlannerSettings`
    remembers: bool = False  # whether it can use working memory, as ``NAME_wm``


PLANNERS: Registry[PlannerSpec] = Registry("planner", "reactree_ros.planners", PlannerSpec, first=("reactree", "react"))


@dataclass(frozen=True)
class Planner:
    """A planner with or without working memory and with its options, e.g. ``reactree_wm:control_flow=seq``."""

    name: str  # its name, as given
    spec: PlannerSpec  # its entry in the registry
    settings: PlannerSettings  # its options
    working_memory: bool  # whether it remembers where things were seen

    def build(self, instruction: str, context: RunContext) -> GoalNode:
        self.spec.check_installed()
        context.system_text, context.fixed_example = self.settings.system_text, self.settings.fixed_example
        if isinstance(self.settings, AgentNodeSettings) and self.settings.search_memory:
            if not context.recalls:
                raise UserError(
                    f"planner '{self.name}': search_memory is a part of working memory; name '{self.spec.name}{WM}'"
                )
            context.tells_searched = True
        return self.spec.build(instruction, context, self.settings)

    def reaching(self) -> dict[str, Any]:
        return reaching(type(self.settings), self.settings.model_dump(exclude_unset=True))


def planner_names() -> tuple[str, ...]:
    return (*PLANNERS.names, *(f"{spec.name}{WM}" for spec in PLANNERS if spec.remembers))


def planner(name: str | PlannerSpec) -> Planner:
    """Return a planner by its name, or by its spec with the settings that it has by default. Raises UserError."""
    if isinstance(name, PlannerSpec):
        settings = name.settings()
        assert isinstance(settings, PlannerSettings)
        return Planner(name.name, name, settings, working_memory=False)
    first, values = named_settings(name, "planner")
    bare = first.removesuffix(WM)
    remembers = first != bare and first not in PLANNERS.names
    bare = bare if remembers else first
    if bare not in PLANNERS.names or (remembers and not PLANNERS.get(bare).remembers):
        raise UserError(f"planner '{first}' is unknown; {did_you_mean(first, planner_names())}{more_come()}")
    spec = PLANNERS.get(bare)
    settings = read_settings(spec.settings, values, where=f"planner '{bare}'")
    assert isinstance(settings, PlannerSettings)
    return Planner(name, spec, settings, remembers)


def fixed_example(household: Household, *names: str) -> tuple[Example, ...]:
    """Return a household's fixed example for a planner: a trajectory or, for a tree, those of all agent nodes.

    A file ``NAME_short.txt`` beside it is the example for prompts that the long one does not fit into. That of a tree
    has sequences and fallbacks alone, so that it serves ``NAME_seq_fb``, too.
    """
    for name in names:
        if long := _of_file(household, name):
            return (replace(long, short=_of_file(household, f"{name.removesuffix('_seq_fb')}_short")),)
    return ()


def _of_file(household: Household, name: str) -> Example | None:
    with contextlib.suppress(FileNotFoundError):
        return Example.of_text(prompt(household.prompts, f"{name}.txt"), start_line=household.start_line)
    return None
