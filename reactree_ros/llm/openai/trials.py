"""Tries what a server can do: some servers silently ignore a constraint."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable, Sequence

from reactree_ros.agent.turns import Told, Turn
from reactree_ros.llm.engine import Constraint, ConstraintKind, Generated, Generation, chosen
from reactree_ros.llm.openai.dialects import DIALECTS, Dialect
from reactree_ros.llm.port import RequestRejected
from reactree_ros.llm.reasoning import split_reasoning

_WORD = "Zq7kx"  # no model says this unprompted
#: Longest answer to a trial, in tokens.
TOKENS = 32


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


def hello(begin: Sequence[Turn] = ()) -> Generation:
    """Return the first request: it shows whether the server chats, and how its model thinks.

    Args:
        begin: The beginning of the prompt that follows, which then is in the server's cache.
    """
    return Generation((*begin, Told("Hello")), max_tokens=TOKENS)


async def find_dialect(
    complete: Callable[[Generation, Dialect], Awaitable[Generated]], kind: str, begin: Sequence[Turn] = ()
) -> tuple[str, frozenset[ConstraintKind]]:
    """Return the name of a server's dialect, and the constraints that it obeys.

    A known kind of server is tried in its own dialect only. ``begin`` is that of :func:`hello`.
    """

    async def obeys(dialect: Dialect, constraint: ConstraintKind) -> bool:
        """Ask for a word that no model says, and check whether it comes."""
        held = Constraint.choice(constraint, [_WORD])
        asked = Generation((*begin, Told("Say a word:")), constraint=held, max_tokens=TOKENS)
        try:
            said = await complete(asked, dialect)
            return chosen(constraint, split_reasoning(said.text).text.strip()) == _WORD
        except (RequestRejected, ValueError):
            return False

    name = ""
    for name in [kind] if kind in DIALECTS else DIALECTS:
        dialect = DIALECTS[name]
        obeyed = await asyncio.gather(*(obeys(dialect, constraint) for constraint in dialect))
        if any(obeyed):
            return name, frozenset(one for one, yes in zip(dialect, obeyed, strict=True) if yes)
    return name, frozenset()
