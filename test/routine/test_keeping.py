"""Routines in episodic memory: merged, counted, bounded, set aside, and found among many."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from reactree_ros.agent.observation import Outcome
from reactree_ros.errors import UserError
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.vocabulary import RECALLABLE, WORDS
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.routine import model
from reactree_ros.routine.fitting import Fit, Kept, Vocabulary, fillings, is_trusted
from reactree_ros.routine.model import DEEPEST, MOST_NODES, Routine, RoutineError

KNOWN = Vocabulary(WORDS, RECALLABLE, WAH_NL.skills)


def routine(
    goal: str = "put {thing_1} on the {place_2}",
    *,
    name: str = "put",
    order: tuple[str, ...] = (),
    last: str = "put down",
) -> model.Routine:
    roles = [model.Role(name=role, kind=role[:-2]) for role in ("thing_1", "place_2") if f"{{{role}}}" in goal]  # type: ignore[arg-type]
    of = "{thing_1}" if "{thing_1}" in goal else "apple"
    found = model.Search(finds="found_1", of=of, order=order)
    body = model.Sequence(children=(found, model.Skill(wording=f"{last} {{found_1}}")))
    origin = model.Origin(run="run 1", household="wah_nl")
    return model.Routine(name=name, goal=goal, roles=tuple(roles), body=body, origin=origin)


def search_of(one: model.Routine) -> model.Search:
    return next(node for node in one.nodes if isinstance(node, model.Search))


def used(kept: Kept, name: str, reason: str = "", **found: tuple[str, ...]) -> None:
    kept.used(Fit(kept.named(name), {}), reason, found).result(timeout=10)


def test_what_is_the_same_but_for_roles_is_merged(memory: SqliteMemory) -> None:
    kept = Kept(memory)
    kept.add(routine(order=("fridge", "kitchen")))
    assert kept.add(routine("Put {thing_1} on the  {place_2}", name="other", order=("sofa", "fridge"))) == "put"
    (merged,) = kept.all().values()
    assert search_of(merged).order == ("sofa", "fridge", "kitchen")
    assert (merged.counts.runs, merged.version) == (2, 1)


def test_what_is_for_another_goal_or_household_is_kept_beside_it(memory: SqliteMemory) -> None:
    kept = Kept(memory)
    kept.add(routine())
    kept.add(routine("throw {thing_1} on the {place_2}"))
    office = routine()
    kept.add(office.model_copy(update={"origin": office.origin.model_copy(update={"household": "office"})}))
    assert list(kept.all()) == ["put", "put 2", "put 3"]


def test_another_tree_takes_the_place_of_one_that_failed_as_a_new_version(memory: SqliteMemory) -> None:
    kept = Kept(memory)
    kept.add(routine())
    kept.add(routine(last="throw"))
    assert "put down" in kept.named("put").to_json()
    used(kept, "put", "it slipped")
    kept.add(routine(last="throw"))
    changed = kept.named("put")
    assert "throw" in changed.to_json()
    assert (changed.version, changed.counts) == (2, model.Counts(runs=3))


def test_uses_are_counted_and_searches_learn_where_things_were(memory: SqliteMemory) -> None:
    kept = Kept(memory)
    kept.add(routine(order=("fridge",)))
    used(kept, "put", found_1=("desk", "office"))
    used(kept, "put", "it slipped")
    counted = kept.named("put")
    assert counted.counts == model.Counts(runs=1, uses=2, successes=1, last_failure="it slipped")
    assert search_of(counted).order == ("desk", "office", "fridge")
    for number in range(30):
        used(kept, "put", found_1=(f"place {number}",))
    assert len(search_of(kept.named("put")).order) == 12


def test_what_was_changed_meanwhile_is_not_counted_for_what_it_was(memory: SqliteMemory) -> None:
    kept = Kept(memory)
    kept.add(routine())
    fit = Fit(kept.named("put"), {})
    kept.replace("put", routine(last="throw").model_copy(update={"version": 2}))
    kept.used(fit, "it slipped", {}).result(timeout=10)
    assert kept.named("put").counts == model.Counts()


def test_counts_and_versions_end_at_the_most_and_are_read_again(memory: SqliteMemory) -> None:
    kept, most = Kept(memory), model.MOST_COUNTED
    counts = model.Counts(runs=most, uses=most, successes=most, last_failure="x")
    kept.replace("put", routine().model_copy(update={"counts": counts, "version": most}))
    used(kept, "put")
    assert kept.named("put").counts == counts.model_copy(update={"last_failure": ""})
    used(kept, "put", "it slipped")
    kept.add(routine(last="throw"))
    assert (kept.named("put").version, kept.named("put").counts.runs) == (most, most)


def test_what_was_removed_meanwhile_stays_removed(memory: SqliteMemory) -> None:
    kept = Kept(memory)
    kept.add(routine())
    fit = Fit(kept.named("put"), {})
    kept.remove("put")
    kept.used(fit, "", {}).result(timeout=10)
    assert kept.all() == {}
    with pytest.raises(UserError, match="there is no routine 'put'; it has none yet"):
        kept.remove("put")


def test_one_that_fails_too_often_is_not_found_any_more(memory: SqliteMemory) -> None:
    kept = Kept(memory)
    kept.add(routine())
    assert kept.fitting("Put apple on the desk", KNOWN, "wah_nl")
    used(kept, "put", "it slipped")
    used(kept, "put", "it slipped")
    assert not is_trusted(kept.named("put"))
    assert not kept.fitting("Put apple on the desk", KNOWN, "wah_nl")


def test_the_one_that_helped_least_makes_room(memory: SqliteMemory) -> None:
    kept = Kept(memory, most=3)
    for verb in ("put", "lay", "set"):
        kept.add(routine(f"{verb} {{thing_1}} on the {{place_2}}", name=verb))
    for verb in ("put", "set"):
        used(kept, verb)
    kept.add(routine("drop {thing_1} on the {place_2}", name="drop"))
    assert list(kept.all()) == ["drop", "put", "set"]


def test_of_more_than_may_be_all_that_are_too_many_make_room(memory: SqliteMemory) -> None:
    others = Kept(memory)
    for verb in ("put", "lay", "set", "drop"):
        others.add(routine(f"{verb} {{thing_1}} on the {{place_2}}", name=verb))
    Kept(memory, most=2).add(routine("throw {thing_1} on the {place_2}", name="throw"))
    assert len(others.all()) == 2


SOUND = routine(name="damaged").to_json().removesuffix("}")


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "null", "[" * 9999, '{"name": "put", "goal": "x", "body": {"kind": "bomb"}}'),
        SOUND + ', "counts": {"uses": 1e400}}',
        SOUND + ', "counts": {"uses": 2, "successes": 3}}',
        SOUND + f', "counts": {{"successes": 1{"0" * 400}}}}}',
    ],
)
def test_what_others_have_damaged_is_left_out(memory: SqliteMemory, text: str) -> None:
    kept = Kept(memory)
    kept.add(routine())
    memory.change_routine("damaged", lambda _: text)
    assert list(kept.all()) == ["put"]


# ---------------------------------------------------------------------- what fits


def fitting(memory: SqliteMemory, goal: str, household: str = "wah_nl") -> list[str]:
    return [str(fit) for fit in Kept(memory).fitting(goal, KNOWN, household)]


def test_a_role_is_filled_by_a_word_of_its_kind_alone(memory: SqliteMemory) -> None:
    Kept(memory).add(routine())
    assert fitting(memory, "Put the mug on a desk.") == ["put mug on the desk"]
    for other in (
        *("put desk on the mug", "put mug on the mug", "put gold on the desk", "put mug in the desk", "put mug"),
    ):
        assert fitting(memory, other) == []
    assert fitting(memory, "put mug on the desk", "office") == []


def test_the_more_specific_comes_first(memory: SqliteMemory) -> None:
    kept = Kept(memory)
    kept.add(routine())
    kept.add(routine("put apple on the {place_2}", name="apple"))
    assert [fit.routine.name for fit in kept.fitting("put apple on the desk", KNOWN, "wah_nl")] == ["apple", "put"]
    assert [fit.routine.name for fit in kept.fitting("put mug on the desk", KNOWN, "wah_nl")] == ["put"]


def test_numbers_belong_to_the_words(memory: SqliteMemory) -> None:
    Kept(memory).add(routine("put 2 {thing_1} on the {place_2}"))
    assert fitting(memory, "put 2 mugs on the desk") == ["put 2 mug on the desk"]
    assert fitting(memory, "put 3 mugs on the desk") == []


#: Of the same things as "put mug on the desk", and another task.
OTHER_TASKS = (
    *("put the mugs on the desk", "put mugs on the desks", "put the mug on the desks", "put 2 mugs on the desk"),
    *("do not put the mug on the desk", "don't put the mug on the desk"),
    *("put the mug on the desk, but not the red one", "put the mug on the desk and the apple on the sofa"),
    *("put the mug on the desk unless it is wet", "put the other mug on the desk", "put each mug on the desk"),
    *("never put the mug on the desk", "put -1 mug on the desk", "put the mug on the desk 不要"),
)


@pytest.mark.parametrize("goal", OTHER_TASKS)
def test_another_task_of_the_same_things_neither_fits_nor_is_proposed(memory: SqliteMemory, goal: str) -> None:
    kept, asked = Kept(memory), "put the mug on the desk"
    kept.add(routine())
    assert fitting(memory, asked) == ["put mug on the desk"]
    assert fitting(memory, goal) == []
    if "不要" not in goal:  # of other languages nobody knows what turns a goal round
        assert [str(fit) for fit in fillings(routine("lay {thing_1} on the {place_2}"), goal, KNOWN)] == []
    assert [str(fit) for fit in fillings(routine("lay {thing_1} on the {place_2}"), f"please {asked}", KNOWN)] == [
        "lay mug on the desk"
    ]


def test_several_things_fit_what_was_learnt_for_several(memory: SqliteMemory) -> None:
    Kept(memory).add(routine("put {thing_1}s on the {place_2}"))
    assert fitting(memory, "Put the mugs on the desk") == ["put mugs on the desk"]
    assert fitting(memory, "Put the boxes on the desk") == ["put boxs on the desk"]
    assert fitting(memory, "Put the mug on the desk") == []


def test_the_words_of_a_robot_are_its_own() -> None:
    known = Vocabulary(("desk", "printer 2B"), ("stapler",))
    assert known.kinds_of("stapler") == {"thing"}
    assert known.kinds_of("Printer 2b") == {"place", "room"}
    assert "mug" not in known


def test_what_has_changed_is_found_as_if_all_were_read_anew(memory: SqliteMemory) -> None:
    """Also by who has looked before: it reads no more than what is otherwise."""
    rng, kept = random.Random(0), Kept(memory)
    goals = [f"{verb} apple on the desk" for verb in ("put", "lay", "set")]
    for _ in range(30):
        other, verb = Kept(memory), rng.choice(("put", "lay", "set"))
        if verb not in other.all():
            other.add(routine(rng.choice((f"{verb} {{thing_1}} on the {{place_2}}", f"{verb} it away")), name=verb))
        elif rng.random() < 0.5:
            other.remove(verb)
        else:
            used(other, verb, rng.choice(("", "it slipped")))
        found = [kept.fitting(goal, KNOWN, "wah_nl") for goal in goals]
        assert found == [Kept(memory).fitting(goal, KNOWN, "wah_nl") for goal in goals]
        assert list(kept.all().items()) == list(Kept(memory).all().items())


BRING: dict[str, Any] = {
    "name": "bring",
    "goal": "put 1 {thing} on the {place} within {n} s",
    "roles": [{"name": name, "kind": kind} for name, kind in (("thing", "thing"), ("place", "place"), ("n", "number"))],
    "body": {
        "kind": "sequence",
        "children": [
            {"kind": "search", "finds": "a", "of": "{thing}", "order": ["fridge"]},
            {"kind": "skill", "wording": "pick up {a}"},
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
    routine = Routine.from_data(BRING)
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
        Routine.from_data(BRING | changed, where="bring.json")
    assert said in str(told.value)
    assert str(told.value).startswith("bring.json: ")
    assert "\n" not in str(told.value)
    assert len(str(told.value)) <= 500


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"name": 1}', '{"body":' * 5000, "x" * 600_000])
def test_what_is_no_json_of_a_routine_is_one_line(text: str) -> None:
    with pytest.raises(RoutineError, match=r"\Aroutine: [^\n]+\Z"):
        Routine.of_json(text)


def test_a_routine_of_the_most_levels_and_nodes_is_one() -> None:
    assert len(Routine.from_data(BRING | {"body": chain(DEEPEST - 1)}).nodes) == DEEPEST
    leaf = {"kind": "skill", "wording": "wait"}
    full = Routine.from_data(BRING | {"body": {"kind": "sequence", "children": [leaf] * (MOST_NODES - 1)}})
    assert Routine.of_json(full.to_json()) == full
