"""What agent nodes are told of what was searched: where it stands among their turns, and when nothing is told."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from doubles import ScriptedModel, expand
from recorded_runs import Kept, assert_replays, recorded_episode

from reactree_lab.household.generator import generate_house
from reactree_ros.agent.turns import Said, Saw, ToldSearched
from reactree_ros.episode import Episode
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, parse_tasks
from reactree_ros.planners.spec import planner
from reactree_ros.tree.goal_node import GoalNode

SEARCHING = "reactree_wm:search_memory=true"
TASKS = [parse_tasks(generate_house(seed=seed, tasks=1))[0] for seed in (5, 6)]


def recorded(task: Task, name: str = SEARCHING, *, robots: int = 1) -> tuple[Episode, Kept]:
    world = SymbolicWorld(task, robots=robots)
    episode, kept = recorded_episode({}, name=name, model=ExpertModel(), world=world, instruction=task.instruction)
    assert episode.run().gsr == 1.0
    return episode, kept


def told_in(node: GoalNode) -> list[ToldSearched]:
    return [turn for turn in node.turns if isinstance(turn, ToldSearched)]


@pytest.mark.parametrize("task", TASKS)
def test_it_is_told_after_a_search_and_where_a_node_begins(task: Task) -> None:
    episode, kept = recorded(task)
    nodes = episode.context.nodes
    assert told_in(nodes[0]) == [], "nothing was searched before"
    assert any(isinstance(node.turns[2], ToldSearched) for node in nodes[1:] if len(node.turns) > 2)
    for node in nodes:
        for before, turn in itertools.pairwise(node.turns):
            assert not isinstance(turn, ToldSearched) or isinstance(before, Saw), "an observation comes first"
    for turn in itertools.chain.from_iterable(map(told_in, nodes)):
        names = {one.place.name for one in turn.searched}
        assert names
        assert not names & {place.name for place in turn.unsearched}
    assert_replays(kept)


def test_off_nothing_is_told_and_everything_is_as_before() -> None:
    assert planner("reactree_wm").settings.model_dump()["search_memory"] is False
    episode, _ = recorded(TASKS[0], "reactree_wm")
    assert episode.context.search is None
    assert not any(told_in(node) for node in episode.context.nodes)
    assert "Searched" not in "".join(node.text for node in episode.context.nodes)


def said(skill: str) -> str:
    return f"Act: {skill}"


def run_of(says: Sequence[str], task: Task = TASKS[0]) -> list[str]:
    """What follows each act, without observations, as one text an act."""
    model = ScriptedModel({task.instruction.split("\n")[0]: [*says, "Act: done"]})
    episode, kept = recorded_episode(
        {}, name="react_wm:search_memory=true", model=model, world=SymbolicWorld(task), instruction=task.instruction
    )
    episode.run()
    assert_replays(kept)
    after: list[str] = []
    for turn in episode.root.turns:  # type: ignore[attr-defined]
        if isinstance(turn, Said):
            after.append("")
        elif isinstance(turn, ToldSearched):
            after[-1] = turn.text
    return after[:-1]


def test_a_recall_of_what_is_not_known_tells_what_was_searched_and_one_of_what_is_known_does_not() -> None:
    go, arrive, ask = said("go to kitchen 1"), said("go to kitchen table 1"), "recall location of "
    unknown, known = said(f"{ask}toothpaste"), said(f"{ask}plate")
    nothing, room, table, not_known, is_known = run_of([unknown, go, arrive, unknown, known])
    assert (nothing, room, is_known) == ("", "", "")
    assert table.startswith("Searched in kitchen 1: kitchen table (1); not yet: bookshelf (1), dishwasher (1), ")
    assert not_known == table


def test_of_several_robots_each_is_told_who_searched() -> None:
    episode, kept = recorded(TASKS[0], robots=2)
    told = [turn for node in episode.context.nodes for turn in told_in(node)]
    assert {one.robot for turn in told for one in turn.searched} == {"robot_1", "robot_2"}
    by_others = [turn.text for turn in told if " by robot_" in turn.text]
    assert by_others
    assert_replays(kept)


def test_a_world_that_tells_no_places_is_not_told_of_either() -> None:
    script = {"root": ["Act: open fridge 1", expand("sequence", "a")], "a": ["Act: go to kitchen 1", "Act: done"]}
    episode, kept = recorded_episode(script, name=SEARCHING)
    assert episode.run().end == "done"
    assert not any(told_in(node) for node in episode.context.nodes)
    assert_replays(kept)
