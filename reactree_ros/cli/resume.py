"""``reactree resume``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from reactree_ros.agent.budget import LIMITS
from reactree_ros.cli import NOT_ACHIEVED
from reactree_ros.cli.carry_out import carry_out, differs
from reactree_ros.cli.commands import over_ros
from reactree_ros.cli.options import (
    Chosen,
    ModelAgain,
    RunOptionsGiven,
    WorldAgain,
    memory_option,
    takes,
    vision_option,
)
from reactree_ros.cli.said_again import said_again
from reactree_ros.errors import UserError
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.plugins.settings import read_settings
from reactree_ros.tree.options import RunOptions

if TYPE_CHECKING:
    from reactree_ros.record.reader import Record

app = typer.Typer(add_completion=False)
Save = Annotated[Path | None, typer.Option(help="Write the new run's record into this new file.")]
Memory = Annotated[NamedMemory | None, memory_option("An episodic memory that examples come from.")]
Vision = Annotated[Chosen | None, vision_option("Without, the record's own is not asked.")]
Policy = Annotated[Path | None, typer.Option(help="A skill policy, which holds instead of the record's own one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


class More(RunOptionsGiven):
    def __init__(self) -> None:
        super().__init__(
            panel="More than it had (without: twice the limit that it met)",
            without=[name for name in RunOptions.model_fields if name not in LIMITS],
        )

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        values = self._given(given)
        read = read_settings(RunOptions, values, where="options")
        return {name: getattr(read, name) for name in values if getattr(read, name)}


#: Longest wait for the planner node, in seconds.
PATIENCE = 30.0


@app.command()
@takes(world_option=WorldAgain(), llm=ModelAgain(), more=More())
def resume(
    run: Annotated[Path, typer.Argument(help="The record of a run that was killed, canceled or out of its budget.")],
    save: Save = None,
    memory: Memory = None,
    vision: Vision = None,
    policy: Policy = None,
    as_json: AsJson = False,
    ros: Annotated[
        bool,
        typer.Option(
            "--ros",
            help="Go on by a planner node on ROS 2, from what its robot sees now: no skill is carried out again. The "
            "record is read there, too.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --ros: do not ask first.")] = False,
    planner_node: Annotated[str, typer.Option(help="With --ros: the planner node's name.")] = "reactree_planner",
    *,
    world_option: Mapping[str, Any],
    llm: Chosen | Mapping[str, Any],
    more: dict[str, Any],
) -> None:
    """Go on with a run where it stopped: its skills are carried out again, and what comes of them is compared.

    On a robot (--ros) they are not: it is asked first, and the run goes on from what the robot sees then.

    Exit codes as of `reactree run`.
    """
    from reactree_ros.episode.going_on import go_on, resumed, stop_of
    from reactree_ros.record.reader import read_record
    from reactree_ros.world.spec import ROBOT

    record = read_record(run)
    until, spec = stop_of(record), resumed(record, more)
    if ros:
        if llm or vision or world_option or policy or save or memory or as_json:
            raise UserError(
                "--ros: model, world, policy, memory and record are the planner node's own; leave their options out"
            )
        _go_on_over_ros(record, until, more, planner_node, yes=yes)
    if spec.world is not None and spec.world.name == ROBOT:
        raise UserError(
            f"{run}: a robot carried this run out; `reactree resume {run} --ros` goes on from what it sees now"
        )
    spec = said_again(spec, record.run, world=world_option, llm=llm, policy=policy, memory=memory, vision=vision)
    result = carry_out(spec, partial(go_on, record, until, differs=differs), save=save, as_json=as_json)
    if not result.whole:
        raise typer.Exit(NOT_ACHIEVED)


def _go_on_over_ros(record: Record, until: int, limits: Mapping[str, int], planner: str, *, yes: bool) -> NoReturn:
    from reactree_ros.agent.text import in_one_line
    from reactree_ros.episode.going_on import decisions_before, last_skill_of

    there = over_ros("resume")
    instruction, last = record.run["instruction"], last_skill_of(record, until)
    came_to = f"'{instruction}', after {decisions_before(record, until)} decisions; {last}"
    typer.echo(in_one_line(came_to), err=True)
    question = f"The robot of {planner} goes on from what it sees now, and does nothing of that again. Go on?"
    if not yes and not typer.confirm(question, err=True):
        raise UserError("nothing was done; --yes goes on without asking")
    assert record.path is not None  # it was read from there
    raise typer.Exit(there.carry_out(planner, there.resuming(record.path.resolve(), limits), PATIENCE, args=[]))
