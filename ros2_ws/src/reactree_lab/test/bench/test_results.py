"""The line that sums a run up."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from bench_runs import SETTINGS, line
from doubles import ScriptedModel, ScriptedWorld

from reactree_lab.bench.comparison import (
    GSR,
    LONGEST_INPUT,
    SSR,
    STEPS,
    Estimate,
    estimate,
    mcnemar,
    pairings,
    wilcoxon,
    wilson,
)
from reactree_lab.bench.folder import BenchFolder, folder_of
from reactree_lab.bench.jobs import BenchSettings
from reactree_lab.bench.results import RunEvents, RunLine, Size, grouped_by_end, line_of, size_of, told_by
from reactree_lab.bench.spec import SUITES
from reactree_ros.agent.text import approximate_tokens
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import checked, parse_json
from reactree_ros.llm.port import LanguageModel, Reply
from reactree_ros.planners.spec import planner
from reactree_ros.record.moment import Request
from reactree_ros.record.schema import Event as Recorded
from reactree_ros.record.writer import Recorder


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
    assert folder_of(one, SETTINGS) == Path("broken" if broken else "runs", "react", "1", "3")


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


SCRIPT = {
    "find the apple": [
        "Think: The apple is in the kitchen.",
        "Act: go to bedroom 1",
        "Act: recall location of apple",
        "Expand:\n- control flow: sequence\n- subgoals: open the fridge, pick up the apple",
    ],
    "open the fridge": ["Act: open fridge 1", "Act: done"],
    "pick up the apple": ["Act: pick up apple 1", "Act: failure"],
}


def recorded(script: dict[str, list[str]], model: LanguageModel | None = None, name: str = "reactree_wm") -> RunEvents:
    events: list[Recorded] = []
    world = ScriptedWorld(refused=["pick up apple 1"])
    Episode(
        next(iter(script)),
        world=world,
        model=model or ScriptedModel(script),
        planner=planner(name),
        record=Recorder(events.append),
    ).run()
    return told_by(events)


def test_every_decision_is_kept_with_what_came_of_it() -> None:
    told = recorded(SCRIPT)
    assert [(event.decision, event.kind, event.outcome) for event in told.events] == [
        (1, "think", ""),
        (2, "refused_act", ""),
        (3, "recall", "done"),
        (4, "expand", ""),
        (5, "act", "done"),
        (5, "end", ""),
        (6, "act", "precondition"),
        (6, "end", ""),
    ]
    assert told.events[3].subgoals == ("open the fridge", "pick up the apple")
    assert [event.skill for event in told.events if event.is_action] == [
        "go to bedroom 1",
        "open fridge 1",
        "pick up apple 1",
    ]
    assert [event.executable for event in told.events if event.is_action] == [False, True, False]


def test_each_decision_has_the_tokens_of_its_prompt_and_reply() -> None:
    told = recorded(SCRIPT)
    inputs = [event.input_tokens for event in told.events]
    assert all(inputs)
    assert [size.longest for size in told.sizes] == inputs
    assert all(size.approximate for size in told.sizes)
    assert told.events[0].output_tokens == approximate_tokens("Think: The apple is in the kitchen.")


def test_several_decisions_of_one_reply_count_its_tokens_once() -> None:
    told = recorded({"look": ["Think: First the fridge.\nAct: open fridge 1", "Act: done"]})
    assert [(event.kind, event.input_tokens is None) for event in told.events] == [
        ("think", False),
        ("act", True),
        ("end", False),
    ]
    assert len(told.sizes) == 2


class Counting(ScriptedModel):
    """Counts the tokens of its replies."""

    def settle_all(self) -> None:
        settling, self.in_flight = self.in_flight, []
        for pending, text in settling:
            pending.succeed(Reply(text, prompt_tokens=30, longest_prompt=20, output_tokens=3))


def test_what_the_model_counted_is_taken_as_it_is() -> None:
    told = recorded({"look": []}, Counting({"look": ["Act: done"]}))
    assert told.sizes == (Size(input=30, longest=20, output=3, approximate=False),)
    assert (told.events[0].input_tokens, told.events[0].output_tokens) == (20, 3)


def test_a_skill_that_a_hold_broke_off_is_told_as_halted() -> None:
    events = [
        {"e": "run"},
        {"e": "grow", "nodes": [{"node": 0, "parent": None, "kind": "agent", "name": "look", "subgoal": "look"}]},
        {"e": "decided", "node": 0, "act": "open fridge 1", "decisions": 1, "steps": 1},
        {"e": "skill", "node": 0, "skill": "open fridge 1"},
        {"e": "held", "node": 0, "reason": "stop"},
        {"e": "observation", "node": 0, "of": "observe", "text": "You are here.", "outcome": "done"},
    ]
    told = told_by({**event, "t": 0.0} for event in events)
    assert [(event.skill, event.outcome) for event in told.events] == [("open fridge 1", "halted")]


def test_what_hiagent_asks_of_its_memory_is_no_action_of_the_world() -> None:
    events = [
        {"e": "run"},
        {"e": "grow", "nodes": [{"node": 0, "parent": None, "kind": "goal", "name": "look", "subgoal": "look"}]},
        {"e": "decided", "node": 0, "act": "retrieve(2)", "decisions": 1, "steps": 1},
    ]
    (event,) = told_by({**event, "t": 0.0} for event in events).events
    assert (event.kind, event.is_action) == ("recall", False)


@pytest.mark.parametrize(
    ("successes", "count", "low", "high"),
    [(5, 10, 0.2366, 0.7634), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (1, 1, 0.2065, 1.0)],
)
def test_wilsons_interval(successes: int, count: int, low: float, high: float) -> None:
    assert wilson(successes / count, count) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.bench
@pytest.mark.parametrize(
    ("better", "worse", "p"),
    [(5, 1, 0.21875), (0, 8, 0.0078125), (3, 3, 1.0), (0, 0, 1.0), (1, 0, 1.0)],
)
def test_the_exact_mcnemar_test(better: int, worse: int, p: float) -> None:
    assert mcnemar([1.0] * better + [-1.0] * worse + [0.0] * 7)[1] == pytest.approx(p)


def test_success_is_estimated_over_tasks_not_over_their_seeds() -> None:
    runs = [line(task_id=task, seed=seed, gsr=float(task % 2)) for task in range(10) for seed in range(3)]
    found = estimate(runs, GSR)
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((0.5, 0.2366, 0.7634), abs=5e-5)


def test_what_is_known_of_no_run_has_no_estimate() -> None:
    assert estimate([line()], LONGEST_INPUT) is None
    assert estimate([line(), line(max_input_tokens=7)], LONGEST_INPUT) == Estimate(7.0, None, None)


def test_one_task_gives_a_mean_without_an_interval() -> None:
    assert estimate([line(steps=4), line(seed=1, steps=6)], STEPS) == Estimate(5.0, None, None)


@pytest.mark.bench
def test_a_mean_has_students_interval_cut_at_what_the_measure_can_be() -> None:
    found = estimate([line(task_id=task, steps=steps) for task, steps in enumerate((10, 20, 30))], STEPS)
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((20, 0, 20 + 4.302653 * 10 / 3**0.5), abs=1e-4)
    share = estimate([line(task_id=task, ssr=ssr) for task, ssr in enumerate((0.5, 1.0, 1.0))], SSR)
    assert share is not None
    assert share.high == 1.0


@pytest.mark.bench
def test_wilcoxons_test_leaves_out_pairs_without_a_difference() -> None:
    assert wilcoxon([1.0, 2.0, 3.0, 4.0, 5.0, 0.0])[1] == pytest.approx(2 / 2**5)
    assert wilcoxon([0.0, 0.0])[1] == 1.0


@pytest.mark.bench
def test_planners_are_compared_on_the_tasks_and_seeds_that_both_have() -> None:
    runs = {
        "react": [line("react", task, steps=10, gsr=0.0) for task in range(4)],
        "reactree": [line("reactree", task, steps=10 + task, gsr=1.0, ssr=None) for task in range(1, 6)],
    }
    success, steps = pairings(runs)  # no SSR: it is not known of one of them
    assert (success.one, success.other, success.measure, success.pairs) == ("react", "reactree", GSR, 3)
    assert (success.mean, success.median, success.p) == (1.0, 1.0, 0.25)
    assert (steps.measure, steps.mean, steps.median, steps.p) == (STEPS, 2.0, 2.0, 0.25)
    assert success.half == 0.0
    assert steps.half == pytest.approx(2.484, abs=0.001)  # Student's with two degrees of freedom: 4.303 / sqrt(3)


@pytest.mark.bench
def test_of_a_single_task_a_difference_has_no_interval() -> None:
    runs = {name: [line(name, 1, seed=seed, steps=steps) for seed in (0, 1)] for name, steps in (("a", 3), ("b", 5))}
    *_, steps = pairings(runs)
    assert (steps.pairs, steps.mean, steps.half) == (2, 2.0, None)


def test_one_planner_is_compared_with_none() -> None:
    assert pairings({"react": [line()]}) == []


def test_every_row_has_a_value_in_each_column_and_names_its_model() -> None:
    tables = [table for suite in SUITES for table in suite.published]
    assert len(tables) == 8
    for table in tables:
        assert table.head[:2] == ("planner", "language model")
        assert {len(row) for row in table.rows} == {len(table.head)}
        assert all(value.strip() for row in table.rows for value in row)
        named = [tuple(value for value in row if not value[0].isdigit()) for row in table.rows]
        assert len(set(named)) == len(named)
