"""A skill as its server knows it: the goal that it is sent as, and what the server's result means."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from action_msgs.msg import GoalStatus
from sensor_msgs.msg import CompressedImage, Image

from reactree_ros.agent import parameters
from reactree_ros.agent import picture as taken
from reactree_ros.agent.parameters import Boolean, List, Named, Number, Parameter, ParameterError, Text, Value
from reactree_ros.agent.picture import Picture, PictureCheck
from reactree_ros.agent.skill import Skill, SkillCall, effect_of
from reactree_ros.agent.text import shortened_line
from reactree_ros.errors import UserError
from reactree_ros.household.scene import Thing
from reactree_ros.nodes.messages import seconds_of
from reactree_ros.nodes.robot import goal_templates as templates
from reactree_ros.nodes.robot.goal_templates import Field, Fill, Holds, Values
from reactree_ros.nodes.robot.robot_topics import frame_of, pose_reader
from reactree_ros.robot.config import CallEntry, CheckEntry, SeeingEntry, SkillEntry, StepEntry, error_code
from reactree_ros.robot.house import MapThing
from reactree_ros.robot.poses import Pose
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.world.port import Outcome

if TYPE_CHECKING:
    from PIL.Image import Image as Pixels

#: Which part of an action or a service is sent, and which comes back.
_PARTS: Mapping[str, tuple[str, str]] = {"action": ("Goal", "Result"), "service": ("Request", "Response")}
#: Kinds that only listen.
_LISTENING = ("wait_for", "camera")


class MappedCall:
    """What is asked of a server or a topic, checked against its type."""

    def __init__(self, entry: CallEntry, where: str, skill: Skill | None = None) -> None:
        self.entry, self._returned = entry, {} if skill is None else skill.returns
        templates.check_name(entry.server, where)
        parts = _PARTS.get(entry.kind)
        self.type = templates.resolve("message" if parts is None else entry.kind, entry.type, where)
        goal, result = (self.type, self.type) if parts is None else (getattr(self.type, part) for part in parts)
        names = templates.NAMES if skill is None else templates.names_of(skill)
        self._fill = templates.compiled(goal, entry.goal, f"{where}: goal", names)
        if skill is not None:
            _try(self._fill, names, skill, f"{where}: goal")
        fields = entry.result if isinstance(entry, StepEntry) and skill is not None else {}
        self._results = {
            name: _result_of(self._returned[name], result, path, f"{where}: result") for name, path in fields.items()
        }
        self.success = [Field(result, path, to_be, f"{where}: success", names) for path, to_be in entry.success.items()]
        self._code = self._text = None
        if entry.kind != "publish":
            self._code = _reader(result, entry.code, "error_code", templates.is_whole_number, f"{where}: code")
            self._text = _reader(result, entry.text, "error_msg", templates.is_text, f"{where}: text")
        self._codes = templates.constants(result, entry.code)

    def order(self, values: Values) -> Order:
        """Return it with the values of a skill. Raises NoValue."""
        goal = None if self.entry.kind in _LISTENING else self._fill(values)
        lasting = self.entry.lasting if isinstance(self.entry, StepEntry) else 0.0
        wanted = [(field, field.wanted(values)) for field in self.success]
        return Order(self, goal, _seconds(self.entry.time_limit, values), _seconds(lasting, values), wanted)

    def verdict(self, order: Order, status: int, result: Any) -> tuple[Outcome, str, bool]:
        """Say how a goal ended: ``DONE`` or another outcome, the reason in words, and whether the server gave one."""
        if status == GoalStatus.STATUS_CANCELED:
            return Outcome.CANCELED, f"somebody else canceled it on {self.entry.server}", True
        unlike, succeeded = order.unlike(result), status == GoalStatus.STATUS_SUCCEEDED
        if succeeded and not unlike:
            return Outcome.DONE, "", True
        code = self.code(result)
        name, outcome = error_code(self.entry, code)
        reasons = [
            name or (self._codes.get(code, "") if code else ""),
            f"error code {code}" if code else "",
            str(self._text(result)).strip().removesuffix(".") if self._text is not None else "",
        ]
        reason = ", ".join(filter(None, reasons)) or ", ".join(unlike if succeeded else ())
        return outcome, f"{self.entry.server}: {reason or 'it was aborted without an error code'}", bool(reason)

    def code(self, result: Any) -> int:
        return 0 if self._code is None else int(plain(self._code(result)))

    def returned(self, result: Any) -> dict[str, Value]:
        """Return what a result brings as data; what was done stays done, whatever that is."""
        came = {name: self._returned[name].measured(plain(read(result))) for name, read in self._results.items()}
        return {name: value for name, value in came.items() if value is not None}

    def pictures(self, result: Any) -> tuple[Picture, ...]:
        camera = self.entry.camera if isinstance(self.entry, SeeingEntry) else ""
        try:
            return (picture_from_camera(result, camera),) if camera else ()
        except ValueError as error:
            raise ParameterError(f"its picture cannot be read: {error}") from None


@dataclass(frozen=True, eq=False)
class Order:
    call: MappedCall
    goal: Any  # the goal, the request or the message; None if a topic is waited for
    limit: float  # longest time for all tries together, in seconds
    lasting: float  # for how long a message is published again and again, in seconds
    wanted: Sequence[tuple[Field, Holds]]  # what fields of the result should hold

    @property
    def every(self) -> float:
        return self.call.entry.every if isinstance(self.call.entry, StepEntry) else 0.0

    def unlike(self, result: Any) -> list[str]:
        """Return what of a result or a message is not as it should be, in words."""
        read = ((field.path, field.read(result), holds) for field, holds in self.wanted)
        return [f"{path} is {templates.in_short(value)}" for path, value, holds in read if not holds(value)]

    def ends(self, message: Any) -> bool:
        """Whether a message ends the wait for it: it is as it should be, or has a code with an outcome."""
        return not self.unlike(message) or self.call.code(message) in self.call.entry.outcomes

    def in_words(self) -> str:
        entry = self.call.entry
        if self.goal is None:
            until = [f"{field.path} is {holds.in_words()}" for field, holds in self.wanted]
            what = f"until {', '.join(until)}" if until else "for a picture"
            return f"{entry.server} ({entry.type}) {what}, at most {self.limit:g} s"
        lasting = f" for {self.lasting:g} s" if self.lasting else ""
        return f"{entry.server} ({entry.type}) {json.dumps(self.goal, default=plain)}{lasting}"


class Asked(NamedTuple):
    """What is asked at one point of a skill, and what is sent if that is stopped."""

    asked: Order
    cancel: Order | None


@dataclass(frozen=True, eq=False)
class Leg:
    """One thing that is asked for a skill, after the one before it has gone well."""

    call: MappedCall
    cancel: MappedCall | None  # what is sent if it is stopped; None: nothing more than its own cancel
    checks: bool  # whether it only looks whether what was done before was done
    picture: PictureCheck | None  # what eyes are asked about the picture that it takes
    effect: Mapping[str, str]  # what is changed of what is known by what it is part of
    settles: bool  # whether that is changed as soon as this has gone well
    step: str  # which step it belongs to, in words; empty: there is only one

    @property
    def moves(self) -> bool:
        return not {"at", "away"}.isdisjoint(self.effect)

    @property
    def retries(self) -> int:
        return self.call.entry.retries if isinstance(self.call.entry, StepEntry) else 0

    @property
    def rejected(self) -> Outcome:
        entry = self.call.entry
        return Outcome(entry.rejected) if isinstance(entry, StepEntry) else Outcome.WORLD_UNAVAILABLE

    @property
    def repeatable(self) -> bool:
        """Whether it may be asked again if nobody knows how far it got: a look may, and a drive to a place."""
        return self.checks or self.call.entry.kind in _LISTENING or set(self.effect) == {"at"}


class MappedSkill:
    """How a skill is carried out: legs, one after the other, checked against the types that they name."""

    def __init__(self, entry: SkillEntry, where: str, skill: Skill) -> None:
        self.entry, self.skill = entry, skill
        self.detections = [check for check in entry.check if check.is_detection]
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
        step = f"step {number + 1} of {len(parts)}" if several else ""
        for index, entry in enumerate([part, *asked]):
            call = MappedCall(entry, f"{at}.check" if index else at, self.skill)
            picture = entry.by_picture if isinstance(entry, CheckEntry) else None
            yield Leg(call, None if index else cancel, bool(index), picture, effect, index == len(asked), step)

    @property
    def calls(self) -> Iterator[MappedCall]:
        for leg in self.legs:
            yield from filter(None, (leg.call, leg.cancel))

    def orders(self, values: Values) -> list[Asked]:
        """Return what is asked, one after the other, with the values of a skill. Raises NoValue."""
        return [
            Asked(leg.call.order(values), None if leg.cancel is None else leg.cancel.order(values)) for leg in self.legs
        ]

    def limit(self, values: Values, orders: Sequence[Asked]) -> float:
        if self.entry.is_bounded:
            return _seconds(self.entry.time_limit, values)
        return sum(one.asked.limit for one in orders)


def plain(value: Any) -> Any:
    """Return a field's value as JSON has it: a byte comes as bytes of one, a number of an array as numpy's."""
    if hasattr(value, "get_fields_and_field_types"):
        return {name: getattr(value, name) for name in value.get_fields_and_field_types()}
    if hasattr(value, "tolist"):
        return value.tolist()
    return value[0] if isinstance(value, bytes) else value


def _result_of(declared: Parameter, result: Any, path: str, where: str) -> Any:
    """Return what reads a field of a result; of a pose its numbers, if it is in the frame that is declared."""
    if not isinstance(declared, parameters.Pose):
        return templates.reader(result, path, where, counted=True)[0]
    read = pose_reader(result, path, where)

    def numbers(message: Any) -> Any:
        pose = read(message, frame_of(message) or declared.frame)
        if pose is None or pose.frame != declared.frame:
            return None if pose is None else f"a pose in the frame {pose.frame}"
        return {"x": pose.x, "y": pose.y, "yaw": math.degrees(pose.yaw)}

    return numbers


def _seconds(limit: float | str, values: Values) -> float:
    return float(values[limit[1:-1]]) if isinstance(limit, str) else limit


def _try(fill: Fill, names: Mapping[str, Any], skill: Skill, where: str) -> None:
    """Refuse a goal that does not take the least and the most that a skill may be told."""
    examples: dict[type, Any] = {str: "x", int: 1, float: 1.0, Pose: Pose("map", 0, 0)}
    own = {name: one for name, one in skill.parameters.items() if not isinstance(one, Named)}
    some = {name: examples[kind] for name, kind in names.items() if name not in own}
    for ends in range(2):
        values = {name: _end(one, ends) for name, one in own.items()}
        try:
            fill(some | values)
        except (AssertionError, OverflowError, ValueError, TypeError) as error:
            given = ", ".join(f"{name} {value}" for name, value in values.items())
            raise UserError(f"{where}: its fields do not take {given}: {shortened_line(str(error), 120)}") from None


def _end(parameter: Parameter, end: int) -> Any:
    if isinstance(parameter, List):
        return (_end(parameter.of, end),) * (parameter.most if end else 1)
    if isinstance(parameter, Boolean):
        return bool(end)
    if isinstance(parameter, parameters.Pose):
        return Pose(parameter.frame, parameter.x.least, parameter.y.least)
    if isinstance(parameter, Number):
        return parameter.read((parameter.least, parameter.greatest)[end])
    return "x" * parameter.longest if isinstance(parameter, Text) and end else "x"


def _reader(result: Any, path: str, usual: str, fits: Any, where: str) -> Any:
    """Return what reads a field of a result; the usual one if none is named and the type has it."""
    if not path and usual not in result.get_fields_and_field_types():
        return None
    read, slot = templates.reader(result, path or usual, where)
    if fits(slot):
        return read
    if not path:
        return None
    raise UserError(f"{where}: field '{path}' is not {'text' if fits is templates.is_text else 'a whole number'}")


def _poses(map: SemanticMap, call: SkillCall) -> dict[str, Pose | None]:
    named, receptacle = _things(map, call), map.target(call)
    stand = receptacle or named["object"]
    return {
        "pose": None if stand is None else map.approach(stand),
        "receptacle.top": None if receptacle is None else receptacle.top,
        **{f"{name}.pose": None if one is None else map.pose_of(one) for name, one in named.items()},
        **{f"{name}.approach": map.approach(one) for name, one in map.things_of(call).items()},
    }


def _things(map: SemanticMap, call: SkillCall) -> dict[str, Thing | None]:
    thing, receptacle = map.thing_of(call), map.target(call)
    room = None if thing is None else map.room_of(thing)
    named = {"object": thing, "receptacle": receptacle, "room": room, "place": receptacle or room}
    return named | map.things_of(call)


def values_of(map: SemanticMap, call: SkillCall) -> Values:
    """Return what templates may name, poses in the map's frame."""
    values: dict[Any, Any] = {"skill": str(call), "verb": call.skill.verb}
    for name, one in _things(map, call).items():
        if isinstance(one, MapThing):
            values |= {f"{name}.{part}": getattr(one, part) for part in ("name", "word", "number", "own")}
            values[f"{name}.floor"] = getattr(map.room_of(one), "floor", None)
    poses = {name: None if pose is None else map.in_map(pose) for name, pose in _poses(map, call).items()}
    return values | poses | templates.values_in(call)


def missing(map: SemanticMap, call: SkillCall, name: str) -> str:
    poses, thing = _poses(map, call), map.thing_of(call)
    pose = poses.get(name) or poses.get(name.rpartition(".")[0])
    if pose is not None:
        return f"there is no transform from '{pose.frame}' to '{map.frame}'"
    owner = "" if thing is None else f" of {thing.worded()}"
    return f"its goal needs {{{name}}}, which is not known{owner}"


# ---- pictures of cameras -------------------------------------------------------------------------------------------

#: Encodings of raw images: Pillow's mode, how the bytes are ordered, and bytes of a pixel.
_ENCODINGS = {
    "rgb8": ("RGB", "RGB", 3),
    "bgr8": ("RGB", "BGR", 3),
    "rgba8": ("RGB", "RGBX", 4),
    "bgra8": ("RGB", "BGRX", 4),
    "mono8": ("L", "L", 1),
}
#: The longest side of a picture that is encoded here.
_LONGEST_SIDE = 2048


def picture_from_camera(msg: CompressedImage | Image, camera: str) -> Picture:
    """Keep the picture in a camera's message; JPEG and PNG stay as they are, all else becomes a JPEG."""
    about: dict[str, Any] = {
        "camera": camera,
        "frame": msg.header.frame_id,
        "time": seconds_of(msg.header.stamp) or None,
    }
    if isinstance(msg, Image):
        return taken.picture_of(_encoded(_raw(msg)), **about)
    data = bytes(msg.data)
    try:
        return taken.picture_of(data, **about)
    except ValueError:
        return taken.picture_of(_encoded(_read(data)), **about)


def _read(data: bytes) -> Pixels:
    try:
        found = taken.opened(data, taken.READ_FORMS)
        if found.width * found.height > taken.MOST_PIXELS:
            raise ValueError(f"{found.width} by {found.height} pixels are too many")
        return found.convert("RGB")
    except ImportError:
        raise ValueError(taken.needs_pillow("a picture that is neither PNG nor JPEG, or is too large,")) from None
    except Exception as error:  # Pillow's readers raise what they like
        raise ValueError(f"{len(data):,} bytes that are not a picture ({error})") from error


def _raw(msg: Image) -> Pixels:
    if msg.encoding not in _ENCODINGS:
        raise ValueError(f"its encoding is {msg.encoding[:40]!r}; it has to be one of {', '.join(_ENCODINGS)}")
    mode, order, size = _ENCODINGS[msg.encoding]
    width, height, step = msg.width, msg.height, msg.step or msg.width * size
    if not 0 < width * height <= taken.MOST_PIXELS or step < width * size or len(msg.data) < step * height:
        raise ValueError(f"{width} by {height} pixels of {msg.encoding} in {len(msg.data):,} bytes")
    try:
        from PIL import Image as Pictures
    except ImportError:
        raise ValueError(taken.needs_pillow("a raw image")) from None
    return Pictures.frombytes(mode, (width, height), bytes(msg.data), "raw", order, step, 1)


def _encoded(pixels: Pixels) -> bytes:
    side = _LONGEST_SIDE
    while True:
        file = io.BytesIO()
        pixels.resize(taken.fitted(pixels.width, pixels.height, side)).save(file, "JPEG", quality=90)
        if file.tell() <= taken.LARGEST_PICTURE:
            return file.getvalue()
        side //= 2
