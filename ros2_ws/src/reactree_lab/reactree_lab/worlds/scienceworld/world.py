"""The world ``scienceworld``: ScienceWorld's thirty types of experiments, with its own simulator.

Skills are free text, as in the papers; the simulator says which of them it does not know, and lists skills with one
thing. The score is the simulator's, from 0 to 1: a failed task has 0.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, field_validator

from reactree_lab.bench import published
from reactree_lab.bench.spec import SuiteSpec
from reactree_lab.worlds.running import Spare, WorkerWorld
from reactree_ros.agent.household import Household
from reactree_ros.background.pending import Worker
from reactree_ros.errors import UserError
from reactree_ros.plugins.settings import Harmless, Settings, check_names, plain
from reactree_ros.world.port import Observation, Outcome, Score, WorldError
from reactree_ros.world.spec import TasksOnDemand, WorldSettings, WorldSpec

#: Number of variations of each type of task, in the order of the paper's table 1.
VARIATIONS: Mapping[str, int] = {
    "boil": 30,
    "melt": 30,
    "freeze": 30,
    "change-the-state-of-matter-of": 30,
    "use-thermometer": 540,
    "measure-melting-point-known-substance": 436,
    "measure-melting-point-unknown-substance": 300,
    "power-component": 20,
    "power-component-renewable-vs-nonrenewable-energy": 20,
    "test-conductivity": 900,
    "test-conductivity-of-unknown-substances": 600,
    "find-living-thing": 300,
    "find-non-living-thing": 300,
    "find-plant": 300,
    "find-animal": 300,
    "grow-plant": 126,
    "grow-fruit": 126,
    "chemistry-mix": 32,
    "chemistry-mix-paint-secondary-color": 36,
    "chemistry-mix-paint-tertiary-color": 36,
    "lifespan-longest-lived": 125,
    "lifespan-shortest-lived": 125,
    "lifespan-longest-lived-then-shortest-lived": 125,
    "identify-life-stages-1": 14,
    "identify-life-stages-2": 10,
    "inclined-plane-determine-angle": 168,
    "inclined-plane-friction-named-surfaces": 1386,
    "inclined-plane-friction-unnamed-surfaces": 162,
    "mendelian-genetics-known-plant": 120,
    "mendelian-genetics-unknown-plant": 480,
}
#: The simulator's simplifications.
SIMPLIFICATIONS = (
    "easy",
    "teleportAction",
    "openDoors",
    "openContainers",
    "selfWateringFlowerPots",
    "noElectricalAction",
)
_HEADING, _TASK = "Task Description:", "Your task is to "


@dataclass(frozen=True)
class ScienceTask:
    #: The type, e.g. ``boil``.
    task_name: str
    variation: int  # its number
    simplifications: str  # the simplifications, separated by commas
    instruction: str  # the instruction, in the simulator's words


@lru_cache(maxsize=10_000)
def described(task_name: str, variation: int, simplifications: str) -> ScienceTask:
    try:
        with borrowed() as engine:
            engine.load(task_name, variation, simplifications)
            said = " ".join(engine.description().removeprefix(_HEADING).split())
    except WorldError as error:
        raise UserError(str(error)) from error
    return ScienceTask(task_name, variation, simplifications, said.removeprefix(_TASK))


def split(task_name: str, part: str) -> range:
    """Return the numbers of a type's variations in a part: ``train``, ``dev`` or ``test``."""
    total = VARIATIONS[task_name]
    quarter = total // 4
    return {
        "train": range(2 * quarter),
        "dev": range(2 * quarter, 3 * quarter),
        "test": range(3 * quarter, total),
    }[part]


START_LINE = "You look around."
RULES = """How skills are said; <thing> and <place> are named as in what you see, e.g. thermometer or door to hallway:
- look around, look at <thing>, look in <thing>, examine <thing>, inventory, task, read <thing>
- go to <place>: through a door that is open; open <thing>, close <thing>
- pick up <thing>, put down <thing>, move <thing> to <thing>, pour <thing> in <thing>, dunk <thing> in <thing>
- activate <thing>, deactivate <thing>, use <thing> on <thing>, mix <thing>, flush <thing>, eat <thing>
- connect <thing> to <thing>, disconnect <thing>
- wait (ten moments), wait1 (one)
- focus on <thing>: say that this is what the task is about; on a wrong thing it fails the task
What could mean several things is answered by a numbered list; then say a number of it."""
#: The skill of a simplification.
_TELEPORT = "teleport to"
_TELEPORT_RULE = f"- {_TELEPORT} <place>: at once, from wherever you are"
#: Beginnings of the simulator's answers to an unknown action, and to an ambiguous one.
_UNKNOWN, _AMBIGUOUS = ("No known action matches that input", "Unknown action"), "Ambiguous request"
#: Skills that name two things: there are thousands.
_OF_TWO = ("connect ", "dunk ", "move ", "pour ", "use ")
#: It would restart the task.
_RESET = "reset task"

HOUSEHOLD = Household(
    name="scienceworld",
    actions=(
        *("look around", "look at", "look in", "examine", "inventory", "task", "read", "go to", "open", "close"),
        *("pick up", "put down", "move", "pour", "dunk", "activate", "deactivate", "use", "mix", "flush", "eat"),
        *("connect", "disconnect", "wait", "wait1", "focus on"),
    ),
    naming="",
    rules=RULES,
    free_skills=True,
    start_line=START_LINE,
    max_decisions=200,
    max_steps=100,
    prompts="reactree_lab.worlds.scienceworld:prompts",
)


class ScienceWorld(WorkerWorld):
    def __init__(self, task: ScienceTask, *, scored: bool = True) -> None:
        super().__init__("scienceworld", scored=scored)
        self.household = _household(task.simplifications)
        self._task = task
        self._engine: ScienceWorldProcess | None = None
        self._score, self._over = 0.0, False
        self._asked = False  # which of several actions was meant

    # ------------------------------------------------------------------ in the worker's thread

    def _begin(self, seed: int | None = None) -> ScienceWorldProcess:
        """Go back to the start; the variation determines the task's random events."""
        if self._engine is None or self._engine.lost:
            self._engine = SPARE.borrow()
        self._engine.load(self._task.task_name, self._task.variation, self._task.simplifications)
        self._score, self._over, self._asked = 0.0, False, False
        return self._engine

    @property
    def _here(self) -> ScienceWorldProcess:
        return self._engine or self._begin()

    def _look(self) -> Observation:
        return Observation(f"{START_LINE} {_tidy(self._here.look())}")

    def _skills(self) -> list[str]:
        actions = dict.fromkeys(self._here.actions())
        return [one for one in actions if one != _RESET and not one.startswith(_OF_TWO)]

    def _rate(self) -> Score:
        return Score(float(self._score == 1), max(0.0, self._score))

    def _let_go(self) -> None:
        if self._engine is not None:
            SPARE.give_back(self._engine)

    def _take(self, skill: str) -> Observation:
        if " ".join(skill.split()).casefold() == _RESET:
            return Observation(f"There is no way to {_RESET} here.", Outcome.UNKNOWN_SKILL)
        engine = self._here
        self._worker.check_wanted()
        asked, text = self._asked, _tidy(engine.step(skill))
        self._asked = text.startswith(_AMBIGUOUS)
        if not self._over:
            self._score, self._over = engine.progress()
        if not text.startswith(_UNKNOWN):
            return Observation(text)
        # The earlier question is forgotten then: the world has changed.
        return Observation(text, Outcome.EXECUTION if asked else Outcome.UNKNOWN_SKILL)


def _tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip()) or "Nothing happens."


def _household(simplifications: str) -> Household:
    if not {"easy", "teleportAction"} & set(simplifications.split(",")):
        return HOUSEHOLD
    return replace(HOUSEHOLD, actions=(*HOUSEHOLD.actions, _TELEPORT), rules=f"{RULES}\n{_TELEPORT_RULE}")


class Simplified(Settings):
    simplifications: Annotated[str, Harmless(plain)] = Field(
        default="", description="simplifications, separated by commas, e.g. easy or openDoors"
    )

    @field_validator("simplifications")
    @classmethod
    def _known(cls, given: str) -> str:
        return check_names("simplification", given, SIMPLIFICATIONS) if given else ""


class ScienceWorldSettings(WorldSettings, Simplified):
    """The type of task; the number of a task is its variation."""

    task: Annotated[str, Harmless(plain)] = Field(
        default=next(iter(VARIATIONS)), description="type of task, e.g. boil or grow-fruit"
    )

    @field_validator("task")
    @classmethod
    def _is_a_task(cls, task: str) -> str:
        return check_names("task", task, VARIATIONS)

    @property
    def of_many(self) -> bool:
        """Whether there are many tasks to choose from: the simulator would have to describe each."""
        return True


def tasks_of(settings: ScienceWorldSettings) -> Mapping[int, ScienceTask]:
    check_java()
    variations = range(VARIATIONS[settings.task])
    return TasksOnDemand(variations, lambda one: described(settings.task, one, settings.simplifications))


SPEC = WorldSpec(
    name="scienceworld",
    summary="ScienceWorld's thirty types of experiments, with its own simulator (Java 17)",
    settings=ScienceWorldSettings,
    extra="reactree_lab[scienceworld]",
    needs=("scienceworld", "py4j"),
    household=HOUSEHOLD,
    load_tasks=tasks_of,
    make=lambda settings, task, **given: ScienceWorld(task, **given),
    flags=("task_id",),
)


#: Factor of the type's number (from 1) in a task's number; the variation is added.
TYPE_STRIDE = 10_000


class ScienceWorldSuiteSettings(Simplified):
    task_types: Annotated[str, Harmless(plain)] = Field(
        default="", description="types of tasks, separated by commas; empty: all thirty"
    )
    part: Literal["train", "dev", "test"] = Field(default="test", description="part of the variations")
    variations: int = Field(default=1, ge=1, description="variations of each type, from the first of the part")

    @field_validator("task_types")
    @classmethod
    def _are_tasks(cls, task_types: str) -> str:
        return check_names("task", task_types, VARIATIONS) if task_types else ""


def _suite_tasks(settings: ScienceWorldSuiteSettings) -> Mapping[int, ScienceTask]:
    check_java()

    def task(name: str, variation: int) -> ScienceTask:
        return described(name, variation, settings.simplifications)

    chosen = settings.task_types.split(",") if settings.task_types else VARIATIONS
    variations = {name: split(name, settings.part)[: settings.variations] for name in chosen}
    return TasksOnDemand.by_kind(VARIATIONS, TYPE_STRIDE, variations, task)


SUITE = SuiteSpec.in_world(
    SPEC,
    summary="variations of the thirty types of experiments of ScienceWorld, in the world `scienceworld`",
    settings=ScienceWorldSuiteSettings,
    tasks=_suite_tasks,
    make_world=ScienceWorld,
    ssr="score",
    published=(published.SCIENCEWORLD,),
    flags=("task_types",),
)


T = TypeVar("T")
#: Seconds that Java may take to start, and to answer.
START_LIMIT, ANSWER_LIMIT = 60.0, 60.0
_JAVA_OPTIONS = ["-Xmx1g", "-XX:+UseSerialGC"]
_INSTALL = "install Java 17, on Debian and Ubuntu: apt-get install openjdk-17-jre-headless"


def check_java() -> None:
    java = _java()
    if shutil.which(java) is None:
        raise UserError(f"scienceworld needs Java, but '{java}' is missing: {_INSTALL}")


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


class ScienceWorldProcess:
    """One simulator, for one thread at a time. Java ends with this process, even if it is killed."""

    def __init__(self) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
        from scienceworld.constants import BASEPATH, JAR_PATH

        _quiet()
        self.lost = ""  # why it is useless
        launcher = Worker("java", WorldError)
        launched = launcher.do(
            lambda: launch_gateway(
                classpath=JAR_PATH,
                cwd=BASEPATH,
                javaopts=_JAVA_OPTIONS,
                java_path=_java(),
                die_on_exit=True,
                return_proc=True,
            )
        )
        launcher.close()
        try:
            port, self._process = launched.result(START_LIMIT)
        except Exception as error:  # a Java that is too old ends before it tells its port
            raise WorldError(f"'{_java()}' does not start ScienceWorld ({_line(error)}); {_INSTALL}") from None
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, read_timeout=ANSWER_LIMIT))
        self._server: Any = self._call(self._gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface)

    def load(self, task: str, variation: int, simplifications: str) -> None:
        """Start a task's variation, with simplifications separated by commas."""
        self._call(lambda: self._server.load(task, variation, simplifications, False))

    def description(self) -> str:
        return self._call(lambda: str(self._server.getTaskDescription()))

    def look(self) -> str:
        return self._call(lambda: f"{self._server.freeActionLook().strip()}\n{self._server.freeActionInventory()}")

    def step(self, action: str) -> str:
        return self._call(lambda: str(self._server.step(action)))

    def actions(self) -> list[str]:
        """Return the sensible actions; after an ambiguous one, the answers by number."""
        return self._call(lambda: list(self._server.getValidActionObjectCombinations()))

    def progress(self) -> tuple[float, bool]:
        """Return the score (at most 1; below 0 if the task is failed), and whether the task is over."""
        score = self._call(lambda: float(self._server.getScore()))
        return score, score < 0 or self._call(lambda: bool(self._server.getCompleted()))

    @property
    def usable(self) -> bool:
        return not self.lost

    def kill(self) -> None:
        self.lost = self.lost or "ScienceWorld was closed"
        self._process.kill()
        self._gateway.close()

    def _call(self, call: Callable[[], T]) -> T:
        if not self.lost and self._process.poll() is not None:
            self.lost = f"ScienceWorld's Java process has ended (exit code {self._process.returncode})"
        if self.lost:
            raise WorldError(self.lost)
        try:
            return call()
        except Exception as error:  # any error of py4j and sockets; the result of the call is unknown
            self.lost = f"ScienceWorld's Java process does not answer: {_line(error)}"
            self._process.kill()
            raise WorldError(self.lost) from None


#: The simulator that no world uses.
SPARE = Spare(ScienceWorldProcess)


@contextlib.contextmanager
def borrowed() -> Iterator[ScienceWorldProcess]:
    engine = SPARE.borrow()
    try:
        yield engine
    finally:
        SPARE.give_back(engine)


def _quiet() -> None:
    """Keep py4j from printing tracebacks; every failure becomes an error."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_from_others)


def _from_others(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
