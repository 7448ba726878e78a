"""Parameters and launch arguments made from classes of settings."""

from __future__ import annotations

import re
from typing import Any, Literal

import pytest
from launch import LaunchContext
from pydantic import Field, field_validator
from rclpy.exceptions import InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter
from ros_graph import Graph

from reactree_ros.errors import UserError
from reactree_ros.nodes.launching import Arguments, NodeArguments, fields, refuse_unknown
from reactree_ros.nodes.parameters import declare, settings_of
from reactree_ros.plugins.settings import Settings
from reactree_ros.tree.options import ParallelPolicy


class Oven(Settings):
    heat: int = Field(default=180, ge=50, le=250, description="in degrees")
    minutes: float = Field(default=10.0, gt=0, description="how long")
    watts: float = Field(default=900.0, gt=0, le=3000, description="how much it takes")
    light: bool = Field(default=False, description="switch the light on")
    cake: str = Field(default="", description="which cake")
    fan: Literal["off", "slow", "fast"] = Field(default="slow", description="how fast the fan is")
    policy: ParallelPolicy = Field(default=ParallelPolicy.ALL, description="of several cakes")
    shelves: tuple[int, ...] | None = Field(default=None, description="which shelves are used")

    @field_validator("shelves", mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return value.split(",") if isinstance(value, str) else value


def node(graph: Graph, *, read_only: bool = True, **given: Any) -> Node:
    overrides = [Parameter(name, value=value) for name, value in given.items()]
    made = graph.add(Node("oven", context=graph.context, parameter_overrides=overrides))
    declare(made, Oven, read_only=read_only)
    return made


def test_what_is_not_given_is_as_the_settings_say(graph: Graph) -> None:
    assert settings_of(node(graph), Oven) == Oven()


def test_what_is_given_arrives_as_the_settings_have_it(graph: Graph) -> None:
    given = {"heat": 200, "minutes": 0.5, "light": True, "cake": "apple", "fan": "fast", "policy": "majority"}
    settings = settings_of(node(graph, **given, shelves="1,3"), Oven)
    assert settings == Oven(**given, shelves=(1, 3))
    assert settings.policy is ParallelPolicy.MAJORITY


@pytest.mark.parametrize("shelves", [[2, 4], "2,4"])
def test_a_list_is_a_list_or_a_text(graph: Graph, shelves: Any) -> None:
    assert settings_of(node(graph, shelves=shelves), Oven).shelves == (2, 4)


@pytest.mark.parametrize(("name", "value"), [("heat", 300), ("heat", 10)])
def test_what_is_out_of_bounds_is_refused_by_ros(graph: Graph, name: str, value: Any) -> None:
    with pytest.raises(InvalidParameterValueException, match=name):
        node(graph, **{name: value})


@pytest.mark.parametrize(("said", "fan"), [("off", "off"), ("'off'", "off"), ("no", "off"), ("fast", "fast")])
def test_a_word_that_yaml_takes_for_true_or_false_is_the_choice(graph: Graph, said: str, fan: str) -> None:
    given = ["--ros-args", "-p", f"fan:={said}"]
    made = graph.add(Node("oven", context=graph.context, cli_args=given))
    declare(made, Oven, read_only=False)
    assert settings_of(made, Oven).fan == fan
    (answer,) = made.set_parameters([Parameter("fan", value=False)])
    assert answer.successful
    assert settings_of(made, Oven).fan == "off"
    (answer,) = made.set_parameters([Parameter("fan", value=True)])
    assert (answer.successful, answer.reason) == (False, "parameters: fan is 'True': use one of off, slow, fast")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("fan", "medium", "parameters: fan is 'medium': use one of off, slow, fast"),
        ("minutes", 0.0, "parameters: minutes is '0.0': input should be greater than 0"),
        ("shelves", "one", "parameters: shelves.0 is 'one': input should be a valid integer"),
    ],
)
def test_what_makes_no_sense_otherwise_is_named_with_its_value(graph: Graph, name: str, value: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        settings_of(node(graph, **{name: value}), Oven)
    assert str(caught.value).startswith(said)


def test_meaning_bounds_and_choices_can_be_asked_for(graph: Graph) -> None:
    made = node(graph)
    assert {name: made.describe_parameter(name).description for name in Oven.model_fields} == {
        name: field.description for name, field in Oven.model_fields.items()
    }
    (bounds,) = made.describe_parameter("heat").integer_range
    assert (bounds.from_value, bounds.to_value) == (50, 250)
    (bounds,) = made.describe_parameter("watts").floating_point_range
    assert (bounds.from_value, bounds.to_value) == (0.0, 3000.0)
    assert made.describe_parameter("fan").additional_constraints == "one of off, slow, fast"
    assert made.describe_parameter("policy").additional_constraints == "one of majority, all, concurrent, turns"


def test_what_may_change_is_checked_when_it_changes(graph: Graph) -> None:
    made = node(graph, read_only=False)
    (answer,) = made.set_parameters([Parameter("fan", value="medium")])
    assert (answer.successful, "fan is 'medium'" in answer.reason) == (False, True)
    (answer,) = made.set_parameters([Parameter("fan", value="off")])
    assert answer.successful
    assert settings_of(made, Oven).fan == "off"


def test_a_planner_that_there_is_not_is_refused_at_the_start_and_later(graph: Graph) -> None:
    with pytest.raises(UserError, match="planner 'reactre' is unknown; did you mean 'reactree'"):
        graph.planner(planner="reactre")
    planner = graph.planner()
    (answer,) = planner.set_parameters([Parameter("planner", value="reactre")])
    assert (answer.successful, "did you mean 'reactree'" in answer.reason) == (False, True)
    (answer,) = planner.set_parameters([Parameter("planner", value="react_wm")])
    assert answer.successful


def test_an_argument_that_two_nodes_have_is_named_after_what_is_hosted() -> None:
    class Stove(Settings):
        heat: int = Field(default=1, ge=0, le=9, description="of the stove")
        gas: bool = Field(default=False, description="whether it burns gas")

    oven = NodeArguments("node", "oven", fields(Oven, "heat", "cake"), chosen_by="world")
    stove = NodeArguments("node", "stove", fields(Stove), chosen_by="llm")
    arguments = Arguments([oven, stove], [("cake", "", "of the launch itself", ())])
    assert [one.name for one in arguments.declared] == ["cake", "heat", "world_cake", "llm_heat", "gas"]
    context = LaunchContext()
    context.launch_configurations.update({"heat": "200", "world_cake": "apple", "llm_heat": "3", "gas": ""})
    assert arguments.given(context, oven) == {"heat": "200", "cake": "apple"}
    assert arguments.given(context, stove) == {"heat": "3"}
    assert stove.parameters({"heat": "3"}) == {"heat": 3}


# ------------------------------------------------------------------ arguments that there are not

DECLARED = ("house", "instruction", "namespace", "robot_config")


def refuse(*given: str, started: str = "", before: tuple[str, ...] = (), monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at arguments as a launch file does that the command line has started, or another file has included."""
    monkeypatch.setattr("sys.argv", ["ros2", "launch", "reactree_ros", started or "mine.launch.py", *given])
    context = LaunchContext(argv=list(given))
    context.extend_locals({"current_launch_file_path": "/opt/share/reactree_ros/launch/household.launch.py"})
    context.launch_configurations.update(dict(one.split(":=", 1) for one in (*given, *before)))
    refuse_unknown(context, DECLARED)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("hous:=villa", "hous:=villa: there is no argument 'hous'; did you mean 'house'?"),
        ("Instruction:=x", "Instruction:=x: there is no argument 'Instruction'; did you mean 'instruction'?"),
        ("instuction:=a:=b", "instuction:=a:=b: there is no argument 'instuction'; did you mean 'instruction'?"),
        ("qqq:=1", "qqq:=1: there is no argument 'qqq'; --show-args lists those that there are"),
        (":=1", ":=1: there is no argument ''; --show-args lists those that there are"),
    ],
)
def test_an_argument_that_there_is_not_is_refused_with_the_nearest(
    given: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        refuse("namespace:=a", given, started="household.launch.py", monkeypatch=monkeypatch)


@pytest.mark.parametrize("name", ["hous", "housee", "instuction", "robot_confg", "namspace"])
def test_a_file_that_includes_a_launch_and_misspells_an_argument_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=f"there is no argument '{name}'; did you mean"):
        refuse(before=(f"{name}:=a",), monkeypatch=monkeypatch)


def test_a_file_that_includes_a_launch_has_arguments_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse("map:=a.yaml", "use_namespace:=true", before=("slam:=true", "robot_name:=r"), monkeypatch=monkeypatch)
    refuse(before=("house:=villa", "houses:=3"), monkeypatch=monkeypatch)  # ours is given, theirs is another one
