"""Tools of MCP servers as skills of a world."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reactree_ros.plugins.installation import check_modules
from reactree_ros.world.port import World
from reactree_ros.world.tool_servers import ServerSettings


def add_tools(make: Callable[[], World], named: Mapping[str, ServerSettings]) -> World:
    """Make a world, with the tools of servers as skills; see :func:`~reactree_ros.world.tool_servers.with_tools`."""
    check_modules(f"MCP server '{next(iter(named))}'", "reactree_doors[mcp]", ["mcp"])
    from reactree_doors.tools.skills import world_with_tools  # imports the protocol

    return world_with_tools(make, named)
