"""What a run looks like in a terminal and in a log file, as its record's events come."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli
from rich.console import Console

from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.llm.port import Wait
from reactree_ros.llm.waiting import log
from reactree_ros.record.reader import read_record
from reactree_ros.record.schema import Event
from reactree_ros.record.verdict import SCORES
from reactree_ros.view.terminal import Terminal

INSTRUCTION = "Put 1 pudding and 1 apple on the coffee table"
HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202e[bold]red[/bold] \ud800 \r\n<b>"


@pytest.fixture
def events(cli: Cli, tmp_path: Path) -> Sequence[Event]:
    """Those of a run that reaches its goal."""
    assert cli("run", INSTRUCTION, "--json", "--save", tmp_path / "run.jsonl").code == 0
    return read_record(tmp_path / "run.jsonl").events


def until(events: Sequence[Event], decisions: int) -> Sequence[Event]:
    """The events up to a decision, with it."""
    at = next(at for at, event in enumerate(events) if event.get("decisions") == decisions)
    return events[: at + 1]


def screen(width: int = 80, height: int = 24) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None)


def drawn(terminal: Terminal, console: Console) -> list[str]:
    """The live tree's lines."""
    with console.capture() as capture:
        console.print(terminal.live_tree())
    return [line.rstrip() for line in capture.get().splitlines() if line.strip()]


def printed(events: Sequence[Event], **said: Any) -> str:
    """What stands in a log file after events."""
    file = io.StringIO()
    with Terminal(Console(file=file, width=80), **said) as terminal:
        for event in events:
            terminal.take(event)
    return file.getvalue()


@pytest.mark.slow
def test_the_tree_is_live_with_a_line_a_node_what_has_ended_folded_and_the_budgets_below(
    events: Sequence[Event],
) -> None:
    console = screen()
    terminal = Terminal(console, clock=lambda: 7.0)
    *_, last = shown = until(events, 20)
    for event in shown:
        terminal.take(event)
    *tree, budgets = drawn(terminal, console)
    assert tree == [
        f"● {INSTRUCTION}",
        "  ● ⇉ parallel",
        "    ✓ move the pudding on the coffee table …",
        "    ● move the apple on the coffee table",
        "      ● → sequence",
        "        ● find and pick up the apple",
        "        ○ find the coffee table and put down the apple",
    ]
    assert budgets == f"20 of 200 decisions, 12 of 200 steps, {last['t']:.1f} s"


@pytest.mark.parametrize(("width", "said"), [(100, ", 9 prompt tokens (0% cached)"), (70, "")])
def test_a_slow_run_shows_its_pace_and_no_count_is_cut(events: Sequence[Event], width: int, said: str) -> None:
    console, last = screen(width=width), until(events, 20)[-1]
    terminal = Terminal(console, clock=lambda: 7.0)
    for event in until(events, 20):
        terminal.take({**event, **({"t": 40.0} if event is last else {})})
    moment = terminal._moment
    moment.prompt_tokens, moment.cached_tokens = 9, 0
    *_, budgets = drawn(terminal, console)
    assert budgets == f"20 of 200 decisions, 12 of 200 steps, 40.0 s (2.0 a decision){said}"


def test_a_tree_that_is_too_high_or_too_wide_is_cut_around_where_the_run_is(events: Sequence[Event]) -> None:
    console = screen(width=30, height=14)
    terminal = Terminal(console)
    for event in until(events, 20):
        terminal.take(event)
    *tree, _ = lines = drawn(terminal, console)
    assert len(tree) == 14 // 2 - 3
    assert "        ● find and pick up th…" in tree
    assert max(map(len, lines)) <= 30


def test_nothing_is_drawn_over_what_is_typed(events: Sequence[Event]) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    with Terminal(console) as terminal:
        terminal.pause(True)
        assert isinstance(console.file, io.StringIO)
        console.file.truncate(0)
        *begun, ended = events
        for event in begun:
            terminal.take(event)
        assert "\x1b[2K" not in console.file.getvalue()
        terminal.pause(False)
        terminal.take(ended)
        terminal.pause(False)  # when the run has ended, too
        before = console.file.getvalue()
        console.print("last")
        assert console.file.getvalue().removeprefix(before) == "last\n"


def test_seconds_go_on_while_nothing_happens(events: Sequence[Event]) -> None:
    now, console = [100.0], screen()
    terminal = Terminal(console, clock=lambda: now[0])
    terminal.take(events[0])
    now[0] += 33.0
    assert "33.0 s" in drawn(terminal, console)[-1]


def test_why_a_run_holds_stands_below_the_tree(events: Sequence[Event]) -> None:
    console = screen()
    terminal = Terminal(console)
    for event in [*until(events, 3), {"e": "held", "node": 0, "reason": f"a person {HOSTILE}", "t": 1.0}]:
        terminal.take(event)
    assert drawn(terminal, console)[-2].startswith("it holds: a person ␛[2J␛]0;owned␇")


def test_a_log_file_has_a_plain_line_for_everything_with_seconds_and_decisions(events: Sequence[Event]) -> None:
    log = printed(events)
    assert "\x1b" not in log
    lines = log.splitlines()
    seconds, decision, *rest = next(line for line in lines if "Act: open fridge 1" in line).split()
    assert (float(seconds) >= 0, decision, rest) == (True, "11", ["Act:", "open", "fridge", "1"])
    assert len([line for line in lines if "Act: " in line]) == sum("act" in e for e in events if e["e"] == "decided")
    observation = next(line for line in lines if "You move to the kitchen (1). Looking quickly" in line)
    assert len(observation) > 80, "it stands in one line"
    assert "○ ? fallback" not in log
    assert "          ✓ ? fallback" in lines
    assert "            ○ find and pick up the pudding in bedroom 2" in lines


def test_a_picture_is_a_line_that_says_what_is_on_it(events: Sequence[Event]) -> None:
    picture = {"id": "0", "media": "image/png", "width": 640, "height": 480, "size": 9, "camera": "head"}
    seen = {"e": "observation", "node": 0, "of": "execute", "text": "You look.", "outcome": "done", "t": 1.0}
    log = printed([*events[:2], seen | {"pictures": [picture | {"words": "a cup"}]}])
    assert "You look." in log
    assert "▣ a picture of camera head, 640 by 480 pixels: a cup" in log


def test_a_run_ends_with_what_came_of_it_and_what_can_be_done_next(cli: Cli, tmp_path: Path) -> None:
    whole, short = tmp_path / "a run.jsonl", tmp_path / "short.jsonl"
    out = cli("run", INSTRUCTION, "--save", whole).out
    assert f"✓ Goal reached (end: done, GSR 1.00, SSR 1.00)\n{SCORES}\n24 decisions, 16 steps, 8 agent nodes" in out
    assert f"To look at it: reactree view '{whole}'\n" in out
    assert "resume" not in out
    out = cli("run", INSTRUCTION, "--save", short, "--max-decisions", 5).out
    assert f"To look at it: reactree view {short}\nTo go on with it: reactree resume {short}\n" in out
    assert "To look at a run: add --save FILE.jsonl, then reactree view FILE.jsonl" in cli("run", INSTRUCTION).out


@pytest.mark.parametrize("live", [False, True])
def test_hostile_words_are_shown_as_words(events: Sequence[Event], live: bool) -> None:
    def spoilt(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: spoilt(one) if key not in SCHEMA_WORDS else one for key, one in value.items()}
        if isinstance(value, list):
            return [spoilt(one) for one in value]
        return f"{HOSTILE}{value}" if isinstance(value, str) else value

    console = screen() if live else Console(file=io.StringIO(), width=80, color_system=None)
    terminal = Terminal(console)
    for event in events:
        terminal.take({key: value if key in KEPT else spoilt(value) for key, value in event.items()})
    assert isinstance(console.file, io.StringIO)
    out = console.file.getvalue()
    assert "␛[2J␛]0;owned␇ <202E>[bold]red[/bold] �" in out
    assert not {"\x1b", "\x07", "\r", "\u202e", "\ud800"} & set(out)
    out.encode()


#: What of an event only our own code writes.
KEPT = {"e", "of", "about", "expand", "id", "outcome", "end", "removed", "added", "instance"}
SCHEMA_WORDS = {"kind", "end", "status", "policy", "about", "expand", "outcome", "said", "task_name"}


def test_a_megabyte_is_not_poured_out(events: Sequence[Event]) -> None:
    huge = {"e": "observation", "node": 0, "of": "execute", "text": "x" * 1_000_000, "outcome": "done", "t": 1.0}
    log = printed([*until(events, 3), huge])
    assert "x … (1000000 characters)\n" in log
    assert len(log) < 5000


def test_where_nobody_reads_any_more_the_rest_is_taken_in_silence(events: Sequence[Event]) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "no space left on device")

    terminal = Terminal(Console(file=Full(), width=80))
    with pytest.raises(OSError, match="no space left"):
        terminal.take(events[0])
    for event in events[1:]:
        terminal.take(event)


# ---------------------------------------------------------------------- the language model


class Waiting(ExpertModel):
    """Has been waiting for a server for some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def waits_for(self) -> Wait:
        return Wait("the server at http://gpu:8000/v1", self._seconds)


@pytest.mark.parametrize(("seconds", "said"), [(1.0, False), (14.2, True)])
def test_the_live_tree_says_what_is_waited_for(seconds: float, said: bool) -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    shown = Terminal(console, model=Waiting(seconds)).live_tree()
    with console.capture() as captured:
        console.print(shown)
    assert ("waiting for the server at http://gpu:8000/v1, 14 s" in captured.get()) is said


def test_waits_are_kept_out_of_the_log_while_the_live_tree_shows_them() -> None:
    with Terminal(Console(file=io.StringIO(), force_terminal=True), model=Waiting(3.0)):
        assert log.disabled
    assert not log.disabled
    with Terminal(Console(file=io.StringIO()), model=Waiting(3.0)):
        assert not log.disabled


def test_the_result_says_how_many_requests_were_in_vain(events: Sequence[Event]) -> None:
    *before, end = events
    counts = {"replies": 3, "attempts": 5, "refused_attempts": 2, "repeated_attempts": 1}
    said = "5 requests for 3 replies of the language model: 2 refused, 1 repeated"
    assert said in printed([*before, {**end, "result": {**end["result"], **counts}}])
    assert "replies of the language model" not in printed(events)
