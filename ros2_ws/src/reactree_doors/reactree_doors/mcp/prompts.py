"""Prompts: what a person usually has the robot do, for clients that offer them in a menu."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from reactree_doors.mcp.watching import SCHEME, Watch
from reactree_ros.agent.text import in_one_line, shortened_line, visible

#: Longest argument, in characters; a longer one is cut, and ends with '…'; most completions of one.
LONGEST_ARGUMENT, MOST_COMPLETIONS = 2000, 100
_HAVE = "Have the robot do this with `carry_out`, and then say in a sentence how it ended:"
_THING = "the thing, e.g. apple 1"


@dataclass(frozen=True)
class Prompt:
    said: str  # what it is for
    text: str  # what takes the place of the names in braces is the client's
    takes: Mapping[str, str] = field(default_factory=dict)  # those names, and what each is
    shows: str = ""  # the resource that stands before the text, if it is there


PROMPTS = {
    "do": Prompt("Have the robot do something.", f"{_HAVE} {{instruction}}", {"instruction": "what to do"}),
    "find": Prompt("Have the robot find a thing.", f"{_HAVE} find {{thing}}", {"thing": _THING}),
    "bring": Prompt(
        "Have the robot bring a thing somewhere.",
        f"{_HAVE} bring {{thing}} to {{place}}",
        {"thing": _THING, "place": "where to, e.g. kitchen table 1"},
    ),
    "look": Prompt("Say what the robot sees.", "Call `look_around`, and say what the robot sees.", shows="camera"),
    "watch": Prompt("Say how the robot fares.", "Say in three sentences at most how the robot fares.", shows="tree"),
}


class Prompts:
    """The prompts as the protocol has them; what they show is the robot's latest run."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    async def listed(self, context: Any, params: Any) -> types.ListPromptsResult:
        prompts = []
        for name, one in PROMPTS.items():
            takes = [types.PromptArgument(name=key, description=said, required=True) for key, said in one.takes.items()]
            prompts.append(types.Prompt(name=name, description=one.said, arguments=takes))
        return types.ListPromptsResult(prompts=prompts)

    async def get(self, context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        given = {key: shortened_line(visible(one), LONGEST_ARGUMENT) for key, one in (params.arguments or {}).items()}
        prompt = PROMPTS.get(params.name)
        if prompt is None or prompt.takes.keys() != given.keys():
            said = (
                f"there is no prompt {shortened_line(params.name, 80)!r} with {shortened_line(', '.join(given), 80)!r}"
            )
            known = "; ".join(f"{name} ({', '.join(one.takes)})" for name, one in PROMPTS.items())
            raise MCPError(types.INVALID_PARAMS, f"{said}; there are {known}")
        content: list[Any] = [types.TextContent(type="text", text=prompt.text.format_map(given))]
        if prompt.shows in self._watch.there:
            shown = await self._watch.content(f"{SCHEME}{prompt.shows}")
            if isinstance(shown, types.BlobResourceContents):
                shot = types.ImageContent(
                    type="image", data=shown.blob, mime_type=shown.mime_type or "", _meta=shown.meta
                )
                content.insert(0, shot)
            else:
                content.insert(0, types.EmbeddedResource(type="resource", resource=shown))
        messages = [types.PromptMessage(role="user", content=one) for one in content]
        return types.GetPromptResult(description=prompt.said, messages=messages)

    async def complete(self, context: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Complete a thing or a place by what the latest run has seen."""
        known, name, typed = self._watch.known(), params.argument.name, params.argument.value.casefold()
        seen = {"thing": [one["thing"] for one in known["things"]]}
        seen["place"] = [*known["rooms"], *(one["place"] for one in known["things"])]
        fits = sorted({in_one_line(one) for one in seen.get(name, ()) if one and one.casefold().startswith(typed)})
        return types.CompleteResult(completion=types.Completion(values=fits[:MOST_COMPLETIONS], total=len(fits)))
