"""Goals of any ROS type, filled from templates; whatever does not fit the type is found before anything is sent."""

from __future__ import annotations

import functools
import importlib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rclpy.exceptions import InvalidTopicNameException
from rclpy.validate_topic_name import validate_topic_name
from rosidl_parser.definition import (
    AbstractNestedType,
    AbstractString,
    AbstractWString,
    Array,
    BasicType,
    BoundedSequence,
    NamespacedType,
)

from reactree_ros.agent.parameters import Named, Number
from reactree_ros.agent.skill import Skill
from reactree_ros.errors import UserError
from reactree_ros.robot.poses import Pose

#: What every template may name, with what that is: text, a whole number, a number or a pose.
NAMES: Mapping[str, type] = {
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
_AXES = ("x", "y", "z", "yaw")
_COUNTED = re.compile(r"(\w+)\[(\d{1,4})\]")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_WORDS = {str: "a text", int: "a whole number", float: "a number", Pose: "a pose", bool: "true or false"}
_INTEGERS = {
    **{f"{sign}int{bits}": (bits, sign == "u") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "octet": (8, True),
    "char": (8, True),
}


class NoValue(Exception):
    """A template names something that a skill does not have, such as the receptacle of a room."""


Values = Mapping[str, Any]
Fill = Callable[[Values], Any]


def names_of(skill: Skill) -> Mapping[str, type]:
    """Return what the templates of a skill may name: what all may, and its parameters."""
    names = dict(NAMES)
    for name, parameter in skill.parameters.items():
        if isinstance(parameter, Number):
            names[name] = type(parameter.read(parameter.least))
        elif isinstance(parameter, Named):
            names |= {f"{name}{part}": kind for part, kind in _OF_THINGS.items()}
        else:
            names[name] = str
    return names


def resolve(kind: str, name: str, where: str) -> Any:
    """Return an interface by the name of its type.

    Args:
        kind: ``action``, ``service`` or ``message``.
        name: E.g. ``nav2_msgs/action/NavigateToPose``.

    Raises:
        UserError: There is no such type.
    """
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
    """Check the name of a server or a topic.

    Raises:
        UserError: It is none.
    """
    try:
        validate_topic_name(name)
    except InvalidTopicNameException as error:
        reason = str(error).splitlines()[0].rstrip(":")
        raise UserError(f"{where}: the name '{name}' is not one that ROS allows: {reason}") from None


def compiled(kind: Any, entries: Mapping[str, Any], where: str, names: Mapping[str, type] = NAMES) -> Fill:
    """Return what makes a message of a type, filled from templates.

    Args:
        entries: Fields by name or path (``a.b``) with constants, templates, or entries of their own.
        names: What templates may name, with what that is.

    Raises:
        UserError: A field is not one of the type, or what is to be written does not fit it.
    """
    setters = []
    for path, value in entries.items():
        owner, steps = kind, str(path).split(".")
        for depth, step in enumerate(steps):
            slot = _slot(owner, step, f"{where}: field '{'.'.join(steps[: depth + 1])}'")
            if depth < len(steps) - 1:
                owner = message_class(slot, f"{where}: field '{'.'.join(steps[: depth + 1])}'")
        setters.append((steps, filler(slot, value, f"{where}: field '{path}'", names)))

    def fill(values: Values) -> Any:
        message = kind()
        for steps, value in setters:
            at = message
            for step in steps[:-1]:
                at = getattr(at, step)
            setattr(at, steps[-1], value(values))
        return message

    return fill


def reader(kind: Any, path: str, where: str, *, counted: bool = False) -> tuple[Callable[[Any], Any], Any]:
    """Return what reads a field of a message by its path, and the field's type.

    Args:
        counted: Whether the path may name one of a list, e.g. ``position[0]``; that reads None if the list is shorter.

    Raises:
        UserError: The type has no such field.
    """
    steps, owner, slot = path.split("."), kind, None
    read: list[Callable[[Any], Any]] = []
    for depth, step in enumerate(steps):
        at = f"{where}: field '{'.'.join(steps[: depth + 1])}'"
        match = _COUNTED.fullmatch(step) if counted else None
        name, number = match.groups() if match is not None else (step, None)
        slot = _slot(owner, name, at)
        read.append(operator.attrgetter(name))
        if number is not None:
            if not isinstance(slot, AbstractNestedType):
                raise UserError(f"{at}: '{name}' is {described(slot)}, not a list")
            slot = slot.value_type
            read.append(functools.partial(_nth, int(number)))
        if depth < len(steps) - 1:
            owner = message_class(slot, at)

    def read_all(message: Any) -> Any:
        for one in read:
            message = None if message is None else one(message)
        return message

    return read_all, slot


def _nth(number: int, values: Sequence[Any]) -> Any:
    return values[number] if number < len(values) else None


def constants(kind: Any, path: str) -> Mapping[int, str]:
    """Return the names that a message type gives the numbers which a field of it may hold, e.g. of error codes."""
    owner = kind
    for step in path.split(".")[:-1]:
        owner = message_class(_slot(owner, step, path), path)
    named = getattr(type(owner), f"_{type(owner).__name__}__constants", {})
    return {value: name for name, value in reversed(named.items()) if type(value) is int}


def is_text(slot: Any) -> bool:
    """Whether a field holds a text."""
    return isinstance(slot, AbstractString | AbstractWString)


def is_whole_number(slot: Any) -> bool:
    """Whether a field holds a whole number."""
    return isinstance(slot, BasicType) and slot.typename in _INTEGERS


def is_number(slot: Any) -> bool:
    """Whether a field holds a number."""
    return isinstance(slot, BasicType) and (slot.typename in _INTEGERS or slot.typename in ("float", "double"))


def _slot(owner: Any, name: str, where: str) -> Any:
    fields = dict(zip(owner.get_fields_and_field_types(), owner.SLOT_TYPES, strict=True))
    if name not in fields:
        there = ", ".join(fields) or "none"
        raise UserError(f"{where}: {type_name(owner)} has no field '{name}'; its fields are {there}")
    return fields[name]


def type_name(kind: Any) -> str:
    """Return the name of a message class as ROS writes it, e.g. ``std_msgs/msg/Bool``."""
    package = kind.__module__.split(".")
    return f"{package[0]}/{package[1]}/{kind.__name__}"


def message_class(slot: Any, where: str) -> Any:
    """Return the class of the messages that a field holds.

    Raises:
        UserError: It holds none.
    """
    if not isinstance(slot, NamespacedType):
        raise UserError(f"{where}: {described(slot)} has no fields of its own")
    return _message_of(slot)


def _message_of(slot: NamespacedType) -> Any:
    return getattr(importlib.import_module(".".join(slot.namespaces)), slot.name)


def described(slot: Any) -> str:
    """Say what a field holds, e.g. ``a list of geometry_msgs/msg/Pose``."""
    if isinstance(slot, NamespacedType):
        return "/".join(slot.namespaced_name())
    if isinstance(slot, AbstractNestedType):
        return f"a list of {described(slot.value_type)}"
    return slot.typename if isinstance(slot, BasicType) else "a string"


# ---- values -------------------------------------------------------------------------------------------------------


def filler(slot: Any, value: Any, where: str, names: Mapping[str, type]) -> Fill:
    """Return what makes the value of one field, see :func:`compiled`."""
    if isinstance(slot, AbstractNestedType):
        return _list_filler(slot, value, where, names)
    if isinstance(value, str) and _PLACEHOLDER.search(value):
        return _template(slot, value, where, names)
    if isinstance(slot, NamespacedType):
        if not isinstance(value, Mapping):
            raise UserError(f"{where}: {described(slot)} cannot be {value!r}; give its fields or a template")
        return compiled(_message_of(slot), value, where, names)
    fixed = constant(slot, value, where)
    return lambda values: fixed


def _list_filler(slot: Any, value: Any, where: str, names: Mapping[str, type]) -> Fill:
    match = _PLACEHOLDER.fullmatch(value) if isinstance(value, str) else None
    if match is not None and names.get(match[1]) is list and isinstance(slot.value_type, AbstractString):
        return lambda values: list(values[match[1]])
    if not isinstance(value, list):
        raise UserError(f"{where}: {described(slot)} cannot be {value!r}; give a list")
    size = slot.size if isinstance(slot, Array) else None
    most = slot.maximum_size if isinstance(slot, BoundedSequence) else None
    if (size is not None and len(value) != size) or (most is not None and len(value) > most):
        raise UserError(f"{where}: the list has {len(value)} entries; it must have {size or f'at most {most}'}")
    fillers = [filler(slot.value_type, one, f"{where}[{index}]", names) for index, one in enumerate(value)]
    return lambda values: [fill(values) for fill in fillers]


def constant(slot: Any, value: Any, where: str) -> Any:
    """Return a constant as a field of a type holds it.

    Raises:
        UserError: It does not fit the type.
    """
    wrong = UserError(f"{where}: {described(slot)} cannot be {value!r}")
    if isinstance(slot, AbstractString | AbstractWString):
        longest = getattr(slot, "maximum_size", None)
        if not isinstance(value, str) or (longest is not None and len(value) > longest):
            raise wrong
        return value
    if not isinstance(slot, BasicType):
        raise wrong
    if slot.typename == "boolean":
        if not isinstance(value, bool):
            raise wrong
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong
    if slot.typename in _INTEGERS:
        bits, unsigned = _INTEGERS[slot.typename]
        least, greatest = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if not isinstance(value, int) or not least <= value <= greatest:
            raise wrong
        return bytes([value]) if slot.typename == "octet" else value
    return float(value)


def _template(slot: Any, text: str, where: str, known: Mapping[str, type]) -> Fill:
    names = _PLACEHOLDER.findall(text)
    kinds = {name: _kind(name, text, where, known) for name in names}
    whole = text == f"{{{names[0]}}}"
    if isinstance(slot, AbstractString | AbstractWString):
        for name, kind in kinds.items():
            if kind is Pose:
                raise UserError(f"{where}: '{{{name}}}' is a pose, not a text; name a part of it, e.g. {{{name}.x}}")
        return lambda values: _PLACEHOLDER.sub(lambda match: _written(_value(values, match[1])), text)
    kind = kinds[names[0]]
    if whole and isinstance(slot, NamespacedType) and kind is Pose:
        name = described(slot)
        if name in _POSES:
            make, message = _POSES[name], _message_of(slot)
            return lambda values: make(message(), _value(values, names[0]))
    if whole and isinstance(slot, BasicType) and slot.typename != "boolean" and kind in (int, float):
        if slot.typename not in _INTEGERS:
            return lambda values: float(_value(values, names[0]))
        if kind is int:
            return lambda values: _value(values, names[0])
    if not whole:
        raise UserError(f"{where}: {described(slot)} cannot be the text {text!r}")
    raise UserError(f"{where}: {described(slot)} cannot be '{text}', which is {_WORDS[kind]}")


def _kind(name: str, text: str, where: str, known: Mapping[str, type]) -> type:
    if name in known:
        return known[name]
    thing, _, axis = name.rpartition(".")
    if known.get(thing) is Pose and axis in _AXES:
        return float
    if known.get(thing) is Pose and axis == "frame":
        return str
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


def _written(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


# ---- poses --------------------------------------------------------------------------------------------------------


def fill_pose(message: Any, pose: Pose) -> Any:
    """Write a pose into a ``geometry_msgs/msg/Pose``."""
    _fill_point(message.position, pose)
    _fill_quaternion(message.orientation, pose)
    return message


def _fill_point(message: Any, pose: Pose) -> Any:
    message.x, message.y, message.z = float(pose.x), float(pose.y), float(pose.z)
    return message


def _fill_quaternion(message: Any, pose: Pose) -> Any:
    message.x, message.y, message.z, message.w = map(float, pose.orientation)
    return message


def _fill_pose_2d(message: Any, pose: Pose) -> Any:
    message.x, message.y, message.theta = float(pose.x), float(pose.y), float(pose.yaw)
    return message


def _stamped(part: str, fill: Callable[[Any, Pose], Any]) -> Callable[[Any, Pose], Any]:
    def filled(message: Any, pose: Pose) -> Any:
        message.header.frame_id = pose.frame  # a stamp of zero: by the latest transform
        fill(getattr(message, part), pose)
        return message

    return filled


_POSES: Mapping[str, Callable[[Any, Pose], Any]] = {
    "geometry_msgs/msg/Pose": fill_pose,
    "geometry_msgs/msg/PoseStamped": _stamped("pose", fill_pose),
    "geometry_msgs/msg/Point": _fill_point,
    "geometry_msgs/msg/PointStamped": _stamped("point", _fill_point),
    "geometry_msgs/msg/Quaternion": _fill_quaternion,
    "geometry_msgs/msg/Pose2D": _fill_pose_2d,
}
