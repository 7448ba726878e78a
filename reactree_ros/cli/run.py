"""``reactree run``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from reactree_ros.cli import NOT_ACHIEVED
from reactree_ros.cli.opening import carry_out, chosen_planner, terminal, warn
from reactree_ros.cli.options import (
    Chosen,
    Named,
    NamedModel,
    Options,
    RunOptionsGiven,
    complete_planner,
    memory_option,
    takes,
    vision_option,
)
from reactree_ros.errors import UserError
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.tree.options import RunOptions, TreeOptions
from reactree_ros.world.spec import WORLDS

app = typer.Typer(add_completion=False)
WHO_PLANS = (
    "Who plans, see `reactree list planners`; with _wm where it remembers where things were seen; with options as "
    "NAME:OPTION=VALUE."
)
UNNAMED = "Without, examples are those that come with the household, if there are any; none: a fixed one."
Planner = Annotated[
    str,
    typer.Option(
        help=f"{WHO_PLANS} Empty: the one that the language model was trained for, or reactree_wm.",
        metavar="NAME",
        autocompletion=complete_planner,
    ),
]
KeptMap = Annotated[
    Path | None,
    typer.Option("--map", help="A map of the house, kept from run to run in this file: what was seen where."),
]
PolicyFile = Annotated[
    Path | None, typer.Option(help="A skill policy: what may be done, what a person must confirm, what is never done.")
]


def run(
    instruction: Annotated[str | None, typer.Argument(help="What to do; by default what the chosen task asks.")] = None,
    planner: Planner = "",
    memory: Annotated[
        NamedMemory | None,
        memory_option(
            f"An episodic memory: examples come from it, and a run that reaches its goal is added. {UNNAMED}"
        ),
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the run's record into this new file as it happens.")] = None,
    view: Annotated[bool, typer.Option("--view", help="Show the run on a page, where it can be steered.")] = False,
    paused: Annotated[bool, typer.Option("--paused", help="With --view: wait before the first decision.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    house_map: KeptMap = None,
    policy: PolicyFile = None,
    vision: Annotated[Chosen | None, vision_option()] = None,
    *,
    world: Chosen,
    llm: Chosen,
    options: RunOptions,
) -> None:
    """Carry out an instruction in a household.

    Exit code 0: the goal was reached, or is claimed as a whole and nothing could check it. 1: it was not reached.
    2: bad usage or input.
    """
    from reactree_ros.episode.assembly import assemble
    from reactree_ros.episode.run_spec import RunSpec, Selection
    from reactree_ros.view import check_installed
    from reactree_ros.world.skill_policy import load_policy
    from reactree_ros.world.spec import Place

    if paused and not view:
        raise UserError("--paused needs --view: only on the page can the run be told to go on")
    if view:
        check_installed()
    chosen, rules = chosen_planner(planner, llm), load_policy(policy) if policy else None
    place, answers = Place.from_settings(*world), view or terminal() is not None
    spec = RunSpec.in_place(
        place,
        instruction,
        llm=llm,
        planner=chosen.name,
        options=TreeOptions(**dict(options)),
        policy=rules,
        memory="" if memory is None else memory.absolute(),
        vision=vision and Selection.from_spec("llm", *vision),
        person=answers,
    )
    if not answers and chosen.settings.model_dump().get("questions"):
        warn("Nobody can be asked: nothing can be typed here; with --view a person answers on the page")
    result = carry_out(
        spec,
        assemble,
        place=place,
        save=save,
        as_json=as_json,
        view=view,
        paused=paused,
        remember=True,
        house_map=house_map,
    )
    if not result.whole:
        raise typer.Exit(NOT_ACHIEVED)


def command_in(world: Options, llm: str | None = None) -> Callable[..., None]:
    """Return the command that carries an instruction out in a world; ``llm`` decides by default."""
    return takes(world=world, llm=NamedModel(default=llm), options=RunOptionsGiven())(run)


app.command(
    epilog='reactree run "Put 1 pudding and 1 apple on the coffee table" --llm small\n'
    'reactree run "Put the book on the bed" --house villa --view\n'
    'reactree run "Put the book on the bed" --llm openai --base-url http://gpu-machine:8000/v1 --save run.jsonl'
)(command_in(Named(WORLDS, "world")))
