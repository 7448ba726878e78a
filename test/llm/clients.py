"""Language models of servers, as tests make and ask them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from openai_peer import Peer

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import Told, Turn
from reactree_ros.llm.port import DecisionRequest, LanguageModel, LanguageModelError, Reply
from reactree_ros.llm.spec import make_model, model_settings

#: Longest wait for a reply, in seconds.
PATIENCE = 20.0
GRAMMAR_OF_THREE = DecisionGrammar(("done", "failure", "go to kitchen 1"))

#: Makes a language model of a peer or a URL, with settings.
Model = Callable[..., LanguageModel]


@contextmanager
def clients(**defaults: Any) -> Iterator[Model]:
    """Yield what makes language models; they are closed in the end."""
    made: list[LanguageModel] = []

    def make(peer: Peer | str, **settings: Any) -> LanguageModel:
        url = peer if isinstance(peer, str) else peer.base_url
        values = {"base_url": url, "retries": 1, "request_timeout": PATIENCE, **defaults, **settings}
        made.append(make_model(*model_settings("openai", values, where="the test")))
        return made[-1]

    yield make
    for one in made:
        one.close()


#: Starts a peer, and makes a language model of it with settings.
Serve = Callable[..., tuple[Peer, LanguageModel]]


@contextmanager
def serving(**defaults: Any) -> Iterator[Serve]:
    """Yield what starts peers; they and their language models end with it."""
    with ExitStack() as open_, clients(**defaults) as make:

        def serve(peer: Peer, **settings: Any) -> tuple[Peer, LanguageModel]:
            return open_.enter_context(peer), make(peer, **settings)

        yield serve


def ask(model: LanguageModel, *turns: Turn | str, **more: Any) -> Reply:
    """Ask for a decision, or what ``may_say`` says."""
    told = tuple(Told(turn) if isinstance(turn, str) else turn for turn in turns or ("Say.",))
    more.setdefault("may_say", GRAMMAR_OF_THREE)
    return model.decide(DecisionRequest(told, **more)).result(PATIENCE)


def decided(reply: Reply) -> str:
    """Return the words of what a reply was taken for."""
    return "\n".join(said.text for said in reply.said)


def refusal(model: LanguageModel, *turns: Turn | str, **more: Any) -> LanguageModelError:
    """Ask, and return the error that comes."""
    with pytest.raises(LanguageModelError) as raised:
        ask(model, *turns, **more)
    assert "\n" not in str(raised.value)
    return raised.value
