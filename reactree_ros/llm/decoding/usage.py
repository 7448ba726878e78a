"""What the requests for one reply took, all together."""

from __future__ import annotations

from collections.abc import Callable

from reactree_ros.llm.engine import Engine, Generated, Generation
from reactree_ros.llm.port import PromptTooLong, Reply


class Usage:
    """Lets an engine generate, and adds up what it took.

    Args:
        engine: Open.

    Attributes:
        said: What the model said last, with how it began: as it is shown to it where it will not do.
        finish_reason: What ended that.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.said = ""
        self.finish_reason = "stop"
        self._generated: list[Generated] = []

    async def generate(self, generation: Generation) -> str:
        """Generate one text.

        Raises:
            LanguageModelError: Of the engine, or :class:`PromptTooLong` where the context was full before the end.
        """
        generated = await self.engine.generate(generation)
        self.said = generation.begun + generated.text
        self.finish_reason = generated.finish_reason
        self._generated.append(generated)
        self._check_room(generation, generated)
        return generated.text

    def _check_room(self, generation: Generation, generated: Generated) -> None:
        """A reply that was cut because the context was full is the prompt's fault."""
        context, prompt, output = self.engine.context, generated.prompt_tokens, generated.output_tokens
        if generated.finish_reason == "length" and context and prompt is not None and output is not None:
            excess = prompt + generation.max_tokens - context
            if excess > 0 and output < generation.max_tokens:
                raise PromptTooLong(excess, context)

    def reply(self, text: str, seconds: float, objection: str = "") -> Reply:
        """Return a reply with all that it took."""
        prompts = [one.prompt_tokens for one in self._generated]
        return Reply(
            text=text,
            finish_reason=self.finish_reason,
            prompt_tokens=_known(sum, prompts),
            cached_tokens=_known(sum, [one.cached_tokens for one in self._generated]),
            output_tokens=_known(sum, [one.output_tokens for one in self._generated]),
            longest_prompt=_known(max, prompts),
            seconds=seconds,
            answered_by=self.engine.name,
            objection=objection,
        )


def _known(combine: Callable[[list[int]], int], counts: list[int | None]) -> int | None:
    """Combine counts; None where one of them is unknown."""
    known = [count for count in counts if count is not None]
    return combine(known) if len(known) == len(counts) else None
