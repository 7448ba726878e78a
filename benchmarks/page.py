"""Cost of the page for a run of many agent nodes: record, loading, frames while the run grows, the server's memory.

    python benchmarks/page.py --agents 200 2000

It needs the environment of `make test-view`, .venv-view/bin/python. The tree and its record are real. The language
model and the world answer at once: an agent node expands into three until there are enough, and the others take one
skill each. The run takes --rate decisions per second. `reactree view` follows it in another process, and Chromium shows
it, headless and without a GPU.

- record: megabytes of the file.
- load: seconds from the request for the finished run's page until it shows how the run ended.
- frames: milliseconds between frames of the page while the run grows (its own clock; 16.7 is as fast as the screen):
  median, 95th percentile, the longest; and frames per second overall.
- work: CPU milliseconds of the page's main thread per frame while the run grows; fewer frames have more work each.
- server: largest resident memory of the server's process, in megabytes.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from machinery import InstantModel, InstantWorld

from reactree_ros.agent.turns import Said
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.planners.spec import planner
from reactree_ros.record.writer import Recorder, RecordFile
from reactree_ros.tree.options import TreeOptions

#: Longest wait for the page, in seconds.
PATIENCE = 120
NOTE_FRAMES = """() => {
  window.frames_ = [];
  const note = (now) => { window.frames_.push(now); requestAnimationFrame(note); };
  requestAnimationFrame(note);
}"""
SHOWS_THE_END = "() => document.querySelector('.outcome .chip.ended') !== null"


@dataclass(frozen=True)
class Costs:
    """Costs of a run of some size, in the units of the table."""

    record: float
    load: float
    median: float
    most: float
    longest: float
    rate: float
    work: float
    server: float


class Spreading(InstantModel):
    """Splits a task of so many objects among three child nodes; a node with one object takes a skill."""

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        turns = list(request.turns)
        (count,) = map(int, re.findall(r"Your task is to: put away (\d+) objects", turns[1].text))
        if count > 1:
            shares = [(count - 1 + number) // 3 for number in range(3)]
            goals = ", ".join(f"put away {share} objects" for share in shares if share)
            return Pending.ready(Reply(f"Expand:\n- control flow: sequence\n- subgoals: {goals}"))
        acted = any(isinstance(turn, Said) for turn in turns)
        return Pending.ready(Reply("Act: done" if acted else "Act: go to place 7"))


def carry_out(path: Path, agents: int, rate: float) -> None:
    """Carry a run out, with at most so many decisions per second."""
    file = RecordFile(path)
    run = Episode(
        f"put away {agents} objects",
        world=InstantWorld(),
        model=Spreading(),
        planner=planner("reactree"),
        options=TreeOptions(max_depth=0, max_decisions=10**9, max_steps=10**9, stuck_after=0),
        record=Recorder(file.write, flush=file.flush),
    )
    begin = time.monotonic()
    while not run.finished:
        run.tick()
        time.sleep(max(0.0, begin + run.context.budget.decisions / rate - time.monotonic()))
    run.scored()
    file.close()
    assert len(run.context.nodes) == agents


@contextmanager
def served(path: Path) -> Iterator[tuple[str, int]]:
    """Serve a record with `reactree view`; yield the page's address and the server's process id."""
    command = [sys.executable, "-m", "reactree_ros.cli", "view", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://\S+", process.stderr.readline())
            assert found, "the server printed no address"
            yield found.group(), process.pid
        finally:
            process.terminate()


def measured(browser: Any, path: Path, agents: int, rate: float) -> Costs:
    """Carry a run out while the page shows it, then load the page again."""
    run = threading.Thread(target=carry_out, args=(path, agents, rate))
    run.start()
    while not path.exists():
        time.sleep(0.01)
    with served(path) as (url, process):
        page = browser.new_page(viewport={"width": 1300, "height": 800})
        devtools = page.context.new_cdp_session(page)
        devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(url)
        worked = _work(devtools)
        page.evaluate(NOTE_FRAMES)
        page.wait_for_function(SHOWS_THE_END, timeout=1e3 * (PATIENCE + 5 * agents / rate))
        frames, worked = page.evaluate("window.frames_"), _work(devtools) - worked
        page.close()
        run.join(PATIENCE)
        page, begin = browser.new_page(viewport={"width": 1300, "height": 800}), time.monotonic()
        page.goto(url)
        page.wait_for_function(SHOWS_THE_END, timeout=1e3 * PATIENCE)
        load = time.monotonic() - begin
        page.close()
        memory = Path(f"/proc/{process}/status").read_text()
    took = sorted(after - before for before, after in pairwise(frames))
    return Costs(
        record=path.stat().st_size / 1e6,
        load=load,
        median=statistics.median(took),
        most=took[int(0.95 * len(took))],
        longest=took[-1],
        rate=1e3 * len(took) / sum(took),
        work=1e3 * worked / len(took),
        server=int(re.findall(r"VmHWM:\s+(\d+)", memory)[0]) / 1e3,
    )


def _work(devtools: Any) -> float:
    """Return the CPU seconds of the page's main thread."""
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


def show(name: str, values: Sequence[float]) -> None:
    """Print a line of the table."""
    print(f"{name:>10}" + "".join(f"{value:>10.2f}" for value in values), flush=True)


def main() -> None:
    """Run and print."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, nargs="+", default=[200, 2000], help="agent nodes of each run")
    parser.add_argument("--rate", type=float, default=200, help="decisions per second")
    options = parser.parse_args()
    titles = ("record", "load", "median", "95 %", "longest", "a second", "work", "server")
    print(f"{'agents':>10}" + "".join(f"{title:>10}" for title in titles))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        found = []
        for agents in options.agents:
            costs = measured(browser, Path(folder, f"{agents}.jsonl"), agents, options.rate)
            found.append(astuple(costs))
            show(str(agents), found[-1])
        browser.close()
    if len(found) > 1:
        show("ratio", [last / first for first, last in zip(found[0], found[-1], strict=True)])


if __name__ == "__main__":
    main()
