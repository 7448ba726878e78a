"""A bench's folder: settings, results and saved runs, written so that a kill at any moment loses nothing."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reactree_lab.bench.job_runner import Finished
from reactree_lab.bench.jobs import BenchSettings, Key
from reactree_lab.bench.results import RunLine
from reactree_ros.errors import UserError
from reactree_ros.files.json_lines import append_line, cut_torn_line, read_lines
from reactree_ros.files.read_back import checked, read_json
from reactree_ros.files.whole_file import write_whole

SETTINGS, RESULTS = "settings.json", "results.jsonl"
#: Runs without a result: they broke off because the model or the world was gone, or by a bug.
BROKEN = "broken.jsonl"
#: The number of runs, beside the settings.
_RUNS = "runs"
_NEW_SETTINGS = f"{SETTINGS}.unfinished"
#: Ending of the name of an unfinished folder.
_UNFINISHED = ".unfinished"


class BenchFolder:
    """A bench's folder, made if it does not exist, and open for writing by this process only.

    A run counts as done once its line, with the line end, is in ``results.jsonl``. The saved run is moved into place
    before that, so that every line has its run. A run that broke off (e.g. a server died) has no result: it is noted in
    ``broken.jsonl``, saved in ``broken/``, and repeated when the bench is resumed.

    Attributes:
        done: The lines of finished runs, which need not be repeated.
    """

    def __init__(self, path: Path, settings: BenchSettings, *, runs: int = 0) -> None:
        self.path = path
        if path.exists() and not path.is_dir():
            raise UserError(f"--out {path}: is a file; name a folder")
        begun = {SETTINGS, RESULTS, _NEW_SETTINGS}  # files that a kill right at the start may leave
        if path.is_dir() and not (path / SETTINGS).exists() and {one.name for one in path.iterdir()} - begun:
            raise UserError(f"--out {path}: is not empty and holds no {SETTINGS} of a bench; name a new folder")
        path.mkdir(parents=True, exist_ok=True)
        _check_links(path)
        self._results = (path / RESULTS).open("ab")
        try:
            self._lock()
            self._check(settings, runs)
            for name in (RESULTS, BROKEN):
                cut_torn_line(path / name)
            self.done: dict[Key, RunLine] = {line.key: line for line in read_results(path)}
            for unfinished in list(path.glob(f"*/*/*/*{_UNFINISHED}")):
                shutil.rmtree(unfinished)
        except BaseException:
            self._results.close()
            raise

    def record(self, finished: Finished) -> None:
        """Save a run, then write its line. After this returns, the run is done for good, unless it broke off."""
        line = finished.line
        place = self.path / line.folder
        unfinished = place.with_name(f"{place.name}{_UNFINISHED}")
        for folder in (unfinished, place):  # left by a killed bench
            if folder.exists():
                shutil.rmtree(folder)
        unfinished.mkdir(parents=True)
        for name, content in finished.files.items():
            file = unfinished / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        unfinished.rename(place)
        if line.broken:
            with (self.path / BROKEN).open("ab") as broken:
                append_line(broken, line.as_json())
        else:
            append_line(self._results, line.as_json())

    def close(self) -> None:
        """Let other processes write."""
        self._results.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._results, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(f"--out {self.path}: another bench is writing there; wait for its end") from error

    def _check(self, settings: BenchSettings, runs: int) -> None:
        file, now = self.path / SETTINGS, _flat(settings.as_dict())
        if not file.exists():
            write_whole(file, json.dumps({**settings.as_dict(), _RUNS: runs}, indent=1) + "\n")
            return
        before = _flat(read_settings(self.path).as_dict())
        paths = {f"suite_settings.{name}" for name in settings.digests or ()}  # a file's content matters, not its name
        different = [
            f"{name} was {json.dumps(before.get(name))}, now {json.dumps(now.get(name))}"
            for name in sorted({*before, *now} - paths)
            if before.get(name) != now.get(name)
        ]
        if different:
            raise UserError(
                f"--out {self.path}: was started with other settings: {'; '.join(different)}; "
                "use the same ones to resume it, or name a new folder"
            )


def read_settings(path: Path) -> BenchSettings:
    return _read_settings(path)[0]


def read_planned(path: Path) -> int:
    """Read the number of runs of the whole bench in a folder."""
    return _read_settings(path)[1]


def _read_settings(path: Path) -> tuple[BenchSettings, int]:
    file = path / SETTINGS
    if not file.exists():
        raise UserError(f"{path}: holds no {SETTINGS}; name the --out folder of `reactree bench`")
    return read_json(file, "settings of a bench", _parsed)


def _parsed(values: Any) -> tuple[BenchSettings, int]:
    runs = 0
    if isinstance(values, Mapping):
        # A file that a folder names is not opened for its digest.
        values = {**values, "digests": values.get("digests") or {}}
        runs = checked(int, values.pop(_RUNS, 0))
    return checked(BenchSettings, values), runs


def read_results(path: Path) -> list[RunLine]:
    """Read the result of each run in a bench's folder, which may still be growing."""
    return list({line.key: line for line in read_lines(path / RESULTS, RunLine)}.values())


def read_broken(path: Path) -> list[RunLine]:
    """Read the runs in a bench's folder whose last attempt broke off."""
    if not (path / BROKEN).exists():
        return []
    last = {line.key: line for line in read_lines(path / BROKEN, RunLine)}
    done = {line.key for line in read_results(path)}
    return [line for key, line in last.items() if key not in done]


def _check_links(path: Path) -> None:
    """Check that a folder, which somebody else may have made, contains all that a bench writes and deletes there."""
    for pattern in ("*", "*/*", "*/*/*", "*/*/*/*"):  # upper folders first, so that no link is followed
        for one in path.glob(pattern):
            if one.is_symlink():
                said = "a bench writes only into its folder; replace the link by its target, or name a new folder"
                raise UserError(f"--out {path}: {one.relative_to(path)} is a link; {said}")


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return nested settings by dotted names, e.g. ``llm.model``."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{above}{name}.") if isinstance(value, Mapping) else {f"{above}{name}": value}
    return flat
