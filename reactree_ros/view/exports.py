"""Exports of a record: the tree as a drawing (SVG, PNG, dot), the run as Markdown, its events as MCAP or for Groot2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reactree_ros.files.whole_file import whole_folder, write_whole
from reactree_ros.record.moment import Moment
from reactree_ros.record.reader import Record
from reactree_ros.record.schema import Event
from reactree_ros.view.btlog import as_btlog
from reactree_ros.view.drawing import as_dot, as_png, as_svg
from reactree_ros.view.mcap_file import as_mcap
from reactree_ros.view.story import as_markdown


@dataclass(frozen=True)
class Export:
    """A file format for a run."""

    suffix: str
    media_type: str
    make: Callable[[Sequence[Event]], str | bytes]


def _of_moment(make: Callable[[Moment], str | bytes]) -> Callable[[Sequence[Event]], str | bytes]:
    """Return an export of the moment that the events lead to."""
    return lambda events: make(Moment.after(events))


EXPORTS = {
    "svg": Export("svg", "image/svg+xml", _of_moment(as_svg)),
    "png": Export("png", "image/png", _of_moment(as_png)),
    "dot": Export("dot", "text/vnd.graphviz", _of_moment(as_dot)),
    "markdown": Export("md", "text/markdown", _of_moment(as_markdown)),
    "mcap": Export("mcap", "application/octet-stream", as_mcap),
    "btlog": Export("btlog", "application/octet-stream", as_btlog),
}


def export(record: Record, kind: str, at: int | None = None) -> bytes:
    """Export a run, up to an event if its number is given."""
    events = record.events if at is None else record.events[: at + 1]
    content = EXPORTS[kind].make(events)
    return content if isinstance(content, bytes) else content.encode()


def write_exports(records: Sequence[Record], kind: str, out: Path) -> None:
    """Export runs: one into a file, several into a folder, each with a number and the name of its record."""
    if len(records) == 1:
        write_whole(out, export(records[0], kind))
        return
    with whole_folder(out) as folder:
        for number, record in enumerate(records, 1):
            name = Path(record.name).stem
            (folder / f"{number:04}_{name}.{EXPORTS[kind].suffix}").write_bytes(export(record, kind))
