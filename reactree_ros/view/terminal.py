"""Shows a run in the terminal from its record's events: what happens line by line, the growing tree, the result."""

from __future__ import annotations

import shlex
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.text import in_one_line
from reactree_ros.agent.turns import decision_from_dict, kind_in
from reactree_ros.episode import EpisodeResult
from reactree_ros.llm.port import LanguageModel, Reply, requests_in_words
from reactree_ros.llm.waiting import kept_out_of_the_log, words_of
from reactree_ros.record.moment import Moment, Node
from reactree_ros.record.reader import RecordError, read_record
from reactree_ros.record.schema import Event, value_from_dict
from reactree_ros.record.verdict import BROKEN, LIMITED, SCORES, EpisodeEnd
from reactree_ros.view.words import COUNTS, STATUSES, sign_of
from reactree_ros.world.port import Outcome

#: How often the live tree is drawn, a second.
FRAMES = 8
#: Of what is said or seen, no more characters are printed; the record has all of it.
LONGEST = 2000
#: Levels by which a line of the tree is indented at most; what is deeper says how deep.
DEEPEST = 16
#: Ends after which a run can be gone on with.
RESUMED = {end.value for end in BROKEN | LIMITED | {EpisodeEnd.INTERRUPTED}}
_STYLES = {
    "success": "green",
    "claimed": "cyan",
    "partly": "magenta",
    "failure": "red",
    "running": "blue",
    "interrupted": "yellow",
    "": "dim",
}
_MARKS = {status: mark for status, (mark, _) in STATUSES.items()}
_ENDED = ("success", "failure")


class Line(NamedTuple):
    """Something that happened, in words that may be anybody's; ``indent`` is how far within its goal node."""

    text: str
    style: str = ""
    indent: int = 1


class Terminal:
    """Prints a run as it happens.

    In a terminal the tree stands below what happens, live: a line a goal node or control flow, what has ended folded,
    and under it budgets and seconds. In a file there are plain lines only, with the seconds and the decision before
    each. At the run's end, the whole tree and the result follow.

    It is a context manager: inside of it the tree is drawn.

    Args:
        record: Where the run is written down, for what can be done next; None: nowhere.
        clock: Seconds, never going back.
        model: What decides; what it waits for is shown. None: it is not known.
    """

    def __init__(
        self,
        console: Console,
        *,
        record: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        model: LanguageModel | None = None,
    ) -> None:
        self._console = console
        self._record = record
        self._gone = False  # nobody reads any more what is printed
        self._clock = clock
        self._model = model
        self._otherwise = ExitStack()
        self._moment = Moment()
        self._came = clock()  # when the last event did
        self._lock = threading.Lock()  # the tree is drawn in a thread of its own
        self._live: Live | None = None
        if console.is_terminal and not console.is_dumb_terminal:
            self._live = Live(get_renderable=self.live_tree, console=console, transient=True, refresh_per_second=FRAMES)

    def __enter__(self) -> Terminal:
        if self._live is not None:
            self._live.start()
            self._otherwise.enter_context(kept_out_of_the_log())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop_drawing()
        self._otherwise.close()

    def _stop_drawing(self) -> None:
        if self._live is not None:
            self._live.stop()

    def take(self, event: Event) -> None:
        """Show the next event of the record."""
        with self._lock:
            self._moment.apply(event)
            self._came = self._clock()
        if not self._gone:
            try:
                self._show(event)
            except (OSError, SystemExit):  # the latter is what rich makes of a broken pipe
                self._gone = True
                raise

    def _show(self, event: Event) -> None:
        if self._live is not None and _asks(event):  # what is typed is not drawn over
            self._live.stop()
        for line in event_lines(self._moment, event):
            self._print(line)
        if self._live is not None and _answers(event):
            self._live.start()
        if event["e"] == "end":
            self._stop_drawing()
            self._show_end(EpisodeResult(**event["result"]))

    # ------------------------------------------------------------------ what happens

    def _print(self, line: Line) -> None:
        moment = self._moment
        depth = moment.nodes[moment.active].depth if moment.active is not None else 1
        indent = min(2 * (depth - 1 + line.indent), self._console.width // 3)
        words = Text(_cut(line.text), style=line.style)
        if self._live is not None:
            self._console.print(Padding(words, (0, 0, 0, indent), expand=False))
            return
        before = f"{moment.time:>8.2f} {moment.decisions:>4}  {' ' * indent}"
        self._console.print(Text.assemble(before, words), soft_wrap=True)

    def _show_end(self, result: EpisodeResult) -> None:
        self._console.print()
        for row in tree_rows(self._moment, folded=False):
            self._console.print(row)
        self._console.print()
        show_result(result, self._console)
        self._console.print(Text(next_steps(result, self._record)), soft_wrap=True)

    # ------------------------------------------------------------------ the live tree

    def live_tree(self) -> Group:
        """Return the tree as it is now, so many lines that half of the terminal is left."""
        with self._lock:
            moment, most = self._moment, max(3, self._console.height // 2 - 3)
            rows = _window(list(tree_rows(moment, folded=True)), most)
            held = [Text(f"it holds: {_cut(moment.held)}", style="yellow", no_wrap=True)] if moment.held else []
            words = words_of(self._model.waits_for()) if self._model else ""
            waits = [Text(words, style="yellow", no_wrap=True)] if words else []
            return Group("", *rows, *held, *waits, self._budgets())

    def _budgets(self) -> Text:
        moment, seconds = self._moment, self._moment.time + self._clock() - self._came
        counts = {"decisions": moment.decisions, "steps": moment.steps}
        limits = moment.run.get("limits", {})
        told = [f"{count} of {limits.get(name, '?')} {name}" for name, count in counts.items()]
        told.append(f"{seconds:.1f} s")
        if moment.prompt_tokens:
            told.append(
                f"{moment.prompt_tokens} prompt tokens ({moment.cached_tokens / moment.prompt_tokens:.0%} cached)"
            )
        return Text(", ".join(told), style="bold", no_wrap=True, overflow="ellipsis")


class Row(Text):
    """A line of the tree, cut where the terminal ends.

    Args:
        active: Whether the run is there now, or below.
    """

    def __init__(self, text: str, style: str, *, active: bool) -> None:
        super().__init__(text, style=f"bold {style}" if active else style, no_wrap=True, overflow="ellipsis")
        self.active = active


def tree_rows(moment: Moment, *, folded: bool) -> Iterator[Row]:
    """Yield the tree, a line a goal node or control flow, the active path in bold; folded: not what is below an end."""
    path = _active_path(moment)
    waiting = [(moment.root, 0)] if moment.nodes else []
    while waiting:
        node, depth = waiting.pop()
        below = [moment.nodes[number] for number in node.children if moment.nodes[number].kind != "skill"]
        hidden = folded and bool(below) and node.status in _ENDED
        active = node.number in path and moment.result is None
        status = moment.status_of(node)
        text = f"{_indented(depth)}{_label(node, status)}{' …' if hidden else ''}"
        yield Row(text, _STYLES[status], active=active)
        if not hidden:
            waiting += [(child, depth + 1) for child in reversed(below)]


def _indented(depth: int) -> str:
    """Return what stands before a line of the tree; what is very deep says how deep."""
    return "  " * depth if depth <= DEEPEST else f"{'  ' * DEEPEST}({depth}) "


def _label(node: Node, status: str) -> str:
    why = f": {node.failure['message']}" if node.failure else ""
    sign = f"{sign} " if (sign := sign_of(node.kind)) else ""
    return f"{_MARKS[status]} {sign}{_by(node.robot)}{_cut(node.name + why)}"


def _by(robot: str) -> str:
    return f"{robot}: " if robot else ""


def _active_path(moment: Moment) -> set[int]:
    path, number = set[int](), moment.active
    while number is not None:
        path.add(number)
        number = moment.nodes[number].parent
    return path


def _window(rows: list[Row], most: int) -> list[Row]:
    """Return so many rows, with the deepest active one among them."""
    at = max((at for at, row in enumerate(rows) if row.active), default=0)
    first = min(max(0, at - most // 2), max(0, len(rows) - most))
    return rows[first : first + most]


def _cut(text: str) -> str:
    shown = in_one_line(text[:LONGEST])
    return shown if len(text) <= LONGEST else f"{shown} … ({len(text)} characters)"


# ---------------------------------------------------------------------- the lines of events


def _asks(event: Event) -> bool:
    kind = kind_in(event) if event["e"] == "decided" else None
    return kind is not None and kind.counts.questions > 0


def _answers(event: Event) -> bool:
    return "answer" in (event["e"], event.get("of"))


def _decided(moment: Moment, event: Event) -> Iterator[Line]:
    decision = decision_from_dict(event)
    if decision is None:
        return
    by = _by(moment.robot_of(event["node"])) if decision.counts.steps else ""
    first, *more = decision.lines()
    yield Line(f"{by}{first}", decision.look.style)
    yield from (Line(line, decision.look.style, indent=2) for line in more)


def _failed(moment: Moment, event: Event) -> Iterator[Line]:
    if event["of"] == "answer":
        yield Line(f"Nobody answers: {event['message']}", "yellow", indent=2)
    elif "took" in event:
        yield from _in_vain(value_from_dict(Reply, event["took"]))


def _reply(moment: Moment, event: Event) -> Iterator[Line]:
    if event.get("warning"):
        yield Line(f"! {event['warning']}", "yellow")
    yield from _in_vain(value_from_dict(Reply, event))


def _in_vain(reply: Reply) -> Iterator[Line]:
    for objection, count in Counter(one.objection for one in reply.in_vain).items():
        yield Line(f"↻ asked again{f' {count} times' if count > 1 else ''}: {objection}", "yellow")


def _skill(moment: Moment, event: Event) -> Iterator[Line]:
    """Show a skill that no decision has shown, as those of a routine's search."""
    node = moment.nodes[event["node"]]
    if node.kind == "goal" and node.name != event["skill"]:
        yield Line(f"{_by(event.get('robot', ''))}{event['skill']}", Act(event["skill"]).look.style)


def _observation(moment: Moment, event: Event) -> Iterator[Line]:
    if event["of"] in ("execute", "recall", "correct"):
        by = _by(event.get("robot", ""))
        yield Line(f"{by}{event['text']}", "dim" if event["outcome"] == Outcome.DONE.value else "yellow", indent=2)
        for one in event.get("pictures", ()):
            camera = f" of camera {one['camera']}" if "camera" in one else ""
            said = f": {one['words']}" if "words" in one else ""
            size = f"{one.get('width', 0)} by {one.get('height', 0)} pixels"
            yield Line(f"▣ a picture{camera}, {size}{said}", "dim", indent=2)


def _run(moment: Moment, event: Event) -> Iterable[Line]:
    limits, model = event["limits"], event["llm"].get("llm", "")
    by = f"; decided by {model}" if model else ""
    most = f"at most {limits['decisions']} decisions, {limits['steps']} steps"
    return [Line(f"{event['instruction']} ({event['planner']['name']}{by}; {most})", indent=0)]


def _ended(moment: Moment, event: Event) -> Iterable[Line]:
    status = "" if event.get("unreached") else "failure" if event["failure"] else "success"
    text = f"{_MARKS[status]} {moment.nodes[event['node']].name}: {event['feedback']}"
    return [Line(text, _STYLES[status], indent=0)]


def _shortened(moment: Moment, event: Event) -> Iterable[Line]:
    dropped = f"{event['dropped']} examples dropped" if event["dropped"] else "its example is shorter now"
    return [Line(f"the prompt was {event['excess']} tokens too long: {dropped}", "yellow")]


def _routine_ended(moment: Moment, event: Event) -> Iterable[Line]:
    text = f"↷ an agent node goes on after routine '{event['routine']}': {event['differed']}"
    return [Line(text, "yellow")] if event["differed"] else []


def _held(moment: Moment, event: Event) -> Iterable[Line]:
    who = event.get("robot", "it")
    return [Line(f"{who} holds: {event['reason']}" if event["reason"] else f"{who} goes on", "yellow")]


_LINES: dict[str, Callable[[Moment, Event], Iterable[Line]]] = {
    "run": _run,
    "started": lambda moment, event: [
        Line(f"● {_by(moment.robot_of(event['node']))}{moment.nodes[event['node']].name}", "bold", indent=0)
    ],
    "decided": _decided,
    "answer": lambda _, event: [Line(f"The person answers: {event['text']}", "green", indent=2)],
    "failed": _failed,
    "heard": lambda _, event: [Line(f"The person says: {event['text']}", "green", indent=0)],
    "refused": lambda _, event: [Line(event["said"], "yellow"), Line(f"✗ {event['reason']}", "yellow")],
    "reply": _reply,
    "shortened": _shortened,
    "skill": _skill,
    "observation": _observation,
    "routine_ended": _routine_ended,
    "held": _held,
    "ended": _ended,
}


def event_lines(moment: Moment, event: Event) -> Iterable[Line]:
    """Return the lines of an event that the moment has taken in; none if people need not know of it."""
    lines = _LINES.get(event["e"])
    return lines(moment, event) if lines else ()


# ---------------------------------------------------------------------- the result


def show_result(result: EpisodeResult, console: Console) -> None:
    """Print what came of a run in a few lines."""
    verdict = result.verdict
    console.print(
        Text(f"{verdict.judgement.mark} {_cut(str(verdict))}", style=f"bold {_STYLES[verdict.judgement.status]}")
    )
    if verdict.score:
        console.print(Text(SCORES, style="dim"))
    most = f" by {result.robots} robots ({result.makespan} one after the other)" if result.robots > 1 else ""
    questions = f", {_number(result.questions, 'question')}" if result.questions else ""
    console.print(
        f"{result.decisions} {COUNTS['decisions']}, {result.steps} {COUNTS['steps']}{most}{questions}, "
        f"{result.agent_nodes} {COUNTS['agent_nodes']}, "
        f"depth {result.max_depth}, {result.seconds:.2f} s",
        highlight=False,
    )
    if result.prompt_tokens:
        cached = "" if result.cached_tokens is None else f" ({result.cached_tokens / result.prompt_tokens:.0%} cached)"
        reasoning = f" ({result.reasoning_tokens} of them reasoning)" if result.reasoning_tokens else ""
        console.print(
            f"{result.prompt_tokens} prompt tokens{cached}, {result.output_tokens} output tokens{reasoning}, "
            f"{result.model_seconds:.2f} s of the language model",
            highlight=False,
        )
    if in_vain := requests_in_words(result):
        console.print(in_vain, highlight=False)
    if result.cost is not None:
        console.print(f"cost: {result.cost:.6g}, by the prices that were set", highlight=False)
    if result.message and result.message not in verdict.because:
        console.print(Text(f"On the way: {_cut(result.message)}", style="red"))


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def next_steps(result: EpisodeResult, record: Path | None) -> str:
    """Say what can be done after a run, in lines."""
    if record is None:
        return "To look at a run: reactree run … --save FILE.jsonl, then reactree view FILE.jsonl"
    try:
        read_record(record)
    except RecordError as error:
        return f"The run is not recorded: {error}"
    file = shlex.quote(str(record))
    go_on = f"\nTo go on with it: reactree resume {file}" if result.end in RESUMED else ""
    return f"To look at it: reactree view {file}{go_on}"
