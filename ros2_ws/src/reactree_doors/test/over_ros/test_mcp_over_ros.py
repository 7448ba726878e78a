"""MCP clients run the robot of a planner node: its bridge's policy holds, and nobody's task is stopped unsaid."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from action_msgs.msg import GoalStatus
from doubles import ScriptedModel, ScriptedWorld
from mcp import Client
from mcp_peer import RULES, STUCK, Peer, Robot, faulty_calls
from mcp_types import ElicitResult
from ros_graph import Graph, HeldWorld

from reactree_doors.mcp import over_ros
from reactree_doors.mcp.over_ros import RobotNode, RosRobot
from reactree_doors.mcp.robot import Questions
from reactree_doors.mcp.server import Door
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.nodes.watchdog import Watchdog
from reactree_ros.world.port import Observation, Outcome

pytest.importorskip("mcp")


T = TypeVar("T")
THREE = {"root": ["Think: a", "Act: open fridge 1", "Act: done"]}


class Again(ScriptedModel):
    """Says some decisions again and again."""

    def __init__(self, script: Sequence[str]) -> None:
        super().__init__({})
        self._said = itertools.cycle(script)

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        return Pending.ready(Reply(next(self._said)))


class Strict(ScriptedWorld):
    """Does what it offers, and nothing else."""

    def execute(self, skill: str) -> Pending[Observation]:
        if skill in self.skills:
            return super().execute(skill)
        return Pending.ready(Observation("There is no such thing.", Outcome.UNKNOWN_SKILL))


def during(graph: Graph, do: Callable[[], T], patience: float = STUCK) -> T:
    """Do something in a thread while the nodes run; returns what comes of it."""
    came: list[Any] = []

    def work() -> None:
        try:
            came.append((do(), None))
        except BaseException as error:
            came.append((None, error))

    threading.Thread(target=work, daemon=True).start()
    graph.until(lambda: came, "what clients do has come to an end", patience)
    result, error = came[0]
    if error is not None:
        raise error
    return result


class Served:
    """The door to a graph's planner.

    Attributes:
        node: The node that follows the planner.
    """

    def __init__(self, graph: Graph, folder: Path) -> None:
        self.graph, questions = graph, Questions()
        self.node = graph.add(RobotNode("reactree_planner", folder, questions, context=graph.context))
        self.robot = RosRobot(self.node, questions)
        graph.until(self.robot.ready.done, "planner and bridge are found")
        self.robot.ready.result()
        self.door = Door(self.robot)
        self.forms: list[str] = []

    def client(self, answer: Any = None, **more: Any) -> Client:
        """A client whose person answers each form so; None: it has no forms."""

        async def form(context: Any, params: Any) -> ElicitResult:
            self.forms.append(params.message)
            return ElicitResult(action="accept", content={"answer": answer})

        return Client(self.door.server(), **({} if answer is None else {"elicitation_callback": form}), **more)

    def talk(self, do: Callable[[Client], Awaitable[T]], answer: Any = None) -> T:

        async def go() -> T:
            async with self.client(answer) as client:
                return await do(client)

        return during(self.graph, lambda: asyncio.run(go()))

    def call(self, tool: str, answer: Any = None, /, **given: Any) -> Any:
        return self.talk(lambda client: client.call_tool(tool, given), answer)


def text_of(result: Any) -> str:
    return str(result.content[0].text)


def data_of(result: Any) -> dict[str, Any]:
    return dict(result.structured_content)


def test_a_run_is_followed_to_its_end(graph: Graph, tmp_path: Path) -> None:
    world = ScriptedWorld()
    graph.household(THREE, world=world)
    served, told = Served(graph, tmp_path), list[str]()

    async def go(client: Client) -> Any:
        async def heard(progress: float, total: float | None, message: str | None) -> None:
            told.append(message or "")

        async with client.listen(resource_subscriptions=["reactree://tree"]) as changes:
            result = await client.call_tool("carry_out", {"instruction": "root"}, progress_callback=heard)
            await asyncio.wait_for(anext(aiter(changes)), 60.0)
        shown = [await client.read_resource(f"reactree://{name}") for name in ("tree", "record")]
        return result, [one.contents[0].text for one in shown], await client.call_tool("status", {})

    result, (tree, record), status = served.talk(go)
    assert (data_of(result)["end"], data_of(result)["decisions"], result.is_error) == ("done", 2, False)
    assert any("open fridge 1" in line for line in told)
    assert "root" in tree
    assert json.loads(record.splitlines()[-1])["e"] == "end"
    assert (data_of(status)["state"], data_of(status)["last"]["end"]) == ("idle", "done")
    assert world.executed == ["open fridge 1"]


def test_skills_go_through_the_bridge_under_its_policy(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(json.dumps({"rules": RULES}))
    world = ScriptedWorld()
    graph.inference(ScriptedModel(THREE))
    graph.bridge(world, policy=str(tmp_path / "policy.yaml"), confirm_timeout=600.0)
    graph.planner()
    served = Served(graph, tmp_path)
    names = served.talk(lambda client: client.list_tools()).tools
    assert "skill_go_to" in [tool.name for tool in names]
    assert "skill_pick_up" not in [tool.name for tool in names]
    assert data_of(served.call("skill_open", thing="fridge 1"))["outcome"] == "done"
    assert "You are in the house" in text_of(served.call("look_around"))
    refused = served.call("skill_go_to", thing="kitchen 1")
    assert data_of(refused)["outcome"] == "refused_by_policy"
    assert "no forms" in text_of(refused)
    assert data_of(served.call("skill_go_to", False, thing="kitchen 1"))["outcome"] == "refused_by_policy"
    assert data_of(served.call("skill_go_to", "yes", thing="kitchen 1"))["outcome"] == "refused_by_policy"
    assert served.call("skill_pick_up", True, thing="apple 1").is_error
    assert world.executed == ["open fridge 1"]
    assert data_of(served.call("skill_go_to", True, thing="kitchen 1"))["outcome"] == "done"
    assert world.executed == ["open fridge 1", "go to kitchen 1"]
    assert len(served.forms) == 3
    assert all("go to kitchen 1" in form for form in served.forms)


@pytest.mark.parametrize("how", ["stop", "gone"])
def test_a_run_is_stopped_on_the_way(graph: Graph, tmp_path: Path, how: str) -> None:
    world = HeldWorld()
    graph.household(THREE, world=world)
    served = Served(graph, tmp_path)

    async def go(client: Client) -> Any:
        run = asyncio.create_task(client.call_tool("carry_out", {"instruction": "root"}))
        while not world.held:
            await asyncio.sleep(0.01)
        if how == "gone":
            run.cancel()
            await asyncio.wait([run])
            while served.door.busy is not None:
                await asyncio.sleep(0.01)
            return None
        async with served.client() as other:
            assert "It has stopped." in text_of(await other.call_tool("stop", {}))
        return await run

    result = served.talk(go)
    assert world.cancelled["open fridge 1"] == 1
    last = served.door.report().data["last"]
    assert last["end"] == "interrupted"
    assert result is None or data_of(result)["end"] == "interrupted"
    assert '"e":"end"' in (served.robot.record or tmp_path).read_text().splitlines()[-1]


def test_what_somebody_else_has_the_planner_do_is_only_stopped_by_stop(graph: Graph, tmp_path: Path) -> None:
    world = HeldWorld()
    graph.household({"root": ["Act: open fridge 1"] * 2, "mine": ["Act: done"]}, world=world)
    served = Served(graph, tmp_path)
    goal = graph.task()
    graph.until(lambda: world.held and served.robot._node.others(), "it is known that somebody is at work")
    for refused in (served.call("carry_out", instruction="mine"), served.call("skill_open", thing="fridge 1")):
        assert refused.is_error
        assert "at work for somebody else" in text_of(refused)
    assert not served.call("look_around").is_error
    assert world.executed == ["open fridge 1"]
    assert "Another's task was told to stop." in text_of(served.call("stop"))
    assert goal.status == GoalStatus.STATUS_CANCELED
    graph.until(lambda: not served.robot._node.others(), "it is known that it has ended")
    assert "Nothing was under way." in text_of(served.call("stop"))
    assert data_of(served.call("carry_out", instruction="mine"))["end"] == "done"


@pytest.mark.parametrize("forms", [True, False])
def test_a_question_of_the_planner_is_answered_by_a_client(graph: Graph, tmp_path: Path, forms: bool) -> None:
    asks = {"planner": "reactree:questions=2", "answer_timeout": 600.0}
    graph.household({"root": ["Ask: Which apple?", "Act: done"]}, **asks)
    served = Served(graph, tmp_path)
    result = served.call("carry_out", "the red one" if forms else None, instruction="root")
    if not forms:
        assert "| Which apple?" in text_of(result)
        result = served.call("answer", number=data_of(result)["question"]["number"], text="the red one")
    assert data_of(result)["end"] == "done"
    assert 'The person answers: \\"the red one\\"' in (served.robot.record or tmp_path).read_text()


def test_limits_of_a_client_only_lower_those_of_the_planner(graph: Graph, tmp_path: Path) -> None:
    thoughts = {f"root {number}": [f"Think: {one}" for one in "abcdefgh"] for number in range(2)}
    graph.household(thoughts, max_decisions=3)
    served = Served(graph, tmp_path)
    for number, (wanted, had) in enumerate([(100, 3), (2, 2)]):
        result = served.call("carry_out", instruction=f"root {number}", limits={"max_decisions": wanted})
        assert (data_of(result)["end"], data_of(result)["decisions"]) == ("out_of_decisions", had)


def test_a_run_is_paused_and_goes_on(graph: Graph, tmp_path: Path) -> None:
    world = HeldWorld()
    graph.household({"root": ["Act: open fridge 1"] * 2 + ["Act: done"]}, world=world)
    served = Served(graph, tmp_path)

    async def go(client: Client) -> Any:
        run = asyncio.create_task(client.call_tool("carry_out", {"instruction": "root"}))
        while not world.held:
            await asyncio.sleep(0.01)
        async with served.client() as other:
            assert not (await other.call_tool("pause", {})).is_error
            while data_of(await other.call_tool("status", {}))["state"] != "paused":
                await asyncio.sleep(0.01)
            while not world.cancelled["open fridge 1"]:
                await asyncio.sleep(0.01)
            assert not (await other.call_tool("go_on", {})).is_error
        while not run.done():
            world.finish()
            await asyncio.sleep(0.01)
        return await run

    assert data_of(served.talk(go))["end"] == "done"
    assert world.cancelled["open fridge 1"] == 1


def test_a_planner_that_dies_ends_the_run_and_the_next_one_serves(graph: Graph, tmp_path: Path) -> None:
    world = HeldWorld()
    graph.inference(ScriptedModel({**THREE, "again": ["Act: done"]}))
    graph.bridge(world)
    planner = graph.planner(alone=True)
    served = Served(graph, tmp_path)

    async def go(client: Client) -> Any:
        run = asyncio.create_task(client.call_tool("carry_out", {"instruction": "root"}))
        while not world.held:
            await asyncio.sleep(0.01)
        dying.set()
        return await run

    dying, came = threading.Event(), list[Any]()
    threading.Thread(target=lambda: came.append(served_alone(served, go)), daemon=True).start()
    graph.until(dying.is_set, "a skill is under way")
    graph.kill(planner)
    graph.until(lambda: came, "the run has ended")
    assert came[0].is_error
    assert "reactree_planner" in text_of(came[0])
    world.finish()
    graph.planner()
    assert data_of(served.call("carry_out", instruction="again"))["end"] == "done"


def served_alone(served: Served, do: Callable[[Client], Awaitable[T]]) -> T:

    async def go() -> T:
        async with served.client() as client:
            return await do(client)

    return asyncio.run(go())


def test_a_bridge_that_was_restarted_is_learnt_anew(graph: Graph, tmp_path: Path) -> None:
    graph.inference(ScriptedModel(THREE))
    bridge = graph.bridge(ScriptedWorld(), alone=True)
    graph.planner()
    served = Served(graph, tmp_path)
    assert data_of(served.call("skill_open", thing="fridge 1"))["outcome"] == "done"
    graph.kill(bridge)
    name = served.node.bridge.result()
    graph.until(lambda: served.node.calls.life(name) is None, "it is seen to be gone")
    world = ScriptedWorld()
    graph.bridge(world)
    result = served.call("skill_open", thing="fridge 1")
    assert data_of(result).get("outcome") == "done", text_of(result)
    assert world.executed == ["open fridge 1"]


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_no_call_with_a_fault_gets_past_the_bridges_policy(graph: Graph, tmp_path: Path, mode: str) -> None:
    (tmp_path / "policy.yaml").write_text(json.dumps({"rules": RULES}))
    world = Strict()
    script = ["Act: go to kitchen 1", "Act: pick up apple 1", "Act: open fridge 1", "Think: so"]
    graph.inference(Again(script))
    graph.bridge(world, policy=str(tmp_path / "policy.yaml"), confirm_timeout=600.0)
    graph.planner()
    served = Served(graph, tmp_path)
    calls = faulty_calls(served.door, "root", mode=mode, calls=20 // int(os.environ.get("SWEEP", "1")))
    allowed = during(graph, lambda: asyncio.run(calls), patience=600.0)
    assert set(world.executed) <= {"go to kitchen 1", "open fridge 1"}
    assert world.executed.count("go to kitchen 1") <= len(allowed)


def test_without_a_planner_it_is_said_what_to_start(domain: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
    monkeypatch.setattr(over_ros, "FOUND", 0.5)
    with pytest.raises(UserError, match=r"no planner nobody with a bridge .* start them"), over_ros.robot_of("nobody"):
        pass
    with pytest.raises(UserError, match="is not a node's name"), over_ros.robot_of("a b"):
        pass


# ---------------------------------------------------------------------- the command


COMMAND = (sys.executable, "-m", "reactree_ros.cli", "mcp", "--ros")


@pytest.mark.parametrize("dies", ["client", "server"])
def test_whoever_is_killed_the_robot_stops(graph: Graph, tmp_path: Path, dies: str) -> None:
    world = HeldWorld()
    graph.household(THREE, world=world)
    graph.add(Watchdog(context=graph.context))
    where = Robot(tmp_path, COMMAND)
    peer = during(graph, lambda: Peer(where.where, env={"ROS_DOMAIN_ID": str(graph.domain_id)}))
    try:
        peer.call("carry_out", instruction="root")
        graph.until(lambda: world.held, "a skill is under way")
        if dies == "client":
            peer.kill()
        else:
            children = Path(f"/proc/{peer.process.pid}/task/{peer.process.pid}/children").read_text().split()
            for child in children:
                os.kill(int(child), signal.SIGKILL)
        graph.until(lambda: world.cancelled["open fridge 1"], "the skill is cancelled")
        assert world.executed == ["open fridge 1"]
    finally:
        peer.kill()
