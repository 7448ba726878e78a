"""Servers that cut a prompt without a word: how that is noticed, told once a run, and not told where it is not so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from clients import Model, ask, clients
from openai_peer import Exchange, Peer, answers

from reactree_ros.agent.turns import Told
from reactree_ros.episode import Episode
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.llm.engine import Generated
from reactree_ros.llm.usage import Noticed
from reactree_ros.planners.spec import planner
from reactree_ros.record.writer import Recorder
from reactree_ros.tree.options import TreeOptions

SENTENCE = "You are in the kitchen, and you see a table and a chair. "
THOUGHT = "Think: well"


def prompt(sentences: int) -> str:
    return SENTENCE * sentences


def told(
    counts: Sequence[tuple[str, int | None]], cached: Callable[[int], int | None] = lambda tokens: None
) -> list[str]:
    """Return what is said of prompts with what the server counts of them."""
    noticed, said = Noticed(), []
    for text, tokens in counts:
        generated = Generated(THOUGHT, "stop", prompt_tokens=tokens, cached_tokens=cached(tokens or 0))
        said.append(noticed.cut_of("a server", text, generated))
    return [one for one in said if one]


CUT: dict[str, list[tuple[str, int | None]]] = {
    "stays the same": [(prompt(100), 1300), (prompt(160), 1984), (prompt(170), 1984)],
    "cut from the beginning": [(prompt(400), 1984), (prompt(410), 1984)],
    "falls to half": [(prompt(310), 4042), (prompt(340), 2051)],
    "falls a little": [(prompt(160), 1990), (prompt(164), 1960)],
    "between prompts of others": [(prompt(160), 1984), ("Another. " * 400, 1200), (prompt(164), 1984)],
}


@pytest.mark.parametrize("counts", CUT.values(), ids=CUT)
def test_a_prompt_that_grows_while_its_tokens_do_not_was_cut(counts: list[tuple[str, int | None]]) -> None:
    (said,) = told(counts)
    earlier = next(one for one in reversed(counts[:-1]) if one[0].startswith(SENTENCE))
    for number in (len(earlier[0]), len(counts[-1][0]), earlier[1], counts[-1][1]):
        assert str(number) in said
    for way_out in ("num_ctx", "OLLAMA_CONTEXT_LENGTH", "--ctx-size"):
        assert way_out in said


WHOLE: dict[str, list[tuple[str, int | None]]] = {
    "grows": [(prompt(n), 13 * n) for n in range(1, 300, 7)],
    "another node's": [(prompt(300), 3900), ("Another. " * 300, 900), ("Yet another. " * 400, 900)],
    "really shorter": [(prompt(300), 3900), (prompt(100), 1300), (prompt(290), 3770)],
    "the same again": [(prompt(100), 1300), (prompt(100), 1300)],
    "a word more": [(prompt(100), 1300), (f"{prompt(100)}So.", 1300)],
    "zero": [(prompt(n), 0) for n in range(1, 300, 7)],
    "unknown": [(prompt(n), None) for n in range(1, 300, 7)],
    "only what is new": [(prompt(300), 3900), *((prompt(n), 65) for n in range(305, 400, 5))],
    "a constant": [(prompt(n), 7) for n in range(1, 300, 7)],
    "negative": [(prompt(n), -1) for n in range(1, 300, 7)],
}


@pytest.mark.parametrize("counts", WHOLE.values(), ids=WHOLE)
def test_counts_that_show_nothing_are_not_told(counts: list[tuple[str, int | None]]) -> None:
    assert told(counts) == []


# ---------------------------------------------------------------------- over a server


@pytest.fixture
def model() -> Iterator[Model]:
    with clients(dialect="none", retries=0) as make:
        yield make


def cutting(most: int, **more: Any) -> Peer:
    """A server like Ollama: it answers a longer prompt as if it were one of so many tokens."""
    peer = Peer(**{"owned_by": "library", "chats": True, "context": None, "say": lambda prompt: THOUGHT, **more})

    def answer(exchange: Exchange) -> None:
        whole = peer.completion(exchange.request, peer.say(exchange.request.prompt), "stop")
        whole["usage"]["prompt_tokens"] = min(whole["usage"]["prompt_tokens"], most)
        answers(whole)(exchange)

    peer.text = answer  # type: ignore[method-assign]
    return peer


def test_a_reply_says_that_its_prompt_was_cut(model: Model) -> None:
    with cutting(500) as peer:
        one = model(peer)
        turns = [Told(SENTENCE) for _ in range(60)]
        assert ask(one, *turns[:20]).warning == ""
        assert ask(one, *turns[:50]).warning == ""
        assert "tokens went from 500 to 500" in ask(one, *turns).warning


def test_it_is_told_once_a_run_and_is_in_its_record(model: Model) -> None:
    task = load_tasks(HOUSES["apartment"])[0]
    with cutting(700) as peer:
        one = model(peer)
        for _ in range(2):
            events: list[dict[str, Any]] = []
            Episode(
                task.instruction,
                world=SymbolicWorld(task),
                model=one,
                planner=planner("react"),
                record=Recorder(events.append),
                options=TreeOptions(max_decisions=12),
            ).run()
            warnings = [event["warning"] for event in events if event.get("warning")]
            assert len(warnings) == 1
            assert "library at" in warnings[0]
