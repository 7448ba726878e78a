"""The record's schema, version 1: writes the values of a run into events, and reads them back.

A record is JSON lines, one event a line; what each event holds is in ``docs/reference/record.md``.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import compress, count
from operator import attrgetter, ne
from typing import Any

from reactree_ros.agent.control_flow import ControlFlow
from reactree_ros.agent.glance import Glance
from reactree_ros.agent.grammar import DecisionGrammar, Grammar
from reactree_ros.agent.household import Household
from reactree_ros.agent.observation import Observation, Outcome, Seen, Spot
from reactree_ros.agent.picture import PICTURES, Picture
from reactree_ros.agent.skill import Offered, offered_of, skill_of
from reactree_ros.agent.skill import as_data as offers_as_data
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.agent.turns import Said, Turn, turn_from_dict, turn_to_dict
from reactree_ros.files.secrecy import redacted
from reactree_ros.llm.port import (
    Attempt,
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


class Defaults:
    """Finds the fields of a value that do not have their default; most values have few, so all are compared at once.

    Attributes:
        names: The names of the fields.

    Args:
        defaults: The defaults by name.
    """

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        self.names = tuple(defaults)
        self._values = tuple(defaults.values())
        self._fields = attrgetter(*self.names)

    def left_out(self, of: object) -> Event:
        """Return the fields that differ, by name."""
        values = self._fields(of)
        if values == self._values:
            return {}
        return {name: one for name, one, usual in zip(self.names, values, self._values, strict=True) if one != usual}

    def given(self, values: Mapping[str, Any]) -> Event:
        """Return the fields that are in an event."""
        return {name: values[name] for name in self.names if name in values}


#: What of a reply is left out where it is as it is by default.
_REPLY = Defaults(
    {field.name: field.default for field in dataclasses.fields(Reply) if field.name not in ("text", "said", "attempts")}
)
_ATTEMPT = Defaults({field.name: field.default for field in dataclasses.fields(Attempt)})
_OF_EXPERIENCE = ("task_id", "task_name", "decision", "depth")
#: What an exception is that a failure of this kind stands for.
_ERRORS: Mapping[FailureKind, type[Exception]] = {
    FailureKind.GAVE_UP: GaveUp,
    FailureKind.MODEL_GONE: LanguageModelError,
    FailureKind.TOO_SLOW: NoAnswerInTime,
    FailureKind.WORLD_GONE: WorldError,
    FailureKind.MEMORY_GONE: MemoryGone,
    FailureKind.HELD: Held,
    FailureKind.BUG: Exception,
}


def turns_to_list(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Return turns for JSON."""
    return [turn_to_dict(turn) for turn in turns]


# ---------------------------------------------------------------------- the model


def may_say_to_dict(may_say: MaySay) -> Event:
    """Return the limits on a reply; of the skills only their number, as ``skills`` events list them."""
    if isinstance(may_say, DecisionGrammar):
        more: Event = {} if may_say.questions is None else {"questions": may_say.questions}
        more |= {"more": list(may_say.more)} if may_say.more else {}
        more |= {} if may_say.thinks else {"no_thoughts": True}
        return {**_skills("decision", may_say), "control_flows": _flows(may_say.control_flows), **more}
    if isinstance(may_say, SubgoalGrammar):
        return _skills("subgoal", may_say)
    if isinstance(may_say, Choice):
        return {"kind": "choice", "options": list(may_say.options)}
    assert isinstance(may_say, FreeText)
    return {"kind": "text", "stops": list(may_say.stops)}


def _skills(kind: str, grammar: Grammar) -> Event:
    said: Event = {"kind": kind, "skills": len(grammar.skills) + len(grammar.offers)}
    return said | {"free": True} if grammar.free else said


@cache
def _flows(control_flows: tuple[type[ControlFlow], ...]) -> tuple[str, ...]:
    return tuple(flow.name for flow in control_flows)


def sampling_by(options: Mapping[str, Any]) -> Defaults:
    """Return what tells the settings of a request that differ from the run's options."""
    return Defaults({name: options[name] for name in ("max_tokens", "temperature", "seed")} | {"top_p": 1.0})


def reply_to_dict(reply: Reply) -> Event:
    """Return a reply without the fields that have their default."""
    values: Event = {"text": reply.text}
    if reply.said:
        values["said"] = turns_to_list(reply.said)
    values |= _REPLY.left_out(reply)
    if reply.attempts:
        values["attempts"] = list(map(_ATTEMPT.left_out, reply.attempts))
    return values


def reply_from_dict(values: Event) -> Reply:
    """Read a reply back."""
    said = tuple(turn for one in values.get("said", ()) if isinstance(turn := turn_from_dict(one), Said))
    attempts = tuple(Attempt(**_ATTEMPT.given(one)) for one in values.get("attempts", ()))
    return Reply(values["text"], said=said, attempts=attempts, **_REPLY.given(values))


# ---------------------------------------------------------------------- the world


def observation_to_dict(observation: Observation) -> Event:
    """Return an observation without its empty fields."""
    values: Event = {"text": observation.text, "outcome": observation.outcome.value}
    if observation.seen:
        values["seen"] = [_seen_to_dict(seen) for seen in observation.seen]
    if observation.looked_into is not None:
        values["looked_into"] = observation.looked_into
    if observation.rooms:
        values["rooms"] = list(observation.rooms)
    if observation.pictures:
        values["pictures"] = [picture_to_dict(picture) for picture in observation.pictures]
    if observation.spots:
        values["spots"] = [_spot_to_dict(spot) for spot in observation.spots]
    if observation.data:
        values["data"] = dict(observation.data)
    if observation.glances:
        values["glances"] = glances_to_list(observation.glances)
    if observation.remembered:
        values["remembered"] = [_seen_to_dict(seen) for seen in observation.remembered]
    return values


_GLANCE = Defaults(
    {
        field.name: None if field.default is dataclasses.MISSING else field.default
        for field in dataclasses.fields(Glance)
    }
)


def glances_to_list(glances: Sequence[Glance]) -> list[Event]:
    """Return what eyes were asked and said, without the fields that have their default."""
    listed = map(_GLANCE.left_out, glances)
    return [one | {"box": list(one["box"])} if "box" in one else one for one in listed]


def glances_from_list(values: Sequence[Event]) -> tuple[Glance, ...]:
    """Read back what eyes were asked and said."""
    return tuple(Glance(**_GLANCE.given(one)) for one in values)


_PICTURE = Defaults(
    {field.name: "" if field.default is dataclasses.MISSING else field.default for field in dataclasses.fields(Picture)}
)


def picture_to_dict(picture: Picture) -> Event:
    """Return a picture by reference, without the fields that have their default."""
    return _PICTURE.left_out(picture)


def picture_from_dict(values: Event) -> Picture:
    """Read a picture back; where its bytes are in the event, they are kept from now on.

    Raises:
        ValueError: Its bytes are no base64.
    """
    if "data" in values:
        PICTURES.keep(bytes_of_picture(values))
    return Picture(**_PICTURE.given(values))


def bytes_of_picture(values: Event) -> bytes:
    """Return the bytes in an event's picture.

    Raises:
        ValueError: They are no base64.
    """
    try:
        return base64.b64decode(values["data"], validate=True)
    except binascii.Error as error:
        raise ValueError(f"the picture is no base64: {error}") from error


def _seen_to_dict(seen: Seen) -> Event:
    values: Event = {"word": seen.word, "instance": seen.instance}
    if seen.room is not None:
        values["room"] = seen.room
    if seen.place is not None:
        values["place"] = seen.place
    if seen.held:
        values["held"] = True
    if seen.states:
        values["states"] = list(seen.states)
    return values


def _spot_to_dict(spot: Spot) -> Event:
    values: Event = {"name": spot.name, "x": spot.x, "y": spot.y}
    if spot.yaw is not None:
        values["yaw"] = spot.yaw
    if spot.outline:
        values["outline"] = [list(corner) for corner in spot.outline]
    return values


def _spot_from_dict(values: Event) -> Spot:
    outline = tuple((x, y) for x, y in values.get("outline", ()))
    return Spot(values["name"], values["x"], values["y"], values.get("yaw"), outline)


def seen_from_dict(values: Event) -> Seen:
    """Read an object of an observation back."""
    return Seen(
        values["word"],
        values["instance"],
        values.get("room"),
        values.get("place"),
        bool(values.get("held", False)),
        tuple(values.get("states", ())),
    )


def observation_from_dict(values: Event) -> Observation:
    """Read an observation back.

    Raises:
        ValueError: Its outcome is unknown, or a picture is none.
    """
    return Observation(
        values["text"],
        Outcome(values["outcome"]),
        tuple(map(seen_from_dict, values.get("seen", ()))),
        values.get("looked_into"),
        tuple(values.get("rooms", ())),
        tuple(map(picture_from_dict, values.get("pictures", ()))),
        tuple(map(_spot_from_dict, values.get("spots", ()))),
        dict(values.get("data", {})),
        glances_from_list(values.get("glances", ())),
        tuple(map(seen_from_dict, values.get("remembered", ()))),
    )


def household_to_dict(household: Household) -> Event:
    """Return a household."""
    values = dataclasses.asdict(dataclasses.replace(household, skills=()))
    declared = {"skills": [skill.as_data() for skill in household.skills]} if household.skills else {}
    return {name: value for name, value in values.items() if name != "skills"} | declared


#: Where prompts were in records that were written before the worlds moved.
_HOUSE = "reactree_ros.world.virtualhome:"


def household_from_dict(values: Event) -> Household:
    """Read a household back.

    Raises:
        ValueError: Its naming or prompts may not be used.
        TypeError: Something of it is missing or unknown.
    """
    actions = tuple(values["actions"])
    prompts = str(values["prompts"]).replace(_HOUSE, "reactree_ros.household:")
    skills = tuple(map(skill_of, values.get("skills", ())))
    return check_prompts(Household(**{**values, "actions": actions, "prompts": prompts, "skills": skills}))


def skills_difference(old: Sequence[Offered], new: Sequence[Offered]) -> Event:
    """Return how a list of skills became another: ``old[:at] + added + old[at + len(removed):]``."""
    if old == new:
        return {}
    most = min(len(old), len(new))
    at = next(compress(count(), map(ne, old, new)), most)
    same = min(next(compress(count(), map(ne, reversed(old), reversed(new))), most), most - at)
    changed = {"added": new[at : len(new) - same], "removed": old[at : len(old) - same]}
    changes: Event = {name: offers_as_data(skills) for name, skills in changed.items() if skills}
    return {"at": at, **changes} if changes else {}


def skills_after(old: Sequence[Offered], event: Event) -> list[Offered]:
    """Return the skills after a ``skills`` event."""
    at, removed = event.get("at", 0), len(event.get("removed", ()))
    return [*old[:at], *map(offered_of, event.get("added", ())), *old[at + removed :]]


# ---------------------------------------------------------------------- memory and failures


def experience_to_dict(experience: Experience) -> Event:
    """Return an experience; its text is that of its turns."""
    values: Event = {
        "subgoal": experience.subgoal,
        "end": experience.end.value,
        **{name: getattr(experience, name) for name in _OF_EXPERIENCE},
        "turns": turns_to_list(experience.turns),
    }
    return values if experience.similarity is None else values | {"similarity": round(experience.similarity, 4)}


def experience_from_dict(values: Event) -> Experience:
    """Read an experience back."""
    return Experience(
        subgoal=values["subgoal"],
        turns=tuple(turn_from_dict(turn) for turn in values["turns"]),
        end=End(values["end"]),
        similarity=values.get("similarity"),
        **{name: values[name] for name in _OF_EXPERIENCE},
    )


def error_to_dict(error: Exception) -> Event:
    """Return an exception's type, its kind of failure, and its message."""
    values: Event = {
        "type": type(error).__name__,
        "kind": failure_of(error).kind.value,
        "message": redacted(str(error)),
    }
    if isinstance(error, PromptTooLong):
        values |= {"excess": error.excess, "context": error.context}
    if isinstance(error, LanguageModelError) and error.took is not None:
        values["took"] = reply_to_dict(error.took)
    return values


def error_from_dict(values: Event) -> Exception:
    """Return an exception with the same meaning as the recorded one."""
    error = _error(values)
    if isinstance(error, LanguageModelError) and "took" in values:
        error.took = reply_from_dict(values["took"])
    return error


def _error(values: Event) -> Exception:
    if "excess" in values:
        return PromptTooLong(values["excess"], values["context"])
    base = _ERRORS.get(FailureKind(values["kind"]), Exception)
    if "took" in values and not issubclass(base, LanguageModelError):
        base = InvalidReply
    made: type[Exception] = type(values["type"], (base,), {})
    return made(values["message"])
