"""Hosted models: one form for a server, told in system text, history and constraint."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import pytest
from clients import Model, Serve, ask
from hosted_peer import LAPSES, HostedPeer
from openai_peer import Peer

from reactree_ros.agent.grammar import DecisionGrammar, Form
from reactree_ros.agent.skill import Offer, skill_of
from reactree_ros.agent.turns import About, Said, Saw, Told, ToldStart, Turn
from reactree_ros.episode import Episode
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.llm.chat import AN_EXAMPLE, OWN_TASK, ChatLayout, chat_messages, spoken_to_server
from reactree_ros.llm.forms import in_form
from reactree_ros.llm.openai.dialects import DIALECTS, dialect_of
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import TreeOptions

TASKS = (("apartment", "reactree_wm"), ("villa", "react_wm"))
METHODS = {Form.TOOLS: "tools", Form.JSON: "one_schema", Form.LINES: "unconstrained"}


@pytest.mark.parametrize("form", Form)
def test_a_hosted_model_reaches_a_goal_with_hardly_more_requests_than_decisions(form: Form, model: Model) -> None:
    peer = HostedPeer(form)
    with peer:
        one = model(peer)
        one.ready().result(20)
        assert (one.status()["method"], one.status()["form"]) == (METHODS[form], form.value)
        asked = in_vain = 0
        for house, by in TASKS:
            task = load_tasks(HOUSES[house])[0]
            world, told = SymbolicWorld(task), TreeOptions(thoughts_in_a_row=1)  # as for a model of no training
            run = Episode(task.instruction, world=world, model=one, planner=planner(by), options=told).run()
            assert (run.gsr, run.end, run.message) == (1.0, "done", "")
            asked, in_vain = asked + run.attempts, in_vain + run.refused_attempts
    assert peer.faults == []
    assert peer.number > max(LAPSES)
    sys.stdout.write(f"{form.value}: {asked} requests, {asked - in_vain} decisions\n")
    assert asked == len(peer.asked) <= 1.1 * (asked - in_vain)


# ---------------------------------------------------------------------- what is sent

GRAMMAR = DecisionGrammar(("done", "go to kitchen 1"))
SYSTEM = ToldStart(system="System.", examples=((Told("Your task is to: y"), Said("Act: done")),), rule="Rule.")
TASK, SAW = Told("Your task is to: x"), Saw("You see a cup.")
TURNS: tuple[Turn, ...] = (
    *(SYSTEM, TASK, SAW, Said("Think: I <|im_end|>"), Told("OK.", About.ANSWER), Said("Act: go to kitchen 1")),
    *(Saw("You arrive."), Said("I would go"), Told("Say it.", About.REFUSAL), Told("You hold nothing.", About.KNOWN)),
)


def sent(form: Form, **layout: bool) -> list[dict[str, Any]]:
    told = spoken_to_server(in_form(TURNS, replace(GRAMMAR, form=form)))
    return chat_messages(told, layout=ChatLayout(calls=form is Form.TOOLS, **layout))


def test_with_tools_decisions_are_calls_and_all_that_follows_one_is_its_result() -> None:
    system, first, think, ok, act, seen = sent(Form.TOOLS)
    assert system["content"].startswith(
        "System.\nEach reply is one decision and nothing else. A decision is made with "
    )
    assert system["content"].endswith("one call of the tool 'think', 'act' or 'expand'.")
    example = f'{AN_EXAMPLE}\nYour task is to: y\nYou call act with {{"skill": "done"}}\n{OWN_TASK}'
    assert first == {"role": "user", "content": f"{example}\nYour task is to: x\nYou see a cup."}
    (called,) = think["tool_calls"]
    assert (think["content"], called["function"]["name"]) == (None, "think")
    assert json.loads(called["function"]["arguments"]) == {"thought": "I < |im_end|>"}  # no marker gets through
    assert ok == {"role": "tool", "tool_call_id": called["id"], "content": "OK."}
    assert act["tool_calls"][0]["function"] == {"name": "act", "arguments": '{"skill": "go to kitchen 1"}'}
    assert (seen["role"], seen["content"]) == ("tool", "You arrive.\nSay it.\nYou hold nothing.")


def test_with_json_decisions_are_objects_also_in_examples() -> None:
    said = [json.loads(one["content"])["decision"] for one in sent(Form.JSON) if one["role"] == "assistant"]
    assert said == [{"Act": "done"}, {"Think": "I < |im_end|>"}, {"Act": "go to kitchen 1"}]


@pytest.mark.parametrize("form", Form)
def test_what_the_next_requests_share_is_marked_where_a_cache_wants_marks(form: Form) -> None:
    parts = [part for one in sent(form, marks=True) if isinstance(one["content"], list) for part in one["content"]]
    marked = [part["text"].split("\n")[-1] for part in parts if "cache_control" in part]
    assert marked == [OWN_TASK, "Say it."]
    assert parts[-1] == {"type": "text", "text": "You hold nothing."}
    assert "cache_control" not in json.dumps(sent(form))


def test_tools_and_schema_stay_the_same_while_what_is_possible_changes() -> None:
    again = replace(GRAMMAR, skills=("failure",), longest_thought=0)
    assert (again.tools(), again.one_schema()) == (GRAMMAR.tools(), GRAMMAR.one_schema())
    barred = "You have thought already, and nothing has changed since. Actions that are possible now: failure."
    assert again.possible("") == barred
    many = DecisionGrammar([f"go to room {number}" for number in range(300)]).possible("Clean room 250.")
    assert "go to room 250, " in many
    assert many.endswith(", and 100 more.")


def test_what_a_declared_skill_takes_now_is_listed() -> None:
    drive = skill_of({"name": "drive", "wording": "drive to {place} at {speed}", "parameters": DRIVES})
    grammar = DecisionGrammar((), offers=(Offer(drive, {"place": ("desk 1", "desk 2")}),))
    said = "drive to {place} at {speed} (place: desk 1 / desk 2; speed: a number from 0 to 1 by 0.1)"
    assert grammar.possible("") == f"Actions that are possible now: {said}."


DRIVES = {"place": "place", "speed": {"number": {"from": 0, "to": 1, "by": 0.1}}}
_KEY, _MARK = "prompt_cache_key", "cache_control"


@pytest.mark.parametrize(
    ("dialect", "form", "fields"),
    [("openai", Form.JSON, [_KEY]), ("openrouter", Form.TOOLS, [_MARK]), ("ollama", Form.JSON, [])],
)
def test_caching_is_asked_for_as_the_dialect_has_it(serve: Serve, dialect: str, form: Form, fields: list[str]) -> None:
    peer, one = serve(Peer(owned_by="me", chats=True, say=lambda prompt: "Act: done"), dialect=dialect)
    for turns in (TURNS[:3], TURNS):
        assert ask(one, *turns, may_say=GRAMMAR).text == "Act: done"
    bodies = [request.body for request in peer.asked]
    assert [name for name in (_KEY, _MARK) if name in json.dumps(bodies)] == fields
    assert len({body.get(_KEY) for body in bodies}) == 1
    assert all(("tools" in body) == (form is Form.TOOLS) for body in bodies)


def test_a_service_is_known_by_its_address() -> None:
    for name in ("openrouter", "openai", "anthropic"):
        assert dialect_of("auto", "", f"https://{DIALECTS[name].host}/api/v1") is DIALECTS[name]
    assert dialect_of("auto", "", "https://example.org/openrouter.ai/v1") is None
