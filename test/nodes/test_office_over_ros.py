"""The office robot carries tasks out over ROS from end to end: to a person, on two floors, and for an hour."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from doubles import ScriptedModel, expand, goal_of
from office_robot import OFFICE, OfficeRobot
from rclpy.parameter import Parameter
from robot_servers import LATCHED
from ros_graph import Graph, activate
from rosgraph_msgs.msg import Clock
from std_msgs.msg import Bool
from test_robot_check import wrong

from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.nodes.robot.robot_bridge_node import RobotBridgeNode
from reactree_ros.nodes.robot.robot_check import Walk

TO_ANNA = "Bring the stapler from office 204 to Anna in the meeting room on floor 2, and tell her that it is from Bob"
ROUND = "Water the plant in the lobby, wipe the table there for 20 seconds, and dock"
REFILL = "Refill the printer"
FROM_BELOW = "Bring the stapler from office 204 to Anna"
SCRIPT = {
    FROM_BELOW: [
        "Act: navigate to desk 1",
        "Act: navigate to lobby elevator",
        "Act: press the button of floor 2",
        "Act: navigate to desk 1",
        "Act: grip stapler 1 with low force",
        "Act: navigate to meeting table 1",
        "Act: hand over stapler 1 to Anna",
        "Act: done",
    ],
    TO_ANNA: [expand("sequence", "fetch the stapler", "give it to Anna")],
    "fetch the stapler": [
        "Act: grip stapler 1 with low force",
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
    ROUND: [expand("sequence", "water the plant", "wipe the table", "dock")],
    "water the plant": [
        "Act: navigate to counter 1",
        "Act: grip jug 1 with medium force",
        "Act: navigate to plant",
        "Act: navigate to corridor elevator",
        "Act: press the button of floor 0",
        "Act: wait up to 20 s for lobby elevator",
        "Act: navigate to plant",
        "Act: pour from jug 1 into plant",
        "Act: done",
    ],
    "wipe the table": [
        "Act: navigate to lobby table",
        "Act: place jug 1 on lobby table on the right",
        "Act: navigate to lobby table",
        "Act: wipe lobby table for 20 s",
        "Act: done",
    ],
    "dock": [
        "Act: dock",
        "Act: navigate to lobby elevator",
        "Act: press the button of floor 2",
        "Act: dock",
        "Act: done",
    ],
}
#: The simulated hour begins on a Thursday, so that the plants are not due.
BEGIN, HOUR = datetime(2026, 11, 26, 9).timestamp(), 3600.0


class Refiller(LanguageModel):
    """Puts one pack of paper after the other into the printer; after a failure it goes there again."""

    def __init__(self) -> None:
        self.packs = 0
        self._step = 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        assert goal_of(request.prompt) == REFILL
        told = request.prompt.rpartition("Your task is to: ")[2]
        last = told.rpartition("Act: ")[2]
        if "Act: " not in told:
            self.packs, self._step = self.packs + 1, 0
        elif "You could not" in last or "You cannot" in last:
            self._step -= 2
        paper = f"paper {self.packs}"
        plan = ["navigate to shelf", f"grip {paper} with low force", "navigate to printer"]
        plan += [f"place {paper} in paper tray on the middle", "done"]
        self._step += 1
        return Pending.of(Reply(f"Act: {plan[self._step - 1]}"))


class Office:
    """The office robot with bridge, planner and model in a test's graph."""

    def __init__(self, graph: Graph, model: LanguageModel, **parameters: Any) -> None:
        self.graph = graph
        self.robot: Any = graph.add(OfficeRobot(context=graph.context, speed=40.0))
        graph.probe.create_publisher(Bool, "/emergency_stop", LATCHED).publish(Bool(data=False))
        given = {"robot_config": str(OFFICE), "server_timeout": 5.0, "stop_timeout": 5.0, **parameters}
        overrides = [Parameter(name, value=value) for name, value in given.items()]
        self.bridge = graph.add(activate(RobotBridgeNode(context=graph.context, parameter_overrides=overrides)))
        self.bare: Any = self.bridge.host.bare
        self.planner: Any = None
        graph.inference(model)
        graph.until(lambda: self.map is not None and self.map.robot is not None, "the robot's pose is heard")
        graph.until(lambda: not self.bare._robot.stop.engaged(), "the emergency stop is heard")

    @property
    def map(self) -> Any:
        return self.bare._robot.senses.map

    def plan(self, **parameters: Any) -> None:
        self.planner = self.graph.planner(bridge="robot_bridge", **parameters)

    def carries_out(self, instruction: str) -> None:
        """Carry an instruction out that is claimed to be done."""
        self.plan()
        result = self.graph.task(instruction).result
        assert result.success, (result.message, self.robot.log)


def test_a_thing_is_brought_to_a_person_who_is_told_whose_it_is(graph: Graph) -> None:
    office = Office(graph, ScriptedModel(SCRIPT))
    office.carries_out(TO_ANNA)
    graph.until(lambda: office.robot.said, "it is heard")
    assert office.robot.lies["stapler 1"] == "Anna"
    assert office.robot.said == ["Hello Anna. This is from Bob. Please take it, and go to the lobby!"]
    assert office.map.held == []


def test_a_thing_comes_from_another_floor_and_the_way_there_is_told(graph: Graph) -> None:
    office = Office(graph, ScriptedModel(SCRIPT))
    below = office.robot._places["lobby table"].approach
    office.robot.x, office.robot.y = below.x, below.y
    graph.until(lambda: office.map.agent_room.name == "lobby", "it is known to be in the lobby")
    office.plan()
    goal = graph.task(FROM_BELOW)
    assert goal.result.success, (goal.result.message, office.robot.log)
    way = "first navigate to lobby elevator, then press the button of floor 2, then go on."
    assert any(way in feedback.last_observation for feedback in goal.feedback)
    assert (office.robot.lies["stapler 1"], office.robot.floor) == ("Anna", 2)


def test_a_plant_is_watered_and_a_table_wiped_on_another_floor_and_the_robot_docks(graph: Graph) -> None:
    office = Office(graph, ScriptedModel(SCRIPT))
    office.carries_out(ROUND)
    assert office.robot.poured == ["plant"]
    assert office.robot.wiped == {"lobby table": 20.0}
    assert (office.robot.lies["jug 1"], office.robot.floor, office.robot.docked) == ("lobby table", 2, True)
    assert office.map.by_name["plant"].states == {"FULL"}
    assert office.robot.dockings == 1


def test_for_an_hour_the_printer_is_refilled_whenever_it_is_empty_and_the_robot_docks_before_it_is(
    graph: Graph,
) -> None:
    model = Refiller()
    office = Office(graph, model, use_sim_time=True)
    office.plan(triggers=str(OFFICE), use_sim_time=True)
    clock = graph.probe.create_publisher(Clock, "/clock", 1)
    robot, time, empty, lowest = office.robot, 0.0, 0, 1.0
    while time < HOUR or office.planner._queue.running is not None:
        running = office.planner._queue.running
        wanted = running is not None or robot.paper == 0
        works = office.bare._errand is not None or (wanted and not office.bridge.host.halted())
        seconds = 0.05 if works else 2.0  # time flies while the robot has nothing to do
        before = robot.paper
        robot.pass_time(seconds)
        time, empty, lowest = time + seconds, empty + (before > 0 == robot.paper), min(lowest, robot.level)
        msg = Clock()
        msg.clock.sec, msg.clock.nanosec = int(BEGIN + time), int((BEGIN + time) % 1 * 1e9)
        clock.publish(msg)
        graph.step()
    assert robot.refills == model.packs == empty >= 3
    assert robot.dockings >= 1
    assert lowest > 0.1


def test_a_check_finds_the_office_robot_all_right(graph: Graph) -> None:
    office = Office(graph, ScriptedModel(SCRIPT))

    def until(done: Any, seconds: float) -> bool:
        steps = 0
        while not done() and steps < 100 * seconds:
            graph.step()
            steps += 1
        return bool(done())

    graph.until(lambda: graph.probe.count_publishers("/printer/sheets"), "the printer is there")
    found = Walk(graph.add_node("robot_check"), until, 5.0).walk(OFFICE)
    assert wrong(found) == []
    said = {one.what: one.said for one in found}
    assert said["condition 'paper'"] == "the printer has paper: yes"
    assert said["trigger 'refill'"] == "when no paper: 'Refill the printer'"
    assert office.robot.log == []
