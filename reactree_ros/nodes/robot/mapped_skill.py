"""A skill as its server knows it: the goal that it is sent as, and what the server's result means."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from action_msgs.msg import GoalStatus

from reactree_ros.agent.parameters import Named, Number, Parameter, ParameterError, Text, Value
from reactree_ros.agent.picture import Picture, PictureCheck
from reactree_ros.agent.skill import Skill, SkillCall, effect_of
from reactree_ros.agent.text import shortened_line
from reactree_ros.errors import UserError
from reactree_ros.nodes.robot.camera import picture_from_camera
from reactree_ros.nodes.robot.goal_templates import (
    NAMES,
    Fill,
    Values,
    check_name,
    compiled,
    constants,
    is_text,
    is_whole_number,
    names_of,
    reader,
    resolve,
)
from reactree_ros.nodes.robot.wanted import Field, Holds, told
from reactree_ros.robot.config import CallEntry, CheckEntry, SeeingEntry, SkillEntry, StepEntry, error_code
from reactree_ros.robot.house import MapThing
from reactree_ros.robot.poses import Pose
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.world.port import Outcome

#: What the type of each kind of entry is, and which part of it is sent and which comes back.
_SENT: Mapping[str, tuple[str, str, str]] = {
    "action": ("action", "Goal", "Result"),
    "service": ("service", "Request", "Response"),
    "publish": ("message", "", ""),
    "wait_for": ("message", "", ""),
    "camera": ("message", "", ""),
}
#: Kinds that only listen.
_LISTENING = ("wait_for", "camera")


class MappedCall:
    """What is asked of a server or a topic, checked against its type.

    Raises:
        UserError: The type is not there, or a field does not fit it.

    Attributes:
        type: The type of the action, the service or the topic.
        success: The fields that say whether it went well.
    """

    def __init__(self, entry: CallEntry, where: str, skill: Skill | None = None) -> None:
        self.entry, self._skill = entry, skill
        check_name(entry.server, where)
        kind, sent, came = _SENT[entry.kind]
        self.type = resolve(kind, entry.type, where)
        goal, result = (getattr(self.type, part) if part else self.type for part in (sent, came))
        names = NAMES if skill is None else names_of(skill)
        self._fill = compiled(goal, entry.goal, f"{where}: goal", names)
        if skill is not None:
            _try(self._fill, names, skill, f"{where}: goal")
        of = entry.result if isinstance(entry, StepEntry) and skill is not None else {}
        self._returns = {name: reader(result, path, f"{where}: result", counted=True)[0] for name, path in of.items()}
        self.success = [
            Field(result, path, wanted, f"{where}: success", names) for path, wanted in entry.success.items()
        ]
        answers = entry.kind != "publish"
        self._code = _reader(result, entry.code, "error_code", is_whole_number, f"{where}: code") if answers else None
        self._codes = constants(result, entry.code)
        self._text = _reader(result, entry.text, "error_msg", is_text, f"{where}: text") if answers else None

    def order(self, values: Values) -> Order:
        """Return it with the values of a skill.

        Raises:
            NoValue: A template names something that the skill does not have.
        """
        goal = None if self.entry.kind in _LISTENING else self._fill(values)
        limit, lasting = self.entry.time_limit, self.entry.lasting if isinstance(self.entry, StepEntry) else 0.0
        wanted = [field.wanted(values) for field in self.success]
        return Order(self, goal, _seconds(limit, values), _seconds(lasting, values), wanted)

    def verdict(self, order: Order, status: int, result: Any) -> tuple[Outcome, str, bool]:
        """Say how a goal ended: ``DONE`` or another outcome, the reason in words, and whether the server gave one."""
        if status == GoalStatus.STATUS_CANCELED:
            return Outcome.CANCELED, f"somebody else canceled it on {self.entry.server}", True
        unlike = order.unlike(result)
        if status == GoalStatus.STATUS_SUCCEEDED and not unlike:
            return Outcome.DONE, "", True
        code = self.code(result)
        known = error_code(self.entry, code)
        reasons = [
            known.name or (self._codes.get(code, "") if code else ""),
            f"error code {code}" if code else "",
            str(self._text(result)).strip().removesuffix(".") if self._text is not None else "",
        ]
        if not any(reasons):
            reasons = unlike if status == GoalStatus.STATUS_SUCCEEDED else []
        said = ", ".join(filter(None, reasons))
        return known.outcome, f"{self.entry.server}: {said or 'it was aborted without an error code'}", bool(said)

    def code(self, result: Any) -> int:
        """Return the error code of a result; 0 if it has none."""
        return 0 if self._code is None else int(_plain(self._code(result)))

    def returned(self, result: Any) -> dict[str, Value]:
        """Return what a result brings as data; what was done stays done, whatever that is."""
        returns = {} if self._skill is None else self._skill.returns
        came = {name: returns[name].measured(_plain(read(result))) for name, read in self._returns.items()}
        return {name: value for name, value in came.items() if value is not None}

    def pictures(self, result: Any) -> tuple[Picture, ...]:
        """Return the picture that a result is.

        Raises:
            ParameterError: It cannot be read.
        """
        camera = self.entry.camera if isinstance(self.entry, SeeingEntry) else ""
        if not camera:
            return ()
        try:
            return (picture_from_camera(result, camera),)
        except ValueError as error:
            raise ParameterError(f"its picture cannot be read: {error}") from None


@dataclass(frozen=True, eq=False)
class Order:
    """What is asked of a server or a topic, with the values of one skill."""

    call: MappedCall  # what it is made from
    goal: Any  # the goal, the request or the message; None if a topic is waited for
    limit: float  # longest time for all tries together, in seconds
    lasting: float  # for how long a message is published again and again, in seconds
    wanted: Sequence[Holds]  # what each of the fields should hold

    @property
    def every(self) -> float:
        """Time between two messages of what lasts, in seconds."""
        return self.call.entry.every if isinstance(self.call.entry, StepEntry) else 0.0

    def unlike(self, result: Any) -> list[str]:
        """Return what of a result or a message is not as it should be, in words."""
        read = (
            (field, field.read(result), wanted) for field, wanted in zip(self.call.success, self.wanted, strict=True)
        )
        return [f"{field.path} is {told(value)}" for field, value, wanted in read if not wanted(value)]

    def ends(self, message: Any) -> bool:
        """Whether a message ends the wait for it: it is as it should be, or has a code with an outcome."""
        return not self.unlike(message) or self.call.code(message) in self.call.entry.outcomes

    def in_words(self) -> str:
        """Say what would be sent, for a dry run."""
        from rosidl_runtime_py.convert import message_to_ordereddict

        entry = self.call.entry
        if self.goal is None:
            until = [
                f"{one.path} is {wanted.in_words()}" for one, wanted in zip(self.call.success, self.wanted, strict=True)
            ]
            what = f"until {', '.join(until)}" if until else "for a picture"
            return f"{entry.server} ({entry.type}) {what}, at most {self.limit:g} s"
        lasting = f" for {self.lasting:g} s" if self.lasting else ""
        return f"{entry.server} ({entry.type}) {json.dumps(message_to_ordereddict(self.goal))}{lasting}"


class Asked(NamedTuple):
    """What is asked at one point of a skill, and what is sent where that is stopped."""

    asked: Order
    cancel: Order | None


@dataclass(frozen=True, eq=False)
class Leg:
    """One thing that is asked for a skill, after the one before it has gone well."""

    call: MappedCall  # what is asked
    cancel: MappedCall | None  # what is sent where it is stopped; None: nothing more than its own cancel
    checks: bool  # whether it only looks whether what was done before was done
    picture: PictureCheck | None  # what eyes are asked about the picture that it takes; None: nothing
    effect: Mapping[str, str]  # what is changed of what is known by what it is part of
    settles: bool  # whether that is changed as soon as this has gone well
    moves: bool  # whether the robot may leave where it stands
    step: str  # which step it belongs to, in words; empty: there is only one

    @property
    def retries(self) -> int:
        """How often it is tried again after it failed."""
        return self.call.entry.retries if isinstance(self.call.entry, StepEntry) else 0

    @property
    def rejected(self) -> Outcome:
        """What it stands for that a server does not accept its goal."""
        entry = self.call.entry
        return Outcome(entry.rejected) if isinstance(entry, StepEntry) else Outcome.WORLD_UNAVAILABLE

    @property
    def repeatable(self) -> bool:
        """Whether it may be asked again if nobody knows how far it got: a look may, and a drive to a place."""
        return self.checks or self.call.entry.kind in _LISTENING or set(self.effect) == {"at"}


class MappedSkill:
    """How a skill is carried out, checked against the types that it names.

    Raises:
        UserError: A type is not there, or a field does not fit it.

    Attributes:
        legs: What is asked, one after the other.
    """

    def __init__(self, entry: SkillEntry, where: str, skill: Skill) -> None:
        self.entry, self.skill = entry, skill
        self.legs = [leg for number in range(len(entry.parts)) for leg in self._legs_of(number, where)]

    def _legs_of(self, number: int, where: str) -> Iterator[Leg]:
        part, parts = self.entry.parts[number], self.entry.parts
        last, several = number == len(parts) - 1, bool(self.entry.steps)
        at = f"{where}.steps.{number}" if several else where
        effect = effect_of(part.effect) if several or not last else {}
        if last:
            elsewhere = {what for one in parts[:-1] for what in effect_of(one.effect)}
            effect |= {what: about for what, about in self.skill.effect.items() if what not in elsewhere}
        checks = [*part.check, *(self.entry.check if last and several else [])]
        asked = [check for check in checks if not check.is_detection]
        cancel = None if part.cancel is None else MappedCall(part.cancel, f"{at}.cancel", self.skill)
        moves = not {"at", "away"}.isdisjoint(effect)
        for index, entry in enumerate([part, *asked]):
            call = MappedCall(entry, f"{at}.check" if index else at, self.skill)
            step = f"step {number + 1} of {len(parts)}" if several else ""
            picture = entry.by_picture if isinstance(entry, CheckEntry) else None
            yield Leg(call, None if index else cancel, bool(index), picture, effect, index == len(asked), moves, step)

    @property
    def calls(self) -> Iterator[MappedCall]:
        """Everything that it may ask for."""
        for leg in self.legs:
            yield from filter(None, (leg.call, leg.cancel))

    @property
    def detections(self) -> Sequence[CheckEntry]:
        """The checks that detections tell of."""
        return [check for check in self.entry.check if check.is_detection]

    def orders(self, values: Values) -> list[Asked]:
        """Return what is asked, one after the other, with the values of a skill.

        Raises:
            NoValue: A template names something that the skill does not have.
        """
        return [
            Asked(leg.call.order(values), None if leg.cancel is None else leg.cancel.order(values)) for leg in self.legs
        ]

    def limit(self, values: Values, orders: Sequence[Asked]) -> float:
        """Return the longest time for all of it, in seconds."""
        if self.entry.is_bounded:
            return _seconds(self.entry.time_limit, values)
        return sum(one.asked.limit for one in orders)


def _plain(value: Any) -> Any:
    """Return a field's value as Python has it: a byte comes as bytes of one, a number of an array as numpy's."""
    return value[0] if isinstance(value, bytes) else value.item() if isinstance(value, np.generic) else value


def _seconds(limit: float | str, values: Values) -> float:
    return float(values[limit[1:-1]]) if isinstance(limit, str) else limit


def _try(fill: Fill, names: Mapping[str, type], skill: Skill, where: str) -> None:
    """Look whether a goal takes the least and the most that a skill may be told.

    Raises:
        UserError: It does not.
    """
    examples: dict[type, Any] = {str: "x", int: 1, float: 1.0, Pose: Pose("map", 0, 0)}
    some = {name: examples[kind] for name, kind in names.items()}
    for ends in range(2):
        values = {name: _end(one, ends) for name, one in skill.parameters.items() if not isinstance(one, Named)}
        try:
            fill(some | values)
        except (AssertionError, OverflowError, ValueError, TypeError) as error:
            said = ", ".join(f"{name} {value}" for name, value in values.items())
            raise UserError(f"{where}: its fields do not take {said}: {shortened_line(str(error), 120)}") from None


def _end(parameter: Parameter, end: int) -> Value:
    if isinstance(parameter, Number):
        return parameter.read((parameter.least, parameter.greatest)[end])
    return "x" * parameter.longest if isinstance(parameter, Text) and end else "x"


def _reader(result: Any, path: str, usual: str, fits: Any, where: str) -> Any:
    """Return what reads a field of a result; the usual one if none is named and the type has it."""
    if not path and usual not in result.get_fields_and_field_types():
        return None
    read, slot = reader(result, path or usual, where)
    if fits(slot):
        return read
    if not path:
        return None
    raise UserError(f"{where}: field '{path}' is no {'text' if fits is is_text else 'whole number'}")


def _poses(map: SemanticMap, call: SkillCall) -> dict[str, Pose | None]:
    thing, receptacle = map.thing_of(call), map.target(call)
    room = None if thing is None else map.room_of(thing)
    place, stand = receptacle or room, receptacle or thing
    own = map.things_of(call).items()
    return {
        "pose": None if stand is None else map.approach(stand),
        "object.pose": None if thing is None else map.pose_of(thing),
        "receptacle.pose": None if receptacle is None else receptacle.pose,
        "receptacle.top": None if receptacle is None else receptacle.top,
        "room.pose": None if room is None else map.pose_of(room),
        "place.pose": None if place is None else map.pose_of(place),
        **{f"{name}.pose": map.pose_of(one) for name, one in own},
        **{f"{name}.approach": map.approach(one) for name, one in own},
    }


def values_of(map: SemanticMap, call: SkillCall) -> Values:
    """Return what templates may name, poses in the map's frame."""
    values: dict[str, Any] = {"skill": str(call), "verb": call.skill.verb, **call.values}
    thing, receptacle = map.thing_of(call), map.target(call)
    room = None if thing is None else map.room_of(thing)
    named = {"object": thing, "receptacle": receptacle, "room": room, "place": receptacle or room}
    for name, one in (named | map.things_of(call)).items():
        if isinstance(one, MapThing):
            values |= {f"{name}.name": one.name, f"{name}.word": one.word, f"{name}.number": one.number}
            inside = map.room_of(one)
            values |= {f"{name}.own": one.own, f"{name}.floor": getattr(inside, "floor", None)}
    values |= {name: None if pose is None else map.in_map(pose) for name, pose in _poses(map, call).items()}
    return values


def missing(map: SemanticMap, call: SkillCall, name: str) -> str:
    """Say why a template has no value."""
    poses, thing = _poses(map, call), map.thing_of(call)
    pose = poses.get(name) or poses.get(name.rpartition(".")[0])
    if pose is not None:
        return f"there is no transform from '{pose.frame}' to '{map.frame}'"
    of = "" if thing is None else f" of {thing.told()}"
    return f"its goal needs {{{name}}}, which is not known{of}"
