"""`robot.yaml`: which ROS action, service or topic carries out which skill, and where the robot's map comes from."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat, PrivateAttr

from reactree_ros.agent.needs import HERE, NUMBER, Need
from reactree_ros.agent.parameters import Named, Number, Person, Place, Thing, each_of
from reactree_ros.agent.picture import MOST_LOOKS, NO, YES, PictureCheck
from reactree_ros.agent.skill import WAIT, Skill, check_told_apart, read_skill, skill_of, wait_skill
from reactree_ros.agent.text import check_template, words
from reactree_ros.errors import UserError
from reactree_ros.household.household import SKILLS
from reactree_ros.household.tasks import parts_of
from reactree_ros.plugins.settings import did_you_mean, or_nearest
from reactree_ros.robot.map_file import Document, MapDocument, Source, Ways, checked, read_yaml
from reactree_ros.robot.triggers import TriggerEntry
from reactree_ros.world.port import Outcome
from reactree_ros.world.skill_policy import Range
from reactree_ros.world.tool_servers import Servers


def _in_seconds(value: float | str) -> float | str:
    if isinstance(value, str) and not re.fullmatch(r"\{[^{}]+\}", value):
        raise ValueError("write seconds, or the parameter that says them, such as '{seconds}'")
    if not isinstance(value, str) and not 0 < value < math.inf:
        raise ValueError("a time has to be more than 0 s")
    return value


def _listed(one: Any) -> Any:
    return [one] if isinstance(one, dict) else one


Named1 = Annotated[str, Field(min_length=1)]
Seconds = Annotated[FiniteFloat, Field(ge=0)]
Scalar = bool | int | float | str
#: What a field holds where it is as it should be.
Wanted = Range | list[Scalar] | Scalar
#: A time in seconds, or the parameter of a skill that says it, in braces.
Limit = Annotated[float | str, AfterValidator(_in_seconds)]
#: The type of detections that needs no further description.
DETECTION_ARRAY = "vision_msgs/msg/Detection3DArray"
#: Longest wait for a picture, and for all pictures and answers of a check, in seconds, if nothing else is said.
PICTURE_TIME, LOOK_TIME = 10.0, 60.0
#: Where skills of a robot's own are declared, for errors.
OWN_SKILLS = "config/robots/office.yaml"
#: Outcomes that the failure of a robot's server can stand for.
Failure = Literal["precondition", "execution", "postcondition", "timeout", "canceled", "world_unavailable"]


#: What only a topic has that is published on; what an answer is read by; and what each kind does without.
_OF_TOPICS = ("lasting", "every")
_OF_ANSWERS = ("success", "code", "text", "outcomes")
_NOT_FOR: Mapping[str, Sequence[str]] = {
    "publish": (*_OF_ANSWERS, "result", "rejected", "retries"),
    "wait_for": ("goal", "rejected", "retries", "cancel", *_OF_TOPICS),
    "camera": ("type", "goal", *_OF_ANSWERS, "result", "rejected", "retries", "cancel", *_OF_TOPICS),
    "steps": ("type", "goal", *_OF_ANSWERS, "result", "rejected", "retries", "cancel", *_OF_TOPICS),
    "seen": ("type", "goal", *_OF_ANSWERS, "time_limit"),
    "gone": ("type", "goal", *_OF_ANSWERS, "time_limit"),
}
#: How YAML reads an answer without quotes.
_YES_NO = {"True": YES, "False": NO}
#: A type of each kind, for errors.
_TYPES = {
    "action": "nav2_msgs/action/Spin",
    "service": "std_srvs/srv/Trigger",
    "publish": "std_msgs/msg/String",
    "wait_for": "std_msgs/msg/Bool",
}


class CallEntry(Document):
    """What is asked of the robot: an action, a service, a message on a topic, or a topic that is waited for."""

    kinds: ClassVar[tuple[str, ...]] = ("action", "service", "publish", "wait_for")

    action: str = ""  # name of an action server
    service: str = ""  # name of a service
    publish: str = ""  # name of a topic that a message is published on
    wait_for: str = ""  # name of a topic that is listened to until a message fulfils `success`
    type: str = ""  # type of it, e.g. `nav2_msgs/action/NavigateToPose`; of any package that is installed
    # fields of the goal, of the request or of the message with what is written into them: constants and templates
    goal: dict[str, Any] = {}
    # fields of the result or of the message with what they hold if it went well: a value, a list of values, numbers
    # `above` or `below` one, or a template
    success: dict[str, Wanted] = {}
    code: str = ""  # field of the result or of the message with an error code
    text: str = ""  # field of it with an error in words
    # what the error codes stand for; a code that is not named stands for `execution`, and does not end a wait
    outcomes: dict[int, Failure] = {}
    time_limit: Limit = 120.0  # longest time for all tries together, in seconds, or the parameter that says it

    def faults(self) -> Iterator[str]:
        if sum(bool(getattr(self, kind)) for kind in self.kinds) != 1:
            yield f"name one of {', '.join(self.kinds)}"
        if misplaced := [key for key in _NOT_FOR.get(self.kind, _OF_TOPICS) if key in self.model_fields_set]:
            yield f"{self.kind} has no {misplaced[0]}; leave it out"
        if self.kind in CallEntry.kinds and not self.type:
            yield f"name the type of {self.server}, such as type: {_TYPES[self.kind]}"
        if self.wait_for and not self.success:
            yield f"say with success what is waited for on {self.wait_for}, such as success: {{data: true}}"

    @property
    def kind(self) -> str:
        return next(kind for kind in self.kinds if getattr(self, kind))

    @property
    def server(self) -> str:
        return str(getattr(self, self.kind))


class CancelEntry(CallEntry):
    """What stops something that has no cancel of its own, or whose cancel is not enough."""

    kinds = ("action", "service", "publish")


class CameraEntry(Document):
    topic: Named1  # where its pictures are published
    type: Literal["sensor_msgs/msg/CompressedImage", "sensor_msgs/msg/Image"] = "sensor_msgs/msg/CompressedImage"


class SeeingEntry(CallEntry):
    """What may take a picture, too; see also :class:`CallEntry`."""

    takes: ClassVar[float] = PICTURE_TIME

    camera: str = ""  # name of a camera, whose next picture is taken, instead of an action, a service or another topic

    _topic: str = PrivateAttr("")  # of its camera

    @property
    def server(self) -> str:
        return self._topic if self.camera else super().server

    def find_camera(self, cameras: Mapping[str, CameraEntry]) -> None:
        """Take topic and type from its camera. Raises ValueError: there is no such camera."""
        if not self.camera:
            return
        if (camera := cameras.get(self.camera)) is None:
            known = did_you_mean(self.camera, cameras) if cameras else "there are none; declare it under cameras"
            raise ValueError(f"camera '{self.camera}' is none of the cameras; {known}")
        self._topic = camera.topic
        limit = {} if "time_limit" in self.model_fields_set else {"time_limit": self.takes}
        self.__dict__.update(type=camera.type, **limit)  # it is frozen for everybody else


class CheckEntry(SeeingEntry):
    """How it is seen whether something was done that was reported to be; see also :class:`SeeingEntry`."""

    kinds = ("service", "wait_for", "seen", "gone", "camera")
    takes = LOOK_TIME

    seen: str = ""  # parameter whose thing has to be detected then
    gone: str = ""  # parameter whose thing may not be detected any more
    at: str = ""  # parameter that names where it has to be detected
    question: str = ""  # what `vision` is asked about the camera's picture, with the skill's parameters in braces
    # what it answers if the skill was done: yes or no
    answer: Annotated[Literal["yes", "no"], BeforeValidator(lambda one: _YES_NO.get(str(one), one))] = "yes"
    necessary: bool = False  # whether the skill fails if nobody can see it; otherwise the observation says so
    # how many pictures it is asked about, at most; what more than half of the answers say counts
    looks: Annotated[int, Field(ge=1, le=MOST_LOOKS)] = 1
    time_limit: Limit = 5.0

    @property
    def is_detection(self) -> bool:
        return bool(self.seen or self.gone)

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        if self.at and not self.seen:
            yield "at says where a thing has to be seen; name that with seen"
        odd = {"question", "answer", "necessary", "looks"} & self.model_fields_set
        if self.camera and not self.question:
            yield "say with question what the picture is to show, such as: Is {thing} in the gripper?"
        if odd and not self.camera:
            yield f"{min(odd)} is about a picture; name its camera"

    @property
    def by_picture(self) -> PictureCheck | None:
        """How eyes see it; None: it is seen otherwise."""
        if not self.camera:
            return None
        return PictureCheck(self.question, self.answer, self.necessary, self.looks, self.camera)


class StepEntry(SeeingEntry):
    """One step of a skill; see also :class:`SeeingEntry`."""

    kinds = (*CallEntry.kinds, "camera")

    # for how long a message is published again and again, in seconds, or the parameter that says it; 0: once
    lasting: Limit = 0.0
    every: Annotated[FiniteFloat, Field(ge=0.05)] = 0.1  # time between two of these messages, in seconds
    result: dict[str, str] = {}  # fields that what the skill returns is read from, by its names
    effect: dict[Any, Any] = {}  # what it changes of what is known, of `EFFECTS`
    # what it stands for that the server does not accept a goal. `world_unavailable` does not judge the goal (a server
    # that starts, or is not active, rejects everything): it is sent again within a bound, and then the task ends
    rejected: Failure = "world_unavailable"
    retries: Annotated[int, Field(ge=0, le=10)] = 0  # how often it is tried again after it failed on the way
    # what is sent where it is stopped before its end, besides an action's own cancel; None: nothing
    cancel: CancelEntry | None = None
    # how it is seen whether it was done
    check: Annotated[list[CheckEntry], BeforeValidator(_listed)] = []


class SkillEntry(StepEntry):
    kinds = (*StepEntry.kinds, "steps")

    # how a skill of the robot's own is said, e.g. `drive forward by {distance} m`; empty: the skill is one of the
    # household's, by its name
    wording: str = ""
    parameters: dict[str, Any] = {}  # what may stand in each place of the wording, as `parameter_of` reads it
    returns: dict[str, Any] = {}  # what comes back as data, by name, likewise
    description: str = ""  # what it does, in one line for the language model
    # what has to hold when it begins, and under `while` as long as it runs, of `FACTS`; conditions by their names. Of a
    # skill of the household, it comes on top of what that needs by itself
    requires: Annotated[list[Any], BeforeValidator(_listed)] = []
    uses: list[str] = []  # what of the robot it takes, such as `base` or `arm`; empty: all of it
    # what is done one after the other, instead of one action, service or topic. The skill's own `effect` and `check`
    # are those of its last step
    steps: list[StepEntry] = []

    _wordings: Mapping[str, str] = PrivateAttr(default_factory=dict)  # of the conditions, by their names

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        if any(check.is_detection for step in self.steps for check in step.check):
            yield "steps: what is detected is looked at when all is done: write that check beside steps"

    @property
    def parts(self) -> Sequence[StepEntry]:
        return self.steps or [self]

    @property
    def takes_pictures(self) -> bool:
        return any(part.camera for part in self.parts)

    def declared(self, name: str) -> Skill:
        """Return the skill that it declares. Raises ValueError, in one line: it is none, or none of the household."""
        if {one for part in self.parts for one in part.result} != set(self.returns):
            raise ValueError(f"result has to name a field for each of returns: {', '.join(self.returns) or 'none'}")
        effect = {what: about for part in [*self.parts, self] for what, about in part.effect.items()}
        known = {skill.name: skill for skill in SKILLS}
        if self.wording:
            of = {"parameters": self.parameters, "returns": self.returns, "effect": effect}
            fields: dict[str, Any] = {"name": name, "wording": self.wording, **of}
        elif name in known:
            fields = known[name].as_data()
            if own := next((key for key in ("parameters", "returns", "effect") if getattr(self, key)), ""):
                raise ValueError(
                    f"'{name}' is a skill of a household and has its {own}; to say another, give a wording"
                )
        else:
            raise ValueError(
                "a skill of the robot's own needs a wording, e.g. wording: drive forward by {distance} m (see "
                f"{OWN_SKILLS}); those of a household are {', '.join(known)}{or_nearest(name, known)}"
            )
        more = {
            "requires": [*fields.get("requires", ()), *self.requires],
            "description": self.description,
            "uses": self.uses,
        }
        skill = skill_of({**fields, **{key: one for key, one in more.items() if one}})
        needs = tuple(worded(need, self._wordings) for need in skill.requires)
        grasps = isinstance(skill.parameters.get(skill.effect.get("held", "")), Thing)
        if self.wording and grasps and not any(need.fact == "free" for need in needs):
            needs = (Need("free", ("hand",)), *needs)
        asked = [check.time_limit for check in self.checks if not check.is_detection]
        for part in self.parts:
            asked += [part.time_limit, part.lasting]
        for limit in (*asked, self.time_limit):
            most_seconds(limit, skill)
        for check in self.check:
            for key in ("seen", "gone", "at"):
                if (about := getattr(check, key)) and about not in skill.parameters:
                    raise ValueError(
                        f"check.{key}: '{about}' is not a parameter; {did_you_mean(about, skill.parameters)}"
                    )
        for check in self.checks:
            try:
                check_template(check.question, skill.parameters)
            except ValueError as error:
                raise ValueError(f"check.question: {error}") from None
        return replace(skill, requires=needs)

    @property
    def checks(self) -> Sequence[CheckEntry]:
        return [check for one in (*self.steps, self) for check in one.check]

    @property
    def is_bounded(self) -> bool:
        """Whether its own time limit is that of all steps together."""
        return bool(self.steps) and "time_limit" in self.model_fields_set


def worded(need: Need, wordings: Mapping[str, str]) -> Need:
    """Return a need with the wordings of conditions in place of their names. Raises ValueError."""
    check_conditions(need.conditions, wordings)
    if need.fact == "condition":
        return replace(need, about=tuple(wordings[name] for name in need.about))
    return replace(need, limits=replace(need.limits, given=wordings.get(need.limits.given, "")))


def check_conditions(named: Iterable[str], known: Collection[str]) -> None:
    if unknown := [name for name in named if name not in known]:
        raise ValueError(f"'{unknown[0]}' is none of the conditions; {did_you_mean(unknown[0], known)}")


def _head(about: str) -> str:
    return about.partition("{")[0].strip()


def most_seconds(limit: Limit, skill: Skill) -> float:
    """Return the most seconds that a time may be, which a parameter may say. Raises ValueError: none does."""
    if not isinstance(limit, str):
        return limit
    said = skill.parameters.get(limit[1:-1])
    if not isinstance(said, Number) or said.unit not in ("", "s"):
        numbers = [name for name, one in skill.parameters.items() if isinstance(one, Number) and one.unit in ("", "s")]
        raise ValueError(f"a time cannot be '{limit}': its parameters in s are {', '.join(numbers) or 'none'}")
    return said.greatest


class ReachEntry(CallEntry):
    """Who plans a path without driving it: ``reactree robot check`` asks for one to every place of the map."""

    kinds = ("action", "service")

    time_limit: Limit = 10.0


class PromptEntry(Document):
    """How a detector is told what to look for; without topic and service, by the goal that asks for detections."""

    topic: str = ""  # name of a topic
    service: str = ""  # name of a service
    type: str = "std_msgs/msg/String"  # type of it
    # fields of the message or request; `{names}` is the list of names, or a text with all of them
    goal: dict[str, Any] = Field(default_factory=lambda: {"data": "{names}"})
    between: str = ", "  # what stands between two names of such a text

    def faults(self) -> Iterator[str]:
        if self.topic and self.service:
            yield "name one of topic and service"
        if (self.topic or self.service) and "{names}" not in str(self.goal):
            yield "goal: no field has '{names}', so nothing would be asked for"


class DetectionEntry(Document):
    """Where detections come from: a topic, or an action or a service that is asked when the robot looks."""

    topic: str = ""  # name of the topic
    action: str = ""  # name of an action server
    service: str = ""  # name of a service
    type: str = DETECTION_ARRAY  # type of it
    prompts: PromptEntry | None = None  # how it is told what to look for, where it takes names; None: it is not
    goal: dict[str, Any] = {}  # fields of the goal or of the request with what is written into them
    success: dict[str, Scalar] = {}  # fields of the result with what they hold where the robot could look
    objects: str = ""  # field of the message or result with the list of what is detected
    # field of one of those with its class, which the map's `objects.classes` has a word for
    class_: Annotated[str, Field(alias="class")] = ""
    pose: str = "pose"  # field of one of those with its pose, of a type of geometry_msgs
    # field of one of those with the robot's own name for it, by which it is known again; empty: it has none
    own: str = ""
    score: str = ""  # field of one of those with how certain it is; empty: what is detected is certain
    frame: str = ""  # frame of poses that name none; empty: the message's, or the map's

    def faults(self) -> Iterator[str]:
        if sum(map(bool, (self.topic, self.action, self.service))) != 1:
            yield "name one of topic, action and service"
        if self.type != DETECTION_ARRAY and not (self.objects and self.class_):
            yield f"of another type than {DETECTION_ARRAY}, objects and class have to be named"
        if self.topic and (self.goal or self.success):
            yield "a topic is not asked: leave goal and success out"
        if self.prompts is not None and not (self.prompts.topic or self.prompts.service or "{names}" in str(self.goal)):
            yield "prompts: name a topic or a service, or write {names} into a field of goal"

    @property
    def source(self) -> str:
        return self.topic or self.action or self.service


class Topic(Document):
    topic: Named1
    type: str = "std_msgs/msg/Bool"
    field: str = "data"


class ConditionEntry(Topic):
    """A condition: it holds while a field of a topic's latest message is as it should be; before, nobody knows."""

    wording: str  # how it is said, e.g. `the printer has paper`
    holds: Wanted = True  # what the field holds then: a value, one of a list, or numbers `above` and `below` others
    # if more than 0, nobody knows any more after the topic was silent for so long; else as soon as nobody publishes it
    silent_for: Seconds = 0.0

    def faults(self) -> Iterator[str]:
        if not re.fullmatch(r"[^\W_](?:[^\n{}:;]*[^\W_])?", self.wording) or len(self.wording) > 120:
            yield "wording: say it in one line of at most 120 characters, such as 'the printer has paper'"


class PoseTopic(Topic):
    """A topic that says where the robot is, instead of tf; its field has a type of geometry_msgs."""

    type: str = "geometry_msgs/msg/PoseStamped"
    field: str = ""
    frame: str = ""  # frame of a pose that names none; empty: the message's, or the map's


class ChargeEntry(Document):
    """What the robot does by itself where its battery is low; the skill policy does not judge it."""

    below: FiniteFloat  # below this level the skill under way ends, then the robot charges and tasks hold
    skill: Named1  # the skill by which it charges, as it is said, e.g. `dock`
    until: FiniteFloat  # at this level it has charged enough, and tasks go on

    def faults(self) -> Iterator[str]:
        if self.until <= self.below:
            yield f"until is {self.until:g}; it must be more than below, {self.below:g}"


class BatteryTopic(Topic):
    type: str = "sensor_msgs/msg/BatteryState"
    field: str = "percentage"
    # at this level and below, in the field's unit, nothing is begun and what is under way is stopped, but for charging
    least: FiniteFloat
    charge: ChargeEntry | None = None  # what the robot does by itself before that; None: nothing

    def faults(self) -> Iterator[str]:
        if self.charge is not None and self.charge.below <= self.least:
            yield f"charge.below is {self.charge.below:g}; it must be more than least, {self.least:g}"


class StartEntry(Document):
    """A node of the robot's own that `mobile_manipulator.launch.py` starts with the bridge."""

    package: Named1
    executable: Named1
    parameters: dict[str, Any] = {}
    environment: dict[str, str] = {}  # environment variables that it gets where they are not set


class StopEntry(Topic):
    """The emergency stop's topic."""

    engaged: Scalar = True  # what the field holds if the stop is engaged
    latched: bool = False  # whether it is published with durability transient local, so that no message is missed
    silent_for: Seconds = 0.0  # if more than 0, a topic that is silent for so long also means engaged
    fail_open: bool = False  # whether the robot may move while nobody knows: nothing was heard, or nobody publishes

    def faults(self) -> Iterator[str]:
        if self.fail_open and self.silent_for:
            yield "silent_for stops a robot that fail_open lets move; leave one of them out"
        if not (self.latched or self.silent_for or self.fail_open):
            yield (
                "a press could be missed; say latched: true (transient local), or silent_for: SECONDS (published again "
                "and again), or, where nothing else is left, fail_open: true"
            )


class HearsEntry(Topic):
    """The topic of a speech recogniser; its field is e.g. ``data`` or ``transcript[0]``."""

    topic: Named1 = "heard"
    type: str = "std_msgs/msg/String"
    partial: str = ""  # the field with what was recognised so far, if there is one: it may say `stop`, and nothing else


class SaysEntry(CallEntry):
    """What makes a speech package say ``{text}``."""

    kinds = ("action", "service", "publish")

    time_limit: Limit = 60.0


class VoiceEntry(Document):
    hears: HearsEntry = HearsEntry()  # what was said to it
    # topic with `std_msgs/msg/String` of all that the robot says; what others publish there is said, too
    speech: Named1 = "speech"
    says: SaysEntry | None = None  # a speech package that says it; None: whoever hears the topic does
    # its name. Only what begins with it is an instruction; empty: everything is that answers no question
    called: Annotated[str, Field(max_length=80)] = ""


def _topic(value: Any) -> Any:
    return ({"topic": value} if value else None) if isinstance(value, str) else value


class RobotConfig(Document):
    map: str = ""  # semantic map, a YAML file; relative to this file
    map_topic: str = ""  # or a latched topic with that YAML in a `std_msgs/msg/String`
    start: list[StartEntry] = []  # nodes of its own that the launch file starts; others are started by the robot
    base_frame: Named1 = "base_link"  # the robot's frame in tf
    # topic of transforms; `NAME_static` has those that do not change. Relative: one of its own in the robot's namespace
    tf: Named1 = "/tf"
    pose: PoseTopic | None = None  # topic that says where it is; None: tf says it
    # a drive that is reported to be done, further than this from its goal, in metres, is not; 0: it is believed
    arrived_within: Seconds = 1.0
    hands: Annotated[int, Field(ge=1, le=2)] = 1  # how many things it can hold
    # where they come from; a text is a topic with `vision_msgs/msg/Detection3DArray`; None: nowhere
    detections: Annotated[DetectionEntry | None, BeforeValidator(_topic)] = None
    # how long to wait for a detection of what is seen after a drive, an opening or a grasp, in seconds
    look_time: Annotated[FiniteFloat, Field(ge=0, le=60)] = 2.0
    battery: BatteryTopic | None = None  # how full its battery is; None: nobody says so
    reach: ReachEntry | None = None  # who plans a path for `reactree robot check`; None: nobody
    emergency_stop: StopEntry | None = None  # its topic; None, which has to be written as null: there is none
    # where pictures come from, by the camera's name; a text is a topic of compressed ones
    cameras: dict[str, Annotated[CameraEntry, BeforeValidator(_topic)]] = {}
    # the language model that is asked about pictures: `llm` with its name, and its settings; None: none is
    vision: dict[str, Any] | None = None
    # how each skill is carried out; a skill that is not named is one that the robot does not have
    skills: Annotated[dict[str, SkillEntry], Field(min_length=1)]
    conditions: dict[str, ConditionEntry] = {}  # what may be waited for, by name
    # what starts an instruction by itself, by name; the planner's parameter `triggers` names this file
    triggers: dict[str, TriggerEntry] = {}
    voice: VoiceEntry | None = None  # how people speak with it; None: they do not
    mcp: Servers = {}  # MCP servers by name, whose tools are skills of the robot, too

    _source: Source | None = PrivateAttr(None)

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        for skill in self.skills.values():
            skill._wordings = self.wordings

    def at(self, where: str, *path: str) -> str:
        """Say where an entry is: the file with its line, where it was read from one, else what is given."""
        return f"{where}: {'.'.join(path)}" if self._source is None else self._source.at(*path)

    def check_fits(self, document: MapDocument, where: str) -> None:
        """Raise UserError if what the parameters of skills ask for cannot be on a map, with what may be meant."""
        ways = Ways(document)
        for passage in (one for room in document.rooms for one in ways.leaving(room.name)):
            for said in passage.skills:
                with _located(
                    f"{self.at(where, 'skills')}: none of them passes the map's connection to {passage.to}: '{said}'"
                ):
                    read_skill(said, self.declared).check_known(document.names)
        if self.battery is not None and (charge := self.battery.charge) is not None:
            with _located(self.at(where, "battery", "charge", "skill")):
                read_skill(charge.skill, self.declared).check_known(document.names)
        known, check_needs = document.asked_by, self.check_of_needs(document)
        for skill in self.declared:
            for parameter, one in skill.parameters.items():
                with _located(self.at(where, "skills", skill.name, "parameters", parameter)):
                    if (kind := one.named) is not None:
                        for usual in each_of(one.default) if one.default is not None else ():
                            replace(kind, names=()).check_known(str(usual), document.names(kind))
                        _check_on_map(kind, document.names(kind), known)
            with _located(self.at(where, "skills", skill.name, "requires")):
                check_needs(skill.requires)

    def check_of_needs(self, document: MapDocument) -> Callable[[Iterable[Need]], None]:
        """Return what raises ValueError if a need is about what is neither on the map nor changed by any skill."""
        fixed = [one for kind in (Place(), Person()) for one in document.names(kind) or ()]
        changed = [(one.parameters.get(about), about) for one in self.declared for about in one.effect.values()]
        of_effects = [name for one, about in changed for name in ((one and one.options()) or [_head(about)])]
        known = dict.fromkeys((HERE, *fixed, *map(str, of_effects), *document.asked_by))
        words = {*known} - {parts_of(name)[0] for name in fixed}  # of what is not numbered on the map

        def check(needs: Iterable[Need]) -> None:
            for need in needs:
                among = {"hand": None} if need.fact == "free" else known
                for about in () if need.fact in ("condition", NUMBER) else need.about:
                    word, number = parts_of(about)
                    if _head(about) and _head(about) not in among and not (number and word in words):
                        what = f"'{about}' is nothing on the map, and no skill's effect names it"
                        raise ValueError(f"{need.fact}: {what}{or_nearest(about, among)}")

        return check

    def faults(self) -> Iterator[str]:
        if bool(self.map) == bool(self.map_topic):
            yield "name either a map or a map_topic"
        if self.waits and WAIT in self.skills:  # two that are said in the same words are refused by `waits`
            yield f"skills: '{WAIT}' is how conditions are waited for; give yours another name"
        if "emergency_stop" not in self.model_fields_set:
            yield "name the emergency_stop, or say emergency_stop: null where the robot has none"

    @property
    def wordings(self) -> Mapping[str, str]:
        """How each condition is said, by its name."""
        return {name: one.wording for name, one in self.conditions.items()}

    @property
    def of_household(self) -> frozenset[str]:
        """The names of the household's skills among them."""
        return frozenset(name for name, entry in self.skills.items() if not entry.wording)

    @cached_property
    def declared(self) -> tuple[Skill, ...]:
        """The skills in the household's order, then the robot's own."""
        order = {skill.name: number for number, skill in enumerate(SKILLS)}
        declared = [entry.declared(name) for name, entry in self.skills.items()]
        return tuple(sorted(declared, key=lambda skill: order.get(skill.name, len(order))))

    @property
    def grasped(self) -> frozenset[str]:
        """The properties that skills ask for in what they take into a hand: those of things nobody has described."""
        taken = [(skill, skill.effect.get("held", "")) for skill in self.declared]
        kinds = [skill.parameters.get(name) for skill, name in taken if name]
        return frozenset(one.which for one in kinds if isinstance(one, Named) and one.which.isupper())

    @property
    def waits(self) -> tuple[Skill, ...]:
        """The skill by which conditions are waited for, where there are any."""
        return (wait_skill([*self.wordings.values()]),) if self.conditions else ()


def _check_on_map(wanted: Named, there: Sequence[str] | None, known: Sequence[str]) -> None:
    for name in wanted.names if there else ():
        type(wanted)().check_known(name, there)
    which = wanted.which
    if which and not any(f" {word}".endswith(f" {which}") for word in known):
        raise ValueError(
            f"'{which}' is neither property nor word of the map; describe it under words{or_nearest(which, known)}"
        )


def _tell_apart(skill: Skill, others: dict[tuple[str, ...], list[Skill]]) -> None:
    # one whose first words go on, or end, where the other one's do
    head, end = tuple(words(skill.verb)), ""
    begun = [head[:count] for count in range(1, len(head) + 1)]
    ends = [(*each, end) for each in begun]
    check_told_apart(skill, [one for each in (head, *ends[:-1]) for one in others[each]])
    for each in (*begun, ends[-1]):
        others[each].append(skill)


@contextmanager
def _located(where: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


#: The codes with which `nav2_msgs/action/NavigateToPose` of Jazzy ends: those of its path planner and its controller.
NAV2_CODES: Mapping[int, tuple[str, Outcome]] = {
    int(code): (name, Outcome(outcome))
    for code, (name, outcome) in json.loads(Path(__file__).with_name("nav2_codes.json").read_text()).items()
}


def error_code(entry: CallEntry, code: int) -> tuple[str, Outcome]:
    """Return the name of an error code of a skill's server, if it is known, and what it stands for."""
    known = NAV2_CODES.get(code) if entry.type.startswith("nav2_msgs/action/Navigate") else None
    name, outcome = known or ("", Outcome.EXECUTION)
    return name, Outcome(entry.outcomes[code]) if code in entry.outcomes else outcome


def load_robot(path: str | Path) -> RobotConfig:
    """Read `robot.yaml`. Raises UserError: the file cannot be used; the message names file, line, field and value."""
    if not str(path):
        raise UserError("parameter robot_config is empty; name a file like config/robot.yaml")
    source = read_yaml(path)
    config = checked(RobotConfig, source, {"skills": OWN_SKILLS})
    told_apart: dict[tuple[str, ...], list[Skill]] = defaultdict(list)  # by how they begin: others share no text
    for skill in config.waits:
        _tell_apart(skill, told_apart)
    for name, entry in config.skills.items():
        with _located(source.at("skills", name)):
            for one in (*entry.parts, *entry.checks):
                one.find_camera(config.cameras)
            skill = entry.declared(name)
            _tell_apart(skill, told_apart)
            if config.detections is None and any(check.is_detection for check in entry.check):
                raise ValueError("check: nothing is detected; name the detections, or check otherwise")
            if config.vision is None and any(check.camera for check in entry.checks):
                raise ValueError("check: nobody looks at pictures; name the vision, or check otherwise")
    for name, trigger in config.triggers.items():
        with _located(source.at("triggers", name, "when")):
            check_conditions([trigger.when] if trigger.when else [], config.conditions)
    if config.battery is not None and (charge := config.battery.charge) is not None:
        with _located(source.at("battery", "charge", "skill")):
            read_skill(charge.skill, config.declared)
    if config.map:
        config = config.model_copy(update={"map": str(Path(path).parent / config.map)})
    config._source = source
    return config
