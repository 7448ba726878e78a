"""How far a bench is, and about how long the rest takes."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from reactree_lab.bench.results import RunLine, grouped_by_end

#: Seconds between two lines where there is no terminal.
EVERY = 30.0


class Tally:
    """Counts the runs of a bench.

    The estimate is of the runs of this session: what an earlier one finished only leaves less to do.

    Args:
        runs: Number of runs of the whole bench.
        done: The runs that earlier sessions finished.
    """

    def __init__(self, runs: int, done: Iterable[RunLine] = (), *, clock: Callable[[], float] = time.monotonic) -> None:
        self.runs = runs
        self.broken: list[RunLine] = []
        self.new = 0  # finished in this session, or broken off
        self.busy = 0.0  # seconds that they took together
        self.done = self.achieved = self.claimed = 0
        for line in done:
            self._count(line)
        self._clock, self._last, self._at_work = clock, 0.0, 1

    def add(self, line: RunLine, at_work: int = 1) -> None:
        """Count a run that has just ended, while ``at_work`` others are under way."""
        self.new += 1
        self.busy += line.busy_seconds
        self._last, self._at_work = self._clock(), at_work
        if line.broken:
            self.broken.append(line)
        else:
            self._count(line)

    def _count(self, line: RunLine) -> None:
        self.done += 1
        self.achieved += line.achieved
        self.claimed += line.verdict.claimed

    @property
    def ended(self) -> int:
        return self.done + len(self.broken)

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds to the end of the bench; None before the first run of this session ends.

        Every run that is left is taken to last as long as the mean of those that ended. It counts down until the next
        one ends. If none does in that time, the run under way is taken to last as long again as it is late.
        """
        left = self.runs - self.ended
        if not self.new or not left:
            return None
        mean, since = self.busy / self.new, self._clock() - self._last
        return max(left * mean / max(1, min(self._at_work, left)) - since, since - mean, 0.0)

    @property
    def text(self) -> str:
        broken = f", {len(self.broken)} broke off ({grouped_by_end(self.broken)})" if self.broken else ""
        claimed = f" ({self.claimed} claimed, not checked)" if self.claimed else ""
        return f"GSR {self.achieved / self.done:.2f}{claimed}{broken}" if self.done else f"GSR –{broken}"

    @property
    def estimate(self) -> str:
        seconds = self.seconds_left
        return "" if seconds is None else f"about {duration(seconds)} left"

    def __str__(self) -> str:
        parts = (f"{self.ended} of {self.runs} runs", self.text, self.estimate)
        return ", ".join(filter(None, parts))


def duration(seconds: float) -> str:
    """Say a duration in one or two units, rounded up, e.g. ``40 s``, ``12 min``, ``2 h 5 min``."""
    tens, minutes = max(1, math.ceil(seconds / 10)), math.ceil(seconds / 60)
    if tens < 12:
        return f"{10 * tens} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class _Estimate(TextColumn):
    """The estimate, kept current by every frame."""

    def __init__(self, tally: Tally) -> None:
        super().__init__("")
        self._tally = tally

    def render(self, task: Task) -> Text:
        return Text(self._tally.estimate)


@contextmanager
def shown(tally: Tally, console: Console) -> Iterator[Callable[[], object]]:
    """Show how far a bench is: in one line of a terminal, elsewhere in a line every :data:`EVERY` seconds.

    What it gives is called after each change of the tally.
    """
    if not console.is_interactive:
        ended = threading.Event()
        teller = threading.Thread(target=tell, args=(tally, console, ended.wait), daemon=True)
        teller.start()
        try:
            yield lambda: None
        finally:
            ended.set()
            teller.join()
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, _Estimate(tally), console=console, transient=True) as bar:
        task = bar.add_task(tally.text, total=tally.runs, completed=tally.ended)
        yield lambda: bar.update(task, completed=tally.ended, description=tally.text)


def tell(tally: Tally, console: Console, wait: Callable[[float], bool]) -> None:
    """Print the tally again and again; ``wait`` waits for some seconds and returns whether the bench has ended."""
    while not wait(EVERY):
        console.print(str(tally), markup=False, highlight=False)
