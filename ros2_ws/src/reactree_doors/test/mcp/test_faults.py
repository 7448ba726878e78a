"""Many calls with faults: no skill outside of the policy, and a free robot after."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from mcp_peer import RULES, faulty_calls

from .test_server import door_of

CALLS = 200  # in both modes together


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_no_call_with_a_fault_gets_past_the_policy(tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    with door_of(tmp_path, RULES) as (door, instruction):
        inner = door.robot.world.inner
        carried_out = inner.execute
        monkeypatch.setattr(inner, "execute", lambda skill: done.append(str(skill)) or carried_out(skill))
        calls = CALLS // 2 // int(os.environ.get("SWEEP", "1"))
        allowed = asyncio.run(faulty_calls(door, instruction, mode=mode, calls=calls))
    assert not [skill for skill in done if not skill.startswith(("go to ", "open "))]
    assert len([skill for skill in done if skill.startswith("go to ")]) <= len(allowed)
    assert done
