"""A routine as data: what is read is what was written, and what makes no sense is a line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reactree_ros.agent.observation import Outcome
from reactree_ros.routine.model import DEEPEST, MOST_NODES, Routine, RoutineError

BRING: dict[str, Any] = {
    "name": "bring",
    "goal": "put 1 {thing} on the {place} within {n} s",
    "roles": [{"name": name, "kind": kind} for name, kind in (("thing", "thing"), ("place", "place"), ("n", "number"))],
    "body": {
        "kind": "sequence",
        "children": [
            {"kind": "search", "finds": "a", "of": "{thing}", "order": ["fridge"]},
            {"kind": "skill", "wording": "pick up {a}", "needs": [["at", "{a}"]], "effect": [["held", "{a}"]]},
            {
                "kind": "fallback",
                "children": [
                    {"kind": "skill", "wording": "open {place}", "expected": "precondition"},
                    {"kind": "decorator", "does": "retry", "times": 2, "child": {"kind": "goal", "text": "open it"}},
                    {
                        "kind": "repeat until",
                        "condition": "{a} is warm",
                        "children": [{"kind": "goal", "text": "wait"}],
                    },
                    {"kind": "while", "condition": "{a} is cold", "children": [{"kind": "goal", "text": "wait"}]},
                    {"kind": "within", "seconds": 5, "children": [{"kind": "wait for", "condition": "the door opens"}]},
                    {"kind": "parallel", "policy": "concurrent", "children": [{"kind": "goal", "text": "rest"}]},
                ],
            },
        ],
    },
    "origin": {"run": "run 1", "instruction": "put 1 apple on the desk", "household": "wah_nl"},
    "counts": {"runs": 1, "uses": 3, "successes": 2, "last_failure": "the fridge is locked"},
    "version": 2,
}


def chain(levels: int, child: Any = None) -> Any:
    body: Any = {"kind": "skill", "wording": "wait"} if child is None else child
    for _ in range(levels):
        body = {"kind": "sequence", "children": [body]}
    return body


def test_what_is_read_is_what_was_written() -> None:
    routine = Routine.of(BRING)
    assert json.loads(routine.to_json()) == BRING
    assert Routine.of_json(routine.to_json()) == routine
    assert [node.kind for node in routine.nodes][:4] == ["sequence", "search", "skill", "fallback"]
    assert routine.nodes[2].expected is Outcome.DONE  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"goal": "put it on the {place}"}, "name each of its roles once: thing, place, n"),
        ({"goal": "put {thing} and {thing} on {place} in {n}"}, "name each of its roles once"),
        ({"goal": "put {thing.__class__} on {place} {n}"}, "another place-holder"),
        ({"roles": [{"name": "thing", "kind": "thing"}] * 2}, "two roles are called 'thing'"),
        ({"roles": [{"name": "thing", "kind": "mood"}]}, "use one of thing, place, room"),
        ({"body": {"kind": "skil", "wording": "x"}}, "'skil'"),
        ({"body": {"kind": "skill", "wording": "pick up {b}"}}, "skill: 'pick up {b}' has another place-holder"),
        ({"body": {"kind": "skill", "wording": "x", "expected": "fine"}}, "use one of done"),
        ({"body": {"kind": "skill", "wording": "x", "effect": [["hold", "{thing}"]]}}, "'hold' is no effect"),
        ({"body": {"kind": "search", "finds": "thing", "of": "cup"}}, "'thing' is a role"),
        ({"body": {"kind": "sequence", "children": []}}, "at least 1 item"),
        ({"body": chain(DEEPEST)}, f"at most {MOST_NODES} nodes, {DEEPEST} in one another"),
        ({"body": {"kind": "sequence", "children": [chain(1)] * MOST_NODES}}, f"at most {MOST_NODES} nodes"),
        ({"body": chain(3000)}, "body.sequence"),
        ({"version": 0}, "version"),
        ({"nam": "bring"}, "'nam'"),
    ],
)
def test_what_makes_no_sense_is_one_line(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(RoutineError) as told:
        Routine.of(BRING | changed, where="bring.json")
    assert said in str(told.value)
    assert str(told.value).startswith("bring.json: ")
    assert "\n" not in str(told.value)
    assert len(str(told.value)) <= 500


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"name": 1}', '{"body":' * 5000, "x" * 600_000])
def test_what_is_no_json_of_a_routine_is_one_line(text: str) -> None:
    with pytest.raises(RoutineError, match=r"\Aroutine: [^\n]+\Z"):
        Routine.of_json(text)


def test_a_routine_of_the_most_levels_and_nodes_is_one() -> None:
    assert len(Routine.of(BRING | {"body": chain(DEEPEST - 1)}).nodes) == DEEPEST
    leaf = {"kind": "skill", "wording": "wait"}
    full = Routine.of(BRING | {"body": {"kind": "sequence", "children": [leaf] * (MOST_NODES - 1)}})
    assert Routine.of_json(full.to_json()) == full
