"""Common parts of engines in this process: they write prompts themselves, and let a model think first."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reactree_ros.llm.chat import Examples
from reactree_ros.llm.chat_template import ChatTemplate
from reactree_ros.llm.engine import Engine, Generated, Generation
from reactree_ros.llm.markers import Markers, encoded
from reactree_ros.llm.port import PromptTooLong, ServerUnavailable
from reactree_ros.llm.reasoning import Reasoning


class LocalEngine(Engine):
    """An engine in this process, with the model's tokenizer.

    Args:
        model: A Hugging Face model or a folder.
        chat: Lay prompts out as a chat; None does so if the tokenizer has a chat template.
        reasoning: How the model thinks before it answers; None leaves it to its chat template.
        examples: How in-context examples stand in a chat; None leaves it to the engine.
    """

    def __init__(
        self,
        model: str,
        *,
        chat: bool | None = None,
        reasoning: Reasoning | None = None,
        examples: Examples | None = None,
    ) -> None:
        self.model = model
        self.chat = chat
        self._reasoning = reasoning or Reasoning()
        self._examples = examples
        self._tokenizer: Any = None
        self._template: ChatTemplate | None = None
        self._markers = Markers()

    async def _take(self, tokenizer: Any) -> None:
        """Use a tokenizer, and find out what its chat template accepts."""
        if self.chat is None:
            self.chat = bool(getattr(tokenizer, "chat_template", None))
        if self.chat:
            self._template = await ChatTemplate.find(tokenizer, self.model, self._reasoning, self._examples)
        self._tokenizer, self._markers = tokenizer, Markers.of(tokenizer)

    async def generate(self, generation: Generation) -> Generated:
        """Generate; a thinking model thinks first. Cancelling stops it in either phase."""
        if self._tokenizer is None:
            raise ServerUnavailable(f"{self.name} is not open")
        if self._template is None:
            return await self._go_on(self._encode(self._apart(generation.prompt), begins=True), generation)
        prompt = self._template.prompt(generation.turns)
        generation = replace(generation, stops=(), begun=self._apart(generation.begun))
        thinking = self._template.thinking
        if thinking is None:
            return await self._go_on_with(prompt + generation.begun, generation)
        self._check_room(self._encode(prompt + generation.begun), thinking.room(prompt) + generation.max_tokens)
        return await thinking.answer(prompt, generation, self._go_on_with)

    async def _go_on_with(self, text: str, generation: Generation, *, marked: bool = False) -> Generated:
        return await self._go_on(self._encode(text), generation, marked=marked)

    async def _go_on(self, prompt: list[int], generation: Generation, *, marked: bool = False) -> Generated:
        self._check_room(prompt, generation.max_tokens)
        return await self._complete(prompt, generation, marked=marked)

    @abc.abstractmethod
    async def _complete(self, prompt: list[int], generation: Generation, *, marked: bool) -> Generated:
        """Continue a prompt that fits into the context.

        Args:
            prompt: Tokens.
            generation: The request; its own prompt is ignored.
            marked: Whether special tokens are part of the text.
        """

    def _check_room(self, prompt: Sequence[int], more: int) -> None:
        if self.context is not None and (excess := len(prompt) + more - self.context) > 0:
            raise PromptTooLong(excess, self.context)

    def _apart(self, text: str) -> str:
        return self._markers.apart(text)

    def _encode(self, text: str, *, begins: bool = False) -> list[int]:
        return encoded(self._tokenizer, text, begins=begins)

    def count_tokens(self, text: str) -> int | None:
        """Count with the model's tokenizer; None before it is loaded."""
        return None if self._tokenizer is None else len(self._encode(self._apart(text)))

    def status(self) -> Mapping[str, str]:
        """Describe the model, the layout of prompts, and how it thinks as far as known."""
        layout = {} if self._template is None else self._template.in_words()
        return {"model": self.model, "prompts": "chat" if self.chat else "completion", **layout}
