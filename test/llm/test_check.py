"""Trying a language model: what it is asked, what is told of it, and that models of each habit are told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from small_questions import options, understood

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import About, Saw, Told, ToldStart
from reactree_ros.background.pending import Pending
from reactree_ros.cli.llm import lesson
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.llm.check import Lesson, Report, check
from reactree_ros.llm.port import (
    DecisionRequest,
    LanguageModel,
    NoAnswerInTime,
    PromptTooLong,
    Reply,
    ServerUnavailable,
)
from reactree_ros.llm.spec import MODELS

CHAT = {"prompts": "chat", "method": "one_request", "context in tokens": "8192"}
#: What a model says to a request.
Says = Callable[[DecisionRequest], str]


@pytest.fixture(scope="module")
def asked() -> Lesson:
    """What a model of a server is asked."""
    openai = MODELS.get("openai")
    return lesson(ExpertModel(), (openai, openai.settings()), "reactree_wm")


class Answering(LanguageModel):
    """Answers as its habits are, and keeps what it was asked.

    Args:
        says: What it says.
        seconds: How long it takes for a request, by a clock of its own.
        room: How many in-context examples fit into its context.
        status: What it is.
    """

    def __init__(
        self,
        says: Says,
        *,
        seconds: Callable[[int], float] = lambda number: 1.0,
        room: int = 99,
        status: dict[str, str] | None = None,
    ) -> None:
        self.says, self.seconds, self.room = says, seconds, room
        self.is_now = CHAT if status is None else status
        self.asked: list[DecisionRequest] = []
        self.now = 0.0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked.append(request)
        self.now += self.seconds(len(self.asked))
        start = request.turns[0]
        if isinstance(start, ToldStart) and len(start.examples) > self.room:
            return Pending.failed(PromptTooLong(100 * (len(start.examples) - self.room), 1000))
        try:
            text = self.says(request)
        except NoAnswerInTime as error:
            return Pending.failed(error)
        cut = len(text) > 4 * request.max_tokens
        return Pending.ready(
            Reply(text, "length" if cut else "stop", prompt_tokens=1200, cached_tokens=1199, output_tokens=9)
        )

    def status(self) -> dict[str, str]:
        return self.is_now


def question_in(request: DecisionRequest) -> str:
    """Return what is asked of a small situation; empty in a planner's own prompt."""
    return next((turn.text for turn in request.turns if turn.text.startswith("After this, take")), "")


def understands(request: DecisionRequest) -> str:
    """Name the skill that goes with what was seen last; think, if nothing is asked."""
    return understood(request.prompt) if question_in(request) else "Think: I look."


def names_the_first(request: DecisionRequest) -> str:
    return options(request.prompt)[0] if question_in(request) else "Think: I look."


def parrots(request: DecisionRequest) -> str:
    """Say what was seen last."""
    return next((turn.text for turn in reversed(request.turns) if isinstance(turn, Saw)), "Hello.")


def checked(model: Answering, lesson: Lesson, **given: Any) -> Report:
    return check(model, lesson, SimpleNamespace(**given), clock=lambda: model.now)


# ---------------------------------------------------------------------- what is asked


def test_the_first_prompt_is_that_of_the_planner_in_the_world_with_the_examples_that_ship(asked: Lesson) -> None:
    start, task, saw, known = asked.first
    assert isinstance(start, ToldStart)
    assert "expand behavior tree nodes" in start.system
    assert len(start.examples) > 1
    assert task == Told("Your task is to: Put 1 pudding and 1 apple on the coffee table")
    assert isinstance(saw, Saw)
    assert isinstance(known, Told)
    assert known.about is About.KNOWN
    assert isinstance(asked.may_say, DecisionGrammar)
    assert asked.may_say.control_flows


def test_of_three_skills_each_is_right_at_its_moment_and_stands_everywhere_equally_often(asked: Lesson) -> None:
    right = [moment.acts[moment.now] for moment in asked.moments]
    assert right == [
        *("pick up pudding 1", "go to coffee table 1", "put down pudding 1"),
        *("pick up apple 2", "go to coffee table 1", "put down apple 2"),
    ]
    offered = [moment.question(number)[1].skills for number, moment in enumerate(asked.moments)]
    places = Counter(skills.index(one) for skills, one in zip(offered, right, strict=True))
    assert places == {0: 2, 1: 2, 2: 2}, "whoever always names the same place is as good as guessing"


SAID = {
    "Act: {}": "6 of 6 right (guessing: 2); 6 allowed at the first try",
    "**Act:** {}\n": "6 of 6 right (guessing: 2); 6 allowed at the first try",
    "Act: {}\nAct: go to so": "0 of 6 right (guessing: 2); 0 allowed at the first try",
    "Act: fly": "0 of 6 right (guessing: 2); 0 allowed at the first try",
    "": "0 of 6 right (guessing: 2); 0 allowed at the first try",
}


def test_the_requests_are_few_share_their_beginnings_and_are_new_to_every_cache(asked: Lesson) -> None:
    model, told = Answering(understands), list[str]()
    check(model, asked, tell=told.append)
    assert told[0] == f"about {len(model.asked)} requests: two with a planner's first prompt, the others small"
    assert len(model.asked) <= 10
    _, cold, cached, *small = model.asked
    assert cold.turns == cached.turns
    starts = {request.turns[0].text for request in small}
    assert len(starts) == 1
    assert all(text.startswith("Trial ") for text in starts)
    again = Answering(understands)
    check(again, asked)
    assert again.asked[1].prompt != cold.prompt
    assert again.asked[1].prompt.partition("\n")[2] == cold.prompt.partition("\n")[2]


# ---------------------------------------------------------------------- models, told apart


def test_a_model_that_understands_has_nothing_wrong(asked: Lesson) -> None:
    report = checked(Answering(understands), asked, request_timeout=120.0)
    assert report.facts["three skills"] == "6 of 6 right (guessing: 2); 6 allowed at the first try"
    assert report.facts["the planner's first prompt"].endswith("the context has room for 6480 tokens more")
    assert report.facts["request_timeout"] == "120 s holds it easily"
    assert (report.problems, report.advice) == ([], [])


@pytest.mark.parametrize(("says", "right"), [(parrots, 0), (names_the_first, 2)])
def test_a_model_that_understands_nothing_is_as_good_as_guessing(asked: Lesson, says: Says, right: int) -> None:
    report = checked(Answering(says), asked)
    none = "none of its replies to a small question was allowed"
    assert [problem.partition(";")[0] for problem in report.problems] == ([] if right else [none])
    assert report.advice == [
        "set a larger model, or one that follows instructions: this one named the right skill of three "
        f"{right} of 6 times, as guessing might, so expect few goals"
    ]


def test_a_slow_model_needs_more_time(asked: Lesson) -> None:
    model = Answering(understands, seconds=lambda number: 290.0 if number == 2 else 3.0)
    report = checked(model, asked, request_timeout=120.0)
    assert report.facts["a decision, cold"].startswith("290.00 s, 1200 prompt tokens")
    assert report.facts["a decision, cached"].startswith("3.00 s")
    assert report.facts["request_timeout"] == "120 s is 170 s too short"
    assert report.advice == [
        "set request_timeout=600 and decision_timeout=600: the first prompt took 290 s, longer than 120 s; "
        "or a smaller max_examples, which is less to read"
    ]


def test_a_cold_prompt_that_comes_too_late_is_asked_again_a_few_times(asked: Lesson) -> None:
    late = iter([False, True, True])

    def says(request: DecisionRequest) -> str:
        if next(late, False):
            raise NoAnswerInTime("no answer within 120 s")
        return understands(request)

    told: list[str] = []
    report = check(Answering(says), asked, SimpleNamespace(request_timeout=120.0), tell=told.append)
    assert [line.partition(": ")[2] for line in told if "with more time" in line] == [
        "the planner's first prompt: no answer within 120 s; again, with more time"
    ] * 2
    assert report.advice[0].startswith("set request_timeout=240 and decision_timeout=240")
    never = Answering(lambda request: "Hello." if len(request.turns) == 1 else says_late())
    assert check(never, asked).problems == ["no decision: no answer within 120 s"]
    assert len(never.asked) == 4


@pytest.mark.parametrize(("limit", "took", "needed"), [(120.0, 130.0, 300), (600.0, 650.0, 1320), (3.0, 4.9, 60)])
@pytest.mark.parametrize("answers", [0, 1, 7])
def test_a_check_that_breaks_off_says_how_far_it_came_and_which_time_to_raise(
    asked: Lesson, answers: int, limit: float, took: float, needed: int
) -> None:
    model = Answering(lambda request: understands(request) if len(model.asked) <= answers else says_late())
    model.seconds = lambda number: took if number > answers else 0.1
    report = checked(model, asked, request_timeout=limit)
    assert report.facts["answered"].startswith(f"{answers} of about ")
    assert report.advice[0].startswith(
        f"set request_timeout={needed} and decision_timeout={needed}: there was no answer"
    )
    assert not report.is_whole
    assert min(one.patience for one in model.asked) == max(300.0, limit)


def says_late() -> str:
    raise NoAnswerInTime("no answer within 120 s")


def test_a_context_that_is_too_small_is_told_with_what_fits(asked: Lesson) -> None:
    model = Answering(understands, room=2)
    report = checked(model, asked)
    assert report.facts["the planner's first prompt"] == "1200 tokens with 2 examples; 11 more did not fit"
    assert report.advice == [
        "set the context to 3600 (llama.cpp: -c 3600, vLLM: --max-model-len 3600), or max_examples=2: the planner's "
        "first prompt is 1100 tokens too long for 1000"
    ]
    none = checked(Answering(understands, room=-1), asked)
    assert none.problems[0].startswith("no decision: the prompt is 100 tokens too long")


def test_a_context_without_room_for_what_is_done_is_told(asked: Lesson) -> None:
    report = checked(Answering(understands, status={**CHAT, "context in tokens": "2048"}), asked)
    assert report.advice == [
        "set the context to 3212, or max_examples=6: beside the first prompt there is room for 336 tokens of what is "
        "done and seen"
    ]


@pytest.mark.slow
def test_the_expert_passes_and_is_asked_nothing_but_its_own_prompt() -> None:
    expert = MODELS.get("expert")
    own = lesson(ExpertModel(), (expert, expert.settings()), "reactree_wm")
    report = check(ExpertModel(), own)
    assert (report.problems, report.advice, own.moments) == ([], [], ())
    assert report.facts["it said"].startswith("'")


def test_a_model_that_cannot_decide_is_asked_once(asked: Lesson) -> None:
    class Gone(Answering):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            super().decide(request)
            return Pending.failed(ServerUnavailable("nothing listens there"))

    model = Gone(understands)
    assert check(model, asked).problems == ["no decision: nothing listens there"]
    assert len(model.asked) == 1


def test_an_interrupt_ends_the_request_under_way(asked: Lesson) -> None:
    class Mute(Answering):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            self.last: Pending[Reply] = Pending()
            return self.last

    def interrupt(words: str) -> None:
        raise KeyboardInterrupt

    model = Mute(understands)
    with pytest.raises(KeyboardInterrupt):
        check(model, asked, show=interrupt)
    assert model.last.cancelled()
