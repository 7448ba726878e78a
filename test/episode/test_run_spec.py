"""A run is one value: all who make runs make it, their records carry it, and one place makes the episode from it."""

from __future__ import annotations

import enum
import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import pytest
from doubles import ScriptedModel, ScriptedWorld

from reactree_lab.bench.job_runner import RECORD, Finished, JobRunner
from reactree_lab.bench.jobs import BenchSettings, Job, Key
from reactree_lab.dataset.making import Maker
from reactree_lab.dataset.settings import DatasetSettings, Recipe
from reactree_lab.household.generator import generate_house
from reactree_ros import run
from reactree_ros.episode.assembly import assemble, make_world
from reactree_ros.episode.player import replay
from reactree_ros.episode.run_spec import Opened, RunSpec, Selection
from reactree_ros.errors import UserError
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, load_tasks
from reactree_ros.person.desk import Desk
from reactree_ros.planners.spec import Planner, planner, planner_names
from reactree_ros.record.reader import Record, RecordError, read_record
from reactree_ros.tree.options import NONE, Offers, RunOptions, TreeOptions
from reactree_ros.world.skill_policy import policy_from_list

if TYPE_CHECKING:
    from command_line import Cli

PLANNER, LIMIT, TASK_ID = "reactree_wm:questions=2", 60, 2
LLM = Selection(kind="llm", name="expert")
TIMES = ("t", "seconds", "model_seconds")


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    file = tmp_path / "house.json"
    file.write_text(json.dumps(generate_house(seed=5, tasks=2)), encoding="utf-8")
    return file


@pytest.fixture
def task(tasks: Path) -> Task:
    return next(task for task in load_tasks(tasks) if task.task_id == TASK_ID)


@pytest.fixture
def assembled(monkeypatch: pytest.MonkeyPatch) -> list[RunSpec]:
    """The specification of each recorded run, as it came to the place that makes the episode."""
    found: list[RunSpec] = []
    about = RunSpec.about

    def noted(spec: RunSpec) -> dict[str, Any]:
        found.append(spec)
        return about(spec)

    monkeypatch.setattr(RunSpec, "about", noted)
    return found


@pytest.fixture
def expected(tasks: Path, task: Task) -> RunSpec:
    return RunSpec(
        instruction=task.instruction,
        task_id=task.task_id,
        task_name=task.task_name,
        house=task.house,
        planner=PLANNER,
        options=TreeOptions(max_decisions=LIMIT, thoughts_in_a_row=1, offers=Offers.ALL, tells=NONE),
        world=Selection(kind="world", name="virtualhome", settings={"tasks": str(tasks), "task_id": TASK_ID}),
        llm=LLM,
    )


# ---------------------------------------------------------------------- all who make runs


def by_command_line(cli: Cli, tasks: Path, task: Task, folder: Path) -> Record:
    world = ("--world-option", f"tasks={tasks}", "--task-id", task.task_id)
    limit = ("--max-decisions", LIMIT)
    assert cli("run", *world, "--planner", PLANNER, *limit, "--json", "--save", folder / "run.jsonl").code == 0
    return read_record(folder / "run.jsonl")


def by_python(cli: Cli, tasks: Path, task: Task, folder: Path) -> Record:
    world = {"tasks": str(tasks), "task_id": task.task_id}
    run(planner=PLANNER, world_settings=world, max_decisions=LIMIT, save=folder / "run.jsonl")
    return read_record(folder / "run.jsonl")


def by_bench(cli: Cli, tasks: Path, task: Task, folder: Path) -> Record:
    settings = BenchSettings(
        suite="wah_nl", suite_settings={"tasks": tasks}, planners=(PLANNER,), options={"max_decisions": LIMIT}
    )
    runner = JobRunner(settings)
    finished = runner.carry_out(Job(Key("wah_nl", task.task_id, PLANNER, 0), task))
    assert isinstance(finished, Finished)
    return Record([json.loads(line) for line in gzip.decompress(finished.files[RECORD]).splitlines()])


def by_bootstrap(cli: Cli, tasks: Path, task: Task, folder: Path) -> None:
    suite = ("--suite", "wah_nl", "--tasks", tasks)
    memory = folder / "memory.db"
    assert cli("lab", "bootstrap", *suite, "--planner", PLANNER, "--max-decisions", LIMIT, "--memory", memory).code == 0


def by_dataset(cli: Cli, tasks: Path, task: Task, folder: Path) -> None:
    recipe = Recipe(settings=DatasetSettings(houses=1, decisions=LIMIT), planner=PLANNER)
    spec = Maker(recipe).spec_of(task)
    assemble(spec, world=SymbolicWorld(task), model=ExpertModel(), write=lambda event: None).run()


def by_resume(cli: Cli, tasks: Path, task: Task, folder: Path) -> Record:
    cut_off(by_command_line(cli, tasks, task, folder), folder / "cut.jsonl")
    said = ("--world-option", f"tasks={tasks}")
    assert cli("resume", folder / "cut.jsonl", *said, "--json", "--save", folder / "again.jsonl").code == 0
    return read_record(folder / "again.jsonl")


def by_fork(cli: Cli, tasks: Path, task: Task, folder: Path) -> Record:
    by_command_line(cli, tasks, task, folder)
    said = ("--at", 3, "--world-option", f"tasks={tasks}")
    assert cli("record", "fork", folder / "run.jsonl", *said, "--json", "--save", folder / "again.jsonl").code == 0
    return read_record(folder / "again.jsonl")


def by_fork_anew(cli: Cli, tasks: Path, task: Task, folder: Path) -> Record:
    by_command_line(cli, tasks, task, folder)
    said = ("--at", 3, "--planner", PLANNER, "--world-option", f"tasks={tasks}")
    cli("record", "fork", folder / "run.jsonl", *said, "--json", "--save", folder / "again.jsonl")
    return read_record(folder / "again.jsonl")


def cut_off(record: Record, path: Path, *, own: bool = True) -> None:
    """Write the first half of a record, as a kill leaves it; not ``own``: as another machine has it."""
    header = record.run if own else without(record.run, ("seal",))
    events = [header, *record.events[1 : len(record.events) // 2]]
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))


def of_suite(spec: RunSpec) -> Mapping[str, Any]:
    assert spec.world is not None
    return {"world": Selection(kind="suite", name="wah_nl", settings={"tasks": spec.world.settings["tasks"]})}


#: Who makes runs, and which fields are different because of that; only these may be.
MAKERS: dict[Callable[..., Record | None], Callable[[RunSpec], Mapping[str, Any]]] = {
    by_command_line: lambda spec: {},
    by_python: lambda spec: {},
    by_bench: of_suite,
    by_bootstrap: lambda spec: {**of_suite(spec), "memory": ...},
    by_dataset: lambda spec: {"world": None, "llm": None, "options": TreeOptions(max_decisions=LIMIT)},
    by_resume: lambda spec: {"parent": ...},
    by_fork: lambda spec: {"parent": ...},
    by_fork_anew: lambda spec: {"parent": ...},
}


@pytest.mark.slow
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_the_same_settings_are_the_same_value_whoever_makes_the_run(
    make: Callable[..., Record | None],
    cli: Cli,
    tasks: Path,
    task: Task,
    expected: RunSpec,
    assembled: list[RunSpec],
    tmp_path: Path,
) -> None:
    record = make(cli, tasks, task, tmp_path)
    spec = [spec for spec in assembled if spec.task_id == TASK_ID][-1]
    own = MAKERS[make](expected)
    assert not [name for name, value in own.items() if value is ... and not getattr(spec, name)]
    wanted = expected.but(**{name: getattr(spec, name) if value is ... else value for name, value in own.items()})
    assert dict(spec) == dict(wanted)
    assert make.__name__ == "by_fork_anew" or events_of(spec, task) == events_of(wanted, task)
    if record is not None:
        assert RunSpec.of_record(record).but(recorded="") == spec
        if not spec.parent:
            assert timeless(record.events) == events_of(spec, task)


def events_of(spec: RunSpec, task: Task) -> list[dict[str, Any]]:
    """The record of a run by this specification, without times."""
    events: list[dict[str, Any]] = []
    with SymbolicWorld(task) as world:
        assemble(spec, world=world, model=ExpertModel(), write=events.append).run()
    return timeless(json.loads(json.dumps(events)))


def timeless(events: Any) -> list[dict[str, Any]]:
    """Events without times; of the first, without what tells one run from another, too."""
    header, *others = (without(event, TIMES) for event in events)
    ended = [{**one, "result": without(one["result"], TIMES)} if "result" in one else one for one in others]
    return [without(header, ("id", "started", "seal")), *ended]


def without(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


# ---------------------------------------------------------------------- a record carries it


def other_value(name: str) -> Any:
    """A value of an option that is not its default."""
    default = TreeOptions.model_fields[name].default
    if isinstance(default, bool):
        return not default
    if isinstance(default, enum.Enum):
        return next(one for one in type(default) if one is not default)
    if isinstance(default, str):
        return "line"
    return 0.5 if name == "refused_share" else default + 1


@pytest.mark.parametrize(
    ("said", "trained", "thoughts"), [(0, (), 1), (0, ("react", "reactree"), 0), (3, (), 3), (3, ("react",), 3)]
)
def test_a_model_that_was_trained_for_no_planner_thinks_once_in_a_row(
    said: int, trained: tuple[str, ...], thoughts: int
) -> None:
    spec = RunSpec(planner="react", options=TreeOptions(thoughts_in_a_row=said))
    assert spec.decided_by(trained).options.thoughts_in_a_row == thoughts


def specs() -> Iterator[RunSpec]:
    yield from (RunSpec(planner=name) for name in planner_names())
    for name in TreeOptions.model_fields:
        given = {name: other_value(name)} | ({"price_input": 1.0} if name == "max_cost" else {})
        yield RunSpec(planner="react", options=TreeOptions(**given))
    rules = policy_from_list([{"skill": "go to", "verdict": "allow"}], where="test")
    for kind in ("world", "suite"):
        named = Selection(kind=kind, name="virtualhome", settings={"house": "villa"})
        yield RunSpec(planner="react", world=named, llm=LLM, task_id=3, task_name="a", house="b", policy=rules)
    unknown = {"world": Selection(kind="world", name="robot"), "llm": Selection(kind="llm", name="of somebody else")}
    yield RunSpec(planner="react:questions=3", person=True, memory="here.db", **unknown)
    yield RunSpec(planner="reactree", working_memory=True)
    yield RunSpec(planner="react", parent={"id": "x", "path": None, "decision": 3})


@pytest.mark.parametrize("spec", list(specs()), ids=lambda spec: spec.model_dump_json(exclude_defaults=True)[:80])
def test_a_record_gives_back_what_its_run_was(spec: RunSpec) -> None:
    spec = spec.but(instruction="root")
    events: list[dict[str, Any]] = []
    planned = planner("reactree") if spec.planner in planner_names() else None  # others need what is not here
    world, model, desk = ScriptedWorld(), ScriptedModel({"root": ["Act: done"]}), Desk()
    assemble(spec, world=world, model=model, person=desk, builder=planned, write=events.append)
    events[0]["planner"]["name"] = spec.planner
    read = RunSpec.of_record(Record(json.loads(json.dumps(events))))
    assert read.recorded
    assert read.but(recorded="") == spec


@pytest.mark.parametrize(
    "changes",
    [
        {"planner": {}},
        {"planner": {"name": 3}},
        {"options": {"max_depth": "deep"}},
        {"options": []},
        {"working_memory": "perhaps"},
        {"instruction": None},
        {"task_id": [1]},
        {"world": {"name": "virtualhome", "settings": {}, "policy": {"a": 1}}},
        {"memory": ["a"]},
        {"parent": "x"},
    ],
    ids=str,
)
def test_a_header_that_makes_no_sense_is_refused_in_one_line(
    changes: dict[str, Any], expected: RunSpec, task: Task
) -> None:
    header = {**next(iter(events_of(expected, task))), "id": "odd"}
    with pytest.raises(UserError) as raised:
        RunSpec.of_record(Record([{**header, **changes}]))
    assert str(raised.value).startswith("odd: ")
    assert "\n" not in str(raised.value)


# ---------------------------------------------------------------------- validated once


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"planner": "reactre"}, "did you mean 'reactree'"),
        ({"planner": "react:question=1"}, "question"),
        ({"planner": "react", "options": RunOptions(seed=3), "house": 5}, "house"),
    ],
)
def test_a_value_that_makes_no_sense_cannot_be_made(fields: dict[str, Any], message: str) -> None:
    with pytest.raises((UserError, ValueError), match=message):
        RunSpec(**fields)


def test_the_planners_name_says_whether_it_remembers_unless_somebody_does() -> None:
    assert RunSpec(planner="react_wm").working_memory
    assert not RunSpec(planner="react").working_memory
    assert RunSpec(planner="react", working_memory=True).working_memory
    assert not RunSpec(planner="react_wm").but(planner="react", working_memory=None).working_memory


def test_without_an_instruction_there_is_no_run() -> None:
    with pytest.raises(UserError, match="the instruction is empty"):
        assemble(RunSpec(planner="react"), world=ScriptedWorld(), model=ScriptedModel({}))


#: What a record may say and not decide, by the field of the value that it stands in.
REACHING: dict[str, dict[str, Any]] = {
    "world": {"world": Selection(kind="world", name="virtualhome", settings={"tasks": "/etc/passwd"})},
    "llm": {"llm": Selection(kind="llm", name="small", settings={"model": "./model"})},
    "vision": {"vision": Selection(kind="llm", name="openai", settings={"base_url": "http://elsewhere/v1"})},
    "planner": {"planner": "react"},
    "memory": {"memory": "/etc/passwd"},
}


def test_every_field_that_names_something_to_open_is_looked_at() -> None:
    named = {name for name, field in RunSpec.model_fields.items() if Selection in get_args(field.annotation)}
    assert named | {"planner", "memory"} == set(get_args(Opened)) == set(REACHING)


@pytest.mark.parametrize("field", REACHING)
def test_what_only_a_record_says_opens_nothing(field: str, expected: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Planner, "reaching", lambda self: {"rules": "/etc/passwd"})  # of a plug-in, which reads a file
    spec = expected.but(**REACHING[field])
    chosen_of(spec, field)
    with pytest.raises(UserError, match=f"its {field}'s settings {'.*'} would start, open, load or send"):
        chosen_of(spec.but(recorded="of.jsonl"), field)


def chosen_of(spec: RunSpec, field: str) -> Any:
    return getattr(spec, f"chosen_{field}")() if field in ("planner", "memory") else spec.chosen(cast("Any", field))


@pytest.mark.slow
@pytest.mark.parametrize(("said", "own"), [(False, False), (True, False), (False, True)])
def test_a_recorded_memory_is_opened_if_the_user_names_it_or_named_it_then(
    said: bool,
    own: bool,
    cli: Cli,
    tasks: Path,
    tmp_path: Path,
    assembled: list[RunSpec],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    world = ("--world-option", f"tasks={tasks}")
    whole = ("run", *world, "--task-id", TASK_ID, "--memory", "own.db", "--json", "--save", "whole.jsonl")
    assert cli(*whole).code == 0
    record = read_record("whole.jsonl")
    assert record.run["memory"] == assembled[0].memory == str(tmp_path / "own.db")
    cut_off(record, tmp_path / "cut.jsonl", own=own)
    (tmp_path / "own.db").unlink()
    ended = cli("resume", "cut.jsonl", *world, *(("--memory", "own.db") if said else ()), "--json")
    assert (ended.code, ended.json["end"]) == (0, "done")
    assert (tmp_path / "own.db").exists() is (said or own)
    assert ("add --memory " in ended.err) is not (said or own)
    assert assembled[-1].memory == (assembled[0].memory if said or own else "")


def test_a_world_is_made_of_what_a_user_said_alone(expected: RunSpec) -> None:
    with pytest.raises(UserError, match="its world's settings tasks would start, open, load or send"):
        make_world(expected.but(recorded="of.jsonl"))
    with make_world(expected) as world:
        assert world.household.name
    for field in ("world", "llm"):
        with pytest.raises(UserError, match="the run does not say"):
            chosen_of(expected.but(**{field: None}), field)


def test_a_task_that_the_world_does_not_have_is_named(expected: RunSpec) -> None:
    for task_id in (99, "x"):
        with pytest.raises(UserError, match=f"there is no task '?{task_id}"):
            make_world(expected.but(task_id=task_id))
    suite = expected.but(**of_suite(expected))
    for wrong in (99, None):
        with pytest.raises(UserError, match=f"there is no task {wrong} in the suite 'wah_nl'"):
            make_world(suite.but(task_id=wrong))
    with make_world(suite) as world:
        assert world.household.name


def test_a_record_that_names_no_world_is_played_again_all_the_same(expected: RunSpec, task: Task) -> None:
    for world in ({}, {"name": 3}, {"suite": ["x"], "settings": {}}, {"name": "of somebody else", "settings": {}}):
        header, *others = [{**event, "t": 0.0} for event in events_of(expected, task)]
        assert replay(Record([{**header, "id": "x", "started": "", "world": world}, *others])).difference == ""


def test_errors_of_records_are_errors_of_records(expected: RunSpec, task: Task) -> None:
    header = {**next(iter(events_of(expected, task))), "id": "odd", "options": {"nothing": 1}}
    with pytest.raises(RecordError, match="what the run is cannot be used: "):
        RunSpec.of_record(Record([header]))
