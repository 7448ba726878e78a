"""Numbers that somebody says: however long, in whatever digits, they are read or they are not, and nothing breaks."""

from __future__ import annotations

from contextlib import suppress

import pytest
from command_line import Cli

from reactree_lab.household.question import read_question
from reactree_lab.planners.adapt import read_plan
from reactree_lab.worlds.ai2thor.wording import room_of
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.reading import Unreadable, read
from reactree_ros.errors import UserError
from reactree_ros.household.expert.goals import read_subgoal
from reactree_ros.llm.openai.answer import error_in
from reactree_ros.llm.openai.refusal import Refused

LONG = ["1" * 5000, "9" * 20, "²", "①", "٣", "0" * 5000 + "2"]


@pytest.mark.parametrize("number", LONG)
@pytest.mark.parametrize("planner", ["reactree", "react"])
def test_an_instruction_with_any_number_is_carried_out_or_given_up(cli: Cli, number: str, planner: str) -> None:
    ended = cli("run", f"Put {number} apples on the coffee table", "--planner", planner, "--json", "--max-decisions", 9)
    assert ended.json["end"] in {"done", "failure", "out_of_decisions"}, ended.json["message"]
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("number", LONG)
def test_whoever_says_it_a_number_breaks_no_reader(number: str) -> None:
    read_question(f"Which of the {number} apples, {number} or 2?")
    read_subgoal(f"find and pick up {number} of the apple and put down {number} of the apple on the table")
    for listed in (f"[1. wash, {number}. dry]", f"1. wash {number}. dry"):
        with suppress(Unreadable):
            read(f"Expand:\n- control flow: sequence\n- subgoals: {listed}", DecisionGrammar(()))
    for order in (f"Execution Order: (Step {number} AND Step 2)", ""):
        with suppress(ValueError):
            read_plan(f"Step {number}: wash\nStep 2: dry\n{order}")
    with pytest.raises(UserError):
        room_of(f"FloorPlan{number}9999")
    refused = Refused(400, {"error": f"the context length is {number}, the prompt has {number} tokens"}, "")
    assert refused.context() < 10**16
    assert refused.prompt_tokens(10, 100) < 10**16
    error_in({"code": number, "message": number})
