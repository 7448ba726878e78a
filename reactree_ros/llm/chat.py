"""Lays a prompt out as the turns of a chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reactree_ros.agent.prompt import TARGET
from reactree_ros.llm.engine import Generation

#: A turn: role (``system``, ``user``, ``assistant``) and content.
Turn = dict[str, str]


def chat_turns(prompt: str, said: Sequence[tuple[int, int]] = (), begun: str = "") -> list[Turn]:
    """Return a prompt as turns: what comes before the task as system's, what the model said as assistant's.

    Everything else (task, observations, answers) is the user's. A prompt that grows at its end gives turns that grow
    at their end, so that a prefix cache serves them.

    Args:
        prompt: The whole text so far.
        said: Where in it the model itself spoke, as (start, end) in characters, in order.
        begun: How the reply begins; the last turn, to be continued.
    """
    system, target, _ = prompt.partition(TARGET)
    begin = len(system) + len(target) if target else 0
    turns = [("system", prompt[:begin])]
    for start, end in said:
        turns += [("user", prompt[begin:start]), ("assistant", prompt[start:end])]
        begin = end
    turns += [("user", prompt[begin:]), ("assistant", begun)]
    return [{"role": role, "content": content.strip("\n")} for role, content in turns if content.strip("\n")]


def prompt_tokens(tokenizer: Any, generation: Generation, *, chat: bool) -> list[int]:
    """Return the tokens of a prompt and of how its reply begins, by a Hugging Face tokenizer."""
    if not chat:
        return list(tokenizer.encode(generation.prompt + generation.begun))
    text = tokenizer.apply_chat_template(
        chat_turns(generation.prompt, generation.said, generation.begun),
        tokenize=False,
        add_generation_prompt=not generation.begun,
        continue_final_message=bool(generation.begun),
    )
    return list(tokenizer.encode(text, add_special_tokens=False))
