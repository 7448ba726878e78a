"""The expert with lapses: what it forgets and gives up is drawn, and what it is told reminds it."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import pytest
from pydantic import ValidationError

from reactree_lab.bench.lapses import LapsingModel, LapsingSettings
from reactree_lab.household.generator import generate_house
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import TreeOptions

TASKS = [parse_tasks(generate_house(seed=seed, tasks=1))[0] for seed in range(40, 52)]


def episode_of(number: int, name: str, *, seed: int = 0, **lapses: Any) -> Episode:
    task, model = TASKS[number], LapsingModel(LapsingSettings(**lapses))
    options = TreeOptions(seed=seed)
    return Episode(task.instruction, world=SymbolicWorld(task), model=model, planner=planner(name), options=options)


def runs(name: str, **lapses: Any) -> list[EpisodeResult]:
    return [episode_of(number, name, **lapses).run() for number in range(len(TASKS))]


def texts(episode: Episode) -> list[str]:
    episode.run()
    return [node.text for node in episode.context.nodes]


@pytest.mark.parametrize("name", ["react_wm", "reactree_wm"])
def test_without_lapses_it_is_the_expert(name: str) -> None:
    task = TASKS[0]
    expert = Episode(task.instruction, world=SymbolicWorld(task), model=ExpertModel(), planner=planner(name))
    assert texts(episode_of(0, name)) == texts(expert)


@pytest.mark.slow
def test_the_same_seeds_give_the_same_lapses_and_others_give_others() -> None:
    def lapsing(**given: Any) -> list[str]:
        return texts(episode_of(1, "react_wm", forgets=0.6, gives_up=0.0, **given))

    assert lapsing() == lapsing()
    assert len({tuple(lapsing(seed=seed)) for seed in range(4)}) > 1
    assert len({tuple(lapsing(lapse_seed=seed)) for seed in range(4)}) > 1


@pytest.mark.slow
def test_who_forgets_searches_the_same_places_again_and_search_memory_reminds_it() -> None:
    for name in ("react_wm", "reactree_wm"):
        without, forgets, reminded = (
            fmean(run.steps for run in runs(f"{name}{option}", forgets=share))
            for option, share in (("", 0.0), ("", 0.6), (":search_memory=true", 0.6))
        )
        assert without * 1.1 < forgets
        assert reminded < forgets - (forgets - without) / 2


@pytest.mark.slow
def test_who_gives_up_fails_and_deciding_again_helps() -> None:
    never, again = (
        [run.gsr for run in runs(f"reactree_wm:re_expand={times}", gives_up=0.03, lapse_seed=1)] for times in (0, 2)
    )
    assert fmean(never) < fmean(again)  # type: ignore[type-var]
    assert all(run.gsr == 1.0 for run in runs("react_wm", gives_up=1.0)), "the root does not give up"


@pytest.mark.parametrize("wrong", [{"forgets": -0.1}, {"forgets": 1.0}, {"gives_up": 1.1}])
def test_what_is_no_probability_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        LapsingSettings(**wrong)  # type: ignore[arg-type]
