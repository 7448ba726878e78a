"""What a server tells outside of the protocol: its version, what its chat template writes, how it counts tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reactree_ros.llm.chat import Message
from reactree_ros.llm.markers import is_chat, markers_of_chat
from reactree_ros.llm.openai.connection import Connection
from reactree_ros.llm.openai.dialects import Dialect
from reactree_ros.llm.openai.refusal import Refused
from reactree_ros.llm.port import RequestRejected, ServerUnavailable

_CHAT: list[Message] = [
    {"role": role, "content": said} for role, said in (("user", "Look."), ("assistant", "I look."), ("user", "Go on."))
]


@dataclass(frozen=True, kw_only=True)
class Aside:
    """Asks a server outside of the protocol; what it does not tell is None. Nothing is generated.

    Attributes:
        template: Fields of the request that hold arguments of its chat template.
    """

    connection: Connection
    dialect: Dialect
    model: str  # the server's name of the model
    template: Mapping[str, Any] = field(default_factory=dict)

    async def version(self) -> str:
        """Return the server's version; empty if it does not say."""
        return str(await self._ask(*self.dialect.version) or "") if self.dialect.version else ""

    async def sees(self) -> bool | None:
        """Return whether the model sees pictures."""
        if self.dialect.sees is None:
            return None
        path, name, part = self.dialect.sees
        found = await self._ask(path, name)
        return bool(found[part]) if isinstance(found, Mapping) and part in found else None

    async def shown(self, messages: list[Message] | None = None) -> str | list[int] | None:
        """Return what the chat template makes of messages, or of a short chat: a text or tokens.

        Raises:
            RequestRejected: The template refuses them.
        """
        if self.dialect.renders is None:
            return None
        path, name = self.dialect.renders
        told = {"messages": messages or _CHAT, "add_generation_prompt": False, **self.template}
        try:
            found = (await self.connection.post_aside(path, {"model": self.model, **told}))[name]
        except Refused as error:
            if error.status not in (400, 422, 500):  # other codes: the path is unknown
                return None
            refused = error
        except (ServerUnavailable, KeyError, TypeError):
            return None
        else:
            return found if isinstance(found, str | list) else None
        called, message = self.connection.called, self.connection.redacted(refused.message)
        raise RequestRejected(f"{called} answered {refused.how}: {message}")

    async def knows_its_chat(self, written: str | list[int]) -> bool | None:
        """Return whether what the chat template wrote holds a marker that is one token of the model."""
        text = written
        if not isinstance(text, str):
            text = await self._ask("/detokenize", "prompt", {"model": self.model, "tokens": written})
        if self.dialect.counts is None or not isinstance(text, str):
            return None
        bodies = [self.dialect.counts(self.model, one) for one in markers_of_chat(text)]
        found = [await self._ask("/tokenize", "tokens", body) for body in bodies]
        return is_chat([len(one) for one in found]) if all(isinstance(one, list) for one in found) else None

    async def counted(self, body: Mapping[str, Any]) -> int | None:
        """Return the number of tokens of the prompt in a request."""
        if self.dialect.renders is None or self.dialect.renders[0] != "/tokenize":
            return None
        found = await self._ask("/tokenize", "count", {"model": self.model, **body})
        return found if isinstance(found, int) else None

    async def _ask(self, path: str, name: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return a field of an answer."""
        try:
            answer = self.connection.get_aside(path) if body is None else self.connection.post_aside(path, body)
            return (await answer)[name]
        except (Refused, ServerUnavailable, KeyError, TypeError):
            return None
