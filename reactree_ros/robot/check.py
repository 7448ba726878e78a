"""Checks what can be said of a robot by its files alone: configuration, map, tools, policy, and what skills need."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from reactree_ros.agent.needs import NUMBER, OPPOSITES, Need
from reactree_ros.agent.parameters import Named, Number, Thing
from reactree_ros.agent.skill import Skill
from reactree_ros.errors import UserError
from reactree_ros.household.vocabulary import WORDS
from reactree_ros.llm.spec import model_from_dict
from reactree_ros.plugins.installation import Diagnosis, Level
from reactree_ros.robot.config import RobotConfig, load_robot
from reactree_ros.robot.declared import AT_FIRST
from reactree_ros.robot.map_file import MapDocument, map_of, notes_of, read_yaml
from reactree_ros.robot.map_world import household_of
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.robot.skills import may_stand
from reactree_ros.robot.triggers import Occasions, TriggerEntry
from reactree_ros.world.recorded import RecordedWorld
from reactree_ros.world.skill_policy import load_policy
from reactree_ros.world.tool_servers import check_programs, with_tools

_UNREACHED = "it needs that {}, and no skill leads there; let one take such a place, or require another"
RIGHT, NOTE, WRONG = Level.RIGHT, Level.NOTE, Level.WRONG


class Found(Exception):
    def __init__(self, level: Level, said: str, remedy: str = "") -> None:
        super().__init__(level, said, remedy)


class Declared:
    """A check of a robot's files."""

    def __init__(self) -> None:
        self.found: list[Diagnosis] = []

    def read(self, path: Path, policy: Path | None) -> tuple[RobotConfig, MapDocument | None] | None:
        """Look at the files; returns what they hold, or None if a first one cannot be read."""
        config, where, document = None, str(path), None
        with self.looking_at("configuration", "correct that line"):
            config = load_robot(path)
            self.right("configuration", f"{path}: {len(config.skills)} skills")
        if config is None:
            return None
        with self.looking_at("map", "correct that line"):
            document = self._map(config.map) if config.map else None
        if config.map and document is None:
            return None
        with self.looking_at("tools and policy"):
            self._permitted(config, document, where, policy)
        if document is not None:
            with self.looking_at("skills on the map", "correct that line"):
                config.check_fits(document, where)
                self._fit(config, SemanticMap(document, hands=config.hands, unknown=config.grasped))
        for name, trigger in config.triggers.items():
            with self.looking_at(f"trigger '{name}'"):
                self._trigger(f"trigger '{name}'", trigger)
        if config.vision is not None:
            with self.looking_at("vision"):
                model_from_dict(config.vision, where=config.at(where, "vision"))
        return config, document

    @contextmanager
    def looking_at(self, what: str, remedy: str = "correct that entry") -> Iterator[None]:
        try:
            yield
        except UserError as error:
            self.found.append(Diagnosis(what, WRONG, str(error), remedy))
        except Found as found:
            self.found.append(Diagnosis(what, *found.args))

    def right(self, what: str, said: str) -> None:
        self.found.append(Diagnosis(what, RIGHT, said))

    def _map(self, path: str) -> MapDocument:
        document = map_of(source := read_yaml(path))
        self.found += [Diagnosis("map", NOTE, note) for note in notes_of(document, source)]
        return document

    def _permitted(self, config: RobotConfig, document: MapDocument | None, where: str, policy: Path | None) -> None:
        check_programs(config.mcp, partial(config.at, where))
        with with_tools(lambda: _Declared(config, document), config.mcp) as world:
            if policy is not None:
                load_policy(policy).check(world)
        if names := [*config.mcp, *([str(policy)] if policy else [])]:
            self.right("tools and policy", ", ".join(names))

    def _fit(self, config: RobotConfig, map: SemanticMap) -> None:
        found = len(self.found)
        for skill in config.declared:
            with self.looking_at(f"skill '{skill.name}'"):
                for name, one in skill.parameters.items():
                    kind = one.named
                    if kind and not isinstance(kind, Thing) and not [*may_stand(map, kind, takes=False)]:
                        raise Found(WRONG, f"nothing on the map may stand for its {name}", "add it to the map")
                for need in skill.requires:
                    if never := _never(need, skill, config.declared, map):
                        raise Found(WRONG, f"it can never be done: {never}", "correct requires, or say effect")
        if len(self.found) == found:
            self.right("skills on the map", f"each of the {len(config.declared)} may be done somewhere")

    def _trigger(self, what: str, entry: TriggerEntry) -> None:
        occasion = f"{entry.occasion}: {entry.instruction!r}"
        if not entry.when and Occasions(entry, time.time()).next is None:
            raise Found(NOTE, f"{occasion} is over, and starts nothing any more", "name another day, or remove it")
        self.right(what, occasion)


def check_files(path: Path, *, policy: Path | None) -> list[Diagnosis]:
    """Check a robot and a skill policy as far as their files tell."""
    check = Declared()
    if check.read(path, policy) is not None:
        what = "not looked at: types and servers, topics, frames, the emergency stop"
        check.found.append(Diagnosis("ROS 2", NOTE, what, "source ROS 2 and this package's workspace, and check again"))
    return check.found


def _never(need: Need, skill: Skill, skills: Sequence[Skill], house: SemanticMap) -> str:
    """Say why a need can never hold; empty if it can."""
    if need.fact == NUMBER:
        declared = skill.parameters[need.about[0]]
        is_within = not isinstance(declared, Number) or any(map(need.limits.has, declared.values()))
        return "" if is_within else f"{need.about[0]} is never {need.limits.words()}"
    brought_about = {*AT_FIRST, *(effect for one in skills for effect in one.effect)}
    brought_about |= {state.lower() for thing in house.things.values() for state in thing.states}
    if need.fact not in (*OPPOSITES, "held", "at") or not need.is_so:
        return ""
    if need.fact in brought_about:
        return "" if need.fact != "at" or _is_reached(need, skill, skills, house) else _UNREACHED.format(need.words())
    return f"it needs what is {need.fact}, and no skill has that effect"


def _is_reached(need: Need, skill: Skill, skills: Sequence[Skill], house: SemanticMap) -> bool:
    """Whether a skill can lead the robot where the need wants it. A thing may be anywhere."""
    named = {name: skill.parameters[name].named for name in need.parameters}
    leading = [one.parameters[one.effect["at"]].named for one in skills if "at" in one.effect]
    if any(kind is None or isinstance(kind, Thing) for kind in (*named.values(), *leading)):
        return True
    each = [[*may_stand(house, kind, takes=False)] for kind in named.values() if kind]
    values = [dict(zip(named, one, strict=True)) for one in itertools.product(*each)]
    for name in (name for kind in leading if kind for name in may_stand(house, kind, takes=False)):
        house.arrive(house.by_name[name])
        if any(need.holds(one, house) for one in values):
            return True
    return False


class _Declared(RecordedWorld):
    """A robot as configuration and map say it is, which does nothing."""

    def __init__(self, config: RobotConfig, document: MapDocument | None) -> None:
        super().__init__((), household_of(config))
        self._document = document
        self.words = () if document is None else (*WORDS, *document.words)
        self.conditions = dict.fromkeys((*config.wordings, *config.wordings.values()))

    def names(self, kind: Named) -> Sequence[str] | None:
        return None if self._document is None else self._document.names(kind)
