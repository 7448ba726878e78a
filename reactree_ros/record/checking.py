"""Checks the lines of a record, one after the other: each by its form, and against what was before it.

``docs/reference/record.md`` describes the forms in words. An event may have further fields, which nobody reads. A value
in an event, such as a reply, has the fields of its dataclass; those with a default may be left out.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from typing_extensions import NotRequired, TypedDict

from reactree_ros.agent.control_flow import known_flows
from reactree_ros.agent.household import Household
from reactree_ros.agent.observation import Observation, Outcome
from reactree_ros.agent.picture import ALL_PICTURES, LARGEST_PICTURE, SUFFIXES, Picture, digest_of
from reactree_ros.agent.skill import Skill
from reactree_ros.agent.turns import About, Said, Saw, Told, kind_in
from reactree_ros.files.read_back import LARGEST_FILE, LONGEST_LINE, check_values, parse_json, problem_of, shown
from reactree_ros.llm.port import Reply
from reactree_ros.memory.experience import End, Experience
from reactree_ros.record.schema import SCHEMA, Event, bytes_of_picture
from reactree_ros.record.verdict import EpisodeResult
from reactree_ros.tree.failure import Failure, FailureKind

#: Most events of a record, most values in them, most behaviours of its tree, and the tree's greatest depth.
MOST_EVENTS, MOST_VALUES, MOST_NODES, DEEPEST_NODE = 500_000, 4_000_000, 200_000, 5_000
_LIMITS = f"at most {LARGEST_FILE >> 20} MiB, {MOST_EVENTS:,} events and {MOST_VALUES:,} values in them"
#: The largest whole number that every reader takes for the same; JavaScript's, too.
LARGEST = 2**53 - 1
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Whole = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Number = Annotated[float, Field(ge=-1e15, le=1e15)]
#: Statuses of behaviours, the empty one of those that were not reached, and kinds apart from control flows.
STATUSES = ("running", "success", "failure", "interrupted", "")
KINDS = ("agent", "goal", "skill", "other")


# ---------------------------------------------------------------------- turns and decisions


def check_turn(event: Event) -> None:
    """Check that fields of a turn that belong together are there; no turn is made from them, because that is slower."""
    if "told" in event:
        parts = ("about", *(("system", "rule") if "examples" in event else ()))
        if missing := [part for part in parts if part not in event]:
            raise ValueError(f"is not a turn: {missing[0]} lacks")
    elif "said" in event:
        _has_decision(event)
    elif "saw" not in event:
        raise ValueError(f"is not a turn: {shown(event)}")


def check_decision(event: Event) -> None:
    if not _has_decision(event):
        raise ValueError("holds no decision")


def _has_decision(event: Event) -> bool:
    kind = kind_in(event)
    if kind is None:
        return False
    if missing := [name for name in kind.recorded_fields() if name not in {**kind.optional(), **event}]:
        raise ValueError(f"is not a decision: {missing[0]} lacks")
    try:
        kind.from_dict(event)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{kind.name}: {error}") from None
    return True


def _with(check: Callable[[Event], None]) -> WrapValidator:
    # the check comes after that of the fields, and sees all other fields, too
    def validate(event: Event, form: ValidatorFunctionWrapHandler) -> Event:
        form(event)
        check(event)
        return event

    return WrapValidator(validate)


# ---------------------------------------------------------------------- forms


def _one_of(values: Iterable[Any]) -> Any:
    return Literal[tuple(one.value if isinstance(one, enum.Enum) else one for one in values)]


class _Turn(TypedDict, total=False):  # or a decision, whose further fields its kind declares
    told: str
    about: _one_of(About)  # type: ignore[valid-type]
    system: str
    examples: list[list[Turn]]
    rule: str
    said: str
    saw: str


Turn = Annotated[_Turn, _with(check_turn)]
_PLAIN: Mapping[Any, Any] = {int: Count, float: Number, Told: Turn, Said: Turn, Saw: Turn, Skill: dict}


def _form(hint: Any) -> Any:
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return Union[tuple(map(_form, inside))]  # noqa: UP007
    if origin is tuple and ... not in inside:
        return Annotated[list[_form(inside[0])], Field(min_length=len(inside), max_length=len(inside))]  # type: ignore[misc]
    if origin in (tuple, Sequence):
        return list[_form(inside[0])]  # type: ignore[misc]
    if origin is Mapping:
        return dict[str, _form(inside[1])]  # type: ignore[misc]
    if hint in _PLAIN or not isinstance(hint, type) or hint in (str, bool, type(None)):
        return _PLAIN.get(hint, hint)
    return _values(_fields(hint)) if is_dataclass(hint) else _one_of(cast("type[enum.Enum]", hint))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fields(kind: type, **others: Any) -> dict[str, Any]:
    found = {one.name: _form(_hints(kind)[one.name]) for one in fields(kind) if one.init}
    needed = {one.name for one in fields(kind) if one.default is one.default_factory is MISSING}
    return {name: form if name in needed else NotRequired[form] for name, form in found.items()} | others


def _values(needed: Mapping[str, Any] | None = None, /, **others: Any) -> Any:
    found = dict(needed or {})
    for name, form in others.items():
        found.setdefault(name, form if get_origin(form) is NotRequired else NotRequired[form])
    return TypedDict("values", found)  # type: ignore[operator]


@cache
def forms() -> Mapping[str, Any]:
    """Return the form of each kind of event; that of an empty kind is for all others."""
    flows = tuple(one.name for one in known_flows())
    flow: Any = _one_of(flows)
    turn = get_type_hints(_Turn, include_extras=True)
    failure, experience, reply = _values(_fields(Failure)), _values(_fields(Experience)), _fields(Reply)
    picture: Any = _values(_fields(Picture, media=_one_of(SUFFIXES)), data=str)
    observed = _fields(Observation, outcome=_one_of(Outcome), pictures=NotRequired[list[picture]])
    result = {name: _form(hint) for name, hint in _hints(EpisodeResult).items()} | {"task_id": Whole | str | None}
    model, offered = _values(llm=str), list[str | dict[str, Any]]
    world = _values(
        **{"name": str, "suite": str, "settings": dict[str, Any], "scored": bool, "house": str | int},
        policy=list[dict[str, Any]],
    )
    grown: Any = _values(
        {"node": Count, "parent": Count | None, "kind": _one_of((*KINDS, *flows)), "name": str},
        **{"subgoal": str, "depth": Count, "policy": str},
    )
    may_say = _values(
        {"kind": Literal["decision", "subgoal", "choice", "text"]},
        **{"skills": Count, "free": bool, "control_flows": list[flow], "questions": Count},
        **{"more": list[str], "options": list[str], "stops": list[str]},
    )
    run = {
        **{"schema": Count, "id": str, "started": str, "versions": dict[str, str]},
        **{"instruction": str, "task_id": Whole | str | None, "task_name": str, "working_memory": bool},
        "planner": _values({"name": str, "options": dict[str, Any]}),
        "world": world,
        "household": _values(**_fields(Household, name=str, control_flows=dict[flow, str])),
        **{"recallable": list[str], "llm": model, "options": dict[str, Any]},
        "limits": _values({"decisions": Count, "steps": Count}),
    }
    run_may = {
        **{"words": list[str], "vision": model, "memory": str, "robots": list[str], "person": bool},
        **{"goal": dict[str, Count], "seal": str},
        "parent": _values({"id": str}, path=str | None, decision=Count) | None,
    }
    request_may = {
        **{"start": Count, "turns": _form(tuple[int, int]), "own": list[Turn], "last": list[Turn], "begun": str},
        **{"max_tokens": Count, "temperature": Number, "seed": Whole, "top_p": Number},
    }
    failed = {"node": Count, "of": str, "type": str, "kind": _one_of(FailureKind), "message": str}
    who = {"robot": str, "part": str}
    failed_may = {**who, "id": str, "late": bool, "excess": Whole, "context": Whole, "took": _values(reply)}
    fits: Any = _values({"routine": dict[str, Any], "values": dict[str, str]}, near=bool)
    node, counts = {"node": Count}, {"node": Count, "decisions": Count, "steps": Count}
    # of each kind: what it needs, and what it may have
    events: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "": ({}, {}),
        "run": (run, run_may),
        "grow": ({"nodes": list[grown]}, {}),
        "robot": (node | {"robot": str}, {}),
        "status": ({"of": list[Annotated[list[Count | str], Field(min_length=2, max_length=3)]]}, {}),
        "started": (node | {"index": Count, "decision": Count}, {}),
        "retrieved": (node | {"experiences": list[experience]}, {}),  # type: ignore[valid-type]
        "routine": (node | {"fits": list[fits]}, {}),
        "routine_ended": (node | {"routine": str, "differed": str}, {}),
        "text": ({"id": Count, "turns": list[Turn]}, {}),
        "request": (node | {"id": str, "may_say": may_say}, request_may),
        "reply": (node | {"id": str} | reply, {}),
        "answer": (node | {"id": str, "text": str, "by": str}, {}),
        "heard": ({"text": str}, {}),
        "skills": ({}, {**who, "at": Count, "added": offered, "removed": offered}),
        "corrections": (node | {"offers": list[dict[str, Any]]}, who),
        "turn": (node, {"anew": bool, **turn}),
        "decided": (counts, turn),
        "refused": (counts | {"reason": str}, turn),
        "skill": (node | {"skill": str}, who),
        "observation": (node | {"of": str} | observed, {"correction": str, **who}),
        "shortened": (node | {"dropped": Count, "excess": Whole}, {}),
        "held": ({"reason": str}, {"node": Count, **who}),
        "failed": (failed, failed_may),
        "ended": (
            node | {"end": _one_of(End) | None, "failure": failure | None, "feedback": str},
            {"unreached": bool, "lesson": list[Turn]},
        ),
        "counted": ({"tokens": list[Count]}, {}),
        "differs": (node | {"text": str}, {}),
        "interrupted": ({}, {"in_tick": bool}),
        "end": ({"result": _values({"end": str}, **result), "failures": list[failure]}, {}),  # type: ignore[valid-type]
    }
    checks = {"turn": check_turn, "refused": check_turn, "decided": check_decision}
    time = Annotated[float, Field(ge=0, le=1e9)]
    made = {kind: _values({"t": time, **needed}, **others) for kind, (needed, others) in events.items()}
    return made | {kind: Annotated[made[kind], _with(check)] for kind, check in checks.items()}


@cache
def _validator(kind: str) -> Any:
    return TypeAdapter(forms()[kind]).validator


def check_form(event: Event) -> None:
    _validator(event["e"] if event["e"] in forms() else "").validate_python(event, strict=True)


# ---------------------------------------------------------------------- line by line


class NoRecord(ValueError):
    """The first line does not begin a readable record; says why, if it begins a record at all."""


class Check:
    """Checks the lines of one record, in order.

    A valid event has all fields of its kind and fits the events before it: its behaviour has appeared, its request was
    made. An event of an unknown kind needs only a time.
    """

    def __init__(self) -> None:
        self.lines = 0
        self._bytes = self._values = self._picture_bytes = 0
        self._depths: list[int] = []  # of each behaviour, by its number
        self._texts: set[int] = set()
        self._requests: set[str] = set()
        self._ended = False

    def event(self, line: bytes) -> Event:
        """Read the next line; NoRecord if it is the first and none of a record."""
        self._bytes += len(line) + 1
        self._values += line.count(b",") + 1
        if self._bytes > LARGEST_FILE or self._values > MOST_VALUES or self.lines >= MOST_EVENTS:
            raise ValueError(f"is too much: a record has {_LIMITS}")
        if len(line) > LONGEST_LINE:
            raise ValueError(f"is longer than {LONGEST_LINE >> 20} MiB, the most that a line may have")
        try:
            event: Event = parse_json(line, halves=True)
            kind = event["e"]
            if type(kind) is not str or not kind.isascii():
                raise TypeError
        except (ValueError, TypeError, KeyError) as error:
            why = f" ({error})" if type(error) is ValueError else ""
            raise ValueError(f"is not an event: {shown(line)}{why}") if self.lines else NoRecord from None
        if not self.lines:
            self._begin(event)
        try:
            check_form(event)
            if self._ended:
                raise ValueError("comes after the end of the run")
            if "node" in event:
                self._node(event["node"])
            further = getattr(self, f"_on_{kind}", None)
            if further is not None:
                further(event)
        except ValidationError as error:
            raise ValueError(f"({kind[:20]}): {problem_of(error)}") from None
        except (ValueError, KeyError, OverflowError) as error:
            lacks = f"{error} lacks" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"({kind[:20]}): {lacks}") from None
        self.lines += 1
        return event

    def _begin(self, event: Event) -> None:
        if event["e"] != "run" or not isinstance(event.get("schema"), int):
            raise NoRecord
        if event["schema"] > SCHEMA:
            raise NoRecord(
                f"is a record of schema {event['schema']}, which this version (schema {SCHEMA}) does not know; "
                "install a newer reactree_ros"
            )

    def _node(self, node: object) -> None:
        if type(node) is not int or not 0 <= node < len(self._depths):
            raise ValueError(f"there is no node {shown(node)}")

    def _on_run(self, event: Event) -> None:
        if self.lines:
            raise ValueError("begins another run")
        check_values(event)
        if datetime.fromisoformat(event["started"]).timestamp() < 0:
            raise ValueError(f"started {shown(event['started'])} is before 1970")

    def _on_grow(self, event: Event) -> None:
        for values in event["nodes"]:
            node, parent, count = values["node"], values["parent"], len(self._depths)
            if node < count:
                raise ValueError(f"the node {node} is there already")
            if node > count:
                raise ValueError(f"the node {node} comes before the node {count}")
            if parent is None and node:
                raise ValueError(f"the node {node} has no parent; the root is the node 0")
            if parent is not None and parent >= count:
                raise ValueError(f"the parent of the node {node} is the node {parent}, which is not there")
            depth = 0 if parent is None else self._depths[parent] + 1
            if depth > DEEPEST_NODE or count >= MOST_NODES:
                raise ValueError(f"a tree has at most {MOST_NODES:,} nodes, {DEEPEST_NODE:,} in one another")
            self._depths.append(depth)

    def _on_status(self, event: Event) -> None:
        for number, status, *feedback in event["of"]:
            self._node(number)
            if status not in STATUSES:
                raise ValueError(f"{shown(status)} is none of the statuses {', '.join(filter(None, STATUSES))}")
            if feedback and not isinstance(feedback[0], str):
                raise ValueError(f"what the node {number} says must be a text, not {shown(feedback[0])}")

    def _on_text(self, event: Event) -> None:
        if event["id"] in self._texts:
            raise ValueError(f"the text {event['id']} is there already")
        self._texts.add(event["id"])

    def _on_request(self, event: Event) -> None:
        if "start" in event and event["start"] not in self._texts:
            raise ValueError(f"there is no text {event['start']}")
        if "own" not in event and "turns" not in event:
            raise ValueError("turns lacks")
        self._requests.add(event["id"])

    def _on_reply(self, event: Event) -> None:
        if event["id"] not in self._requests:
            raise ValueError(f"there is no request {shown(event['id'])}")

    def _on_observation(self, event: Event) -> None:
        for picture in event.get("pictures", ()):
            if "data" not in picture:
                continue
            size = len(data := bytes_of_picture(picture))
            self._picture_bytes += size
            if size > LARGEST_PICTURE or self._picture_bytes > ALL_PICTURES:
                most = f"{LARGEST_PICTURE:,} bytes, those of a run together {ALL_PICTURES:,}"
                raise ValueError(f"a picture has at most {most}")
            if picture["id"] != digest_of(data):
                raise ValueError(f"the picture {shown(picture['id'])} has other bytes than its id says")

    def _on_failed(self, event: Event) -> None:
        if not event["type"].isidentifier():
            raise ValueError(f"the type {shown(event['type'])} is not a name")
        if ("excess" in event) != ("context" in event):
            raise ValueError("excess and context belong together")

    def _on_end(self, event: Event) -> None:
        result = event["result"]
        if (result.get("gsr") is None) != (result.get("ssr") is None):
            raise ValueError("gsr and ssr of the result belong together")
        self._ended = True
