"""`robot.yaml`: which ROS action or service carries out which skill, and where the robot's map comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, model_validator

from reactree_ros.errors import UserError
from reactree_ros.world.port import Outcome
from reactree_ros.world.robot.map_file import Document, checked, read_yaml

Verb = Literal["go to", "pick up", "put down", "open", "close", "turn on", "turn off"]
Scalar = bool | int | float | str
Seconds = Annotated[FiniteFloat, Field(gt=0)]
#: Outcomes that the failure of a robot's server can stand for.
Failure = Literal["precondition", "execution", "postcondition", "timeout", "canceled", "world_unavailable"]


class SkillEntry(Document):
    """How a skill is carried out.

    Attributes:
        action: Name of an action server; or
        service: name of a service.
        type: Type of it, e.g. ``nav2_msgs/action/NavigateToPose``; of any package that is installed.
        goal: Fields of the goal or of the request with what is written into them: constants and templates.
        success: Fields of the result with what they hold where it went well.
        code: Field of the result with an error code.
        text: Field of the result with an error in words.
        outcomes: What the error codes stand for; a code that is not named stands for ``execution``.
        rejected: What it stands for that the server does not accept a goal. With ``world_unavailable`` it is no word on
            the goal (a server that starts, or is not active, rejects everything): it is sent again within a bound, and
            then the task ends.
        time_limit: Longest time for all tries together, in seconds.
        retries: How often it is tried again after it failed on the way.
    """

    action: str = ""
    service: str = ""
    type: str
    goal: dict[str, Any] = Field(default_factory=dict)
    success: dict[str, Scalar] = Field(default_factory=dict)
    code: str = ""
    text: str = ""
    outcomes: dict[int, Failure] = Field(default_factory=dict)
    rejected: Failure = "world_unavailable"
    time_limit: Seconds = 120.0
    retries: Annotated[int, Field(ge=0, le=10)] = 0

    @model_validator(mode="after")
    def _one_server(self) -> SkillEntry:
        if bool(self.action) == bool(self.service):
            raise ValueError("name either an action or a service")
        return self

    @property
    def server(self) -> str:
        """Name of the action or the service."""
        return self.action or self.service


class StopEntry(Document):
    """The emergency stop's topic.

    Attributes:
        topic: Its name.
        type: Its type.
        field: The field that says whether the stop is engaged.
        engaged: What the field holds then.
        latched: Whether it is published reliably with durability transient local, so that no message is missed.
        silent_for: Where this is more than 0, a topic that is silent for so long, in seconds, also means engaged.
        fail_open: Whether the robot may move while nobody knows: the topic was not heard yet, or nobody publishes it.
    """

    topic: Annotated[str, Field(min_length=1)]
    type: str = "std_msgs/msg/Bool"
    field: str = "data"
    engaged: Scalar = True
    latched: bool = False
    silent_for: Annotated[FiniteFloat, Field(ge=0)] = 0.0
    fail_open: bool = False

    @model_validator(mode="after")
    def _safe_or_said_to_be_open(self) -> StopEntry:
        if self.fail_open and self.silent_for:
            raise ValueError("silent_for stops a robot that fail_open lets move; leave one of them out")
        if not (self.latched or self.silent_for or self.fail_open):
            raise ValueError(
                "a press could be missed; say latched: true (transient local), or silent_for: SECONDS (published again "
                "and again), or, where nothing else is left, fail_open: true"
            )
        return self


class RobotConfig(Document):
    """A robot.

    Attributes:
        map: Semantic map, a YAML file; relative to this file. Or
        map_topic: latched topic with that YAML in a ``std_msgs/msg/String``.
        base_frame: The robot's frame in tf.
        hands: How many things it can hold.
        detections: Topic with ``vision_msgs/msg/Detection3DArray``; empty: none.
        look_time: How long to wait for a detection of what is seen after an arrival or an opening, in seconds.
        emergency_stop: Its topic; None, which has to be written as null: there is none.
        skills: How each skill is carried out; a skill that is not named is one that the robot does not have.
    """

    map: str = ""
    map_topic: str = ""
    base_frame: Annotated[str, Field(min_length=1)] = "base_link"
    hands: Annotated[int, Field(ge=1, le=2)] = 1
    detections: str = ""
    look_time: Annotated[FiniteFloat, Field(ge=0, le=60)] = 2.0
    emergency_stop: StopEntry | None = None
    skills: Annotated[dict[Verb, SkillEntry], Field(min_length=1)]

    @model_validator(mode="after")
    def _one_map(self) -> RobotConfig:
        if bool(self.map) == bool(self.map_topic):
            raise ValueError("name either a map or a map_topic")
        return self

    @model_validator(mode="after")
    def _stop_is_spoken_of(self) -> RobotConfig:
        if "emergency_stop" not in self.model_fields_set:
            raise ValueError("name the emergency_stop, or say emergency_stop: null where the robot has none")
        return self


@dataclass(frozen=True)
class ErrorCode:
    """What an error code of Nav2 stands for."""

    name: str
    outcome: Outcome


_NAV2 = """
100 FOLLOW_PATH_UNKNOWN execution
101 INVALID_CONTROLLER world_unavailable
102 FOLLOW_PATH_TF_ERROR world_unavailable
103 INVALID_PATH execution
104 PATIENCE_EXCEEDED execution
105 FAILED_TO_MAKE_PROGRESS execution
106 NO_VALID_CONTROL execution
107 CONTROLLER_TIMED_OUT timeout
200 COMPUTE_PATH_UNKNOWN execution
201 INVALID_PLANNER world_unavailable
202 COMPUTE_PATH_TF_ERROR world_unavailable
203 START_OUTSIDE_MAP precondition
204 GOAL_OUTSIDE_MAP precondition
205 START_OCCUPIED precondition
206 GOAL_OCCUPIED precondition
207 PLANNER_TIMED_OUT timeout
208 NO_VALID_PATH execution
"""

#: The codes with which `nav2_msgs/action/NavigateToPose` of Jazzy ends: those of its path planner and its controller.
NAV2_CODES: Mapping[int, ErrorCode] = {
    int(code): ErrorCode(name, Outcome(outcome)) for code, name, outcome in map(str.split, _NAV2.strip().splitlines())
}


def error_code(entry: SkillEntry, code: int) -> ErrorCode:
    """Say what an error code of a skill's server stands for."""
    known = NAV2_CODES.get(code) if entry.type.startswith("nav2_msgs/action/Navigate") else None
    name = known.name if known is not None else ""
    if code in entry.outcomes:
        return ErrorCode(name, Outcome(entry.outcomes[code]))
    return known or ErrorCode(name, Outcome.EXECUTION)


def load_robot(path: str | Path) -> RobotConfig:
    """Read `robot.yaml`.

    Raises:
        UserError: The file cannot be used; the message names file, field and value.
    """
    if not str(path):
        raise UserError("parameter robot_config is empty; name a file like config/robot.yaml")
    config = checked(RobotConfig, read_yaml(path), where=str(path))
    if config.map:
        config = config.model_copy(update={"map": str(Path(path).parent / config.map)})
    return config
