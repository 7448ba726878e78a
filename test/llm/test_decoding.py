"""How a decision is got out of an engine: what is asked, what is taken, what is asked for again."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.grammar import DecisionGrammar, parse_decision
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.kinds.think import Think
from reactree_ros.agent.text import LONGEST_ERROR
from reactree_ros.agent.turns import About, Said, Told
from reactree_ros.llm.decoding import Method, decode, method_for
from reactree_ros.llm.engine import ConstraintKind, Engine, Generated, Generation, ToolCall
from reactree_ros.llm.port import (
    Choice,
    DecisionRequest,
    FreeText,
    InvalidReply,
    LanguageModelError,
    PromptTooLong,
    Reply,
    RequestRejected,
)
from reactree_ros.tree.flows import SequenceFlow

GRAMMAR, REGEX, JSON_SCHEMA, CHOICE, TOOLS = ConstraintKind
SKILLS = ("done", "failure", "go to kitchen 1", "go to kitchen 12")
ALLOWED = DecisionGrammar(SKILLS)
TASK = Told("Your task is to: x")
PROMPT = f"{TASK.text}\n"
#: How `fly` is refused, to which nothing is near.
NO_FLY = "'fly' is not among the skills that are available now. Some that are: go to kitchen 1, go to kitchen 12."
EXPANSION = "Expand:\n- control flow: sequence\n- subgoals: find it, and bring it"

Line = str | tuple[str, str] | Generated


class ScriptedEngine(Engine):
    """Says what a script says, as ``text`` or as ``(text, finish reason)``, whatever it is held to.

    Its tokens are words, where it counts.
    """

    name = "a script"

    def __init__(
        self,
        *script: Line | Exception,
        obeys: Iterable[ConstraintKind] = (GRAMMAR,),
        context: int | None = None,
        chat: bool | None = None,
    ) -> None:
        self.script = list(script)
        self.chat = chat
        self.constraints = frozenset(obeys)
        self.context = context
        self.asked: list[Generation] = []
        self.counts: list[tuple[int | None, int | None, int | None]] = []

    async def open(self) -> None:
        """Nothing to open."""

    async def generate(self, generation: Generation) -> Generated:
        self.asked.append(generation)
        said = self.script.pop(0)
        if isinstance(said, Exception):
            raise said
        if isinstance(said, Generated):
            return said
        text, finish = said if isinstance(said, tuple) else (said, "stop")
        return Generated(text, finish, *(self.counts.pop(0) if self.counts else (10, 5, 2)))

    def count_tokens(self, text: str) -> int | None:
        return len(text.split())


def get(
    engine: Engine, may_say: Any = ALLOWED, *, method: Method | None = None, retries: int = 3, **more: Any
) -> Reply:
    request = DecisionRequest((TASK,), may_say, **more)
    return asyncio.run(decode(engine, request, method=method, retries=retries))


# ---------------------------------------------------------------------- one request


@pytest.mark.parametrize(
    ("obeys", "kind", "value"),
    [
        ({GRAMMAR, REGEX, JSON_SCHEMA, CHOICE}, REGEX, ALLOWED.regex()),
        ({GRAMMAR, JSON_SCHEMA, CHOICE}, GRAMMAR, ALLOWED.ebnf()),
        ({JSON_SCHEMA, CHOICE}, JSON_SCHEMA, ALLOWED.one_schema()),
    ],
)
def test_the_whole_decision_is_one_request_with_the_best_constraint(
    obeys: set[ConstraintKind], kind: ConstraintKind, value: Any
) -> None:
    text = json.dumps({"decision": {"Act": "done"}}) if kind is JSON_SCHEMA else "Act: done\n"
    engine = ScriptedEngine(text, obeys=obeys)
    reply = get(engine, temperature=0.7, seed=3, id="0.1", max_tokens=100)
    assert reply.said == (Said("Act: done", Act("done")),)
    assert (reply.text, reply.finish_reason, reply.answered_by) == ("Act: done", "stop", "a script")
    (asked,) = engine.asked
    assert asked.constraint is not None
    assert (asked.constraint.kind, asked.constraint.value) == (kind, value)
    assert (asked.turns, asked.begun, asked.stops) == ((TASK,), "", ())
    assert (asked.max_tokens, asked.temperature, asked.seed, asked.id) == (100, 0.7, 3, "0.1")


@pytest.mark.parametrize("method", [None, Method.ONE_REQUEST])
@pytest.mark.parametrize(
    ("said", "decision", "text"),
    [
        ({"Think": "two\nlines "}, Think("two lines"), "Think: two lines"),
        ({"Act": "go to kitchen 12"}, Act("go to kitchen 12"), "Act: go to kitchen 12"),
        (
            {"Expand": {"control_flow": "sequence", "subgoals": ["find it, the red one", "bring it"]}},
            Expand(SequenceFlow(), ("find it, the red one", "bring it")),
            "Expand:\n- control flow: sequence\n- subgoals: find it, the red one; bring it;",
        ),
    ],
)
def test_a_reply_in_json_or_by_a_tool_is_the_decision_as_data_and_in_words(
    said: Any, decision: Decision, text: str, method: Method | None
) -> None:
    raw = json.dumps({"decision": said})
    reply = get(ScriptedEngine(raw, obeys=[JSON_SCHEMA]), method=method)
    assert (reply.text, reply.said) == (text, (Said(text, decision),))
    ((name, given),) = said.items()
    given = given if isinstance(given, dict) else {decision.arguments()[0]: given}
    call = Generated("", "stop", calls=(ToolCall(name.lower(), json.dumps(given)),))
    reply = get(ScriptedEngine(call, obeys=[TOOLS]))
    assert (reply.text, reply.said) == (text, (Said(text, decision),))


@pytest.mark.parametrize(
    ("obeys", "method"),
    [
        ({GRAMMAR}, Method.ONE_REQUEST),
        ({REGEX, CHOICE}, Method.ONE_REQUEST),
        ({JSON_SCHEMA}, Method.ONE_SCHEMA),
        ({JSON_SCHEMA, CHOICE}, Method.ONE_SCHEMA),
        ({JSON_SCHEMA, GRAMMAR}, Method.ONE_REQUEST),
        ({CHOICE}, Method.ROUNDS),
        ({TOOLS, CHOICE}, Method.TOOLS),
        ({TOOLS, JSON_SCHEMA}, Method.ONE_SCHEMA),
        ({TOOLS, GRAMMAR}, Method.ONE_REQUEST),
        (set(), Method.UNCONSTRAINED),
    ],
)
def test_the_best_method_is_the_one_with_the_fewest_requests(obeys: set[ConstraintKind], method: Method) -> None:
    assert method_for(frozenset(obeys)) is method


@pytest.mark.parametrize(
    ("method", "obeys"),
    [(Method.ONE_REQUEST, CHOICE), (Method.ROUNDS, JSON_SCHEMA), (Method.ONE_SCHEMA, GRAMMAR), (Method.TOOLS, CHOICE)],
)
def test_a_method_that_the_engine_cannot_do_is_refused_unasked(method: Method, obeys: ConstraintKind) -> None:
    engine = ScriptedEngine(obeys=[obeys])
    with pytest.raises(RequestRejected, match=f"a script obeys none of .*'{method.value}' needs one"):
        get(engine, method=method)
    assert engine.asked == []


# ---------------------------------------------------------------------- what is asked for again


def test_a_skill_that_is_not_available_is_asked_for_again_with_the_reason() -> None:
    engine = ScriptedEngine("Think: a", "Act: fly\n", "Act: done")
    assert get(engine).text == "Think: a"
    assert get(engine).text == "Act: done"
    again = engine.asked[-1]
    assert again.prompt == f"{PROMPT}Act: fly\n{NO_FLY}\n"
    objection = Told(NO_FLY, About.REFUSAL)
    assert again.turns == (TASK, Said("Act: fly"), objection)


REFUSED: dict[str, tuple[Line, str]] = {
    "nothing": ("", "starts with 'Think: '"),
    "no decision": ("I would go", "not with 'I would go'"),
    "no thought": ("Think: ", "Nothing follows 'Think:'"),
    "two acts": ("Act: done\nAct: failure", "Say one decision at a time; 'failure' is said as well."),
    "another skill": ("Act: go to kitchen 7", "The nearest that are: go to kitchen 1, go to kitchen 12."),
    "no subgoals": ("Expand:\n- control flow: sequence\n- subgoals: , ", "needs at least one subgoal"),
    "a cut list": (("Expand:\n- control flow: sequence\n- subgoals: find the ju", "length"), "subgoals was cut"),
    "a cut expansion": (("Expand:\n- control flow: seq", "length"), "followed by two lines"),
    "a cut skill": (("Act: go to kitchen 1", "length"), "'go to kitchen 1' was cut"),
    "half a skill": (("Act: go to kitch", "length"), "'go to kitch' was cut"),
    "cut before a decision": (("I look at the", "length"), "cut before it came to a decision"),
}


@pytest.mark.parametrize(("said", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_may_not_be_said_is_asked_for_again_and_comes_with_the_objection_in_the_end(
    said: Line, reason: str
) -> None:
    engine = ScriptedEngine(said, "Act: done")
    reply = get(engine)
    assert (reply.text, reply.objection) == ("Act: done", "")
    text = said if isinstance(said, str) else said[0]
    assert engine.asked[1].prompt.startswith(f"{PROMPT}{text}\n")
    assert reason in engine.asked[1].prompt
    engine = ScriptedEngine(*[said] * 3)
    reply = get(engine, retries=2)
    assert reply.text == text
    assert reason in reply.objection
    assert (len(engine.asked), reply.prompt_tokens) == (3, 30)


def test_without_retries_it_is_asked_once() -> None:
    assert get(ScriptedEngine("Act: fly"), retries=0).objection == NO_FLY
    with pytest.raises(
        InvalidReply, match=r"'fly' is not among the skills that are available now. .* \(a script was asked 1 times\)"
    ):
        get(ScriptedEngine("fly"), Choice(("walk", "swim")), retries=0)


def test_every_refusal_so_far_is_shown() -> None:
    engine = ScriptedEngine("Act: fly", "Act: swim", "Act: done")
    get(engine)
    swim = NO_FLY.replace("fly", "swim")
    assert engine.asked[2].prompt == f"{PROMPT}Act: fly\n{NO_FLY}\nAct: swim\n{swim}\n"


def test_of_a_long_refused_reply_the_beginning_is_shown() -> None:
    engine = ScriptedEngine("I would go. " * 200, "Act: done")
    get(engine)
    assert len(engine.asked[1].prompt) < len(PROMPT) + 700
    assert " I would …\n" in engine.asked[1].prompt


def sent(one: Generation) -> tuple[Any, ...]:
    """Return what a server that takes no other parameter sees of a request."""
    return one.prompt, str(one.constraint), one.stops


@pytest.mark.parametrize("obeys", [(), (GRAMMAR,), (JSON_SCHEMA,), (CHOICE,)])
@pytest.mark.parametrize("said", [["Act: fly"], ["", "Act: fly"], ["Act: fly", "Act: swim"], ["Act: fly", "Act: fly "]])
def test_no_request_is_sent_twice_in_a_run_of_refused_decisions(obeys: Sequence[Any], said: list[str]) -> None:
    """Even to a server that takes neither seed nor temperature, as the agent node goes on from the last refusal."""
    turns: list[Any] = [TASK]
    asked: list[Generation] = []
    for _ in range(4):
        engine = ScriptedEngine(*(said * 40)[:40], obeys=obeys)
        reply = asyncio.run(decode(engine, DecisionRequest(tuple(turns), ALLOWED)))
        turns += [Said(reply.text), Told(reply.objection, About.REFUSAL)]
        asked += engine.asked
    assert len({sent(one) for one in asked}) == len(asked) >= 16


def test_seed_and_temperature_change_with_each_refusal() -> None:
    engine = ScriptedEngine(*["Act: fly"] * 5)
    get(engine, retries=4, seed=7)
    assert [(one.seed, round(one.temperature, 1)) for one in engine.asked] == [
        *((7, 0.0), (8, 0.3), (9, 0.6), (10, 0.9), (11, 0.9)),
    ]
    engine = ScriptedEngine(*["Act: fly"] * 2)
    get(engine, retries=1, temperature=1.2)
    assert [one.temperature for one in engine.asked] == [1.2, 1.2]


@pytest.mark.parametrize(
    ("obeys", "method", "said", "held"),
    [
        ((REGEX,), Method.UNCONSTRAINED, "abcd", [None, None, None, REGEX]),
        ((CHOICE,), Method.UNCONSTRAINED, "abcd", [None, None, None, CHOICE]),
        ((REGEX,), Method.UNCONSTRAINED, "aabc", [None, None, REGEX, REGEX]),  # it came again
        ((REGEX,), Method.UNCONSTRAINED, "abac", [None, None, None, REGEX]),
        ((), Method.UNCONSTRAINED, "aaaa", [None] * 4),
        ((REGEX,), Method.FREE_FIRST, "abcd", [None, REGEX, REGEX, REGEX]),
        ((), Method.FREE_FIRST, "abcd", [None] * 4),
        ((GRAMMAR,), Method.FORM_FIRST, "abcd", [GRAMMAR] * 4),
    ],
)
def test_what_is_asked_again_is_held_to_what_may_be_said_once_a_reply_comes_again_and_in_the_end(
    obeys: Sequence[ConstraintKind], method: Method, said: str, held: list[ConstraintKind | None]
) -> None:
    engine = ScriptedEngine(*(f"Act: fly {one}" for one in said), obeys=obeys)
    assert get(engine, method=method).objection
    assert [one.constraint and one.constraint.kind for one in engine.asked] == held
    if method is not Method.FORM_FIRST:
        assert all(one.temperature == 0 for one in engine.asked[-1:] if one.constraint and held.count(None) == 3)


def test_form_first_holds_to_a_decision_of_any_skill_and_then_to_those_that_may_be_said() -> None:
    engine = ScriptedEngine("Act: fly", "Act: done", obeys=[REGEX])
    assert get(engine, method=Method.FORM_FIRST).text == "Act: done"
    first, second = (one.constraint.value for one in engine.asked if one.constraint)
    assert re.fullmatch(first, "Act: fly")
    assert not re.fullmatch(second, "Act: fly")
    assert re.fullmatch(second, "Act: failure")


def test_what_is_no_json_is_not_shown_where_json_is_asked_for() -> None:
    engine = ScriptedEngine(
        '{"decision": {"Act": "fly"}}', '{"decision"', '{"decision": {"Act": "done"}}', obeys=[JSON_SCHEMA]
    )
    assert get(engine).said == (Said("Act: done", Act("done")),)
    assert engine.asked[1].prompt.startswith(f'{PROMPT}{{"decision": {{"Act": "fly"}}}}\n\'fly\' is not')
    asked = engine.asked[2].turns
    assert [type(turn) for turn in asked] == [Told, Said, Told, Told]
    assert asked[-1].text.startswith('A decision is made with one object in JSON, {"decision": {"Think": "a thought"}}')


def test_a_control_flow_that_is_not_allowed_is_refused() -> None:
    engine = ScriptedEngine("Expand:\n- control flow: parallel\n- subgoals: a", "Act: done")
    assert get(engine, DecisionGrammar(SKILLS, [SequenceFlow])).text == "Act: done"
    assert "The control flow 'parallel' is not allowed here; allowed: sequence." in engine.asked[1].prompt


@pytest.mark.parametrize("said", ["Think: I was cu", "Act: done", "Act: go to kitchen 12", "Act: go to kitchen 1\n"])
def test_what_is_whole_is_taken_though_the_limit_was_reached(said: str) -> None:
    assert get(ScriptedEngine((said, "length"))).text == said.strip()


@pytest.mark.parametrize("error", [LanguageModelError("gone"), ValueError("a bug of the engine")])
def test_an_error_of_the_engine_is_no_objection(error: Exception) -> None:
    engine = ScriptedEngine(error)
    with pytest.raises(type(error), match=str(error)):
        get(engine)
    assert len(engine.asked) == 1


# ---------------------------------------------------------------------- a reply that has begun


# ---------------------------------------------------------------------- rounds


def test_the_rounds_of_an_expansion() -> None:
    engine = ScriptedEngine("Expand:", " sequence", " find it, and bring it", obeys=[CHOICE])
    reply = get(engine, max_tokens=77)
    assert reply.text == EXPANSION
    assert (reply.prompt_tokens, reply.cached_tokens, reply.output_tokens) == (30, 15, 6)
    kind, flow, subgoals = engine.asked
    assert [(asked.begun, asked.constraint and asked.constraint.value, asked.stops) for asked in engine.asked] == [
        ("", ["Think:", "Act:", "Expand:"], ()),
        ("Expand:\n- control flow:", [" sequence", " fallback", " parallel"], ()),
        ("Expand:\n- control flow: sequence\n- subgoals:", None, ("\n",)),
    ]
    assert {asked.turns for asked in engine.asked} == {(TASK,)}
    assert (kind.max_tokens, flow.max_tokens, subgoals.max_tokens) == (77, 77, 77)


def test_the_rounds_of_a_skill_and_of_a_thought() -> None:
    engine = ScriptedEngine("Act:", " go to kitchen 1", "Think:", " well", obeys=[CHOICE])
    assert [get(engine).text, get(engine).text] == ["Act: go to kitchen 1", "Think: well"]
    assert [(asked.begun, asked.constraint and asked.constraint.value) for asked in engine.asked] == [
        ("", ["Think:", "Act:", "Expand:"]),
        ("Act:", [f" {skill}" for skill in SKILLS]),
        ("", ["Think:", "Act:", "Expand:"]),
        ("Think:", None),
    ]


@pytest.mark.parametrize("kind", [CHOICE, REGEX, GRAMMAR])
def test_rounds_go_with_every_constraint_that_makes_a_choice(kind: ConstraintKind) -> None:
    engine = ScriptedEngine("Act:\n", " done\n", obeys=[kind])
    assert get(engine, method=Method.ROUNDS).text == "Act: done"
    assert [asked.constraint and asked.constraint.kind for asked in engine.asked] == [kind, kind]


def test_rounds_are_checked_too() -> None:
    engine = ScriptedEngine("Act:", " fly", "Act:", " done", obeys=[CHOICE])
    assert get(engine).text == "Act: done"
    assert engine.asked[2].prompt == f"{PROMPT}Act: fly\n{NO_FLY}\n"
    engine = ScriptedEngine(
        "Act:", (" go to kitchen 1", "length"), "Expand:", " fallback", (" a, b", "length"), "Think:", (" w", "length"),
        obeys=[CHOICE],
    )  # fmt: skip
    assert get(engine).text == "Think: w"
    assert "'go to kitchen 1' was cut." in engine.asked[2].prompt
    assert "The list of subgoals was cut" in engine.asked[5].prompt


# ---------------------------------------------------------------------- without a constraint


@pytest.mark.parametrize("said", ["Act: go to kitchen 1", "Think: hm", EXPANSION])
def test_what_the_world_is_made_to_say_after_a_decision_is_left_out(said: str) -> None:
    for more in ("You go to kitchen 12.\nand so on", "Observation: nothing\nAct: done", "User: no\nAct: done"):
        engine = ScriptedEngine((f"\n {said} \n{more}", "length"), obeys=())
        reply = get(engine)
        assert reply.said == (Said(said, parse_decision(said)),)
        assert engine.asked[0].constraint is None


def test_a_decision_that_was_cut_is_not_taken_without_a_constraint_either() -> None:
    engine = ScriptedEngine(("Act: go to kitchen 1", "length"), (EXPANSION, "length"), "Act: done", obeys=())
    assert get(engine).text == "Act: done"
    assert "'go to kitchen 1' was cut." in engine.asked[1].prompt
    assert f"\n{EXPANSION}\nThe list of subgoals was cut" in engine.asked[2].prompt


def test_only_the_decision_is_shown_again_without_a_constraint() -> None:
    engine = ScriptedEngine("Act: fly\nYou fly.\nAct: land", "Act: done", obeys=())
    assert get(engine).text == "Act: done"
    assert engine.asked[1].prompt == f"{PROMPT}Act: fly\n{NO_FLY}\n"
    reply = get(ScriptedEngine("Act: fly\nYou fly.\nAct: land", obeys=()), retries=0)
    assert (reply.text, reply.said) == ("Act: fly", (Said("Act: fly", Act("fly")),))


# ---------------------------------------------------------------------- choices and free text


@pytest.mark.parametrize("kind", [None, *ConstraintKind])
def test_a_choice_is_one_of_its_options_or_asked_for_again(kind: ConstraintKind | None) -> None:
    wrap = (lambda text: json.dumps({"choice": text})) if kind is JSON_SCHEMA else (lambda text: f"{text}\n")
    engine = ScriptedEngine(wrap("grape"), wrap("apple"), obeys=[] if kind is None else [kind])
    assert get(engine, Choice(("apple", "pear"))).text == "apple"
    assert (
        "'grape' is not among the skills that are available now. Some that are: apple, pear.\n"
        in engine.asked[1].prompt
    )
    held = None if kind is TOOLS else kind
    assert [asked.constraint and asked.constraint.kind for asked in engine.asked] == [held, held]
    assert ('{"choice": …}' in engine.asked[0].prompt) == (kind is JSON_SCHEMA)


def test_a_cut_choice_is_taken_only_where_it_can_be_no_other() -> None:
    engine = ScriptedEngine(("apple", "length"), ("apple pie", "length"), obeys=[CHOICE])
    assert get(engine, Choice(("apple", "apple pie"))).text == "apple pie"


def test_free_text_is_taken_as_it_is() -> None:
    engine = ScriptedEngine((" anything\tgoes", "length"))
    reply = get(engine, FreeText(("\n", ".")))
    assert (reply.text, reply.cut, reply.said) == (" anything\tgoes", True, ())
    assert (engine.asked[0].stops, engine.asked[0].constraint) == (("\n", "."), None)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("\n \n a line\nanother", " a line"),
        ("a line\r\nanother", "a line"),
        ("<think>\nhm\n</think>\n\na line\nanother", "a line"),
    ],
)
def test_free_text_ends_before_its_stop_also_where_the_engine_goes_on(said: str, text: str) -> None:
    reply = get(ScriptedEngine((said, "length"), chat=True), FreeText())
    assert (reply.text, reply.finish_reason) == (text, "stop")


def test_free_text_of_blank_lines_is_asked_for_again_without_stops_unless_the_engine_chats() -> None:
    engine = ScriptedEngine("", "\n\nStep one.\nStep two.")
    reply = get(engine, FreeText())
    assert (reply.text, reply.prompt_tokens) == ("Step one.", 20)
    assert [asked.stops for asked in engine.asked] == [("\n",), ()]
    engine = ScriptedEngine("", chat=True)
    assert (get(engine, FreeText()).text, len(engine.asked)) == ("", 1)
    engine = ScriptedEngine(("", "length"))
    assert (get(engine, FreeText()).text, len(engine.asked)) == ("", 1)


# ---------------------------------------------------------------------- reasoning


def test_reasoning_is_taken_out_of_what_is_said_kept_and_counted() -> None:
    engine = ScriptedEngine("<think>\nShall I go on? Act: fly\n</think>\n\nAct: done")
    reply = get(engine)
    assert (reply.text, reply.said) == ("Act: done", (Said("Act: done", Act("done")),))
    assert (reply.reasoning, reply.reasoning_tokens) == ("Shall I go on? Act: fly", 6)


def test_reasoning_that_the_engine_tells_apart_is_kept_with_its_count() -> None:
    engine = ScriptedEngine(Generated("Act: done", "stop", 10, 0, 30, reasoning="hm hm", reasoning_tokens=25))
    reply = get(engine)
    assert (reply.text, reply.reasoning, reply.reasoning_tokens, reply.output_tokens) == ("Act: done", "hm hm", 25, 30)
    engine = ScriptedEngine(Generated("Act: done", "stop", reasoning="hm hm"))
    assert get(engine).reasoning_tokens is None
    assert get(ScriptedEngine("Act: done")).reasoning_tokens == 0


def test_reasoning_of_every_request_is_kept_and_none_of_it_goes_back_into_the_prompt() -> None:
    engine = ScriptedEngine("<think>one</think>Act: fly", "two three</think>Act: swim", "Act: done")
    reply = get(engine)
    assert (reply.reasoning, reply.reasoning_tokens) == ("one\ntwo three", 3)
    assert [asked.turns[-2] for asked in engine.asked[1:]] == [Said("Act: fly"), Said("Act: swim")]


@pytest.mark.parametrize(
    "open_end",
    [
        ("<think>\nI could say Act: done", "length"),
        Generated("", "length", 10, 0, 30, reasoning="I could say Act: done", reasoning_tokens=30),
        ("<|channel|>analysis<|message|>I could say Act: done", "length"),
    ],
)
@pytest.mark.parametrize("may_say", [ALLOWED, Choice(("done", "failure"))])
def test_thinking_that_does_not_end_is_asked_to_be_shorter(open_end: Line, may_say: Any) -> None:
    said = "Act: done" if may_say is ALLOWED else "done"
    engine = ScriptedEngine(open_end, said, obeys=[])
    reply = get(engine, may_say)
    assert (reply.text, reply.reasoning) == (said, "I could say Act: done")
    refusal = Told("Your reply ended while you were still thinking. Think less, and then answer.", About.REFUSAL)
    assert engine.asked[1].turns == (TASK, Said(""), refusal)


def test_thinking_that_never_ends_comes_with_the_objection() -> None:
    engine = ScriptedEngine(*[("<think>hm", "length")] * 2)
    reply = get(engine, retries=1)
    assert (reply.text, reply.said, reply.reasoning) == ("", (), "hm\nhm")
    assert reply.objection.startswith("Your reply ended while you were still thinking.")


def test_thinking_that_filled_the_context_means_a_prompt_that_is_too_long() -> None:
    full = Generated("", "length", 900, 0, 100, reasoning="hm", reasoning_tokens=100)
    with pytest.raises(PromptTooLong) as raised:
        get(ScriptedEngine(full, context=1000), max_tokens=50)
    assert raised.value.excess == 50
    enough = Generated("", "length", 500, 0, 100, reasoning="hm", reasoning_tokens=100)
    assert get(ScriptedEngine(enough, "Act: done", context=1000), max_tokens=50).text == "Act: done"


# ---------------------------------------------------------------------- tools, and odd characters

GO = ToolCall("go to", '{"room": "kitchen 1"}')


def test_a_tool_that_is_called_is_the_decision() -> None:
    reply = get(ScriptedEngine(Generated("", "stop", calls=(GO,)), obeys=[]))
    assert reply.said == (Said("Act: go to kitchen 1", Act("go to kitchen 1")),)
    assert reply.text == 'go to({"room": "kitchen 1"})'
    reply = get(ScriptedEngine(Generated("Think: hm", "stop", calls=(GO,)), obeys=[]))
    assert [one.text for one in reply.said] == ["Think: hm", "Act: go to kitchen 1"]
    assert reply.text == "Think: hm"


def test_a_call_that_will_not_do_is_shown_in_words() -> None:
    engine = ScriptedEngine(Generated("", "stop", calls=(ToolCall("fly", "{}"),)), "Act: done", obeys=[])
    assert get(engine).text == "Act: done"
    assert engine.asked[1].prompt == f"{PROMPT}fly({{}})\n{NO_FLY}\n"
    engine = ScriptedEngine(Generated("", "stop", calls=(GO,)), "done", obeys=[])
    assert get(engine, Choice(("done", "failure"))).text == "done"
    assert "say one of the options instead" in engine.asked[1].prompt


def test_an_emoji_that_was_cut_in_half_harms_nothing() -> None:
    engine = ScriptedEngine("Think: so \ud83d", "Act: fly \ud83d", "Act: done", obeys=[])
    assert get(engine).said == (Said("Think: so ?", Think("so ?")),)
    reply = get(engine)
    assert reply.text == "Act: done"
    assert engine.asked[-1].prompt.encode()
    reply = get(ScriptedEngine(("Act: fly \ud83d", "length"), obeys=[]), retries=0)
    assert reply.text.encode() + reply.objection.encode()


# ---------------------------------------------------------------------- counts and limits


def test_counts_are_those_of_all_requests_and_unknown_where_one_is() -> None:
    engine = ScriptedEngine("Act: fly", "Act: swim", "Act: done")
    engine.counts = [(10, 0, 3), (20, 10, 4), (30, None, 5)]
    reply = get(engine)
    assert (reply.prompt_tokens, reply.cached_tokens, reply.output_tokens) == (60, None, 12)


phrases = st.lists(st.text("abcé家1", min_size=1, max_size=20), min_size=1, max_size=5).map(" ".join)


@given(st.lists(phrases, min_size=1, max_size=5), st.integers(1, 40))
def test_the_limit_leaves_room_for_every_skill(skills: list[str], limit: int) -> None:
    grammar = DecisionGrammar(skills)
    engine = ScriptedEngine("Think: a", obeys=[REGEX])
    get(engine, grammar, max_tokens=limit)
    assert engine.asked[0].max_tokens >= max(limit, *(len(f"Act: {skill}\n".encode()) for skill in skills))
    engine = ScriptedEngine("Act:", f" {skills[0]}", obeys=[CHOICE])
    get(engine, grammar, max_tokens=limit)
    assert engine.asked[0].max_tokens >= max(limit, len("Expand:"))
    assert engine.asked[1].max_tokens >= max(limit, *(len(f" {skill}\n".encode()) for skill in skills))


def test_a_reply_that_was_cut_by_the_context_is_a_prompt_that_is_too_long() -> None:
    engine = ScriptedEngine(("Think: a", "length"), context=1000)
    engine.counts = [(900, 0, 100)]
    with pytest.raises(PromptTooLong) as raised:
        get(engine, max_tokens=300)
    assert (raised.value.excess, raised.value.context) == (200, 1000)


# ---------------------------------------------------------------------- whatever an engine says

texts = st.one_of(
    st.text(max_size=40),
    st.sampled_from(["Think: a", "Act: done", "Act: go to kitchen 1", "Act: fly", EXPANSION, EXPANSION[:40]]),
    st.builds("Act: {}\n{}".format, st.sampled_from(SKILLS), st.text(max_size=20)),
    st.builds("Expand:\n- control flow: {}\n- subgoals: {}".format, st.sampled_from(["parallel", "x"]), st.text()),
    st.builds(lambda kind, what: json.dumps({"decision": {kind: what}}), st.sampled_from(["Think", "Act"]), st.text()),
)
replies = st.lists(st.tuples(texts, st.sampled_from(["stop", "length"])), min_size=12, max_size=12)


@pytest.mark.slow
@given(replies, st.sampled_from([*ConstraintKind, None]), st.sampled_from([None, *Method]), st.integers(0, 2))
def test_a_reply_is_what_may_be_said_or_comes_with_an_objection(
    script: list[tuple[str, str]], kind: ConstraintKind | None, method: Method | None, retries: int
) -> None:
    engine = ScriptedEngine(*script, obeys=[] if kind is None else [kind])
    try:
        reply = get(engine, method=method, retries=retries)
    except RequestRejected:
        return
    assert len(reply.objection.splitlines()) <= 1
    if reply.objection:
        return
    *thoughts, last = [one.decision for one in reply.said]
    assert all(isinstance(thought, Think) for thought in thoughts)
    assert [parse_decision(one.text) for one in reply.said] == [*thoughts, last]
    if isinstance(last, Act):
        assert last.skill in SKILLS
    if isinstance(last, Expand):
        assert last.subgoals
    lengths = range(1, 6) if kind in (JSON_SCHEMA, TOOLS) else (1, 3, 5)
    assert all(asked.turns[0] == TASK and len(asked.turns) in lengths for asked in engine.asked)


@pytest.mark.slow
@given(replies, st.sampled_from([*ConstraintKind, None]), st.sampled_from([None, *Method]), st.integers(0, 2))
def test_a_reply_keeps_every_request_with_what_it_took_and_why_it_was_in_vain(
    script: list[tuple[str, str]], kind: ConstraintKind | None, method: Method | None, retries: int
) -> None:
    engine = ScriptedEngine(*script, obeys=[] if kind is None else [kind])
    engine.counts = [(10 + number, number, 2 * number) for number in range(len(script))]
    try:
        reply = get(engine, method=method, retries=retries)
    except RequestRejected:
        return
    kept = reply.attempts
    assert len(kept) == len(engine.asked)
    for name in ("prompt_tokens", "cached_tokens", "output_tokens"):
        assert getattr(reply, name) == sum(getattr(one, name) for one in kept)
    held = [None if asked.constraint is None else asked.constraint.kind.value for asked in engine.asked]
    assert [one.constraint or None for one in kept] == held
    assert [one.refused for one in kept] == [bool(one.objection) for one in kept]
    assert kept[-1].objection == reply.objection
    assert bool(reply.objection) or not kept[-1].text
    same = [(asked.prompt, asked.constraint, asked.stops, asked.max_tokens) for asked in engine.asked]
    assert [[one.asked == other.asked for other in kept] for one in kept] == [
        [one == other for other in same] for one in same
    ]


def test_a_reply_that_was_refused_is_kept_with_its_words_and_their_objection() -> None:
    reply = get(ScriptedEngine("Act: fly" * 1000, ("Act: swim", "length"), "Act: done"))
    assert reply.in_vain == reply.attempts[:2]
    long, cut = reply.in_vain
    assert long.text.startswith("Act: flyAct: fly")
    assert "characters are left out" in long.text
    assert len(long.text) <= LONGEST_ERROR
    assert (cut.text, cut.finish_reason, cut.objection[:14]) == ("Act: swim", "length", "'swim' was cut")
    assert (reply.attempts[-1].text, reply.attempts[-1].objection) == ("", "")
