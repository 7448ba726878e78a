"""Examples of a robot's own skills: runs in the world of its declarations that reached their goal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from reactree_ros.episode.assembly import assemble
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import read_yaml
from reactree_ros.llm.port import LanguageModel
from reactree_ros.llm.script import ScriptModel
from reactree_ros.memory.experience import Experience
from reactree_ros.memory.spec import NONE
from reactree_ros.plugins.settings import Settings, read_settings
from reactree_ros.record.verdict import EpisodeResult
from reactree_ros.robot.declared import SPEC, DeclaredSettings, Goal
from reactree_ros.tree.options import TreeOptions


class ExampleTask(DeclaredSettings):
    """A task in the world of a robot's declarations, with that world's settings."""

    instruction: str = Field(min_length=1, description="what to do")
    goal: Goal = Field(min_length=1, description="what has to hold at the end, written as requires")
    replies: list[str] = Field(default_factory=list, description="how it is done, by hand; none: the model decides")


class _Tasks(Settings):
    tasks: Annotated[list[ExampleTask], Field(min_length=1)]


def load_tasks(path: Path, robot: str) -> Sequence[ExampleTask]:
    document, _ = read_yaml(path)
    read = read_settings(_Tasks, document, where=str(path)).tasks
    return [one.model_copy(update={"robot": robot}) for one in read]


def attempts(
    tasks: Sequence[ExampleTask], *, planner: str, options: TreeOptions, model: LanguageModel | None
) -> Iterator[tuple[ExampleTask, EpisodeResult, Sequence[Experience]]]:
    """Carry tasks out, one after the other; yields each with its result, and what is to be learnt of it."""
    for number, task in enumerate(tasks):
        decides = ScriptModel(task.replies, f"the replies of '{task.instruction}'") if task.replies else model
        if decides is None:
            raise UserError(f"'{task.instruction}': write its replies, or name a language model that decides")
        spec = RunSpec(instruction=task.instruction, planner=planner, options=options, memory=NONE, task_id=number).but(
            task_name="goal"
        )
        with SPEC.make(task, None) as world:
            episode = assemble(spec, world=world, model=decides)
            result = episode.run()
            yield task, result, episode.experiences() if result.whole else ()
