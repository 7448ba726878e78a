"""A small dataset folder from the expert's runs through the real planner, in the layout of `reactree dataset`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.episode import Episode
from reactree_ros.llm.expert.model import ExpertModel
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.pending import Pending
from reactree_ros.planners.spec import planner
from reactree_ros.world.virtualhome.generator import generate_house
from reactree_ros.world.virtualhome.symbolic import SymbolicWorld
from reactree_ros.world.virtualhome.tasks import parse_tasks

#: As the trained model is asked; the expert has to be told what it may do.
PLANNER = "reactree_wm:system_text=false:fixed_example=false"
START = "Target_domain:\n"


class Listening(LanguageModel):
    """The expert, whose requests and answers are kept."""

    def __init__(self) -> None:
        self.expert = ExpertModel()
        self.heard: list[tuple[DecisionRequest, str, str]] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        pending = self.expert.decide(request)
        prompt = START + request.prompt.rpartition(START)[2]  # a trained model needs no more
        self.heard.append((request, prompt, pending.result().text.strip("\n")))
        return pending


def decisions_of(seed: int, tasks: int, named: str = PLANNER) -> Iterator[dict[str, Any]]:
    """Yield the decisions of the expert's runs in one generated house, node by node."""
    for task in parse_tasks(generate_house(seed=seed, tasks=tasks)):
        model = Listening()
        with SymbolicWorld(task) as world:
            Episode(task.instruction, world=world, model=model, planner=planner(named.partition(":")[0])).run()
        ends: list[str] = []
        nodes: list[list[dict[str, Any]]] = []
        for request, prompt, said in model.heard:
            assert isinstance(request.may_say, DecisionGrammar)
            node = next((index for index, end in enumerate(ends) if prompt.startswith(end)), len(ends))
            if node == len(ends):
                ends.append("")
                nodes.append([])
            ends[node] = prompt + said
            flows = [flow.value for flow in request.may_say.control_flows]
            line = {
                "prompt": prompt,
                "completion": said,
                "house": f"seed {seed}",
                "task": f"{seed}-{task.task_id}",
                "instruction": task.instruction,
                "planner": named,
                "node": node,
                "decision": len(nodes[node]),
                "kind": said.split(":")[0].lower(),
                "may_say": {"skills": list(request.may_say.skills), "control_flows": flows},
                "learn": True,
            }
            nodes[node].append(line)
        for those in nodes:
            yield from those


def make_dataset(folder: Path, *, houses: int, held_out: int, tasks: int = 5, named: str = PLANNER) -> Path:
    """Write a dataset of so many houses, and of others to be held out."""
    folder.mkdir(parents=True)
    counts = {}
    for name, seeds in (("train", range(houses)), ("held_out", range(houses, houses + held_out))):
        lines = [line for seed in seeds for line in decisions_of(seed, tasks, named)]
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        counts[name] = len(lines)
    about = {"schema": 1, "planner": named, "houses": houses + held_out, "counts": counts, "versions": {}}
    (folder / "dataset.json").write_text(json.dumps(about), encoding="utf-8")
    return folder
