"""Servers with a dialect of their own: what ``reactree llm check`` says of each, and that a run works with each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from clients import PATIENCE, Model
from hosted_peers import (
    fastapi_lacks,
    groq_lacks,
    openai_lacks,
    openai_takes_only,
    takes_no_system_role,
)
from openai_peer import JSON_SCHEMA, Peer

from reactree_ros.background.pending import Pending
from reactree_ros.cli.llm import lesson
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.expert.policy import decide
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.llm.check import Lesson, check
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.llm.spec import MODELS
from reactree_ros.planners.spec import planner

OWN = "the system text is a message of its own"
JOINED = "the system text is part of the user's first message"
SCHEMAS_ONLY = "it obeys JSON schemas only"
NOTHING = "it obeys no constraint"
NO_CACHE = "it does not report what its prefix cache serves"


@dataclass(frozen=True)
class Server:
    """A server, what check says of it, and what it finds wrong.

    Attributes:
        peer: What it is.
        facts: What check says among other things.
        problems: How the problems begin that check names.
        settings: How the client is set.
    """

    peer: dict[str, Any]
    facts: dict[str, str]
    problems: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)


CHAT = {"prompts": "chat", "chat layout": OWN, "thinks": "no"}
ONE_SCHEMA = {"method": "one_schema", "constraints": "json_schema"}
FREE = {"method": "unconstrained", "constraints": "none"}
SERVERS = {
    "vLLM": Server({}, {**CHAT, "method": "one_request", "constraints": "choice, grammar, json_schema, regex"}),
    "vLLM without a reasoning parser": Server(
        {"thinks": "text"},
        {**CHAT, "thinks": "in its text", "method": "one_request"},
        ("it thinks in its text, but not if its text is constrained",),
    ),
    "vLLM, told not to think": Server(
        {"thinks": "reasoning"},
        {**CHAT, "told to think": "no", "method": "one_request"},
        settings={"thinking": False},
    ),
    "vLLM, told to think in vain": Server(
        {}, {**CHAT, "told to think": "yes"}, ("it does not think although thinking is on",), {"thinking": True}
    ),
    "llama.cpp with a template that knows no system role": Server(
        {"owned_by": "llamacpp", "template": takes_no_system_role},
        {**CHAT, "chat layout": JOINED, "method": "one_request", "constraints": "grammar, json_schema"},
        (NO_CACHE,),
    ),
    "an older vLLM without a chat template": Server({"chats": False}, {"prompts": "completion"}),
    "OpenAI's reasoning models behind a gateway": Server(
        {
            "owned_by": "a gateway",
            "speaks": "openai",
            "thinks": "hidden",
            "lacks": {
                "temperature": openai_takes_only("temperature", 1),
                "max_tokens": openai_lacks("max_tokens", instead="max_completion_tokens"),
            },
        },
        {
            **CHAT,
            **ONE_SCHEMA,
            "thinks": "unseen",
            "left out": "temperature",
            "renamed": "max_tokens to max_completion_tokens",
        },
        (SCHEMAS_ONLY, NO_CACHE),
    ),
    "a strict server of FastAPI that obeys nothing": Server(
        {"owned_by": "strict", "obeys": (), "lacks": {name: fastapi_lacks(name) for name in ("seed", "temperature")}},
        {**CHAT, **FREE, "left out": "temperature, seed"},
        (NOTHING, NO_CACHE),
    ),
    "Groq, with thoughts in a field": Server(
        {
            "owned_by": "Meta",
            "speaks": "openai",
            "thinks": "reasoning",
            "lacks": {name: groq_lacks(name) for name in ("structured_outputs", "grammar", "ebnf", "regex")},
        },
        {**CHAT, **ONE_SCHEMA, "thinks": "in a field of its own"},
        (SCHEMAS_ONLY, NO_CACHE),
    ),
    "a server that answers with calls of tools": Server(
        {"owned_by": "caller", "obeys": (), "calls": "tool_calls"}, {**CHAT, **FREE}, (NOTHING, NO_CACHE)
    ),
    "a hosted model that thinks though it is told not to": Server(
        {"owned_by": "system", "speaks": "openai", "obeys": {JSON_SCHEMA}, "thinks": "reasoning_content"},
        {**CHAT, **ONE_SCHEMA, "told to think": "no", "thinks": "in a field of its own"},
        (SCHEMAS_ONLY, "it thinks although thinking is off", NO_CACHE),
        {"thinking": False},
    ),
}


def as_the_expert(prompt: str) -> str:
    return decide(prompt) if "Your task is to: " in prompt else "Hello there."


@pytest.fixture(params=SERVERS.values(), ids=SERVERS)
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.param
    return found


@pytest.fixture
def peer(server: Server) -> Iterator[Peer]:
    """The server; its language model plays the expert."""
    with Peer(**{"chats": True, "say": as_the_expert, "context": 1_000_000, **server.peer}) as one:
        yield one


def carried_out(model: LanguageModel) -> EpisodeResult:
    task = load_tasks(HOUSES["apartment"])[0]
    world = SymbolicWorld(task)
    episode = Episode(task.instruction, world=world, model=model, planner=planner("reactree_wm"), task_id=task.task_id)
    return episode.run()


class Counted(ExpertModel):
    """The expert in this process, and how often it is asked."""

    asked = 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked += 1
        return super().decide(request)


@pytest.fixture(scope="module")
def by_the_expert() -> tuple[EpisodeResult, int]:
    """The run of the expert itself, and how many requests it took."""
    expert = Counted()
    return carried_out(expert), expert.asked


@pytest.fixture(scope="module")
def first_prompt() -> Lesson:
    """What is asked in a check, without the small questions."""
    openai = MODELS.get("openai")
    return replace(lesson(ExpertModel(), (openai, openai.settings()), "reactree_wm"), moments=())


def test_check_says_what_a_server_is_and_what_could_be_better(
    server: Server, peer: Peer, model: Model, first_prompt: Lesson
) -> None:
    one = model(peer, **server.settings)
    one.ready().result(PATIENCE)
    report = check(one, first_prompt)
    told = {"left out", "renamed", "told to think"}
    assert report.facts.keys() & told == server.facts.keys() & told
    assert {name: report.facts[name] for name in server.facts} == server.facts
    assert peer.base_url in report.facts["engine"]
    assert len(report.problems) == len(server.problems)
    for problem, begin in zip(report.problems, server.problems, strict=True):
        assert problem.startswith(begin)
    assert ("it thought" in report.facts) == (
        server.facts.get("thinks") == "in a field of its own"
        or (server.facts.get("thinks") == "in its text" and server.facts["method"] == "unconstrained")
    )


@pytest.mark.slow
def test_a_run_takes_the_decisions_of_the_expert_with_a_request_each(
    server: Server, peer: Peer, model: Model, by_the_expert: tuple[EpisodeResult, int]
) -> None:
    of_the_expert, requests = by_the_expert
    result = carried_out(model(peer, **server.settings))
    assert (result.gsr, result.end, result.message) == (1.0, "done", "")
    for count in ("decisions", "steps", "agent_nodes", "max_depth"):
        assert getattr(result, count) == getattr(of_the_expert, count)
    assert len(peer.asked) == requests
