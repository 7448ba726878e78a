"""Clients run a robot: by tools, under the skill policy, one at a time."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager

import pytest

pytest.importorskip("mcp")

from mcp import Client
from mcp_types import ElicitResult

from reactree_ros.episode.assembly import make_world
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.llm.settings import make_model
from reactree_ros.llm.spec import MODELS
from reactree_ros.mcp.in_process import InProcess
from reactree_ros.mcp.robot import Questions
from reactree_ros.mcp.server import Door
from reactree_ros.person.confirmation import confirmed_by
from reactree_ros.world.skill_policy import policy_from_list
from reactree_ros.world.spec import WORLDS, Place
from reactree_ros.world.wrappers import PolicyGuard

RULES = [
    {"skill": "go to", "verdict": "confirm"},
    {"skill": "open", "verdict": "allow"},
    {"skill": "pick up", "verdict": "deny"},
]


@contextmanager
def door_of(tmp_path, rules=None):
    world, llm = WORLDS.get("virtualhome"), MODELS.get("expert")
    place = Place.of(world, world.settings())
    spec = RunSpec.in_place(place, None, llm=(llm, llm.settings()), planner="reactree_wm", person=True)
    spec, questions, model = spec.but(task_id=None), Questions(), make_model(llm, llm.settings())
    with make_world(spec, place) as made:
        guarded = made
        if rules is not None:
            guarded = PolicyGuard(made, policy_from_list(rules, where="rules"), confirmed_by(questions, 20.0))
        yield Door(InProcess(spec, world=guarded, model=model, questions=questions, records=tmp_path)), spec.instruction


def text_of(result):
    return result.content[0].text


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
                """On a busy machine the run's thread comes first."""

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
        ("skill_go_to", {"thing": "x" * 200_000}),
        ("skill_go_to", {"other": "x"}),
        ("nothing", {}),
        ("answer", {"number": 7, "text": "yes"}),
        ("pause", {}),
    ],
)
def test_wrong_arguments_are_told_in_one_line(tmp_path, tool, given):
    async def go():
        with door_of(tmp_path) as (door, _):
            async with Client(door.server()) as client:
                return await client.call_tool(tool, given)

    result = asyncio.run(go())
    assert result.is_error
    assert len(text_of(result)) < 2500
    assert "Traceback" not in text_of(result)


def test_a_run_that_is_done_in_part_is_no_achievement_for_a_client(tmp_path):
    async def go():
        with door_of(tmp_path) as (door, _):
            async with Client(door.server()) as client:
                given = {"instruction": "Put 1 pudding and 1 apple and 1 cupcake on the coffee table"}
                part = await client.call_tool("carry_out", given | {"limits": {"max_decisions": 28}})
                return part, await client.call_tool("carry_out", given)

    part, whole = asyncio.run(go())
    told = {"achieved": False, "claimed": False, "end": "out_of_decisions", "branches": 3, "branches_done": 2}
    assert told.items() <= part.structured_content.items()
    assert "Goal not reached, done in part: 2 of 3" in text_of(part)
    assert (part.is_error, whole.is_error, whole.structured_content["achieved"]) == (True, False, True)
    assert "judged by the goal read from the instruction" in text_of(whole)
