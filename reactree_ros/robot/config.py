"""`robot.yaml`: which ROS action or service carries out which skill, and where the robot's map comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, FiniteFloat, PrivateAttr, model_validator

from reactree_ros.agent.parameters import Named
from reactree_ros.agent.skill import Bounds, Skill, skill_of
from reactree_ros.errors import UserError
from reactree_ros.household.household import SKILLS
from reactree_ros.plugins.settings import or_nearest
from reactree_ros.robot.map_file import Document, MapDocument, Source, checked, read_yaml
from reactree_ros.world.port import Outcome

Scalar = bool | int | float | str
Seconds = Annotated[FiniteFloat, Field(gt=0)]
#: The type of detections that needs no further description.
DETECTION_ARRAY = "vision_msgs/msg/Detection3DArray"
#: Outcomes that the failure of a robot's server can stand for.
Failure = Literal["precondition", "execution", "postcondition", "timeout", "canceled", "world_unavailable"]


class ServerEntry(Document):
    """A server of the robot, and what it is asked for.

    Attributes:
        action: Name of an action server; or
        service: name of a service.
        type: Type of it, e.g. ``nav2_msgs/action/NavigateToPose``; of any package that is installed.
        goal: Fields of the goal or of the request with what is written into them: constants and templates.
        success: Fields of the result with what they hold where it went well.
        code: Field of the result with an error code.
        text: Field of the result with an error in words.
    """

    action: str = ""
    service: str = ""
    type: str
    goal: dict[str, Any] = Field(default_factory=dict)
    success: dict[str, Scalar] = Field(default_factory=dict)
    code: str = ""
    text: str = ""

    @model_validator(mode="after")
    def _one_server(self) -> ServerEntry:
        if bool(self.action) == bool(self.service):
            raise ValueError("name either an action or a service")
        return self

    @property
    def server(self) -> str:
        """Name of the action or the service."""
        return self.action or self.service


class SkillEntry(ServerEntry):
    """A skill, and how it is carried out.

    Attributes:
        wording: How a skill of the robot's own is said, e.g. ``drive forward by {distance} m``; empty: the skill is one
            of the household's, by its name.
        parameters: What may stand in each place of the wording, as :func:`~reactree_ros.agent.parameters.parameter_of`
            reads it.
        returns: What comes back as data, by name, likewise.
        result: Fields of the result that it is read from, by the same names.
        effect: What it changes of what is known, of :data:`~reactree_ros.agent.skill.EFFECTS`.
        outcomes: What the error codes stand for; a code that is not named stands for ``execution``.
        rejected: What it stands for that the server does not accept a goal. With ``world_unavailable`` it is no word on
            the goal (a server that starts, or is not active, rejects everything): it is sent again within a bound, and
            then the task ends.
        time_limit: Longest time for all tries together, in seconds.
        retries: How often it is tried again after it failed on the way.
    """

    wording: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)
    returns: dict[str, Any] = Field(default_factory=dict)
    result: dict[str, str] = Field(default_factory=dict)
    effect: dict[str, Any] = Field(default_factory=dict)
    outcomes: dict[int, Failure] = Field(default_factory=dict)
    rejected: Failure = "world_unavailable"
    time_limit: Seconds = 120.0
    retries: Annotated[int, Field(ge=0, le=10)] = 0

    def declared(self, name: str) -> Skill:
        """Return the skill that it declares.

        Raises:
            ValueError: It is none, or no skill of the household has the name; the message is one line.
        """
        if set(self.result) != set(self.returns):
            raise ValueError(f"result has to name a field for each of returns: {', '.join(self.returns) or 'none'}")
        known = {skill.name: skill for skill in SKILLS}
        if self.wording:
            own = ("wording", "parameters", "returns", "effect")
            skill = skill_of({"name": name, **{part: getattr(self, part) for part in own}})
        elif name in known:
            skill = known[name]
        else:
            raise ValueError(
                "a skill of the robot's own needs a wording, e.g. wording: drive forward by {distance} m; those of a "
                f"household are {', '.join(known)}{or_nearest(name, known)}"
            )
        outcomes = {code: Outcome(outcome) for code, outcome in self.outcomes.items()}
        return replace(skill, outcomes=outcomes, bounds=Bounds(self.time_limit, self.retries))


class ReachEntry(ServerEntry):
    """Who plans a path without driving it: ``reactree robot check`` asks for one to every place of the map.

    Attributes:
        time_limit: Longest time for one path, in seconds.
    """

    time_limit: Seconds = 10.0


class DetectionEntry(Document):
    """Where detections come from: a topic, or an action or a service that is asked when the robot looks.

    Attributes:
        topic: Name of the topic; or
        action: name of an action server; or
        service: name of a service.
        type: Type of it.
        goal: Fields of the goal or of the request with what is written into them.
        success: Fields of the result with what they hold where the robot could look.
        objects: Field of the message or result with the list of what is detected.
        class_: Field of one of those with its class, which the map's ``objects.classes`` has a word for.
        pose: Field of one of those with its pose, of a type of geometry_msgs.
        own: Field of one of those with the robot's own name for it, by which it is known again; empty: it has none.
        score: Field of one of those with how certain it is; empty: what is detected is certain.
        frame: Frame of poses that name none; empty: the message's, or the map's.
    """

    topic: str = ""
    action: str = ""
    service: str = ""
    type: str = DETECTION_ARRAY
    goal: dict[str, Any] = Field(default_factory=dict)
    success: dict[str, Scalar] = Field(default_factory=dict)
    objects: str = ""
    class_: Annotated[str, Field(alias="class")] = ""
    pose: str = "pose"
    own: str = ""
    score: str = ""
    frame: str = ""

    @model_validator(mode="after")
    def _one_source(self) -> DetectionEntry:
        if sum(map(bool, (self.topic, self.action, self.service))) != 1:
            raise ValueError("name one of topic, action and service")
        if self.type != DETECTION_ARRAY and not (self.objects and self.class_):
            raise ValueError(f"of another type than {DETECTION_ARRAY}, objects and class have to be named")
        if self.topic and (self.goal or self.success):
            raise ValueError("a topic is not asked: leave goal and success out")
        return self

    @property
    def source(self) -> str:
        """Name of the topic, the action or the service."""
        return self.topic or self.action or self.service


class PoseTopic(Document):
    """A topic that says where the robot is, instead of tf.

    Attributes:
        topic: Its name.
        type: Its type.
        field: The field with the pose, of a type of geometry_msgs.
        frame: Frame of a pose that names none; empty: the message's, or the map's.
    """

    topic: Annotated[str, Field(min_length=1)]
    type: str = "geometry_msgs/msg/PoseStamped"
    field: str = ""
    frame: str = ""


class BatteryTopic(Document):
    """A topic that says how full the battery is.

    Attributes:
        topic: Its name.
        type: Its type.
        field: The field with the level.
        least: At this level and below, in the field's unit, nothing is begun and what is under way is stopped.
    """

    topic: Annotated[str, Field(min_length=1)]
    type: str = "sensor_msgs/msg/BatteryState"
    field: str = "percentage"
    least: FiniteFloat


class StartEntry(Document):
    """A node of the robot's own that `mobile_manipulator.launch.py` starts with the bridge.

    Attributes:
        package: Its package.
        executable: Its executable.
        parameters: Its parameters.
        environment: Environment variables that it gets where they are not set.
    """

    package: Annotated[str, Field(min_length=1)]
    executable: Annotated[str, Field(min_length=1)]
    parameters: dict[str, Any] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)


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


def _topic(value: Any) -> Any:
    return ({"topic": value} if value else None) if isinstance(value, str) else value


class RobotConfig(Document):
    """A robot.

    Attributes:
        map: Semantic map, a YAML file; relative to this file. Or
        map_topic: latched topic with that YAML in a ``std_msgs/msg/String``.
        start: Nodes of its own that the launch file starts; others are started by the robot.
        base_frame: The robot's frame in tf.
        pose: Topic that says where it is; None: tf says it.
        arrived_within: A drive that is reported to be done further than this from where it was to end, in metres, is
            not; 0: it is believed.
        hands: How many things it can hold.
        detections: Where they come from; a text is a topic with ``vision_msgs/msg/Detection3DArray``; None: nowhere.
        look_time: How long to wait for a detection of what is seen after a drive, an opening or a grasp, in seconds.
        battery: How full its battery is; None: nobody says so.
        reach: Who plans a path for ``reactree robot check``; None: nobody.
        emergency_stop: Its topic; None, which has to be written as null: there is none.
        skills: How each skill is carried out; a skill that is not named is one that the robot does not have.
    """

    map: str = ""
    map_topic: str = ""
    start: list[StartEntry] = Field(default_factory=list)
    base_frame: Annotated[str, Field(min_length=1)] = "base_link"
    pose: PoseTopic | None = None
    arrived_within: Annotated[FiniteFloat, Field(ge=0)] = 1.0
    hands: Annotated[int, Field(ge=1, le=2)] = 1
    detections: Annotated[DetectionEntry | None, BeforeValidator(_topic)] = None
    look_time: Annotated[FiniteFloat, Field(ge=0, le=60)] = 2.0
    battery: BatteryTopic | None = None
    reach: ReachEntry | None = None
    emergency_stop: StopEntry | None = None
    skills: Annotated[dict[str, SkillEntry], Field(min_length=1)]

    _source: Source | None = PrivateAttr(None)

    def at(self, where: str, *path: str) -> str:
        """Say where an entry is: the file with its line, where it was read from one, else what is given."""
        return f"{where}: {'.'.join(path)}" if self._source is None else self._source.at(*path)

    def check_fits(self, document: MapDocument, where: str) -> None:
        """Look whether what the parameters of skills ask for can be on a map.

        Raises:
            UserError: It cannot; the message names the parameter and what may have been meant.
        """
        known = document.asked_by
        for name, entry in self.skills.items():
            for parameter, one in entry.declared(name).parameters.items():
                which = one.which if isinstance(one, Named) else ""
                if which and not any(f" {word}".endswith(f" {which}") for word in known):
                    raise UserError(
                        f"{self.at(where, 'skills', name, 'parameters', parameter)}: '{which}' is no property and no "
                        f"word of the map; describe it there under words{or_nearest(which, known)}"
                    )

    @model_validator(mode="after")
    def _one_map(self) -> RobotConfig:
        if bool(self.map) == bool(self.map_topic):
            raise ValueError("name either a map or a map_topic")
        return self

    @property
    def of_household(self) -> frozenset[str]:
        """The names of the household's skills among them."""
        return frozenset(name for name, entry in self.skills.items() if not entry.wording)

    @property
    def declared(self) -> tuple[Skill, ...]:
        """The skills in the household's order, then the robot's own."""
        order = {skill.name: number for number, skill in enumerate(SKILLS)}
        declared = [entry.declared(name) for name, entry in self.skills.items()]
        return tuple(sorted(declared, key=lambda skill: order.get(skill.name, len(order))))

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
        UserError: The file cannot be used; the message names file, line, field and value.
    """
    if not str(path):
        raise UserError("parameter robot_config is empty; name a file like config/robot.yaml")
    source = read_yaml(path)
    config = checked(RobotConfig, source)
    for name, entry in config.skills.items():
        try:
            entry.declared(name)
        except ValueError as error:
            raise UserError(f"{source.at('skills', name)}: {error}") from None
    if config.map:
        config = config.model_copy(update={"map": str(Path(path).parent / config.map)})
    config._source = source
    return config
