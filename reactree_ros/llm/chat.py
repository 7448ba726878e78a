"""Lays turns out as the messages of a chat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from reactree_ros.agent.turns import About, Said, Told, Turn
from reactree_ros.llm.engine import Generation

#: A message: role (``system``, ``user``, ``assistant``) and content.
Message = dict[str, str]


def chat_messages(turns: Sequence[Turn], begun: str = "") -> list[Message]:
    """Return turns as messages: what the model said is the assistant's, who it is the system's, all else the user's.

    Neighbours of one role are one message. Turns that grow at their end give messages that do, so that a prefix cache
    serves them.

    Args:
        turns: What was told, said and seen.
        begun: How the reply begins; the last message, to be continued.
    """
    spoken = _joined([(_role(turn), turn.text) for turn in turns])
    # A message of nothing is left out, and then its neighbours may be of one role.
    spoken = _joined([one for one in [*spoken, ("assistant", begun.strip("\n"))] if one[1]])
    return [{"role": role, "content": content} for role, content in spoken]


def _role(turn: Turn) -> str:
    if isinstance(turn, Said):
        return "assistant"
    return "system" if isinstance(turn, Told) and turn.about is About.SYSTEM else "user"


def _joined(spoken: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(role, "\n".join([text for _, text in some]).strip("\n")) for role, some in groupby(spoken, itemgetter(0))]


def prompt_tokens(tokenizer: Any, generation: Generation, *, chat: bool) -> list[int]:
    """Return the tokens of a prompt and of how its reply begins, by a Hugging Face tokenizer."""
    if not chat:
        return list(tokenizer.encode(generation.prompt))
    text = tokenizer.apply_chat_template(
        chat_messages(generation.turns, generation.begun),
        tokenize=False,
        add_generation_prompt=not generation.begun,
        continue_final_message=bool(generation.begun),
    )
    return list(tokenizer.encode(text, add_special_tokens=False))
