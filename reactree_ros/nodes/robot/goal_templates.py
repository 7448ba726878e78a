"""Messages of any ROS type, read by paths and filled from templates; what does not fit is found before any is sent."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, get_args

from rclpy.exceptions import InvalidTopicNameException
from rclpy.validate_topic_name import validate_topic_name
from rosidl_parser import definition as idl

from reactree_ros.agent import parameters
from reactree_ros.agent.parameters import Boolean, List, Named, Number, Parameter
from reactree_ros.agent.skill import Skill, SkillCall
from reactree_ros.agent.text import shortened_line
from reactree_ros.errors import UserError
from reactree_ros.robot.config import Wanted
from reactree_ros.robot.poses import Pose
from reactree_ros.world.skill_policy import Range

#: What every template may name, with what that is: text, a whole number, a number, a list of some, or a pose.
NAMES: Mapping[str, Any] = {
    "skill": str,
    "verb": str,
    "pose": Pose,
    "receptacle.top": Pose,
    **{
        f"{thing}.{name}": kind
        for thing in ("object", "receptacle", "room", "place")
        for name, kind in (("name", str), ("own", str), ("word", str), ("number", int), ("pose", Pose))
    },
}
#: What a template may name of something on the map.
_OF_THINGS: Mapping[str, type] = {
    "": str,
    ".name": str,
    ".own": str,
    ".word": str,
    ".number": int,
    ".floor": int,
    ".pose": Pose,
    ".approach": Pose,
}
_AXES: Mapping[str, type] = {"x": float, "y": float, "z": float, "yaw": float, "frame": str}
_COUNTED = re.compile(r"(\w+)\[(\d{1,4})\]")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_WORDS = {str: "a text", int: "a whole number", float: "a number", Pose: "a pose", bool: "true or false"}
_INTEGERS = {
    **{f"{sign}int{bits}": (bits, sign == "u") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "octet": (8, True),
    "char": (8, True),
}
#: Types that a pose is written into.
_POSES = tuple(
    f"geometry_msgs/msg/{name}" for name in ("Pose", "PoseStamped", "Point", "PointStamped", "Quaternion", "Pose2D")
)


class NoValue(Exception):
    """A template names something that a skill does not have, such as the receptacle of a room."""


Values = Mapping[Any, Any]
Fill = Callable[[Values], Any]
Read = Callable[[Any], Any]


def names_of(skill: Skill) -> Mapping[str, Any]:
    """Return what the templates of a skill may name: what all may, and its parameters."""
    names = dict(NAMES)
    for name, parameter in skill.parameters.items():
        if isinstance(parameter, Named):
            names |= {f"{name}{part}": kind for part, kind in _OF_THINGS.items()}
        else:
            names[name] = _kind_of(parameter)
    return names


def _kind_of(parameter: Parameter) -> Any:
    if isinstance(parameter, List):
        return list[_kind_of(parameter.of)]  # type: ignore[misc]
    if isinstance(parameter, Number):
        return type(parameter.read(parameter.least))
    return {Boolean: bool, parameters.Pose: Pose}.get(type(parameter), str)


def values_in(call: SkillCall) -> dict[Any, Any]:
    """Return the values of a skill as templates take them: a pose in its own frame; of some, how they are said, too."""
    values: dict[Any, Any] = {**call.values}
    for name, parameter in call.skill.parameters.items():
        if isinstance(parameter, parameters.Pose):
            at = values[name]
            values[name] = Pose.upright(parameter.frame, at["x"], at["y"], yaw=math.radians(at["yaw"]))
        elif isinstance(parameter, Boolean | List):
            values[name, "said"] = call.said[name]
    return values


# ---- types --------------------------------------------------------------------------------------------------------


def resolve(kind: str, name: str, where: str) -> Any:
    """Return the ``action``, ``service`` or ``message`` of a name, e.g. ``nav2_msgs/action/NavigateToPose``."""
    folder = {"action": "action", "service": "srv", "message": "msg"}[kind]
    parts = name.split("/")
    if len(parts) != 3 or parts[1] != folder or not all(parts):
        raise UserError(f"{where}: the type is '{name}'; a type of {kind}s is written like package/{folder}/Type")
    try:
        return getattr(importlib.import_module(f"{parts[0]}.{folder}"), parts[2])
    except ModuleNotFoundError:
        reason = f"there is no package '{parts[0]}' with {kind}s; install it, or source the workspace that has it"
    except (AttributeError, ValueError, ImportError):
        reason = f"the package '{parts[0]}' has no {kind} '{parts[2]}'"
    raise UserError(f"{where}: the type is '{name}', but {reason}")


def check_name(name: str, where: str) -> None:
    try:
        validate_topic_name(name)
    except InvalidTopicNameException as error:
        reason = str(error).splitlines()[0].rstrip(":")
        raise UserError(f"{where}: the name '{name}' is not one that ROS allows: {reason}") from None


def is_text(slot: Any) -> bool:
    return isinstance(slot, idl.AbstractGenericString)


def is_whole_number(slot: Any) -> bool:
    return isinstance(slot, idl.BasicType) and slot.typename in _INTEGERS


def is_number(slot: Any) -> bool:
    return is_whole_number(slot) or (isinstance(slot, idl.BasicType) and slot.typename in ("float", "double"))


def type_name(kind: Any) -> str:
    """Return the name of a message class as ROS writes it, e.g. ``std_msgs/msg/Bool``."""
    package = kind.__module__.split(".")
    return f"{package[0]}/{package[1]}/{kind.__name__}"


def message_class(slot: Any, where: str) -> Any:
    if not isinstance(slot, idl.NamespacedType):
        raise UserError(f"{where}: {described(slot)} has no fields of its own")
    return getattr(importlib.import_module(".".join(slot.namespaces)), slot.name)


def described(slot: Any) -> str:
    """Say what a field holds, e.g. ``a list of geometry_msgs/msg/Pose``."""
    if isinstance(slot, idl.NamespacedType):
        return "/".join(slot.namespaced_name())
    if isinstance(slot, idl.AbstractNestedType):
        return f"a list of {described(slot.value_type)}"
    return slot.typename if isinstance(slot, idl.BasicType) else "a string"


def _steps(kind: Any, path: str, where: str, *, counted: bool = False) -> tuple[list[tuple[str, int | None]], Any, Any]:
    steps: list[tuple[str, int | None]] = []
    owner = slot = None
    at = where
    for step in path.split("."):
        owner = kind if owner is None else message_class(slot, at)
        at = f"{where}: field '{'.'.join(path.split('.')[: len(steps) + 1])}'"
        match = _COUNTED.fullmatch(step) if counted else None
        name = step if match is None else match[1]
        fields = dict(zip(owner.get_fields_and_field_types(), owner.SLOT_TYPES, strict=True))
        if name not in fields:
            there = ", ".join(fields) or "none"
            raise UserError(f"{at}: {type_name(owner)} has no field '{name}'; its fields are {there}")
        slot = fields[name]
        if match is not None:
            if not isinstance(slot, idl.AbstractNestedType):
                raise UserError(f"{at}: '{name}' is {described(slot)}, not a list")
            slot = slot.value_type
        steps.append((name, None if match is None else int(match[2])))
    return steps, owner, slot


def reader(kind: Any, path: str, where: str, *, counted: bool = False) -> tuple[Read, Any]:
    """Return what reads a field of a message by its path (``counted``: also ``position[0]``, or None), and its type."""
    steps, _, slot = _steps(kind, path, where, counted=counted)

    def read(message: Any) -> Any:
        for name, number in steps:
            message = getattr(message, name)
            if number is not None:
                if number >= len(message):
                    return None
                message = message[number]
        return message

    return read, slot


def constants(kind: Any, path: str) -> Mapping[int, str]:
    """Return the names that a message type gives the numbers which a field of it may hold, e.g. of error codes."""
    owner = _steps(kind, path, path)[1] if "." in path else kind
    named = getattr(type(owner), f"_{type(owner).__name__}__constants", {})
    return {value: name for name, value in reversed(named.items()) if type(value) is int}


# ---- values -------------------------------------------------------------------------------------------------------


def compiled(kind: Any, entries: Mapping[str, Any], where: str, names: Mapping[str, Any] = NAMES) -> Fill:
    """Return what makes a message of a type, its fields (also by path, ``a.b``) filled from constants and templates."""
    fields = []
    for path, value in entries.items():
        steps, _, slot = _steps(kind, str(path), where)
        fields.append(([name for name, _ in steps], filler(slot, value, f"{where}: field '{path}'", names)))

    def fill(values: Values) -> Any:
        message = kind()
        for steps, value in fields:
            setattr(reduce(getattr, steps[:-1], message), steps[-1], value(values))
        return message

    return fill


def filler(slot: Any, value: Any, where: str, names: Mapping[str, Any]) -> Fill:
    if isinstance(slot, idl.AbstractNestedType):
        return _list_filler(slot, value, where, names)
    if isinstance(value, str) and _PLACEHOLDER.search(value):
        return _template(slot, value, where, names)
    if isinstance(slot, idl.NamespacedType):
        if not isinstance(value, Mapping):
            raise UserError(f"{where}: {described(slot)} cannot be {value!r}; give its fields or a template")
        return compiled(message_class(slot, where), value, where, names)
    fixed = constant(slot, value, where)
    return lambda values: fixed


def _list_filler(slot: Any, value: Any, where: str, names: Mapping[str, Any]) -> Fill:
    match = _PLACEHOLDER.fullmatch(value) if isinstance(value, str) else None
    if match is not None and (of := get_args(names.get(match[1]))):
        each = filler(slot.value_type, value, f"{where}: each", {match[1]: of[0]})
        return lambda values: [each({match[1]: one}) for one in values[match[1]]]
    if not isinstance(value, list):
        raise UserError(f"{where}: {described(slot)} cannot be {value!r}; give a list")
    size = slot.size if isinstance(slot, idl.Array) else None
    most = slot.maximum_size if isinstance(slot, idl.BoundedSequence) else None
    if (size is not None and len(value) != size) or (most is not None and len(value) > most):
        raise UserError(f"{where}: the list has {len(value)} entries; it must have {size or f'at most {most}'}")
    fillers = [filler(slot.value_type, one, f"{where}[{index}]", names) for index, one in enumerate(value)]
    return lambda values: [fill(values) for fill in fillers]


def constant(slot: Any, value: Any, where: str) -> Any:
    kind = slot.typename if isinstance(slot, idl.BasicType) else ""
    if is_text(slot):
        fits = isinstance(value, str) and len(value) <= getattr(slot, "maximum_size", math.inf)
    elif kind == "boolean" or isinstance(value, bool):
        fits = kind == "boolean" and isinstance(value, bool)
    elif kind in _INTEGERS:
        bits, unsigned = _INTEGERS[kind]
        least = 0 if unsigned else -(2 ** (bits - 1))
        fits = isinstance(value, int) and least <= value < least + 2**bits
    else:
        fits = bool(kind) and isinstance(value, int | float)
    if not fits:
        raise UserError(f"{where}: {described(slot)} cannot be {value!r}")
    return bytes([value]) if kind == "octet" else float(value) if kind in ("float", "double") else value


def _template(slot: Any, text: str, where: str, known: Mapping[str, Any]) -> Fill:
    names = _PLACEHOLDER.findall(text)
    kinds = [_kind(name, text, where, known) for name in names]
    if is_text(slot):
        if Pose in kinds:
            name = names[kinds.index(Pose)]
            raise UserError(f"{where}: '{{{name}}}' is a pose, not a text; name a part of it, e.g. {{{name}.x}}")
        return lambda values: _PLACEHOLDER.sub(lambda match: _in_words(values, match[1]), text)
    name, kind = names[0], kinds[0]
    if text != f"{{{name}}}":
        raise UserError(f"{where}: {described(slot)} cannot be the text {text!r}")
    if kind is Pose and described(slot) in _POSES:
        message = message_class(slot, where)
        return lambda values: fill_pose(message(), _value(values, name))
    if (kind is int and is_whole_number(slot)) or (kind is bool and described(slot) == "boolean"):
        return lambda values: _value(values, name)
    if kind in (int, float) and is_number(slot) and not is_whole_number(slot):
        return lambda values: float(_value(values, name))
    raise UserError(f"{where}: {described(slot)} cannot be '{text}', which is {_WORDS.get(kind, 'a list')}")


def _kind(name: str, text: str, where: str, known: Mapping[str, Any]) -> Any:
    thing, _, part = name.rpartition(".")
    if name in known:
        return known[name]
    if known.get(thing) is Pose and part in _AXES:
        return _AXES[part]
    there = ", ".join(f"{{{name}}}" for name in known)
    raise UserError(
        f"{where}: the template {text!r} names '{name}'; there are {there}, and .x .y .z .yaw .frame of poses"
    )


def _value(values: Values, name: str) -> Any:
    thing, _, part = name.rpartition(".")
    at = values.get(thing)
    value = getattr(at, part) if isinstance(at, Pose) else values.get(name)
    if value is None:
        raise NoValue(name)
    return value


def _in_words(values: Values, name: str) -> str:
    value = values.get((name, "said")) or _value(values, name)
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def fill_pose(message: Any, pose: Pose) -> Any:
    kind = type(message).__name__
    if kind.endswith("Stamped"):
        message.header.frame_id = pose.frame  # a stamp of zero: by the latest transform
        fill_pose(message.pose if kind == "PoseStamped" else message.point, pose)
    elif kind == "Pose":
        fill_pose(message.position, pose)
        fill_pose(message.orientation, pose)
    elif kind == "Quaternion":
        message.x, message.y, message.z, message.w = map(float, pose.orientation)
    elif kind == "Pose2D":
        message.x, message.y, message.theta = float(pose.x), float(pose.y), float(pose.yaw)
    else:
        message.x, message.y, message.z = float(pose.x), float(pose.y), float(pose.z)
    return message


# ---- what a field should hold -------------------------------------------------------------------------------------


class Field:
    def __init__(self, kind: Any, path: str, wanted: Wanted, where: str, names: Mapping[str, Any]) -> None:
        self.path = path
        self.read, slot = reader(kind, path, where, counted=True)
        at = f"{where}: field '{path}'"
        self._range = wanted if isinstance(wanted, Range) else None
        if self._range is not None and not is_number(slot):
            raise UserError(f"{at}: {described(slot)} is not a number; above and below are of numbers")
        several = wanted if isinstance(wanted, list) else [wanted]
        self._fillers = [] if self._range is not None else [filler(slot, one, at, names) for one in several]

    def wanted(self, values: Values) -> Holds:
        """Return what it should hold for the values of one skill. Raises NoValue."""
        return Holds(self._range or tuple(fill(values) for fill in self._fillers))


@dataclass(frozen=True)
class Holds:
    wanted: Range | Sequence[Any]

    def __call__(self, value: Any) -> bool:
        if isinstance(self.wanted, Range):
            return self.wanted.has(value)
        if isinstance(value, float):  # one of 32 bits is not quite the one that was written
            return any(math.isclose(value, one, rel_tol=1e-6) for one in self.wanted)
        return any(bool(value == one) for one in self.wanted)

    def in_words(self) -> str:
        if not isinstance(self.wanted, Range):
            return " or ".join(map(in_short, self.wanted))
        return " and ".join(f"{side} {bound:g}" for side, bound in self.wanted if math.isfinite(bound))


def in_short(value: Any) -> str:
    return shortened_line(f"{value:g}" if isinstance(value, float) else str(value), 60)
