"""What people say of a map's own things and places: the expert carries it out, or says why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from reactree_ros.agent.turns import Said
from reactree_ros.episode import Episode
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.planners.spec import planner
from reactree_ros.robot.declared import SPEC, DeclaredSettings, DeclaredWorld
from reactree_ros.tree.goal_node import GoalNode

ROBOTS = Path(__file__).parents[2] / "config/robots"
#: What pyrobosim's own world has.
SHIPPED = yaml.safe_load((ROBOTS / "pyrobosim_map.yaml").read_text())
SHIPPED["expected"] = [
    {"name": name, "at": at}
    for at, names in {
        "table 1": ("banana 1", "apple 2"),
        "desk 1": ("apple 1", "water 2", "coke 1"),
        "trash can 1": ("apple 3",),
        "counter left 1": ("water 1", "banana 2"),
    }.items()
    for name in names
]
#: No word of it is the vocabulary's but `apple`.
WARD: dict[str, Any] = yaml.safe_load("""
start: office 1
rooms:
  - {name: office 1, pose: {x: 1, y: 1}, outline: [[0, 0], [4, 0], [4, 4], [0, 4]]}
  - {name: ward 1, pose: {x: 6, y: 1}, outline: [[4, 0], [8, 0], [8, 4], [4, 4]]}
  - {name: ward 2, pose: {x: 10, y: 1}, outline: [[8, 0], [12, 0], [12, 4], [8, 4]]}
receptacles:
  - {name: nurse desk 1, room: ward 1, pose: {x: 6, y: 3}, approach: {x: 6, y: 2}}
  - {name: round table 1, room: ward 2, pose: {x: 10, y: 3}, approach: {x: 10, y: 2}}
  - {name: medicine fridge 1, room: office 1, pose: {x: 1, y: 3}, approach: {x: 1, y: 2}}
words: {nurse desk: [SURFACES], round table: [SURFACES], medicine fridge: [CONTAINERS, CAN_OPEN],
  red cup: [GRABBABLE], pill box: [GRABBABLE]}
objects: {classes: {cup: red cup, box: pill box, apple: apple}}
expected: [{name: red cup 1, at: nurse desk 1}, {name: pill box 1, at: medicine fridge 1},
  {name: pill box 2, at: nurse desk 1}]
""")


@pytest.mark.parametrize(
    ("map", "said", "ends"),
    [
        (SHIPPED, "Bring the coke to the table", {"coke 1": "table 1"}),
        (SHIPPED, "Put the bananas on the desk", {"banana 1": "desk 1", "banana 2": "desk 1"}),
        (SHIPPED, "Bring me the water", {"water 2": "hand"}),
        (SHIPPED, "Put the banana on the counter", {"banana 1": "counter left 1"}),
        (SHIPPED, "Fetch the water and put it on the kitchen table", {"water 2": "table 1"}),
        (SHIPPED, "Take the apple from the desk to the table", {"apple 1": "table 1", "apple 2": "table 1"}),
        (SHIPPED, "Bring banana 2 and apple 3 to the kitchen", {"banana 2": "table 1", "apple 3": "table 1"}),
        (SHIPPED, "Throw the coke in the bin", {"coke 1": "trash can 1"}),
        (SHIPPED, "Go to the bathroom", {"robot": "bathroom 1"}),
        (SHIPPED, "Put the milk on the table", "There is no milk that I could find here: I can look for apple"),
        (SHIPPED, "Put the apple on table 4", "I cannot put down the apple on the table 4. I have seen no table 4"),
        (WARD, "Put the cup on the table", {"red cup 1": "round table 1"}),
        (WARD, "Take the pill box from the fridge to ward 2", {"pill box 1": "round table 1", "robot": "ward 2"}),
        (
            WARD,
            "Put pill box 2 and the cup in the fridge",
            dict.fromkeys(("pill box 2", "red cup 1"), "medicine fridge 1"),
        ),
        (WARD, "Go to ward 3", "I cannot go to the ward 3. The rooms are office 1, ward 1, and ward 2."),
    ],
)
def test_what_people_say_is_done_or_refused_with_a_reason(
    map: dict[str, Any], said: str, ends: dict[str, str] | str, tmp_path: Path
) -> None:
    (tmp_path / "pyrobosim_map.yaml").write_text(yaml.safe_dump(map))
    (tmp_path / "robot.yaml").write_text((ROBOTS / "pyrobosim.yaml").read_text())
    with SPEC.make(DeclaredSettings(robot=str(tmp_path / "robot.yaml")), None) as world:
        assert isinstance(world, DeclaredWorld)
        episode = Episode(said, world=world, model=ExpertModel(), planner=planner("reactree_wm"))
        result = episode.run()
        ended = {one.name: getattr(world.map.place_of(one), "name", "hand") for one in world.map.items()}
        ended["robot"] = world.map.agent_room.name
    if isinstance(ends, str):
        nodes = (one for one in episode.root.iterate() if isinstance(one, GoalNode))
        told = [turn.text for node in nodes for turn in node.turns if isinstance(turn, Said)]
        assert (result.status, any(ends in text for text in told)) == ("failure", True), told
    else:
        assert (result.status, ended | ends) == ("success", ended)
