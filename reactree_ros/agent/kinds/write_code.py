"""Code as a decision."""

from __future__ import annotations

from dataclasses import dataclass

from reactree_ros.agent.decision import Look
from reactree_ros.agent.kinds.think import Aside


@dataclass(frozen=True)
class WriteCode(Aside):
    """A block of code (Yu et al., section 3.2)."""

    name = "write_code"
    look = Look("Code", "{write_code}")
