"""Many calls with faults: no skill outside of the policy, and a free robot after."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

pytest.importorskip("mcp")

from mcp import Client
from mcp_types import ElicitResult

from .test_server import RULES, door_of

CALLS = 200


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_no_call_with_a_fault_gets_past_the_policy(tmp_path, mode, monkeypatch):
    done, allowed, rng = [], [], random.Random(46)

    with door_of(tmp_path, RULES) as (door, instruction):
        inner = door.robot._world.inner
        carried_out = inner.execute
        monkeypatch.setattr(inner, "execute", lambda skill: done.append(str(skill)) or carried_out(skill))
        fault = ""

        async def form(context, params):
            nonlocal fault
            if fault == "stop in a form":
                async with Client(door.server(), mode=mode) as other:
                    await other.call_tool("stop", {})
            if rng.random() < 0.5:
                allowed.append(params.message)
                return ElicitResult(action="accept", content={"answer": True})
            return ElicitResult(action=rng.choice(["decline", "cancel", "accept"]), content={"answer": "yes"})

        async def go():
            nonlocal fault
            async with Client(
                door.server(), mode=mode, elicitation_callback=form, input_required_max_rounds=1000
            ) as client:
                for _ in range(CALLS // int(os.environ.get("SWEEP", 1))):
                    fault = rng.choice(["gone", "two", "stop in a form", "wrong", "denied", "skill"])
                    run = {"instruction": instruction, "limits": {"max_decisions": rng.randint(1, 12)}}
                    if fault in ("gone", "two", "stop in a form"):
                        call = asyncio.create_task(client.call_tool("carry_out", run))
                        for _ in range(rng.randint(0, 30)):
                            await asyncio.sleep(0)
                        if fault == "gone":
                            call.cancel()
                        if fault == "two":
                            async with Client(door.server(), mode=mode) as other:
                                await other.call_tool("skill_go_to", {"thing": "kitchen 1"})
                                await other.call_tool("stop", {})
                        await asyncio.gather(call, return_exceptions=True)
                    elif fault == "wrong":
                        given = rng.choice(
                            [{}, {"thing": 3}, {"thing": ["x"]}, {"thing": "a; pick up apple 1"}, {"x": "y"}]
                        )
                        assert (await client.call_tool("skill_open", given)).is_error
                    elif fault == "denied":
                        assert (await client.call_tool("skill_pick_up", {"thing": "apple 1"})).is_error
                    else:
                        await client.call_tool("skill_go_to", {"thing": "kitchen 1"})
                    if door.busy is not None:
                        await asyncio.wait_for(asyncio.wrap_future(door.busy.ended), 60)

        asyncio.run(go())
    assert not [skill for skill in done if not skill.startswith(("go to ", "open "))]
    assert len([skill for skill in done if skill.startswith("go to ")]) <= len(allowed)
    assert done
