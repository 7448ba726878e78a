"""The line that sums a run up."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from bench_runs import SETTINGS, line

from reactree_lab.bench.folder import BenchFolder
from reactree_lab.bench.jobs import BenchSettings
from reactree_lab.bench.results import RunLine, Size, grouped_by_end, line_of, size_of
from reactree_ros.episode import EpisodeResult
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import checked, parse_json
from reactree_ros.llm.port import Reply
from reactree_ros.record.moment import Request


def measured(reply: Reply) -> Size:
    return size_of(Request(0, {}, (), 0, reply))


def summed_up(*sizes: Size) -> RunLine:
    one = line()
    result = EpisodeResult(**{field.name: getattr(one, field.name) for field in dataclasses.fields(EpisodeResult)})
    return line_of(next(SETTINGS.jobs()), result, [], list(sizes))


def test_the_longest_prompt_is_that_of_one_request_however_many_a_reply_took() -> None:
    three_rounds = measured(Reply("Act: done", prompt_tokens=300, output_tokens=9, longest_prompt=100))
    one_round = measured(Reply("Think: hm", prompt_tokens=80, output_tokens=4))
    summary = summed_up(one_round, three_rounds)
    assert summary.max_input_tokens == 100
    assert summary.mean_input_tokens == 190
    assert (summary.requests, summary.approximate_tokens) == (2, False)


def test_a_run_in_which_no_model_was_asked_has_no_tokens() -> None:
    summary = summed_up()
    assert (summary.max_input_tokens, summary.mean_input_tokens, summary.mean_output_tokens) == (None, None, None)


def test_a_line_is_read_back_as_it_was_written() -> None:
    one = line(end="context_full", message="the prompt is 3 tokens too long")
    assert checked(RunLine, parse_json(one.as_json())) == one
    with pytest.raises(ValueError, match="there is no field 'nothing'"):
        checked(RunLine, {"nothing": 1})


@pytest.mark.parametrize(
    ("end", "broken"),
    [
        ("done", False),
        ("failure", False),
        ("out_of_decisions", False),
        ("context_full", False),
        ("model_gone", True),
        ("world_gone", True),
        ("bug", True),
    ],
)
def test_what_broke_off_is_saved_apart_from_results(end: str, broken: bool) -> None:
    one = line("react", 3, seed=1, end=end)
    assert one.broken is broken
    assert one.folder == Path("broken" if broken else "runs", "react", "1", "3")


def test_ends_are_grouped_the_most_frequent_first() -> None:
    assert grouped_by_end([line(end="bug"), line(end="model_gone"), line(end="model_gone")]) == "2 model_gone, 1 bug"


@pytest.mark.parametrize("name", ["results.jsonl", "settings.json", "runs", "runs/react", "runs/react/0/x.unfinished"])
def test_a_bench_writes_and_clears_away_through_no_link(tmp_path: Path, name: str) -> None:
    settings = BenchSettings(suite="generated", planners=("react",))
    BenchFolder(tmp_path / "bench", settings).close()
    (tmp_path / "mine" / "0" / "x.unfinished").mkdir(parents=True)
    (tmp_path / "mine.txt").write_text("mine")
    link = tmp_path / "bench" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(tmp_path / ("mine.txt" if "." in name else "mine"))
    with pytest.raises(UserError, match=f"{name} is a link"):
        BenchFolder(tmp_path / "bench", settings)
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert (tmp_path / "mine" / "0" / "x.unfinished").is_dir()
