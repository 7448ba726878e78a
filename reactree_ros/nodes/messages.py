"""Values of the two ports as messages, and back."""

from __future__ import annotations

import array
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from itertools import chain
from typing import Any, TypeVar, cast, get_args, get_type_hints

from builtin_interfaces.msg import Time
from pydantic import TypeAdapter, ValidationError
from reactree_interfaces.action import ExecuteSkill
from reactree_interfaces.msg import Argument, ObjectSighting, SpokenDecision
from reactree_interfaces.msg import Attempt as AttemptMsg
from reactree_interfaces.msg import Example as ExampleMsg
from reactree_interfaces.msg import Observation as ObservationMsg
from reactree_interfaces.msg import Picture as PictureMsg
from reactree_interfaces.msg import Spot as SpotMsg
from reactree_interfaces.msg import Turn as TurnMsg
from reactree_interfaces.srv import DescribeHousehold, Generate
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from reactree_ros.agent.control_flow import ControlFlow, flow_named
from reactree_ros.agent.decision import Decision, kinds
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.household import Household
from reactree_ros.agent.observation import REMEMBERED, Observation, Outcome, Seen, Spot
from reactree_ros.agent.picture import PICTURES, Glance, Picture, opened, picture_of
from reactree_ros.agent.skill import Offer, Offered, apart, offered_of, skill_of
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.agent.turns import About, Said, Saw, Told, ToldStart, Turn
from reactree_ros.files.secrecy import without_credentials
from reactree_ros.llm.port import (
    Attempt,
    Choice,
    DecisionRequest,
    FreeText,
    InvalidReply,
    LanguageModelError,
    MaySay,
    NoAnswerInTime,
    PromptTooLong,
    Reply,
    RequestRejected,
    ServerUnavailable,
)
from reactree_ros.llm.seeing import MOST_SHOWN, pictures_of
from reactree_ros.world.spec import check_prompts

#: Outcomes as the constants of ExecuteSkill.action.
OUTCOME_CODES = {outcome: getattr(ExecuteSkill.Result, outcome.name) for outcome in Outcome}
OUTCOMES = {code: outcome for outcome, code in OUTCOME_CODES.items()}
#: What somebody is told as the constants of Turn.msg.
ABOUT_CODES = {about: getattr(TurnMsg, about.name) for about in About}
ABOUT = {code: about for about, code in ABOUT_CODES.items()}
#: What may be said as the constants of Generate.srv.
KINDS: Mapping[type[MaySay], int] = {
    DecisionGrammar: Generate.Request.DECISION,
    Choice: Generate.Request.CHOICE,
    FreeText: Generate.Request.TEXT,
    SubgoalGrammar: Generate.Request.SUBGOAL,
}
_GLANCES = TypeAdapter(tuple[Glance, ...])
_TEXTS = TypeAdapter(list[str])
#: What stands in a message for a value that is not known or not there.
_NOTHING: Mapping[str, Any] = {"int32": -1, "string": "", "double": math.nan}
T = TypeVar("T")


def fill(msg: T, value: Any, **others: Any) -> T:
    declared, of_value = cast("Any", msg), cast("Any", type(value))
    for name, kind in declared.get_fields_and_field_types().items():
        if name in others or name in _fields(of_value):
            one = others[name] if name in others else getattr(value, name)
            setattr(msg, name, list(one) if isinstance(one, tuple) else _NOTHING[kind] if one is None else one)
    return msg


def value_in(kind: type[T], msg: Any, **others: Any) -> T:
    there, declared = msg.get_fields_and_field_types(), cast("Any", kind)
    read = {name: _read(getattr(msg, name), may_lack) for name, may_lack in _fields(declared).items() if name in there}
    return kind(**read | others)


def _read(one: Any, may_lack: bool) -> Any:
    if may_lack and (one == "" if isinstance(one, str) else not one >= 0):
        return None
    return tuple(one) if isinstance(one, (list, array.array)) else one


@cache
def _fields(kind: Any) -> Mapping[str, bool]:
    hints = get_type_hints(kind)
    return {one.name: type(None) in get_args(hints[one.name]) for one in fields(kind)}


def observation_to_msg(observation: Observation, stamp: Time) -> ObservationMsg:
    glances = _GLANCES.dump_json(observation.glances, exclude_defaults=True).decode() if observation.glances else ""
    return fill(
        ObservationMsg(stamp=stamp),
        observation,
        objects=[fill(ObjectSighting(), seen) for seen in (*observation.seen, *observation.remembered)],
        spots=[fill(SpotMsg(), spot, outline=list(chain(*spot.outline))) for spot in observation.spots],
        pictures=list(pictures_to_msgs(observation.pictures)),
        data=json.dumps(dict(observation.data)) if observation.data else "",
        conditions=json.dumps(dict(observation.conditions)) if observation.conditions else "",
        glances=glances,
    )


def _spot_from_msg(msg: SpotMsg) -> Spot:
    corners = tuple(zip(msg.outline[::2], msg.outline[1::2], strict=True))
    return Spot(msg.name, msg.x, msg.y, None if math.isnan(msg.yaw) else msg.yaw, corners)


def pictures_to_msgs(pictures: Iterable[Picture]) -> Iterator[PictureMsg]:
    for picture in pictures:
        if (data := PICTURES.data(picture)) is not None:
            yield PictureMsg(
                stamp=_time_to_msg(picture.time or 0.0),
                frame_id=picture.frame,
                camera=picture.camera,
                words=picture.words,
                format=picture.media.removeprefix("image/"),
                data=array.array("B", data),
            )


def picture_from_msg(msg: PictureMsg) -> Picture:
    time = seconds_of(msg.stamp) or None
    return picture_of(bytes(msg.data), camera=msg.camera, frame=msg.frame_id, time=time, words=msg.words)


def seconds_of(stamp: Time) -> float:
    """Return a stamp in seconds."""
    return float(stamp.sec + stamp.nanosec / 1e9)


def _time_to_msg(seconds: float) -> Time:
    whole, part = divmod(round(seconds * 1000), 1000)
    return Time(sec=whole, nanosec=part * 10**6)


def compressed_to_msg(picture: Picture, data: bytes, stamp: Time) -> CompressedImage:
    form = picture.media.removeprefix("image/")
    return CompressedImage(header=_header(picture, stamp), format=form, data=array.array("B", data))


def _header(picture: Picture, stamp: Time) -> Header:
    return Header(stamp=stamp, frame_id=picture.frame or "camera")


def image_to_msg(picture: Picture, data: bytes, stamp: Time) -> Image:
    with opened(data) as found:
        pixels = found.convert("RGB")
    return Image(
        header=_header(picture, stamp),
        height=pixels.height,
        width=pixels.width,
        encoding="rgb8",
        step=3 * pixels.width,
        data=array.array("B", pixels.tobytes()),
    )


def observation_from_msg(msg: ObservationMsg, outcome: Outcome = Outcome.DONE) -> Observation:
    objects = [value_in(Seen, seen) for seen in msg.objects]
    return value_in(
        Observation,
        msg,
        outcome=outcome,
        seen=tuple(seen for seen in objects if REMEMBERED not in seen.states),
        remembered=tuple(seen for seen in objects if REMEMBERED in seen.states),
        pictures=tuple(map(picture_from_msg, msg.pictures)),
        spots=tuple(map(_spot_from_msg, msg.spots)),
        data=settings_from(msg.data),
        conditions=settings_from(msg.conditions),
        glances=_GLANCES.validate_json(msg.glances) if msg.glances else (),
    )


def offered_to_msg(offered: Sequence[Offered]) -> dict[str, list[str]]:
    skills, offers = apart(offered)
    return {"skills": skills, "offers": [json.dumps(offer.as_data()) for offer in offers]}


def offers_from(texts: Sequence[str]) -> tuple[Offer, ...]:
    offered = [offered_of(settings_from(text)) for text in texts]
    return tuple(one for one in offered if isinstance(one, Offer))


def as_json(settings: Mapping[str, Any]) -> str:
    """Return settings as a message has them, without secrets; empty if there are none."""
    return json.dumps(without_credentials(settings)) if settings else ""


def settings_from(text: str) -> dict[str, Any]:
    settings = json.loads(text) if text else {}
    if not isinstance(settings, dict):
        raise ValueError(f"settings must be a JSON object, not {text[:80]!r}")
    return settings


def household_to_msg(
    household: Household, recallable: Sequence[str], msg: DescribeHousehold.Response
) -> DescribeHousehold.Response:
    return fill(
        msg,
        household,
        recallable=list(recallable),
        control_flows=list(household.control_flows),
        control_flow_texts=list(household.control_flows.values()),
        skills=[json.dumps(skill.as_data()) for skill in household.skills],
    )


def household_from_msg(msg: DescribeHousehold.Response) -> Household:
    flows = [flow.name for flow in _control_flows(msg.control_flows)]
    if len(flows) != len(msg.control_flow_texts):
        raise ValueError(f"control_flow_texts has {len(msg.control_flow_texts)} texts for {len(flows)} control_flows")
    texts = dict(zip(flows, msg.control_flow_texts, strict=True))
    skills = tuple(skill_of(settings_from(text)) for text in msg.skills)
    return check_prompts(value_in(Household, msg, control_flows=texts, skills=skills))


def request_to_msg(request: DecisionRequest) -> Generate.Request:
    msg = fill(
        Generate.Request(),
        request,
        turns=turns_to_msgs(request.turns),
        words="\n".join(request.words),  # one text takes a tenth of the time of hundreds
        things="\n".join(request.things),
    )
    may_say = request.may_say
    if isinstance(may_say, (DecisionGrammar, SubgoalGrammar)):
        options, offers = json.dumps(may_say.skills), offered_to_msg(may_say.offers)["offers"]
        flows = [flow.name for flow in may_say.control_flows]
        fill(msg, may_say, options=options, offers=offers, control_flows=flows)
    elif isinstance(may_say, Choice):
        msg.options = json.dumps(may_say.options)
    else:
        fill(msg, may_say)
    msg.kind = KINDS[type(may_say)]
    return msg


def request_from_msg(msg: Generate.Request) -> DecisionRequest:
    for name in ("max_tokens", "patience"):
        if getattr(msg, name) <= 0:
            raise ValueError(f"{name} is {getattr(msg, name):g}; it must be above 0")
    if not 0 < msg.top_p <= 1:
        raise ValueError(f"top_p is {msg.top_p:g}; it must be above 0 and at most 1")
    return value_in(
        DecisionRequest,
        msg,
        turns=tuple(_turn(one, index) for index, one in enumerate(msg.turns)),
        may_say=_may_say(msg),
        words=tuple(filter(None, msg.words.split("\n"))),
        things=tuple(filter(None, msg.things.split("\n"))),
    )


def _kind_of(turn: Turn) -> int:
    if isinstance(turn, Told):
        return ABOUT_CODES[turn.about]
    return int(TurnMsg.SAID if isinstance(turn, Said) else TurnMsg.SAW)


def turns_to_msgs(turns: Sequence[Turn]) -> list[TurnMsg]:
    left_out = sum(len(pictures_of(turn)) for turn in turns) - MOST_SHOWN
    msgs: list[TurnMsg] = []
    for turn in turns:
        if isinstance(turn, ToldStart):
            examples = [
                ExampleMsg(kinds=[*map(_kind_of, one)], texts=[turn.text for turn in one]) for one in turn.examples
            ]
            msgs.append(TurnMsg(kind=TurnMsg.START, text=turn.system, rule=turn.rule, examples=examples))
        else:
            msgs.append(TurnMsg(kind=_kind_of(turn), text=turn.text))
        pictures = pictures_of(turn)
        msgs[-1].pictures = list(pictures_to_msgs(pictures[max(0, left_out) :]))
        left_out -= len(pictures)
    return msgs


def _turn(msg: TurnMsg, index: int) -> Turn:
    try:
        if msg.kind == TurnMsg.START:
            examples = tuple((bytes(one.kinds), tuple(one.texts)) for one in msg.examples)
            return _start(msg.text, msg.rule, examples)
        turn = _turn_of(msg.kind, msg.text)
        if not msg.pictures or not isinstance(turn, Saw):
            return turn
        return Saw(msg.text, Observation(msg.text, pictures=tuple(map(picture_from_msg, msg.pictures))))
    except ValueError as error:
        raise ValueError(f"turns[{index}]: {error}") from None


@lru_cache(maxsize=64)  # a run says the same at each decision, some hundred turns
def _start(system: str, rule: str, examples: tuple[tuple[bytes, tuple[str, ...]], ...]) -> ToldStart:
    for told, texts in examples:
        if len(told) != len(texts):
            raise ValueError(f"an example has {len(told)} kinds for {len(texts)} texts")
    return ToldStart(system=system, examples=tuple(tuple(map(_turn_of, *one)) for one in examples), rule=rule)


def _turn_of(kind: int, text: str) -> Turn:
    if kind in ABOUT:
        return Told(text, ABOUT[kind])
    if kind not in (TurnMsg.SAID, TurnMsg.SAW):
        raise ValueError(f"kind is {kind}; it must be one of the constants of Turn.msg")
    return Said(text) if kind == TurnMsg.SAID else Saw(text)


def _may_say(msg: Generate.Request) -> MaySay:
    options = _options(msg)
    if msg.kind == Generate.Request.DECISION:
        flows, more, offers = _control_flows(msg.control_flows), _more(msg), offers_from(msg.offers)
        return value_in(DecisionGrammar, msg, skills=options, control_flows=flows, more=more, offers=offers)
    if msg.kind == Generate.Request.CHOICE:
        if not options:
            raise ValueError("options is empty; a choice needs at least one")
        return Choice(options)
    if msg.kind == Generate.Request.TEXT:
        return value_in(FreeText, msg)
    if msg.kind == Generate.Request.SUBGOAL:
        if not (msg.begins or msg.goes_on):
            raise ValueError("begins and goes_on are both false; one of them must be true")
        unsaid: dict[str, Any] = {"control_flows": (), "questions": None, "more": (), "longest_thought": 0}
        return value_in(SubgoalGrammar, msg, skills=options, offers=offers_from(msg.offers), **unsaid)
    raise ValueError(f"kind is {msg.kind}; it must be DECISION (0), CHOICE (1), TEXT (2) or SUBGOAL (3)")


def _options(msg: Generate.Request) -> tuple[str, ...]:
    try:
        return tuple(_TEXTS.validate_json(msg.options or "[]"))
    except ValidationError as error:
        raise ValueError(f"options is {msg.options[:80]!r}; it must be a JSON list of texts") from error


def _control_flows(names: Sequence[str]) -> tuple[type[ControlFlow], ...]:
    try:
        return tuple(map(flow_named, names))
    except ValueError as error:
        raise ValueError(f"control_flows: {error}") from error


def _more(msg: Generate.Request) -> tuple[str, ...]:
    for name in msg.more:
        if name not in kinds():
            raise ValueError(f"more has '{name}'; it must be one of {', '.join(kinds())}")
    return tuple(msg.more)


def reply_from_msg(msg: Generate.Response) -> Reply:
    said, attempts = tuple(map(_said_from_msg, msg.said)), tuple(value_in(Attempt, one) for one in msg.attempts)
    return value_in(Reply, msg, said=said, attempts=attempts, warning=msg.message)


def reply_to_msg(reply: Reply, msg: Generate.Response) -> Generate.Response:
    said = [_said_to_msg(said) for said in reply.said]
    attempts = attempts_to_msg(reply)
    return fill(msg, reply, said=said, attempts=attempts, message=reply.warning, seconds=msg.seconds)


def attempts_to_msg(reply: Reply) -> list[AttemptMsg]:
    return [fill(AttemptMsg(), one) for one in reply.attempts]


def decision_to_msg(decision: Decision) -> dict[str, Any]:
    values = {name: value if isinstance(value, list) else [value] for name, value in decision.as_dict().items()}
    arguments = [Argument(name=name, values=list(map(str, said))) for name, said in values.items()]
    return {"kind": decision.name, "arguments": arguments}


def _said_to_msg(said: Said) -> SpokenDecision:
    assert said.decision is not None  # it was read
    return SpokenDecision(text=said.text, **decision_to_msg(said.decision))


def _said_from_msg(msg: SpokenDecision) -> Said:
    if (kind := kinds().get(msg.kind)) is None:
        raise ValueError(f"kind is '{msg.kind[:60]}'; it must be one of {', '.join(kinds())}")
    values = {one.name: list(one.values) if one.name in kind.many else "".join(one.values) for one in msg.arguments}
    if missing := [name for name in kind.recorded_fields() if name not in {**kind.optional(), **values}]:
        raise ValueError(f"arguments of {kind.name} lack '{missing[0]}'")
    return Said(msg.text, kind.from_dict(values))


#: Error codes of Generate.srv by the errors of the port; the first that fits.
ERROR_CODES: Mapping[type[LanguageModelError], int] = {
    PromptTooLong: Generate.Response.PROMPT_TOO_LONG,
    ServerUnavailable: Generate.Response.UNAVAILABLE,
    RequestRejected: Generate.Response.REJECTED,
    InvalidReply: Generate.Response.INVALID_REPLY,
    NoAnswerInTime: Generate.Response.TIMEOUT,
}


def failed(response: Generate.Response, error: Exception) -> Generate.Response:
    if isinstance(error, LanguageModelError) and error.took is not None:
        response = reply_to_msg(error.took, response)
    codes = (code for kind, code in ERROR_CODES.items() if isinstance(error, kind))
    response.error_code, response.message = next(codes, Generate.Response.MODEL_ERROR), str(error)
    if isinstance(error, PromptTooLong):
        response.excess_tokens, response.context_tokens = error.excess, error.context
    return response


def error_from_msg(msg: Generate.Response) -> LanguageModelError:
    kinds = {code: kind for kind, code in ERROR_CODES.items()} | {Generate.Response.INVALID_REQUEST: RequestRejected}
    if msg.error_code == Generate.Response.PROMPT_TOO_LONG:
        error: LanguageModelError = PromptTooLong(msg.excess_tokens, msg.context_tokens)
    else:
        error = kinds.get(msg.error_code, LanguageModelError)(msg.message)
    if msg.prompt_tokens > 0 or msg.output_tokens > 0 or msg.attempts:  # it was used nevertheless
        error.took = reply_from_msg(msg)
    return error
