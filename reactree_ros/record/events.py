"""The fields of each kind of event in a record; the check of a record is made from them.

``docs/reference/record.md`` describes them in words. An event may have further fields, which nobody reads.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, core_schema
from typing_extensions import NotRequired, TypedDict

from reactree_ros.agent.control_flow import known_flows
from reactree_ros.agent.observation import Outcome
from reactree_ros.agent.picture import SUFFIXES
from reactree_ros.agent.turns import About
from reactree_ros.memory.experience import End
from reactree_ros.tree.failure import FailureKind


class _AnyText:
    """A text, even with half a surrogate pair, which pydantic's own check refuses."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.json_or_python_schema(core_schema.str_schema(), core_schema.is_instance_schema(str))


class _OneOf:
    """A value of an enumeration, or one of several texts; a function gives the texts when the check is made."""

    def __init__(self, kind: type[enum.Enum] | tuple[str, ...] | Callable[[], tuple[str, ...]]) -> None:
        self._kind = kind

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        kind = self._kind
        if isinstance(kind, enum.EnumMeta):
            return core_schema.literal_schema([one.value for one in kind])
        return core_schema.literal_schema(list(kind if isinstance(kind, tuple) else kind()))


def _flows() -> tuple[str, ...]:
    return tuple(flow.name for flow in known_flows())


_FLOW = _OneOf(_flows)


#: The largest whole number that every reader takes for the same; JavaScript's, too.
LARGEST = 2**53 - 1
Text = Annotated[str, _AnyText()]
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Whole = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Number = Annotated[float, Field(ge=-1e15, le=1e15)]
#: Statuses of behaviours, and kinds of behaviours apart from control flows.
STATUSES = ("running", "success", "failure", "interrupted")
KINDS = ("agent", "goal", "skill", "other")


class Timed(TypedDict):
    """What every event holds."""

    t: Annotated[float, Field(ge=0, le=1e9)]


class Turn(TypedDict, total=False):
    """A turn, or a decision, whose fields its kind declares: the reader looks at them."""

    told: Text
    about: Annotated[str, _OneOf(About)]
    system: Text
    examples: list[list[Turn]]
    rule: Text
    said: Text
    saw: Text


class Named(TypedDict):
    """A planner."""

    name: Text
    options: dict[str, Any]


class WorldOf(TypedDict, total=False):
    """The world."""

    name: Text
    suite: Text
    settings: dict[str, Any]
    scored: bool
    house: Text | int
    policy: list[dict[str, Any]]


class HouseholdOf(TypedDict, total=False):
    """A household; missing fields are noticed when the household is made from it."""

    name: Text
    actions: list[Text]
    control_flows: dict[Annotated[str, _FLOW], Text]
    naming: Text
    rules: Text
    free_skills: bool
    start_line: Text
    max_decisions: Count
    max_steps: Count
    prompts: Text
    skills: list[dict[str, Any]]


class Model(TypedDict, total=False):
    """The language model."""

    llm: Text


class Limits(TypedDict):
    """What the run may take."""

    decisions: Count
    steps: Count


class Parent(TypedDict):
    """The record that this one continues."""

    id: Text
    path: NotRequired[Text | None]
    decision: NotRequired[Count]


class Run(Timed):
    """The first event."""

    schema: Count
    id: Text
    started: Text
    versions: dict[str, Text]
    instruction: Text
    task_id: Whole | Text | None
    task_name: Text
    planner: Named
    working_memory: bool
    world: WorldOf
    household: HouseholdOf
    recallable: list[Text]
    words: NotRequired[list[Text]]
    llm: Model
    vision: NotRequired[Model]
    memory: NotRequired[Text]
    options: dict[str, Any]
    limits: Limits
    robots: NotRequired[list[Text]]
    person: NotRequired[bool]
    parent: NotRequired[Parent | None]
    seal: NotRequired[Text]


class GrownNode(TypedDict):
    """A behaviour that appears."""

    node: Count
    parent: Count | None
    kind: Annotated[str, _OneOf(lambda: (*KINDS, *_flows()))]
    name: Text
    subgoal: NotRequired[Text]
    depth: NotRequired[Count]
    policy: NotRequired[Text]


class Grow(Timed):
    """Behaviours appear."""

    nodes: list[GrownNode]


class Robot(Timed):
    """A robot has a behaviour."""

    node: Count
    robot: Text


class Status(Timed):
    """Statuses change: a behaviour, its status, and what it says of it."""

    of: list[Annotated[list[Count | Text], Field(min_length=2, max_length=3)]]


class Started(Timed):
    """A goal node begins."""

    node: Count
    index: Count
    decision: Count


class ExperienceOf(TypedDict):
    """An experience that is an example."""

    subgoal: Text
    end: Annotated[str, _OneOf(End)]
    task_id: Text
    task_name: Text
    decision: Count
    depth: Count
    similarity: NotRequired[Number]
    turns: list[Turn]


class FitOf(TypedDict):
    """A routine that fits."""

    routine: dict[str, Any]
    values: dict[str, Text]
    near: NotRequired[bool]


class RoutinesOf(Timed):
    """The routines that fit a node's goal."""

    node: Count
    fits: list[FitOf]


class RoutineEnded(Timed):
    """A routine has ended."""

    node: Count
    routine: Text
    differed: Text


class Retrieved(Timed):
    """Examples are found."""

    node: Count
    experiences: list[ExperienceOf]


class Start(Timed):
    """The start of prompts."""

    id: Count
    turns: list[Turn]


class MaySay(TypedDict):
    """The limits on what a reply may say."""

    kind: Annotated[str, _OneOf(("decision", "subgoal", "choice", "text"))]
    skills: NotRequired[Count]
    free: NotRequired[bool]
    control_flows: NotRequired[list[Annotated[str, _FLOW]]]
    questions: NotRequired[Count]
    more: NotRequired[list[Text]]
    options: NotRequired[list[Text]]
    stops: NotRequired[list[Text]]


class Request(Timed):
    """The model is asked."""

    node: Count
    id: Text
    start: NotRequired[Count]
    turns: NotRequired[Annotated[list[Count], Field(min_length=2, max_length=2)]]
    own: NotRequired[list[Turn]]
    may_say: MaySay
    begun: NotRequired[Text]
    max_tokens: NotRequired[Count]
    temperature: NotRequired[Number]
    seed: NotRequired[Whole]
    top_p: NotRequired[Number]


class AttemptOf(TypedDict, total=False):
    """One request for a reply."""

    text: Text
    objection: Text
    finish_reason: Text
    constraint: Text
    asked: Text
    prompt_tokens: Count | None
    cached_tokens: Count | None
    output_tokens: Count | None
    seconds: Number


class ReplyOf(TypedDict):
    """What the model answers."""

    text: Text
    said: NotRequired[list[Turn]]
    finish_reason: NotRequired[Text]
    objection: NotRequired[Text]
    reasoning: NotRequired[Text]
    answered_by: NotRequired[Text]
    seconds: NotRequired[Number]
    prompt_tokens: NotRequired[Count | None]
    longest_prompt: NotRequired[Count | None]
    cached_tokens: NotRequired[Count | None]
    output_tokens: NotRequired[Count | None]
    reasoning_tokens: NotRequired[Count | None]
    tried_prompt_tokens: NotRequired[Count]
    tried_output_tokens: NotRequired[Count]
    pictures: NotRequired[Count]
    picture_tokens: NotRequired[Count]
    warning: NotRequired[Text]
    attempts: NotRequired[list[AttemptOf]]


class Reply(Timed, ReplyOf):
    """The model answers."""

    node: Count
    id: Text


class Answer(Timed):
    """A person answers."""

    node: Count
    id: Text
    text: Text
    by: Text


class Heard(Timed):
    """A person says something."""

    text: Text


class Skills(Timed):
    """The skills offered now, as changes since the last time."""

    robot: NotRequired[Text]
    at: NotRequired[Count]
    added: NotRequired[list[Text | dict[str, Any]]]
    removed: NotRequired[list[Text | dict[str, Any]]]


class Corrections(Timed):
    """What a person may correct, as declared statements."""

    node: Count
    robot: NotRequired[Text]
    offers: list[dict[str, Any]]


class TurnOf(Timed, Turn):
    """A node's next turn."""

    node: Count
    anew: NotRequired[bool]


class Decided(Timed, Turn):
    """A decision is taken."""

    node: Count
    decisions: Count
    steps: Count


class Refused(Decided):
    """A decision is not taken."""

    reason: Text


class Skill(Timed):
    """A skill goes to the world."""

    node: Count
    skill: Text
    robot: NotRequired[Text]


class SeenThing(TypedDict):
    """An object that is seen."""

    word: Text
    instance: Whole
    room: NotRequired[Text | None]
    place: NotRequired[Text | None]
    held: NotRequired[bool]
    states: NotRequired[list[Text]]


class SpotOf(TypedDict):
    """Where something is."""

    name: Text
    x: Number
    y: Number
    yaw: NotRequired[Number | None]
    outline: NotRequired[list[Annotated[list[Number], Field(min_length=2, max_length=2)]]]


class PictureOf(TypedDict):
    """A picture; its bytes where they come first."""

    id: Text
    media: Annotated[str, _OneOf(tuple(SUFFIXES))]
    width: NotRequired[Count]
    height: NotRequired[Count]
    size: Count
    camera: NotRequired[Text]
    frame: NotRequired[Text]
    time: NotRequired[Number]
    words: NotRequired[Text]
    data: NotRequired[str]


class GlanceOf(TypedDict):
    """A question about a picture, and what came of it."""

    question: Text
    answer: NotRequired[Text]
    picture: NotRequired[Text]
    box: NotRequired[Annotated[list[Number], Field(max_length=4)]]
    error: NotRequired[Text]
    answered_by: NotRequired[Text]
    prompt_tokens: NotRequired[Count]
    cached_tokens: NotRequired[Count]
    output_tokens: NotRequired[Count]
    picture_tokens: NotRequired[Count]
    seconds: NotRequired[Number]


class Observed(Timed):
    """The world answers."""

    node: Count
    of: Text
    correction: NotRequired[Text]
    robot: NotRequired[Text]
    text: Text
    outcome: Annotated[str, _OneOf(Outcome)]
    seen: NotRequired[list[SeenThing]]
    looked_into: NotRequired[Text]
    rooms: NotRequired[list[Text]]
    pictures: NotRequired[list[PictureOf]]
    spots: NotRequired[list[SpotOf]]
    data: NotRequired[dict[str, str | int | float]]
    glances: NotRequired[list[GlanceOf]]
    remembered: NotRequired[list[SeenThing]]


class Shortened(Timed):
    """Examples are left out of a prompt."""

    node: Count
    dropped: Count
    excess: Whole


class Held(Timed):
    """The run holds, or continues."""

    node: NotRequired[Count]
    robot: NotRequired[Text]
    reason: Text


class FailureOf(TypedDict):
    """Why a goal node failed."""

    kind: Annotated[str, _OneOf(FailureKind)]
    message: Text


class Failed(Timed, FailureOf):
    """A call failed."""

    node: Count
    of: Text
    type: Text
    robot: NotRequired[Text]
    id: NotRequired[Text]
    late: NotRequired[bool]
    excess: NotRequired[Whole]
    context: NotRequired[Whole]
    took: NotRequired[ReplyOf]


class Ended(Timed):
    """A goal node ended."""

    node: Count
    end: Annotated[str, _OneOf(End)] | None
    failure: FailureOf | None
    feedback: Text
    lesson: NotRequired[list[Turn]]


class Counted(Timed):
    """Counts of the model's tokenizer."""

    tokens: list[Count]


class Differs(Timed):
    """A repeated skill had another result."""

    node: Count
    text: Text


class Interrupted(Timed):
    """Somebody stopped the run."""

    in_tick: NotRequired[bool]


class Result(TypedDict):
    """The result of the run."""

    end: Text
    status: NotRequired[Text]
    task_id: NotRequired[Whole | Text | None]
    instruction: NotRequired[Text]
    gsr: NotRequired[Number | None]
    ssr: NotRequired[Number | None]
    decisions: NotRequired[Count]
    steps: NotRequired[Count]
    max_depth: NotRequired[Count]
    agent_nodes: NotRequired[Count]
    seconds: NotRequired[Number]
    prompt_tokens: NotRequired[Count | None]
    cached_tokens: NotRequired[Count | None]
    output_tokens: NotRequired[Count | None]
    reasoning_tokens: NotRequired[Count | None]
    model_seconds: NotRequired[Number]
    message: NotRequired[Text]
    robots: NotRequired[Count]
    makespan: NotRequired[Count]
    questions: NotRequired[Count]
    replies: NotRequired[Count]
    attempts: NotRequired[Count]
    refused_attempts: NotRequired[Count]
    repeated_attempts: NotRequired[Count]
    refused_tokens: NotRequired[Count | None]


class Finished(Timed):
    """The last event."""

    result: Result
    failures: list[FailureOf]


#: The fields of each kind of event.
KINDS_OF_EVENTS: Mapping[str, Any] = {
    "run": Run,
    "grow": Grow,
    "robot": Robot,
    "status": Status,
    "started": Started,
    "retrieved": Retrieved,
    "routine": RoutinesOf,
    "routine_ended": RoutineEnded,
    "text": Start,
    "request": Request,
    "reply": Reply,
    "answer": Answer,
    "heard": Heard,
    "skills": Skills,
    "corrections": Corrections,
    "turn": TurnOf,
    "decided": Decided,
    "refused": Refused,
    "skill": Skill,
    "observation": Observed,
    "shortened": Shortened,
    "held": Held,
    "failed": Failed,
    "ended": Ended,
    "counted": Counted,
    "differs": Differs,
    "interrupted": Interrupted,
    "end": Finished,
}


@cache
def _other() -> Any:
    return TypeAdapter(Timed).validator


class _Checks(dict[str, Any]):
    """The check of each kind of event, made at the first event of its kind; unknown kinds need only a time."""

    def __missing__(self, kind: str) -> Any:
        if kind not in KINDS_OF_EVENTS:  # not stored: a file may have any number of unknown kinds
            return _other()
        self[kind] = check = TypeAdapter(KINDS_OF_EVENTS[kind]).validator
        return check


CHECKS = _Checks()
