"""A bench's folder: settings, results and saved runs, written so that a kill at any moment loses nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reactree_lab.bench.job_runner import Finished
from reactree_lab.bench.jobs import BenchSettings, Key
from reactree_lab.bench.results import RunLine
from reactree_lab.out_folder import check_place, check_same, opened_alone
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import append_line, checked, cut_torn_line, read_json, read_lines
from reactree_ros.files.whole_file import whole_folder, write_whole

SETTINGS, RESULTS = "settings.json", "results.jsonl"
#: Runs without a result: they broke off because the model or the world was gone, or by a bug.
BROKEN = "broken.jsonl"
#: The number of runs, beside the settings.
_RUNS = "runs"
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
        self.path, self._settings = path, settings
        begun = (path / SETTINGS).exists()
        check_place(path, f"{SETTINGS} of a bench", begun=begun, leftovers=(RESULTS, f"{SETTINGS}.unfinished"))
        path.mkdir(parents=True, exist_ok=True)
        _check_links(path)
        self._results = opened_alone(path, path / RESULTS)
        try:
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
        place = self.path / folder_of(line, self._settings)
        shutil.rmtree(place, ignore_errors=True)  # left by a killed bench
        with whole_folder(place) as new:
            for name, content in finished.files.items():
                (new / name).write_bytes(content)
        if line.broken:
            with (self.path / BROKEN).open("ab") as broken:
                append_line(broken, line.as_json())
        else:
            append_line(self._results, line.as_json())

    def close(self) -> None:
        self._results.close()

    def _check(self, settings: BenchSettings, runs: int) -> None:
        file = self.path / SETTINGS
        if not file.exists():
            write_whole(file, json.dumps({**settings.as_dict(), _RUNS: runs}, indent=1) + "\n")
            return
        before, now = _flat(read_settings(self.path).as_dict()), _flat(settings.as_dict())
        for name in settings.digests or ():  # a file's content matters, not its name
            before.pop(f"suite_settings.{name}", None)
            now.pop(f"suite_settings.{name}", None)
        check_same(self.path, before, now)


def folder_of(line: RunLine, settings: BenchSettings) -> Path:
    """Return the folder of a saved run, in the bench's folder."""
    kind = "broken" if line.broken else "runs"
    return Path(kind, settings.short[line.planner], str(line.seed), str(line.task_id))


def read_settings(path: Path) -> BenchSettings:
    return read_planned(path)[0]


def read_planned(path: Path) -> tuple[BenchSettings, int]:
    """Read the settings of a bench, and the number of its runs."""
    file = path / SETTINGS
    if not file.exists():
        raise UserError(f"{path}: holds no {SETTINGS}; name the --out folder of `reactree lab bench`")
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
