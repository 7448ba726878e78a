"""A fixture for the protocol's official conformance suite: the product's door and serving, under the suite's names.

``mcp_conformance.py FOLDER`` serves by HTTP, as `reactree mcp --http` does, and says where. The suite has no token, so
each of its requests is given it on the way in. What the suite calls by names of its own is made by what the product
makes: results of reports, a run's forms and progress, the resources, the prompts.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mcp_peer
from pydantic import ConfigDict, create_model

from reactree_doors.mcp import server, serving
from reactree_doors.mcp.prompts import PROMPTS, Prompt
from reactree_doors.mcp.robot import Report
from reactree_doors.mcp.watching import SCHEME, Watch
from reactree_ros.errors import UserError

#: The resources that the suite reads, and ours.
NAMES = {
    "test://static-text": f"{SCHEME}tree",
    "test://static-binary": f"{SCHEME}camera",
    "test://watched-resource": f"{SCHEME}record",
    "test://template/123/data": f"{SCHEME}record/123",
}
#: What a run of the scripted robot says in more than 123 events, then a question to a person.
THINKS = "; ".join(f"Think: thought {number}" for number in range(100, 140))


class Tool(server.Tool):
    """A tool of the suite."""

    async def do(self, door: Any, call: Any) -> Any:
        return server._result(Report("This is a simple text response for testing."))


class Text(Tool):
    """Return a text."""

    word = "test_simple_text"


class Image(Tool):
    """Return a picture."""

    word = "test_image_content"

    async def do(self, door: Any, call: Any) -> Any:
        return await server.LookAround().do(door, call)


class Fails(Tool):
    """Fail."""

    word = "test_error_handling"

    async def do(self, door: Any, call: Any) -> Any:
        raise UserError("this tool intentionally returns an error for testing")


class Progress(Tool):
    """Tell of progress."""

    word = "test_tool_with_progress"

    async def do(self, door: Any, call: Any) -> Any:
        return await server.CarryOut(instruction=f"{THINKS}; Act: done").do(door, call)


class Asks(Tool):
    """Ask a person."""

    word = "test_elicitation"
    message: str

    async def do(self, door: Any, call: Any) -> Any:
        return await server.CarryOut(instruction=f"{THINKS}; Ask: Who?; Act: done").do(door, call)


Address = create_model("address", street=(str, ""), city=(str, ""))


class Schema(Tool):
    """Have a schema with references."""

    word = "json_schema_2020_12_tool"
    model_config = ConfigDict(json_schema_extra={"$schema": "https://json-schema.org/draft/2020-12/schema"})
    name: str = ""
    address: Address | None = None


class Named(Watch):
    """The product's resources under the suite's addresses."""

    async def content(self, uri: str) -> Any:
        found = await super().content(NAMES.get(uri, uri))
        return found.model_copy(update={"uri": uri})

    async def subscribe(self, context: Any, params: Any) -> Any:
        return await super().subscribe(context, params.model_copy(update={"uri": NAMES[params.uri]}))


class Gate(serving.Gate):
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope["headers"] = [*scope["headers"], (b"authorization", b"Bearer " + self._token)]
        await super().__call__(scope, receive, send)


if __name__ == "__main__":
    server.TOOLS.update({tool.word: tool for tool in (Text, Image, Fails, Progress, Asks, Schema)})
    PROMPTS.update(
        test_simple_prompt=Prompt("Simple.", "This is a simple prompt for testing."),
        test_prompt_with_arguments=Prompt("Two.", "arg1='{arg1}', arg2='{arg2}'", {"arg1": "one", "arg2": "another"}),
        test_prompt_with_embedded_resource=Prompt("Tree.", "{resourceUri}", {"resourceUri": "an address"}, "tree"),
        test_prompt_with_image=Prompt("Picture.", "Please analyze the image above.", shows="camera"),
    )
    server.Watch, serving.Gate = Named, Gate
    mcp_peer.serve("http", Path(sys.argv[1]))
