"""Reads recorded runs of the authors' system: JSON lines, one agent node per line."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

from reactree_lab.worlds.ai2thor.household import ALFRED
from reactree_ros.agent.household import Household
from reactree_ros.agent.transcript import Transcript, TranscriptError, parse_transcript
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import read_json
from reactree_ros.household.household import WAH_NL

#: Recorded variants: without and with expansion, each without and with working memory.
VARIANTS = ("react", "react_wm", "reactree", "reactree_wm")
#: Limits on decisions and steps during the recording; the ALFRED runs only had a limit on decisions.
_LIMITS = {WAH_NL.name: (199, 99), ALFRED.name: (100, 100)}


class ReplayError(UserError, ValueError):
    """A recording cannot be replayed; the message says which and why."""


@dataclass(frozen=True)
class RecordedNode:
    file: str  # name of its file
    decision: int  # decision count at its start
    depth: int  # depth in the tree
    text: str
    transcript: Transcript  # its text, parsed


@dataclass(frozen=True)
class RecordedRun:
    run: int | str  # its task: a WAH-NL task id, or the name of an ALFRED trial
    nodes: tuple[RecordedNode, ...]  # its agent nodes in the order in which they started

    @property
    def household(self) -> Household:
        return ALFRED if isinstance(self.run, str) else WAH_NL

    @property
    def limits(self) -> tuple[int, int]:
        return _LIMITS[self.household.name]

    @property
    def name(self) -> str:
        return f"{'trial' if isinstance(self.run, str) else 'task'} {self.run}"

    @property
    def instruction(self) -> str:
        """The instruction: the task of its first agent node."""
        return self.nodes[0].transcript.subgoal


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    file: str
    task_id: int | None = None
    trial: str | None = None
    decision: int
    depth: int
    text: str

    @model_validator(mode="after")
    def _has_a_run(self) -> _Line:
        if (self.task_id is None) == (self.trial is None):
            raise ValueError("a line names a task_id or a trial")
        return self

    @property
    def run(self) -> int | str:
        return self.trial or self.task_id or 0


def load_recording(path: str | Path) -> list[RecordedRun]:
    """Read recorded trajectories: JSON lines with ``file, task_id`` (or ``trial``)``, decision, depth, text``."""
    nodes: dict[int | str, list[RecordedNode]] = defaultdict(list)
    adapter = TypeAdapter(_Line)
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            for number, text in enumerate(file, 1):
                if not text.strip():
                    continue
                try:
                    line = adapter.validate_json(text)
                    transcript = parse_transcript(line.text)
                except ValidationError as error:
                    first = error.errors()[0]
                    where = ".".join(map(str, first["loc"])) or "the line"
                    raise ReplayError(f"{path}, line {number}: {where}: {first['msg']}") from None
                except TranscriptError as error:
                    raise ReplayError(f"{path}, line {number}: text: {error}") from None
                nodes[line.run].append(RecordedNode(line.file, line.decision, line.depth, line.text, transcript))
    except (OSError, UnicodeDecodeError) as error:
        raise ReplayError(f"{path}: cannot be read: {error}") from None
    if not nodes:
        raise ReplayError(f"{path}: holds no recorded agent node")
    runs = [RecordedRun(run, tuple(sorted(of_run, key=_order))) for run, of_run in nodes.items()]
    return [_as_wah_nl(run) if run.household is ALFRED else run for run in runs]


def _as_wah_nl(run: RecordedRun) -> RecordedRun:
    """Convert a run to the form of WAH-NL files.

    The ALFRED files do not count expansions as decisions, and end the line after ``done`` and ``failure``.
    """
    nodes, expansions = [], 0
    for node in run.nodes:
        said = node.transcript.said_turns
        ends = bool(said) and said[-1].decision is not None and said[-1].decision.ends
        text = node.text.removesuffix("\n") if ends else node.text
        nodes.append(replace(node, decision=node.decision + expansions, text=text))
        expansions += sum(one.decision is not None and bool(one.decision.subgoals_named) for one in said)
    return RecordedRun(run.run, tuple(nodes))


def _order(node: RecordedNode) -> tuple[int, bool, int, str]:
    # After a limit, the remaining agent nodes start at the same decision count, the deepest first.
    only_header = not node.transcript.said_turns
    return node.decision, only_header, -node.depth if only_header else 0, node.file


def load_outcomes(path: str | Path, variant: str) -> dict[int, bool]:
    """Read which runs of a variant were kept as successes: ``{task id: {variant: bool}}``."""
    try:
        return read_json(
            Path(path),
            "file of outcomes",
            lambda document: {int(task): bool(kept[variant]) for task, kept in document.items() if variant in kept},
        )
    except UserError as error:
        raise ReplayError(str(error)) from None
