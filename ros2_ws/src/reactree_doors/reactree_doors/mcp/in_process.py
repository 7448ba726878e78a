"""A robot in this process: a world, a language model and a planner, as of ``reactree run``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from reactree_doors.mcp.robot import Questions, Robot, lowered
from reactree_ros.agent.picture import Picture
from reactree_ros.background.pending import Pending, Worker, followed
from reactree_ros.episode.assembly import assemble, guarded_by
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.llm.port import LanguageModel
from reactree_ros.memory.house_map import HouseMap
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.plugins.settings import Settings, read_settings
from reactree_ros.record.schema import Event
from reactree_ros.record.verdict import Verdict
from reactree_ros.record.writer import RecordFile
from reactree_ros.tree.options import TreeOptions
from reactree_ros.view.steering import Steering
from reactree_ros.world.port import Household, Observation, World, WorldError
from reactree_ros.world.wrappers import SkillTimeLimit


class InProcess(Robot):
    """Runs clients' instructions one after the other in one world, which keeps what they have changed."""

    def __init__(
        self,
        spec: RunSpec,
        *,
        world: World,
        model: LanguageModel,
        questions: Questions,
        records: Path,
        memory: EpisodicMemory | None = None,
        house_map: HouseMap | None = None,
    ) -> None:
        self.questions, self.model, self.memory = questions, model, memory
        self.world = guarded_by(spec, world, questions)
        self._spec = spec
        self._limited = SkillTimeLimit(self.world, spec.options.skill_timeout)
        self._records, self._record, self._runs = records, None, 0
        self._house_map = house_map
        self._worker = Worker("the robot of clients", WorldError)

    _record: Path | None

    @property
    def household(self) -> Household:
        return self.world.household

    def begin(self, instruction: str, limits: Settings, take: Callable[[Event], None]) -> InProcessRun:
        own = dict(self._spec.options)  # the lower limits of the server and of the client
        options = read_settings(TreeOptions, {**own, **lowered(dict(limits), own, self.household)}, where="limits")
        self._runs += 1
        self._record = self._records / f"{time.strftime('%Y%m%d-%H%M%S')}-{self._runs:04}.jsonl"
        spec = self._spec.but(instruction=instruction, task_id=None, options=options)
        return InProcessRun(self, spec, RecordFile(self._record, own=True), take)

    def execute(self, skill: str) -> Pending[Observation]:
        return self._apart(lambda: self._limited.execute(skill))

    def observe(self) -> Pending[Observation]:
        return self._apart(self._limited.observe)

    def pictures(self) -> Pending[Sequence[Picture]]:
        return self._apart(self._limited.pictures)

    def at_rest(self) -> Pending[None]:
        return self._apart(self.world.at_rest)

    def _apart(self, ask: Callable[[], Pending[Any]]) -> Pending[Any]:
        return followed(self._worker.at_rest(), lambda _: ask())

    def halted(self) -> str:
        return self.world.halted() or self.world.emergency()

    @property
    def record(self) -> Path | None:
        return self._record

    def map(self) -> Any:
        if self._house_map is None:
            return None
        return [
            {"thing": one.thing.name, "place": one.spot.place.name, "room": one.spot.place.room, "sure": one.sure}
            for one in self._house_map.beliefs()
        ]


class InProcessRun:
    """A run of a robot in a thread of its own; its end is settled when that is about to end."""

    def __init__(self, robot: InProcess, spec: RunSpec, record: RecordFile, take: Callable[[Event], None]) -> None:
        self.ended: Pending[Verdict] = Pending()
        self._robot, self._spec, self._record, self._take = robot, spec, record, take
        self._steering = Steering(robot.model, robot.questions)
        self.pause, self.go_on = self._steering.pause, self._steering.go_on
        self._begun, self._canceled = threading.Event(), False
        threading.Thread(target=self._carry_out, name="a client's run", daemon=True).start()

    def cancel(self) -> None:
        self._canceled = True
        if self._begun.is_set():
            self._steering.cancel()

    def _carry_out(self) -> None:
        try:
            with closing(self._record):
                verdict = self._run()
        except BaseException as error:
            self.ended.fail(error)
        else:
            self.ended.succeed(verdict)

    def _run(self) -> Verdict:
        robot = self._robot
        episode = assemble(
            self._spec,
            world=robot.world,
            model=self._steering,
            person=robot.questions,
            memory=robot.memory,
            telling=True,
            write=self._write,
            flush=self._record.flush,
        )
        self._steering.follow(episode)
        robot.questions.follow(episode.hear)
        self._begun.set()
        if self._canceled:
            episode.cancel()
        try:
            result = episode.run()
            episode.remember(result)
        finally:
            self._steering.ended()
            robot.questions.follow(None)
        return result.verdict

    def _write(self, event: Event) -> None:
        self._record.write(event)
        self._take(event)
