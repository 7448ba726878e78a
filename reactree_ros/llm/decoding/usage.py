"""Adds up the cost of all requests for one reply."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from reactree_ros.agent.text import LONGEST
from reactree_ros.files.secrecy import redacted
from reactree_ros.llm.decoding.checking import Taken, Utterance
from reactree_ros.llm.decoding.noticed import Noticed, says_nothing
from reactree_ros.llm.engine import Engine, Generated, Generation
from reactree_ros.llm.port import FAILED, Attempt, PromptTooLong, Reply
from reactree_ros.llm.reasoning import Answer, split_reasoning
from reactree_ros.llm.seeing import pictures_of, why_unseen

_TOKENS = ("prompt_tokens", "cached_tokens", "output_tokens")


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
        self._attempts: list[Attempt] = []

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
        generated = await self._attempt(generation if thinks else _after_reasoning(generation))
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
        self._warning = self._problem(generation, generated) or self._warning
        return generated

    def _problem(self, generation: Generation, generated: Generated) -> str:
        """Say what of the prompt has not reached the model; empty if nothing shows that."""
        if generated.pictures:  # whose number changes the tokens
            return ""
        engine = self.engine
        unseen = why_unseen(generation.turns, engine.name, sees=engine.sees, side=engine.seeing.side)
        return self._noticed.cut_of(engine.name, generation.prompt, generated) or unseen

    async def _attempt(self, generation: Generation) -> Generated:
        """Send one request, and keep what came of it, also if it fails or is canceled."""
        begin = time.monotonic()
        constraint = "" if generation.constraint is None else generation.constraint.kind.value
        attempt = Attempt(constraint=constraint, asked=_digest(generation), finish_reason=FAILED)
        try:
            generated = await self.engine.generate(generation)
        except BaseException as error:
            problem = redacted(str(error)) or "it was stopped before its end"
            self._attempts.append(replace(attempt, objection=problem, seconds=time.monotonic() - begin))
            raise
        answered = {name: getattr(generated, name) for name in ("finish_reason", *_TOKENS)}
        words = Utterance(generated.text, generated.calls).words
        self._attempts.append(replace(attempt, text=words, seconds=time.monotonic() - begin, **answered))
        return generated

    def refused(self, objection: str) -> None:
        """Take in why the latest words were not taken; several requests may have brought them."""
        self._attempts = [one if one.objection else replace(one, objection=objection) for one in self._attempts]

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
            attempts=tuple(one if one.objection else replace(one, text="") for one in self._attempts),
            **self._counts(),
        )

    def took(self, problem: str) -> Reply | None:
        """Return the cost if there is no reply; None if nothing was used.

        Args:
            problem: Why there is none.
        """
        self.refused(redacted(problem))
        counts, attempts = self._counts(), tuple(self._attempts)
        seconds = sum(one.seconds for one in attempts)
        took = Reply("", seconds=seconds, answered_by=self.engine.name, attempts=attempts, **counts)
        return took if self._tried or attempts else None

    def _counts(self) -> dict[str, Any]:
        self._tried, self.engine.tried = [*self._tried, *self.engine.tried], ()
        counts = {name: _known(sum, [getattr(one, name) for one in self._generated]) for name in _TOKENS}
        tried = {f"tried_{name}": [getattr(one, name) or 0 for one in self._tried] for name in (_TOKENS[0], _TOKENS[2])}
        shown = {name: sum(getattr(one, name) for one in self._generated) for name in ("pictures", "picture_tokens")}
        return counts | {name: sum(found) for name, found in tried.items()} | shown


def _digest(generation: Generation) -> str:
    """Return the same text for requests that are the same to the model."""
    one = generation
    sent: tuple[Any, ...] = (
        one.prompt,
        one.constraint,
        one.stops,
        one.max_tokens,
        one.temperature,
        one.top_p,
        one.seed,
    )
    if pictures := [picture.id for turn in one.turns for picture in pictures_of(turn)]:
        sent += (pictures,)
    return hashlib.blake2b(repr(sent).encode(), digest_size=8).hexdigest()


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
