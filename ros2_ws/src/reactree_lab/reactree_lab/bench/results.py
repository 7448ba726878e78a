"""One line of ``results.jsonl`` or ``broken.jsonl``: the result of one run."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reactree_lab.bench.events import Event, Size
from reactree_lab.bench.jobs import Job, Key
from reactree_ros.episode import EpisodeResult
from reactree_ros.files.read_back import checked, read_json
from reactree_ros.record.verdict import EpisodeEnd


@dataclass(frozen=True)
class Condition:
    """One goal condition at the end of a run, in the words of the observations."""

    relation: str  # ``on``, ``inside`` or ``turnOn``
    item: str  # the thing to move, e.g. ``water glass``; empty for ``turnOn``
    target: str  # the receptacle, or the thing to turn on
    count: int  # number wanted
    fulfilled: int  # number reached, at the instance of the target that has most

    @property
    def thing(self) -> str:
        """The thing to find: the item, or the thing to turn on."""
        return self.item or self.target

    def __str__(self) -> str:
        if self.relation == "turnOn":
            return f"turn on the {self.target}"
        return f"{self.count} {self.item} {self.relation} the {self.target}"


@dataclass(frozen=True)
class Goal:
    conditions: tuple[Condition, ...]  # in the order of the task
    rooms: tuple[str, ...]  # of the house, e.g. ``kitchen 1``
    start_room: str  # the agent's at the start

    @property
    def size(self) -> int:
        """Size of the goal: the number of things to move or to turn on."""
        return sum(one.count for one in self.conditions)

    @property
    def unmet(self) -> tuple[Condition, ...]:
        """The conditions that do not hold, each judged separately."""
        return tuple(one for one in self.conditions if one.fulfilled < one.count)


def goal_as_json(goal: Goal) -> str:
    return json.dumps(asdict(goal), indent=1) + "\n"


def read_goal(path: Path) -> Goal:
    return read_json(path, "goal of a run", lambda values: checked(Goal, values))


@dataclass(frozen=True, kw_only=True)
class RunLine(EpisodeResult):
    task_id: int  # the task; every run of a bench has one
    suite: str
    task_name: str
    planner: str  # name of the planner, with its options
    seed: int
    actions: int = 0  # requested skills, including refused ones but not recalls
    executable_actions: int = 0  # number of them that the world carried out
    needless: int = 0  # questions to a simulated person whose answers told nothing beyond the instruction
    requests: int = 0  # replies of the language model, and failed ones that used tokens
    #: Tokens of the longest prompt of a single request; None if the model was not asked.
    max_input_tokens: int | None = None
    mean_input_tokens: float | None = None  # mean prompt tokens per reply
    mean_output_tokens: float | None = None  # mean tokens of a reply
    memory: str = ""  # the episodic memory that its examples came from; empty: none
    approximate_tokens: bool = False  # whether one of these three was not counted by the model's own tokenizer
    worker: str = ""
    busy_seconds: float = 0.0  # the worker's time from the job to its result

    @property
    def key(self) -> Key:
        return Key(self.suite, self.task_id, self.planner, self.seed)

    @property
    def folder(self) -> Path:
        return Path("broken" if self.broken else "runs", *self.key.path)

    @property
    def all_input_tokens(self) -> float | None:
        """Tokens of all prompts together, counted or estimated; None if the model was not asked."""
        return None if self.mean_input_tokens is None else self.mean_input_tokens * self.requests

    @property
    def all_output_tokens(self) -> float | None:
        """Tokens of all replies together, counted or estimated; None if the model was not asked."""
        return None if self.mean_output_tokens is None else self.mean_output_tokens * self.requests

    def as_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False)


def line_of(
    job: Job,
    result: EpisodeResult,
    events: Iterable[Event],
    sizes: Sequence[Size],
    *,
    needless: int = 0,
    memory: str = "",
) -> RunLine:
    """Summarize a run; ``needless`` and ``memory``: see :class:`RunLine`."""
    actions = [event for event in events if event.is_action]
    into, out = [size.input for size in sizes], [size.output for size in sizes]
    values: dict[str, Any] = {**dataclasses.asdict(result), "task_id": job.key.task_id}
    return RunLine(
        suite=job.key.suite,
        task_name=job.task.task_name,
        planner=job.key.planner,
        seed=job.key.seed,
        actions=len(actions),
        executable_actions=sum(action.executable for action in actions),
        needless=needless,
        memory=memory,
        requests=len(sizes),
        max_input_tokens=max((size.longest for size in sizes), default=None),
        mean_input_tokens=round(sum(into) / len(into), 2) if into else None,
        mean_output_tokens=round(sum(out) / len(out), 2) if out else None,
        approximate_tokens=any(size.approximate for size in sizes),
        **values,
    )


def broken_line(job: Job, instruction: str, message: str, end: EpisodeEnd) -> RunLine:
    """Return the line of a run that ended with an exception outside of its own reports."""
    result = EpisodeResult(
        task_id=job.key.task_id,
        instruction=instruction,
        status="failure",
        gsr=0.0,
        ssr=0.0,
        decisions=0,
        steps=0,
        max_depth=0,
        agent_nodes=0,
        seconds=0.0,
        prompt_tokens=None,
        cached_tokens=None,
        output_tokens=None,
        reasoning_tokens=None,
        model_seconds=0.0,
        end=end.value,
        message=message,
    )
    return line_of(job, result, (), [])


def grouped_by_end(lines: Iterable[RunLine]) -> str:
    return ", ".join(f"{count} {end}" for end, count in Counter(line.end for line in lines).most_common())
