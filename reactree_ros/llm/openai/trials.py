"""Tries what a server takes whose dialect nobody knows, and finds where a thinking model leaves its thoughts."""

from __future__ import annotations

import enum

from reactree_ros.agent.turns import About, Said, Told
from reactree_ros.llm.engine import Constraint, ConstraintKind, Generated, Generation, chosen
from reactree_ros.llm.reasoning import split_reasoning

#: The most requests for a text that try a server.
MOST = 3
#: Longest answer to a trial, in tokens.
TOKENS = 32
_WORD = "Zq7kx"  # no model says this unprompted
#: Shows whether the server chats, with a system text and earlier replies, and how its model thinks.
HELLO = Generation(
    (Told("You are a robot.", About.SYSTEM), Told("Look."), Said("I look."), Told("Hello")), max_tokens=TOKENS
)


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


def held(kind: ConstraintKind) -> Generation:
    """Ask for a word that no model says, by a constraint of a kind."""
    return Generation((Told("Say a word:"),), constraint=Constraint.choice(kind, [_WORD]), max_tokens=TOKENS)


def obeys(kind: ConstraintKind, generated: Generated) -> bool:
    """Return whether an answer to :func:`held` is that word."""
    try:
        return chosen(kind, split_reasoning(generated.text).text.strip()) == _WORD
    except ValueError:
        return False
