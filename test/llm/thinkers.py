"""Asks an engine whose model thinks, and checks what every such engine keeps to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import About, Saw, Told
from reactree_ros.llm.engine import Constraint, ConstraintKind, Engine, Generated, Generation

SKILLS = ("go to kitchen 1", "pick up apple 1", "done")
HELD = Constraint(ConstraintKind.REGEX, DecisionGrammar(SKILLS, max_characters=40).regex())
TURNS = (Told("You are a robot.", About.SYSTEM), Told("Your task is to: go"), Saw("You see a kitchen cabinet (1)."))


def generated(engine: Engine, seeds: Iterable[int], *, max_tokens: int = 60) -> list[Generated]:
    """What an engine says together, with one seed each; it is opened and closed."""

    async def all_of_them() -> list[Generated]:
        await engine.open()
        asked = [
            Generation(TURNS, constraint=HELD, max_tokens=max_tokens, temperature=1.0, seed=seed, id=str(seed))
            for seed in seeds
        ]
        try:
            return await asyncio.gather(*map(engine.generate, asked))
        finally:
            await engine.close()

    return asyncio.run(asyncio.wait_for(all_of_them(), 300))


def check_thoughts(replies: Iterable[Generated], *, tokens: int, max_tokens: int = 60) -> None:
    """Look whether each thought ended by itself or with its budget, and the answer is what may be said."""
    lengths = set()
    for reply in replies:
        assert "think>" not in reply.text
        assert "</think>" not in reply.reasoning
        assert not reply.reasoning.startswith("<think>")  # it may say so within a thought
        assert reply.text.startswith(("Think: ", "Act: ", "Expand:"))
        assert reply.reasoning_tokens is not None
        assert reply.output_tokens is not None
        assert 1 <= reply.reasoning_tokens <= tokens
        assert 1 <= reply.output_tokens - reply.reasoning_tokens <= max_tokens
        lengths.add(reply.reasoning_tokens)
    assert tokens in lengths
    assert len(lengths) > 2  # others were ended by the model
