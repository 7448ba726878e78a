"""The world ``alfworld``: ALFRED's households in words, with ALFWorld's own games on TextWorld.

The available skills are TextWorld's admissible commands; it answers all others with ``Nothing happens.``. The score is
won or not, and the share of ALFRED's goal conditions that hold. If a game does not tell its goal, the score is only won
or not.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from reactree_lab.bench import published
from reactree_lab.bench.spec import SuiteSpec
from reactree_lab.worlds.ai2thor.alfred import TRAJ_DATA, Trial, load_trials
from reactree_lab.worlds.alfworld.games import (
    GAME,
    LIGHT,
    TASK_TYPES,
    TWO,
    AlfworldTask,
    Wanted,
    game_files,
    made_up,
    of_file,
    of_trial,
    type_of,
)
from reactree_lab.worlds.alfworld.rooms import TREATMENTS, portable
from reactree_lab.worlds.running import LineProcess, Spare, WorkerWorld
from reactree_ros.agent.household import Household
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.plugins.settings import Harmless, Settings, check_names, plain
from reactree_ros.world.port import Observation, Outcome, Score, Seen, WorldError
from reactree_ros.world.spec import TasksOnDemand, WorldSettings, WorldSpec

#: Games after which a process is replaced: Fast Downward does not free all memory of a game.
MOST_GAMES = 100


@dataclass(frozen=True)
class Turn:
    text: str  # the game's text
    commands: tuple[str, ...]  # possible commands
    won: bool  # whether the goal is reached
    #: Facts, each a predicate with the names of its arguments; see :data:`~reactree_lab.worlds.alfworld.player.TOLD`.
    facts: tuple[tuple[str, ...], ...]

    def pairs(self, predicate: str) -> list[tuple[str, str]]:
        return [(fact[1], fact[2]) for fact in self.facts if fact[0] == predicate]

    def named(self, predicate: str) -> set[str]:
        return {fact[1] for fact in self.facts if fact[0] == predicate}


class AlfworldProcess(LineProcess):
    name = "ALFWorld's process"
    module = "reactree_lab.worlds.alfworld.player"
    answer_limit = 120.0

    def __init__(self) -> None:
        super().__init__()
        self._games = 0

    def load(self, game: Mapping[str, Any]) -> Turn:
        self._games += 1
        return self._turn("load", game)

    def reset(self) -> Turn:
        self._games += 1
        return self._turn("reset")

    def step(self, command: str) -> Turn:
        return self._turn("step", command)

    @property
    def usable(self) -> bool:
        return self._games < MOST_GAMES and super().usable

    def _turn(self, *request: object) -> Turn:
        try:
            told = self.ask(*request)
        except WorldError as error:
            raise error if self.lost else WorldError(f"ALFWorld cannot play this game: {error}") from None
        facts = tuple(tuple(fact) for fact in told["facts"])
        return Turn(told["text"], tuple(told["commands"]), told["won"], facts)


#: The process that no world uses.
SPARE = Spare(AlfworldProcess)


#: Beginning of ALFWorld's descriptions of a place.
START_LINE = "You are"
#: Factor of the type's number (from 1) in a made-up game's number; the seed is added.
TYPE_STRIDE = 10_000
#: The word between the two things of a skill.
_OF_TWO: Mapping[str, str] = {
    "take": "from",
    "move": "to",
    "clean": "with",
    "heat": "with",
    "cool": "with",
    "slice": "with",
}
_OF_NONE = ("look", "inventory", "help")
RULES = """How skills are said; a <place> is what you can go to, e.g. fridge 1, a <thing> is what lies there, e.g. apple 2:
- go to <place>; open <place>, close <place>: where you are
- take <thing> from <place>: where you are, with nothing in your hands; you carry one thing at a time
- move <thing> to <place>: put what you carry in or on the place where you are, which has to be open
- clean <thing> with <place>: at a sinkbasin; heat <thing> with <place>: at a microwave; cool <thing> with <place>: at a fridge; you carry the thing
- use <thing>: turn a lamp on or off, where you are
- slice <thing> with <thing>: with a knife that you carry
- examine <thing>, examine <place>, look, inventory
To look at something under a lamp, carry it and use the lamp. What cannot be done is answered by "Nothing happens."."""  # noqa: E501

HOUSEHOLD = Household(
    name="alfworld",
    actions=("go to", "open", "close", *_OF_TWO, "use", "examine", *_OF_NONE),
    rules=RULES,
    start_line=START_LINE,
    max_decisions=200,
    max_steps=100,
    prompts="reactree_lab.worlds.alfworld:prompts",
)


class AlfworldWorld(WorkerWorld):
    household = HOUSEHOLD

    def __init__(self, task: AlfworldTask, *, scored: bool = True) -> None:
        super().__init__("alfworld", scored=scored)
        self._task = task
        self._engine: AlfworldProcess | None = None
        self._loaded = False
        self._turn: Turn | None = None
        self._overview = ""
        self._won = False

    def canonical(self, skill: str) -> Pending[str | Observation]:
        return super().canonical(_plain(skill))

    @property
    def recallable(self) -> Sequence[str]:  # type: ignore[override]
        """Words of all portable things in ALFRED's rooms."""
        return portable()

    # ------------------------------------------------------------------ in the worker's thread

    def _begin(self, seed: int | None = None) -> Turn:
        if self._task.unplayable:
            raise WorldError(self._task.unplayable)
        if self._engine is None or self._engine.lost:
            self._engine, self._loaded = SPARE.borrow(), False
        self._turn = turn = self._engine.reset() if self._loaded else self._load(self._engine)
        # The room's places are only listed at the beginning.
        self._overview = next((one for one in turn.text.split("\n\n") if one.startswith(START_LINE)), "")
        self._won = turn.won
        return turn

    def _load(self, engine: AlfworldProcess) -> Turn:
        try:
            turn = engine.load(self._task.data())
        except UserError as error:  # the file was deleted after it was read
            raise WorldError(str(error)) from None
        except WorldError as error:
            raise WorldError(f"{self._task.file or self._task.instruction}: {error}") from None
        self._loaded = True
        return turn

    def _skills(self) -> Sequence[str]:
        return self._now.commands

    def _let_go(self) -> None:
        if self._engine is not None:
            SPARE.give_back(self._engine)

    def _stop(self) -> None:
        if self._engine is not None:
            self._engine.stop()

    @property
    def _now(self) -> Turn:
        return self._turn or self._begin()

    @property
    def _playing(self) -> AlfworldProcess:
        assert self._engine is not None
        return self._engine

    def _look(self) -> Observation:
        """Look, examine every place here, and what is carried: this does not change the game."""
        turn = self._now
        here = self._places_here(turn)
        if not here:
            return Observation(self._overview)
        asked = ["look", *(f"examine {place}" for place in here), *(["inventory"] if turn.pairs("holds") else [])]
        said = [self._playing.step(command).text for command in asked]
        return Observation(" ".join([*said, self._overview.partition(". ")[2]]).strip(), seen=self._seen(turn))

    def _places_here(self, turn: Turn) -> list[str]:
        at = {place for _, place in turn.pairs("atlocation")}
        return [receptacle for receptacle, place in turn.pairs("receptacleatlocation") if place in at]

    def _open_here(self, turn: Turn) -> list[str]:
        closed = turn.named("openable") - turn.named("opened")
        return [place for place in self._places_here(turn) if place not in closed]

    def _seen(self, turn: Turn) -> tuple[Seen, ...]:
        places = self._open_here(turn)
        lies = [(thing, place, False) for thing, place in turn.pairs("inreceptacle") if place in places]
        carried = [(thing, None, True) for _, thing in turn.pairs("holds")]
        return tuple(
            Seen(kind_of(thing), int(thing.rpartition(" ")[2]), room=None, place=place, held=held)
            for thing, place, held in (*sorted(lies), *carried)
        )

    def _take(self, skill: str) -> Observation:
        skill, before = _plain(skill), self._now
        self._worker.check_wanted()
        self._turn = turn = self._playing.step(skill)
        self._won = self._won or turn.won
        if skill not in before.commands:
            known = self._names_things(skill, before)
            return Observation(turn.text, Outcome.PRECONDITION if known else Outcome.UNKNOWN_SKILL)
        opened = [place for place in self._open_here(turn) if place in turn.named("openable")]
        return Observation(turn.text, seen=self._seen(turn), looked_into=next(iter(opened), None))

    def _names_things(self, skill: str, turn: Turn) -> bool:
        verb, named = HOUSEHOLD.split_skill(skill)
        names = {name for fact in turn.facts for name in fact[1:]}
        return bool(verb) and set(named.split(f" {_OF_TWO[verb]} ") if verb in _OF_TWO else [named]) <= names

    def _rate(self) -> Score:
        turn = self._now
        if self._won or self._task.wanted is None:
            return Score(float(self._won), float(self._won))
        met, total = conditions_met(self._task.wanted, turn)
        return Score(0, min(met, total - 1) / total)  # TextWorld decides whether it is won


def _plain(skill: str) -> str:
    return " ".join(skill.split()).lower()


class AlfworldGames(Settings):
    task_types: Annotated[str, Harmless(plain)] = Field(
        default="", description="types of tasks, separated by commas; empty: all six"
    )
    games: str = Field(
        default="",
        description=f"a folder of ALFWorld's games ({GAME} with {TRAJ_DATA}), or ALFRED's trials to make "
        "games from (a folder or a .jsonl); empty: make games up",
    )
    number: int = Field(default=10, ge=1, lt=TYPE_STRIDE // 2, description="made-up games of each type")
    first_seed: int = Field(default=1, ge=1, lt=TYPE_STRIDE // 2, description="seed of the first made-up game")

    @field_validator("task_types")
    @classmethod
    def _are_types(cls, task_types: str) -> str:
        return check_names("task type", task_types, TASK_TYPES) if task_types else ""


class AlfworldSettings(AlfworldGames, WorldSettings):
    @property
    def of_many(self) -> bool:
        """Whether there is a file with many tasks, from which the user must choose."""
        return bool(self.games)


def games_of(settings: AlfworldGames) -> Mapping[int, AlfworldTask]:
    chosen = settings.task_types.split(",") if settings.task_types else list(TASK_TYPES)
    if not settings.games:
        seeds = range(settings.first_seed, settings.first_seed + settings.number)
        return TasksOnDemand.by_kind(TASK_TYPES, TYPE_STRIDE, dict.fromkeys(chosen, seeds), made_up)
    path = Path(settings.games)
    if path.is_file() or (path.is_dir() and not any(path.rglob(GAME)) and any(path.rglob(TRAJ_DATA))):
        return _made_of(load_trials(path), chosen)
    files = dict(enumerate(game_files(path), 1))
    wanted = [one for one, file in files.items() if (kind := type_of(file)) in chosen or not kind]
    return TasksOnDemand(wanted, lambda one: of_file(files[one]))


def _made_of(trials: Sequence[Trial], chosen: Sequence[str]) -> Mapping[int, AlfworldTask]:
    possible = []
    for number, trial in enumerate(trials, 1):
        if trial.task_type.value in chosen:
            with contextlib.suppress(UserError):
                of_trial(trial)
                possible.append(number)
    if not possible:
        raise UserError("games: no game can be made from any of these trials; ALFWorld has none with slices")
    return TasksOnDemand(possible, lambda number: of_trial(trials[number - 1]))


def _make(settings: AlfworldSettings, task: AlfworldTask, *, scored: bool = True) -> AlfworldWorld:
    if task.unplayable:
        raise UserError(task.unplayable)
    return AlfworldWorld(task, scored=scored)


SPEC = WorldSpec(
    name="alfworld",
    summary="ALFWorld's six types of household tasks in words, with its own games on TextWorld",
    settings=AlfworldSettings,
    extra="reactree_lab[alfworld]",
    needs=("alfworld", "textworld", "fast_downward"),
    household=HOUSEHOLD,
    load_tasks=games_of,
    make=_make,
    flags=("task_id",),
)


SUITE = SuiteSpec.in_world(
    SPEC,
    summary="games of ALFWorld's six types, made up from seeds or your own, in the world `alfworld`",
    settings=AlfworldGames,
    tasks=games_of,
    make_world=AlfworldWorld,
    ssr="goal conditions",
    published=(published.ALFWORLD,),
    flags=("task_types",),
)


#: The fact of a treated thing.
_TREATED = dict(zip(TREATMENTS, ("isclean", "ishot", "iscool"), strict=True))


def kind_of(name: str) -> str:
    return name.rpartition(" ")[0] or name


def conditions_met(wanted: Wanted, turn: Turn) -> tuple[int, int]:
    """Return the number of goal conditions that hold, and of all conditions, as ALFRED's evaluation does.

    - a thing in a place: it is there
    - two things: one and the other, in the same receptacle
    - a treated thing: in its place, treated, and a treated one in its place
    - a thing in the light: it is held, and the lamp is on at the agent's place
    """
    conditions = _lit(wanted, turn) if wanted.task_type == LIGHT else _placed(wanted, turn)
    return sum(conditions), len(conditions)


def _placed(wanted: Wanted, turn: Turn) -> list[bool]:
    item, receptacle = wanted.item.lower(), wanted.receptacle.lower()
    places = {thing: place for thing, place in turn.pairs("inreceptacle") if kind_of(thing) == item}
    there = {thing: place for thing, place in places.items() if kind_of(place) == receptacle}
    if wanted.task_type == TWO:
        most = max(Counter(there.values()).values(), default=0)
        return [most >= 1, most >= 2]
    if wanted.task_type not in _TREATED:
        return [bool(there)]
    treated = {thing for thing in turn.named(_TREATED[wanted.task_type]) if kind_of(thing) == item}
    return [bool(there), bool(treated), bool(treated & set(there))]


def _lit(wanted: Wanted, turn: Turn) -> list[bool]:
    here = {place for _, place in turn.pairs("atlocation")}
    near = {receptacle for receptacle, place in turn.pairs("receptacleatlocation") if place in here}
    lamps = {thing for thing, receptacle in turn.pairs("inreceptacle") if receptacle in near}
    on = {thing for thing in turn.named("istoggled") if kind_of(thing) == wanted.lamp.lower()}
    held = {kind_of(thing) for _, thing in turn.pairs("holds")}
    return [wanted.item.lower() in held, bool(on & lamps)]
