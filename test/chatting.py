"""A model that chats: it obeys no constraint, and its words go through the real decoding."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from reactree_ros.background.pending import Pending
from reactree_ros.llm.decoding import decode
from reactree_ros.llm.engine import Engine, Generated, Generation
from reactree_ros.llm.port import DecisionRequest, LanguageModel, LanguageModelError, PromptTooLong, Reply

#: What a model says to a prompt; cut: as far as the token limit let it.
Say = Callable[[Generation], str | Generated]


def cut(text: str) -> Generated:
    """A reply that the token limit ended."""
    return Generated(text, "length")


class ChattingEngine(Engine):
    """Says whatever it likes; a token is a word."""

    name = "a chat"
    chat = True

    def __init__(self, say: Say, *, room: int | None) -> None:
        self.say = say
        self.room = room

    async def open(self) -> None:
        """Nothing to open."""

    async def generate(self, generation: Generation) -> Generated:
        words = len(generation.prompt.split())
        if self.room is not None and words > self.room:
            raise PromptTooLong(words - self.room, self.room)
        said = self.say(generation)
        return said if isinstance(said, Generated) else Generated(said, "stop")


class Chatting(LanguageModel):
    """A language model that chats, asked in the way of those that obey nothing; it answers at once.

    Args:
        say: What it says.
        room: Tokens that a prompt may have; None: any number.
    """

    def __init__(self, say: Say, *, room: int | None = None) -> None:
        self.engine = ChattingEngine(say, room=room)
        self.requests: list[DecisionRequest] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.requests.append(request)
        try:
            return Pending.ready(asyncio.run(decode(self.engine, request)))
        except LanguageModelError as error:
            return Pending.failed(error)

    def count_tokens(self, text: str) -> int:
        return len(text.split())


def saying(*texts: str | Generated) -> Say:
    """Say one text after the other, the last one for ever."""
    left = list(texts)
    return lambda generation: left.pop(0) if len(left) > 1 else left[0]
