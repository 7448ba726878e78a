"""How a run ended is one value; whoever shows, prints, counts or returns the end of a run says the same."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import re
from pathlib import Path

import pytest
from command_line import Cli
from doubles import EVERYTHING, AgentNodes, ScriptedModel, ScriptedWorld, scripted_episode
from rich.console import Console

from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.record.moment import Moment
from reactree_ros.record.reader import read_record
from reactree_ros.record.schema import Event
from reactree_ros.record.verdict import EpisodeEnd, Judgement, verdict_of
from reactree_ros.record.writer import Recorder, encoded
from reactree_ros.tree.options import TreeOptions
from reactree_ros.view import STATUSES
from reactree_ros.view.drawing import as_dot, as_svg
from reactree_ros.view.exports import _log_line, as_markdown
from reactree_ros.view.runs import Runs
from reactree_ros.view.terminal import show_result
from reactree_ros.world.port import Score

RESULT = scripted_episode({"root": ["Act: open fridge 1", "Act: done"]}).run()
ENDS = [end.value for end in EpisodeEnd]


def ended(**values: object) -> EpisodeResult:
    return dataclasses.replace(RESULT, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "judgement", "because"),
    [
        ({"gsr": 1.0, "ssr": 1.0}, "reached", ""),
        ({"gsr": 0.0, "ssr": 0.5}, "not_reached", "the planner says that it is done, but the goal does not hold"),
        ({}, "claimed", "the planner says that it is done, and the run had no goal to be judged by"),
        ({"decisions": 0}, "claimed", "the planner says that it is done, and the run had no goal to be judged by"),
        ({"steps": 0}, "claimed", "the planner says that it is done, and the run had no goal to be judged by"),
        (
            {"decisions": 0, "steps": 0},
            "not_reached",
            "the planner says that it is done, but nothing was decided or done",
        ),
        ({"decisions": 0, "steps": 0, "gsr": 1.0, "ssr": 1.0}, "reached", ""),
        (
            {"decisions": 0, "steps": 0, "gsr": 0.0, "ssr": 0.5},
            "not_reached",
            "the planner says that it is done, but the goal does not hold",
        ),
        (
            {"gsr": 1.0, "ssr": 1.0, "status": "failure", "end": "out_of_steps", "reason": "all of the 9 are used up"},
            "reached",
            "although out of steps: all of the 9 are used up",
        ),
        (
            {"status": "failure", "end": "failure", "reason": "no unicorn"},
            "not_reached",
            "the planner gave up: no unicorn",
        ),
        ({"status": "failure", "end": "failure"}, "not_reached", "the planner gave up"),
        ({"end": "world_gone", "message": "no score: gone"}, "broken", "the world does not answer: no score: gone"),
        ({"gsr": 0.0, "ssr": 0.0, "end": "bug", "reason": "oh"}, "broken", "a bug: oh"),
        ({"status": "interrupted", "end": "interrupted"}, "interrupted", "somebody stopped it"),
        ({"status": "interrupted", "end": "interrupted", "gsr": 0.0, "ssr": 0.0}, "interrupted", "somebody stopped it"),
        (
            {"status": "failure", "end": "stuck", "reason": "5 times the same"},
            "not_reached",
            "stuck: 5 times the same",
        ),
        (
            {"end": "out_of_steps", "branches": 3, "branches_done": 2, "undone": ["'b' was not reached"]},
            "partly",
            "out of steps; 'b' was not reached",
        ),
        (
            {"status": "failure", "end": "failure", "branches": 3, "branches_done": 1, "undone": ["'b' failed: oh"]},
            "partly",
            "the planner gave up; 'b' failed: oh",
        ),
        (
            {"untouched": ["sofa", "shelf"]},
            "partly",
            "the planner says that it is done, but nothing was done with 'sofa' and 'shelf'",
        ),
        ({"gsr": 1.0, "ssr": 1.0, "untouched": ["sofa"]}, "reached", ""),
        (
            {"gsr": 0.0, "ssr": 0.5, "branches": 2, "branches_done": 1, "undone": ["'b' failed: oh"]},
            "not_reached",
            "the planner says that it is done, but the goal does not hold; 'b' failed: oh",
        ),
        (
            {"gsr": 0.0, "ssr": 0.4, "unmet": ["apple on sofa (1 of 2)", "tv turned on"]},
            "not_reached",
            "the planner says that it is done, but the goal does not hold: apple on sofa (1 of 2), tv turned on",
        ),
        (
            {"gsr": 0.0, "ssr": 0.0, "end": "stuck", "unmet": ["held pills"], "undone": ["'b' failed: oh"] * 7},
            "not_reached",
            "stuck; the goal does not hold: held pills; " + "'b' failed: oh; " * 5 + "2 more",
        ),
    ],
)
def test_a_result_has_one_verdict(values: dict[str, object], judgement: str, because: str) -> None:
    verdict = ended(**values).verdict

    assert (verdict.judgement.word, verdict.because) == (judgement, because)
    assert verdict.because.startswith("; ".join(verdict.reasons[:5])), "which has all that is undone"


@pytest.mark.parametrize(
    ("gsr", "status", "end"),
    list(itertools.product((None, 0.0, 1.0), ("success", "failure", "interrupted"), [*ENDS, "an_end_of_tomorrow"])),
)
def test_nothing_but_the_worlds_word_is_a_reached_goal(gsr: float | None, status: str, end: str) -> None:
    verdict = ended(gsr=gsr, ssr=gsr, status=status, end=end).verdict

    assert (verdict.judgement is Judgement.REACHED) == (gsr == 1.0)
    if verdict.judgement is Judgement.CLAIMED:
        assert (gsr, status, verdict.as_dict()["checked"]) == (None, "success", False)
    assert (verdict.achieved, verdict.claimed) == (gsr == 1.0, verdict.judgement is Judgement.CLAIMED)
    assert verdict.whole == (gsr == 1.0 or (gsr, status, end) == (None, "success", "done"))
    assert verdict.because or (gsr, end) == (1.0, "done")


@pytest.mark.parametrize("result", [None, {}, [], "done", {"end": ""}, {"gsr": 1.0}])
def test_what_has_no_end_has_an_open_verdict(result: object) -> None:
    assert verdict_of(result).judgement is Judgement.OPEN  # type: ignore[arg-type]


def record_of(**values: object) -> list[Event]:
    """A record that ends with a result: its root says that it is done, whatever came of it."""
    events: list[Event] = []
    recorder = Recorder(events.append, flush=lambda: None, world={}, llm={})
    model, planner = ScriptedModel({"root": ["Act: done"]}), AgentNodes(EVERYTHING)
    Episode("root", model=model, world=ScriptedWorld(), planner=planner, record=recorder).run()
    events[-1]["result"] = dataclasses.asdict(ended(**values))
    return events


@pytest.mark.parametrize(
    "values",
    [
        {"gsr": 1.0, "ssr": 1.0},
        {"gsr": 0.0, "ssr": 0.0},
        {},
        {"end": "model_gone", "message": "gone"},
        {"end": "out_of_steps", "branches": 11, "branches_done": 8, "undone": ["'b' failed: oh"]},
        {"end": "interrupted", "status": "interrupted"},
        {"end": "out_of_tokens", "status": "failure", "gsr": 0.0, "ssr": 0.5},
    ],
)
def test_every_surface_says_the_same(values: dict[str, object], tmp_path: Path) -> None:
    result, events, screen = ended(**values), record_of(**values), io.StringIO()
    show_result(result, Console(file=screen, width=1000))
    file = tmp_path / "run.jsonl"
    file.write_bytes(b"".join(encoded(event) + b"\n" for event in events))
    moment, told = Moment.after(read_record(file).events), str(result.verdict)
    [row] = Runs(file).table()
    colour = STATUSES[result.verdict.judgement.status].colour
    words = re.sub(r"\s+", " ", " ".join(re.findall(r'font-weight="600" fill="[^"]*">([^<]*)', as_svg(moment))))

    assert told in screen.getvalue()
    assert told in as_markdown(moment)
    assert told in as_dot(moment)
    assert words.partition(" ")[2].removesuffix(" …") in told
    assert result.verdict.words in words
    assert as_svg(moment).count(colour) == 1 + len(re.findall('font-weight="600"', as_svg(moment))) + 1
    assert (_log_line(events[-1]) or ())[1:] == (told,)
    assert (row["verdict"], row["cause"]) == (result.verdict.as_dict(), result.verdict.because)


def test_a_torn_record_has_no_end_yet(tmp_path: Path) -> None:
    file = tmp_path / "torn.jsonl"
    file.write_text(
        "".join(encoded(event).decode() + "\n" for event in record_of()[:-1]) + '{"e": "end"', encoding="ascii"
    )

    assert Runs(file).table()[0]["verdict"]["judgement"] == "open"
    assert "No end yet" in as_markdown(Moment.after(read_record(file).events))


# ---------------------------------------------------------------------- the reason


@pytest.mark.parametrize(
    ("script", "score", "options", "because"),
    [
        ({"root": ["Act: done"]}, Score(1.0, 1.0), TreeOptions(), ""),
        ({"root": ["Act: failure"]}, None, TreeOptions(), "the planner gave up without a reason"),
        (
            {"root": ["Think: no book", "Act: failure"]},
            None,
            TreeOptions(),
            "the planner gave up: no book",
        ),
        (
            {"root": ["Think: a"] * 3},
            None,
            TreeOptions(max_decisions=2),
            "out of decisions: all of the 2 decisions are used up",
        ),
        (
            {"root": ["Act: go to kitchen 1"] * 3},
            None,
            TreeOptions(max_steps=1),
            "out of steps: all of the 1 steps are used up",
        ),
        (
            {
                "root": ["Expand:\n- control flow: sequence\n- subgoals: find it, put it"],
                "find it": ["Expand:\n- control flow: fallback\n- subgoals: look here, look there"],
                "look here": ["Think: not here", "Act: failure"],
                "look there": ["Think: not there", "Act: failure"],
            },
            None,
            TreeOptions(),
            "the planner gave up; 'find it' failed: all 2 ways failed, the last: not there; 'put it' was not reached",
        ),
        (
            {
                "root": ["Expand:\n- control flow: parallel\n- subgoals: a, b, c"],
                "a": ["Act: done"],
                "b": ["Think: the house has no unicorn", "Act: failure"],
                "c": ["Act: done"],
            },
            None,
            TreeOptions(),
            "the planner says that it is done, but 'b' failed: the house has no unicorn",
        ),
    ],
)
def test_the_reason_that_was_printed_on_the_way_stands_at_the_end(
    script: dict[str, list[str]], score: Score | None, options: TreeOptions, because: str
) -> None:
    result = scripted_episode(script, world=ScriptedWorld(score=score), options=options).run()

    assert result.verdict.because == because


# ---------------------------------------------------------------------- the command line


def test_a_fork_that_only_says_done_is_green_nowhere(cli: Cli, tmp_path: Path) -> None:
    save, forked = tmp_path / "run.jsonl", tmp_path / "fork.jsonl"
    assert cli("run", "Put 1 pudding and 1 apple on the coffee table", "--save", save).code == 0

    out = cli("record", "fork", save, "--at", 1, "--say", "Act: done", "--save", forked)

    assert out.code == 1
    assert "✗ Goal not reached (end: done, GSR 0.00, SSR 0.00)" in out.out
    assert "✓ Put" not in out.out.rpartition("\n\n")[0].rpartition("\n\n")[2]
    assert STATUSES["success"].colour not in as_svg(Moment.after(read_record(forked).events))


def test_json_says_whether_success_was_checked(cli: Cli) -> None:
    checked = json.loads(cli("run", "Put 1 pudding and 1 apple on the coffee table", "--json").out)
    read = json.loads(cli("run", "Put the book on the bed", "--house", "villa", "--json").out)
    claimed = json.loads(cli("run", "Get the book and bring it to me", "--house", "villa", "--json").out)

    told = [(one["verdict"]["judgement"], one["verdict"]["checked"], one["goal"]) for one in (checked, read, claimed)]
    assert told == [("reached", True, {}), ("reached", True, {"on_book_bed": 1}), ("claimed", False, {})]
