"""Lays turns out as the messages of a chat, as the chat template of a model can take them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from operator import eq, itemgetter
from types import NoneType

from reactree_ros.agent.turns import About, Said, Told, Turn
from reactree_ros.llm.port import RequestRejected
from reactree_ros.llm.reasoning import split_reasoning

#: A message: role (``system``, ``user``, ``assistant``) and content.
Message = dict[str, str]

_THOUGHT = "<think>Hm.</think>I look."

#: What a template made of messages: text or tokens; only how many tokens; None where that cannot be known.
Rendering = str | list[int] | int | None


@dataclass(frozen=True)
class ChatLayout:
    """How turns are laid out for a chat template, after what it can do.

    Attributes:
        system: Whether the system text is a message of its own; otherwise it stands before the first of the user's.
        thoughts: Whether a thought in tags stays in what was said; otherwise it is left out here: a template that
            leaves out earlier ones only would write what was said first one way and then another.
    """

    system: bool = True
    thoughts: bool = True


def chat_messages(turns: Sequence[Turn], begun: str = "", layout: ChatLayout | None = None) -> list[Message]:
    """Return turns as messages: what the model said is the assistant's, who it is the system's, all else the user's.

    They are as every template takes them: at most one of the system's, at the beginning, then the user's and the
    assistant's in turns, the user's first. Neighbours of one role are one message, and there is none of nothing. Turns
    that grow at their end give messages that do, so that a prefix cache serves them.

    Args:
        turns: What was told, said and seen.
        begun: How the reply begins; the last message, to be continued.
        layout: What the template can take; None: everything.
    """
    layout = layout or ChatLayout()
    spoken = [(_role(turn), _text(turn, layout)) for turn in turns]
    # A message of nothing is left out, and then its neighbours may be of one role.
    spoken = _joined([one for one in [*_joined(spoken), ("assistant", begun.strip("\n"))] if one[1]])
    roles = [role for role, _ in spoken]
    if layout.system and roles[:2] == ["system", "user"]:
        return [_message("system", spoken[0][1]), *_exchange(spoken[1:])]
    return _exchange(spoken)


def _exchange(spoken: Iterable[tuple[str, str]]) -> list[Message]:
    """Return what user and assistant say in turns; what is the system's is told by the user."""
    told = _joined([("user" if role == "system" else role, text) for role, text in spoken])
    return [_message(role, text) for role, text in told]


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def _role(turn: Turn) -> str:
    if isinstance(turn, Said):
        return "assistant"
    return "system" if isinstance(turn, Told) and turn.about is About.SYSTEM else "user"


def _text(turn: Turn, layout: ChatLayout) -> str:
    return turn.text if layout.thoughts or not isinstance(turn, Said) else split_reasoning(turn.text).text


def _joined(spoken: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(role, "\n".join([text for _, text in some]).strip("\n")) for role, some in groupby(spoken, itemgetter(0))]


async def find_layout(render: Callable[[list[Message]], Awaitable[Rendering]]) -> ChatLayout:
    """Find out what a chat template can take.

    The system text is a message of its own where the template takes one, keeps it, and leaves it where it is while
    messages follow: some drop it silently, others write it into the last message of the user's. Thoughts stay where the
    template keeps those of earlier messages. What cannot be known is taken for granted.

    Args:
        render: Has the template write messages; raises :class:`~reactree_ros.llm.port.RequestRejected` where it
            refuses them. What opens the reply may be part of what it returns or not.

    Raises:
        LanguageModelError: What ``render`` raises, other than that it refuses what some templates do.
    """
    system, other = _message("system", "You are Alpha."), _message("system", "You are Omega, and you are a robot.")
    user, said, thought = _message("user", "Look."), _message("assistant", "I look."), _message("assistant", _THOUGHT)
    rest = [_message("user", "Go on."), _message("assistant", "I go on."), _message("user", "Stop.")]
    start, long = [user], None
    try:
        short, differing = await render([system, user]), await render([other, user])
        long = await render([system, user, said, *rest])
        if _stays(short, differing, long):
            start = [system, user]
    except RequestRejected:
        pass
    try:
        plain = long if len(start) > 1 else await render([user, said, *rest])
        thoughts = plain is None or await render([*start, thought, *rest]) != plain
    except RequestRejected:
        thoughts = False
    return ChatLayout(system=len(start) > 1, thoughts=thoughts)


def _stays(short: Rendering, differing: Rendering, long: Rendering) -> bool:
    """Whether the system text is written, and stays where it is.

    Args:
        short: System and user.
        differing: The same with another system text.
        long: As ``short``, with more messages behind.
    """
    if short is None or short == differing:
        return short is None
    if isinstance(short, int) or isinstance(differing, (int, NoneType)) or isinstance(long, (int, NoneType)):
        return True
    # Two system texts differ where the system text stands; up to there, messages that follow must change nothing.
    return _agreement(short, long) > _agreement(short, differing)


def _agreement(one: str | list[int], other: str | list[int]) -> int:
    """Return how far two renderings begin alike."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))
