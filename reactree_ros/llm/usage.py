"""Lets an engine generate: adds up the cost of all requests for one reply, and notices what shows over many replies."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from reactree_ros.agent.text import LONGEST
from reactree_ros.agent.turns import Said, is_told_once
from reactree_ros.files.secrecy import redacted
from reactree_ros.llm.engine import Engine, Generated, Generation
from reactree_ros.llm.port import FAILED, Attempt, PromptTooLong, Reply, ServerUnavailable, prompt_text
from reactree_ros.llm.reasoning import Answer, split_reasoning
from reactree_ros.llm.seeing import pictures_of, why_unseen

#: Empty texts in a row, over all decisions, after which the model counts as silent.
MOST_SILENT = 8
#: Prompts that are remembered, for as many goal nodes at work at once.
_REMEMBERED = 16
#: A prompt that has grown by so many characters certainly has more tokens.
_GROWN = 64
_SHOWN = 80  # characters of a thought that an error shows
_TOKENS = ("prompt_tokens", "cached_tokens", "output_tokens")


class Noticed:
    """Findings about an engine that show only over many replies."""

    def __init__(self) -> None:
        self._silent = 0
        # Without what is told once; with the length of all, and the engine's count of their tokens.
        self._prompts = deque[tuple[str, int, int]](maxlen=_REMEMBERED)

    def look_for_silence(self, engine: str, generated: Generated, *, unfinished: bool) -> None:
        """Count empty texts in a row; raises :class:`ServerUnavailable` at the last of too many."""
        self._silent = 0 if generated.words.strip() else self._silent + 1
        if self._silent < MOST_SILENT:
            return
        self._silent = 0
        if unfinished and generated.finish_reason == "length":
            why = "it still thought when its limit was reached; raise reasoning_tokens, or set thinking=false"
        elif words := " ".join(generated.reasoning.split()):
            shown = repr(words if len(words) <= _SHOWN else f"{words[:_SHOWN]} …")
            why = (
                f"a thought came ({shown}) and no answer; set thinking=false, or have the server apply the grammar to "
                "the answer only"
            )
        else:
            tokens = "unknown" if generated.output_tokens is None else generated.output_tokens
            why = f"empty texts came ({tokens} output tokens); read its log, and try thinking=false or chat=false"
        raise ServerUnavailable(f"{engine} said nothing {MOST_SILENT} times in a row: {why} (--llm-option NAME=VALUE)")

    def cut_of(self, engine: str, generation: Generation, generated: Generated) -> str:
        """Say that the engine silently truncates a prompt; empty if nothing shows that.

        It shows if a prompt continues an earlier one and the engine counts no more tokens for it. It cannot show if the
        engine counts nothing, or counts only tokens that it had not cached.
        """
        tokens, cached = generated.prompt_tokens or 0, generated.cached_tokens or 0
        if tokens <= 0 or cached > tokens:
            return ""
        said, length = "", len(generation.prompt)
        kept = prompt_text([turn for turn in generation.turns if not is_told_once(turn)], generation.begun)
        for earlier, shorter, before in self._prompts:
            grown = length - shorter
            if grown < _GROWN or tokens > before or tokens <= grown // 2 + _GROWN or not kept.startswith(earlier):
                continue
            said = (
                f"{engine} silently truncates the prompt: it grew from {shorter} to {length} characters, "
                f"and its tokens went from {before} to {tokens} by the server's count; give it a longer context "
                "(Ollama: OLLAMA_CONTEXT_LENGTH, or num_ctx in a Modelfile; llama.cpp: --ctx-size; vLLM: "
                "--max-model-len)"
            )
        self._prompts.append((kept, length, tokens))
        return said


class Usage:
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
        self, generation: Generation, *, thinks: bool = False, allows: Callable[[str], bool] = lambda text: False
    ) -> Generated:
        """Generate one text, and take its reasoning out of it, unless the request asks for it in tags (``thinks``).

        Some servers apply the constraint to the reasoning, and then no answer follows. If the reasoning is exactly an
        allowed reply, it counts as the answer.

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
        cut, thought = generated.finish_reason == "length", generated.reasoning.strip()
        if not generated.words.strip() and not cut and allows(thought):
            generated, answer = replace(generated, text=thought, reasoning=""), Answer(thought)
        self.finish_reason = generated.finish_reason
        self.unfinished = answer.unfinished or (cut and bool(thought) and not generated.text.strip())
        self._generated.append(generated)
        self._check_room(generation, generated)
        self._noticed.look_for_silence(self.engine.name, generated, unfinished=self.unfinished)
        if not generated.pictures:  # whose number changes the tokens
            engine = self.engine
            unseen = why_unseen(generation.turns, engine.name, sees=engine.sees, side=engine.seeing.side)
            cut_of = self._noticed.cut_of(engine.name, generation, generated)
            self._warning = cut_of or unseen or self._warning
        return generated

    async def _attempt(self, generation: Generation) -> Generated:
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
        came = replace(attempt, text=generated.words, seconds=time.monotonic() - begin, **answered)
        self._attempts.append(came)
        return generated

    def refused(self, objection: str) -> None:
        """Note why the latest words were not taken; several requests may have brought them."""
        self._attempts = [one if one.objection else replace(one, objection=objection) for one in self._attempts]

    def _check_room(self, generation: Generation, generated: Generated) -> None:
        """Raise :class:`PromptTooLong` if a full context truncated the reply."""
        context, prompt, output = self.engine.context, generated.prompt_tokens, generated.output_tokens
        if generated.finish_reason == "length" and context and prompt is not None and output is not None:
            missing = generation.max_tokens - (output - (generated.reasoning_tokens or 0))
            excess = prompt + output + missing - context
            if excess > 0 and missing > 0:
                raise PromptTooLong(excess, context)

    def reply(self, text: str, said: tuple[Said, ...], seconds: float, objection: str = "") -> Reply:
        reasoned = [one for one in self._generated if one.reasoning]
        return Reply(
            text=text,
            said=said,
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
        """Return the cost if there is no reply, with the reason; None if nothing was used."""
        self.refused(redacted(problem))
        counts, attempts = self._counts(), tuple(self._attempts)
        seconds = sum(one.seconds for one in attempts)
        took = Reply("", seconds=seconds, answered_by=self.engine.name, attempts=attempts, **counts)
        return took if self._tried or attempts else None

    def _counts(self) -> dict[str, Any]:
        self._tried, self.engine.tried = [*self._tried, *self.engine.tried], ()
        counts = {name: _known(sum, [getattr(one, name) for one in self._generated]) for name in _TOKENS}
        tried = {f"tried_{name}": sum(getattr(one, name) or 0 for one in self._tried) for name in _TOKENS[::2]}
        shown = {name: sum(getattr(one, name) for one in self._generated) for name in ("pictures", "picture_tokens")}
        return {**counts, **tried, **shown}


def _digest(generation: Generation) -> str:
    """Return the same text for requests that are the same to the model."""
    names = ("prompt", "constraint", "stops", "max_tokens", "temperature", "top_p", "seed")
    sent: tuple[Any, ...] = tuple(getattr(generation, name) for name in names)
    if pictures := [picture.id for turn in generation.turns for picture in pictures_of(turn)]:
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
    known = [count for count in counts if count is not None]
    return combine(known) if len(known) == len(counts) else None
