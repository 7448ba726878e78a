"""What a robot's skills say reaches fields of messages, and comes back from them, of each kind of parameter."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from robot.delivery import delivery_robot

from reactree_ros.agent.skill import skill_of
from reactree_ros.errors import UserError
from reactree_ros.nodes.robot.goal_templates import compiled, names_of, resolve, values_in
from reactree_ros.nodes.robot.mapped_skill import MappedCall, values_of
from reactree_ros.robot.config import StepEntry, load_robot
from reactree_ros.robot.map_file import load_map
from reactree_ros.robot.semantic_map import SemanticMap


def test_lists_booleans_and_poses_reach_messages_and_come_from_them() -> None:
    carry = skill_of(
        {
            "name": "carry",
            "wording": "carry {items} to {spot}[, {quietly}]",
            "parameters": {
                "items": {"list": {"thing": None}, "most": 2},
                "spot": {"pose": {"frame": "odom"}},
                "quietly": {"boolean": ["quietly", "as usual"], "default": False},
            },
            "returns": {"where": {"pose": {"frame": "odom"}}, "levels": {"list": {"number": {"from": 0, "to": 9}}}},
        }
    )
    values = values_in(carry.read('carry mug 1 and "salt and pepper" to x 1.5, y -2, yaw 90'))

    def filled(kind: str, goal: dict[str, Any]) -> Any:
        return compiled(resolve("message", kind, "here"), goal, "here", names_of(carry))(values)

    value = "rcl_interfaces/msg/ParameterValue"
    said = {"string_array_value": "{items}", "bool_value": "{quietly}", "string_value": "{items}, {quietly}"}
    message = filled(value, said)
    assert (message.string_array_value, message.bool_value) == (["mug 1", "salt and pepper"], False)
    assert message.string_value == 'mug 1 and "salt and pepper", as usual'
    stamped = filled("geometry_msgs/msg/PoseStamped", {"header.frame_id": "{spot.frame}", "pose": "{spot}"})
    assert (stamped.header.frame_id, stamped.pose.position.x, stamped.pose.position.y) == ("odom", 1.5, -2.0)
    assert stamped.pose.orientation.z == pytest.approx(math.sin(math.pi / 4))
    for goal, reason in (
        ({"bool_value": "{items}"}, "boolean cannot be '{items}', which is a list"),
        ({"string_array_value": "{spot}"}, "cannot be '{spot}'"),
        ({"integer_array_value": "{items}"}, "each: int64 cannot be '{items}', which is a text"),
        ({"string_value": "{spot}"}, "'{spot}' is a pose, not a text"),
        ({"double_value": "{quietly}"}, "double cannot be '{quietly}', which is true or false"),
    ):
        with pytest.raises(UserError, match=re.escape(reason)):
            filled(value, goal)
    entry = StepEntry.model_validate(
        {
            "wait_for": "pose",
            "type": "geometry_msgs/msg/PoseStamped",
            "result": {"where": "pose"},
            "success": {"header.frame_id": ["odom", "map"]},
        }
    )
    assert MappedCall(entry, "here", carry).returned(stamped) == {"where": {"x": 1.5, "y": -2.0, "yaw": 90}}
    stamped.header.frame_id = "map"
    came = MappedCall(entry, "here", carry).returned(stamped)
    assert carry.describe(came).startswith("where: a pose in the frame map (it should be a pose such as")
    levels = StepEntry.model_validate(
        {"wait_for": "levels", "type": value, "result": {"levels": "integer_array_value"}, "success": {"type": 0}}
    )
    message.integer_array_value = [1, 1, 12]
    assert MappedCall(levels, "here", carry).returned(message) == {"levels": [1, 1, 12]}


def test_a_parameter_may_be_called_as_what_every_template_may_name(tmp_path: Path) -> None:
    config = load_robot(delivery_robot(tmp_path))
    (arm,) = (skill for skill in config.declared if skill.name == "move arm")
    assert values_of(SemanticMap(load_map(config.map)), arm.read("move the arm to carry"))["pose"] == "carry"
