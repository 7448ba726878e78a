"""The settings of a bench and the jobs that follow from them."""

from __future__ import annotations

import dataclasses
import gzip
import json
import pickle
import re
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from bench_runs import bench_of

from reactree_lab.bench import suites
from reactree_lab.bench.folder import BenchFolder, read_settings
from reactree_lab.bench.job_runner import GOAL, RECORD, Finished, JobRunner
from reactree_lab.bench.jobs import BenchSettings, Key, digest, read_contenders
from reactree_lab.bench.report import BenchReport
from reactree_lab.bench.suites import GENERATED
from reactree_lab.household.generator import generate_house
from reactree_ros.errors import UserError
from reactree_ros.household.expert.model import ExpertModel


def generated(*planners: str, **settings: Any) -> BenchSettings:
    return BenchSettings(suite="generated", suite_settings=settings, planners=planners or ("react",))


def test_the_seeds_the_rooms_and_the_tasks_of_the_houses_can_be_chosen() -> None:
    tasks = generated(houses=2, first_seed=7, rooms=3, tasks_per_house=2).tasks()
    assert list(tasks) == [701, 702, 801, 802]
    expected = generate_house(seed=8, rooms=3, tasks=2)[1]
    assert tasks[802].instruction == expected["nl_instructions"][0]
    assert tasks[801] != generated(houses=2, first_seed=7, tasks_per_house=2).tasks()[801]


def test_tasks_can_be_about_some_things_and_not_about_others() -> None:
    houses = {"houses": 2, "first_seed": 7, "tasks_per_house": 4}
    tasks = generated(**houses, without="pudding,put_fridge", about="wine,apple").tasks()
    assert list(tasks) == list(generated(**houses).tasks())
    for task in tasks.values():
        items = {one.item for one in task.goal}
        assert task.task_name != "put_fridge"
        assert "pudding" not in items
        assert items & {"wine", "apple"}
    assert generated(**houses).tasks()[703] == generated(**houses, without="", about="").tasks()[703]


def test_a_house_is_made_when_its_first_run_is_about_to_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(*, seed: int, **settings: Any) -> Any:
        made.append(seed)
        return generate_house(seed=seed, **settings)

    monkeypatch.setattr(suites, "generate_house", counted)
    settings = generated("react", "reactree", houses=20_000, rooms=3, tasks_per_house=2)
    tasks = settings.tasks()
    assert (len(tasks), made) == (40_000, [])
    done = [Key("generated", task_id, name, 0) for task_id in (1, 2) for name in settings.planners]
    first, second, third, fourth = islice(settings.jobs(tasks, done=done), 4)
    assert [job.key.task_id for job in (first, second, third, fourth)] == [101, 101, 102, 102]
    assert first.task is second.task
    assert made == [1]
    with pytest.raises(KeyError):
        tasks[103]


def test_the_planners_take_turns_over_the_tasks_of_a_seed() -> None:
    settings = BenchSettings(
        suite="generated", suite_settings={"houses": 1}, planners=("react", "reactree"), seeds=2, limit=1
    )
    assert [(job.key.seed, job.key.task_id, job.key.planner) for job in settings.jobs()] == [
        (0, 1, "react"),
        (0, 1, "reactree"),
        (1, 1, "react"),
        (1, 1, "reactree"),
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"suite": "generatd"}, "task suite 'generatd' is unknown; did you mean 'generated'"),
        (
            {"suite_settings": {"house": 1}},
            "task suite 'generated': there is no setting 'house'; did you mean 'houses'",
        ),
        ({"suite_settings": {"rooms": 9}}, "task suite 'generated': rooms is '9': input should be less than or equal"),
        ({"suite_settings": {"tasks_per_house": 100}}, "tasks_per_house is '100': input should be less than 100"),
        (
            {"suite_settings": {"about": "puding"}},
            "about is 'puding': there is no object class .*mean 'pudding'",
        ),
        ({"planners": ()}, "--planner names no planner"),
        ({"planners": ("react", "react")}, "--planner: react is named twice"),
        ({"planners": ("raect",)}, "planner 'raect' is unknown; did you mean 'react'"),
        ({"planners": ("a",), "contenders": {"a": {"planner": "raect"}}}, "planner 'raect' is unknown; did you mean"),
        ({"seeds": 0}, "--seeds 0: must be at least 1"),
        ({"llm": {"llm": "nobody"}}, "settings of the bench: language model 'nobody' is unknown"),
        ({"options": {"max_depht": 1}}, "options of the bench: there is no setting 'max_depht'; did you mean"),
        ({"options": {"seed": 1}}, "a bench has no option 'seed'"),
    ],
)
def test_what_cannot_be_used_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        BenchSettings(**{"suite": "generated", "planners": ("react",), **wrong})


def test_settings_that_are_left_out_are_those_by_default() -> None:
    plain = generated()
    assert plain == generated(houses=10, first_seed=0)
    assert plain == dataclasses.replace(plain, options={"max_depth": 20}, llm={"llm": "expert"})
    assert plain != dataclasses.replace(plain, options={"max_depth": 3})


def test_settings_are_read_back_from_a_folder_and_sent_to_other_processes_as_they_were(tmp_path: Path) -> None:
    settings = dataclasses.replace(
        generated("react", "reactree_wm:control_flow=seq", rooms=4), options={"max_steps": 7}
    )
    bench_of(tmp_path / "out", settings=settings, runs=1)
    assert read_settings(tmp_path / "out") == settings
    assert pickle.loads(pickle.dumps(settings)) == settings


def task_file(path: Path, seed: int) -> Path:
    path.write_text(json.dumps(generate_house(seed=seed, tasks=1)), encoding="utf-8")
    return path


def recorded(tasks: Path) -> BenchSettings:
    return BenchSettings(suite="wah_nl", suite_settings={"tasks": str(tasks)}, planners=("react",))


def test_a_task_file_is_known_by_what_it_holds_not_by_where_it_lies(tmp_path: Path) -> None:
    file = task_file(tmp_path / "tasks.json", seed=1)
    assert recorded(file).digests == {"tasks": digest(file)}
    out = bench_of(tmp_path / "out", settings=recorded(file), runs=1)
    BenchFolder(out, recorded(file.rename(tmp_path / "moved.json"))).close()
    with pytest.raises(UserError, match=r"was started with other settings: digests\.tasks was "):
        BenchFolder(out, recorded(task_file(tmp_path / "moved.json", seed=2)))


def test_a_suite_of_recorded_tasks_needs_their_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--suite wah_nl needs --tasks"):
        BenchSettings(suite="wah_nl", planners=("react",)).tasks()
    with pytest.raises(UserError, match=r"nowhere\.json: cannot be read"):
        recorded(tmp_path / "nowhere.json")


def test_the_run_of_a_suite_that_tells_no_goal_is_saved_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BenchSettings, "spec", property(lambda self: dataclasses.replace(GENERATED, goal=None)))
    settings = generated(houses=1)
    with closing(JobRunner(settings)) as runner:
        finished = runner.carry_out(next(settings.jobs()))
    assert isinstance(finished, Finished)
    assert (finished.line.end, finished.line.achieved) == ("done", True)
    assert GOAL not in finished.files
    assert RECORD in finished.files


CONTENDERS = """
one model: {planner: "reactree_wm:control_flow=seq", llm: expert}
two of them:
  planner: react
  llm: fallback
  models: [{llm: expert}, {llm: expert}]
as all others: {planner: react_wm}
"""


def test_contenders_are_planners_with_language_models_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "contenders.yaml"
    file.write_text(CONTENDERS, encoding="utf-8")
    contenders = read_contenders(file)
    one, two, others = contenders
    settings = BenchSettings(
        suite="generated", suite_settings={"houses": 1}, planners=(*contenders, "react"), contenders=contenders
    )
    assert [settings.planner_of(name) for name in settings.planners] == [
        "reactree_wm:control_flow=seq",
        "react",
        "react_wm",
        "react",
    ]
    assert settings.llm_of(one) == settings.llm_of(others) == settings.llm_of("react") == {"llm": "expert"}
    assert settings.llm_of(two)["llm"] == "fallback"
    bench_of(tmp_path / "out", settings=settings, runs=1)
    assert read_settings(tmp_path / "out") == settings
    with closing(JobRunner(settings)) as runner:
        for job in islice(settings.jobs(), 2):
            finished = runner.carry_out(job)
            assert isinstance(finished, Finished)
            assert (finished.line.planner, finished.line.achieved) == (job.key.planner, True)
            head = json.loads(gzip.decompress(finished.files[RECORD]).split(b"\n", 1)[0])
            assert head["llm"] == settings.llm_of(job.key.planner)


@pytest.mark.slow
def test_contenders_are_told_apart_by_the_memory_of_their_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reactree_ros.memory.embedding.lacking", lambda extra: {extra: ""})
    monkeypatch.setattr("reactree_lab.bench.job_runner.make_model", lambda spec, settings: ExpertModel())
    file = tmp_path / "contenders.yaml"
    file.write_text(
        "with: {planner: reactree_wm}\n"
        "flat: {planner: react_wm, memory: 'household:index=words:planner=react_wm'}\n"
        "without: {planner: reactree_wm, memory: none}\n",
        encoding="utf-8",
    )
    settings = BenchSettings(
        suite="generated",
        suite_settings={"houses": 1},
        limit=1,
        planners=("with", "flat", "without"),
        contenders=read_contenders(file),
        llm={"llm": "openai", "base_url": "http://localhost:1/v1"},
    )
    with closing(JobRunner(settings)) as runner:
        finished = [runner.carry_out(job) for job in settings.jobs()]
    folder = tmp_path / "out"
    with closing(BenchFolder(folder, settings)) as opened:
        for one in finished:
            assert isinstance(one, Finished)
            assert one.line.achieved
            opened.record(one)
    assert BenchReport(folder).memories == [
        "with: household:index=words:planner=reactree_wm",
        "flat: household:index=words:planner=react_wm",
        "without: none",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {planner: react, memory: nowhere.db}", "nowhere.db: no such memory"),
        ("", "names none; each looks like 'NAME: {planner: react, llm: small, …}'"),
        ("[react]", "names none"),
        ("a: [", "while parsing a flow node"),
        ("a: react", "'a' names no planner"),
        ("a: {llm: expert}", "'a' names no planner"),
        ("..: {planner: react}", "'..': a name with a slash or a leading dot cannot name a folder"),
        ("a/b: {planner: react}", "'a/b': a name with a slash or a leading dot cannot name a folder"),
        ("a: {planner: react, llm: exprt}", "'a': language model 'exprt' is unknown; did you mean 'expert'"),
        ("a: {planner: react, llm: expert, modle: x}", "'a': there is no setting 'modle'"),
    ],
)
def test_what_is_wrong_with_contenders_is_named(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "contenders.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=re.escape(message)):
        read_contenders(file)


@pytest.mark.parametrize("digests", [{}, {"digests": None}])
def test_the_settings_of_somebody_elses_folder_open_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digests: dict[str, None]
) -> None:
    def opened(path: Path) -> str:
        raise AssertionError(f"{path} was opened")

    monkeypatch.setattr("reactree_lab.bench.jobs.digest", opened)
    values = {"suite": "wah_nl", "suite_settings": {"tasks": "/dev/zero"}, "planners": ["react"], **digests}
    (tmp_path / "settings.json").write_text(json.dumps(values))
    assert read_settings(tmp_path).digests == {}
