"""``reactree record`` and ``reactree resume``."""

from __future__ import annotations

import enum
import json
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from reactree_ros.agent.budget import LIMITS
from reactree_ros.agent.text import in_one_line
from reactree_ros.cli import NOT_ACHIEVED
from reactree_ros.cli.commands import over_ros
from reactree_ros.cli.defaults import policy_of_user, said_by_user
from reactree_ros.cli.opening import agreed, carry_out, differs, progress, say, terminal, warn
from reactree_ros.cli.options import (
    Chosen,
    ModelAgain,
    RunOptionsGiven,
    WorldAgain,
    memory_option,
    takes,
    vision_option,
)
from reactree_ros.episode.run_spec import RunSpec, Selection
from reactree_ros.errors import UserError
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.record.reader import is_own
from reactree_ros.record.schema import Event
from reactree_ros.tree.options import RunOptions
from reactree_ros.world.skill_policy import load_policy

if TYPE_CHECKING:
    from reactree_ros.record.reader import Record


resume_app = typer.Typer(add_completion=False)
Save = Annotated[Path | None, typer.Option(help="Write the new run's record into this new file.")]
Memory = Annotated[NamedMemory | None, memory_option("An episodic memory that examples come from.")]
Vision = Annotated[Chosen | None, vision_option("Without, the record's own is not asked.")]
Policy = Annotated[Path | None, typer.Option(help="A skill policy, which holds instead of the record's own one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


MORE = RunOptionsGiven(
    panel="More than it had (without: twice the limit that it met)",
    without=[name for name in RunOptions.model_fields if name not in LIMITS],
)
#: Longest wait for the planner node, in seconds.
PATIENCE = 30.0
#: Most characters of a record's setting that are shown.
_SHOWN = 500


@resume_app.command(epilog="reactree resume run.jsonl --max-decisions 100 --save rest.jsonl")
@takes(world_option=WorldAgain(), llm=ModelAgain(), more=MORE)
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
    more: RunOptions,
) -> None:
    """Go on with a run where it stopped: its skills are carried out again, and what comes of them is compared.

    On a robot (--ros) they are not: it is asked first, and the run goes on from what the robot sees then.

    Exit codes as of `reactree run`.
    """
    from reactree_ros.episode.going_on import go_on, resumed, stop_of
    from reactree_ros.record.reader import read_record
    from reactree_ros.world.spec import ROBOT

    record = read_record(run)
    limits = {name: value for name in more.model_fields_set if (value := getattr(more, name))}
    until, spec = stop_of(record), resumed(record, limits)
    if ros:
        if llm or vision or world_option or policy or save or memory or as_json:
            raise UserError(
                "--ros: model, world, policy, memory and record are the planner node's own; leave their options out"
            )
        _go_on_over_ros(record, until, limits, planner_node, yes=yes)
    if spec.world is not None and spec.world.name == ROBOT:
        raise UserError(
            f"{run}: a robot carried this run out; `reactree resume {run} --ros` goes on from what it sees now"
        )
    spec = said_again(spec, record.run, world=world_option, llm=llm, policy=policy, memory=memory, vision=vision)
    result = carry_out(spec, partial(go_on, record, until, differs=differs), save=save, as_json=as_json)
    if not result.whole:
        raise typer.Exit(NOT_ACHIEVED)


def _go_on_over_ros(record: Record, until: int, limits: Mapping[str, int], planner: str, *, yes: bool) -> NoReturn:
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


def said_again(
    spec: RunSpec,
    header: Event,
    *,
    world: Mapping[str, Any],
    llm: Chosen | Mapping[str, Any],
    policy: Path | None = None,
    memory: NamedMemory | None = None,
    vision: Chosen | None = None,
    planner: str = "",
) -> RunSpec:
    """Return the specification of a recorded run as the user wants it now; what the user says wins.

    What the user's own program recorded here, by the header, the user has said. Of any other record nothing starts,
    opens, loads or sends something by itself: a UserError, or a question, names what the user has to say, too. Its
    memory is opened only if a package brings it, and its model for pictures is not asked.
    """
    name = spec.recorded
    if spec.world is None:
        raise UserError(f"{name}: does not say in which world it was, so nothing can be gone on with")
    if spec.llm is None and not isinstance(llm, Chosen):
        raise UserError(f"{name}: does not say which language model it was; name one with --llm")
    if not (own := is_own(header)):
        _check(spec, {"world": world} if isinstance(llm, Chosen) else {"world": world, "llm": llm})
        if not planner:
            spec.chosen_planner()
    changes: dict[str, Any] = {"planner": planner, "working_memory": None} if planner else {}
    if memory is not None:
        changes["memory"] = memory.absolute()
    elif not own and spec.unsaid("memory"):
        changes["memory"] = ""
        warn(f"The record's memory is not opened; to have examples from it, add --memory {spec.memory}")
    elif planner:
        changes["memory"] = ""
    if vision is not None:
        changes["vision"] = Selection.from_spec("llm", *vision)
    elif not own:
        changes["vision"] = None
        if spec.vision is not None:
            warn(f"Nobody is asked about pictures now; to have that, add --vision {spec.vision.name}")
    if policy := policy or policy_of_user():
        changes["policy"] = load_policy(policy)
    if isinstance(llm, Chosen):
        changes["llm"] = Selection.from_spec("llm", *llm)
    else:
        changes["llm"] = spec.llm and spec.llm.with_settings(llm, name)
    return spec.but(recorded="", world=spec.world.with_settings(world, name), **changes)


def _check(spec: RunSpec, given: Mapping[Any, Mapping[str, Any]]) -> None:
    # asks whether to use settings that only a record gives
    words = []
    for field, settings in given.items():
        for name, value in spec.unsaid(field).items():
            if name not in settings and not said_by_user(name, value):
                text = value if isinstance(value, str) else json.dumps(value)
                words.append(f"--{field}-option {shlex.quote(in_one_line(f'{name}={text}')[:_SHOWN])}")
    if not words:
        return
    effect = f"{spec.recorded}: its settings would start, open, load or send something: {' '.join(words)}"
    yes = agreed(effect, "A record may not decide that by itself. Is it what you want?")
    if yes is None:
        raise UserError(
            f"{effect} - a record may not decide that by itself; add these words to the command to have it so"
        )
    if not yes:
        raise UserError(f"{spec.recorded}: nothing was done")


app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Repeat recorded runs, go on from one of their decisions, or convert them.",
)


@app.command(
    epilog='reactree record fork run.jsonl --at 9 --say "Act: go to kitchen 1" --save other.jsonl\n'
    "reactree record fork run.jsonl --at 9 --planner react_wm"
)
@takes(world_option=WorldAgain(), llm=ModelAgain())
def fork(
    run: Annotated[Path, typer.Argument(help="The record of a run.")],
    at: Annotated[int, typer.Option(help="The decision that is to be another one, from 1.")],
    words: Annotated[str, typer.Option("--say", help="What is said instead, e.g. 'Act: go to kitchen 1'.")] = "",
    planner: Annotated[str, typer.Option(help="Another planner, which begins anew where the run was then.")] = "",
    save: Save = None,
    memory: Memory = None,
    vision: Vision = None,
    policy: Policy = None,
    as_json: AsJson = False,
    *,
    world_option: Mapping[str, Any],
    llm: Chosen | Mapping[str, Any],
) -> None:
    """Go on from a decision of a run otherwise: its skills up to there are carried out again.

    Exit codes as of `reactree run`.
    """
    from reactree_ros.episode.going_on import decision_of, go_on
    from reactree_ros.episode.run_spec import RunSpec
    from reactree_ros.record.reader import read_record

    if words and planner:
        raise UserError("--say and --planner exclude each other: another planner makes its own decisions")
    record = read_record(run)
    until = decision_of(record, at)
    again = partial(said_again, RunSpec.of_record(record), record.run, world=world_option, llm=llm)
    spec = again(policy=policy, memory=memory, vision=vision, planner=planner)
    if planner:
        spec = spec.but(person=terminal() is not None)
    begin = partial(go_on, record, until, differs=differs, **({"anew": True} if planner else {"says": words}))
    if not carry_out(spec, begin, save=save, as_json=as_json).whole:
        raise typer.Exit(NOT_ACHIEVED)


@app.command(epilog="reactree record replay run.jsonl")
def replay(
    runs: Annotated[
        list[Path], typer.Argument(help="Records of runs, or folders of them; `reactree run --save` writes one.")
    ],
    as_json: AsJson = False,
) -> None:
    """Repeat recorded decisions with the real tree, and compare everything but times with the record.

    Exit code 1 if a run is not identical.
    """
    from reactree_ros.episode.player import replay
    from reactree_ros.record.reader import read_record, records_in

    found = records_in(runs)
    differences: dict[str, str] = {}
    with progress("Replaying", quiet=as_json) as advance:
        for number, path in enumerate(found, 1):
            replayed = replay(read_record(path))
            if not replayed.identical:
                differences[str(path)] = replayed.difference
            advance(number / len(found))
    identical = len(found) - len(differences)
    if as_json:
        print(json.dumps({"runs": len(found), "runs_identical": identical, "differences": differences}))  # noqa: T201
    else:
        for name, difference in differences.items():
            say(f"{name}: {difference}")
        say(f"{identical} of {len(found)} runs identical")
    if differences:
        raise typer.Exit(NOT_ACHIEVED)


class ExportKind(str, enum.Enum):
    EXPERIENCES = "experiences"
    TEXT = "text"
    SFT = "sft"
    PICTURES = "pictures"
    SVG = "svg"
    GROWING = "growing"
    GIF = "gif"
    MP4 = "mp4"
    PNG = "png"
    DOT = "dot"
    MARKDOWN = "markdown"
    MCAP = "mcap"
    BTLOG = "btlog"


class Layout(str, enum.Enum):
    PROMPT = "prompt"
    CHAT = "chat"


@app.command(
    epilog="reactree record export run.jsonl --as markdown --out run.md\n"
    "reactree record export my_bench/runs --as sft --achieved --out train.jsonl"
)
def export(
    runs: Annotated[list[Path], typer.Argument(help="Records of runs, or folders of them.")],
    out: Annotated[Path, typer.Option(help="The new file (.jsonl) or folder.")],
    kind: Annotated[
        ExportKind,
        typer.Option(
            "--as",
            help="experiences: for `reactree memory import` (.jsonl); text: every agent node's text, likewise; "
            "sft: training data, one JSON line per decision; pictures: a folder of PNGs; "
            "svg, png, dot: a drawing of the tree; growing: an SVG that moves, with captions; "
            "gif, mp4: the same as a film (400 decisions take a minute); "
            "markdown: the run as a document; mcap: its events, for Foxglove; "
            "btlog: the tree as it changed, for Groot2. Several runs give a folder.",
        ),
    ],
    layout: Annotated[
        Layout,
        typer.Option(help="For sft: prompt (prompt and completion, for TRL) or chat (messages, for TRL and OpenAI)."),
    ] = Layout.CHAT,
    achieved: Annotated[bool, typer.Option("--achieved", help="Export only runs that reached their goal.")] = False,
) -> None:
    """Convert records to another format."""
    from reactree_ros.record.reader import read_record, records_in
    from reactree_ros.record.verdict import verdict_of

    if out.exists():
        raise UserError(f"--out {out}: exists already; name a new one")
    records = [read_record(path) for path in records_in(runs)]
    if achieved:
        records = [one for one in records if one.end is not None and verdict_of(one.end["result"]).achieved]
        if not records:
            raise UserError("--achieved: none of these runs reached its goal")
    try:
        count, what = _written(records, kind, out, layout)
    except OSError as error:
        raise UserError(f"--out {out}: {error.strerror or error}; make room there, or name another place") from error
    say(f"{count} {what} from {len(records)} runs in {out}")


def _written(records: Sequence[Record], kind: ExportKind, out: Path, layout: Layout) -> tuple[int, str]:
    from reactree_ros.memory.recorded import export_experiences
    from reactree_ros.record import export as made
    from reactree_ros.record.moment import Moment
    from reactree_ros.view.exports import EXPORTS, write_exports

    if kind.value in EXPORTS:
        write_exports(records, kind.value, out)
        return len(records), "files"
    if kind is ExportKind.SFT:
        return made.write_training_data(records, out, chat=layout is Layout.CHAT), "decisions"
    if kind is ExportKind.PICTURES:
        folders = [out] if len(records) == 1 else [out / (one.path or out).stem for one in records]
        pictures = zip(records, folders, strict=True)
        return sum(made.write_pictures(record, folder) for record, folder in pictures), "pictures"
    experiences = made.experiences_of if kind is ExportKind.EXPERIENCES else made.texts_of
    found = [experience for record in records for experience in experiences(Moment.after(record.events))]
    return export_experiences(found, out), "agent nodes"
