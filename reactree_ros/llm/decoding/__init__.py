"""Gets a decision from an engine: asks, checks the reply, and asks again if it is not allowed."""

from __future__ import annotations

import time

from reactree_ros.agent.grammar import DecisionGrammar, Grammar
from reactree_ros.agent.reading import Unreadable, own_words
from reactree_ros.agent.turns import About, Said, Told, Turn
from reactree_ros.llm.decoding.checking import Taken, checked
from reactree_ros.llm.decoding.noticed import Noticed
from reactree_ros.llm.decoding.strategy import Method, ask, check_method, method_for
from reactree_ros.llm.decoding.usage import Usage
from reactree_ros.llm.engine import Engine, Generation
from reactree_ros.llm.port import DecisionRequest, InvalidReply, MaySay, Reply

__all__ = ["Method", "Noticed", "Usage", "decode", "method_for"]

_STILL_THINKING = "Your reply ended while you were still thinking. Think less, and then answer."


async def decode(
    engine: Engine,
    request: DecisionRequest,
    *,
    method: Method | None = None,
    retries: int = 3,
    noticed: Noticed | None = None,
    usage: Usage | None = None,
) -> Reply:
    """Get an allowed reply.

    The reply is checked here, whatever the engine's constraint. A reply that is not allowed is asked for again with the
    reason, at most ``retries`` times. After that, a decision is returned with the objection to it.

    Args:
        engine: An open engine.
        request: The request.
        method: How to ask for a decision; None takes the best method that the engine's constraints allow.
        retries: How often to ask again.
        noticed: Earlier findings about the engine.
        usage: Lets the engine generate; pass it to see what was used even if there is no reply.

    Raises:
        LanguageModelError: The engine failed. :class:`InvalidReply` if no option of a choice was said.
            :class:`ServerUnavailable` if too many replies in a row were empty.
    """
    method = method or method_for(engine.constraints)
    check_method(engine, method)
    usage, begin = usage or Usage(engine, noticed or Noticed()), time.monotonic()
    refusal: tuple[Turn, ...] = ()
    taken, objection = Taken(""), ""
    for _ in range(retries + 1):
        generation = Generation(
            turns=(*request.turns, *refusal),
            begun=request.begun,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            seed=request.seed,
            id=request.id,
        )
        uttered = await ask(usage, generation, request.may_say, method)
        try:
            return usage.reply(checked(uttered, request.may_say), time.monotonic() - begin)
        except Unreadable as error:
            if method is not Method.UNCONSTRAINED and usage.finish_reason == "stop":
                engine.doubt()  # it may ignore a constraint that it is remembered to obey
            objection = _STILL_THINKING if usage.unfinished else str(error)
            taken = Taken(_own_words(uttered.words, request.may_say), error.said)
            refusal = (Said(request.begun + taken.text), Told(objection, About.REFUSAL))
    if isinstance(request.may_say, Grammar):
        return usage.reply(taken, time.monotonic() - begin, objection)
    raise InvalidReply(f"{objection} ({engine.name} was asked {retries + 1} times)")


def _own_words(words: str, may_say: MaySay) -> str:
    return own_words(words, may_say if isinstance(may_say, Grammar) else DecisionGrammar(()))
