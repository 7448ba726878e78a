"""The tasks of the Embodied Agent Interface's VirtualHome part, read from the installed package ``eai-eval``.

Its data stays where it is, and its goals are judged by its own evaluator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import Field

from reactree_lab.worlds.eai.actions import ACTIONS
from reactree_ros.agent.household import named
from reactree_ros.household.tasks import AGENT_CLASS, Task
from reactree_ros.world.port import Score
from reactree_ros.world.spec import TasksOnDemand

_DATA = "dataset/programs_processed_precond_nograb_morepreconds"
_OF = "TrimmedTestScene1_graph/results_intentions_march-13-18/file"
_RELATIONS = {"ON": "{} on {}", "INSIDE": "{} in {}", "CLOSE": "{} close to {}", "FACING": "{} facing {}"}
_RELATIONS |= {"HOLDS_RH": "{} holding {} in the right hand", "HOLDS_LH": "{} holding {} in the left hand"}


class EaiTask(Task):
    """A task with its goal as the benchmark has it, and its gold program."""

    task_goal: dict[str, int] = Field(default_factory=dict)  # the household has no words for its goal
    identifier: str  # of its file, e.g. ``27_2``
    states: list[dict[str, Any]]  # the states that things have to be in
    relations: list[dict[str, Any]]  # the relations that have to hold
    actions: list[str]  # what has to be done, in this order; ``|`` between what is as good
    program: list[str]  # a person's way, as lines such as ``[WALK] <bedroom> (67)``


def _package() -> Path:
    spec = find_spec("virtualhome_eval")
    assert spec is not None  # the registry has looked
    assert spec.origin is not None
    return Path(spec.origin).parent


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def _goals() -> Mapping[int, tuple[str, str, Mapping[str, Any]]]:
    """Return name of the task, identifier and goal by number: 27_2 is 272."""
    folder = _package() / "resources/virtualhome"
    by_name = _read(folder / "task_state_LTL_formula_accurate.json")["scene_1"]
    names = _read(folder / "id2task.json")
    return {int(one.replace("_", "")): (name, one, by_name[name][one]["vh_goal"]) for one, name in names.items()}


def load_tasks(*, also_unreachable: bool = False) -> Mapping[int, EaiTask]:
    """Return the tasks by number, without those of which the evaluator never counts all relations.

    It stops at the first one that holds, so that it takes a goal of several for not reached.
    """
    goals = _goals()
    relations = {one: sum("relation_type" in each for each in goal["goal"]) for one, (_, _, goal) in goals.items()}
    return TasksOnDemand((one for one in goals if also_unreachable or relations[one] < 2), _task)


def _task(number: int) -> EaiTask:
    name, identifier, goal = _goals()[number]
    data = _package() / _DATA
    graph = _read(data / f"init_and_final_graphs/{_OF}{identifier}.json")["init_graph"]
    text = (data / f"executable_programs/{_OF}{identifier}.txt").read_text(encoding="utf-8")
    nodes = {node["id"]: node for node in graph["nodes"]}
    you = next(id for id, node in nodes.items() if node["class_name"] == AGENT_CLASS)
    wanted = [one for at, one in enumerate(goal["goal"]) if one not in goal["goal"][:at]]
    task = EaiTask.model_validate(
        {
            "task_id": number,
            "task_name": name.replace(" ", "_").lower(),
            "nl_instructions": [name],
            "env_id": 1,
            "init_room": next(
                node["class_name"] for node in graph["nodes"] if node["category"] == "Rooms"
            ),  # or as in it
            "init_graph": graph,
            "identifier": identifier,
            "states": [one for one in wanted if "state" in one],
            "relations": [one for one in wanted if "relation_type" in one],
            "actions": list(dict.fromkeys(goal["actions"])),
            # an object is written (1.67) there: 67 is its id
            "program": [re.sub(r"\(\d+\.", "(", line.strip()) for line in text.splitlines() if line.startswith("[")],
        }
    )
    return task.model_copy(update={"nl_instructions": [f"{name}. {' '.join(_wanted(task, you))}".strip()]})


def _wanted(task: EaiTask, you: int) -> Iterator[str]:
    names = {id: f"{named(*of)} is" for id, of in task.init_graph.called({}).items()} | {you: "you are"}
    holding = [f"{names[one['id']]} {one['state'].lower().replace('_', ' ')}" for one in task.states]
    for one in task.relations:
        other = names[one["to_id"]].rpartition(" ")[0]
        holding.append(_RELATIONS[one["relation_type"]].format(names[one["from_id"]], other))
    if holding:
        yield f"Make this hold: {', '.join(holding)}."
    if task.actions:
        ways = (" or ".join(ACTIONS[each].skill.verb for each in one.split("|")) for one in task.actions)
        yield f"Do this on the way: {', then '.join(ways)} something."


def reached(task: EaiTask, graph: Mapping[str, Any], done: Sequence[str]) -> Score:
    """Ask the benchmark's evaluator how far a task's goal is reached.

    Args:
        graph: The house at the end, in the benchmark's form.
        done: What was carried out, as lines of its programs.
    """
    from virtualhome_eval.simulation.evolving_graph.eval_utils import scene_evaluate_wID

    you = next(node["id"] for node in graph["nodes"] if node["class_name"] == AGENT_CLASS)
    states, relations, actions, all_of_them, *_ = scene_evaluate_wID(
        graph, task.states, task.relations, you, action_seq=done, action_goals=task.actions
    )
    wanted = len(task.states) + len(task.relations) + len(task.actions)
    return Score(gsr=all_of_them, ssr=(states + relations + actions) / wanted if wanted else 1.0)
