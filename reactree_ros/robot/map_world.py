"""A robot's skills on its semantic map, behind the World port; how one is carried out, a subclass says."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from reactree_ros.agent.control_flow import default_flows, flow_named
from reactree_ros.agent.parameters import Named
from reactree_ros.agent.skill import Offer, Offered, Skill, SkillCall
from reactree_ros.agent.text import nearest_first
from reactree_ros.background.pending import Pending
from reactree_ros.household import rules
from reactree_ros.household.household import ONE_HAND, WAH_NL
from reactree_ros.household.scene import Thing
from reactree_ros.household.tasks import parts_of
from reactree_ros.household.vocabulary import RECALLABLE, WORDS
from reactree_ros.robot.config import RobotConfig
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.robot.skills import HouseholdSkills, MapSkills
from reactree_ros.world.port import Household, Observation, Outcome, Score, SharedWorld

#: How the starting observation of a robot begins that has none of the household's skills.
START_LINE = "You are a robot"
#: Places and persons that a starting observation lists at most, of each.
_MOST_LISTED = 40


class MapWorld(SharedWorld):
    """A robot, as its configuration and its semantic map say it is.

    Args:
        config: Its configuration.
        file: Name of the configuration's file.
        tools: Further skills, which the world has from elsewhere.
    """

    def __init__(self, config: RobotConfig, *, file: str, tools: Sequence[Skill] = ()) -> None:
        self._config, self._file = config, file
        self._conducts = conducts_of(config, tools)
        self._goal = self._last_conditions = ""
        self.household = household_of(config).with_skills(tools)

    @property
    @abc.abstractmethod
    def map(self) -> SemanticMap | None:
        """The map; None if there is none yet."""

    @abc.abstractmethod
    def now(self) -> float:
        """Return the time by the map's clock, in seconds."""

    @abc.abstractmethod
    def condition(self, wording: str) -> bool | None:
        """Return whether a condition holds; None: nobody knows."""

    @property
    def there(self) -> SemanticMap:
        """The map. Raises WorldError: there is none yet."""
        assert self.map is not None
        return self.map

    # ------------------------------------------------------------------ the port

    def attend(self, goal: str) -> None:
        self._goal = goal

    def observe(self) -> Pending[Observation]:
        self._last_conditions = ""
        return Pending.ready(self._with_conditions(self._told(self.there.around())))

    def corrections(self) -> Pending[Sequence[Offer]]:
        return Pending.ready(self.there.corrections(self._config.declared))

    def correct(self, correction: SkillCall) -> Pending[Observation]:
        return Pending.ready(self._told(self.there.corrected(correction, self.now())))

    def available_skills(self) -> Pending[Sequence[Offered]]:
        return Pending.ready([one for conduct in self._conducts for one in conduct.offered(self.there)])

    def score(self) -> Pending[Score | None]:
        return Pending.ready(None)

    @property
    def conditions(self) -> Mapping[str, bool | None]:  # type: ignore[override]
        """See :attr:`World.conditions`."""
        return {one: self.condition(both[1]) for both in self._config.wordings.items() for one in both}

    @property
    def words(self) -> Sequence[str]:  # type: ignore[override]
        return () if self.map is None else tuple(dict.fromkeys((*WORDS, *self._own_words())))

    def names(self, kind: Named) -> Sequence[str] | None:
        return None if self.map is None else self.map.document.names(kind)

    @property
    def recallable(self) -> Sequence[str]:  # type: ignore[override]
        """What can be carried: what the map has words for, what was seen, and the vocabulary if that may be seen."""
        if (map := self.map) is None:
            return RECALLABLE
        objects, expected = map.document.objects, (parts_of(one.name)[0] for one in map.document.expected)
        detected = RECALLABLE if objects.others or not objects.classes else objects.classes.values()
        words = (one for one in (*detected, *expected, *self._own_words()) if not map.document.person(one))
        return tuple(dict.fromkeys(word for word in words if "GRABBABLE" in map.properties(word)))

    @property
    def places(self) -> Sequence[str]:  # type: ignore[override]
        return () if self.map is None else tuple(dict.fromkeys(one.word for one in self.map.receptacles()))

    def _own_words(self) -> Sequence[str]:
        return () if self.map is None else (*self.map.document.words, *(item.word for item in self.map.items()))

    # ------------------------------------------------------------------ what is said

    def _told(self, around: Observation) -> Observation:
        # a robot without the household's skills is in no house of the recordings
        if not around.text.startswith(WAH_NL.start_line) or self._config.of_household:
            return around
        seen = rules.sightings(self.there, self.there.before(), self.there.here or self.there.anchor)
        return replace(
            around, text=starting_text(self.there, self._goal), seen=tuple(dict.fromkeys((*around.seen, *seen)))
        )

    def _with_conditions(self, observation: Observation) -> Observation:
        holding = {wording: self.condition(wording) for wording in self._config.wordings.values()}
        before, self._last_conditions = self._last_conditions, conditions_text(holding)
        told = "" if self._last_conditions == before else f" {self._last_conditions}"
        known = {wording: holds for wording, holds in holding.items() if holds is not None}
        return replace(observation, text=observation.text + told, conditions=known)

    def _read(self, map: SemanticMap, said: str) -> tuple[MapSkills, SkillCall | str]:
        readings = [(conduct, conduct.read(map, said)) for conduct in self._conducts]
        if (call := next((one for one in readings if isinstance(one[1], SkillCall)), None)) is not None:
            return call
        begun = [one for one in readings if any(skill.words.begins(said) for skill in one[0].skills)]
        if begun or len(readings) == 1:
            return (begun or readings)[0]
        together = MapSkills([skill for conduct in self._conducts for skill in conduct.skills])
        return together, f"{together.read(map, said)} (its skills are declared in {self._file})"


def conducts_of(config: RobotConfig, tools: Sequence[Skill]) -> Sequence[MapSkills]:
    """Return what becomes of a robot's skills: of its own by their declarations, of the household's by its rules."""
    own = [skill for skill in (*config.declared, *config.waits, *tools) if skill.name not in config.of_household]
    of_household = [skill for skill in config.declared if skill.name in config.of_household]
    conducts = [MapSkills(own, of_household)] if own else []
    return [*conducts, HouseholdSkills(of_household, own)] if of_household else conducts


def household_of(config: RobotConfig) -> Household:
    """Return what planners have to know of a robot: the recordings' household only where it has skills of it."""
    flows = (*default_flows(), *map(flow_named, ("repeat_until", "within") if config.conditions else ()))
    skills, texts = (*config.declared, *config.waits), {flow.name: flow.text for flow in flows}
    if not config.of_household:
        return Household(name="robot", skills=skills, control_flows=texts, start_line=START_LINE, hands=config.hands)
    hand = ONE_HAND if config.hands == 1 else ""
    return replace(WAH_NL, skills=skills, actions=(), control_flows=texts, rules=hand, hands=config.hands)


def conditions_text(holding: Mapping[str, bool | None]) -> str:
    """Say of each condition whether it holds; empty if there are none."""
    said = {True: "yes", False: "no", None: "unknown"}
    return f"Conditions: {'; '.join(f'{one}: {said[holds]}' for one, holds in holding.items())}." if holding else ""


def waited(call: SkillCall, holds: bool | None) -> tuple[Outcome, str]:
    """Say how a wait for a condition has ended."""
    wording, seconds = call.values["condition"], call.values["seconds"]
    if holds:
        return Outcome.DONE, f"You waited until {wording}."
    why = "nobody knows whether it is so" if holds is None else "it is not so"
    return Outcome.TIMEOUT, f"You waited {seconds} s until {wording}, but {why}."


def starting_text(map: SemanticMap, goal: str) -> str:
    """Say where a robot is, and which places and persons there are, those of the goal first."""
    groups = {
        "Rooms": map.rooms,
        "Places": _by_distance(map, map.receptacles()),
        "People": _by_distance(map, map.persons),
    }
    listed = (f"{what}: {_listed(things, goal)}." for what, things in groups.items() if things)
    seen = dict.fromkeys([*rules.room_items(map), *map.before()])
    at = "" if (place := map.here) is None else f"at {place.name} in "
    return (
        f"{START_LINE} {at or 'in '}{map.agent_room.name}. {' '.join(listed)} "
        f"{rules.look_text(seen)}{rules.holding_text(map)}{rules.bearing_text(map)}"
    )


def _by_distance(map: SemanticMap, things: Iterable[Thing]) -> list[Thing]:
    def away(thing: Thing) -> float:
        at = map.approach(thing)
        return float("inf") if at is None or map.robot is None else map.robot.floor_distance(at)

    return sorted(things, key=away)


def _listed(things: Sequence[Thing], goal: str) -> str:
    names = nearest_first((thing.name for thing in things), goal)
    more = f", and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"{', '.join(names[:_MOST_LISTED])}{more}"
