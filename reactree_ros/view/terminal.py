"""Shows a run in the terminal from its record's events: what happens line by line, the growing tree, the result."""

from __future__ import annotations

import shlex
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.text import in_one_line
from reactree_ros.agent.turns import decision_from_dict
from reactree_ros.episode import EpisodeResult
from reactree_ros.llm.port import LanguageModel, Reply, requests_in_words
from reactree_ros.llm.waiting import kept_out_of_the_log, words_of
from reactree_ros.record.moment import Moment, Node
from reactree_ros.record.reader import RecordError, read_record
from reactree_ros.record.schema import Event, value_from_dict
from reactree_ros.record.verdict import BROKEN, LIMITED, SCORES, EpisodeEnd
from reactree_ros.view import COUNTS, STATUSES, sign_of
from reactree_ros.world.port import Outcome

#: How often the live tree is drawn, a second.
FRAMES = 8
#: Seconds for a decision from which on a run's pace is shown.
SLOW = 0.5
#: Of what is said or seen, no more characters are printed; the record has all of it.
LONGEST = 2000
#: Levels by which a line of the tree is indented at most; what is deeper says how deep.
DEEPEST = 16
#: Ends after which a run can be gone on with.
RESUMED = {end.value for end in BROKEN | LIMITED | {EpisodeEnd.INTERRUPTED}}


class Line(NamedTuple):
    text: str
    style: str = ""
    indent: int = 1  # how far within its goal node


class Terminal:
    """Prints a run as it happens, within a ``with`` block.

    In a terminal the tree stands below what happens, live: a line a goal node or control flow, what has ended folded,
    and under it budgets, seconds, and what the model waits for. In a file there are plain lines only, with the seconds
    and the decision before each. At the run's end, the whole tree and the result follow, and what can be done with its
    record.
    """

    def __init__(
        self,
        console: Console,
        *,
        record: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        model: LanguageModel | None = None,
    ) -> None:
        self._console, self._record, self._clock, self._model = console, record, clock, model
        self._gone = False  # nobody reads any more what is printed
        self._stack = ExitStack()
        self._moment = Moment()
        self._came = clock()  # when the last event did
        self._lock = threading.Lock()  # the tree is drawn in a thread of its own
        self._live: Live | None = None
        if console.is_terminal and not console.is_dumb_terminal:
            self._live = Live(get_renderable=self.live_tree, console=console, transient=True, refresh_per_second=FRAMES)

    def __enter__(self) -> Terminal:
        if self._live is not None:
            self._stack.enter_context(kept_out_of_the_log())
            self._live.start()
            self._stack.callback(self._live.stop)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def pause(self, is_paused: bool) -> None:
        """Take the live tree away, or draw it again."""
        if (live := self._live) is not None:
            live.stop() if is_paused else live.start()

    def take(self, event: Event) -> None:
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
        for line in event_lines(self._moment, event):
            self._print(line)
        if event["e"] == "end":
            self._stack.close()
            self._live = None
            result = EpisodeResult(**event["result"])
            self._console.print()
            for row in tree_rows(self._moment, folded=False):
                self._console.print(row)
            self._console.print()
            show_result(result, self._console)
            self._console.print(Text(next_steps(result, self._record)), soft_wrap=True)

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

    def live_tree(self) -> Group:
        """Return the tree as it is now, so many lines that half of the terminal is left."""
        with self._lock:
            moment, most = self._moment, max(3, self._console.height // 2 - 3)
            rows = _window(list(tree_rows(moment, folded=True)), most)
            held = [Text(f"it holds: {_cut(moment.held)}", style="yellow", no_wrap=True)] if moment.held else []
            words = words_of(self._model.waits_for()) if self._model else ""
            waits = [Text(words, style="yellow", no_wrap=True)] if words else []
            seconds = moment.time + (self._clock() - self._came)
            counts, limits = {"decisions": moment.decisions, "steps": moment.steps}, moment.run.get("limits", {})
            budgets = [f"{count} of {limits.get(name, '?')} {name}" for name, count in counts.items()]
            pace = moment.time / max(1, moment.decisions)
            budgets.append(f"{seconds:.1f} s{f' ({pace:.1f} a decision)' if pace >= SLOW else ''}")
            if tokens := moment.prompt_tokens:
                budgets.append(f"{tokens} prompt tokens ({moment.cached_tokens / tokens:.0%} cached)")
            while len(", ".join(budgets)) > self._console.width and len(budgets) > len(counts) + 1:
                budgets.pop()
            last = Text(", ".join(budgets), style="bold", no_wrap=True, overflow="ellipsis")
            return Group("", *rows, *held, *waits, last)


class Row(Text):
    def __init__(self, text: str, style: str, *, active: bool) -> None:
        super().__init__(text, style=f"bold {style}" if active else style, no_wrap=True, overflow="ellipsis")
        self.active = active


def tree_rows(moment: Moment, *, folded: bool) -> Iterator[Row]:
    """Yield the tree, a line a goal node or control flow, the active path in bold; folded: not what is below an end."""
    path, number = set[int](), moment.active
    while number is not None:
        path.add(number)
        number = moment.nodes[number].parent
    doing = {
        node.parent: node.name for node in moment.nodes.values() if (node.kind, node.status) == ("skill", "running")
    }
    waiting = [(moment.root, 0)] if moment.nodes else []
    while waiting:
        node, depth = waiting.pop()
        below = [moment.nodes[number] for number in node.children if moment.nodes[number].kind != "skill"]
        hidden = folded and bool(below) and node.status in ("success", "failure")
        active = node.number in path and moment.result is None
        status = moment.status_of(node)
        before = "  " * depth if depth <= DEEPEST else f"{'  ' * DEEPEST}({depth}) "
        does = f" · {_cut(doing[node.number])}" if len(doing) > 1 and node.number in doing else ""
        text = f"{before}{_label(node, status, moment.verdict.because)}{does}{' …' if hidden else ''}"
        yield Row(text, STATUSES[status].style, active=active)
        if not hidden:
            waiting += [(child, depth + 1) for child in reversed(below)]


def _label(node: Node, status: str, said: str) -> str:
    why = f": {node.failure['message']}" if node.failure and node.failure["message"] not in said else ""
    sign = f"{sign} " if (sign := sign_of(node.kind)) else ""
    return f"{STATUSES[status].mark} {sign}{_by(node.robot)}{_cut(node.name + why)}"


def _by(robot: str) -> str:
    return f"{_cut(robot)}: " if robot else ""


def _window(rows: list[Row], most: int) -> list[Row]:
    # with the deepest active row among them
    at = max((at for at, row in enumerate(rows) if row.active), default=0)
    first = min(max(0, at - most // 2), max(0, len(rows) - most))
    return rows[first : first + most]


def _cut(text: str) -> str:
    shown = in_one_line(text[:LONGEST])
    return shown if len(text) <= LONGEST else f"{shown} … ({len(text)} characters)"


# ---------------------------------------------------------------------- the lines of events


def event_lines(moment: Moment, event: Event) -> Iterator[Line]:
    """Yield the lines of an event that the moment has taken in; none if people need not know of it."""
    by = _by(moment.doer_of(event["node"])) if "node" in event else ""
    match event:
        case {"e": "run", "instruction": words, "limits": limits}:
            model = event["llm"].get("llm", "")
            planner = event["planner"]["name"].partition(":")[0]  # a model may bring many options
            who = f"{planner}{f'; decided by {model}' if model else ''}"
            yield Line(f"{words} ({who}; at most {limits['decisions']} decisions, {limits['steps']} steps)", indent=0)
        case {"e": "started", "node": node}:
            yield Line(f"● {_by(moment.robot_of(node))}{moment.nodes[node].name}", "bold", indent=0)
        case {"e": "decided"}:
            yield from _decided(moment, event)
        case {"e": "failed", "of": "answer", "message": message}:
            yield Line(f"Nobody answers: {message}", "yellow", indent=2)
        case {"e": "failed", "took": took}:
            yield from _in_vain(value_from_dict(Reply, took))
        case {"e": "reply"}:
            if event.get("warning"):
                yield Line(f"! {event['warning']}", "yellow")
            yield from _in_vain(value_from_dict(Reply, event))
        case {"e": "skill", "node": node, "skill": skill}:
            # only one that no decision has shown, as those of a routine's search
            if moment.nodes[node].kind == "goal" and moment.nodes[node].name != skill:
                yield Line(f"{by}{skill}", Act(skill).look.style)
        case {"e": "observation", "of": "execute" | "recall" | "correct", "text": text}:
            yield Line(f"{by}{text}", "dim" if event["outcome"] == Outcome.DONE.value else "yellow", indent=2)
            for one in event.get("pictures", ()):
                camera = f" of camera {one['camera']}" if "camera" in one else ""
                said = f": {one['words']}" if "words" in one else ""
                size = f"{one.get('width', 0)} by {one.get('height', 0)} pixels"
                yield Line(f"▣ a picture{camera}, {size}{said}", "dim", indent=2)
        case {"e": "ended", "node": node, "feedback": feedback}:
            shown = STATUSES["" if event.get("unreached") else "failure" if event["failure"] else "success"]
            said_next = moment.nodes[node].parent is None and event["failure"]  # by the result
            why = "" if said_next else f": {feedback}"
            yield Line(f"{shown.mark} {moment.nodes[node].name}{why}", shown.style, indent=0)
        case {"e": "answer", "text": words}:
            yield Line(f"The person answers: {words}", "green", indent=2)
        case {"e": "heard", "text": words}:
            yield Line(f"The person says: {words}", "green", indent=0)
        case {"e": "refused", "said": words, "reason": reason}:
            yield Line(words, "yellow")
            yield Line(f"✗ {reason}", "yellow")
        case {"e": "shortened", "dropped": dropped, "excess": excess}:
            how = f"{dropped} examples dropped" if dropped else "its example is shorter now"
            yield Line(f"the prompt was {excess} tokens too long: {how}", "yellow")
        case {"e": "routine_ended", "routine": routine, "differed": differed} if differed:
            yield Line(f"↷ an agent node goes on after routine '{routine}': {differed}", "yellow")
        case {"e": "held", "reason": reason}:
            robot = event.get("robot", "it")
            yield Line(f"{robot} holds: {reason}" if reason else f"{robot} goes on", "yellow")


def _decided(moment: Moment, event: Event) -> Iterator[Line]:
    decision = decision_from_dict(event)
    if decision is None:
        return
    by = _by(moment.doer_of(event["node"])) if decision.counts.steps else ""
    first, *more = decision.lines()
    yield Line(f"{by}{first}", decision.look.style)
    yield from (Line(line, decision.look.style, indent=2) for line in more)


def _in_vain(reply: Reply) -> Iterator[Line]:
    for objection, count in Counter(one.objection for one in reply.in_vain).items():
        yield Line(f"↻ asked again{f' {count} times' if count > 1 else ''}: {objection}", "yellow")


# ---------------------------------------------------------------------- the result


def show_result(result: EpisodeResult, console: Console) -> None:
    verdict = result.verdict
    mark, style = verdict.judgement.mark, f"bold {STATUSES[verdict.judgement.status].style}"
    console.print(Text(f"{mark} {_cut(str(verdict))}", style=style))
    if verdict.score:
        console.print(Text(SCORES, style="dim"))
    decisions, steps, nodes = (f"{getattr(result, name)} {what}" for name, what in COUNTS.items())
    robots = f" by {result.robots} robots ({result.makespan} one after the other)" if result.robots > 1 else ""
    plural = "" if result.questions == 1 else "s"
    questions = f", {result.questions} question{plural}" if result.questions else ""
    depth = f"depth {result.max_depth}, {result.seconds:.2f} s"
    console.print(f"{decisions}, {steps}{robots}{questions}, {nodes}, {depth}", highlight=False)
    if result.prompt_tokens:
        cached = "" if result.cached_tokens is None else f" ({result.cached_tokens / result.prompt_tokens:.0%} cached)"
        reasoning = f" ({result.reasoning_tokens} of them reasoning)" if result.reasoning_tokens else ""
        tokens = f"{result.prompt_tokens} prompt tokens{cached}, {result.output_tokens} output tokens{reasoning}"
        console.print(f"{tokens}, {result.model_seconds:.2f} s of the language model", highlight=False)
    if in_vain := requests_in_words(result):
        console.print(in_vain, highlight=False)
    if result.message and result.message not in verdict.because:
        console.print(Text(f"On the way: {_cut(result.message)}", style="red"))


def next_steps(result: EpisodeResult, record: Path | None) -> str:
    if record is None:
        return "To look at a run: add --save FILE.jsonl, then reactree view FILE.jsonl"
    try:
        read_record(record)
    except RecordError as error:
        return f"The run is not recorded: {error}"
    file = shlex.quote(str(record))
    go_on = f"\nTo go on with it: reactree resume {file}" if result.end in RESUMED else ""
    return f"To look at it: reactree view {file}{go_on}"
