"""Tools of MCP servers as skills of a world."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reactree_ros.plugins.installation import check_modules
from reactree_ros.world.port import World
from reactree_ros.world.tools.settings import ServerSettings, load_servers


def with_tools(make: Callable[[], World], servers: str | Mapping[str, ServerSettings]) -> World:
    """Make a world, with the tools of MCP servers as skills if some are named.

    Raises UserError: the world cannot be made; a server cannot be reached, or does not have a tool; or a tool cannot be
    a skill here.

    Args:
        servers: The servers, or the file that names them; empty: there are none.
    """
    named = load_servers(servers) if isinstance(servers, str) and servers else servers
    if not named:
        return make()
    assert not isinstance(named, str)
    check_modules(f"MCP server '{next(iter(named))}'", "reactree_ros[mcp]", ["mcp"])
    from reactree_ros.world.tools.skills import add_tools  # imports the protocol, and so where a server is named alone

    return add_tools(make, named)
