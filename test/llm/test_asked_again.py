"""A server that answers too late, over a whole run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

import pytest
from clients import Model
from doubles import Clock
from openai_peer import GRAMMAR, Behaviour, Peer, fails, never_answers

from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.llm.engine import ConstraintKind
from reactree_ros.llm.port import LanguageModel
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import TreeOptions

LACKS: dict[str, dict[str, Behaviour]] = {
    "all": {},
    "no sampling": {name: fails(400, f"Unsupported parameter: '{name}'") for name in ("temperature", "seed")},
}


def run(
    model: LanguageModel, name: str = "react_wm", *, clock: Callable[[], float] = time.monotonic, **options: float
) -> EpisodeResult:
    world = SymbolicWorld(load_tasks(HOUSES["apartment"])[0])
    chosen = TreeOptions.model_validate({"stuck_after": 0, "max_decisions": 5, **options})
    return Episode(
        "Go to the kitchen", world=world, model=model, planner=planner(name), options=chosen, clock=clock
    ).run()


def stubborn(*replies: str) -> Callable[[str], str]:
    """Say the same replies in turn, whatever is asked."""
    number = iter(range(10**6))
    return lambda prompt: replies[next(number) % len(replies)]


@pytest.mark.parametrize("lacks", LACKS.values(), ids=LACKS)
@pytest.mark.parametrize("chats", [True, False], ids=["chat", "text"])
@pytest.mark.parametrize("obeys", [(), (GRAMMAR,)], ids=["free", "grammar"])
@pytest.mark.parametrize("replies", [["Act: fly"], [""], ["Act: fly", "I do not know."]], ids=["act", "none", "two"])
def test_no_request_of_a_run_is_sent_twice(
    model: Model, lacks: dict[str, Behaviour], chats: bool, obeys: Sequence[ConstraintKind], replies: list[str]
) -> None:
    with Peer(owned_by="someone", speaks="llamacpp", obeys=obeys, chats=chats, lacks=lacks) as peer:
        method = "unconstrained" if obeys else "auto"
        one = model(peer, method=method, dialect="llamacpp" if obeys else "none", retries=0)
        one.ready().result(20)
        peer.say, peer.within = stubborn(*replies), lambda kind, value, prompt: "Act: fly"  # type: ignore[method-assign]
        run(one)
        bodies = [json.dumps(request.body, sort_keys=True) for request in peer.asked]
        assert len(bodies) == len(set(bodies)) >= 8


@pytest.mark.slow
def test_a_server_that_is_late_is_too_slow_and_not_gone(model: Model) -> None:
    with Peer(chats=True) as peer:
        one = model(peer, request_timeout=3)
        one.ready().result(20)
        peer.script.extend([never_answers] * 4)
        result = run(one, decision_timeout=20)
    assert (result.end, result.verdict.judgement.name) == ("too_slow", "BROKEN")
    assert "raise decision_timeout and the language model's request_timeout" in result.message


@pytest.mark.slow
def test_a_model_that_gives_up_for_its_askers_patience_counts_its_request(model: Model) -> None:
    with Peer(chats=True) as peer:
        one = model(peer, request_timeout=20)
        one.ready().result(20)
        peer.script.extend([never_answers] * 4)
        result = run(one, decision_timeout=2, clock=Clock())  # so that the node itself waits for ever
    assert (result.end, result.attempts) == ("too_slow", 1)
