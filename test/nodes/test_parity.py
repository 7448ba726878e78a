"""Over ROS and in this process the same tasks give the same decisions, counts, results and texts."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from persons import Says
from planners.test_code_examples import ADAPLANNER, CODEACT, RECODE
from rclpy.lifecycle import TransitionCallbackReturn
from reactree_interfaces.action import ExecuteTask
from recode_doubles import Writes
from record.test_every_replay import GivesUpAtFirst
from ros_graph import Graph
from solving import solution

from reactree_lab.household.generator import generate_house
from reactree_lab.planners.plan import tidied
from reactree_local.small import PACKAGED
from reactree_ros.agent.decision import Decision
from reactree_ros.agent.turns import Said
from reactree_ros.background.pending import Pending
from reactree_ros.episode.assembly import assemble
from reactree_ros.episode.run_spec import RunSpec, Selection
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, load_tasks
from reactree_ros.llm.port import Choice, DecisionRequest, LanguageModel, Reply
from reactree_ros.llm.spec import make_model, model_settings
from reactree_ros.record.reader import read_record
from reactree_ros.record.writer import RecordFile
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.listener import Listener
from reactree_ros.world.spec import WORLDS

#: With SWEEP fewer: each decision takes long.
TASKS, SMALL_TASKS = (number // min(5, int(os.environ.get("SWEEP", "1"))) for number in (20, 10))
#: What is compared of a result; the time it took differs.
RESULT = ("success", "end", "gsr", "ssr", "decisions", "steps", "agent_nodes", "max_depth")


class Decisions(Listener):
    """Writes every decision as a line, as the decisions topic tells it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.episode: Any = None

    def decided(self, node: GoalNode, decision: Decision, reply: Reply) -> None:
        self._add(node, decision.name, str(decision))

    def refused(self, node: GoalNode, said: Said, reason: str) -> None:
        self._add(node, reason, said.text)

    def _add(self, node: GoalNode, kind: str, text: str) -> None:
        count = self.episode.context.budget.decisions
        self.lines.append(_line(node.index, node.subgoal, node.depth, count, kind, text))


def _line(*parts: Any) -> str:
    return " | ".join(map(str, parts)).replace("\n", "\\n")


def model_by_name(llm: str, **given: Any) -> Selection:
    return Selection.from_spec("llm", *model_settings(llm, given, where="test"))


EXPERT = model_by_name("expert")


def spec_of(tasks: Path, task: Task, name: str, llm: Selection | None) -> RunSpec:
    """What `reactree run` makes of it; of a model that was given, nothing is known."""
    world = WORLDS.get("virtualhome")
    place = Selection.from_spec("world", world, world.settings(tasks=str(tasks)))
    trained = () if llm is None else llm.chosen()[0].trained_for(llm.chosen()[1])
    return RunSpec(planner=name, world=place, llm=llm, person=True).decided_by(trained).of_task(task, task.task_id)


def in_this_process(
    task: Task,
    path: Path,
    *,
    tasks: Path,
    name: str = "reactree_wm",
    model: LanguageModel | None = None,
    llm: Selection | None = EXPERT,
) -> tuple[list[str], dict[str, Any]]:
    """Carry a task of a file out without ROS; returns the decisions and the result."""
    decisions = Decisions()
    file = RecordFile(path)
    decisions.episode = episode = assemble(
        spec_of(tasks, task, name, llm),
        world=SymbolicWorld(task),
        model=model or ExpertModel(),
        person=Says(),
        listener=decisions,
        write=file.write,
        flush=file.flush,
    )
    result = episode.run()
    file.close()
    ended = {"success": result.whole, "reason": result.verdict.because}
    return decisions.lines, dataclasses.asdict(result) | ended


#: What differs between two runs of the same: when, for how long, and who answered (over ROS an inference node says it).
DIFFERS = ("t", "seconds", "model_seconds", "answered_by")
#: What of the header does: which run it is, and when it began. All else of it is the same, world and model, too.
OWN = ("id", "started")


def recorded(path: Path) -> tuple[list[dict[str, Any]], dict[int, list[str]]]:
    """What a record says of a run but for times: its events, and the status that each behaviour ended with.

    Between which ticks a world answers is a matter of time, and so is with which others a status is told, and whether a
    skill is seen to run.
    """
    events: list[dict[str, Any]] = []
    statuses: dict[int, list[str]] = {}
    for event in read_record(path).events:
        if event["e"] == "status":
            statuses |= {node: status for node, *status in event["of"]}
        else:
            events.append(without_times(event))
    events[0] = {name: value for name, value in events[0].items() if name not in OWN}
    return events, statuses


def without_times(value: Any) -> Any:
    """Leave out what differs, however deep: a reply has requests, and a failure what it took."""
    if isinstance(value, dict):
        return {name: without_times(one) for name, one in value.items() if name not in DIFFERS}
    return [without_times(one) for one in value] if isinstance(value, list) else value


class Comparison:
    """Carries tasks out over ROS and in this process, and makes sure that nothing differs."""

    def __init__(self, graph: Graph, folder: Path, tasks: Path) -> None:
        self.lines = 0
        self._tasks = tasks
        self._graph = graph
        self._folder = folder
        self._heard = graph.decisions()

    def __call__(self, task: Task, *, trained_for: str = "", **options: Any) -> ExecuteTask.Result:
        """Carry a task out twice; where the planner follows from the language model, that one is not named over ROS."""
        self._heard.clear()
        path = self._folder / f"{task.task_id}.jsonl"
        goal = {"planner": options["name"]} if "name" in options else {}
        if trained_for:
            options["name"] = trained_for
        decisions, expected = in_this_process(task, path, tasks=self._tasks, **options)
        result: ExecuteTask.Result = self._graph.task("", task_id=task.task_id, **goal).result
        self._graph.until(lambda: len(self._heard) >= len(decisions), "every decision was heard")
        over_ros = [
            _line(msg.node_id, msg.subgoal, msg.depth, msg.count, msg.reason or msg.kind, msg.text)
            for msg in self._heard
        ]
        assert over_ros == decisions, task.instruction
        assert {name: getattr(result, name) for name in RESULT} == {name: expected[name] for name in RESULT}
        assert recorded(Path(result.saved_to)) == recorded(path), task.instruction
        assert (result.error_code, result.message) == (ExecuteTask.Result.NONE, expected["reason"])
        self.lines += len(decisions)
        return result


def test_the_same_tasks_give_the_same_over_ros_as_in_this_process(graph: Graph, wah_nl: Path, tmp_path: Path) -> None:
    file = wah_nl / "tasks.json"
    graph.inference()
    graph.bridge(tasks=str(file))
    graph.planner(planner="reactree_wm", save_to=str(tmp_path / "ros"))
    compare = Comparison(graph, tmp_path, file)
    for task in load_tasks(file)[:TASKS]:
        compare(task)
    assert compare.lines > 10 * TASKS, "the tasks ask for something"


#: How vLLM runs the small model's weights: in fp32, so that both of its engines decide alike.
WITH_VLLM = {"model": str(PACKAGED), "dtype": "float32", "max_model_len": 8192, "engine_args": "{enforce_eager: true}"}


@pytest.mark.parametrize(("llm", "given"), [("small", {}), ("vllm", WITH_VLLM)], ids=["small", "vllm"])
def test_the_small_model_is_the_same_over_ros_as_in_this_process(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, llm: str, given: dict[str, Any]
) -> None:
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    chosen = model_by_name(llm, **given)
    spec, settings = chosen.chosen()
    if missing := [one for one in spec.needs if importlib.util.find_spec(one) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    file = tmp_path / "house.json"
    file.write_text(json.dumps(generate_house(seed=9_000_100, tasks=SMALL_TASKS)), encoding="utf-8")
    trained_for, *_ = spec.trained_for(settings)
    inference = graph.inference(llm=llm, active=False, **given)
    assert inference.trigger_configure() == TransitionCallbackReturn.SUCCESS
    activated = TransitionCallbackReturn.SUCCESS
    graph.until(lambda: inference.trigger_activate() == activated, "the model is loaded", patience=300.0)
    graph.bridge(tasks=str(file))
    graph.planner(save_to=str(tmp_path / "ros"))
    compare = Comparison(graph, tmp_path, file)
    model = make_model(spec, settings)
    try:
        results = [compare(task, model=model, llm=chosen, trained_for=trained_for) for task in load_tasks(file)]
    finally:
        model.close()
    print(f"{sum(one.success for one in results)} of {len(results)} tasks reached their goal")  # noqa: T201


class Plans(LanguageModel):
    """Says one plan whenever it may say anything, and otherwise the first thing that is offered."""

    def __init__(self, plan: Sequence[str]) -> None:
        self.plan = "\n".join(plan)

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        may_say = request.may_say
        return Pending.ready(Reply(may_say.options[0] if isinstance(may_say, Choice) else self.plan))


HOUSE = generate_house(seed=7, tasks=1)
PLANNERS: dict[str, Callable[[], LanguageModel]] = {
    "react": ExpertModel,
    "hiagent": ExpertModel,
    "tree_planner:plans=3": lambda: Plans([tidied(skill) for skill in solution(HOUSE[0])]),
    "recode": lambda: Writes(RECODE),
    "codeact": lambda: Writes(CODEACT),
    "adaplanner": lambda: Writes(ADAPLANNER),
    "adapt": GivesUpAtFirst,
}


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_is_the_same_over_ros_as_in_this_process(graph: Graph, tmp_path: Path, name: str) -> None:
    if name in ("recode", "codeact", "adaplanner"):
        pytest.importorskip("pydantic_monty")
    file = tmp_path / "house.json"
    file.write_text(json.dumps(HOUSE), encoding="utf-8")
    graph.inference(PLANNERS[name]())
    graph.bridge(tasks=str(file))
    graph.planner(save_to=str(tmp_path / "ros"), working_memory=False)
    result = Comparison(graph, tmp_path, file)(load_tasks(file)[0], name=name, model=PLANNERS[name](), llm=None)
    assert result.success
