"""A world made of a robot's declarations: its skills have their effects on its map, without ROS."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from reactree_ros.agent.needs import HERE, OPPOSITES, Facts, Need, needs_of
from reactree_ros.agent.parameters import Named, Number, Parameter, ParameterError, Text, Value
from reactree_ros.agent.skill import Skill, SkillCall, helping, skill_of
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.files import read_back
from reactree_ros.household.tasks import parts_of
from reactree_ros.plugins.settings import Harmless, did_you_mean, plain
from reactree_ros.robot.config import RobotConfig, load_robot
from reactree_ros.robot.map_file import MapDocument, load_map
from reactree_ros.robot.map_world import START_LINE, MapWorld, waited
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.world.port import Household, Observation, Outcome, Score
from reactree_ros.world.spec import WorldSettings, WorldSpec

#: What a tool of an MCP server answers in this world, which starts none.
_ANSWER = "answer"
#: The states of what nobody has changed.
AT_FIRST = frozenset({"closed", "off", "empty"})


def _pairs(given: Any) -> Any:
    """Read ``NAME=VALUE``, of one name also several times, from a list of texts or from a text with ``;`` between."""
    if isinstance(given, Mapping):  # of a file, in which `true` is no text
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
#: What has to hold, as YAML.
Goal = Annotated[str, BeforeValidator(lambda one: one if isinstance(one, str) else json.dumps(one)), Harmless()]
_Share = Annotated[float, Field(ge=0, le=1)]


def _course(text: str) -> list[tuple[int, bool]]:
    """Read when a condition holds: ``false,true@3`` is false at first, and true from during the third skill on."""
    course = []
    for part in text.split(","):
        word, at, step = part.strip().partition("@")
        if word not in ("true", "false") or (at and not step.isdecimal()):
            raise ValueError(f"'{part}': write true, false, or true@3 for what is so from during the third skill on")
        course.append((int(step or 0), word == "true"))
    return sorted(course)


def _courses(given: dict[str, str]) -> dict[str, str]:
    for text in given.values():
        _course(text)
    return given


class DeclaredSettings(WorldSettings):
    robot: str = Field(default="", description="the robot's configuration, a file like robot.yaml")
    fail: Annotated[dict[str, _Share], BeforeValidator(_pairs), Harmless()] = Field(
        default_factory=dict, description="how often skills fail, such as 'load=0.3;dock=1'"
    )
    condition: Annotated[_Given, AfterValidator(_courses)] = Field(
        default_factory=dict,
        description="what holds, such as 'people=true', or 'people=false;people=true@3': from during the third skill "
        "on; of others nobody knows",
    )
    returns: _Given = Field(
        default_factory=dict,
        description="what skills return, such as 'scan barcode.code=A-17'; other values are drawn as declared",
    )
    goal: Goal = Field(
        default="", description="what has to hold at the end, written as requires: '{held: pills, at: nurse desk}'"
    )
    seed: int = Field(default=0, description="of failures and of what is returned")


class DeclaredWorld(MapWorld):
    """Carries skills out by their declarations alone: what they need is looked at, and what they change happens.

    Everything is known; what nobody has opened, turned on or filled is closed, off and empty. Tools of MCP servers are
    not called, and return what the settings say.
    """

    def __init__(self, config: RobotConfig, document: MapDocument, settings: DeclaredSettings) -> None:
        super().__init__(config, file=Path(settings.robot).name, tools=tools_of(config))
        self._document, self._settings, self._seed = document, settings, settings.seed
        self._fail = dict(settings.fail)
        self._named = {name: one.wording for name, one in config.conditions.items()}
        self._courses = {self._wording(name): _course(text) for name, text in settings.condition.items()}
        self._skills = {skill.name: skill for skill in self.household.skills}
        for name in self._fail:
            self._skill(name, "fail")
        self._given = dict(self._values())
        self._goal_needs = goal_of(settings)
        self._start()

    def _start(self) -> None:
        self._map = SemanticMap(self._document, hands=self._config.hands, unknown=self._config.grasped)
        self._facts = DeclaredFacts(self._map, self.holding)
        self._step = 0
        room = self._map.agent_room
        self._map.robot = self._map.approach(room)

    # ------------------------------------------------------------------ what the settings say

    def _wording(self, name: str) -> str:
        if name in self._named or name in self._named.values():
            return self._named.get(name, name)
        known = did_you_mean(name, self._named) if self._named else f"{self._file} has none"
        raise UserError(f"condition: there is no '{name}'; {known}")

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
                known = did_you_mean(field, skill.returns) if skill.returns else "it returns nothing"
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

    def holding(self) -> Mapping[str, bool | None]:
        found: dict[str, bool | None] = dict.fromkeys(self._named.values())
        for wording, course in self._courses.items():
            found[wording] = next((holds for step, holds in reversed(course) if step <= self._step), None)
        return found

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        self._seed = self._settings.seed if seed is None else seed
        self._start()
        return self.observe()

    def score(self) -> Pending[Score | None]:
        if not self._goal_needs:
            return Pending.ready(None)
        held = [need.holds({}, self._facts) is True for need in self._goal_needs]
        return Pending.ready(Score(gsr=all(held), ssr=sum(held) / len(held)))

    def execute(self, skill: str) -> Pending[Observation]:
        return Pending.ready(self._with_conditions(self._carried_out(skill)))

    def _carried_out(self, said: str) -> Observation:
        map = self._map
        conduct, call = self._read(map, said)
        if not isinstance(call, SkillCall):
            return Observation(call, Outcome.UNKNOWN_SKILL)
        outcome, words = conduct.check(map, call, self.now(), unseen=True)
        data: Mapping[str, Value] = {}
        if outcome is Outcome.DONE and (why := self._lacking(call)):
            outcome, words = Outcome.PRECONDITION, f"You cannot {call}: {why}."
        self._step += 1
        if outcome is Outcome.DONE:
            outcome, words, data = self._done(call, words) or (
                Outcome.EXECUTION,
                conduct.failed(map, call, "it was made to fail"),
                {},
            )
        return conduct.after(map, call, outcome, words, data)

    def _done(self, call: SkillCall, words: str) -> tuple[Outcome, str, Mapping[str, Value]] | None:
        # None: it fails
        chance = random.Random(f"{self._seed} {self._step} {call}")
        if call.skill in self._config.waits:
            return (*waited(call, self.holding()[str(call.values["condition"])]), {})
        if why := self._lacking(call, lasting=True):
            self._leave(call)
            return Outcome.PRECONDITION, f"You could not go on to {call}: {why}.", {}
        if chance.random() < self._fail.get(call.skill.name, 0.0):
            self._leave(call)
            return None
        self._facts.apply(call)
        self._map.apply(call, self.now())
        place = self._map.by_name.get(call.value("at"))
        if place is not None and (pose := self._map.approach(place)) is not None:
            self._map.robot = self._map.in_map(pose)
        return Outcome.DONE, words, {name: self._value(call, name, chance) for name in call.skill.returns}

    def _leave(self, call: SkillCall) -> None:
        if call.skill.moves:
            self._map.leave()

    def _lacking(self, call: SkillCall, *, lasting: bool = False) -> str:
        """Say what a skill needs and does not have, and what would help; what nobody knows is not taken to be so."""
        for need in call.skill.requires:
            if (need.lasts or not lasting) and need.holds(call.values, self._facts) is not True:
                helps = helping(need, call.values, self._facts, self.household.skills)
                return need.reason(call.values, self._facts) + (f"; first {helps}" if helps else "")
        return ""

    def _value(self, call: SkillCall, name: str, chance: random.Random) -> Value:
        key, declared = (call.skill.name, name), call.skill.returns[name]
        return self._given[key] if key in self._given else drawn(declared, name, chance, self._document)


def drawn(declared: Parameter, name: str, chance: random.Random, document: MapDocument) -> Value:
    """Draw a value that may stand for a parameter."""
    now = document.names(declared) if isinstance(declared, Named) else None
    if isinstance(declared, Number):
        return chance.choice(list(declared.values()))
    if options := declared.options(now):
        return chance.choice(options)
    return f"some {name}"[: declared.longest] if isinstance(declared, Text) else declared.example(now)


class DeclaredFacts(Facts):
    """What holds in a world made of declarations; what is not on the map is known by the effects on it."""

    def __init__(self, map: SemanticMap, holding: Callable[[], Mapping[str, bool | None]]) -> None:
        self._map, self._holding = map, holding
        self._states: dict[str, set[str]] = {}
        self._held: dict[str, None] = {}

    def apply(self, call: SkillCall) -> None:
        for state, other in OPPOSITES.items():
            if (name := call.value(state)) and name not in self._map.by_name:
                self._states[name] = self._states.get(name, set(AT_FIRST)) - {other} | {state}
        for effect in ("held", "released", "gone"):
            if (name := call.value(effect)) and name not in self._map.by_name:
                self._held.pop(name, None)
                self._held |= {name: None} if effect == "held" else {}

    def holds(self, fact: str, about: str) -> bool | None:
        if fact == "condition":
            return self._holding().get(about)
        if fact == "free":
            return len(self._map.held) + len(self._held) < self._map.hands
        return bool(self.those(fact, about))

    def those(self, fact: str, about: str) -> list[str]:
        here, map = self._map.here, self._map
        if about == HERE:
            about = here.name if here is not None else map.agent_room.name
        if fact in OPPOSITES:
            known = [*map.by_name, *self._states, *([] if about in map.by_name else [about])]
            return [name for name in dict.fromkeys(known) if is_of(name, about) and fact in self._states_of(name)]
        held = [*(map.things[id].name for id in map.held), *self._held]
        at = [map.agent_room.name, *([] if here is None else [here.name])]
        near = [*(map.things[id].name for id in map.close), *at, *held]
        return [name for name in {"held": held, "at": at, "near": near}[fact] if self._is_meant(name, about)]

    def _states_of(self, name: str) -> Collection[str]:
        thing = self._map.by_name.get(name)
        return self._states.get(name, AT_FIRST) if thing is None else {one.lower() for one in thing.states}

    def _is_meant(self, name: str, about: str) -> bool:
        thing = self._map.by_name.get(name)
        return is_of(name, about) or (thing is not None and about in thing.properties)


def is_of(name: str, word: str) -> bool:
    return name == word or parts_of(name)[0] == word


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
    """What the settings' goal asks for, in whatever words."""

    seed: int = 0
    instruction: str = ""
    task_name: str = "goal"

    def asks_for(self, instruction: str) -> bool:
        return True


def goal_of(settings: DeclaredSettings) -> tuple[Need, ...]:
    try:
        return needs_of(read_back.parse_yaml(settings.goal)[0], {}) if settings.goal else ()
    except ValueError as error:
        raise UserError(f"goal: {settings.goal}: {error}") from None


def _make(settings: DeclaredSettings, task: DeclaredTask | None, *, scored: bool = True) -> DeclaredWorld:
    config = load_robot(settings.robot)
    if not config.map:
        remedy = "save that map as a file, and name it with map: instead"
        raise UserError(f"{config.at(settings.robot, 'map_topic')}: the map comes over ROS; {remedy}")
    config.check_fits(document := load_map(config.map), settings.robot)
    seed = settings.seed + (0 if task is None else task.seed)
    return DeclaredWorld(config, document, settings.model_copy(update={"seed": seed}))


SPEC = WorldSpec(
    name="declared",
    summary="a robot's own skills as its robot.yaml declares them, on its map, without ROS",
    settings=DeclaredSettings,
    household=Household(name="robot", start_line=START_LINE),
    load_tasks=lambda settings: {0: DeclaredTask()} if settings.goal else {},
    make=_make,
    moved=lambda task, seed: replace(task, seed=seed),
)
