"""Replays recorded runs: the real tree driven with recorded decisions, compared with what was recorded."""

from __future__ import annotations

import enum
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

from reactree_ros.agent.budget import Budget, Limit
from reactree_ros.agent.decision import DONE, FAILURE, RECALL
from reactree_ros.agent.prompt import Domain
from reactree_ros.agent.transcript import Transcript, TranscriptError, parse_transcript
from reactree_ros.errors import UserError
from reactree_ros.llm.recording import RecordingModel
from reactree_ros.memory.working import WorkingMemory
from reactree_ros.run import Run
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.options import AS_RECORDED
from reactree_ros.world.household import VERBS
from reactree_ros.world.port import World
from reactree_ros.world.recorded import RecordedWorld
from reactree_ros.world.symbolic import SymbolicWorld
from reactree_ros.world.tasks import ROOMS, Task
from reactree_ros.world.vocabulary import class_of_word

#: What may have been recorded: without and with expansion, each without and with working memory.
VARIANTS = ("react", "react_wm", "reactree", "reactree_wm")
#: Limits that were in force when the runs were recorded; in the ALFRED runs nothing but decisions was limited.
RECORDED_BUDGETS = {
    Domain.WAH_NL: {"max_decisions": 199, "max_steps": 99},
    Domain.ALFRED: {"max_decisions": 100, "max_steps": 100},
}
_LAST_LINES = (f"Act: {DONE}\n", f"Act: {FAILURE}\n")


class ReplayError(UserError, ValueError):
    """A recording that cannot be replayed; the message says which and why."""


class WorldKind(str, enum.Enum):
    """Where a replay's observations come from."""

    RECORDED = "recorded"
    SYMBOLIC = "symbolic"


@dataclass(frozen=True)
class RecordedNode:
    """One recorded agent node.

    Attributes:
        file: Name of its file.
        decision: Decision count at its start.
        depth: Depth in the tree.
        text: Its text.
        transcript: Its text, taken apart.
    """

    file: str
    decision: int
    depth: int
    text: str
    transcript: Transcript


@dataclass(frozen=True)
class RecordedRun:
    """One recorded run.

    Attributes:
        run: What it was recorded on: a WAH-NL task id, or the name of an ALFRED trial.
        nodes: Its agent nodes in the order in which they started.
    """

    run: int | str
    nodes: tuple[RecordedNode, ...]

    @property
    def domain(self) -> Domain:
        """Which household it was recorded in."""
        return Domain.ALFRED if isinstance(self.run, str) else Domain.WAH_NL

    @property
    def name(self) -> str:
        """What it was recorded on, in words."""
        return f"trial {self.run}" if self.domain is Domain.ALFRED else f"task {self.run}"

    @property
    def instruction(self) -> str:
        """What was asked for: the task of its first agent node."""
        return self.nodes[0].transcript.header.removeprefix("Your task is to: ").removesuffix("\n")


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
    """Read recorded trajectories: JSON lines with ``file, task_id`` (or ``trial``)``, decision, depth, text``.

    Raises:
        ReplayError: The file cannot be read, or a line is none of a recording.
    """
    nodes: dict[int | str, list[RecordedNode]] = defaultdict(list)
    adapter = TypeAdapter(_Line)
    try:
        with Path(path).open(encoding="utf-8") as file:
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
    return [_as_wah_nl(run) if run.domain is Domain.ALFRED else run for run in runs]


def _as_wah_nl(run: RecordedRun) -> RecordedRun:
    """Bring a run to how WAH-NL files are written.

    The ALFRED files do not count expansions as decisions, and end the line after ``done`` and ``failure``.
    """
    nodes, expansions = [], 0
    for node in run.nodes:
        text = node.text.removesuffix("\n") if node.text.endswith(_LAST_LINES) else node.text
        nodes.append(replace(node, decision=node.decision + expansions, text=text))
        expansions += sum(turn.said.startswith("Expand:") for turn in node.transcript.turns)
    return RecordedRun(run.run, tuple(nodes))


def _order(node: RecordedNode) -> tuple[int, bool, int, str]:
    # After a limit every remaining agent node starts at the same decision count: the deepest come first.
    only_header = not node.transcript.turns
    return node.decision, only_header, -node.depth if only_header else 0, node.file


@dataclass
class Report:
    """What a replay found.

    Attributes:
        runs: Runs replayed.
        runs_identical: Runs all of whose agent nodes are as recorded, but for overwritten files.
        runs_overwritten: Of those, runs in which files of the recording were overwritten by later ones.
        nodes: Agent nodes recorded.
        nodes_identical: Those whose header, starting decision count, depth, order and end are as recorded.
        lines: Observation lines compared.
        lines_identical: Those that are as recorded.
        by_kind: The same by kind of line: ``[lines, identical]``.
        successes_recorded: Runs recorded as successes; None where that is not known or not asked.
        successes_reproduced: Those of them that reach the goal in the replay.
        differences: What is not as recorded, one line each.
        overwritten: Runs with overwritten files, one line each.
    """

    runs: int = 0
    runs_identical: int = 0
    runs_overwritten: int = 0
    nodes: int = 0
    nodes_identical: int = 0
    lines: int = 0
    lines_identical: int = 0
    by_kind: dict[str, list[int]] = field(default_factory=dict)
    successes_recorded: int | None = None
    successes_reproduced: int | None = None
    differences: list[str] = field(default_factory=list)
    overwritten: list[str] = field(default_factory=list)


class Replay:
    """Replays runs one by one and keeps the report.

    Args:
        tasks: The tasks that the runs belong to, by task id; only needed in the symbolic world.
        variant: Name of what was recorded: ``react``, ``react_wm``, ``reactree`` or ``reactree_wm``.
        world: Where observations come from.
        outcomes: Task ids of the runs that were kept as successes; None where that is not known.
        honour_quirks: Let the symbolic world do what the task files record as the simulator's quirks.
    """

    def __init__(
        self,
        *,
        tasks: Mapping[int, Task],
        variant: str,
        world: WorldKind,
        outcomes: Mapping[int, bool] | None = None,
        honour_quirks: bool = True,
    ) -> None:
        self.report = Report()
        if outcomes is not None and world is WorldKind.SYMBOLIC:
            self.report.successes_recorded = self.report.successes_reproduced = 0
        self._tasks, self._world, self._outcomes = tasks, world, outcomes
        self._honour_quirks = honour_quirks
        self._recall = variant.endswith("_wm")
        self._options = AS_RECORDED if variant.startswith("reactree") else replace(AS_RECORDED, control_flows=())

    def replay(self, recorded: RecordedRun) -> None:
        """Replay one run and add what came of it to the report.

        Raises:
            ReplayError: It is to be replayed in the symbolic world, and its task is not among the tasks.
        """
        transcripts = [node.transcript for node in recorded.nodes]
        symbolic = self._world is WorldKind.SYMBOLIC
        world: World = RecordedWorld(transcripts, recorded.domain)
        if symbolic:
            world = SymbolicWorld(self._task(recorded), honour_quirks=self._honour_quirks)
        context = RunContext(
            model=RecordingModel(transcripts),
            world=world,
            budget=Budget(**RECORDED_BUDGETS[recorded.domain]),
            options=self._options,
            # In the recorded world the answers to recalls come from the recording, too.
            working_memory=WorkingMemory() if symbolic and self._recall else None,
        )
        result = Run(recorded.instruction, context).run()
        self._compare(recorded, context.nodes)
        if symbolic and self._outcomes is not None and self._outcomes.get(int(recorded.run)):
            report = self.report
            report.successes_recorded = (report.successes_recorded or 0) + 1
            report.successes_reproduced = (report.successes_reproduced or 0) + int(result.gsr == 1.0)
            if result.gsr != 1.0:
                report.differences.append(f"{recorded.name}: recorded as a success, but the goal is not reached")

    def _task(self, recorded: RecordedRun) -> Task:
        if isinstance(recorded.run, str):
            raise ReplayError(f"the recording is of {recorded.name} of ALFRED, which the symbolic world cannot replay")
        if recorded.run not in self._tasks:
            raise ReplayError(f"the recording has task {recorded.run}, the task file does not")
        return self._tasks[recorded.run]

    def _compare(self, recorded: RecordedRun, nodes: Sequence[GoalNode]) -> None:
        report = self.report
        report.runs += 1
        report.nodes += len(recorded.nodes)
        ours = list(nodes)
        identical, overwritten = True, 0
        for node in recorded.nodes:
            while ours and not _same_place(ours[0], node) and _only_header(ours[0]):
                ours.pop(0)
                overwritten += 1
            if not ours:
                report.differences.append(f"{recorded.name}: {node.file} was recorded, but did not start")
                identical = False
                continue
            mine = ours.pop(0)
            difference = self._difference(mine, node)
            if difference is None:
                report.nodes_identical += 1
            else:
                identical = False
                report.differences.append(f"{recorded.name}: {node.file}: {difference}")
            for kind, theirs, line in _observation_lines(node.transcript, mine.text):
                self._count_line(kind, theirs == line)
        overwritten += sum(map(_only_header, ours))
        extra = sum(not _only_header(node) for node in ours)
        if extra:
            identical = False
            report.differences.append(f"{recorded.name}: {extra} agent nodes started that were not recorded")
        report.runs_identical += identical
        if overwritten:
            report.runs_overwritten += 1
            report.overwritten.append(
                f"{recorded.name}: {overwritten} agent nodes that started after the limit have no file of their own"
            )

    def _difference(self, mine: GoalNode, node: RecordedNode) -> str | None:
        if mine.start != node.decision:
            return f"starts at decision {mine.start}, recorded at {node.decision}"
        if mine.depth != node.depth:
            return f"is at depth {mine.depth}, recorded at {node.depth}"
        ours = parse_transcript(mine.text)
        if ours.header != node.transcript.header:
            return f"header {ours.header!r}, recorded {node.transcript.header!r}"
        if [turn.said for turn in ours.turns] != [turn.said for turn in node.transcript.turns]:
            return "decisions differ"
        if ours.limit is not node.transcript.limit:
            return f"ends by {_name(ours.limit)}, recorded by {_name(node.transcript.limit)}"
        if self._world is WorldKind.RECORDED and mine.text != node.text:
            return "text differs"
        return None

    def _count_line(self, kind: str, identical: bool) -> None:
        report = self.report
        report.lines += 1
        report.lines_identical += identical
        counts = report.by_kind.setdefault(kind, [0, 0])
        counts[0] += 1
        counts[1] += identical


def load_outcomes(path: str | Path, variant: str) -> dict[int, bool]:
    """Read which runs of a variant were kept as successes: ``{task id: {variant: bool}}``.

    Raises:
        ReplayError: The file cannot be read or is none of outcomes.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        return {int(task_id): bool(variants[variant]) for task_id, variants in document.items() if variant in variants}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ReplayError(f"{path}: is no file of outcomes: {error}") from None


def _same_place(mine: GoalNode, node: RecordedNode) -> bool:
    return mine.start == node.decision and mine.depth == node.depth and mine.text.startswith(node.transcript.header)


def _only_header(mine: GoalNode) -> bool:
    return not parse_transcript(mine.text).turns


def _name(limit: Limit | None) -> str:
    return "its own decision" if limit is None else f"'{limit.value}'"


def _observation_lines(theirs: Transcript, text: str) -> Iterator[tuple[str, str, str]]:
    """Yield every observation line as recorded and as replayed, with its kind."""
    ours = parse_transcript(text)
    yield "node start", theirs.observation, ours.observation
    for their_turn, turn in zip(theirs.turns, ours.turns, strict=False):
        if their_turn.observation is not None:
            yield _kind(their_turn.said), their_turn.observation, turn.observation or ""


def _kind(said: str) -> str:
    skill = said.removeprefix("Act: ")
    if skill.startswith(RECALL):
        return "recall"
    verb = next((verb for verb in (*VERBS, "turn off", "slice") if skill.startswith(f"{verb} ")), "other")
    word = skill.removeprefix("go to ").rpartition(" ")[0]
    if verb != "go to":
        return verb
    try:
        thing = class_of_word(word)
    except ValueError:  # of another household
        return verb
    if thing.category == ROOMS:
        return "room view"
    return "go to object" if thing.category == "Placable" and "GRABBABLE" in thing.properties else "go to receptacle"
