"""A private ROS graph for each test, as for the tests of the core's nodes."""

from __future__ import annotations

from nodes import conftest

globals().update({name: one for name, one in vars(conftest).items() if not name.startswith("__")})
