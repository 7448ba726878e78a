"""The robot as a server of the Model Context Protocol: an assistant runs it by tools, resources and elicitations."""

from __future__ import annotations

from importlib.util import find_spec

from reactree_ros.cli.commands import ROBOTS, Command
from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import install_line

COMMAND = Command(
    name="mcp",
    summary="Serve the robot to an assistant by the Model Context Protocol.",
    panel=ROBOTS,
    module="reactree_doors.mcp.command",
)


def check_installed() -> None:
    if find_spec("mcp") is None or find_spec("mcp_types") is None:  # the second came with version 2
        raise UserError(f"reactree mcp needs mcp>=2: {install_line('reactree_doors[mcp]')}")
