"""A person's word that corrects the robot's map, over ROS: `~/hear`, shown by `~/ask_person`, taken in by a bridge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from doubles import Reader
from people import PLANNER, Answerer, words_told
from reactree_interfaces.srv import AvailableSkills, CorrectWorld, Hear
from robot_house import House
from ros_graph import Graph
from std_srvs.srv import Trigger

GOES = ["Act: go to kitchen table 1", "Act: done"]


class Home:
    """A robot at home, a planner and a person."""

    def __init__(self, graph: Graph, folder: Path, *understood: str, **parameters: Any) -> None:
        self.graph, self.house = graph, House(graph, folder)
        self.house.add_robot(speed=4.0)
        self.house.start()
        self.house.does("go to kitchen table 1")
        self.model = Reader({"root": GOES}, understood)
        graph.inference(self.model)
        self.planner = graph.planner(bridge="robot_bridge", save_to=str(folder / "runs"), **parameters)
        self.person = Answerer(graph)

    def hear(self, words: str) -> None:
        answer = self.graph.call(Hear, f"{PLANNER}/hear", words=words)
        assert answer.success, answer.message

    def paused(self, *words: str) -> Any:
        """Begin a task that is paused, in which a person says something, and let it go on."""
        self.graph.call(Trigger, f"{PLANNER}/pause")
        goal = self.graph.task()
        self.graph.until(lambda: any(one.held for one in goal.feedback), "it holds")
        for one in words:
            self.hear(one)
        self.graph.call(Trigger, f"{PLANNER}/resume")
        return goal


def test_after_pause_and_resume_the_map_and_the_node_know_what_the_person_did(graph: Graph, tmp_path: Path) -> None:
    home = Home(graph, tmp_path)
    del home.house.robot.house.objects["cup"]  # the mug: the person has taken it
    goal = home.paused("I have taken the mug")
    asked = home.person.is_asked().question
    assert (asked.text, asked.skill) == (
        "Do I understand you: the mug 1 is with the person?",
        "the mug 1 is with the person",
    )
    assert not home.house.map.borne
    home.person.says("y")
    result = goal.result
    assert result.success, result.message
    assert words_told(home.planner)[1] == "The person confirms it: the mug 1 is with the person."
    assert "The person has mug (1)." in home.model.requests[0].prompt
    assert home.house.skill("pick up mug 1").result.message == "The person has the mug."
    events = [json.loads(line) for line in Path(result.saved_to).read_text().splitlines()]
    assert [event["of"] for event in events if event["e"] == "observation"].count("correct") == 1


def test_other_words_are_read_by_the_inference_node_in_the_closed_form(graph: Graph, tmp_path: Path) -> None:
    home = Home(graph, tmp_path, "take in that the mug 1 is at coffee table 1; the pudding 1 is gone")
    goal = home.paused("somebody ate the pudding, and the mug stands where we drink coffee")
    home.person.says("yes")
    assert goal.result.success
    assert home.house.map.place_of(home.house.map.by_name["mug 1"]).name == "coffee table 1"
    (request,) = home.model.read
    assert "- the {thing} is with {person}" in request.prompt


@pytest.mark.parametrize("answer", ["no", "stop"])
def test_a_no_changes_nothing_and_a_stop_ends_the_task(graph: Graph, tmp_path: Path, answer: str) -> None:
    home = Home(graph, tmp_path)
    goal = home.paused("I have taken the mug")
    home.person.says(answer) if answer == "no" else home.hear(answer)
    assert goal.result.success is (answer == "no")
    assert not home.house.map.borne


def test_the_bridge_takes_in_its_own_statements_alone(graph: Graph, tmp_path: Path) -> None:
    home = Home(graph, tmp_path)
    told = graph.call(AvailableSkills, "robot_bridge/corrections")
    assert {one.skill for one in told.offers} == {one.name for one in told.declared}
    assert {one.name for one in told.declared} >= {"at", "with", "held", "gone", "open", "closed"}
    for wrong in ("pick up mug 1", "the yak 1 is gone", "", "the mug 1 is gone; the pudding 1 is gone"):
        answer = graph.call(CorrectWorld, "robot_bridge/correct", correction=wrong)
        assert (answer.error_code, answer.taken_in) == (0, False)
        assert answer.observation.text.startswith("It was not taken in: ")
    answer = graph.call(CorrectWorld, "robot_bridge/correct", correction="the mug 1 is held by the robot")
    assert (answer.taken_in, home.house.map.held) == (True, [home.house.map.by_name["mug 1"].id])
    assert answer.observation.text.endswith("You hold mug (1).")
