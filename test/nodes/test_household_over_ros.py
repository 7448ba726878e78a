"""The household over ROS: who plans knows whose skills and wording these are before anything is decided."""

from __future__ import annotations

from pathlib import Path

import pytest
from action_msgs.msg import GoalStatus
from doubles import ScriptedModel, ScriptedWorld
from reactree_interfaces.action import ExecuteTask
from ros_graph import Graph

from reactree_lab.worlds.ai2thor.wording import ALFRED
from reactree_ros.agent.household import Household
from reactree_ros.agent.prompt import prompt
from reactree_ros.background.pending import Pending
from reactree_ros.household.household import WAH_NL
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.plugins import Registry

Result = ExecuteTask.Result


class Mute(LanguageModel):
    """Keeps what it is asked and never answers."""

    def __init__(self) -> None:
        self.requests: list[DecisionRequest] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.requests.append(request)
        return Pending()


def in_household(household: Household) -> ScriptedWorld:
    world = ScriptedWorld()
    world.household = household  # type: ignore[misc]
    return world


def first_prompt(graph: Graph, model: Mute, planner: str) -> str:
    """Send a goal; returns the first prompt of its task, which is then cancelled."""
    asked = len(model.requests)
    goal = graph.task(planner=planner)
    graph.until(lambda: len(model.requests) > asked)
    goal.cancel()
    assert goal.result.error_code == Result.CANCELED
    return model.requests[-1].prompt


@pytest.fixture
def orchard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Household:
    """A household with prompts of its own, in a package of its own."""
    folder = tmp_path / "orchard" / "prompts"
    folder.mkdir(parents=True)
    (tmp_path / "orchard" / "__init__.py").touch()
    (folder / "recode_skills.txt").write_text("run('prune NAME') prunes a tree.\n")
    for name in ("system", "example", "retrieval", "example_retrieval"):
        (folder / f"hiagent_{name}.txt").write_text(f"The {name} of the orchard.\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    known = Registry.packages.fget
    monkeypatch.setattr(Registry, "packages", property(lambda self: known(self) | {"orchard"}))  # a plug-in brings it
    return Household(
        name="orchard", actions=("walk to", "prune"), start_line="You are in the orchard", prompts="orchard:prompts"
    )


def skills_text(household: Household) -> str:
    return prompt(household.prompts, "recode_skills.txt")


def test_recode_gets_the_skills_of_the_bridges_household(graph: Graph, orchard: Household) -> None:
    pytest.importorskip("pydantic_monty")
    model = Mute()
    graph.inference(model)
    graph.bridge(in_household(orchard))
    graph.planner()
    text = first_prompt(graph, model, "recode")
    assert skills_text(orchard) in text
    assert skills_text(WAH_NL) not in text


def test_hiagent_gets_the_prompts_of_the_bridges_household(graph: Graph, orchard: Household) -> None:
    model = Mute()
    graph.inference(model)
    graph.bridge(in_household(orchard))
    graph.planner()
    text = first_prompt(graph, model, "hiagent")
    assert "The system of the orchard." in text
    assert prompt("reactree_lab.planners.hiagent:prompts", "wah_nl/system.txt").partition("\n")[0] not in text


def test_a_planner_without_prompts_for_the_bridges_household_says_so(graph: Graph) -> None:
    graph.inference(ScriptedModel({}))
    graph.bridge(in_household(ALFRED))
    graph.planner()
    goal = graph.task(planner="hiagent")
    assert (goal.status, goal.result.error_code) == (GoalStatus.STATUS_ABORTED, Result.INVALID_GOAL)
    assert "hiagent has no prompts for the household alfred" in goal.result.message


def test_the_system_text_lists_the_actions_and_control_flows_of_the_bridges_household(graph: Graph) -> None:
    model = Mute()
    graph.inference(model)
    graph.bridge(in_household(ALFRED))
    graph.planner()
    text = first_prompt(graph, model, "reactree")
    assert "slice" in text
    for words in ALFRED.control_flows.values():
        assert words in text
    may_say = model.requests[-1].may_say
    assert [flow.name for flow in may_say.control_flows] == list(ALFRED.control_flows)  # type: ignore[union-attr]


def test_a_bridge_that_was_restarted_with_another_world_is_asked_anew(graph: Graph, orchard: Household) -> None:
    pytest.importorskip("pydantic_monty")
    model = Mute()
    graph.inference(model)
    bridge = graph.bridge(in_household(ALFRED), alone=True)
    planner = graph.planner(server_timeout=3600.0)
    assert skills_text(ALFRED) in first_prompt(graph, model, "recode")
    graph.kill(bridge)
    graph.bridge(in_household(orchard))
    assert skills_text(orchard) in first_prompt(graph, model, "recode")
    assert planner._world.household.name == "orchard"
