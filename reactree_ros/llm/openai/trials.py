"""Tries what a server can do: some servers silently ignore a constraint."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable

from reactree_ros.agent.turns import Told
from reactree_ros.llm.engine import Constraint, ConstraintKind, Generated, Generation, chosen
from reactree_ros.llm.openai.dialects import DIALECTS, Dialect
from reactree_ros.llm.port import RequestRejected
from reactree_ros.llm.reasoning import split_reasoning

_WORD = "Zq7kx"  # no model says this unprompted
_TOKENS = 32
#: The first request: shows whether the server chats, and how its model thinks.
HELLO = Generation((Told("Hello"),), max_tokens=_TOKENS)


class Thoughts(enum.Enum):
    """Where a thinking model leaves its thoughts."""

    FIELD = "in a field of its own"
    """The server separates them; a constraint holds for the answer only."""
    TEXT = "in its text"
    """The server does not separate them; a constraint holds from the first token and prevents thinking."""
    UNSEEN = "unseen"
    """The server keeps them, and at most counts them."""


def thoughts(generated: Generated) -> Thoughts | None:
    """Return where a model left its thoughts; None if it did not think."""
    if generated.reasoning:
        return Thoughts.FIELD
    answer = split_reasoning(generated.text)
    if answer.reasoning or answer.unfinished:
        return Thoughts.TEXT
    nothing_said = not (generated.text.strip() or generated.calls)
    if generated.reasoning_tokens or (nothing_said and generated.finish_reason == "length"):
        return Thoughts.UNSEEN
    return None


async def find_dialect(
    complete: Callable[[Generation, Dialect], Awaitable[Generated]], kind: str
) -> tuple[Dialect, frozenset[ConstraintKind]]:
    """Return a server's dialect, and the constraints that it obeys; a known kind of server is tried in its own only."""

    async def obeys(dialect: Dialect, constraint: ConstraintKind) -> bool:
        """Ask for a word that no model says, and check whether it comes."""
        held = Constraint.choice(constraint, [_WORD])
        try:
            said = await complete(Generation((Told("Say a word:"),), constraint=held, max_tokens=_TOKENS), dialect)
            return chosen(constraint, split_reasoning(said.text).text.strip()) == _WORD
        except (RequestRejected, ValueError):
            return False

    dialect: Dialect = {}
    for dialect in [DIALECTS[kind]] if kind in DIALECTS else DIALECTS.values():
        obeyed = await asyncio.gather(*(obeys(dialect, constraint) for constraint in dialect))
        if any(obeyed):
            return dialect, frozenset(one for one, yes in zip(dialect, obeyed, strict=True) if yes)
    return dialect, frozenset()
