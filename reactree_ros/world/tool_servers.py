"""Which MCP servers a world has, and which of their tools are its skills; a distribution beside this one calls them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, model_validator
from typing_extensions import Self

from reactree_ros.agent.text import LONGEST
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import read_yaml
from reactree_ros.files.secrecy import is_loopback
from reactree_ros.plugins import Registry
from reactree_ros.plugins.installation import install_line
from reactree_ros.plugins.settings import Settings, or_nearest, read_settings
from reactree_ros.world.port import World

#: What adds the tools of servers to a world, by the protocol.
TOOLS: Registry[FunctionType] = Registry("tools of servers", "reactree_ros.tools", FunctionType, first=())
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")


class ToolSettings(Settings):
    name: str = Field(default="", max_length=64, description="what policies and records call it; empty: as the tool")
    wording: str = Field(default="", description="how it is said, such as 'look up who sits in {room}'")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="what may stand in its places, where the tool's schema allows more"
    )
    effect: dict[Any, Any] = Field(
        default_factory=dict, description="what it changes of what is known; empty: it only tells something"
    )
    policy: Literal["allow", "confirm", "deny"] | None = Field(
        default=None, description="what a skill policy says of it where its own rules say nothing"
    )
    seconds: float = Field(default=30.0, gt=0, le=3600, description="longest time for one call, in seconds")
    longest: int = Field(default=2000, ge=100, le=LONGEST, description="most characters of its answer that are told")


def _by_name(tools: Any) -> Any:
    if isinstance(tools, list):
        return {name: {} for name in tools}
    return {name: one or {} for name, one in tools.items()} if isinstance(tools, Mapping) else tools


class ServerSettings(Settings):
    """One MCP server: how it is reached, and which of its tools are skills."""

    command: str = Field(default="", description="the program that is started, which speaks MCP on stdin and stdout")
    args: list[str] = Field(default_factory=list, description="its arguments")
    env: list[str] = Field(default_factory=list, description="names of environment variables that it gets, too")
    url: str = Field(default="", description="the address of a server that runs already (streamable HTTP)")
    token_variable: str = Field(default="", description="the environment variable that holds the token for the address")
    start_seconds: float = Field(default=30.0, gt=0, le=600, description="longest time to start or reach it")
    tools: Annotated[dict[str, ToolSettings], BeforeValidator(_by_name)] = Field(
        min_length=1, description="the tools that are skills; no others are"
    )

    @model_validator(mode="after")
    def _reached_in_one_way(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("name either the command that starts the server, or its url")
        if self.url:
            parts = urlsplit(self.url)
            if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
                raise ValueError("url: an address looks like https://tools.example/mcp, without a user or a password")
            if self.token_variable and parts.scheme == "http" and not is_loopback(parts.hostname):
                raise ValueError("url: a token is sent to another machine over https alone")
            if self.args or self.env:
                raise ValueError("args and env are of a command, not of a url")
        elif self.token_variable:
            raise ValueError("token_variable is of a url; a command gets variables by env")
        if not all(_VARIABLE.fullmatch(one) for one in (*self.env, self.token_variable) if one):
            raise ValueError("env and token_variable hold names of environment variables, never values")
        return self

    def variables(self, server: str) -> dict[str, str]:
        named = [*self.env, *([self.token_variable] if self.token_variable else [])]
        for number, name in enumerate(named):
            if name not in os.environ:  # not told by name: it may be a token that was written in the wrong place
                which = "token_variable" if number == len(self.env) else f"env.{number}"
                raise UserError(f"MCP server '{server}': the environment variable that {which} names is not set")
        return {name: os.environ[name] for name in named}


def _named(servers: Any) -> Any:
    if isinstance(servers, Mapping):
        for name in servers:
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise ValueError(f"{str(name)[:40]!r} is not a name of a server: use letters, digits, - and _")
    return servers


#: The servers of a world by their names, which the answers of their tools begin with.
Servers = Annotated[dict[str, ServerSettings], BeforeValidator(_named)]


class _File(Settings):
    mcp: Servers = Field(min_length=1)


def load_servers(path: str | Path) -> Mapping[str, ServerSettings]:
    """Read a file with MCP servers, under ``mcp:``."""
    document, _ = read_yaml(Path(path))
    servers = read_settings(_File, document, where=str(path)).mcp
    check_programs(servers, lambda *entry: f"{path}: {'.'.join(entry)}")
    return servers


def check_programs(servers: Mapping[str, ServerSettings], at: Callable[..., str]) -> None:
    """Check that the programs of servers are there, where they are to be started; ``at`` says where an entry is."""
    for name, server in servers.items():
        if server.command and shutil.which(server.command) is None:
            path = Path(server.command)
            folders = [path.parent] if len(path.parts) > 1 else map(Path, os.get_exec_path())
            near = or_nearest(path.name, [one.name for there in folders if there.is_dir() for one in there.iterdir()])
            said = f"there is no program '{server.command}' to start; write a name on PATH, or a path{near}"
            raise UserError(f"{at('mcp', name, 'command')}: {said}")


def with_tools(make: Callable[[], World], servers: str | Mapping[str, ServerSettings]) -> World:
    """Make a world, with the tools of MCP servers as skills if some are named.

    Raises UserError: the world cannot be made; a server cannot be reached, or does not have a tool; or a tool cannot be
    a skill here.
    """
    named = load_servers(servers) if isinstance(servers, str) and servers else servers
    if not named:
        return make()
    if "mcp" not in TOOLS.names:
        raise UserError(f"MCP server '{next(iter(named))}' needs reactree_doors: {install_line('reactree_doors[mcp]')}")
    world: World = TOOLS.get("mcp")(make, named)
    return world
