"""``reactree record``."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reactree_ros.cli import NOT_ACHIEVED
from reactree_ros.cli.opening import carry_out, differs, progress, say, terminal
from reactree_ros.cli.options import Chosen, ModelAgain, WorldAgain, takes
from reactree_ros.cli.resume import AsJson, Memory, Policy, Save, Vision, said_again
from reactree_ros.errors import UserError

if TYPE_CHECKING:
    from reactree_ros.record.reader import Record

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Repeat recorded runs, go on from one of their decisions, or convert them.",
)


@app.command()
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


@app.command()
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
    PNG = "png"
    DOT = "dot"
    MARKDOWN = "markdown"
    MCAP = "mcap"
    BTLOG = "btlog"


class Layout(str, enum.Enum):
    PROMPT = "prompt"
    CHAT = "chat"


@app.command()
def export(
    runs: Annotated[list[Path], typer.Argument(help="Records of runs, or folders of them.")],
    out: Annotated[Path, typer.Option(help="The new file (.jsonl) or folder.")],
    kind: Annotated[
        ExportKind,
        typer.Option(
            "--as",
            help="experiences: for `reactree memory import` (.jsonl); text: every agent node's text, likewise; "
            "sft: training data, one JSON line per decision; pictures: a folder of PNGs; "
            "svg, png, dot: a drawing of the tree; markdown: the run as a document; mcap: its events, for Foxglove; "
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
