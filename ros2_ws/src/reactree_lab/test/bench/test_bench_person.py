"""A bench with a simulated person: who may ask, what is counted, that it goes on, and that its records replay."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from bench_runs import assert_same_bench, bench_here, bench_of, line
from command_line import Cli

from reactree_lab.bench.folder import folder_of, read_results
from reactree_lab.bench.job_runner import RECORD
from reactree_lab.bench.jobs import BenchSettings
from reactree_ros.episode.player import replay
from reactree_ros.errors import UserError
from reactree_ros.record.reader import read_record

#: Three instructions that leave something open, with no, one and three questions.
ASKING = BenchSettings(
    suite="vague",
    suite_settings={"houses": 1},
    planners=("reactree_wm", "reactree_wm:questions=1", "react:questions=3"),
    limit=3,
    person={"person": "simulated", "seed": 1},
)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bench, carried out in this process."""
    out = tmp_path_factory.mktemp("bench") / "asked"
    bench_here(out, ASKING)
    return out


@pytest.mark.slow
def test_only_who_may_ask_does_and_is_the_better_for_it(asked: Path) -> None:
    runs = {name: [run for run in read_results(asked) if run.planner == name] for name in ASKING.planners}
    assert [run.questions for run in runs["reactree_wm"]] == [0, 0, 0]
    assert all(run.questions == 1 for run in runs["reactree_wm:questions=1"])
    assert all(1 <= run.questions <= 3 for run in runs["react:questions=3"])
    reached = [sum(run.achieved for run in those) for those in runs.values()]
    assert reached[0] < reached[2] == 3


def test_what_was_asked_is_in_the_records_and_these_replay(asked: Path) -> None:
    for run in read_results(asked):
        record = read_record(asked / folder_of(run, ASKING) / RECORD)
        assert record.run["person"] is True
        assert sum(event["e"] == "answer" for event in record.events) == run.questions
        again = replay(record)
        assert again.identical, again.difference


def test_a_record_of_a_bench_with_a_person_replays_on_the_command_line(asked: Path, cli: Cli) -> None:
    run = next(run for run in read_results(asked) if run.questions)
    assert cli("record", "replay", asked / folder_of(run, ASKING) / RECORD).code == 0


@pytest.mark.slow
def test_a_bench_that_was_broken_off_goes_on_with_the_same_answers(asked: Path, tmp_path: Path) -> None:
    out = tmp_path / "again"
    first = dataclasses.replace(ASKING)
    lines = (asked / "results.jsonl").read_text().splitlines(keepends=True)
    bench_here(out, first)
    (out / "results.jsonl").write_text("".join(lines[:4]))
    assert len(bench_here(out, ASKING)) == len(lines) - 4
    assert_same_bench(asked, out)


def test_another_person_is_another_bench(asked: Path) -> None:
    others = dataclasses.replace(ASKING, person={"person": "simulated", "seed": 2})
    with pytest.raises(UserError, match=r"person\.seed was 1, now 2"):
        bench_here(asked, others)


@pytest.mark.slow
def test_a_person_that_never_answers_is_no_help(tmp_path: Path) -> None:
    deaf = dataclasses.replace(ASKING, person={"person": "simulated", "silent": 1})
    bench_here(tmp_path / "deaf", deaf)
    runs = read_results(tmp_path / "deaf")
    assert all(run.end in ("done", "failure") for run in runs)
    assert all(run.needless == run.questions for run in runs)
    assert any(run.questions for run in runs)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"person": {"person": "mum"}}, "person 'mum' is unknown"),
        ({"suite": "pddl", "suite_settings": {}}, "the suite 'pddl' does not give a person the goals of its tasks"),
    ],
)
def test_a_person_that_cannot_be_asked_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        dataclasses.replace(ASKING, digests=None, **settings)  # type: ignore[arg-type]


@pytest.mark.bench
def test_the_report_tells_what_was_asked_and_what_for_nothing(tmp_path: Path, cli: Cli) -> None:
    names = ("reactree_wm", "reactree_wm:questions=1")
    settings = dataclasses.replace(ASKING, planners=names, limit=2)
    runs = [
        line(names[0], 1, suite="vague"),
        line(names[0], 2, suite="vague", gsr=0.0),
        line(names[1], 1, suite="vague", questions=1, needless=1),
        line(names[1], 2, suite="vague", questions=1),
    ]
    assert cli("lab", "report", bench_of(tmp_path / "bench", *runs, settings=settings)).code == 0
    text = (tmp_path / "bench" / "report.md").read_text()
    rows = {cells[0]: cells[1:] for row in text.splitlines() if (cells := row.strip("| ").split(" | "))[1:]}
    assert [cell.split()[0] for cell in rows["questions"]] == ["0.00", "1.00"]
    assert [cell.split()[0] for cell in rows["needless questions"]] == ["0.00", "0.50"]
    assert rows["questions in tasks done without"] == ["0.00", "0.50"]
    assert "A question is needless if its answer told nothing beyond the instruction" in text
