"""The record's schema, version 1: writes the values of a run into events, and reads them back.

A record is JSON lines, one event a line; what each event holds is in ``docs/reference/record.md``.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Mapping, Sequence
from itertools import compress, count
from operator import ne
from typing import Any, TypeVar

from pydantic import ValidationError

from reactree_ros.agent.grammar import DecisionGrammar, Grammar
from reactree_ros.agent.household import Household
from reactree_ros.agent.observation import Observation
from reactree_ros.agent.picture import PICTURES
from reactree_ros.agent.skill import Offered, offered_of, skill_of
from reactree_ros.agent.skill import as_data as offers_as_data
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.agent.turns import turn_from_dict, turn_to_dict
from reactree_ros.files.read_back import adapter_of, problem_of
from reactree_ros.files.secrecy import redacted
from reactree_ros.llm.port import (
    Choice,
    FreeText,
    InvalidReply,
    LanguageModelError,
    MaySay,
    NoAnswerInTime,
    PromptTooLong,
    Reply,
)
from reactree_ros.memory.experience import End, Experience
from reactree_ros.tree.failure import FailureKind, GaveUp, Held, MemoryGone, failure_of
from reactree_ros.world.port import WorldError
from reactree_ros.world.spec import check_prompts

#: The version of what is written here; a reader takes no later one.
SCHEMA = 1

Event = dict[str, Any]
T = TypeVar("T")


#: What an exception is that a failure of this kind stands for.
_ERRORS: Mapping[FailureKind, type[Exception]] = {
    FailureKind.GAVE_UP: GaveUp,
    FailureKind.MODEL_GONE: LanguageModelError,
    FailureKind.TOO_SLOW: NoAnswerInTime,
    FailureKind.WORLD_GONE: WorldError,
    FailureKind.MEMORY_GONE: MemoryGone,
    FailureKind.HELD: Held,
}


def value_to_dict(value: Any) -> Event:
    """Return a reply, a picture or another dataclass without the fields that have their default."""
    kind: Any = type(value)
    return dict(adapter_of(kind).dump_python(value, mode="json", exclude_defaults=True))


def value_from_dict(kind: type[T], values: Event) -> T:
    """Read a dataclass back, also from an event that has it; a ValueError if a field is not what it must be."""
    declared: Any = kind
    try:
        made: T = adapter_of(declared).validate_python(values)
    except ValidationError as error:
        raise ValueError(problem_of(error)) from None
    return made


def may_say_to_dict(may_say: MaySay) -> Event:
    """Return the limits on a reply; of the skills only their number, as ``skills`` events list them."""
    if isinstance(may_say, DecisionGrammar):
        more: Event = {} if may_say.questions is None else {"questions": may_say.questions}
        more |= {"more": list(may_say.more)} if may_say.more else {}
        more |= {} if may_say.thinks else {"no_thoughts": True}
        return {**_skills("decision", may_say), "control_flows": [one.name for one in may_say.control_flows], **more}
    if isinstance(may_say, SubgoalGrammar):
        return _skills("subgoal", may_say)
    if isinstance(may_say, Choice):
        return {"kind": "choice", "options": list(may_say.options)}
    assert isinstance(may_say, FreeText)
    return {"kind": "text", "stops": list(may_say.stops)}


def _skills(kind: str, grammar: Grammar) -> Event:
    said: Event = {"kind": kind, "skills": len(grammar.skills) + len(grammar.offers)}
    return said | {"free": True} if grammar.free else said


def observation_to_dict(observation: Observation) -> Event:
    return {"outcome": observation.outcome.value, **value_to_dict(observation)}


def bytes_of_picture(values: Event) -> bytes:
    try:
        return base64.b64decode(values["data"], validate=True)
    except binascii.Error as error:
        raise ValueError(f"the picture is not base64: {error}") from error


def observation_from_dict(values: Event) -> Observation:
    """Read an observation back; bytes of pictures in the event are kept from now on."""
    for picture in values.get("pictures", ()):
        if "data" in picture:
            PICTURES.keep(bytes_of_picture(picture))
    return value_from_dict(Observation, values)


def household_to_dict(household: Household) -> Event:
    values = dataclasses.asdict(dataclasses.replace(household, skills=()))
    declared = {"skills": [skill.as_data() for skill in household.skills]} if household.skills else {}
    return {name: value for name, value in values.items() if name != "skills"} | declared


def household_from_dict(values: Event) -> Household:
    skills = tuple(map(skill_of, values.get("skills", ())))
    listed = {name: tuple(values.get(name, ())) for name in ("actions", "solid")}
    return check_prompts(Household(**{**values, **listed, "skills": skills}))


def skills_difference(old: Sequence[Offered], new: Sequence[Offered]) -> Event:
    if old == new:
        return {}
    most = min(len(old), len(new))
    at = next(compress(count(), map(ne, old, new)), most)
    same = min(next(compress(count(), map(ne, reversed(old), reversed(new))), most), most - at)
    changed = {"added": new[at : len(new) - same], "removed": old[at : len(old) - same]}
    changes: Event = {name: offers_as_data(skills) for name, skills in changed.items() if skills}
    return {"at": at, **changes} if changes else {}


def skills_after(old: Sequence[Offered], event: Event) -> list[Offered]:
    at, removed = event.get("at", 0), len(event.get("removed", ()))
    return [*old[:at], *map(offered_of, event.get("added", ())), *old[at + removed :]]


def experience_to_dict(experience: Experience) -> Event:
    values: Event = {
        "subgoal": experience.subgoal,
        "end": experience.end.value,
        "task_id": experience.task_id,
        "task_name": experience.task_name,
        "decision": experience.decision,
        "depth": experience.depth,
        "turns": list(map(turn_to_dict, experience.turns)),
    }
    return values if experience.similarity is None else values | {"similarity": round(experience.similarity, 4)}


def experience_from_dict(values: Event) -> Experience:
    known = {name: value for name, value in values.items() if name in _OF_EXPERIENCE}
    return Experience(**known, turns=tuple(map(turn_from_dict, values["turns"])), end=End(values["end"]))


_OF_EXPERIENCE = ("subgoal", "task_id", "task_name", "decision", "depth", "similarity")


def error_to_dict(error: Exception) -> Event:
    kind = failure_of(error).kind.value
    values: Event = {"type": type(error).__name__, "kind": kind, "message": redacted(str(error))}
    if isinstance(error, PromptTooLong):
        values |= {"excess": error.excess, "context": error.context}
    if isinstance(error, LanguageModelError) and error.took is not None:
        values["took"] = value_to_dict(error.took)
    return values


def error_from_dict(values: Event) -> Exception:
    if "excess" in values:
        error: Exception = PromptTooLong(values["excess"], values["context"])
    else:
        base = _ERRORS.get(FailureKind(values["kind"]), Exception)
        if "took" in values and not issubclass(base, LanguageModelError):
            base = InvalidReply
        error = type(values["type"], (base,), {})(values["message"])
    if isinstance(error, LanguageModelError) and "took" in values:
        error.took = value_from_dict(Reply, values["took"])
    return error
