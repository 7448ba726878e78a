"""``reactree lab bootstrap``."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import typer
from rich.console import Console

from reactree_lab.bench.spec import SUITES
from reactree_ros.cli import NOT_ACHIEVED
from reactree_ros.cli.opening import chosen_planner, open_memory, open_model, progress
from reactree_ros.cli.options import Chosen, Named, NamedModel, RunOptionsGiven, memory_option, takes
from reactree_ros.cli.run import Planner
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.tree.options import RunOptions, TreeOptions

app = typer.Typer(add_completion=False)


@app.command()
@takes(suite=Named(SUITES, "suite"), llm=NamedModel(), options=RunOptionsGiven())
def bootstrap(
    memory: Annotated[NamedMemory, memory_option("The episodic memory to fill; an unfinished one is continued.")],
    seed_memory: Annotated[
        NamedMemory | None, memory_option("A memory with a few trajectories to start with; without, a fixed example.")
    ] = None,
    planner: Planner = "",
    *,
    suite: Chosen,
    llm: Chosen,
    options: RunOptions,
) -> None:
    """Fill an episodic memory with the successful runs of training tasks.

    A tree's experiences are stored by subgoal, a flat planner's run as a whole. Exit code 1 if the memory is still
    empty, or a run broke off.
    """
    from reactree_lab.bootstrap import Bootstrap
    from reactree_ros.episode.run_spec import RunSpec, Selection

    chosen = chosen_planner(planner, llm)
    spec = RunSpec(
        planner=chosen.name,
        options=TreeOptions(**dict(options)),
        world=Selection.from_spec("suite", *suite),
        llm=Selection.from_spec("llm", *llm),
        memory=memory.absolute(),
    ).decided_by(llm.spec.trained_for(llm.settings))
    suite.spec.check_installed()
    todo = suite.spec.tasks(suite.settings)
    if seed_memory is not None:
        seed_memory.check_exists()
    with (
        open_model(*llm) as model,
        open_memory(memory) as episodic,
        open_memory(seed_memory) if seed_memory else nullcontext() as other,
    ):
        one = Bootstrap(episodic, spec, model=model, make_world=suite.spec.make_world)
        begun_with = one.begin_with(other) if other is not None else 0
        before, attempts = len(episodic), []
        with progress("Bootstrapping") as advance:
            for attempt in one.attempts(todo):
                attempts.append(attempt)
                advance(len(attempts) / len(todo))
        total = len(episodic)
    done = [attempt.achieved for attempt in attempts if not attempt.broken]
    half, broken = len(done) // 2, len(attempts) - len(done)
    again = f"{broken} runs broke off; repeat the command to run them again.\n" if broken else ""
    Console().print(
        f"{sum(done)} of {len(done)} tasks reached their goal ({sum(done[:half])} of the first {half}, "
        f"{sum(done[half:])} of the rest).\n{again}"
        f"{memory}: {total} experiences; {begun_with} from --seed-memory, {total - before} new ones from these runs.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    if broken or not total:
        raise typer.Exit(NOT_ACHIEVED)
