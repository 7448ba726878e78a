"""Clients run a robot: by tools, under the skill policy, one at a time."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import contextmanager

import pytest

pytest.importorskip("mcp")

import tool_server
from doubles import ScriptedModel, ScriptedWorld
from mcp import Client
from mcp_peer import RULES
from mcp_types import ElicitResult

from reactree_doors.mcp.in_process import InProcess
from reactree_doors.mcp.robot import Questions
from reactree_doors.mcp.server import Door
from reactree_ros.agent.household import Household
from reactree_ros.agent.skill import Skill
from reactree_ros.episode.assembly import make_world
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.llm.spec import MODELS, make_model
from reactree_ros.world.skill_policy import policy_from_list
from reactree_ros.world.spec import WORLDS, Place


@contextmanager
def door_of(tmp_path, rules=None, **given):
    world, llm = WORLDS.get("virtualhome"), MODELS.get("expert")
    place = Place.from_settings(world, world.settings(**given))
    spec = RunSpec.in_place(place, None, llm=(llm, llm.settings()), planner="reactree_wm", person=True)
    policy = None if rules is None else policy_from_list(rules, where="rules")
    spec, questions, model = spec.but(task_id=None, policy=policy), Questions(), make_model(llm, llm.settings())
    with make_world(spec, place) as made:
        yield Door(InProcess(spec, world=made, model=model, questions=questions, records=tmp_path)), spec.instruction


def text_of(result):
    return result.content[0].text


def talk(folder, do, rules=None, **given):
    """Let a client of a door do something; return what comes of it."""

    async def go():
        with door_of(folder, rules, **given) as (door, instruction):
            async with Client(door.server()) as client:
                return await do(client, instruction)

    return asyncio.run(go())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("yes", [True, False, None])
def test_a_confirm_is_a_form_and_without_forms_the_skill_is_refused(tmp_path, mode, yes):
    shown = []

    async def form(context, params):
        shown.append(params.message)
        return ElicitResult(action="accept", content={"answer": yes})

    async def go():
        with door_of(tmp_path, RULES) as (door, _):
            asks = {} if yes is None else {"elicitation_callback": form}
            async with Client(door.server(), mode=mode, **asks) as client:
                names = {tool.name for tool in (await client.list_tools()).tools}
                assert "skill_go_to" in names
                assert "skill_pick_up" not in names
                return await client.call_tool("skill_go_to", {"thing": "kitchen 1"})

    result = asyncio.run(go())
    assert len(shown) == (0 if yes is None else 1)
    assert result.is_error is not bool(yes)
    assert result.structured_content["outcome"] == ("done" if yes else "refused_by_policy")
    assert yes is not None or "no forms" in text_of(result)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_run_may_ask_before_its_client_has_heard_of_it_and_right_after_an_answer(tmp_path, mode, monkeypatch):
    shown = []

    async def form(context, params):
        shown.append(params.message)
        return ElicitResult(action="accept", content={"answer": True})

    async def go():
        with door_of(tmp_path, RULES) as (door, instruction):
            robot, runs = door.robot, []

            def slowly(carried_out):

                def call(*given):
                    result, until = carried_out(*given), time.monotonic() + 60
                    runs.extend([result] if given[0] == instruction else [])
                    while robot.questions.next is None and not runs[0].ended.done() and time.monotonic() < until:
                        time.sleep(0.001)
                    return result

                return call

            monkeypatch.setattr(robot, "begin", slowly(robot.begin))
            monkeypatch.setattr(robot.questions, "answer", slowly(robot.questions.answer))
            more = {"elicitation_callback": form, "input_required_max_rounds": 100}
            async with Client(door.server(), mode=mode, **more) as client:
                return await client.call_tool("carry_out", {"instruction": instruction, "limits": {"max_steps": 4}})

    result = asyncio.run(go())
    assert "no forms" not in text_of(result)
    assert len(shown) > 1


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_second_client_is_refused_and_may_stop_the_first(tmp_path, mode):
    async def go():
        with door_of(tmp_path) as (door, instruction):
            async with Client(door.server(), mode=mode) as one, Client(door.server(), mode=mode) as other:
                begun = asyncio.Event()

                async def heard(progress, total, message):
                    if not begun.is_set():
                        door.run().pause()
                        begun.set()

                run = asyncio.create_task(
                    one.call_tool("carry_out", {"instruction": instruction}, progress_callback=heard)
                )
                await begun.wait()
                refused = await other.call_tool("skill_open", {"thing": "fridge 1"})
                stopped = await other.call_tool("stop", {})
                return refused, stopped, await run

    refused, stopped, run = asyncio.run(go())
    assert refused.is_error
    assert "the robot is at work since" in text_of(refused)
    assert "It has stopped" in text_of(stopped)
    assert run.structured_content["end"] == "interrupted"


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("carry_out", {}),
        ("carry_out", {"instruction": " "}),
        ("carry_out", {"instruction": "x" * 20_000}),
        ("carry_out", {"instruction": "x", "limits": {"max_steps": -1}}),
        ("carry_out", {"instruction": "x", "limits": "five"}),
        ("carry_out", {"instruction": "x", "limits": [5]}),
        ("skill_go_to", {"thing": "x" * 200_000}),
        ("skill_go_to", {"other": "x"}),
        ("nothing", {}),
        ("answer", {"number": 7, "text": "yes"}),
        ("pause", {}),
    ],
)
def test_wrong_arguments_are_told_in_one_line(tmp_path, tool, given):
    result = talk(tmp_path, lambda client, _: client.call_tool(tool, given))
    assert result.is_error
    assert len(text_of(result)) < 2500
    assert "Traceback" not in text_of(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    "limits", [{"max_steps": 1}, '{"max_steps": 1}', {"max_steps": "1", "max_cost": None}, "", "null", "{}", None]
)
def test_limits_are_taken_as_clients_write_them(tmp_path, limits):
    async def go(client, instruction):
        await client.call_tool("carry_out", {"instruction": instruction, "limits": limits, "wait": None})
        return await client.call_tool("status", {})

    status = talk(tmp_path, go)
    last = status.structured_content["last"]
    assert (last["end"] == "out_of_steps") == ("1" in str(limits))
    lines = dict(line.removeprefix("| ").partition(": ")[::2] for line in text_of(status).splitlines()[2:])
    assert json.loads(lines["last"])["client"]
    assert lines["state"] == "idle"


def test_no_schema_has_a_reference_or_a_choice_of_kinds(tmp_path):
    for tool in talk(tmp_path, lambda client, _: client.list_tools()).tools:
        said = json.dumps(tool.input_schema)
        assert not [one for one in ("$ref", "$defs", "anyOf", "oneOf", "allOf") if one in said], tool.name


def test_skills_that_are_texts_are_said_beside_those_that_have_a_tool(tmp_path):
    class Lift(ScriptedWorld):
        household = Household(name="lift", actions=("go to",)).with_skills(
            [Skill(name="ride", wording="ride the lift")]
        )

    async def go():
        spec, world, questions = RunSpec(instruction="x", planner="reactree"), Lift(), Questions()
        door = Door(InProcess(spec, world=world, model=ScriptedModel({}), questions=questions, records=tmp_path))
        async with Client(door.server()) as client:
            listed = {one.name: one for one in (await client.list_tools()).tools}
            assert listed["skill"].description.endswith("One begins with: go to.")
            for name, given in (("skill_ride", {}), ("skill", {"text": "go to hall 1"}), ("skill", {"text": "dance"})):
                await client.call_tool(name, given)
        return world.executed

    assert asyncio.run(go()) == ["ride the lift", "go to hall 1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "policy", "well"),
    [
        (None, "confirm", False),
        (None, "allow", True),
        ([{"skill": "go to", "verdict": "allow"}], "confirm", False),
        ([{"skill": "go to", "verdict": "allow"}], "allow", True),
        ([{"skill": "who_sits_in", "verdict": "allow"}], "confirm", True),
    ],
)
def test_a_tools_own_policy_holds_with_and_without_a_policy_file(tmp_path, rules, policy, well):
    settings = {"command": sys.executable, "args": [tool_server.__file__, "office"]}
    tools = {"who_sits_in": {"policy": policy}}
    (tmp_path / "mcp.yaml").write_text(json.dumps({"mcp": {"office": {**settings, "tools": tools}}}))

    def call(client, _):
        return client.call_tool("skill_who_sits_in", {"room": "204"})

    result = talk(tmp_path, call, rules, mcp=str(tmp_path / "mcp.yaml"))
    assert result.is_error is not well
    assert ("Anna sits in 204" in text_of(result)) == well


def test_a_run_that_is_done_in_part_is_no_achievement_for_a_client(tmp_path):
    async def go(client, _):
        given = {"instruction": "Put 1 pudding and 1 apple and 1 cupcake on the coffee table"}
        part = await client.call_tool("carry_out", given | {"limits": {"max_decisions": 28}})
        return part, await client.call_tool("carry_out", given)

    part, whole = talk(tmp_path, go)
    told = {"achieved": False, "claimed": False, "end": "out_of_decisions", "branches": 3, "branches_done": 2}
    assert told.items() <= part.structured_content.items()
    assert "Goal not reached, done in part: 2 of 3" in text_of(part)
    assert (part.is_error, whole.is_error, whole.structured_content["achieved"]) == (True, False, True)
    assert "judged by the goal read from the instruction" in text_of(whole)
