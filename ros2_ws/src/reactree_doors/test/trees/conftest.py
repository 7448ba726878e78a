"""Shared by the tests of trees in files."""

from __future__ import annotations

from routine.conftest import memory

__all__ = ["memory"]
