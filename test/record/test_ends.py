"""The end of a run says what was reached: which limit, how many of how many, which not, and who judged it."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Cli
from doubles import EVERYTHING, AgentNodes, Clock, ScriptedModel, ScriptedWorld, expand, scripted_episode

from reactree_ros.episode import Episode
from reactree_ros.episode.player import replay
from reactree_ros.household.expert.instruction import goal_of
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.planners.spec import planner
from reactree_ros.record.moment import Moment
from reactree_ros.record.reader import read_record
from reactree_ros.record.schema import Event
from reactree_ros.record.writer import Recorder
from reactree_ros.tree.options import TreeOptions
from reactree_ros.view.drawing import as_dot
from reactree_ros.view.exports import as_markdown
from reactree_ros.view.terminal import event_lines, tree_rows
from reactree_ros.world.port import Score

DONE, UP = ["Act: go to kitchen 1", "Act: done"], ["Think: nothing here", "Act: failure"]
LONG = ["Think: a", "Think: b", *DONE]


@pytest.mark.parametrize(
    ("script", "limit", "headline", "whole", "undone"),
    [
        ({"root": DONE}, 9, "Claimed, not checked (end: done)", True, []),
        (
            {"root": [expand("parallel", "a", "b", "c")], "a": DONE, "b": DONE, "c": DONE},
            9,
            "Claimed, not checked",
            True,
            [],
        ),
        (
            {"root": [expand("parallel", "a", "b", "c")], "a": DONE, "b": DONE, "c": LONG},
            4,
            "Done in part: 2 of 3 (end: out_of_decisions)",
            False,
            ["'c' failed: Max decisions"],
        ),
        (
            {"root": [expand("parallel", "a", "b", "c")], "a": DONE, "b": DONE, "c": DONE},
            3,
            "Done in part: 1 of 3 (end: out_of_decisions)",
            False,
            ["'b' failed: Max decisions", "'c' was not reached"],
        ),
        (
            {"root": [expand("sequence", "a", "b", "c")], "a": DONE, "b": UP, "c": DONE},
            9,
            "Done in part: 1 of 3 (end: failure)",
            False,
            ["'b' failed: nothing here", "'c' was not reached"],
        ),
        (
            {"root": [expand("fallback", "a", "b")], "a": UP, "b": DONE},
            9,
            "Claimed, not checked (end: done)",
            True,
            [],
        ),
        (  # what is replaced is not a failure, what a parallel lacks is one, however deep
            {
                "root": [expand("sequence", "a", "b")],
                "a": [expand("fallback", "x", "y")],
                "x": UP,
                "y": [expand("parallel", "k", "l", "m")],
                "k": DONE,
                "l": UP,
                "m": DONE,
                "b": DONE,
            },
            99,
            "Done in part: 3 of 4 (end: done)",
            False,
            ["'l' failed: nothing here"],
        ),
        (  # a step of a sequence below a parallel is not a thing of its own
            {
                "root": [expand("parallel", "a", "b")],
                "a": [expand("sequence", "x", "y")],
                "x": DONE,
                "y": UP,
                "b": DONE,
            },
            99,
            "Done in part: 1 of 2 (end: failure)",
            False,
            ["'a' failed: nothing here"],
        ),
        ({"root": UP}, 9, "Goal not reached (end: failure)", False, []),
        ({"root": LONG}, 2, "Goal not reached (end: out_of_decisions)", False, []),
    ],
)
def test_the_end_counts_and_names_what_was_not_done(
    script: dict[str, list[str]], limit: int, headline: str, whole: bool, undone: list[str]
) -> None:
    result = scripted_episode(script, options=TreeOptions(max_decisions=limit)).run()

    assert result.verdict.headline.startswith(headline)
    assert (result.whole, list(result.undone)) == (whole, undone)


@pytest.mark.parametrize("limit", range(1, 12))
def test_a_limit_that_was_reached_anywhere_is_the_end(limit: int) -> None:
    script = {"root": [expand("parallel", "a", "b", "c")], "a": LONG, "b": LONG, "c": LONG}

    episode = scripted_episode(script, options=TreeOptions(max_decisions=limit))
    result = episode.run()

    met = any(node.failure is not None for node in episode.context.nodes)
    assert (result.end == "out_of_decisions") == met == (limit < 11)
    assert result.whole == (result.branches_done == 3) == (limit >= 11)
    reached = scripted_episode(
        script, options=TreeOptions(max_decisions=limit), world=ScriptedWorld(score=Score(1.0, 1.0))
    ).run()
    assert (reached.achieved, reached.end) == (True, result.end)


def recorded(script: dict[str, list[str]], limit: int) -> list[Event]:
    events: list[Event] = []
    recorder = Recorder(events.append, flush=lambda: None, world={}, llm={})
    made = {"model": ScriptedModel(script), "world": ScriptedWorld(), "planner": AgentNodes(EVERYTHING)}
    Episode("root", record=recorder, options=TreeOptions(max_decisions=limit), clock=Clock(), **made).run()
    return events


def test_what_was_never_begun_is_not_reached_everywhere() -> None:
    script = {"root": [expand("parallel", "a", "b", "c")], "a": DONE, "b": [expand("sequence", "x", "y")], "c": DONE}
    events = recorded(script, 3)
    moment = Moment.after(events)
    status = {node.name: moment.status_of(node) for node in moment.nodes.values() if node.kind != "skill"}
    lines = [line for at, event in enumerate(events) for line in event_lines(Moment.after(events[: at + 1]), event)]
    rows = {row.plain.strip() for row in tree_rows(moment, folded=False)}

    assert (status["a"], status["b"]) == ("success", "failure")
    assert {status[name] for name in ("x", "y", "c", "sequence")} == {""}  # of the sequence, too, nothing was begun
    assert rows >= {"○ x", "○ y", "○ → sequence"}  # the verdict says that the decisions ran out
    assert [line.style for line in lines if line.text.startswith("○ c:")] == ["dim"]
    assert as_markdown(moment).count("*not reached*: `Max decisions`") == 2
    assert as_dot(moment).count("style=dashed") == 4


def test_what_was_left_out_is_said_by_any_model() -> None:
    script = {"root apple juice": ["Act: pick up apple 1", "Act: done", "Act: done"]}
    world = ScriptedWorld(skills=["pick up apple 1", "pick up juice 1"])

    result = scripted_episode(script, world=world, instruction="root apple juice").run()

    assert (result.verdict.judgement.word, list(result.untouched), result.whole) == ("partly", ["juice"], False)
    assert result.verdict.because == "the planner says that it is done, but nothing was done with 'juice'"


@pytest.mark.parametrize(
    ("rest", "untouched"),
    [
        *(
            (f"{rest} juice", [])
            for rest in (", not the", "but no", ", never the", "without touching the", "except the")
        ),
        *((f"{rest} juice", []) for rest in (", don't touch the", "but leave the", "and ignore the", "and keep the")),
        ("and leave the juice where it is", []),
        *(
            (f"{rest} juice", ["juice"])
            for rest in ("and the", ". Don't forget the", "and not only the", "or notes on")
        ),
        ("and leave the juice on it", ["juice"]),
        ("but not the pear, and the juice", ["juice"]),
        ("and the apples", []),  # one form for both
    ],
)
def test_what_is_not_to_be_touched_is_not_missed(rest: str, untouched: list[str]) -> None:
    told = f"pick up the apple {rest}"
    skills = ["pick up apple 1", "pick up juice 1", "pick up apples 1"]
    script = {told: ["Act: pick up apple 1", "Act: done", "Act: done"]}

    result = scripted_episode(script, world=ScriptedWorld(skills=skills), instruction=told).run()

    assert list(result.untouched) == untouched


# ---------------------------------------------------------------------- the goal that is read


@pytest.mark.parametrize(
    ("instruction", "goal"),
    [
        ("Put the book on the bed", {"on_book_bed": 1}),
        ("Please put two apples in the fridge, and then turn on the tv.", {"inside_apple_fridge": 2, "turnOn_tv": 1}),
        ("Get 1 apple and put it on the coffee table", {"on_apple_coffeetable": 1}),
        ("Put the books on the bed", {}),  # how many?
        ("Put the apple on the table", {}),  # which?
        ("Put some apples on the coffee table", {}),
        ("Put 1 apple and 1 novel on the coffee table", {}),
        ("Put the apple in the fridge and the apple on the coffee table", {}),
        ("Put the book on the bed and dance", {}),
        ("Don't put the book on the bed", {}),
        ("Put the book on the bed, but not in the bedroom", {}),
        ("Put the book from the kitchen on the bed", {}),
        ("Put the red book on the bed", {}),
        ("Put 1 book 2 on the bed", {}),
        ("Put the book on the bed 🙂", {}),
        ("Bring me the book", {}),
        ("Open the fridge", {}),
    ],
)
def test_a_goal_is_read_only_where_nothing_is_left_to_guess(instruction: str, goal: dict[str, int]) -> None:
    assert goal_of(instruction, {}) == goal


def test_an_instruction_that_is_no_tasks_is_judged_and_its_record_keeps_the_goal(cli: Cli, tmp_path: Path) -> None:
    save = tmp_path / "run.jsonl"

    out = cli("run", "Put the book on the bed", "--house", "villa", "--save", save)

    record = read_record(save)
    told = "Goal reached (end: done, GSR 1.00, SSR 1.00, judged by the goal read from the instruction)"
    assert (out.code, told in " ".join(out.out.split())) == (0, True)
    assert record.run["goal"] == record.events[-1]["result"]["goal"] == {"on_book_bed": 1}
    assert replay(record).identical


def test_what_a_person_said_more_is_not_judged_by_the_instruction_alone() -> None:
    [task, *_] = load_tasks(HOUSES["villa"])
    model = ScriptedModel({"Put the book on the bed": ["Act: go to kitchen 1", "Act: done"]})
    made = {"world": SymbolicWorld(task, scored=False), "planner": planner("react")}
    episode = Episode("Put the book on the bed", model=model, **made)
    episode.hear("no, leave it where it is")

    assert (episode.run().gsr, dict(episode.goal)) == (None, {"on_book_bed": 1})
