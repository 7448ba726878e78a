"""Trying a language model: what it is asked, what is told of it, and that models of each habit are told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import pytest
from clients import PATIENCE, Model, ask, clients
from openai_peer import Peer, says
from small_questions import options, understood

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import About, Saw, Told, ToldStart
from reactree_ros.background.pending import Pending
from reactree_ros.episode.lesson import lesson
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.llm.check import Given, Lesson, Report, check
from reactree_ros.llm.check.findings import chance
from reactree_ros.llm.check.questions import Question, which_is_nearer
from reactree_ros.llm.decoding import Method
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
FREE = {**CHAT, "method": "unconstrained"}
#: What a model says to a request.
Says = Callable[[DecisionRequest], str]


@pytest.fixture(scope="module")
def asked() -> Lesson:
    """What a model of a server is asked."""
    openai = MODELS.get("openai")
    return lesson(ExpertModel(), (openai, openai.settings()), "reactree_wm")


class Answering(LanguageModel):
    """Answers as its habits are, and keeps what it was asked and what it is to remember.

    Args:
        says: What it says.
        seconds: How long it takes for a request, by a clock of its own.
        room: How many in-context examples fit into its context.
        remembers: Whether it remembers how it is asked best.
        status: What it is.
    """

    def __init__(
        self,
        says: Says,
        *,
        seconds: Callable[[int], float] = lambda number: 1.0,
        room: int = 99,
        remembers: bool = True,
        status: dict[str, str] | None = None,
    ) -> None:
        self.says, self.seconds, self.room, self.remembers = says, seconds, room, remembers
        self.is_now = CHAT if status is None else status
        self.asked: list[DecisionRequest] = []
        self.found: dict[str, Any] = {}
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
        return Pending.of(
            Reply(text, "length" if cut else "stop", prompt_tokens=1200, cached_tokens=1199, output_tokens=9)
        )

    def learn(self, **found: Any) -> Pending[bool]:
        self.found = found
        return Pending.of(self.remembers)

    def status(self) -> dict[str, str]:
        method = self.found.get("method")
        return {**self.is_now, **({} if method is None else {"method": method.value})}


def is_held(request: DecisionRequest) -> bool:
    return isinstance(request.may_say, DecisionGrammar)


def question_in(request: DecisionRequest) -> str:
    """Return what is asked of a small situation; empty in a planner's own prompt."""
    return next((turn.text for turn in request.turns if turn.text.startswith("After this, say")), "")


def is_refused(request: DecisionRequest) -> bool:
    last = request.turns[-1]
    return isinstance(last, Told) and last.about is About.REFUSAL


def understands(request: DecisionRequest) -> str:
    """Name the skill that goes with what was seen last; think, or say another skill, if that is asked for."""
    if is_refused(request):
        return f"Act: {request.turns[-1].text.partition('are: ')[2].partition(',')[0]}"
    if "one of these" not in question_in(request):
        return "Think: I look."
    return understood(request.prompt)


def parrots(request: DecisionRequest) -> str:
    """Say what was seen last; held to three skills, the first."""
    if is_held(request) and question_in(request):
        return options(request.prompt)[0]
    return next((turn.text for turn in reversed(request.turns) if isinstance(turn, Saw)), "Hello.")


def never_ends(request: DecisionRequest) -> str:
    said = understands(request)
    return f"{said} And on." + " And on." * 200 if said.startswith("Think") else said


def ignores_refusals(request: DecisionRequest) -> str:
    return request.turns[-2].text if is_refused(request) else understands(request)


def understands_text_only(request: DecisionRequest) -> str:
    return parrots(request) if isinstance(request.turns[0], ToldStart) else understands(request)


def understands_if_free(request: DecisionRequest) -> str:
    return parrots(request) if is_held(request) else understands(request)


def checked(model: Answering, lesson: Lesson, **given: Any) -> Report:
    return check(model, lesson, Given(**given), clock=lambda: model.now)


def scores(report: Report) -> dict[str, str]:
    begin = "three skills, "
    return {name.removeprefix(begin): said for name, said in report.facts.items() if name.startswith(begin)}


# ---------------------------------------------------------------------- what is asked


def test_the_first_prompt_is_that_of_the_planner_in_the_world_with_the_examples_that_ship(asked: Lesson) -> None:
    start, task, saw = asked.first
    assert isinstance(start, ToldStart)
    assert "expand behavior tree nodes" in start.system
    assert len(start.examples) > 1
    assert task == Told("Your task is to: Put 1 pudding and 1 apple on the coffee table")
    assert isinstance(saw, Saw)
    assert isinstance(asked.may_say, DecisionGrammar)
    assert asked.may_say.control_flows


def test_another_planner_has_another_prompt() -> None:
    openai = MODELS.get("openai")
    start = lesson(ExpertModel(), (openai, openai.settings()), "react").first[0]
    assert isinstance(start, ToldStart)
    assert "Expand" not in start.system


def test_of_three_skills_each_is_right_at_its_moment_and_stands_everywhere_equally_often(asked: Lesson) -> None:
    questions = list(which_is_nearer(asked.moments))
    right = [question.right for question in questions]
    assert right == [
        *("pick up pudding 1", "go to coffee table 1", "put down pudding 1"),
        *("pick up apple 2", "go to coffee table 1", "put down apple 2"),
    ]
    places = Counter(question.grammar.skills.index(question.right) for question in questions)
    assert places == {0: 2, 1: 2, 2: 2}, "whoever always names the same place is as good as guessing"
    assert sum(question.mark(f"Act: {question.grammar.skills[0]}", cut=False).right for question in questions) == 2


def test_a_skill_may_be_done_at_its_moment(asked: Lesson) -> None:
    for moment in asked.moments:
        assert moment.acts[moment.now] in moment.may_say.skills


@pytest.mark.parametrize(
    ("said", "readable", "allowed", "right"),
    [
        ("Act: go to bed 1", True, True, True),
        ("**Act:** go to bed 1\n", True, True, True),
        ("Act: go to sofa 1", True, True, False),
        ("Act: fly", True, False, False),
        ("Think: I would go to bed.", True, False, False),
        ("You see bed (1).", False, False, False),
        ("", False, False, False),
    ],
)
def test_a_reply_is_read_as_in_a_run(said: str, readable: bool, allowed: bool, right: bool) -> None:
    grammar = DecisionGrammar(("go to bed 1", "go to sofa 1"), (), longest_thought=0)
    mark = Question((), grammar, right="go to bed 1").mark(said, cut=False)
    assert (mark.readable, mark.allowed, mark.right) == (readable, allowed, right)


def test_what_comes_after_a_decision_does_not_count() -> None:
    grammar = DecisionGrammar(("go to bed 1", "go to sofa 1"), (), longest_thought=0)
    question = Question((), grammar, right="go to bed 1")
    assert question.mark("Act: go to bed 1\nAct: go to so", cut=True).right
    assert not question.mark("Act: go to be", cut=True).readable


def test_the_requests_are_few_share_their_beginnings_and_are_new_to_every_cache(asked: Lesson) -> None:
    model, told = Answering(understands), list[str]()
    check(model, asked, tell=told.append)
    assert told[0] == f"about {len(model.asked)} requests: two with a planner's first prompt, the others small"
    assert len(model.asked) <= 40
    _, cold, cached, *small = model.asked
    assert cold.turns == cached.turns
    starts = Counter(request.turns[0].text for request in small)
    assert len(starts) == 1, "both layouts have the same text"
    assert all(text.startswith("Trial ") for text in starts)
    again = Answering(understands)
    check(again, asked)
    assert again.asked[1].prompt != cold.prompt
    assert again.asked[1].prompt.partition("\n")[2] == cold.prompt.partition("\n")[2]


# ---------------------------------------------------------------------- models, told apart


def test_a_model_that_understands_has_nothing_wrong(asked: Lesson) -> None:
    model = Answering(understands)
    report = checked(model, asked, request_timeout=120.0)
    all_right = "6 of 6 right (guessing: 2); 6 readable, 6 allowed"
    assert scores(report) == dict.fromkeys(
        [
            *("as turns, free", "as text, free"),
            "as turns, held",
        ],
        all_right,
    )
    assert report.facts["a thought ends by itself"] == "2 of 2 within 300 characters"
    assert report.facts["a refusal is followed"] == "2 of 2 times"
    assert report.facts["the planner's first prompt"].endswith("the context has room for 6480 tokens more")
    assert report.facts["request_timeout"] == "120 s holds it easily"
    assert (report.problems, report.advice) == ([], [])
    assert model.found == {"examples": "turns", "method": None}
    assert report.facts["remembered"] == "examples=turns; `reactree llm forget` forgets it"


def test_a_model_that_parrots_what_it_sees_is_as_good_as_guessing(asked: Lesson) -> None:
    report = checked(Answering(parrots), asked)
    assert scores(report) == {
        "as turns, free": "0 of 6 right (guessing: 2); 0 readable, 0 allowed",
        "as text, free": "0 of 6 right (guessing: 2); 0 readable, 0 allowed",
        "as turns, held": "2 of 6 right (guessing: 2); 6 readable, 6 allowed",
    }
    assert report.problems == []
    assert report.advice == [
        "set a larger model, or one that follows instructions: this one named the right skill of three 2 of 6 times, "
        "as guessing might, so expect few goals"
    ]


def test_a_model_that_says_nothing_allowed_is_named(asked: Lesson) -> None:
    report = checked(Answering(parrots, status=FREE), asked)
    assert any(problem.startswith("none of its replies to a small question was allowed") for problem in report.problems)


def test_a_thought_that_does_not_end_is_bounded_where_no_grammar_bounds_it(asked: Lesson) -> None:
    free = checked(Answering(never_ends, status=FREE), asked)
    held = checked(Answering(never_ends), asked)
    for report in (free, held):
        assert report.facts["a thought ends by itself"] == "0 of 2 within 300 characters"
    assert [one.partition(":")[0] for one in free.advice] == ["set max_tokens=128"]
    assert held.advice == []


def test_a_model_that_ignores_refusals_is_named_where_no_grammar_holds_it(asked: Lesson) -> None:
    free = checked(Answering(ignores_refusals, status=FREE), asked)
    held = checked(Answering(ignores_refusals), asked)
    for report in (free, held):
        assert report.facts["a refusal is followed"] == "0 of 2 times"
    named = "after a refusal it says nothing else that is allowed, so nodes may end as refused"
    assert (named in free.problems, named in held.problems) == (True, False)


def test_the_layout_that_is_understood_is_remembered_or_is_to_be_set(asked: Lesson) -> None:
    model = Answering(understands_text_only)
    report = checked(model, asked)
    assert model.found == {"examples": "text", "method": None}
    assert report.facts["remembered"].startswith("examples=text;")
    assert report.advice == []
    forgetful = checked(Answering(understands_text_only, remembers=False), asked)
    assert forgetful.advice == ["set examples=text: 6 replies were allowed, with examples as turns 0"]


def test_a_grammar_that_changes_what_is_meant_comes_after_a_free_reply(asked: Lesson) -> None:
    model = Answering(understands_if_free)
    assert "method=free_first" in checked(model, asked).facts["remembered"]
    assert model.found == {"examples": "turns", "method": Method.FREE_FIRST}
    forgetful = checked(Answering(understands_if_free, remembers=False), asked)
    assert forgetful.advice == [
        "set method=free_first: free replies were right 6 times, those held to a grammar 2 times"
    ]


def test_what_an_earlier_check_has_found_does_not_decide_the_next_one(asked: Lesson) -> None:
    model = Answering(understands)
    model.found = {"examples": "text", "method": Method.FREE_FIRST}
    assert "as turns, held" in scores(checked(model, asked))
    assert model.found == {"examples": "turns", "method": None}


@pytest.mark.parametrize("layout", ["turns", "text"])
def test_what_the_user_has_set_is_not_compared(asked: Lesson, layout: Literal["turns", "text"]) -> None:
    model = Answering(understands_if_free, remembers=False)
    report = checked(model, asked, examples=layout, method=Method.ONE_REQUEST)
    assert set(scores(report)) == {f"as {layout}, {how}" for how in ("free", "held")}
    assert model.found == {"examples": None, "method": None}
    assert not any("=" in one for one in report.advice), "what is set is not to be set otherwise"


def test_a_base_model_has_its_examples_as_text(asked: Lesson) -> None:
    model = Answering(understands_text_only, status={**CHAT, "prompts": "completion"})
    assert {name.partition(",")[0] for name in scores(checked(model, asked))} == {"as text"}
    assert model.found == {"examples": None, "method": None}


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


def test_a_model_that_is_always_slow_is_asked_half_as_much(asked: Lesson) -> None:
    model = Answering(understands, seconds=lambda number: 20.0)
    assert set(scores(checked(model, asked)).values()) == {"3 of 3 right (guessing: 1); 3 readable, 3 allowed"}
    assert len(model.asked) == 3 + 3 * 3 + 2


def test_a_cold_prompt_that_comes_too_late_is_asked_again_a_few_times(asked: Lesson) -> None:
    late = iter([False, True, True])

    def says(request: DecisionRequest) -> str:
        if next(late, False):
            raise NoAnswerInTime("no answer within 120 s")
        return understands(request)

    told: list[str] = []
    report = check(Answering(says), asked, Given(request_timeout=120.0), tell=told.append)
    assert [line.partition(": ")[2] for line in told if "with more time" in line] == [
        "the planner's first prompt: no answer within 120 s; again, with more time"
    ] * 2
    assert report.advice[0].startswith("set request_timeout=240 and decision_timeout=240")
    never = Answering(lambda request: understands(request) if len(request.turns) == 1 else says_late())
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


def test_each_line_says_how_far_the_check_is(asked: Lesson) -> None:
    told, shown = list[str](), set[str]()
    model = Answering(understands)
    assert check(model, asked, tell=told.append, show=shown.add).is_whole
    last = len(model.asked)
    numbers = [int(line.partition(" of ")[0]) for line in told[1:]]
    assert (numbers[-1], numbers) == (last, sorted(numbers))
    assert all(line.partition(" of ")[2].startswith(f"{last}: ") for line in told[1:])


def says_late() -> str:
    raise NoAnswerInTime("no answer within 120 s")


def test_a_context_that_is_too_small_is_told_with_what_fits(asked: Lesson) -> None:
    model = Answering(understands, room=2)
    report = checked(model, asked)
    assert report.facts["the planner's first prompt"] == "1200 tokens with 2 examples; 2 more did not fit"
    assert report.advice == [
        "set the context to 2700 (llama.cpp: -c 2700, vLLM: --max-model-len 2700), or max_examples=2: the planner's "
        "first prompt is 200 tokens too long for 1000"
    ]
    none = checked(Answering(understands, room=-1), asked)
    assert none.problems[0].startswith("no decision: the prompt is 100 tokens too long")


def test_a_context_without_room_for_what_is_done_is_told(asked: Lesson) -> None:
    report = checked(Answering(understands, status={**CHAT, "context in tokens": "2048"}), asked)
    assert report.advice == [
        "set the context to 3212, or max_examples=2: beside the first prompt there is room for 336 tokens of what is "
        "done and seen"
    ]


def test_guessing_is_told_from_knowing() -> None:
    assert chance(0, 6) == 1.0
    assert chance(6, 6) == pytest.approx(1 / 729)
    assert chance(2, 6) > 0.6


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


# ---------------------------------------------------------------------- what is remembered of a server


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with clients() as make:
        yield make


def sent(peer: Peer, one: LanguageModel) -> tuple[int, bool]:
    """Return how many messages a request with an example has, and whether the first one is held to anything."""
    from reactree_ros.agent.example import Example
    from reactree_ros.agent.prompt import start_turn

    example = Example.of_text("Your task is to: go\nYou are in the house\nAct: go to kitchen 1\nYou go.\nAct: done")
    before = len(peer.asked)
    ask(one, start_turn("Be a robot.", [example]), "Your task is to: go")
    body = peer.asked[before].body
    return len(body["messages"]), "structured_outputs" in body


AS_TURNS_HELD, AS_TEXT_FREE = (6, True), (2, False)


def test_how_a_model_is_asked_best_holds_when_it_is_opened_again(model: Model) -> None:
    with Peer(chats=True, say=lambda prompt: "Act: go to kitchen 1") as peer:
        one = model(peer)
        assert sent(peer, one) == AS_TURNS_HELD
        assert one.learn(examples="text", method=Method.FREE_FIRST).result(PATIENCE)
        assert sent(peer, one) == AS_TEXT_FREE
        assert sent(peer, model(peer)) == AS_TEXT_FREE
        assert sent(peer, model(peer, examples="turns", method="one_request")) == AS_TURNS_HELD, "settings outrank it"
        one = model(peer)
        assert sent(peer, one) == AS_TEXT_FREE
        one.learn(examples=None, method=None).result(PATIENCE)
        assert sent(peer, model(peer)) == AS_TURNS_HELD
        assert not model(peer, remember=False).learn(examples="text").result(PATIENCE)


def test_a_free_reply_that_is_refused_says_nothing_against_what_is_remembered(model: Model) -> None:
    with Peer(chats=True, say=lambda prompt: "Act: go to kitchen 1") as peer:
        one = model(peer)
        ask(one)
        one.learn(method=Method.FREE_FIRST).result(PATIENCE)
        again = model(peer)
        peer.script.append(says("I would go."))
        assert len(ask(again).attempts) == 2
        assert "what it can do" in again.status(), "it is still remembered"
        assert again.status()["method"] == "free_first"
