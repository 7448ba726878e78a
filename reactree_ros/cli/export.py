"""``reactree record export``."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from reactree_ros.errors import UserError

if TYPE_CHECKING:
    from reactree_ros.record.reader import Record

app = typer.Typer(add_completion=False)


class ExportKind(str, enum.Enum):
    """Formats of an export."""

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
    """Layouts of training data."""

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
    Console().print(f"{count} {what} from {len(records)} runs in {out}", markup=False, highlight=False, soft_wrap=True)


def _written(records: Sequence[Record], kind: ExportKind, out: Path, layout: Layout) -> tuple[int, str]:
    """Write records in another format; return the number and kind of exported items."""
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
    of = made.experiences_of if kind is ExportKind.EXPERIENCES else made.texts_of
    found = [experience for record in records for experience in of(Moment.after(record.events))]
    return export_experiences(found, out), "agent nodes"
