"""Finds out by trial what a server can do: servers are known to ignore a constraint silently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from reactree_ros.agent.turns import Told
from reactree_ros.llm.engine import Constraint, ConstraintKind, Generated, Generation, chosen
from reactree_ros.llm.openai.dialects import DIALECTS, Dialect
from reactree_ros.llm.port import RequestRejected

_WORD = "Zq7kx"  # no model says this of its own accord
_TOKENS = 32


async def chats(complete: Callable[[Generation], Awaitable[Generated]]) -> bool:
    """Return whether a server has a chat template for its model.

    Args:
        complete: Sends a chat.
    """
    try:
        await complete(Generation((Told("Hello"),), max_tokens=_TOKENS))
    except RequestRejected:
        return False
    return True


async def find_dialect(
    complete: Callable[[Generation, Dialect], Awaitable[Generated]], kind: str
) -> tuple[Dialect, frozenset[ConstraintKind]]:
    """Return a server's dialect, and the constraints that it obeys.

    Args:
        complete: Sends a request in a dialect.
        kind: What the server calls itself; its dialect is the only one that is tried where there is one.
    """

    async def obeys(dialect: Dialect, constraint: ConstraintKind) -> bool:
        """Ask for a word that no model says, and see whether it comes."""
        held = Constraint.choice(constraint, [_WORD])
        try:
            said = await complete(Generation((Told("Say a word:"),), constraint=held, max_tokens=_TOKENS), dialect)
            return chosen(constraint, said.text) == _WORD
        except (RequestRejected, ValueError):
            return False

    dialect: Dialect = {}
    for dialect in [DIALECTS[kind]] if kind in DIALECTS else DIALECTS.values():
        obeyed = await asyncio.gather(*(obeys(dialect, constraint) for constraint in dialect))
        if any(obeyed):
            return dialect, frozenset(one for one, yes in zip(dialect, obeyed, strict=True) if yes)
    return dialect, frozenset()
