"""How a model in this process thinks: freely up to the end mark, then constrained to an allowed reply."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from reactree_ros.llm.engine import Generated, Generation
from reactree_ros.llm.markers import Markers
from reactree_ros.llm.reasoning import Marks


class Continue(Protocol):
    """Continues a text."""

    async def __call__(self, text: str, generation: Generation, *, marked: bool = False) -> Generated:
        """Generate the continuation of a whole prompt; ``marked``: with the special tokens in it."""


@dataclass(frozen=True, kw_only=True)
class Thinking:
    """How a model thinks.

    Attributes:
        markers: Control tokens that no thought may contain when the answer is asked for.
    """

    marks: Marks
    after: str  # the text between the end mark and the answer
    tokens: int  # most tokens of thought; 0 turns thinking off
    always: bool  # whether it thinks if its prompt leaves the choice; otherwise the beginning of its text decides
    mark_tokens: int  # most tokens of one mark
    markers: Markers = field(default_factory=Markers)

    def room(self, prompt: str) -> int:
        """Return how many tokens reasoning and its marks may take after a prompt."""
        return 0 if self._is_over(prompt) else self.tokens + 2 * self.mark_tokens

    async def answer(self, prompt: str, generation: Generation, go_on: Continue) -> Generated:
        """Let the model think, if it does, and then answer."""
        if self._is_over(prompt):
            return await go_on(prompt + generation.begun, generation)
        free = replace(generation, constraint=None, stops=(), until=None)
        begun = prompt.rstrip().endswith(self.marks.begin)
        look = None
        if self.tokens and not begun and not self.always:
            look = await go_on(prompt, replace(free, max_tokens=self.mark_tokens), marked=True)
            if not look.text.lstrip().startswith(self.marks.begin):
                return _with(look, await go_on(prompt + generation.begun, generation))
        prompt += "" if begun else self.marks.begin
        end = self.marks.end + self.after + generation.begun
        if not self.tokens:
            return await go_on(prompt + end, generation)
        thought = await go_on(prompt, replace(free, stops=(self._stop,), max_tokens=self.tokens), marked=True)
        answer = _with(thought, await go_on(prompt + self.markers.apart(thought.text) + end, generation))
        answer = replace(answer, reasoning=thought.text.strip(), reasoning_tokens=thought.output_tokens)
        return answer if look is None else _with(look, answer)

    def _is_over(self, prompt: str) -> bool:
        """Return whether the template has closed the reasoning already, which turns thinking off."""
        return prompt.rstrip().endswith(self.marks.end)

    @property
    def _stop(self) -> str:
        """The end of reasoning: the end mark or, with channels, the end of the first channel."""
        return self.marks.end[: self.marks.end.find(">") + 1] or self.marks.end


def _with(before: Generated, after: Generated) -> Generated:
    """Return a text together with the one generated before it; the prompt is that of the first."""
    counts = (before.output_tokens, after.output_tokens)
    return replace(
        after,
        prompt_tokens=before.prompt_tokens,
        cached_tokens=before.cached_tokens,
        output_tokens=None if None in counts else sum(count or 0 for count in counts),
    )
