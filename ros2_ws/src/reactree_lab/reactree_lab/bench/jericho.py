"""The task suite ``jericho``: the text adventures in a folder of story files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from reactree_lab.bench import published
from reactree_lab.bench.spec import SuiteSpec
from reactree_lab.worlds.jericho.story import StoryTask, numbered, stories_in
from reactree_lab.worlds.jericho.world import JerichoWorld
from reactree_ros.plugins.settings import Harmless, Settings


class JerichoSuiteSettings(Settings):
    stories: str = Field(default="", description="folder of story files of the Z-machine (.z1 to .z8), one task each")
    instruction: Annotated[str, Harmless()] = Field(
        default="", description="the instruction, with {name} for the story's name; empty: to play it in full score"
    )
    seed: int = Field(
        default=0, ge=0, description="seed of the games' random events; 0: the seed of jericho's walkthroughs"
    )


def _tasks(settings: JerichoSuiteSettings) -> Mapping[int, StoryTask]:
    return numbered(stories_in(settings.stories), settings.instruction, settings.seed)


SPEC = SuiteSpec(
    name="jericho",
    summary="the text adventures of a folder of story files, by name, in the world `jericho`",
    settings=JerichoSuiteSettings,
    extra="reactree_lab[jericho]",
    needs=("jericho",),
    tasks=_tasks,
    make_world=JerichoWorld,
    ssr="score",
    published=(published.JERICHO,),
    flags=("stories",),
)
