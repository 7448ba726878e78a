"""The fixed example that stands in for episodic memory (paper, section 5.3)."""

from __future__ import annotations

from reactree_ros.agent.prompt import Domain
from reactree_ros.agent.prompt_files import prompt
from reactree_ros.tree.context import RunContext


def fix_example(context: RunContext, planner: str, flows: str = "") -> None:
    """Give a run the fixed example of one task that stands in for episodic memory (paper, section 5.3).

    It is a trajectory of the expert; of a tree, all agent nodes' one after the other. Which household it is of, the
    world says when it is asked.

    Args:
        context: Of the run.
        planner: Whose example.
        flows: Ends the names of the examples that use few control flows; ALFRED's uses nothing but sequences anyway.
    """

    def example() -> tuple[str, ...]:
        remembering = "_wm" if context.working_memory is not None else ""
        domain = context.world.domain
        return (prompt(f"{domain.value}/{planner}{remembering}{flows if domain is Domain.WAH_NL else ''}.txt"),)

    context.fixed_examples = example
