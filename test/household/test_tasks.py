"""A task file that cannot be used is refused in one line that says where and why."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactree_ros.errors import UserError
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.tasks import load_tasks, parse_tasks

GOOD = json.loads(HOUSES["apartment"].read_text(encoding="utf-8"))
Change = Callable[[Any], object]


def graph(task: Any) -> Any:
    return task["init_graph"]


BAD: list[tuple[str, Change, str]] = [
    ("no task_id", lambda t: t.pop("task_id"), "$[0].task_id: field required"),
    ("task_id a string", lambda t: t.update(task_id="1"), "$[0].task_id: input should be a valid integer, not '1'"),
    ("no task_name", lambda t: t.pop("task_name"), "$[0].task_name: field required"),
    ("no instructions", lambda t: t.pop("nl_instructions"), "$[0].nl_instructions: field required"),
    ("empty instructions", lambda t: t.update(nl_instructions=[]), "$[0].nl_instructions: list should have at least 1"),
    ("empty instruction", lambda t: t.update(nl_instructions=[""]), "$[0].nl_instructions[0]: string should have"),
    ("instruction a string", lambda t: t.update(nl_instructions="a"), "$[0].nl_instructions: input should be a valid"),
    ("no goal", lambda t: t.pop("task_goal"), "$[0].task_goal: field required"),
    ("empty goal", lambda t: t.update(task_goal={}), "$[0].task_goal: dictionary should have at least 1 item"),
    ("goal of nothing", lambda t: t.update(task_goal={"on_apple_sofa": 0}), "$[0].task_goal: every count is 0"),
    ("own name twice", lambda t: [one.update(name="Anna's") for one in graph(t)["nodes"][1:3]], 'called "Anna\'s"'),
    ("own name of another", lambda t: graph(t)["nodes"][1].update(name="Bedroom 1"), "things are called 'Bedroom 1'"),
    ("own name of signs", lambda t: graph(t)["nodes"][1].update(name="a; b"), "nodes[1].name: a name is words of"),
    ("negative goal", lambda t: t.update(task_goal={"on_apple_sofa": -1}), "$[0].task_goal.on_apple_sofa: input"),
    ("goal of words", lambda t: t.update(task_goal={"eat the apple": 1}), "$[0].task_goal.eat the apple: a goal is"),
    ("goal relation", lambda t: t.update(task_goal={"near_apple_sofa": 1}), "$[0].task_goal.near_apple_sofa: a goal"),
    ("goal item", lambda t: t.update(task_goal={"on_unicorn_sofa": 1}), "unknown class 'unicorn'"),
    ("goal target", lambda t: t.update(task_goal={"on_apple_spaceship": 1}), "unknown class 'spaceship'"),
    ("goal target missing", lambda t: t.update(task_goal={"on_apple_stall": 1}), "the house has no 'stall'"),
    ("no env_id", lambda t: t.pop("env_id"), "$[0].env_id: field required"),
    ("no room", lambda t: t.pop("init_room"), "$[0].init_room: field required"),
    ("room not there", lambda t: t.update(init_room="attic"), "$[0].init_room: the house has no room of class 'attic'"),
    ("room no room", lambda t: t.update(init_room="fridge"), "$[0].init_room: the house has no room of class 'fridge'"),
    ("no graph", lambda t: t.pop("init_graph"), "$[0].init_graph: field required"),
    ("graph a list", lambda t: t.update(init_graph=[]), "$[0].init_graph: there are no names; write names with values"),
    ("no nodes", lambda t: graph(t).pop("nodes"), "$[0].init_graph.nodes: field required"),
    ("empty nodes", lambda t: graph(t).update(nodes=[]), "$[0].init_graph.nodes: list should have at least 1 item"),
    ("node without id", lambda t: graph(t)["nodes"][3].pop("id"), "$[0].init_graph.nodes[3].id: field required"),
    (
        "class of signs",
        lambda t: graph(t)["nodes"][3].update(class_name="a; b"),
        "class_name: 'a; b' is not a class; write",
    ),
    ("no properties", lambda t: graph(t)["nodes"][2].pop("properties"), "nodes[2].properties: field required"),
    ("states a string", lambda t: graph(t)["nodes"][2].update(states="ON"), "nodes[2].states: input should be a valid"),
    ("id twice", lambda t: graph(t)["nodes"][3].update(id=1), "nodes[3].id: node id 1 occurs twice"),
    ("dangling edge", lambda t: graph(t)["edges"][5].update(to_id=99999), "edges[5].to_id: no node has the id 99999"),
    ("dangling start", lambda t: graph(t)["edges"][5].update(from_id=-4), "edges[5].from_id: no node has the id -4"),
    ("edge without relation", lambda t: graph(t)["edges"][5].pop("relation_type"), "edges[5].relation_type: field"),
    ("bad quirks", lambda t: t.update(recorded_quirks={"grab_no_effect": "x"}), "$[0].recorded_quirks.grab_no_effect"),
]


@pytest.mark.parametrize(("change", "message"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_a_bad_task_is_refused_with_its_place(change: Change, message: str) -> None:
    document = copy.deepcopy(GOOD)
    change(document[0])
    with pytest.raises(UserError) as refused:
        parse_tasks(document)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 250


def test_a_class_that_the_vocabulary_lacks_is_called_by_its_own_name() -> None:
    document = copy.deepcopy(GOOD)
    lamp = {"category": "Lamps", "properties": ["HAS_SWITCH"], "states": ["OFF"]}
    graph(document[0])["nodes"] += [
        {"id": 9001, "class_name": "floor_lamp", **lamp},
        {"id": 9002, "class_name": "bathroom_counter", **lamp},
        {"id": 9003, "class_name": "bathroomcounter", **lamp},
    ]
    called = parse_tasks(document)[0].init_graph.called({})
    assert called[9001] == ("floor lamp", 1)
    assert (called[9002][0], called[9003][0]) == ("bathroom counter", "bathroom counter")
    assert called[9002][1] + 1 == called[9003][1]


def test_things_inside_each_other_are_refused() -> None:
    document = copy.deepcopy(GOOD)
    containers = [n["id"] for n in document[0]["init_graph"]["nodes"] if "CONTAINERS" in n["properties"]][:2]
    for a, b in (containers, containers[::-1]):
        document[0]["init_graph"]["edges"].append({"from_id": a, "relation_type": "INSIDE", "to_id": b})
    with pytest.raises(UserError, match="is inside itself"):
        parse_tasks(document)


def test_the_same_task_id_twice_is_refused() -> None:
    with pytest.raises(UserError, match=r"\$\[1\].task_id: task_id 1 occurs twice"):
        parse_tasks([GOOD[0], GOOD[0]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"[", "is not JSON"),
        (b"[]", "$: the list of tasks is empty"),
        (b"3", "$: input should be a valid list"),
        (b'"tasks"', "$: input should be a valid list"),
        (b"[1]", "$[0]: there are no names; write names with values"),
        (b"{}", "$.task_id: field required"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100000, "is not JSON"),
    ],
)
def test_a_file_that_is_no_task_file_is_refused_with_its_name(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "tasks.json"
    path.write_bytes(content)
    with pytest.raises(UserError) as refused:
        load_tasks(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing.json: cannot be read: .*No such file"):
        load_tasks(tmp_path / "nothing.json")


def test_goals_that_ask_for_none_are_left_out() -> None:
    document = copy.deepcopy(GOOD)
    document[0]["task_goal"]["on_book_sofa"] = 0
    assert len(parse_tasks(document)[0].goal) == len(GOOD[0]["task_goal"])
