"""The prompts and examples that planners bring along: files under ``config/prompts/``."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from reactree_ros.agent.prompt import Domain
from reactree_ros.tree.context import RunContext


@cache
def prompt(name: str) -> str:
    """Return the text of a file under ``config/prompts/``, e.g. ``zsp/system.txt``, without the final line end."""
    return (files("reactree_ros") / "prompts" / name).read_text(encoding="utf-8").removesuffix("\n")


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
