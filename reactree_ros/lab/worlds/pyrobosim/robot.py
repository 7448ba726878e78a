"""One robot in a world of pyrobosim, behind the World port."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reactree_ros.agent.household import split_skill
from reactree_ros.background.pending import Pending
from reactree_ros.background.worker import Stopped
from reactree_ros.household import rules
from reactree_ros.household.household import ONE_HAND, WAH_NL
from reactree_ros.household.rules import Skill
from reactree_ros.household.tasks import GoalCondition
from reactree_ros.household.vocabulary import RECALLABLE, WORDS
from reactree_ros.lab.worlds.pyrobosim.drive import Drive
from reactree_ros.lab.worlds.pyrobosim.scene import HALLWAY, HouseScene, HouseThing
from reactree_ros.lab.worlds.pyrobosim.simulator import Body, Ended, House, UnderWay
from reactree_ros.world.multi_robot import teammate_here
from reactree_ros.world.port import Observation, Outcome, RightOfWay, RobotGone, Score
from reactree_ros.world.worker_world import WorkerWorld

LOOK = "look around"
VERBS = ("go to", "pick up", "put down", "open", "close")
HOUSEHOLD = replace(
    WAH_NL,
    name="pyrobosim",
    actions=(*VERBS, LOOK),
    rules=f"{ONE_HAND} {LOOK.capitalize()} tells what is where you stand.",
)

#: How long a robot may take to come to rest once it is cancelled, in seconds.
CANCEL_LIMIT = 5.0
#: How often it looks before it says that it cannot see what is there.
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
    """How a skill has ended, and the reason where that is not ``DONE``."""

    outcome: Outcome
    reason: str = ""


#: How what pyrobosim broke off with an error has ended.
BROKEN = "BROKEN"
_DONE = _End(Outcome.DONE)


class PyrobosimRobot(WorkerWorld):
    """What one robot sees of a world of pyrobosim, and does in it.

    It knows rooms and furniture from the start, and of things only where it has detected them; it looks wherever it
    comes to and whatever it opens. What is next to it is what it stands at, with what was seen there.

    Args:
        house: The world, which others may be in, too.
        robot: Which of its robots.
        goal: What is asked for; None: nothing that the world knows.
        seed: Of whatever is random, where nobody says another one.
        time_limit: Longest time for one motion, in seconds.
        others: The other robots of the house that are to be of use; they and the house end with this world.
        owner: Whether the house ends with this world.
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
        owner: bool = True,
    ) -> None:
        super().__init__("pyrobosim", scored=goal is not None)
        self._house, self._name, self._owner = house, robot, owner
        self._goal, self._seed, self._time_limit = tuple(goal or ()), seed, time_limit
        self._scene: HouseScene | None = None
        self._beginning = 0  # of the house, from which the scene is
        self._closed = False
        self._companions: Sequence[PyrobosimRobot] = ()  # the other robots in the house
        self._team: dict[str, PyrobosimRobot] = {robot: self} if others else {}
        for name in others:
            self._team[name] = PyrobosimRobot(house, name, goal=goal, seed=seed, time_limit=time_limit, owner=False)
        for one in self._team.values():
            one._companions = [other for other in self._team.values() if other is not one]
        self._right_of_way: RightOfWay | None = None  # None: it is the only robot
        self._gone = ""  # why the robot is out of action
        self._words, self._recallable, self._places = WORDS, RECALLABLE, tuple[str, ...]()

    # ------------------------------------------------------------------ the port, from any thread

    @property
    def words(self) -> Sequence[str]:  # type: ignore[override]
        """The vocabulary's, and the world's own once it is there."""
        return self._words

    @property
    def recallable(self) -> Sequence[str]:  # type: ignore[override]
        """The vocabulary's, and the things' own once the world is there."""
        return self._recallable

    @property
    def places(self) -> Sequence[str]:  # type: ignore[override]
        """Furniture and passages, once the world is there: one robot at a time stands there."""
        return self._places

    def heed(self, right_of_way: RightOfWay) -> None:
        """Stop before each passage until it is free, and tell what is left on the way."""
        self._right_of_way = right_of_way

    def at_rest(self) -> Pending[None]:
        """Settle when the robot stands; fails where it does not answer and everything had to be stopped."""
        return self._worker.do(self._house.check)

    def status(self) -> Mapping[str, str]:
        """Say which robot it is, and whether it is out of action."""
        return {"robot": self._name, "in action": self._gone or "yes"}

    def team(self) -> Mapping[str, PyrobosimRobot]:
        """Return the worlds of the house's robots by name, as each sees and does it; empty where there is one."""
        return self._team

    @property
    def room(self) -> str:
        """Where the robot felt itself last; empty before."""
        return "" if self._scene is None or self._gone else self._scene.agent_room.name

    def in_words(self) -> str:
        """Say that it is there, and with what."""
        return teammate_here(self._name, tuple(thing.name for thing in rules.held(self._scene)) if self._scene else ())

    def close(self) -> None:
        """Let the robot stop, and those beside it, and give back what the world has."""
        self._closed = True
        for one in self._team.values():
            if one is not self:
                one.close()
        super().close()

    def _stop(self) -> None:
        if self._owner:
            self._house.kill()

    # ------------------------------------------------------------------ in the worker's thread

    def _begin(self, seed: int | None = None) -> None:
        """Bring the house back to its start, for all who are in it."""
        self._house.begin(self._seed if seed is None else seed)

    def _let_go(self) -> None:
        if self._owner:
            self._house.leave()

    @property
    def _here(self) -> HouseScene:
        """Return what the robot knows of the house; nothing but rooms and furniture once that was begun anew.

        Raises:
            RobotGone: The robot is out of action.
        """
        description = self._house.description(self._seed)
        if self._scene is None or self._beginning != self._house.beginnings:
            self._gone = ""
            self._words = tuple(dict.fromkeys((*WORDS, *description.words())))
            self._recallable = tuple(dict.fromkeys((*RECALLABLE, *description.words_of_things())))
            self._places = description.words_of_places()
            self._beginning = self._house.beginnings
            self._scene = HouseScene(description)
        if self._gone:
            raise RobotGone(self._gone)
        return self._scene

    def _felt(self, body: Body | None = None) -> HouseScene:
        """Return what the robot knows of the house, with how it is itself now."""
        scene = self._here
        body = body or self._house.body(self._name)
        scene.feel(pose=body.pose, room=body.room, at=body.at, held=body.held, doors=body.open)
        return scene

    def _look(self) -> Observation:
        scene = self._felt()
        return self._located(self._with_others(rules.look_around(scene)), everything=True)

    def _with_others(self, observation: Observation) -> Observation:
        """Tell of the other robots in the room, as they felt themselves last."""
        here = self._here.agent_room.name
        told = [one.in_words() for one in self._companions if one.room == here]
        return replace(observation, text=observation.text + "".join(told))

    def _skills(self) -> Sequence[str]:
        return [LOOK, *(one for one in rules.available_skills(self._felt()) if one.startswith(VERBS))]

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
        observation = rules.after_skill(
            parsed, outcome, sentence, scene=scene, next_to_agent=scene.near(), receptacle=scene.at
        )
        return self._located(self._with_others(observation) if parsed.thing.is_room else observation)

    def _parse(self, text: str) -> Skill | str:
        verb, name = split_skill(text, VERBS)
        if not verb:
            return f"'{text}' is no skill of this robot. A skill is {LOOK} or starts with one of: {', '.join(VERBS)}."
        thing = self._here.by_name.get(name)
        if thing is None:
            return f"You have seen no {name}."
        if thing.is_room and verb != "go to":
            return f"You cannot {verb} a {thing.word}."
        return Skill(verb, thing)

    def _check(self, skill: Skill) -> tuple[Outcome, str]:
        """Check what a skill needs; returns ``DONE`` or ``PRECONDITION``, and what is said."""
        scene, thing = self._here, skill.thing
        if skill.verb == "go to" and scene.place_of(thing) is None and not thing.is_room:
            where = "You hold" if thing.id in scene.held else "You do not know where to find"
            return Outcome.PRECONDITION, f"{where} the {thing.word}."
        if skill.verb not in ("go to", "put down") and scene.held:
            return Outcome.PRECONDITION, "You do not have an empty hand."
        if skill.verb == "put down" and scene.held and (scene.at is None or scene.at.word == HALLWAY):
            return Outcome.PRECONDITION, f"You are at nothing that the {thing.word} could be put down on."
        return rules.check(skill, scene=scene, receptacle=scene.at)

    # ------------------------------------------------------------------ what the robot does

    def _carry_out(self, skill: Skill) -> _End:
        scene, thing = self._here, skill.thing
        assert isinstance(thing, HouseThing)
        if skill.verb == "go to":
            return self._go(scene.place_of(thing) or thing)
        at = scene.at
        end = self._do(_KINDS[skill.verb], thing.own if skill.verb == "pick up" else "")
        if end.outcome is Outcome.DONE and skill.verb in ("put down", "open"):
            self._detect()
        if end.outcome is Outcome.DONE and (reason := rules.unmet(skill, scene=scene, receptacle=at)):
            return _End(Outcome.POSTCONDITION, reason)
        return end

    def _go(self, target: HouseThing) -> _End:
        """Go to a room, a passage or a place, and look what is there."""
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
        """Look what is where the robot stands, some times where it does not succeed at once; returns why not."""
        scene = self._here
        if scene.at is None or scene.at.word == HALLWAY or "CLOSED" in scene.at.states:
            return ""
        reason = ""
        for _ in range(LOOKS):
            ended = self._moved("detect")
            if ended.status == "SUCCESS":
                scene.see(scene.at.own, [thing for thing, place in ended.body.detected if place == scene.at.own])
                for thing, place in ended.body.detected:  # a camera sees what is elsewhere, too
                    scene.put(scene.own[thing], scene.own[place])
                self._felt(ended.body)
                return ""
            reason = self._reason(ended.message)
        return reason

    def _do(self, kind: str, target: str = "") -> _End:
        """Let the robot do something; tells how it ended."""
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
        """Let the robot do something, and wait for its end; what is not wanted any more is cancelled.

        Raises:
            Stopped: It was cancelled, and the robot stands.
            RobotGone: Its battery is empty.
            WorldError: The world is gone, or the robot does not stop: then everything is.
        """
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
        """Return what pyrobosim says, in the words of the household."""
        text = re.sub(r"\b(Location|Hallway|Object spawn|Object|Room|Robot): ", "", message.strip().rstrip("."))
        names = self._here.called
        found = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
        text = re.sub(rf"\b({found})\b", lambda match: names[match[0]], text)
        return f"{text[:1].lower()}{text[1:]}" if text else "it does not say why"

    def _closed_passages(self) -> list[str]:
        passages = [one for one in self._here.own.values() if one.word == HALLWAY and "CLOSED" in one.states]
        return [f"{one.name} between {one.rooms[0].name} and {one.rooms[1].name} is closed" for one in passages]

    def _located(self, observation: Observation, *, everything: bool = False) -> Observation:
        """Say of an observation where the robot is and what it sees.

        With everything: where all is that does not move, too.
        """
        scene = self._here
        names = [f"{one.word} {one.instance}" for one in observation.seen if not one.held]
        if everything:
            names = [*(one.name for one in scene.things.values() if "GRABBABLE" not in one.properties), *names]
        return replace(observation, spots=scene.spots(names))


def _said(skill: Skill, end: _End) -> str:
    """Word why a skill was not done."""
    thing = skill.thing
    what = f"{skill.verb} the {thing.word} ({thing.number})"
    if end.outcome is Outcome.PRECONDITION:
        return f"{end.reason[:1].upper()}{end.reason[1:]}."
    if end.outcome is Outcome.POSTCONDITION:
        return f"You tried to {what}, but {end.reason[:1].lower()}{end.reason[1:]}."
    return f"You could not {what}: {end.reason}."


def _joined(thing: object) -> str:
    """Say which rooms a passage joins; empty of anything else."""
    if not isinstance(thing, HouseThing) or thing.word != HALLWAY:
        return ""
    one, other = thing.rooms
    return f" It joins the {one.name} and the {other.name}."
