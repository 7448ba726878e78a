"""``reactree lab import``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reactree_ros.cli.opening import progress
from reactree_ros.errors import UserError
from reactree_ros.plugins.settings import or_nearest

app = typer.Typer(add_completion=False)


@app.command("import")
def import_(
    trajectories: Annotated[
        list[Path], typer.Argument(help="The authors' recorded runs of WAH-NL or ALFRED: JSON lines.")
    ],
    out: Annotated[Path, typer.Option(help="The new folder for the records, with a subfolder for each file.")],
    variant: Annotated[
        str | None,
        typer.Option(help="react, react_wm, reactree or reactree_wm; by default each file's name."),
    ] = None,
) -> None:
    """Convert recorded trajectories to records, one per run, by repeating each in the recorded world."""
    from reactree_lab.recordings import VARIANTS, load_recording
    from reactree_lab.replay_recordings import episode_of
    from reactree_ros.record.writer import RecordFile

    if out.exists():
        raise UserError(f"--out {out}: exists already; name a new folder")
    chosen = {path: variant or path.stem for path in trajectories}
    for path, name in chosen.items():
        if name not in VARIANTS:
            known = f"{', '.join(VARIANTS)}{or_nearest(name, VARIANTS)}"
            raise UserError(f"{path}: --variant {name}: is none of {known}")
    recorded = [(path, run) for path in trajectories for run in load_recording(path)]
    with progress("Importing") as advance:
        for number, (path, run) in enumerate(recorded, 1):
            file = RecordFile(out / path.stem / f"{run.run}.jsonl")
            episode_of(run, chosen[path], write=file.write, flush=file.flush).run()
            file.close()
            if file.problem:
                raise UserError(file.problem)
            advance(number / len(recorded))
    Console().print(f"{len(recorded)} runs in {out}", markup=False, highlight=False, soft_wrap=True)
