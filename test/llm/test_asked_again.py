"""A server that answers too late, over a whole run."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from clients import Model
from doubles import Clock
from openai_peer import Peer, never_answers

from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.llm.port import LanguageModel
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import TreeOptions


def run(
    model: LanguageModel, name: str = "react_wm", *, clock: Callable[[], float] = time.monotonic, **options: float
) -> EpisodeResult:
    world = SymbolicWorld(load_tasks(HOUSES["apartment"])[0])
    chosen = TreeOptions.model_validate({"stuck_after": 0, "max_decisions": 5, **options})
    return Episode(
        "Go to the kitchen", world=world, model=model, planner=planner(name), options=chosen, clock=clock
    ).run()


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
