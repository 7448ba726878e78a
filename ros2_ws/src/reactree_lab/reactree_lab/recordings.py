"""Reads recorded runs of the authors' system: JSON lines, one agent node per line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from reactree_lab.worlds.ai2thor.wording import ALFRED
from reactree_ros.agent.decision import MalformedDecision
from reactree_ros.agent.grammar import parse_decision
from reactree_ros.agent.household import Household
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.transcript import Transcript, TranscriptError, parse_transcript
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.episode.assembly import assemble
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import read_json, text_of
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import ROOMS, Task
from reactree_ros.household.vocabulary import class_of_word
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply, RequestRejected
from reactree_ros.plugins.settings import or_nearest
from reactree_ros.tree.goal import Goal
from reactree_ros.tree.options import AS_RECORDED
from reactree_ros.world.port import World
from reactree_ros.world.recorded import RecordedWorld

#: Recorded variants: without and with expansion, each without and with working memory.
VARIANTS = ("react", "react_wm", "reactree", "reactree_wm")
#: Limits on decisions and steps during the recording; the ALFRED runs only had a limit on decisions.
_LIMITS = {WAH_NL.name: (199, 99), ALFRED.name: (100, 100)}


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
    for number, text in enumerate(text_of(Path(path)).split("\n"), 1):
        if not text.strip():
            continue
        try:
            line = _Line.model_validate_json(text)
            transcript = parse_transcript(line.text)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the line"
            raise UserError(f"{path}, line {number}: {where}: {first['msg']}") from None
        except TranscriptError as error:
            raise UserError(f"{path}, line {number}: text: {error}") from None
        nodes[line.run].append(RecordedNode(line.file, line.decision, line.depth, line.text, transcript))
    if not nodes:
        raise UserError(f"{path}: holds no recorded agent node")
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


def variant_of(path: Path, named: str | None) -> str:
    """Return the variant that a file of trajectories is of: the named one, or that of the file's name."""
    if (variant := named or path.stem) not in VARIANTS:
        known = f"{', '.join(VARIANTS)}{or_nearest(variant, VARIANTS)}"
        raise UserError(f"{path}: --variant {variant}: is none of {known}")
    return variant


def _order(node: RecordedNode) -> tuple[int, bool, int, str]:
    # After a limit, the remaining agent nodes start at the same decision count, the deepest first.
    only_header = not node.transcript.said_turns
    return node.decision, only_header, -node.depth if only_header else 0, node.file


def load_outcomes(path: str | Path, variant: str) -> dict[int, bool]:
    """Read which runs of a variant were kept as successes: ``{task id: {variant: bool}}``."""
    return read_json(
        Path(path),
        "file of outcomes",
        lambda document: {int(task): bool(kept[variant]) for task, kept in document.items() if variant in kept},
    )


class RecordingModel(LanguageModel):
    """Repeats the decisions of a recorded run, one after the other, whatever the prompt."""

    def __init__(self, said: Iterable[str]) -> None:
        self._said = tuple(said)
        self._next = 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Answer at once with the next recorded decision; fails after the last one."""
        if self._next >= len(self._said):
            ended = f"the recording ends after {self._next} decisions, but one more was asked for"
            return Pending.failed(RequestRejected(ended))
        self._next += 1
        return Pending.ready(reply_as_recorded(self._said[self._next - 1]))


def reply_as_recorded(text: str) -> Reply:
    """Read a decision in the words of the grammar alone; a final ``and`` stays in its subgoal."""
    try:
        return Reply(text, said=(Said(text, parse_decision(text, keep_and=True)),))
    except MalformedDecision as error:
        return Reply(text, objection=str(error))


def episode_of(
    recorded: RecordedRun,
    variant: str,
    *,
    world: World | None = None,
    **recording: Any,
) -> Episode:
    """Make the episode of a recorded run, which repeats the recorded decisions."""
    transcripts = [node.transcript for node in recorded.nodes]
    decisions, steps = _LIMITS[recorded.household.name]
    spec = RunSpec(
        instruction=recorded.instruction,
        planner=f"{variant}:fixed_example=false",
        options=AS_RECORDED.model_copy(update={"max_decisions": decisions, "max_steps": steps}),
        working_memory=None if world is not None else False,
        task_id=None if isinstance(recorded.run, str) else recorded.run,
        task_name=recorded.run if isinstance(recorded.run, str) else "instruction",
    )
    return assemble(
        spec,
        model=RecordingModel(said.text for transcript in transcripts for said in transcript.said_turns),
        world=world or RecordedWorld(transcripts, recorded.household),
        **recording,
    )


@dataclass
class Report:
    runs: int = 0  # runs replayed
    runs_identical: int = 0  # runs with all agent nodes as recorded, except for overwritten files
    runs_overwritten: int = 0  # runs among those in which later files of the recording overwrote earlier ones
    nodes: int = 0  # agent nodes recorded
    nodes_identical: int = 0  # agent nodes with header, starting decision count, depth, order and end as recorded
    lines: int = 0  # observation lines compared
    lines_identical: int = 0  # observation lines as recorded
    by_kind: dict[str, list[int]] = field(default_factory=dict)  # the same by kind of line: ``[lines, identical]``
    successes_recorded: int | None = None  # runs recorded as successes; None if unknown or not asked for
    successes_reproduced: int | None = None  # runs among those that reach the goal in the replay
    differences: list[str] = field(default_factory=list)  # differences to the recording, one line each
    overwritten: list[str] = field(default_factory=list)  # runs with overwritten files, one line each


class Replay:
    """Replays runs one by one and keeps the report."""

    def __init__(
        self,
        *,
        tasks: Mapping[int, Task],
        variant: str,
        symbolic: bool,
        outcomes: Mapping[int, bool] | None = None,
        honour_quirks: bool = True,
    ) -> None:
        self.report = Report()
        if outcomes is not None and symbolic:
            self.report.successes_recorded = self.report.successes_reproduced = 0
        self._tasks, self._symbolic, self._outcomes = tasks, symbolic, outcomes
        self._honour_quirks = honour_quirks
        self._variant = variant

    def replay(self, recorded: RecordedRun) -> None:
        world = SymbolicWorld(self._task(recorded), honour_quirks=self._honour_quirks) if self._symbolic else None
        episode = episode_of(recorded, self._variant, world=world)
        result = episode.run()
        self._compare(recorded, episode.context.nodes)
        if self._symbolic and self._outcomes is not None and self._outcomes.get(int(recorded.run)):
            report = self.report
            report.successes_recorded = (report.successes_recorded or 0) + 1
            report.successes_reproduced = (report.successes_reproduced or 0) + int(result.gsr == 1.0)
            if result.gsr != 1.0:
                report.differences.append(f"{recorded.name}: recorded as a success, but the goal is not reached")

    def _task(self, recorded: RecordedRun) -> Task:
        if isinstance(recorded.run, str):
            raise UserError(f"the recording is of {recorded.name} of ALFRED, which the symbolic world cannot replay")
        if recorded.run not in self._tasks:
            raise UserError(f"the recording has task {recorded.run}, the task file does not")
        return self._tasks[recorded.run]

    def _compare(self, recorded: RecordedRun, nodes: Sequence[Goal]) -> None:
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
            for (kind, theirs), (_, line) in zip(
                _observations(node.transcript.turns), _observations(mine.turns), strict=False
            ):
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

    def _difference(self, mine: Goal, node: RecordedNode) -> str | None:
        if mine.start != node.decision:
            return f"starts at decision {mine.start}, recorded at {node.decision}"
        if mine.depth != node.depth:
            return f"is at depth {mine.depth}, recorded at {node.depth}"
        if mine.turns[0].text != node.transcript.header:
            return f"header {mine.turns[0].text!r}, recorded {node.transcript.header!r}"
        if _said(mine.turns) != _said(node.transcript.turns):
            return "decisions differ"
        ours, theirs = _limit(mine.turns), _limit(node.transcript.turns)
        if ours != theirs:
            return f"ends by {ours}, recorded by {theirs}"
        if not self._symbolic and mine.text != node.text:
            return "text differs"
        return None

    def _count_line(self, kind: str, identical: bool) -> None:
        report = self.report
        report.lines += 1
        report.lines_identical += identical
        counts = report.by_kind.setdefault(kind, [0, 0])
        counts[0] += 1
        counts[1] += identical


def _same_place(mine: Goal, node: RecordedNode) -> bool:
    return (mine.start, mine.depth, mine.turns[0].text) == (node.decision, node.depth, node.transcript.header)


def _only_header(mine: Goal) -> bool:
    return not _said(mine.turns)


def _said(turns: Sequence[Turn]) -> list[str]:
    return [turn.text for turn in turns if isinstance(turn, Said)]


def _limit(turns: Sequence[Turn]) -> str:
    last = turns[-1]
    return f"'{last.text}'" if isinstance(last, Told) and last.about is About.LIMIT else "its own decision"


def _observations(turns: Sequence[Turn]) -> Iterator[tuple[str, str]]:
    """Yield every observation with its kind; the text of a refusal counts as the observation of its act."""
    for before, turn in pairwise(turns):
        if isinstance(before, Told) and isinstance(turn, Saw):
            yield "node start", turn.text
        elif isinstance(before, Said) and isinstance(before.decision, Act) and not isinstance(turn, Said):
            yield _kind(before.decision), turn.text


def _kind(act: Act) -> str:
    """Return the kind of a skill: its verb and, for a walk, the kind of its target."""
    if act.recalls:
        return "recall"
    verb, name = WAH_NL.split_skill(act.skill)
    if verb != "go to":
        return verb or (ALFRED.split_skill(act.skill)[0] or "other")
    try:
        thing = class_of_word(name.rpartition(" ")[0])
    except ValueError:  # of another household
        return verb
    if thing.category == ROOMS:
        return "room view"
    return "go to object" if thing.category == "Placable" and "GRABBABLE" in thing.properties else "go to receptacle"
