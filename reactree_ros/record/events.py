"""The form of a record: the fields of each kind of event. The check of a record is made from it.

``docs/reference/record.md`` describes them in words. An event may have further fields, which nobody reads. A value in
an event, such as a reply, has the fields of its dataclass; those with a default may be left out.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from pydantic import Field, TypeAdapter, ValidatorFunctionWrapHandler, WrapValidator
from typing_extensions import NotRequired, TypedDict

from reactree_ros.agent.control_flow import known_flows
from reactree_ros.agent.household import Household
from reactree_ros.agent.observation import Observation, Outcome
from reactree_ros.agent.picture import SUFFIXES, Picture
from reactree_ros.agent.skill import Skill
from reactree_ros.agent.turns import About, Said, Saw, Told, kind_in
from reactree_ros.files.read_back import shown
from reactree_ros.llm.port import Reply
from reactree_ros.memory.experience import End, Experience
from reactree_ros.record.verdict import EpisodeResult
from reactree_ros.tree.failure import Failure, FailureKind

#: The largest whole number that every reader takes for the same; JavaScript's, too.
LARGEST = 2**53 - 1
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Whole = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Number = Annotated[float, Field(ge=-1e15, le=1e15)]
#: Statuses of behaviours, the empty one of those that were not reached, and kinds apart from control flows.
STATUSES = ("running", "success", "failure", "interrupted", "")
KINDS = ("agent", "goal", "skill", "other")


def _one_of(values: Iterable[Any]) -> Any:
    """Return the form of one of some texts, or of a member of an enumeration."""
    return Literal[tuple(one.value if isinstance(one, enum.Enum) else one for one in values)]


def _list(form: Any) -> Any:
    return list[form]


# ---------------------------------------------------------------------- turns and decisions


def check_turn(event: dict[str, Any]) -> None:
    """Check that fields of a turn that belong together are there; no turn is made from them, because that is slower."""
    if "told" in event:
        parts = ("about", *(("system", "rule") if "examples" in event else ()))
        if missing := [part for part in parts if part not in event]:
            raise ValueError(f"is no turn: {missing[0]} lacks")
    elif "said" in event:
        _has_decision(event)
    elif "saw" not in event:
        raise ValueError(f"is no turn: {shown(event)}")


def check_decision(event: dict[str, Any]) -> None:
    """Check that there is a decision, with all of its fields."""
    if not _has_decision(event):
        raise ValueError("holds no decision")


def _has_decision(event: dict[str, Any]) -> bool:
    kind = kind_in(event)
    if kind is None:
        return False
    if missing := [name for name in kind.recorded_fields() if name not in {**kind.optional(), **event}]:
        raise ValueError(f"is no decision: {missing[0]} lacks")
    try:
        kind.from_dict(event)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{kind.name}: {error}") from None
    return True


def _with(check: Callable[[dict[str, Any]], None]) -> WrapValidator:
    """Return a check of a form that comes after that of its fields, and sees all other fields, too."""

    def validate(event: dict[str, Any], form: ValidatorFunctionWrapHandler) -> dict[str, Any]:
        form(event)
        check(event)
        return event

    return WrapValidator(validate)


class _Turn(TypedDict, total=False):
    """A turn, or a decision, whose further fields its kind declares."""

    told: str
    about: _one_of(About)  # type: ignore[valid-type]
    system: str
    examples: list[list[Turn]]
    rule: str
    said: str
    saw: str


Turn = Annotated[_Turn, _with(check_turn)]

# ---------------------------------------------------------------------- values

_PLAIN: Mapping[Any, Any] = {int: Count, float: Number, Told: Turn, Said: Turn, Saw: Turn, Skill: dict}


def _form(hint: Any) -> Any:
    """Return the form of a value with this annotation."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return Union[tuple(map(_form, inside))]  # noqa: UP007
    if origin is tuple and ... not in inside:
        return Annotated[_list(_form(inside[0])), Field(min_length=len(inside), max_length=len(inside))]
    if origin in (tuple, Sequence):
        return _list(_form(inside[0]))
    if origin is Mapping:
        return dict[str, _form(inside[1])]  # type: ignore[misc]
    if hint in _PLAIN or not isinstance(hint, type) or hint in (str, bool, type(None)):
        return _PLAIN.get(hint, hint)
    return _values(_fields(hint)) if is_dataclass(hint) else _one_of(cast("type[enum.Enum]", hint))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fields(kind: type, **others: Any) -> dict[str, Any]:
    """Return the forms of a dataclass's fields; others come with them, or instead."""
    found = {one.name: _form(_hints(kind)[one.name]) for one in fields(kind) if one.init}
    needed = {one.name for one in fields(kind) if one.default is one.default_factory is MISSING}
    return {name: form if name in needed else NotRequired[form] for name, form in found.items()} | others


def _values(needed: Mapping[str, Any] | None = None, /, **others: Any) -> Any:
    """Return the form of a mapping with some values that it needs, and others that it may have."""
    found = dict(needed or {})
    for name, form in others.items():
        found.setdefault(name, form if get_origin(form) is NotRequired else NotRequired[form])
    return TypedDict("values", found)  # type: ignore[operator]


# ---------------------------------------------------------------------- events


@cache
def forms() -> Mapping[str, Any]:
    """Return the form of each kind of event; that of an empty kind is for all others."""
    flows = tuple(one.name for one in known_flows())
    flow, flow_texts = _one_of(flows), dict[_one_of(flows), str]  # type: ignore[misc]
    turn = get_type_hints(_Turn, include_extras=True)
    failure, experience, reply = _values(_fields(Failure)), _values(_fields(Experience)), _fields(Reply)
    picture = _values(_fields(Picture, media=_one_of(SUFFIXES)), data=str)
    observed = _fields(Observation, outcome=_one_of(Outcome), pictures=NotRequired[_list(picture)])
    result = {name: _form(hint) for name, hint in _hints(EpisodeResult).items()} | {"task_id": Whole | str | None}
    model, offered = _values(llm=str), list[str | dict[str, Any]]
    world = _values(
        **{"name": str, "suite": str, "settings": dict[str, Any], "scored": bool, "house": str | int},
        policy=list[dict[str, Any]],
    )
    grown = _values(
        {"node": Count, "parent": Count | None, "kind": _one_of((*KINDS, *flows)), "name": str},
        **{"subgoal": str, "depth": Count, "policy": str},
    )
    may_say = _values(
        {"kind": Literal["decision", "subgoal", "choice", "text"]},
        **{"skills": Count, "free": bool, "control_flows": _list(flow), "questions": Count},
        **{"more": list[str], "options": list[str], "stops": list[str]},
    )
    run = {
        **{"schema": Count, "id": str, "started": str, "versions": dict[str, str]},
        **{"instruction": str, "task_id": Whole | str | None, "task_name": str},
        "planner": _values({"name": str, "options": dict[str, Any]}),
        "working_memory": bool,
        "world": world,
        "household": _values(**_fields(Household, name=str, control_flows=flow_texts)),
        "recallable": list[str],
        "llm": model,
        "options": dict[str, Any],
        "limits": _values({"decisions": Count, "steps": Count}),
    }
    run_may = {
        **{"words": list[str], "vision": model, "memory": str, "robots": list[str], "person": bool},
        **{"goal": dict[str, Count], "seal": str},
        "parent": _values({"id": str}, path=str | None, decision=Count) | None,
    }
    # of each kind: what it needs, and what it may have
    events: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "": ({}, {}),
        "run": (run, run_may),
        "grow": ({"nodes": _list(grown)}, {}),
        "robot": ({"node": Count, "robot": str}, {}),
        "status": ({"of": list[Annotated[list[Count | str], Field(min_length=2, max_length=3)]]}, {}),
        "started": ({"node": Count, "index": Count, "decision": Count}, {}),
        "retrieved": ({"node": Count, "experiences": _list(experience)}, {}),
        "routine": (
            {"node": Count, "fits": _list(_values({"routine": dict[str, Any], "values": dict[str, str]}, near=bool))},
            {},
        ),
        "routine_ended": ({"node": Count, "routine": str, "differed": str}, {}),
        "text": ({"id": Count, "turns": list[Turn]}, {}),
        "request": (
            {"node": Count, "id": str, "may_say": may_say},
            {
                **{"start": Count, "turns": _form(tuple[int, int]), "own": list[Turn], "begun": str},
                **{"max_tokens": Count, "temperature": Number, "seed": Whole, "top_p": Number},
            },
        ),
        "reply": ({"node": Count, "id": str, **reply}, {}),
        "answer": ({"node": Count, "id": str, "text": str, "by": str}, {}),
        "heard": ({"text": str}, {}),
        "skills": ({}, {"robot": str, "at": Count, "added": offered, "removed": offered}),
        "corrections": ({"node": Count, "offers": list[dict[str, Any]]}, {"robot": str}),
        "turn": ({"node": Count}, {"anew": bool, **turn}),
        "decided": ({"node": Count, "decisions": Count, "steps": Count}, turn),
        "refused": ({"node": Count, "decisions": Count, "steps": Count, "reason": str}, turn),
        "skill": ({"node": Count, "skill": str}, {"robot": str}),
        "observation": ({"node": Count, "of": str, **observed}, {"correction": str, "robot": str}),
        "shortened": ({"node": Count, "dropped": Count, "excess": Whole}, {}),
        "held": ({"reason": str}, {"node": Count, "robot": str}),
        "failed": (
            {"node": Count, "of": str, "type": str, "kind": _one_of(FailureKind), "message": str},
            {
                **{"robot": str, "id": str, "late": bool, "excess": Whole, "context": Whole},
                "took": _values(reply),
            },
        ),
        "ended": (
            {"node": Count, "end": _one_of(End) | None, "failure": failure | None, "feedback": str},
            {"unreached": bool, "lesson": list[Turn]},
        ),
        "counted": ({"tokens": list[Count]}, {}),
        "differs": ({"node": Count, "text": str}, {}),
        "interrupted": ({}, {"in_tick": bool}),
        "end": ({"result": _values({"end": str}, **result), "failures": _list(failure)}, {}),
    }
    checks = {"turn": check_turn, "refused": check_turn, "decided": check_decision}
    time = Annotated[float, Field(ge=0, le=1e9)]
    made = {kind: _values({"t": time, **needed}, **others) for kind, (needed, others) in events.items()}
    return made | {kind: Annotated[made[kind], _with(check)] for kind, check in checks.items()}


@cache
def _check(kind: str) -> Any:
    return TypeAdapter(forms()[kind]).validator


def check_form(event: dict[str, Any]) -> None:
    """Check the fields of an event.

    Raises:
        ValidationError: One is not what it must be.
    """
    _check(event["e"] if event["e"] in forms() else "").validate_python(event, strict=True)
