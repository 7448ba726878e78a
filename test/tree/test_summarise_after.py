"""Agent nodes whose text has grown long: a summary stands for its older part in the prompt, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from doubles import START, AgentNodes, Heard, ScriptedWorld, expand
from hypothesis import given
from hypothesis import strategies as st
from py_trees.common import Status

from reactree_ros.agent.control_flow import default_flows
from reactree_ros.agent.observation import Observation
from reactree_ros.agent.prompt import ContextWindow, summary_request
from reactree_ros.agent.text import approximate_tokens
from reactree_ros.agent.turns import About, Said, Told, Turn, render
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModel, PromptTooLong, Reply, ServerUnavailable
from reactree_ros.planners.spec import planner
from reactree_ros.tree.agent_node import Abilities
from reactree_ros.tree.listener import Listener
from reactree_ros.tree.options import TreeOptions

HEADER = f"Your task is to: root\n{START}\n"
TARGET = "\nTarget_domain:\n"
NEW_LINE = "\n"


class Summarising(LanguageModel):
    """Says decisions, and where it is asked for a summary, ``summary 1``, ``summary 2``, …; a token is a word."""

    def __init__(self, decisions: Sequence[str], *, settle_summaries: bool = True) -> None:
        self.decisions = list(decisions)
        self.settle_summaries = settle_summaries
        self.requests: list[DecisionRequest] = []
        self.asked = self.cancelled = 0
        self.error: Exception | None = None

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.requests.append(request)
        if not isinstance(request.may_say, FreeText):
            return Pending.ready(Reply(self.decisions.pop(0)))
        self.asked += 1
        if self.error is not None:
            return Pending.failed(self.error)
        if not self.settle_summaries:
            return Pending(on_cancel=self._count)
        return Pending.ready(Reply(f" summary {self.asked}\n"))

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def _count(self) -> None:
        self.cancelled += 1


def run_of(
    model: LanguageModel, summarise_after: int, *, options: TreeOptions | None = None, listener: Listener | None = None
) -> Episode:
    return Episode(
        "root",
        model=model,
        world=ScriptedWorld(),
        planner=AgentNodes(Abilities(default_flows(), summarise_after)),
        options=options,
        listener=listener,
    )


def thought(number: int) -> str:
    return f"Think: number {number} of them"  # six words with what follows


def own(request: DecisionRequest) -> str:
    return request.prompt.rpartition(TARGET)[2]


SIX = [*map(thought, range(1, 7)), "Act: done"]


def test_the_older_half_gives_way_to_a_summary() -> None:
    model, listener = Summarising(SIX), Heard()
    run = run_of(model, 20, listener=listener)
    result = run.run()
    texts = [own(request) for request in model.requests if TARGET in request.prompt]
    one, two, three, four, five, six = (f"{thought(number)}\nOK.\n" for number in range(1, 7))
    first, second = (f"Summary of what was done before: summary {number}\n" for number in (1, 2))
    assert texts == [
        HEADER,
        HEADER + one,
        HEADER + one + two,
        HEADER + one + two + three,
        HEADER + first + four,  # four of them were 24 tokens; two would be more than half of 20
        HEADER + first + four + five,
        HEADER + first + four + five + six,
    ]
    asked = [request.prompt for request in model.requests if TARGET not in request.prompt]
    assert asked == [f"{summary_request([Told((one + two + three).rstrip(NEW_LINE))], 'root').text}\n"]
    assert second not in texts[-1]
    # The text is whole; the summary is told, and counts as a decision.
    assert run.context.nodes[0].text == HEADER + one + two + three + four + five + six + "Act: done"
    assert listener.heard[4] == "Think: So far: summary 1"
    assert (result.status, result.decisions, result.steps) == ("success", 7, 0)


def test_a_later_summary_takes_in_the_one_before() -> None:
    model = Summarising([*map(thought, range(1, 9)), "Act: done"])
    run_of(model, 20).run()
    asked = [request.prompt for request in model.requests if TARGET not in request.prompt]
    trajectory = "Summary of what was done before: summary 1\n" + "".join(f"{thought(n)}\nOK.\n" for n in (4, 5, 6))
    assert asked[1] == f"{summary_request([Told(trajectory.rstrip(NEW_LINE))], 'root').text}\n"
    assert own(model.requests[-1]).startswith(f"{HEADER}Summary of what was done before: summary 2\n{thought(7)}\n")


def test_nothing_changes_where_it_is_off_or_never_reached() -> None:
    prompts = []
    for limit in (0, 1000):
        model = Summarising(SIX)
        run_of(model, limit).run()
        prompts.append([(request.turns, request.id) for request in model.requests])
    assert prompts[0] == prompts[1]


def test_one_long_observation_is_not_summarised_for_ever() -> None:
    model = Summarising([thought(1), thought(2), "Act: done"])
    result = run_of(model, 1).run()
    assert (result.status, result.decisions, model.asked) == ("success", 3, 1)


def test_a_limit_ends_the_node_before_a_summary() -> None:
    model = Summarising(SIX)
    run = run_of(model, 20, options=TreeOptions(max_decisions=4))
    assert run.run().end == "out_of_decisions"
    assert (model.asked, run.context.nodes[0].text.endswith("Max decisions")) == (0, True)


def test_a_summary_that_does_not_come_ends_the_node_and_names_the_error() -> None:
    model = Summarising(SIX)
    model.error = ServerUnavailable("gone")
    result = run_of(model, 20).run()
    assert (result.end, result.message) == ("model_gone", "no reply: gone")


class Narrow(Summarising):
    """Has room for so many words in a request for a summary, of those that the trajectory changes."""

    def __init__(self, decisions: Sequence[str], room: int) -> None:
        super().__init__(decisions)
        self.room = room + len(summary_request([], "root").text.split())
        self.refused = 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        words = len(request.prompt.split())
        if TARGET not in request.prompt and words > self.room:
            self.refused += 1
            return Pending.failed(PromptTooLong(words - self.room, self.room))
        return super().decide(request)


def test_where_what_is_to_be_summarised_does_not_fit_its_oldest_part_is_left_out() -> None:
    model, listener = Narrow(SIX, room=11), Heard()
    result = run_of(model, 20, listener=listener).run()
    (asked,) = [request.prompt for request in model.requests if TARGET not in request.prompt]
    trajectory = asked.rpartition("##Trajectory\n")[2].partition("\n\n##Subgoal")[0]
    assert trajectory == f"(earlier actions are left out)\n{thought(3)}\nOK."  # of three thoughts
    assert (result.status, result.decisions, model.refused) == ("success", 7, 1)
    assert listener.heard.count("Think: So far: summary 1") == 1


def test_where_nothing_of_it_fits_the_last_observation_stands_for_it_and_nothing_is_decided() -> None:
    model, listener = Narrow(["Act: open fridge 1", *SIX], room=1), Heard()
    result = run_of(model, 20, listener=listener).run()
    assert (result.status, result.decisions, model.asked) == ("success", 7, 0)
    assert own(model.requests[-1]).startswith(f"{HEADER}Summary of what was done before: You open fridge 1.\n")
    assert not any("So far" in heard for heard in listener.heard)


def test_a_summary_that_was_cut_is_kept_up_to_its_last_whole_sentence() -> None:
    class Cut(Summarising):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            reply = super().decide(request).take()
            if isinstance(request.may_say, FreeText):
                reply = replace(reply, text="I thought thrice. Then I was", finish_reason="length")
            return Pending.ready(reply)

    model = Cut(SIX)
    run_of(model, 20).run()
    assert own(model.requests[-1]).startswith(
        f"{HEADER}Summary of what was done before: I thought thrice.\n{thought(4)}"
    )


def test_a_summary_in_flight_holds_up_no_tick_and_is_cancelled_once() -> None:
    model = Summarising(SIX, settle_summaries=False)
    run = run_of(model, 20)
    while not model.asked:
        run.tick()
    run.tick()
    assert (run.tree.tip(), run.root.status, model.asked) == (run.root, Status.RUNNING, 1)
    run.interrupt()
    run.interrupt()
    assert model.cancelled == 1


def test_each_agent_node_summarises_its_own_text() -> None:
    class ByGoal(Summarising):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            self.decisions = self.decisions or ["Act: done"]
            return super().decide(request)

    model = ByGoal([thought(1), thought(2), expand("sequence", "a"), *map(thought, range(5))])
    run = run_of(model, 20)
    assert run.run().status == "success"
    (asked,) = [request.prompt for request in model.requests if TARGET not in request.prompt]
    assert "##Subgoal:\na\n" in asked.rpartition("##Trajectory")[2]
    assert "expand" not in asked.lower()


# ---------------------------------------------------------------------- where the context is short


class Short(Summarising):
    """Has a short context, and refuses what does not fit as engines do: the prompt with the longest reply."""

    def __init__(self, decisions: Sequence[str], context: int) -> None:
        super().__init__(decisions)
        self.context, self.refused = context, 0

    def count_tokens(self, text: str) -> int:
        return approximate_tokens(text)

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        excess = self.count_tokens(request.prompt) + request.max_tokens - self.context
        if excess > 0:
            self.refused += 1
            return Pending.failed(PromptTooLong(excess, self.context))
        reply = super().decide(request).take()
        if isinstance(request.may_say, FreeText):  # it says as much as it may
            sentences = " You went to the kitchen." * (request.max_tokens // 6 - 1)
            reply = replace(reply, text=f"{reply.text.strip()}.{sentences} You", finish_reason="length")
        return Pending.ready(reply)


class House(ScriptedWorld):
    """Shows as much as a house does."""

    def execute(self, skill: str) -> Pending[Observation]:
        super().execute(skill)
        things = ", ".join(f"{thing} ({len(self.executed)})" for thing in ("cabinet", "fridge", "apple", "mug"))
        return Pending.ready(Observation(f"You move to the kitchen (1). Looking around the room, you see {things}."))


def in_short(context: int, *, name: str = "react_wm", **options: Any) -> tuple[Short, EpisodeResult]:
    model = Short([*["Act: go to kitchen 1"] * 40, "Act: done"], context)
    who: dict[str, Any] = {"world": House(), "planner": planner(name), "options": TreeOptions(**options)}
    return model, Episode("root", model=model, **who).run()


@pytest.mark.parametrize("name", ["react_wm", "reactree_wm"])
@pytest.mark.parametrize("context", [512, 768, 1024, 2048])
def test_where_the_context_is_short_older_turns_are_summarised(context: int, name: str) -> None:
    model, result = in_short(context, name=name)
    assert (result.status, result.end, result.steps) == ("success", "done", 40)
    assert model.asked
    last = model.requests[-1]
    assert f"Summary of what was done before: summary {model.asked}" in last.prompt
    assert last.prompt.count("Act: go to kitchen 1") < 40
    assert last.max_tokens == min(512, context // 4)
    assert model.refused < 40  # a summary makes room for more than one decision


def test_a_summary_that_makes_room_is_no_longer_than_any_reply_may_be() -> None:
    model, result = in_short(1024, max_tokens=100)
    assert (result.end, bool(model.asked)) == ("done", True)
    assert {request.max_tokens for request in model.requests} == {100}


def test_a_context_in_which_not_even_the_task_fits_is_full() -> None:
    model, result = in_short(128)
    assert (result.end, result.decisions, model.asked) == ("context_full", 0, 0)
    assert "use a model with a longer context" in result.message


@given(st.lists(st.integers(1, 9), max_size=30), st.integers(1, 30))
def test_what_is_shown_is_the_header_the_summary_and_the_latest_turns(sizes: list[int], limit: int) -> None:
    turns: list[Turn] = [Told("head")]
    window = ContextWindow(head=1)
    for number, size in enumerate(sizes):
        turns += [Said("x"), Told(f"{'x ' * (size - 1)}{number}", About.ANSWER)]
        until = window.excess(turns, limit=limit, count=lambda one: len(one.split()))
        if until is not None:
            assert isinstance(turns[until], Said)
            assert until > window.hidden
            window.hide(until, "gist")
        shown = list(window.shown(turns))
        assert shown[0] == turns[0]
        assert shown[len(shown) - len(turns[window.hidden :]) :] == turns[window.hidden :]
        assert len(shown) == 1 + (window.hidden > 1) + len(turns) - window.hidden
        latest = turns[window.hidden :]
        assert len(render(latest).split()) <= limit or len(latest) == 2
