"""Common parts of engines in this process: they write prompts themselves, and let a model think first."""

from __future__ import annotations

import abc
import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import Said, Told
from reactree_ros.llm.chat import Examples
from reactree_ros.llm.chat_template import ChatTemplate
from reactree_ros.llm.engine import Constraint, ConstraintKind, Engine, Generated, Generation, chosen
from reactree_ros.llm.markers import NO_CHAT, Markers, encoded, is_chat, markers_of_chat
from reactree_ros.llm.port import PromptTooLong, RequestRejected, ServerUnavailable
from reactree_ros.llm.reasoning import Reasoning

_CHAT = (Told("Look."), Said("I look."), Told("Go on."))
#: Longest text of a probe, in tokens: one for each byte.
_PROBED = 64
_WAY_OUT = "give the model the tokenizer of its original release, not one made from a GGUF"
_log = logging.getLogger(__name__)


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
        self._chat = self.chat = chat
        self._knows_its_chat: bool | None = None
        self._unheld = ""
        self._reasoning = reasoning or Reasoning()
        self._examples = examples
        self._tokenizer: Any = None
        self._template: ChatTemplate | None = None
        self._markers = Markers()

    async def _take(self, tokenizer: Any) -> None:
        """Use a tokenizer, and find out what its chat template accepts, and whether it goes with the grammar."""
        self._tokenizer, self._markers = tokenizer, Markers.of(tokenizer)
        self._template = None
        if self._chat is not False and (self._chat or getattr(tokenizer, "chat_template", None)):
            self._template = await ChatTemplate.find(tokenizer, self.model, self._reasoning, self._examples)
            self._knows_its_chat = self._is_chat(self._template)
            if self._chat is None and self._knows_its_chat is False:
                self._template = None
        self.chat = self._template is not None
        self.constraints = type(self).constraints
        self._unheld = await self._probe() if self.constraints else ""
        if self._unheld:
            self.constraints = frozenset()
            _log.warning("%s: %s", self.name, self._unheld)

    def _is_chat(self, template: ChatTemplate) -> bool | None:
        markers = markers_of_chat(template.prompt(_CHAT))
        return is_chat([len(self._tokenizer.encode(one, add_special_tokens=False)) for one in markers])

    async def _probe(self) -> str:
        """Hold texts to what begins each kind of decision; return what is wrong and the way out, or nothing."""
        wanted = [f"{kind.opening}go on" for kind in DecisionGrammar(("go on",)).kinds]
        try:
            said = await asyncio.gather(*map(self._held, wanted))
        except (ServerUnavailable, RequestRejected, ValueError) as error:
            if self.lost:
                raise
            problem = " ".join(str(error).split())[:300]
        else:
            wrong = next((pair for pair in zip(wanted, said, strict=True) if pair[0] != pair[1]), None)
            if wrong is None:
                return ""
            problem = f"held to {wrong[0]!r} it said {wrong[1]!r}"
        return (
            f"its tokenizer does not go with the grammar ({problem}): decisions are asked for as free text; {_WAY_OUT}"
        )

    async def _held(self, text: str) -> str:
        held = Constraint.choice(ConstraintKind.REGEX, [text])
        prompt = self._encode("Say:", begins=True)
        generated = await self._complete(prompt, Generation((), constraint=held, max_tokens=_PROBED), marked=False)
        self.tried = [*self.tried, generated]
        return chosen(ConstraintKind.REGEX, generated.text)

    async def generate(self, generation: Generation) -> Generated:
        """Generate; a thinking model thinks first. Cancelling stops it in either phase."""
        if self._tokenizer is None:
            raise ServerUnavailable(f"{self.name} is not open")
        if self._template is None:
            return await self._go_on(self._encode(self._apart(generation.prompt), begins=True), generation)
        showing = self.shown(generation)
        prompt = self._template.prompt(generation.turns, showing)
        shown = tuple(picture for number in sorted(showing) for picture in showing[number])
        generation = replace(generation, stops=(), begun=self._apart(generation.begun), shown=shown)
        thinking = self._template.thinking
        if thinking is None:
            return await self._go_on_with(prompt + generation.begun, generation)
        self._check_room(self._encode(prompt + generation.begun), thinking.room(prompt) + _most(generation))
        return await thinking.answer(prompt, generation, self._go_on_with)

    async def _go_on_with(self, text: str, generation: Generation, *, marked: bool = False) -> Generated:
        return await self._go_on(self._encode(text), generation, marked=marked)

    async def _go_on(self, prompt: list[int], generation: Generation, *, marked: bool = False) -> Generated:
        self._check_room(prompt, _most(generation))
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
        said = {"model": self.model, "prompts": "chat" if self.chat else "completion"}
        if self._knows_its_chat is False and not self.chat:
            said["prompts"] += f": {NO_CHAT}"
        if self._unheld:
            said["grammar"] = self._unheld
        return said if self._template is None else {**said, **self._template.in_words()}


def _most(generation: Generation) -> int:
    """Return the tokens that a generation may take besides the text of its prompt."""
    return generation.max_tokens + sum(one.tokens for one in generation.shown)
