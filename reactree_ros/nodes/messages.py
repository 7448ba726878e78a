"""Values of the two ports as messages, and back."""

from __future__ import annotations

import array
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from itertools import chain
from typing import Any, TypeVar, cast, get_args, get_type_hints

from builtin_interfaces.msg import Time
from rclpy.parameter import Parameter as RosParameter
from rclpy.parameter import parameter_value_to_python
from reactree_interfaces import msg as ros
from reactree_interfaces.action import ExecuteSkill
from reactree_interfaces.srv import DescribeHousehold, Generate
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from reactree_ros.agent.control_flow import ControlFlow, flow_named
from reactree_ros.agent.corrections import CorrectionGrammar, grammar_of
from reactree_ros.agent.decision import Decision, kinds
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.household import Household
from reactree_ros.agent.observation import REMEMBERED, Observation, Outcome, Seen, Spot
from reactree_ros.agent.picture import PICTURES, Glance, Picture, opened, picture_of
from reactree_ros.agent.skill import Offer, Offered, Skill, apart, skill_in
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.agent.turns import About, Said, Saw, Told, ToldStart, Turn
from reactree_ros.files.dotted import dotted, nested
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
from reactree_ros.plugins.settings import or_nearest
from reactree_ros.world.spec import check_prompts

#: Outcomes as the constants of ExecuteSkill.action.
OUTCOME_CODES = {outcome: getattr(ExecuteSkill.Result, outcome.name) for outcome in Outcome}
OUTCOMES = {code: outcome for outcome, code in OUTCOME_CODES.items()}
#: What somebody is told as the constants of Turn.msg.
ABOUT_CODES = {about: getattr(ros.Turn, about.name) for about in About}
ABOUT = {code: about for about, code in ABOUT_CODES.items()}
#: What may be said as the constants of Generate.srv.
KINDS: Mapping[type[MaySay], int] = {
    DecisionGrammar: Generate.Request.DECISION,
    CorrectionGrammar: Generate.Request.CORRECTION,
    Choice: Generate.Request.CHOICE,
    FreeText: Generate.Request.TEXT,
    SubgoalGrammar: Generate.Request.SUBGOAL,
}
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
    if may_lack and (one == "" if isinstance(one, str) else math.isnan(one) if isinstance(one, float) else one < 0):
        return None
    return tuple(one) if isinstance(one, (list, array.array)) else one


@cache
def _fields(kind: Any) -> Mapping[str, bool]:
    hints = get_type_hints(kind)
    return {one.name: type(None) in get_args(hints[one.name]) for one in fields(kind)}


def observation_to_msg(observation: Observation, stamp: Time) -> ros.Observation:
    return fill(
        ros.Observation(header=Header(stamp=stamp)),
        observation,
        objects=[fill(ros.ObjectSighting(), seen) for seen in (*observation.seen, *observation.remembered)],
        spots=[fill(ros.Spot(), spot, outline=list(chain(*spot.outline))) for spot in observation.spots],
        pictures=list(pictures_to_msgs(observation.pictures)),
        data=named_values(observation.data),
        conditions=[ros.Condition(wording=wording, holds=holds) for wording, holds in observation.conditions.items()],
        glances=[fill(ros.Glance(), glance) for glance in observation.glances],
    )


def _spot(msg: ros.Spot) -> Spot:
    return value_in(Spot, msg, outline=tuple(zip(msg.outline[::2], msg.outline[1::2], strict=True)))


def pictures_to_msgs(pictures: Iterable[Picture]) -> Iterator[ros.Picture]:
    for picture in pictures:
        if (data := PICTURES.data(picture)) is not None:
            whole, part = divmod(round((picture.time or 0.0) * 1000), 1000)
            yield fill(
                ros.Picture(header=Header(stamp=Time(sec=whole, nanosec=part * 10**6), frame_id=picture.frame)),
                picture,
                format=picture.media.removeprefix("image/"),
                data=array.array("B", data),
            )


def picture_from_msg(msg: ros.Picture) -> Picture:
    frame, time = msg.header.frame_id, seconds_of(msg.header.stamp) or None
    return picture_of(bytes(msg.data), camera=msg.camera, frame=frame, time=time, words=msg.words)


def seconds_of(stamp: Time) -> float:
    return float(stamp.sec + stamp.nanosec / 1e9)


def image_to_msg(compressed: CompressedImage) -> Image:
    with opened(bytes(compressed.data)) as found:
        pixels = found.convert("RGB")
    return Image(
        header=compressed.header,
        height=pixels.height,
        width=pixels.width,
        encoding="rgb8",
        step=3 * pixels.width,
        data=array.array("B", pixels.tobytes()),
    )


def observation_from_msg(msg: ros.Observation, outcome: Outcome = Outcome.DONE) -> Observation:
    objects = [value_in(Seen, seen) for seen in msg.objects]
    return value_in(
        Observation,
        msg,
        outcome=outcome,
        seen=tuple(seen for seen in objects if REMEMBERED not in seen.states),
        remembered=tuple(seen for seen in objects if REMEMBERED in seen.states),
        pictures=tuple(map(picture_from_msg, msg.pictures)),
        spots=tuple(map(_spot, msg.spots)),
        data=values_from(msg.data),
        conditions={condition.wording: condition.holds for condition in msg.conditions},
        glances=tuple(value_in(Glance, glance) for glance in msg.glances),
    )


def named_values(values: Mapping[str, Any]) -> list[Any]:
    return [RosParameter(name, value=value).to_parameter_msg() for name, value in dotted(values).items()]


def values_from(msgs: Sequence[Any]) -> dict[str, Any]:
    for msg in msgs:
        if msg.value.type > RosParameter.Type.STRING_ARRAY.value or msg.value.byte_array_value:
            raise ValueError(f"'{msg.name[:60]}' is of type {msg.value.type}; give a boolean, numbers or texts")
    return nested({name: parameter_value_to_python(msg.value) for name, msg in _by_name(msgs, "values").items()})


def _by_name(msgs: Sequence[Any], what: str) -> dict[str, Any]:
    named = {msg.name: msg for msg in msgs}
    if len(named) < len(msgs):
        raise ValueError(f"{what} name one twice: {', '.join(msg.name[:60] for msg in msgs[:8])}")
    return named


def arguments_to_msgs(said: Mapping[str, Iterable[object]]) -> list[ros.Argument]:
    return [ros.Argument(name=name, values=[*map(str, values)]) for name, values in said.items()]


def arguments_from(msgs: Sequence[ros.Argument]) -> dict[str, Any]:
    each = {name: list(msg.values) for name, msg in _by_name(msgs, "arguments").items()}
    return {name: values[0] if len(values) == 1 else values for name, values in each.items()}


def offered_to_msg(offered: Sequence[Offered]) -> dict[str, list[Any]]:
    skills, offers = apart(offered)
    msgs = [ros.Offer(skill=one.skill.name, places=arguments_to_msgs(one.now)) for one in offers]
    return {"skills": skills, "offers": msgs}


def declaring(offers: Sequence[Offer]) -> dict[str, list[Any]]:
    """Return offers with their skills, for who does not know these from the household."""
    declared = dict.fromkeys(offer.skill for offer in offers)
    return {"offers": offered_to_msg(offers)["offers"], "declared": [*map(skill_to_msg, declared)]}


def offers_from(msgs: Sequence[ros.Offer], declared: Mapping[str, Skill], given: Any = None) -> tuple[Offer, ...]:
    offers = []
    for msg in msgs:
        if msg.skill not in declared:
            raise ValueError(f"offers: no skill '{msg.skill[:60]}' is declared{or_nearest(msg.skill, declared)}")
        now = {name: tuple(place.values) for name, place in _by_name(msg.places, "places").items()}
        offers.append(Offer(declared[msg.skill], now, given or {}))
    return tuple(offers)


@lru_cache(maxsize=1024)  # requests have the same ones again and again
def skill_to_msg(skill: Skill) -> Any:
    fields, kinds = skill.as_fields(), {"effects": ros.SkillEffect, "needs": ros.SkillNeed}
    parts = {name: kinds.get(name, ros.SkillParameter) for name in ("parameters", "returns", *kinds)}
    return ros.Skill(**fields | {name: [kind(**part) for part in fields[name]] for name, kind in parts.items()})


#: Skills by the values of their messages: what a skill has worked out of its words is kept.
_SKILLS: dict[Any, Skill] = {}


def skills_from(msgs: Sequence[ros.Skill]) -> dict[str, Skill]:
    return {name: _skill(msg) for name, msg in _by_name(msgs, "skills").items()}


def _skill(msg: ros.Skill) -> Skill:
    values = _values_of(msg)
    if values not in _SKILLS:
        if len(_SKILLS) >= 1024:
            _SKILLS.clear()
        _SKILLS[values] = skill_in(msg)
    return _SKILLS[values]


def _values_of(one: Any) -> Any:
    """Return a message's values; its bytes would not do, as they are padded with what stood there before."""
    if slots := getattr(one, "__slots__", ()):
        return tuple(_values_of(getattr(one, name)) for name in slots)
    if isinstance(one, (list, array.array)):
        return tuple(map(_values_of, one))
    return None if one != one else one  # NaN is not even itself


def household_to_msg(
    household: Household, recallable: Sequence[str], msg: DescribeHousehold.Response
) -> DescribeHousehold.Response:
    return fill(
        msg,
        household,
        recallable=list(recallable),
        control_flows=list(household.control_flows),
        control_flow_texts=list(household.control_flows.values()),
        skills=[*map(skill_to_msg, household.skills)],
    )


def household_from_msg(msg: DescribeHousehold.Response) -> Household:
    flows = [flow.name for flow in _control_flows(msg.control_flows)]
    if len(flows) != len(msg.control_flow_texts):
        raise ValueError(f"control_flow_texts has {len(msg.control_flow_texts)} texts for {len(flows)} control_flows")
    texts = dict(zip(flows, msg.control_flow_texts, strict=True))
    return check_prompts(value_in(Household, msg, control_flows=texts, skills=tuple(skills_from(msg.skills).values())))


def request_to_msg(request: DecisionRequest) -> Generate.Request:
    msg, may_say = fill(Generate.Request(), request, turns=turns_to_msgs(request.turns)), request.may_say
    if isinstance(may_say, (DecisionGrammar, SubgoalGrammar)):
        offers = may_say.statements if isinstance(may_say, CorrectionGrammar) else may_say.offers
        given = named_values({name: value for offer in offers for name, value in offer.given.items()})
        flows = [flow.name for flow in may_say.control_flows]
        fill(msg, may_say, options=list(may_say.skills), **declaring(offers), given=given, control_flows=flows)
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
    turns = tuple(_turn(one, index) for index, one in enumerate(msg.turns))
    return value_in(DecisionRequest, msg, turns=turns, may_say=_may_say(msg))


def _kind_of(turn: Turn) -> int:
    if isinstance(turn, Told):
        return ABOUT_CODES[turn.about]
    return int(ros.Turn.SAID if isinstance(turn, Said) else ros.Turn.SAW)


def turns_to_msgs(turns: Sequence[Turn]) -> list[ros.Turn]:
    left_out = sum(len(pictures_of(turn)) for turn in turns) - MOST_SHOWN
    msgs: list[ros.Turn] = []
    for turn in turns:
        if isinstance(turn, ToldStart):
            examples = [
                ros.Example(kinds=[*map(_kind_of, one)], texts=[turn.text for turn in one]) for one in turn.examples
            ]
            msgs.append(ros.Turn(kind=ros.Turn.START, text=turn.system, rule=turn.rule, examples=examples))
        else:
            msgs.append(ros.Turn(kind=_kind_of(turn), text=turn.text))
        pictures = pictures_of(turn)
        msgs[-1].pictures = list(pictures_to_msgs(pictures[max(0, left_out) :]))
        left_out -= len(pictures)
    return msgs


def _turn(msg: ros.Turn, index: int) -> Turn:
    try:
        if msg.kind == ros.Turn.START:
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
    if kind not in (ros.Turn.SAID, ros.Turn.SAW):
        raise ValueError(f"kind is {kind}; it must be one of the constants of Turn.msg")
    return Said(text) if kind == ros.Turn.SAID else Saw(text)


def _may_say(msg: Generate.Request) -> MaySay:
    options = tuple(msg.options)
    offers = offers_from(msg.offers, skills_from(msg.declared), values_from(msg.given))
    if msg.kind == Generate.Request.DECISION:
        flows, more = _control_flows(msg.control_flows), _more(msg)
        return value_in(DecisionGrammar, msg, skills=options, control_flows=flows, more=more, offers=offers)
    if msg.kind == Generate.Request.CORRECTION:
        if not offers:
            raise ValueError("offers is empty; a correction needs at least one statement")
        return grammar_of(offers)
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
        return value_in(SubgoalGrammar, msg, skills=options, offers=offers, **unsaid)
    raise ValueError(f"kind is {msg.kind}; it must be one of the constants of Generate.srv")


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
    said = [ros.SpokenDecision(text=one.text, **decision_to_msg(one.decision)) for one in reply.said if one.decision]
    attempts = attempts_to_msg(reply)
    return fill(msg, reply, said=said, attempts=attempts, message=reply.warning, seconds=msg.seconds)


def attempts_to_msg(reply: Reply) -> list[ros.Attempt]:
    return [fill(ros.Attempt(), one) for one in reply.attempts]


def decision_to_msg(decision: Decision) -> dict[str, Any]:
    each = {name: value if isinstance(value, list) else [value] for name, value in decision.as_dict().items()}
    return {"kind": decision.name, "arguments": arguments_to_msgs(each)}


def _said_from_msg(msg: ros.SpokenDecision) -> Said:
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
