"""A world made of a robot's declarations: its skills have their effects on its map, without ROS."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from reactree_ros.agent.needs import Need, needs_of
from reactree_ros.agent.parameters import (
    List,
    Named,
    Number,
    Parameter,
    ParameterError,
    Person,
    Place,
    Text,
    Value,
    each_of,
)
from reactree_ros.agent.skill import Skill, SkillCall, skill_of
from reactree_ros.agent.text import shortened_line
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.files import read_back
from reactree_ros.household.scene import Thing
from reactree_ros.household.tasks import parts_of
from reactree_ros.plugins.settings import Harmless, did_you_mean, plain
from reactree_ros.robot.config import RobotConfig, load_robot, worded
from reactree_ros.robot.map_file import MapDocument, load_map
from reactree_ros.robot.map_world import START_LINE, MapWorld, waited
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.robot.skills import MapSkills
from reactree_ros.world.port import Household, Observation, Outcome, Score
from reactree_ros.world.spec import WorldSettings, WorldSpec

#: What a tool of an MCP server answers in this world, which starts none.
_ANSWER = "answer"
#: The states of what nobody has changed.
AT_FIRST = frozenset({"closed", "off", "empty"})


def _pairs(given: Any) -> Any:
    """Read ``NAME=VALUE``, of one name also several times, from a list of texts or from a text with ``;`` between."""
    if isinstance(given, Mapping):  # of a file, in which `true` is not text
        return {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}
    texts = given.split(";") if isinstance(given, str) else given
    if not isinstance(texts, Sequence):
        return given
    read: dict[str, str] = {}
    for text in texts:
        name, equals, value = str(text).partition("=")
        if not equals:
            raise ValueError(f"'{text}': write NAME=VALUE")
        read[name.strip()] = ",".join(filter(None, (read.get(name.strip(), ""), value.strip())))
    return read


_Given = Annotated[dict[str, str], BeforeValidator(_pairs), Harmless(lambda values: all(map(plain, values.values())))]


#: What a goal says of things: where they are in the end, or who has them.
PLACED = "placed"


def _parts(goal: str) -> tuple[tuple[Need, ...], Mapping[str, str]]:
    """Read a goal: what has to hold, and the place or person of each thing that has to be there."""
    declared = read_back.parse_yaml(goal)[0] if goal else []
    needs: list[Any] = []
    placed: dict[str, str] = {}
    for one in declared if isinstance(declared, list) else [declared]:
        if isinstance(one, Mapping) and PLACED in one:
            placed |= _places(one[PLACED])
            facts: Any = {fact: about for fact, about in one.items() if fact != PLACED}
        else:
            facts = one
        needs += [facts] if facts or not placed else []
    return needs_of(needs, {}), placed


def _places(said: Any) -> Mapping[str, str]:
    if not isinstance(said, Mapping) or not all(isinstance(one, str) for one in (*said, *said.values())):
        raise ValueError(f"{PLACED}: {shortened_line(repr(said), 60)} names no place; write it like {{pills: Anna}}")
    return said


#: What has to hold, as YAML.
Goal = Annotated[
    str,
    BeforeValidator(lambda one: one if isinstance(one, str) else json.dumps(one)),
    Harmless(lambda goal: _parts(goal) is not None),
]
_Share = Annotated[float, Field(ge=0, le=1)]


def _are_numbers(values: Mapping[str, Any]) -> bool:
    return all(not isinstance(one, bool) and math.isfinite(float(one)) for one in values.values())


def _course(text: str) -> list[tuple[int, bool]]:
    """Read when a condition holds: ``false,true@3`` is false at first, and true from during the third skill on."""
    course = []
    for part in text.split(","):
        word, at, step = part.strip().partition("@")
        if word not in ("true", "false") or (at and not step.isdecimal()):
            raise UserError(
                f"condition: '{part}': write true, false, or true@3 for what is so from during the third skill on"
            )
        course.append((int(step or 0), word == "true"))
    return sorted(course)


class DeclaredSettings(WorldSettings):
    robot: str = Field(default="", description="the robot's configuration, a file like robot.yaml")
    fail: Annotated[dict[str, _Share], BeforeValidator(_pairs), Harmless(_are_numbers)] = Field(
        default_factory=dict, description="how often skills fail, such as 'load=0.3;dock=1'"
    )
    condition: _Given = Field(
        default_factory=dict,
        description="what holds, such as 'people=true', or 'people=false;people=true@3': from during the third skill "
        "on; others are unknown",
    )
    returns: _Given = Field(
        default_factory=dict,
        description="what skills return, such as 'scan barcode.code=A-17'; other values are drawn as declared",
    )
    goal: Goal = Field(
        default="",
        description="what has to hold at the end, written as requires: '{held: pills, at: nurse desk}'; where things "
        "are, or who has them: '{placed: {pills: Anna}}'",
    )
    start: str = Field(default="", description="where the robot begins, a room or a place; by default as the map says")
    seed: int = Field(default=0, description="of failures and of what is returned")


class DeclaredWorld(MapWorld):
    """Carries skills out by their declarations alone: what they need is looked at, and what they change happens.

    Everything is known; what nobody has opened, turned on or filled is closed, off and empty. Tools of MCP servers are
    not called, and return what the settings say.
    """

    def __init__(self, config: RobotConfig, document: MapDocument, settings: DeclaredSettings) -> None:
        super().__init__(config, file=Path(settings.robot).name, tools=tools_of(config))
        self._document, self._settings, self._seed = document, settings, settings.seed
        self._fail = settings.fail
        self._courses = {self._wording(name): _course(text) for name, text in settings.condition.items()}
        self._skills = {skill.name: skill for skill in self.household.skills}
        for name in self._fail:
            self._skill(name, "fail")
        self._given = dict(self._values())
        self._goal_needs, self._goal_places = goal_of(settings, config, document)
        self._start()

    def _start(self) -> None:
        config, self._step = self._config, 0
        self._map = SemanticMap(
            self._document,
            hands=config.hands,
            unknown=config.grasped,
            at_first=AT_FIRST,
            condition=self.condition,
        )
        self._placed: dict[str, str] = {}  # where what was released is, or who has it
        self._map.robot = self._map.approach(self._map.agent_room)
        if start := self._settings.start:
            if start not in (names := self._document.names(Place()) or ()):
                raise UserError(f"start: '{start}' is nowhere on the map; {did_you_mean(start, names)}")
            self._map.arrive(self._map.by_name[start])
            self._stand_at(self._map.by_name[start])

    def _stand_at(self, place: Thing) -> None:
        if (pose := self._map.approach(place)) is not None:
            self._map.robot = self._map.in_map(pose)

    # ------------------------------------------------------------------ what the settings say

    def _wording(self, name: str) -> str:
        named = self._config.wordings
        if name not in (*named, *named.values()):
            raise UserError(f"condition: there is no '{name}'; {did_you_mean(name, named)}")
        return named.get(name, name)

    def _skill(self, name: str, where: str) -> Skill:
        if name not in self._skills:
            raise UserError(f"{where}: there is no skill '{name}'; {did_you_mean(name, self._skills)}")
        return self._skills[name]

    def _values(self) -> Iterator[tuple[tuple[str, str], Value]]:
        for name, text in self._settings.returns.items():
            called, _, field = name.rpartition(".") if name not in self._skills else (name, "", "")
            skill = self._skill(called or name, "returns")
            field = field or next(iter(skill.returns), "")
            if field not in skill.returns:
                known = did_you_mean(field, skill.returns)
                raise UserError(f"returns: '{called}' does not return '{field}'; {known}")
            try:
                yield (skill.name, field), skill.returns[field].read(text)
            except ParameterError as error:
                raise UserError(f"returns: {name}: {error}") from None

    # ------------------------------------------------------------------ the port

    @property
    def map(self) -> SemanticMap:
        return self._map

    def now(self) -> float:
        return float(self._step)

    def condition(self, wording: str) -> bool | None:
        course = self._courses.get(wording, ())
        return next((holds for step, holds in reversed(course) if step <= self._step), None)

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        self._seed = self._settings.seed if seed is None else seed
        self._start()
        return self.observe()

    def score(self) -> Pending[Score | None]:
        needs, places = self._goal_needs, self._goal_places
        if not (parts := len(needs) + len(places)):
            return Pending.ready(None)
        unmet = [str(need) for need in needs if need.holds({}, self._map) is not True]
        unmet += [f"{PLACED} {thing}: {place}" for thing, place in places.items() if place not in self._where(thing)]
        return Pending.ready(Score(gsr=not unmet, ssr=(parts - len(unmet)) / parts, unmet=unmet))

    def _where(self, about: str) -> Iterator[str]:
        """Yield the places, persons and rooms where a thing is, or things of a word."""
        map = self._map
        lying = {item.name: place.name for item in map.items() if (place := map.place_of(item)) is not None}
        for name, at in (lying | self._placed).items():
            if about in (name, parts_of(name)[0]):
                there = map.by_name.get(at)
                room = None if there is None else map.room_of(there)
                yield from (at, *([] if room is None else [room.name]))

    def execute(self, skill: str) -> Pending[Observation]:
        return Pending.ready(self._with_conditions(self._carried_out(skill)))

    def _carried_out(self, said: str) -> Observation:
        map = self._map
        conduct, call = self._read(map, said)
        if not isinstance(call, SkillCall):
            return Observation(call, Outcome.UNKNOWN_SKILL)
        outcome, words = conduct.check(map, call, self.now(), unseen=True)
        begun = outcome is Outcome.DONE
        self._step += 1
        if begun:
            outcome, words = self._ended(conduct, call, words)
        data: dict[str, Value] = {}
        if outcome is Outcome.DONE:
            chance = self._chance(call, "returns")
            data = {name: drawn(one, name, chance, self._document) for name, one in call.skill.returns.items()}
            data |= {name: value for (skill, name), value in self._given.items() if skill == call.skill.name}
            map.apply(call, self.now())
            place = map.by_name.get(call.value("at"))
            if place is not None:
                self._stand_at(place)
            if released := call.value("released"):
                self._placed[released] = call.value("place") or (map.anchor or map.agent_room).name
            self._placed.pop(call.value("held"), None)
        elif begun and call.skill.moves:
            map.leave()
        ended = conduct.after(map, call, outcome, words, data)
        return replace(ended, begun=begun and outcome is Outcome.PRECONDITION)

    def _ended(self, conduct: MapSkills, call: SkillCall, words: str) -> tuple[Outcome, str]:
        if call.skill in self._config.waits:
            return waited(call, self.condition(str(call.values["condition"])))
        if why := conduct.violated(self._map, call, lasting=True):
            return Outcome.PRECONDITION, conduct.failed(self._map, call, f"{why}; it was stopped")
        if self._chance(call, "fail").random() < self._fail.get(call.skill.name, 0.0):
            return Outcome.EXECUTION, conduct.failed(self._map, call, "it was made to fail")
        return Outcome.DONE, words

    def _chance(self, call: SkillCall, what: str) -> random.Random:
        return random.Random(f"{self._seed} {self._step} {call} {what}")


def drawn(declared: Parameter, name: str, chance: random.Random, document: MapDocument) -> Value:
    """Draw a value that may stand for a parameter."""
    if isinstance(declared, List):
        return each_of(drawn(declared.of, name, chance, document))
    if isinstance(declared, Number):
        return chance.choice(list(declared.values()))
    now = document.names(declared) if isinstance(declared, Named) else None
    if options := declared.options(now):
        return declared.read(chance.choice(options), now)
    return f"some {name}"[: declared.longest] if isinstance(declared, Text) else declared.example(now)


# ---------------------------------------------------------------------- the registry


def tools_of(config: RobotConfig) -> tuple[Skill, ...]:
    """Return the skills of MCP servers as far as the file declares them; no server is started to ask for the others."""
    tools = [(name, one) for server in config.mcp.values() for name, one in server.tools.items() if one.wording]
    declared = {"returns": {_ANSWER: {"text": 500}}}
    return tuple(
        skill_of({"name": one.name or name, "wording": one.wording, "parameters": one.parameters, **declared})
        for name, one in tools
    )


@dataclass(frozen=True)
class DeclaredTask:
    """What the settings' goal asks for, in whatever words; with a seed, the robot begins anywhere."""

    seed: int = 0
    instruction: str = ""
    task_name: str = "goal"

    def asks_for(self, instruction: str) -> bool:
        return True


def goal_of(
    settings: DeclaredSettings, config: RobotConfig, document: MapDocument
) -> tuple[tuple[Need, ...], Mapping[str, str]]:
    """Return what has to hold at the end, and the place or person of each thing. Raises UserError."""
    try:
        asked, placed = _parts(settings.goal)
        needs = tuple(worded(need, config.wordings) for need in asked)
        config.check_of_needs(document)((*needs, *(Need("held", (thing,)) for thing in placed)))
        known = [name for kind in (Place(), Person()) for name in document.names(kind) or ()]
        if wrong := next((one for one in placed.values() if one not in known), ""):
            raise ValueError(
                f"{PLACED}: '{wrong}' is neither a place nor a person of the map; {did_you_mean(wrong, known)}"
            )
    except ValueError as error:
        raise UserError(f"goal: {error}") from None
    return needs, placed


def _make(settings: DeclaredSettings, task: DeclaredTask | None, *, scored: bool = True) -> DeclaredWorld:
    config = load_robot(settings.robot)
    if not config.map:
        remedy = "save that map as a file, and name it with map: instead"
        raise UserError(f"{config.at(settings.robot, 'map_topic')}: the map comes over ROS; {remedy}")
    config.check_fits(document := load_map(config.map), settings.robot)
    seed = 0 if task is None else task.seed
    start = random.Random(seed).choice(document.names(Place()) or ("",)) if seed else settings.start
    changed = {"seed": settings.seed + seed, "start": start}
    return DeclaredWorld(config, document, settings.model_copy(update=changed))


SPEC = WorldSpec(
    name="declared",
    summary="a robot's own skills as its robot.yaml declares them, on its map, without ROS",
    settings=DeclaredSettings,
    household=Household(name="robot", start_line=START_LINE),
    load_tasks=lambda settings: {0: DeclaredTask()} if settings.goal else {},
    make=_make,
    moved=lambda task, seed: replace(task, seed=seed),
    aiming=lambda settings, left: settings.model_copy(update={"goal": settings.goal or json.dumps(left), "fail": {}}),
)
