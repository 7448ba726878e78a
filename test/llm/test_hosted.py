"""Hosted models: one form for a server, told in system text, history and constraint."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from clients import Model, Serve, ask
from hosted_peer import LAPSES, HostedPeer
from openai_peer import TOOLS, Peer

from reactree_ros.agent.grammar import DecisionGrammar, Form
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.turns import About, Said, Saw, Told, ToldStart, Turn
from reactree_ros.episode import Episode
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.llm.chat import ChatLayout, chat_messages
from reactree_ros.llm.forms import in_form
from reactree_ros.planners.spec import planner

TASKS = (("apartment", "reactree_wm"), ("villa", "react_wm"))
METHODS = {Form.TOOLS: "tools", Form.JSON: "one_schema", Form.LINES: "unconstrained"}


@pytest.mark.parametrize("form", Form)
def test_a_hosted_model_reaches_a_goal_with_hardly_more_requests_than_decisions(form: Form, model: Model) -> None:
    with HostedPeer(form) as peer:
        one = model(peer)
        one.ready().result(20)
        assert one.status()["method"] == METHODS[form]
        asked = in_vain = 0
        for house, by in TASKS:
            task = load_tasks(HOUSES[house])[0]
            run = Episode(task.instruction, world=SymbolicWorld(task), model=one, planner=planner(by)).run()
            assert (run.gsr, run.end, run.message) == (1.0, "done", "")
            asked, in_vain = asked + run.attempts, in_vain + run.refused_attempts
    assert peer.faults == []
    assert peer.number > max(LAPSES)
    sys.stdout.write(f"{form.value}: {asked} requests, {asked - in_vain} decisions\n")
    assert asked == len(peer.asked) <= 1.1 * (asked - in_vain)
