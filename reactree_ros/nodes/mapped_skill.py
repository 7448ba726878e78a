"""A skill as its server knows it: the goal that it is sent as, and what the server's result means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from action_msgs.msg import GoalStatus

from reactree_ros.agent.parameters import Named, Number, Parameter, ParameterError, Text, Value
from reactree_ros.agent.skill import Skill, SkillCall
from reactree_ros.agent.text import shortened_line
from reactree_ros.errors import UserError
from reactree_ros.nodes.goal_templates import (
    NAMES,
    Fill,
    Values,
    check_name,
    compiled,
    constant,
    constants,
    is_text,
    is_whole_number,
    names_of,
    reader,
    resolve,
)
from reactree_ros.robot.config import SkillEntry, error_code
from reactree_ros.robot.house import MapThing
from reactree_ros.robot.poses import Pose
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.world.port import Outcome


class MappedSkill:
    """How a skill is carried out, checked against its type.

    Args:
        entry: What `robot.yaml` says.
        where: What errors begin with.
        skill: The skill that it declares; None: it is no skill.

    Raises:
        UserError: The type is not there, or a field does not fit it.
    """

    def __init__(self, entry: SkillEntry, where: str, skill: Skill | None = None) -> None:
        self.entry, self.skill = entry, skill
        check_name(entry.server, where)
        self.type = resolve("action" if entry.action else "service", entry.type, where)
        goal, result = (self.type.Goal, self.type.Result) if entry.action else (self.type.Request, self.type.Response)
        names = NAMES if skill is None else names_of(skill)
        self.fill = compiled(goal, entry.goal, f"{where}: goal", names)
        if skill is not None:
            _try(self.fill, names, skill, f"{where}: goal")
        of = {} if skill is None else entry.result
        self._returns = {name: reader(result, path, f"{where}: result")[0] for name, path in of.items()}
        self._success = []
        for path, value in entry.success.items():
            read, slot = reader(result, path, f"{where}: success")
            self._success.append((path, read, constant(slot, value, f"{where}: success: field '{path}'")))
        self._code = _reader(result, entry.code, "error_code", is_whole_number, f"{where}: code")
        self._codes = constants(result, entry.code)
        self._text = _reader(result, entry.text, "error_msg", is_text, f"{where}: text")

    def verdict(self, status: int, result: Any) -> tuple[Outcome, str, bool]:
        """Say how a goal ended: ``DONE`` or another outcome, the reason in words, and whether the server gave one."""
        if status == GoalStatus.STATUS_CANCELED:
            return Outcome.CANCELED, f"somebody else canceled it on {self.entry.server}", True
        unlike = [(path, read(result)) for path, read, wanted in self._success if read(result) != wanted]
        if status == GoalStatus.STATUS_SUCCEEDED and not unlike:
            return Outcome.DONE, "", True
        code = int(self._code(result)) if self._code is not None else 0
        known = error_code(self.entry, code)
        reasons = [
            known.name or (self._codes.get(code, "") if code else ""),
            f"error code {code}" if code else "",
            str(self._text(result)).strip().removesuffix(".") if self._text is not None else "",
        ]
        if not any(reasons):
            reasons = [f"{path} is {value}" for path, value in unlike if status == GoalStatus.STATUS_SUCCEEDED]
        said = ", ".join(filter(None, reasons))
        return known.outcome, f"{self.entry.server}: {said or 'it was aborted without an error code'}", bool(said)

    def returned(self, result: Any) -> dict[str, Value]:
        """Return what a result brings as data.

        Raises:
            ParameterError: Something is not what the skill returns.
        """
        data: dict[str, Value] = {}
        for name, read in self._returns.items():
            assert self.skill is not None  # what returns something is a skill
            try:
                data[name] = self.skill.returns[name].read(read(result))
            except ParameterError as error:
                raise ParameterError(f"it returned {name}: {error}") from None
        return data


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
    """Return the poses that templates may name, as the map has them."""
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
