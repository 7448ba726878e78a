"""The task suite ``alfworld``: games of ALFWorld, made up from seeds or a user's own."""

from __future__ import annotations

from reactree_lab.bench import published
from reactree_lab.bench.spec import SuiteSpec
from reactree_lab.worlds.alfworld.world import AlfworldGames, AlfworldWorld, games_of

SPEC = SuiteSpec(
    name="alfworld",
    summary="games of ALFWorld's six types, made up from seeds or your own, in the world `alfworld`",
    settings=AlfworldGames,
    extra="reactree_lab[alfworld]",
    needs=("alfworld", "textworld", "fast_downward"),
    tasks=games_of,
    make_world=AlfworldWorld,
    ssr="goal conditions",
    published=(published.ALFWORLD,),
    flags=("task_types",),
)
