"""The office robot over ROS, by the servers and topics that its file declares: all its skills are done."""

from __future__ import annotations

from typing import Any

from declared_robot import DeclaredRobot
from doubles import ScriptedModel, expand
from robot_house import CONFIG, House
from robot_servers import LATCHED
from std_msgs.msg import Bool, Int32
from test_robot_check import checked_file, wrong

from reactree_ros.robot.config import load_robot

OFFICE = CONFIG / "robots/office.yaml"
TO_ANNA = "Bring the stapler from office 204 to Anna in the meeting room on floor 2, and tell her that it is from Bob"
SCRIPT = {
    TO_ANNA: [expand("sequence", "fetch the stapler", "give it to Anna")],
    "fetch the stapler": [
        "Act: navigate to desk 1",
        "Act: grip stapler 1 with low force",
        "Act: done",
    ],
    "give it to Anna": [
        "Act: navigate to meeting table 1",
        "Act: hand over stapler 1 to Eve",
        "Act: hand over stapler 1 to Anna",
        "Act: say Hello Anna. This is from Bob. Please take it, and go to the lobby!",
        "Act: done",
    ],
}
#: Every skill, each of them possible after those before.
SKILLS = (
    *("navigate to counter 1", "grip jug 1 with low force", "pour from jug 1 into cup 1", "wipe counter 1 for 20 s"),
    *("place jug 1 on counter 1 on the left", "drive forward by 0.5 m", "navigate to desk drawer 1"),
    *("open desk drawer 1 by 12 cm", "wait up to 20 s for office door 204", "press the button of floor 2"),
    *("say Hello", "take a picture", "grip stapler 1 with low force", "hand over stapler 1 to Anna", "dock"),
    "wait until the printer has paper for up to 5 s",
)


def office(house: House) -> House:
    """Let a house have the office robot and its bridge."""
    graph = house.graph
    house.robot = graph.add(DeclaredRobot(load_robot(OFFICE), context=graph.context, speed=40.0))
    for topic, said in (
        ("/emergency_stop", Bool(data=False)),
        ("/doors/office_204", Bool(data=True)),
        ("/printer/sheets", Int32(data=60)),
    ):
        graph.probe.create_publisher(type(said), topic, LATCHED).publish(said)
    return house


def test_every_skill_of_the_office_robot_is_done(house: House) -> None:
    office(house).start(robot_config=str(OFFICE))
    house.until(lambda: not house.stop.engaged() and house.parts.conditions.named("paper"), "all topics are heard")
    house.does(*SKILLS)
    asked = [line for line in house.robot.log if line.endswith((": succeed", ": heard"))]
    assert {line.partition(":")[0] for line in asked} >= {"arm", "navigate_to_pose", "backup", "dock_robot", "speech"}


def test_a_thing_is_brought_to_a_person_who_is_told_whose_it_is(house: House) -> None:
    office(house).start(robot_config=str(OFFICE))
    house.until(lambda: not house.stop.engaged(), "the stop is heard")
    model = ScriptedModel(SCRIPT)
    house.graph.inference(model)
    house.graph.planner(bridge="robot_bridge")
    result = house.graph.task(TO_ANNA).result
    assert result.success, (result.message, house.robot.log)
    assert house.map.held == []
    assert [line for line in house.robot.log if line.startswith("speech")] == ["speech: heard"]


def test_a_check_finds_the_office_robot_all_right(house: House) -> None:
    found: list[Any] = checked_file(office(house), OFFICE, patience=5.0)
    assert wrong(found) == []
    said = {one.what: one.said for one in found}
    assert said["condition 'paper'"] == "the printer has paper: yes"
    assert said["trigger 'refill'"] == "when no paper: 'Refill the printer'"
    assert house.robot.log == []
