"""Adds up the cost of all requests for one reply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from reactree_ros.agent.text import LONGEST
from reactree_ros.llm.decoding.checking import Taken
from reactree_ros.llm.decoding.noticed import Noticed, says_nothing
from reactree_ros.llm.engine import Engine, Generated, Generation
from reactree_ros.llm.port import PromptTooLong, Reply
from reactree_ros.llm.reasoning import Answer, split_reasoning


class Usage:
    """Lets an engine generate, and adds up the cost."""

    def __init__(self, engine: Engine, noticed: Noticed) -> None:
        self.engine = engine
        self._noticed = noticed
        self._warning = ""
        self.finish_reason = "stop"
        self.unfinished = False  # whether the last text ended while the model still thought
        self._generated: list[Generated] = []
        self._tried: list[Generated] = []

    async def generate(
        self, generation: Generation, *, thinks: bool = False, may_say: Callable[[str], bool] = lambda text: False
    ) -> Generated:
        """Generate one text, and take its reasoning out of it.

        Some servers apply the constraint to the reasoning, and then no answer follows. If the reasoning is exactly an
        allowed reply, it counts as the answer.

        Args:
            generation: The request.
            thinks: Whether the request asks for reasoning in tags.
            may_say: Whether a text is exactly an allowed reply.

        Raises:
            LanguageModelError: The engine failed. :class:`PromptTooLong` if the context was full before the end.
                :class:`ServerUnavailable` if too many texts in a row were empty.
        """
        generated = await self.engine.generate(generation if thinks else _after_reasoning(generation))
        answer = Answer(generated.text) if thinks else split_reasoning(generated.text)
        if answer.reasoning:
            reasoning = "\n".join(filter(None, (generated.reasoning, answer.reasoning)))
            tokens = generated.reasoning_tokens or self.engine.count_tokens(reasoning)
            generated = replace(generated, text=answer.text, reasoning=reasoning, reasoning_tokens=tokens)
        if len(generated.text) > LONGEST:  # before anything parses it
            generated = replace(generated, text=generated.text[:LONGEST], finish_reason="length")
        cut = generated.finish_reason == "length"
        if says_nothing(generated) and not cut and may_say(generated.reasoning.strip()):
            generated = replace(generated, text=generated.reasoning.strip(), reasoning="")
            answer = Answer(generated.text)
        self.finish_reason = generated.finish_reason
        self.unfinished = answer.unfinished or (cut and bool(generated.reasoning) and not generated.text.strip())
        self._generated.append(generated)
        self._check_room(generation, generated)
        self._noticed.look_for_silence(self.engine.name, generated, unfinished=self.unfinished)
        self._warning = self._noticed.cut_of(self.engine.name, generation.prompt, generated) or self._warning
        return generated

    def _check_room(self, generation: Generation, generated: Generated) -> None:
        """Raise :class:`PromptTooLong` if a full context truncated the reply."""
        context, prompt, output = self.engine.context, generated.prompt_tokens, generated.output_tokens
        if generated.finish_reason == "length" and context and prompt is not None and output is not None:
            missing = generation.max_tokens - (output - (generated.reasoning_tokens or 0))
            excess = prompt + output + missing - context
            if excess > 0 and missing > 0:
                raise PromptTooLong(excess, context)

    def reply(self, taken: Taken, seconds: float, objection: str = "") -> Reply:
        """Return a reply with the cost of all its requests."""
        reasoned = [one for one in self._generated if one.reasoning]
        return Reply(
            text=taken.text,
            said=taken.said,
            finish_reason=self.finish_reason,
            longest_prompt=_known(max, [one.prompt_tokens for one in self._generated]),
            reasoning="\n".join(one.reasoning for one in reasoned),
            reasoning_tokens=_known(sum, [one.reasoning_tokens for one in reasoned]) if reasoned else 0,
            seconds=seconds,
            answered_by=self.engine.name,
            objection=objection,
            warning=self._warning,
            **self._counts(),
        )

    def took(self) -> Reply | None:
        """Return the cost if there is no reply; None if nothing was used."""
        counts = self._counts()
        return Reply("", answered_by=self.engine.name, **counts) if self._tried or self._generated else None

    def _counts(self) -> dict[str, Any]:
        self._tried, self.engine.tried = [*self._tried, *self.engine.tried], ()
        names = ("prompt_tokens", "cached_tokens", "output_tokens")
        counts = {name: _known(sum, [getattr(one, name) for one in self._generated]) for name in names}
        tried = {f"tried_{name}": [getattr(one, name) or 0 for one in self._tried] for name in (names[0], names[2])}
        return counts | {name: sum(found) for name, found in tried.items()}


def _after_reasoning(generation: Generation) -> Generation:
    """Have only the answer looked at for what is wanted, not the reasoning before it."""
    if (wanted := generation.until) is None:
        return generation

    def until(text: str) -> str:
        answer = split_reasoning(text)
        if answer.unfinished or not text.endswith(answer.text) or not (part := wanted(answer.text)):
            return ""
        return text.removesuffix(answer.text) + part

    return replace(generation, until=until)


def _known(combine: Callable[[list[int]], int], counts: list[int | None]) -> int | None:
    """Combine counts; None if one of them is unknown."""
    known = [count for count in counts if count is not None]
    return combine(known) if len(known) == len(counts) else None
