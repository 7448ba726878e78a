"""Shared by the tests of a fleet's memory."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[4] / "test/memory")]  # for what stands beside this file and the memories'
