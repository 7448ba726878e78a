"""A run has limits of tokens, seconds and money, too; what is used without a reply counts."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from doubles import EVERYTHING, START, Clock, ScriptedModel, ScriptedWorld, expand, scripted_episode
from hypothesis import given
from hypothesis import strategies as st

from reactree_ros.agent.budget import Limit
from reactree_ros.agent.grammar import LONGEST_LINE, LONGEST_THOUGHT, DecisionGrammar
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.think import Think
from reactree_ros.agent.reading import Unreadable, read, read_call
from reactree_ros.background.pending import Pending
from reactree_ros.episode import LIMITED, Episode, EpisodeEnd, EpisodeResult
from reactree_ros.episode.going_on import go_on, more_than, resumed, stop_of
from reactree_ros.episode.player import replay
from reactree_ros.errors import UserError
from reactree_ros.llm.fallback import Backup, FallbackModel
from reactree_ros.llm.port import DecisionRequest, InvalidReply, LanguageModel, PromptTooLong, Reply, ServerUnavailable
from reactree_ros.planners.spec import planner
from reactree_ros.plugins.settings import read_settings
from reactree_ros.record.reader import Record
from reactree_ros.record.schema import error_from_dict, error_to_dict
from reactree_ros.record.writer import Recorder
from reactree_ros.tree.options import AS_RECORDED, Offers, RunOptions, TreeOptions
from reactree_ros.view.terminal import RESUMED


class Costly(LanguageModel):
    """Thinks of something new, for so many tokens."""

    def __init__(self, **counts: int) -> None:
        self.asked = 0
        self._counts = counts

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked += 1
        return Pending.ready(Reply(f"Think: {'so ' * self.asked}", **self._counts))


COUNTS = {"prompt_tokens": 1000, "cached_tokens": 400, "output_tokens": 50, "reasoning_tokens": 30}


def run_of(model: LanguageModel, **options: Any) -> EpisodeResult:
    return scripted_episode({}, model=model, options=TreeOptions(**options)).run()


@pytest.mark.parametrize(
    ("options", "end", "asked", "message"),
    [
        ({"max_prompt_tokens": 3500}, "out_of_tokens", 4, "4000 prompt tokens are used, 3500 are allowed"),
        ({"max_output_tokens": 100}, "out_of_tokens", 2, "100 output tokens are used, 100 are allowed"),
        ({"max_cost": 0.01, "price_input": 2.0}, "out_of_money", 5, "the run has cost 0.01, 0.01 is allowed"),
        ({"max_cost": 0.01, "price_input": 2.0, "price_cached": 0.5}, "out_of_money", 8, "the run has cost 0.0112, "),
        ({"max_cost": 0.001, "price_output": 10.0}, "out_of_money", 2, "the run has cost 0.001, "),
    ],
)
def test_a_limit_is_looked_at_before_each_request(options: dict[str, Any], end: str, asked: int, message: str) -> None:
    model = Costly(**COUNTS)
    result = run_of(model, **options)
    assert (result.end, model.asked) == (end, asked)
    assert message in result.reason


def test_tokens_that_the_model_does_not_count_are_estimated_and_that_is_said() -> None:
    result = run_of(Costly(), max_prompt_tokens=500)
    assert (result.end, result.prompt_tokens) == ("out_of_tokens", None)
    assert result.reason.startswith("about ")


def test_what_a_run_costs_is_known_where_prices_are() -> None:
    result = run_of(Costly(**COUNTS), max_decisions=2, price_input=1.0, price_cached=0.1, price_output=10.0)
    assert result.cost == pytest.approx((2 * 600 * 1.0 + 2 * 400 * 0.1 + 2 * 50 * 10.0) / 1e6)
    assert result.cost_uncached == pytest.approx((2 * 1000 * 1.0 + 2 * 50 * 10.0) / 1e6)
    assert result.verdict.headline.endswith("cost 0.00228, without the cache 0.003)")
    assert run_of(Costly(**COUNTS), max_decisions=2).cost is None
    assert run_of(Costly(), max_decisions=2, price_input=1.0).cost is None


def test_money_without_prices_is_refused() -> None:
    with pytest.raises(UserError, match="max_cost is 3 and no price is set: set price_input and price_output, too"):
        read_settings(RunOptions, {"max_cost": 3}, where="options")


class Failing(LanguageModel):
    """Fails for tokens."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        return Pending.failed(self._error)


def costing(error: Any) -> Any:
    error.took = Reply("", **COUNTS)
    return error


@pytest.mark.parametrize("error", [InvalidReply("none of them"), ServerUnavailable("gone"), PromptTooLong(5, 4096)])
def test_a_request_that_fails_counts(error: Any) -> None:
    result = run_of(Failing(costing(error)))
    assert (result.prompt_tokens, result.output_tokens) == (1000, 50)
    assert error_from_dict(error_to_dict(error)).took == error.took  # type: ignore[attr-defined]


def test_those_that_a_fallback_asked_in_vain_count() -> None:
    objecting = Costly(**COUNTS, objection="no")  # type: ignore[arg-type]
    models = [Failing(costing(ServerUnavailable("gone"))), objecting, Costly(**COUNTS)]
    reply = FallbackModel([Backup(model, "one", 10.0) for model in models]).decide(_request()).result(timeout=5)
    assert (reply.prompt_tokens, reply.output_tokens, reply.objection) == (3000, 150, "")
    only = FallbackModel([Backup(model, "one", 10.0) for model in models[:2]]).decide(_request()).result(timeout=5)
    assert (only.prompt_tokens, only.objection) == (2000, "no")


def _request() -> DecisionRequest:
    from reactree_ros.llm.port import FreeText

    return DecisionRequest((), FreeText())


def test_what_a_model_was_tried_with_counts() -> None:
    model = Costly(**COUNTS, tried_prompt_tokens=700, tried_output_tokens=3)
    result = run_of(model, max_prompt_tokens=1700)
    assert (result.end, model.asked) == ("out_of_tokens", 1)


# ---------------------------------------------------------------------- seconds


def timed(run: Episode, clock: Clock, *, seconds: float = 1.0) -> EpisodeResult:
    while not run.finished:
        run.tick()
        clock.now += seconds
        assert clock.now < 1000
    return run.result()


def hanging(of: str) -> Callable[[], tuple[ScriptedWorld, LanguageModel]]:
    def make() -> tuple[ScriptedWorld, LanguageModel]:
        world = ScriptedWorld()
        world.settle = of != "the world"
        model: LanguageModel = ScriptedModel({"root": ["Act: open fridge 1"] * 99})
        if of == "the model":
            model = Mute()
        return world, model

    return make


class Mute(LanguageModel):
    """Never answers."""

    def __init__(self) -> None:
        self.pending = Pending[Reply]()

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        return self.pending


@pytest.mark.parametrize("of", ["the world", "the model", "neither"])
def test_when_the_seconds_are_over_what_is_in_flight_is_canceled(of: str) -> None:
    clock, (world, model) = Clock(), hanging(of)()
    options = TreeOptions(max_seconds=20.0, stuck_after=0)
    run = scripted_episode({}, model=model, world=world, options=options, clock=clock)
    result = timed(run, clock)
    assert (result.end, result.reason) == ("out_of_time", "the 20 seconds are over")
    assert 20 <= clock.now <= 24
    assert not isinstance(model, Mute) or model.pending.cancelled()
    assert sum(world.cancelled.values()) == (of == "the world")


def test_a_run_that_is_paused_ends_when_its_seconds_are_over() -> None:
    clock = Clock()
    run = scripted_episode({"root": ["Think: a"] * 9}, options=TreeOptions(max_seconds=20.0), clock=clock)
    run.tick()
    run.pause()
    assert timed(run, clock).end == "out_of_time"


def test_nodes_after_the_one_that_ran_out_of_time_end_at_once() -> None:
    clock = Clock()
    script = {"root": [expand("fallback", "a", "b", "c")], "a": ["Think: a"] * 99}
    run = scripted_episode(script, options=TreeOptions(max_seconds=10.0, stuck_after=0), clock=clock)
    assert timed(run, clock).end == "out_of_time"
    assert clock.now < 20


# ---------------------------------------------------------------------- records

LIMITS: dict[str, dict[str, Any]] = {
    "out_of_tokens": {"max_prompt_tokens": 3500, "stuck_after": 0},
    "out_of_money": {"max_cost": 0.01, "price_input": 2.0, "stuck_after": 0},
    "out_of_time": {"max_seconds": 5.0, "stuck_after": 0},
    "stuck": {"stuck_after": 2},
}


@pytest.mark.parametrize("end", LIMITS)
def test_such_an_end_is_recorded_played_again_and_gone_on_with(end: str) -> None:
    events: list[dict[str, Any]] = []
    clock = Clock()
    with ScriptedWorld() as world:
        run = Episode(
            "go",
            world=world,
            model=Costly(**COUNTS),
            planner=planner("react"),
            options=TreeOptions(**LIMITS[end]),
            record=Recorder(events.append),
            clock=clock,
        )
        timed(run, clock)
        assert run.scored().end == end
    record = Record(tuple(events))
    assert replay(record).difference == ""
    assert EpisodeEnd(end) in LIMITED
    assert end in RESUMED
    more = more_than(record, {})
    limit = next(limit for limit in Limit if limit.end == end)
    doubled = [name for name in limit.options if name in LIMITS[end]]
    assert all(more[name] == 2 * LIMITS[end][name] for name in doubled)
    with pytest.raises(UserError, match="allow more than"):
        more_than(record, {doubled[0]: LIMITS[end][doubled[0]]})
    later: list[dict[str, Any]] = []
    until = stop_of(record)
    with ScriptedWorld() as world:
        given: dict[str, Any] = {"world": world, "model": Costly(**COUNTS), "write": later.append}
        again = go_on(record, until, resumed(record, {}), **given)
        before = again.context.budget.decisions
        for _ in range(6):
            again.tick()
        assert again.context.budget.decisions > before
        assert again.context.budget.prompt_tokens >= 1000 * before
        again.interrupt()


def test_each_limit_has_an_end_and_each_option_is_there() -> None:
    assert {limit.end for limit in Limit} == {end.value for end in LIMITED}
    assert {name for limit in Limit for name in limit.options} <= set(RunOptions.model_fields)


# ---------------------------------------------------------------------- thoughts


SKILLS = ("go to kitchen 1", "done")
MAY, MAY_NOT = (DecisionGrammar(SKILLS, questions=1, longest_thought=length) for length in (LONGEST_THOUGHT, 0))
THOUGHT = "Think: I need to find the apple."


# ---------------------------------------------------------------------- what may be said

#: Each way to tell a model what may be said, as a text in which a thought would show. Tools and the one schema stay as
#: they are for the prompt's cache; the last line says then that no thought may be said.
TOLD: dict[str, Callable[[DecisionGrammar], str]] = {
    "regex": lambda grammar: grammar.regex(),
    "ebnf": lambda grammar: grammar.ebnf(),
    "json schema": lambda grammar: json.dumps(grammar.json_schema()),
    "rounds": lambda grammar: str([kind.rounds(grammar) for kind in grammar.allowed]),
    "refusals": lambda grammar: grammar.expected,
}


@pytest.mark.parametrize("way", TOLD)
def test_it_is_told_nowhere(way: str) -> None:
    said = TOLD[way]
    assert re.search("think", said(MAY), re.IGNORECASE)
    assert not re.search("think|thought", said(MAY_NOT), re.IGNORECASE)
    assert all(re.search(word, said(MAY_NOT), re.IGNORECASE) for word in ("act", "ask", "expand"))


#: A thought, as models say it.
THOUGHTS = [
    THOUGHT,
    "**Thought:** I need to find the apple.",
    "Think: go to kitchen 1",
    "Think: I look.\nThink: I look.\nThink: I look.",
    '{"decision": {"Think": "I need to find the apple."}}',
    '{"thought": "I need to find the apple."}',
]


@pytest.mark.parametrize("text", THOUGHTS)
def test_alone_it_is_refused_with_what_may_be_said(text: str) -> None:
    assert isinstance(read(text, MAY)[0].decision, Think)
    with pytest.raises(Unreadable, match=r"^You have thought already, .+ since\. A decision starts"):
        read(text, MAY_NOT)


def test_as_the_call_of_a_tool_it_is_refused() -> None:
    with pytest.raises(Unreadable, match="You have thought already"):
        read_call([("think", '{"thought": "I look."}')], MAY_NOT)


def test_before_a_decision_it_is_left_out() -> None:
    text = f"{THOUGHT}\nAct: go to kitchen 1"
    assert [one.decision for one in read(text, MAY)] == [Think(THOUGHT[7:]), Act("go to kitchen 1")]
    assert [one.decision for one in read(text, MAY_NOT)] == [Act("go to kitchen 1")]
    with pytest.raises(Unreadable, match="was cut"):
        read(f"{THOUGHT}\nAct: go to kit", MAY_NOT, cut=True)


@given(st.integers(1, 2 * LONGEST_THOUGHT))
def test_it_is_no_longer_than_it_may_be(length: int) -> None:
    assert bool(re.fullmatch(MAY.regex(), f"Think: {'x' * length}")) == (length <= LONGEST_THOUGHT)
    assert re.fullmatch(MAY.regex(), f"Expand:\n- control flow: sequence\n- subgoals: {'x' * length}")
    assert f"[^\\n]{{1,{LONGEST_THOUGHT}}}" in MAY.ebnf()


# ---------------------------------------------------------------------- when it may be said


class Broods(LanguageModel):
    """Has thoughts for as long as what it is held to lets it, and then does the first thing that it may."""

    def __init__(self, thoughts: Iterator[str]) -> None:
        self.thoughts = thoughts
        self.requests: list[DecisionRequest] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.requests.append(request)
        may_say, thought = request.may_say, next(self.thoughts)
        assert isinstance(may_say, DecisionGrammar)
        held = re.fullmatch(may_say.regex(), thought)
        return Pending.ready(Reply(thought if held else f"Act: {may_say.skills[-1]}"))


class Fridge(ScriptedWorld):
    """A world in which all that can be done is to open the fridge."""

    def __init__(self) -> None:
        super().__init__(skills=["open fridge 1"])


def said_by(thoughts: Iterator[str], *, decisions: int = 16, **options: Any) -> str:
    """What a model that broods says, as one letter for each decision."""
    model = Broods(thoughts)
    given = {"max_decisions": decisions, "stuck_after": 0, "offers": Offers.ALL} | options
    abilities = replace(EVERYTHING, break_rounds=False)  # the fridge is opened again and again
    run = scripted_episode({}, model=model, world=Fridge(), options=TreeOptions(**given), abilities=abilities)
    assert run.run().decisions == decisions
    return "".join(turn.text[0] for turn in run.context.nodes[0].turns if turn.text[:6] in ("Think:", "Act: o"))


def same() -> Iterator[str]:
    return itertools.repeat(THOUGHT)


def new() -> Iterator[str]:
    return (f"Think: {'so ' * number}" for number in itertools.count(1))


@pytest.mark.parametrize(
    ("thoughts", "most", "said"),
    [
        (same, 0, "TTTTTTTTTTTTTTTT"),  # as it was with a real model
        (same, 1, "TATAAAAAAAAAAAAA"),  # what came again does not come a third time
        (same, 2, "TTAAAAAAAAAAAAAA"),
        (same, 5, "TTAAAAAAAAAAAAAA"),
        (new, 0, "TTTTTTTTTTTTTTTT"),
        (new, 1, "TATATATATATATATA"),
        (new, 3, "TTTATTTATTTATTTA"),
    ],
)
def test_after_so_many_in_a_row_or_the_same_again_something_else_is_said(
    thoughts: Callable[[], Iterator[str]], most: int, said: str
) -> None:
    assert said_by(thoughts(), thoughts_in_a_row=most) == said


def may_think(request: DecisionRequest) -> bool:
    assert isinstance(request.may_say, DecisionGrammar)
    return request.may_say.thinks


def test_what_a_person_says_may_be_thought_about() -> None:
    model, options = Broods(new()), TreeOptions(max_decisions=5, thoughts_in_a_row=1)
    run = scripted_episode({}, model=model, options=options)
    while not model.requests:
        run.tick()
    run.tick()  # the first thought is taken
    run.hear("It is the red one.")
    run.run()
    heard = next(number for number, one in enumerate(model.requests) if "It is the red one." in one.prompt)
    assert may_think(model.requests[heard])


def test_a_reply_that_is_not_held_is_told_so_and_counts_as_refused() -> None:
    class Free(LanguageModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            return Pending.ready(Reply(THOUGHT))

    run = scripted_episode({}, model=Free(), options=TreeOptions(thoughts_in_a_row=1))
    result = run.run()
    assert (result.end, result.decisions) == ("refused", 4)  # a thought, and the same reply three times
    assert "You have thought already" in result.reason


# ---------------------------------------------------------------------- what stays as it was


@pytest.mark.parametrize("options", [AS_RECORDED, TreeOptions()], ids=["as recorded", "trained"])
def test_recordings_and_trained_models_have_the_grammar_that_they_had(options: TreeOptions) -> None:
    model = Broods(itertools.chain([f"Think: {'x' * LONGEST_LINE}"], itertools.repeat(THOUGHT)))
    limited = options.model_copy(update={"max_decisions": 16})
    scripted_episode({}, model=model, options=limited, abilities=EVERYTHING).run()
    may_say = {request.may_say.regex() for request in model.requests if isinstance(request.may_say, DecisionGrammar)}
    assert len(model.requests) >= 12
    (regex,) = may_say
    assert regex.startswith(f"(?:Think: [^\\n]{{1,{LONGEST_LINE}}}|Act: ")
    assert START in model.requests[0].prompt
