"""Gets a decision from an engine: asks, checks the reply, and asks again if it is not allowed."""

from __future__ import annotations

import time

from reactree_ros.agent.grammar import DecisionGrammar, Grammar
from reactree_ros.agent.reading import Unreadable, own_words
from reactree_ros.agent.turns import About, Said, Told, Turn
from reactree_ros.llm.decoding.checking import Taken, checked
from reactree_ros.llm.decoding.noticed import Noticed
from reactree_ros.llm.decoding.strategy import Method, ask, check_method, method_for, method_of_try
from reactree_ros.llm.decoding.usage import Usage
from reactree_ros.llm.engine import Engine, Generation
from reactree_ros.llm.port import DecisionRequest, InvalidReply, MaySay, Reply

__all__ = ["Method", "Noticed", "Usage", "decode", "method_for"]

_AGAIN = "You have been told that before; reply otherwise."
#: How much higher the temperature is after each refusal of what was asked for in the same way, and its highest.
_HOTTER, _HOTTEST = 0.3, 0.9
_LONGEST_SHOWN = 500  # of a refused reply, in characters
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

    The reply is checked here, whatever the engine's constraint. A reply that is not allowed is asked for again, at most
    ``retries`` times. After that, a decision is returned with the objection to it.

    No two requests are the same, in this decision and in those after it: all refusals so far stand in the next request,
    which also has another seed and, unless it is held to more than the one before, a higher temperature. A reply that
    comes again is refused in other words. After that, and for the last time, a request is held to what may be said, if
    the engine can be.

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
    refused: list[Turn] = []
    said = set[str]()
    taken, objection = Taken(""), ""
    again, how, hotter = False, method_of_try(method, engine.constraints, tries=0, held=False), 0
    for tries in range(retries + 1):
        before, how = how, method_of_try(method, engine.constraints, tries=tries, held=again or tries == retries)
        hotter = hotter + 1 if tries and how is before else 0
        generation = Generation(
            turns=(*request.turns, *refused),
            begun=request.begun,
            max_tokens=request.max_tokens,
            temperature=max(request.temperature, min(_HOTTEST, _HOTTER * hotter)),
            top_p=request.top_p,
            seed=request.seed + tries,
            id=request.id,
        )
        uttered = await ask(usage, generation, request.may_say, how)
        try:
            return usage.reply(checked(uttered, request.may_say), time.monotonic() - begin)
        except Unreadable as error:
            objection = _STILL_THINKING if usage.unfinished else str(error)
            taken = Taken(_own_words(uttered.words, request.may_say), error.said)
        again = again or taken.text.strip() in said
        if taken.text.strip() in said:
            objection = f"{objection} {_AGAIN}"
        usage.refused(objection)
        said.add(taken.text.strip())
        refused += (Said(request.begun + _shown(taken.text)), Told(objection, About.REFUSAL))
    if isinstance(request.may_say, Grammar):
        return usage.reply(taken, time.monotonic() - begin, objection)
    raise InvalidReply(f"{objection} ({engine.name} was asked {retries + 1} times)")


def _shown(refused: str) -> str:
    """Return as much of a refused reply as the model is shown."""
    return refused if len(refused) <= _LONGEST_SHOWN else f"{refused[:_LONGEST_SHOWN].rstrip()} …"


def _own_words(words: str, may_say: MaySay) -> str:
    return own_words(words, may_say if isinstance(may_say, Grammar) else DecisionGrammar(()))
