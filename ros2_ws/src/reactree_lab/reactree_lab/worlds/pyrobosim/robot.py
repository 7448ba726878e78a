"""One robot in a world of pyrobosim, behind the World port."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reactree_lab.worlds.pyrobosim.scene import HALLWAY, HouseScene, HouseThing, drawn_floor
from reactree_lab.worlds.pyrobosim.simulator import Body, Ended, House, UnderWay
from reactree_lab.worlds.running import WorkerWorld
from reactree_ros.agent.household import split_skill
from reactree_ros.agent.picture import Picture
from reactree_ros.background.pending import Pending, Stopped
from reactree_ros.household import rules
from reactree_ros.household.household import ONE_HAND, WAH_NL
from reactree_ros.household.pictures import ABOVE, LOOK_AT, OWN, TAKE_A_PICTURE, WITH_PICTURES
from reactree_ros.household.pictures import LOOK as PICTURED
from reactree_ros.household.rules import Skill
from reactree_ros.household.tasks import GoalCondition
from reactree_ros.household.vocabulary import RECALLABLE, WORDS
from reactree_ros.world.port import Observation, Outcome, RightOfWay, RobotGone, Score, SharedWorld
from reactree_ros.world.wrappers import teammate_here


class Drive:
    """The places and passages of a robot during an action; for one thread."""

    def __init__(self, right_of_way: RightOfWay | None, scene: HouseScene) -> None:
        self.asks, self.blocked = right_of_way is not None, ""
        self._right_of_way, self._scene = right_of_way, scene
        self._has = set() if scene.at is None else {scene.at.own}  # places and passages that it occupies or may enter
        self._before, self._asked = "", Pending.ready(None)  # the passage that it has asked for

    def may_pass(self, told: UnderWay) -> bool:
        """Read the robot's progress; return whether it may enter the passage before it."""
        if self._right_of_way is None:
            return False
        self._leave_all_but(told.at, told.before)
        if told.before and told.before != self._before:
            self._asked = self._right_of_way.ask(self._called(told.before))
        self._before = told.before
        if not self._before or not self._asked.done():
            return False
        if (error := self._asked.exception()) is not None:
            self.blocked = str(error)
            return False
        self._has.add(self._before)
        return True

    def end(self, at: str) -> None:
        if self._right_of_way is None:
            return
        if self._before and not self._asked.cancel():
            self._has.add(self._before)
        self._leave_all_but(at)

    def _leave_all_but(self, *names: str) -> None:
        for own in self._has.difference(names):
            assert self._right_of_way is not None  # otherwise nothing is granted
            self._right_of_way.leave(self._called(own))
        self._has = {own for own in (*self._has, names[0]) if own in names and own}

    def _called(self, own: str) -> str:
        return self._scene.own[own].name


LOOK = "look around"
VERBS = ("go to", "pick up", "put down", "open", "close")
HOUSEHOLD = replace(
    WAH_NL,
    name="pyrobosim",
    actions=(*VERBS, LOOK),
    hands=1,
    rules=f"{ONE_HAND} {LOOK.capitalize()} tells what is where you stand.",
)

#: The household of robots that take pictures.
WITH_CAMERA = replace(
    HOUSEHOLD, actions=(*HOUSEHOLD.actions, PICTURED, LOOK_AT, TAKE_A_PICTURE), skills=WITH_PICTURES.skills
)

#: Seconds that a cancelled robot may take to stop.
CANCEL_LIMIT = 5.0
#: Looks before the robot reports that it cannot see.
LOOKS = 3
_KINDS = {"pick up": "pick", "put down": "place", "open": "open", "close": "close"}
_OUTCOMES = {
    "TIMEOUT": Outcome.TIMEOUT,
    "PRECONDITION_FAILURE": Outcome.PRECONDITION,
    "PLANNING_FAILURE": Outcome.EXECUTION,
    "EXECUTION_FAILURE": Outcome.EXECUTION,
    "POSTCONDITION_FAILURE": Outcome.POSTCONDITION,
    "INVALID_ACTION": Outcome.UNKNOWN_SKILL,
    "CANCELED": Outcome.CANCELED,
}


@dataclass(frozen=True)
class _End:
    """The end of a skill, and the reason if it is not ``DONE``."""

    outcome: Outcome
    reason: str = ""


#: Ending of an action that pyrobosim itself ended with an error.
BROKEN = "BROKEN"
_DONE = _End(Outcome.DONE)


class PyrobosimRobot(WorkerWorld, SharedWorld):
    """The knowledge and the actions of one robot in a world of pyrobosim.

    It knows rooms and furniture from the start, and things only where it has detected them. It looks at each place
    after arriving or opening. Its own place, with the things seen there, is next to it.
    """

    household = HOUSEHOLD

    def __init__(
        self,
        house: House,
        robot: str,
        *,
        goal: Sequence[GoalCondition] | None = None,
        seed: int = 0,
        time_limit: float = 120.0,
        others: Sequence[str] = (),
        pictures: bool = False,
        owner: bool = True,
    ) -> None:
        super().__init__("pyrobosim", scored=goal is not None)
        self._has_camera = pictures
        if pictures:
            self.household = WITH_CAMERA
        self._house, self._name, self._owner = house, robot, owner
        self._goal, self._seed, self._time_limit = tuple(goal or ()), seed, time_limit
        self._scene: HouseScene | None = None
        self._beginning = 0  # the start of the house that the scene belongs to
        self._closed = False
        self._companions: Sequence[PyrobosimRobot] = ()  # the other robots in the house
        self._team: dict[str, PyrobosimRobot] = {robot: self} if others else {}
        for name in others:
            self._team[name] = PyrobosimRobot(
                house, name, goal=goal, seed=seed, time_limit=time_limit, pictures=pictures, owner=False
            )
        for one in self._team.values():
            one._companions = [other for other in self._team.values() if other is not one]
        self._right_of_way: RightOfWay | None = None  # None: it has no companions
        self._gone = ""  # why the robot is out of action
        self._words, self._recallable, self._places = WORDS, RECALLABLE, tuple[str, ...]()

    # ------------------------------------------------------------------ the port, from any thread

    @property
    def words(self) -> Sequence[str]:  # type: ignore[override]
        return self._words

    @property
    def recallable(self) -> Sequence[str]:  # type: ignore[override]
        return self._recallable

    @property
    def places(self) -> Sequence[str]:  # type: ignore[override]
        return self._places

    def heed(self, right_of_way: RightOfWay) -> None:
        """Stop before each passage until it is free, and report left places on the way."""
        self._right_of_way = right_of_way

    def at_rest(self) -> Pending[None]:
        """Settle when the robot stands; fails if it does not answer and everything had to be stopped."""
        return self._worker.do(self._house.check)

    def status(self) -> Mapping[str, str]:
        return {"robot": self._name, "in action": self._gone or "yes"}

    def team(self) -> Mapping[str, PyrobosimRobot]:
        """Return the worlds of the house's robots, by name; empty if there is only one robot."""
        return self._team

    @property
    def room(self) -> str:
        """The room of the robot's last sensation; empty before the first."""
        return "" if self._scene is None or self._gone else self._scene.agent_room.name

    def in_words(self) -> str:
        return teammate_here(self._name, tuple(thing.name for thing in rules.held(self._scene)) if self._scene else ())

    def close(self) -> None:
        self._closed = True
        for one in self._team.values():
            if one is not self:
                one.close()
        super().close()

    def _stop(self) -> None:
        if self._owner:
            self._house.kill()

    def pictures(self, camera: str = "") -> Pending[Sequence[Picture]]:
        wanted = [name for name in (OWN, ABOVE) if self._has_camera and camera in ("", name)]
        return self._worker.do(lambda: tuple(map(self._picture, wanted)))

    # ------------------------------------------------------------------ in the worker's thread

    def _picture(self, camera: str = OWN) -> Picture:
        return drawn_floor(self._felt(), self._house.truth(), camera=camera)

    def _begin(self, seed: int | None = None) -> None:
        self._house.begin(self._seed if seed is None else seed)

    def _let_go(self) -> None:
        if self._owner:
            self._house.leave()

    @property
    def _here(self) -> HouseScene:
        description = self._house.description(self._seed)
        if self._scene is None or self._beginning != self._house.beginnings:
            self._gone = ""
            self._places, things = description.words_of_places(), description.words_of_things()
            self._words = tuple(dict.fromkeys((*WORDS, *self._places, *things)))
            self._recallable = tuple(dict.fromkeys((*RECALLABLE, *things)))
            self._beginning = self._house.beginnings
            self._scene = HouseScene(description)
        if self._gone:
            raise RobotGone(self._gone)
        return self._scene

    def _felt(self, body: Body | None = None) -> HouseScene:
        scene = self._here
        body = body or self._house.body(self._name)
        scene.feel(pose=body.pose, room=body.room, at=body.at, held=body.held, doors=body.open)
        return scene

    def _look(self) -> Observation:
        scene = self._felt()
        return self._located(self._with_others(rules.look_around(scene)), everything=True)

    def _with_others(self, observation: Observation) -> Observation:
        here = self._here.agent_room.name
        told = [one.in_words() for one in self._companions if one.room == here]
        return replace(observation, text=observation.text + "".join(told))

    def _skills(self) -> Sequence[str]:
        skills = (one for one in rules.available_skills(self._felt()) if one.startswith(VERBS))
        return [LOOK, *skills, *self._pictured()]

    def _pictured(self) -> list[str]:
        if not self._has_camera:
            return []
        known = dict.fromkeys((*self._here.visible(), *rules.held(self._here)))
        return [PICTURED, *(f"{LOOK_AT} {one.name}" for one in known), TAKE_A_PICTURE]

    def _rate(self) -> Score:
        scene = HouseScene(self._house.description())
        for thing, place in self._house.truth().items():
            if place:
                scene.lay(scene.own[thing], scene.own[place])
        return rules.score(self._goal, scene)

    def _take(self, skill: str) -> Observation:
        scene = self._felt()
        self._worker.check_wanted()
        if skill == LOOK:
            return self._look_here()
        if skill in self._pictured():
            return self._located(Observation(f"You {skill}.", pictures=(self._picture(),)))
        parsed = self._parse(skill)
        if isinstance(parsed, str):
            return self._located(Observation(parsed, Outcome.UNKNOWN_SKILL))
        outcome, sentence = self._check(parsed)
        if outcome is Outcome.DONE:
            end = self._carry_out(parsed)
            outcome, sentence = end.outcome, sentence if end is _DONE else _said(parsed, end)
        if outcome is not Outcome.DONE:
            seen = tuple(rules.sightings(scene, (), None))
            return self._located(Observation(sentence + rules.holding_text(scene), outcome, seen))
        if parsed.verb == "go to":
            sentence = rules.arrival_text(parsed.thing) + _joined(parsed.thing)
        observation = rules.after_skill(parsed, outcome, sentence, scene=scene, next_to_agent=scene.near())
        return self._located(self._with_others(observation) if parsed.thing.is_room else observation)

    def _parse(self, text: str) -> Skill | str:
        verb, name = split_skill(text, VERBS)
        if not verb:
            return (
                f"'{text}' is not a skill of this robot. A skill is {LOOK} or starts with one of: {', '.join(VERBS)}."
            )
        thing = self._here.by_name.get(name)
        if thing is None:
            return f"You have seen no {name}."
        if thing.is_room and verb != "go to":
            return f"You cannot {verb} a {thing.word}."
        return Skill(verb, thing)

    def _check(self, skill: Skill) -> tuple[Outcome, str]:
        """Check a skill's preconditions; return ``DONE`` or ``PRECONDITION``, and the text."""
        scene, thing = self._here, skill.thing
        if skill.verb == "go to" and scene.place_of(thing) is None and not thing.is_room:
            where = "You hold" if thing.id in scene.held else "You do not know where to find"
            return Outcome.PRECONDITION, f"{where} the {thing.word}."
        if skill.verb == "put down" and scene.held and (scene.at is None or scene.at.word == HALLWAY):
            return Outcome.PRECONDITION, f"You are at nothing that the {thing.word} could be put down on."
        return rules.check(skill, scene)

    # ------------------------------------------------------------------ what the robot does

    def _carry_out(self, skill: Skill) -> _End:
        scene, thing = self._here, skill.thing
        assert isinstance(thing, HouseThing)
        if skill.verb == "go to":
            return self._go(scene.place_of(thing) or thing)
        end = self._do(_KINDS[skill.verb], thing.own if skill.verb == "pick up" else "")
        if end.outcome is Outcome.DONE and skill.verb in ("put down", "open"):
            self._detect()
        if end.outcome is Outcome.DONE and (reason := rules.unmet(skill, scene)):
            return _End(Outcome.POSTCONDITION, reason)
        return end

    def _go(self, target: HouseThing) -> _End:
        if not self._is_at(target):
            end = self._do("navigate", target.own)
            if end.outcome is not Outcome.DONE:
                return end
            if not self._is_at(target):
                return _End(Outcome.POSTCONDITION, "you are not there")
        reason = self._detect()
        return _End(Outcome.EXECUTION, f"it cannot be seen what is there: {reason}") if reason else _DONE

    def _is_at(self, target: HouseThing) -> bool:
        scene = self._here
        return scene.at is target or (target.is_room and scene.at is None and scene.agent_room is target)

    def _look_here(self) -> Observation:
        scene = self._here
        if reason := self._detect():
            return self._located(Observation(f"You could not see what is here: {reason}.", Outcome.EXECUTION))
        near = scene.near()
        if not near:
            return self._look()
        seen = tuple(rules.sightings(scene, near, near[0]))
        return self._located(Observation(f"{rules.see_text(near)}.{rules.holding_text(scene)}", seen=seen))

    def _detect(self) -> str:
        """Look at the robot's place, several times if it fails; return the reason of a failure."""
        scene = self._here
        if scene.at is None or scene.at.word == HALLWAY or "CLOSED" in scene.at.states:
            return ""
        reason = ""
        for _ in range(LOOKS):
            ended = self._moved("detect")
            if ended.status == "SUCCESS":
                scene.see(scene.at.own, [thing for thing, place in ended.body.detected if place == scene.at.own])
                for thing, place in ended.body.detected:  # a camera sees other places, too
                    scene.put(scene.own[thing], scene.own[place])
                self._felt(ended.body)
                return ""
            reason = self._reason(ended.message)
        return reason

    def _do(self, kind: str, target: str = "") -> _End:
        ended = self._moved(kind, target)
        if ended.status == "SUCCESS":
            return _DONE
        if ended.status == BROKEN:
            return _End(Outcome.EXECUTION, f"pyrobosim has an error, {ended.message}")
        reason = self._reason(ended.message)
        if ended.status == "PLANNING_FAILURE" and kind == "navigate":
            reason = "; ".join([reason, *self._closed_passages()])
        return _End(_OUTCOMES.get(ended.status, Outcome.EXECUTION), reason)

    def _moved(self, kind: str, target: str = "") -> Ended:
        """Carry out a robot's action and wait for its end; cancel it if nobody wants it any more."""
        begun, stopping = time.monotonic(), 0.0
        drive = Drive(self._right_of_way if kind == "navigate" else None, self._here)
        self._house.start(self._name, kind, target, asks=drive.asks)
        while isinstance(ended := self._house.progress(self._name), UnderWay):
            now = time.monotonic()
            late = now - begun > self._time_limit
            if drive.may_pass(ended):
                self._house.let_in(self._name, ended.before)
            if late or drive.blocked or stopping or not self._wanted():
                stopping = stopping or now
                if now - stopping > CANCEL_LIMIT:
                    raise self._house.stop(
                        f"EMERGENCY: {self._name} did not stop within {CANCEL_LIMIT:g} s of the cancel of its {kind}, "
                        "and the whole simulation was ended"
                    )
                self._house.cancel(self._name)
        drive.end(ended.body.at)
        scene = self._felt(ended.body)
        if ended.status != "SUCCESS" and ended.body.battery <= 0:
            held = "".join(f", and it holds {thing.name}" for thing in rules.held(scene))
            self._gone = f"{self._name} is out of action in {scene.agent_room.name}: its battery is empty{held}"
            raise RobotGone(self._gone)
        if drive.blocked and self._wanted():
            return replace(ended, status="EXECUTION_FAILURE", message=drive.blocked)
        if stopping and self._wanted():
            limit = f"it took longer than {self._time_limit:g} s and was stopped"
            return replace(ended, status="TIMEOUT", message=limit)
        if stopping:
            raise Stopped
        return ended

    def _wanted(self) -> bool:
        try:
            self._worker.check_wanted()
        except Stopped:
            return False
        return not self._closed

    # ------------------------------------------------------------------ words

    def _reason(self, message: str) -> str:
        text = re.sub(r"\b(Location|Hallway|Object spawn|Object|Room|Robot): ", "", message.strip().rstrip("."))
        names = self._here.called
        found = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
        text = re.sub(rf"\b({found})\b", lambda match: names[match[0]], text)
        return f"{text[:1].lower()}{text[1:]}" if text else "it does not say why"

    def _closed_passages(self) -> list[str]:
        passages = [one for one in self._here.own.values() if one.word == HALLWAY and "CLOSED" in one.states]
        return [f"{one.name} between {one.rooms[0].name} and {one.rooms[1].name} is closed" for one in passages]

    def _located(self, observation: Observation, *, everything: bool = False) -> Observation:
        """Add the robot's position and visible things to an observation.

        With everything: add the positions of all fixed things, too.
        """
        scene = self._here
        names = [f"{one.word} {one.instance}" for one in observation.seen if not one.held]
        if everything:
            names = [*(one.name for one in scene.things.values() if "GRABBABLE" not in one.properties), *names]
        return replace(observation, spots=scene.spots(names))


def _said(skill: Skill, end: _End) -> str:
    thing = skill.thing
    what = f"{skill.verb} the {thing.word} ({thing.number})"
    if end.outcome is Outcome.PRECONDITION:
        return f"{end.reason[:1].upper()}{end.reason[1:]}."
    if end.outcome is Outcome.POSTCONDITION:
        return f"You tried to {what}, but {end.reason[:1].lower()}{end.reason[1:]}."
    return f"You could not {what}: {end.reason}."


def _joined(thing: object) -> str:
    """Name the rooms that a passage joins; empty for anything else."""
    if not isinstance(thing, HouseThing) or thing.word != HALLWAY:
        return ""
    one, other = thing.rooms
    return f" It joins the {one.name} and the {other.name}."
