"""A fixture for the protocol's official conformance suite: the product's door and serving, under the suite's names.

``mcp_conformance.py FOLDER`` serves by HTTP, as `reactree mcp --http` does, and says where. The suite has no token, so
each of its requests is given it on the way in. What it calls by names of its own is the product's: tools, a run's forms
and progress, resources, prompts.
"""

import sys
from pathlib import Path
from typing import Any

import mcp_peer
from pydantic import ConfigDict, create_model

from reactree_doors.mcp import server, serving
from reactree_doors.mcp.prompts import PROMPTS, Prompt
from reactree_doors.mcp.watching import SCHEME, Watch

#: The resources that the suite reads, and ours.
NAMES = {
    "test://static-text": f"{SCHEME}tree",
    "test://static-binary": f"{SCHEME}camera",
    "test://watched-resource": f"{SCHEME}record",
    "test://template/123/data": f"{SCHEME}record/123",
}
#: What a run of the scripted robot says first; it makes more than 123 events.
THINKS = "; ".join(f"Think: thought {number}" for number in range(100, 140))
#: The tools that the suite calls, and ours.
TOOLS = {
    "test_simple_text": server.Status(),
    "test_image_content": server.LookAround(),
    "test_error_handling": server.Pause(),  # nothing goes on that could be
    "test_tool_with_progress": server.CarryOut(instruction=f"{THINKS}; Act: done"),
    "test_elicitation": server.CarryOut(instruction=f"{THINKS}; Ask: Who?; Act: done"),
    "json_schema_2020_12_tool": server.Status(),
}


class Renamed(server.Tool):
    """Do what one of the product's tools does; the arguments are for the suite's schema."""

    model_config = ConfigDict(json_schema_extra={"$schema": "https://json-schema.org/draft/2020-12/schema"})
    message: str = ""
    address: create_model("address", street=(str, ""), city=(str, "")) | None = None

    async def do(self, door: Any, call: Any) -> Any:
        return await TOOLS[self.word].do(door, call)


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
    server.TOOLS.update({word: type(word, (Renamed,), {"word": word, "__doc__": Renamed.__doc__}) for word in TOOLS})
    PROMPTS.update(
        test_simple_prompt=Prompt("Simple.", "This is a simple prompt for testing."),
        test_prompt_with_arguments=Prompt("Two.", "arg1='{arg1}', arg2='{arg2}'", {"arg1": "one", "arg2": "another"}),
        test_prompt_with_embedded_resource=Prompt("Tree.", "{resourceUri}", {"resourceUri": "an address"}, "tree"),
        test_prompt_with_image=Prompt("Picture.", "Please analyze the image above.", shows="camera"),
    )
    server.Watch, serving.Gate = Named, Gate
    mcp_peer.serve("http", Path(sys.argv[1]))
