"""The protocol's official conformance suite, where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

import mcp_conformance
from mcp_peer import served
from tool_server import PIXEL

SUITE = shutil.which("conformance")
HOW = (
    "npm install --prefix FOLDER @modelcontextprotocol/conformance@0.1.16 node@22, and FOLDER/node_modules/.bin on PATH"
)


@pytest.mark.slow
@pytest.mark.skipif(SUITE is None, reason=f"needs the conformance suite of MCP: {HOW}")
def test_the_suite_passes_but_for_what_does_not_apply(tmp_path: Path) -> None:
    fixture = mcp_conformance.__file__
    command, expected = [sys.executable, fixture, str(tmp_path)], Path(fixture).with_suffix(".yaml")
    with served(tmp_path, command, picture=PIXEL.hex(), planner="reactree:questions=3", rules=[]) as robot:
        suite = [str(SUITE), "server", "--url", robot.where[0], "--suite", "all", "--expected-failures", str(expected)]
        ran = subprocess.run(suite, capture_output=True, text=True)
    passed = re.findall(r"^✓ (\S+): ", ran.stdout, re.MULTILINE)
    assert (ran.returncode, len(passed)) == (0, 23), ran.stdout + ran.stderr
