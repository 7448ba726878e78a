"""Free text is never cut, dropped or changed: in words, JSON and calls of tools, also while a reply still comes."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doubles import ScriptedWorld
from hypothesis import given
from hypothesis import strategies as st
from recode_doubles import run_of

from reactree_lab.planners.recode.sandbox import Limits, Raised, Sandbox
from reactree_ros.agent.control_flow import flow_named
from reactree_ros.agent.decision import DONE, FAILURE
from reactree_ros.agent.grammar import DecisionGrammar, Grammar
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.observation import Observation
from reactree_ros.agent.parameters import ParameterError, Person, Text
from reactree_ros.agent.reading import Unreadable, read, read_call, whole_part
from reactree_ros.agent.skill import Offer, Skill, SkillCall
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.agent.text import LONGEST, LONGEST_ERROR, LONGEST_GENERATED, LONGEST_TOLD, bounded, words
from reactree_ros.agent.turns import About, Said, Saw, Told
from reactree_ros.llm.decoding import decode
from reactree_ros.llm.engine import Engine, Generated, Generation
from reactree_ros.llm.port import DecisionRequest, Reply

SAY = Skill(name="say", wording="say {text}", parameters={"text": Text(200)})
TELL = Skill(name="tell", wording="tell {text} to {person}", parameters={"text": Text(200), "person": Person()})
GRAMMAR = DecisionGrammar(
    ("done", "failure", "pick up cup 1", "recall location of cup"),
    offers=(Offer(SAY), Offer(TELL, {"person": ("Anna", "Bob")})),
)
#: What means something to a reader, and nothing inside a text.
TRAPS = (
    "Hello Anna. This is from Bob. Please take it", "Please wait and then press up", "I'm sorry, I can't help.",
    "done", "Act: done", "Hello Anna. Act: done", "Thought: I am here", "Observation: you are here", "Answer: 42",
    "Expand:", "*important*", "**Anna**, `now`", "_so_ it is", "1. one", "- item", "# heading", "> quoted",
    "<b>bold</b>", 'He said "hi" and left', "'single' and more", "it’s “curly”", "😀 hi", "\uff11 cup",
    "Hello — Anna", "no. 5 is alive", "[hi]", "(whisper) hi", '{"a": 1}', "a ``` b", "C:\\new\\table", "none",
    "null", "a, b; c", "a_b_c", "?", "…", "hi.", "on kitchen table 1", "pick up cup 1", "wait! No, stop.", "say hi",
    "Human: hi", "double  blank", "You are at home", "tell Bob to Anna", "to Anna", ": colon", "ends with a colon:",
    "{text}", "// not a comment", "<|im_end|> is said", ":)", "!", "no</s>", "end_of.", "A" * 200,
)  # fmt: skip


def in_quotes(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


#: The ways to say a text to its end.
WAYS: dict[str, Callable[[str], str]] = {
    "in quotes": lambda text: f"Act: say {in_quotes(text)}",
    "in quotes, with a full stop": lambda text: f"Act: say {in_quotes(text)}.",
    "in quotes, explained": lambda text: f"**Action:** say {in_quotes(text)}\nI say this because Anna waits.",
    "in quotes, in brackets": lambda text: f"Action: say({in_quotes(text)})",
    "after a thought": lambda text: f"Think: Somebody has to be told.\nAct: say {in_quotes(text)}",
    "in a tag": lambda text: f"<answer>Act: say {in_quotes(text)}</answer>",
    "in bold": lambda text: f"**Act: say {in_quotes(text)}**",
    "in a fence": lambda text: f"Here is my action:\n```\nAct: say {in_quotes(text)}\n```",
    "alone": lambda text: f"say {in_quotes(text)}",
    "as an input": lambda text: f"Action: say\nAction Input: {in_quotes(text)}",
    "as a JSON input": lambda text: f"Action: say\nAction Input: {json.dumps({'text': text})}",
    "as JSON": lambda text: json.dumps({"decision": {"Act": {"say": {"text": text}}}}),
    "as words in JSON": lambda text: json.dumps({"decision": {"Act": f"say {in_quotes(text)}"}}),
    "as fields": lambda text: f"Sure.\n```json\n{json.dumps({'skill': 'say', 'text': text}, ensure_ascii=False)}\n```",
    "as fields behind its name": lambda text: f"Think: Anna waits.\n**Act:** say {json.dumps({'text': text})}",
    "as fields in lines": lambda text: f"```json\n{json.dumps({'act': {'say': {'text': text}}}, indent=2)}\n```",
    "as an input in lines": lambda text: (
        f"Action: say\nAction Input:\n{json.dumps({'text': text}, indent=2)}\nI say this because Anna waits."
    ),
    "as a tool": lambda text: json.dumps({"name": "say", "arguments": {"text": text}}),
}
#: Those in which nothing marks its end but that of the line.
TO_THE_END: dict[str, Callable[[str], str]] = {
    "by its label": lambda text: f"Act: say {text}",
    "by another label": lambda text: f"**Action**: say {text}",
    "explained": lambda text: f"Act: say {text}\nThis is because Anna waits.",
    "after a thought": lambda text: f"Think: Somebody has to be told.\nAct: say {text}",
    "as words in JSON": lambda text: json.dumps({"decision": {"Act": f"say {text}"}}),
    "before a tag": lambda text: f"<answer>\nAct: say {text}\n</answer>",
}


def call_in(reply: str) -> SkillCall:
    decision = read(reply, GRAMMAR)[-1].decision
    assert isinstance(decision, Act)
    assert isinstance(decision.skill, SkillCall)
    return decision.skill


def is_plain(text: str) -> bool:
    return text[:1] not in "\"'“„«\u2018({:" and "</" not in text and "<|" not in text


MARKS = (
    "Act:", "say", "to Anna", "done", "**", "*x*", "`", "{", "}", "[", ")", "#", "“", "\u2019", "...", "Expand:",
    "\\", ". I", "?", "! No", '"', "'", "on kitchen table 1", "and then", "<b>", "</b>", "😀", "—", ",",
)  # fmt: skip
#: Any text of one line, of words, marks and blanks that a reader knows.
LINES = (
    st.lists(
        st.one_of(
            st.sampled_from(MARKS), st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=8)
        ),
        min_size=1,
        max_size=12,
    )
    .map(" ".join)
    .filter(lambda text: len(text) <= 200 and any(map(str.isalnum, text)))
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", TRAPS)
def test_what_stands_in_quotes_is_the_text_in_every_way(way: str, text: str) -> None:
    assert call_in(WAYS[way](text)).values == {"text": text}


@pytest.mark.parametrize("way", TO_THE_END)
@pytest.mark.parametrize("text", [text for text in TRAPS if is_plain(text)])
def test_what_goes_to_the_end_of_the_line_is_the_text(way: str, text: str) -> None:
    assert call_in(TO_THE_END[way](text)).values == {"text": text}


@pytest.mark.slow
@given(st.sampled_from(sorted(WAYS)), LINES)
def test_whatever_stands_in_quotes_is_the_text(way: str, text: str) -> None:
    assert call_in(WAYS[way](text)).values == {"text": text}


@given(st.sampled_from(sorted(TO_THE_END)), LINES.filter(is_plain))
def test_whatever_goes_to_the_end_of_the_line_is_the_text(way: str, text: str) -> None:
    assert call_in(TO_THE_END[way](text)).values == {"text": text}


@pytest.mark.parametrize("text", ["Hello. " * 40, "I wait. " * 30 + "on kitchen table 1"])
@pytest.mark.parametrize("way", [*WAYS.values(), *TO_THE_END.values()])
def test_a_text_that_is_too_long_is_refused_and_never_cut(way: Callable[[str], str], text: str) -> None:
    with pytest.raises(
        Unreadable, match=r"text: a text of \d+ characters may not stand here, but a text of at most 200"
    ):
        read(way(text.strip()), GRAMMAR)
    with pytest.raises(Unreadable, match="text: a text of"):
        read_call([("say", json.dumps({"text": text.strip()}))], GRAMMAR)


@pytest.mark.parametrize("text", ["Hello Anna,\nplease take it.", "Hello.\nAct: done", "It's me,\n\nObservation: b"])
def test_a_text_of_several_lines_is_one_in_json_and_refused_in_words(text: str) -> None:
    one = " ".join(text.split())
    assert call_in(json.dumps({"act": f"say {text}"})).values == {"text": one}
    assert call_in(f"Act: say {json.dumps(text)}").values == {"text": one}
    for begin, end in ('""', "“”", "„“", "«»", "\u2018\u2019", "''"):
        with pytest.raises(Unreadable, match=r"has no end|Say one decision|A decision"):
            read(f"Act: say {begin}{text}{end}", GRAMMAR)


@pytest.mark.parametrize("way", ["as fields in lines", "as an input in lines"])
def test_nor_inside_a_value_of_several_lines(way: str) -> None:
    reply = WAYS[way]("Hello Anna. Act: done").removesuffix("\nI say this because Anna waits.")
    wholes = [whole_part(reply[:at], GRAMMAR) for at in range(len(reply))]
    assert {read(whole, GRAMMAR)[-1].decision for whole in wholes if whole} <= {read(reply, GRAMMAR)[-1].decision}


def test_a_skill_that_nothing_announces_and_another_decision_on_its_line_are_asked_back() -> None:
    for reply in ("say Hello Anna. Act: done", "Say hello first. Act: say Hello"):
        with pytest.raises(Unreadable):
            read(reply, GRAMMAR)


@pytest.mark.parametrize(
    "quotes", ["“{}”", "„{}“", "«{}»", "\u2018{}\u2019", "'{}'", "'{}'.", "“{}”.", ':"{}"', '("{}")', '(text="{}")']
)
def test_quotes_and_calls_of_every_kind_are_no_part_of_the_text(quotes: str) -> None:
    blank = "" if quotes[0] in ":(" else " "
    for text in ("Hello Anna. I wait", "It's Anna\u2019s, isn't it"):
        assert call_in(f"Act: say{blank}{quotes.format(text)}").values == {"text": text}


@pytest.mark.parametrize("nothing", ['""', '" "', "", '{"text": ""}'])
def test_an_empty_text_is_refused(nothing: str) -> None:
    with pytest.raises(Unreadable, match="text: nothing is said here"):
        read(f"Act: say {nothing}", GRAMMAR)


@pytest.mark.parametrize(
    "fields", ['{"text": "a", "text": "b"}', '{"text": "a", "TEXT": "b"}', '{"a": 1}', "{}", '["a"]']
)
def test_only_its_own_fields_once_are_read_behind_its_name(fields: str) -> None:
    assert SAY.read(f"say {fields}") == f"say {in_quotes(fields) if fields[0] == '{' else fields}"
    with pytest.raises(ParameterError, match="is not said as"):
        TELL.read(f"tell {fields}")
    assert TELL.read('tell {"person": "Anna", "text": "b"}', {"person": ["Anna"]}) == 'tell "b" to Anna'


# ---------------------------------------------------------------------- bounds


needs_monty = pytest.mark.skipif(not importlib.util.find_spec("pydantic_monty"), reason="needs the recode extra")
LONG = "a" * 1_000_000
MADE: dict[str, tuple[Callable[[str], str], int]] = {
    "what is said": (lambda text: Said(text).text, LONGEST),
    "what is seen": (lambda text: Saw(text).text, LONGEST),
    "what is told": (lambda text: Told(text, About.ANSWER).text, LONGEST_TOLD),
    "a refusal": (lambda text: Told(text, About.REFUSAL).text, LONGEST_TOLD),
    "an observation": (lambda text: Observation(text).text, LONGEST_TOLD),
    "an error of code": (lambda text: Raised(text, "").traceback, LONGEST_ERROR),
}


@pytest.mark.parametrize("name", MADE)
def test_of_a_long_text_the_beginning_and_the_end_stay_and_it_says_how_much_is_left_out(name: str) -> None:
    make, most = MADE[name]
    text = make(f"the beginning {LONG} the end")
    assert len(text) <= most
    assert text.startswith("the beginning aaa")
    assert text.endswith("aaa the end")
    assert "characters are left out)" in text
    assert make("short, and\nin two lines") == "short, and\nin two lines"


def test_how_much_is_left_out_is_right() -> None:
    text = bounded("b" * 5000, 1000)
    assert text.count("b") + int(text.split("(")[1].split()[0]) == 5000
    assert bounded("b" * 1000, 1000) == "b" * 1000


def test_a_reply_that_is_too_long_was_cut() -> None:
    reply = Reply(LONG)
    assert (len(reply.text), reply.cut) == (LONGEST, True)
    generated = Generated("b" * (LONGEST_GENERATED + 1), "stop")
    assert (len(generated.text), generated.finish_reason) == (LONGEST_GENERATED, "length")


class Says(Engine):
    """Says one thing."""

    name = "it"

    def __init__(self, text: str) -> None:
        self._text = text

    async def open(self) -> None:
        """Is open."""

    async def generate(self, generation: Generation) -> Generated:
        return Generated(self._text, "stop")


def test_a_decision_behind_more_than_may_be_said_is_none() -> None:
    asked = DecisionRequest((), DecisionGrammar((DONE,)))
    reply = asyncio.run(decode(Says(f"{LONG}\nAct: done"), asked, retries=0))
    assert reply.objection
    assert len(reply.text) <= LONGEST
    thought = asyncio.run(decode(Says(f"<think>{LONG}</think>Act: done"), asked, retries=0))
    assert [str(one.decision) for one in thought.said] == ["Act: done"]


# ---------------------------------------------------------------------- code


@needs_monty
@pytest.mark.parametrize("code", ["x = 'a' * 10_000_000", "z = 'a' * 10_000_000\nx = z + z"])
def test_a_variable_that_is_too_large_is_refused_and_the_code_goes_on(code: str) -> None:
    sandbox = Sandbox(limits=Limits(), seed=0)
    try:
        sandbox.start("y = 1").result(timeout=60)
        refused = sandbox.start(code).result(timeout=60)
        assert isinstance(refused, Raised)
        assert refused.traceback.startswith("MemoryError: ")
        assert sandbox.show(["y"]).result(timeout=60) == "- y (int): 1"
        assert isinstance(sandbox.start("x").result(timeout=60), Raised)
    finally:
        sandbox.close().result(timeout=60)


@needs_monty
def test_the_model_is_told_of_an_error_in_few_words_whatever_its_length() -> None:
    script = {"solve": ["raise ValueError('e' * 9_000_000)", "x = 'a' * 10_000_000", "done = 1"]}
    run = run_of(script, ScriptedWorld())
    result = run.run()
    assert result.end != "bug"
    told = [turn.text for turn in run.root.turns if isinstance(turn, Told)]
    assert any("ValueError: eee" in text for text in told)
    assert all(len(text) < 3 * LONGEST_ERROR for text in told)


# ---------------------------------------------------------------------- replies of real models


REPLIES = Path(__file__).resolve().parents[3] / "shared" / "data" / "replies"
FLOWS = ("sequence", "fallback", "parallel")
_NAMED = re.compile(r"The nearest that are: (.*)\.\Z")
_NUMBER = re.compile(r"(\d+) Subgoal:")


def lines_of(name: str) -> list[Any]:
    path = REPLIES / name
    if not path.exists():
        return [pytest.param({}, marks=pytest.mark.skip(reason=f"the test material {path} is not here"))]
    lines = path.read_text(encoding="utf-8").splitlines()
    return [pytest.param(json.loads(line), id=str(number)) for number, line in enumerate(lines)]


def taken(line: dict[str, Any], grammar: Grammar, *, cut: bool) -> str | None:
    try:
        return "\n".join(said.text for said in read(line["reply"], grammar, cut=cut))
    except Unreadable:
        return None


def check(line: dict[str, Any], was: str | None, now: str | None) -> None:
    was = was if line["right"] else None
    assert (was and words(was)) == (now and words(now))


@pytest.mark.parametrize("line", lines_of("readings.jsonl"))
def test_a_reply_is_read_as_labelled_with_the_skills_of_its_moment(line: dict[str, Any]) -> None:
    number = _NUMBER.match(line["taken"] or "")
    flows = tuple(map(flow_named, line["control_flows"]))
    skills = line["skills"]
    grammar = SubgoalGrammar(skills, int(number[1])) if number else DecisionGrammar(skills, flows)
    check(line, line["taken"], taken(line, grammar, cut=line["cut"]))


@pytest.mark.parametrize("line", lines_of("replies.jsonl"))
def test_a_reply_is_read_as_labelled_with_the_skills_that_are_known_of_its_moment(line: dict[str, Any]) -> None:
    refused = line["read_as"].startswith("REFUSED: ")
    was = None if refused else line["read_as"].replace(" | ", "\n")
    near = _NAMED.search(line["read_as"])
    done = re.findall(r"^Act(?:ion)?: (.*)$", was or "", re.MULTILINE)
    skills = tuple(dict.fromkeys([DONE, FAILURE, *(near[1].split(", ") if near else ()), *done]))
    number = _NUMBER.match(was or "")
    grammar: Grammar = DecisionGrammar(skills, tuple(map(flow_named, FLOWS)))
    if number or "'Subgoal: '" in line["read_as"] or (was or "").startswith("Action:"):
        new = "no subgoal yet" in line["read_as"]
        grammar = SubgoalGrammar(skills, int(number[1]) if number else 2, goes_on=not new)
    check(line, was, taken(line, grammar, cut=refused and "was cut" in line["read_as"]))


@pytest.mark.parametrize("line", [*lines_of("readings.jsonl"), *lines_of("replies.jsonl")])
def test_a_refusal_names_skills_of_the_verb_that_was_said_first(line: dict[str, Any]) -> None:
    if "nearest skills that are named mislead" not in line["note"]:
        return
    skills = line.get("skills") or _NAMED.search(line["read_as"])[1].split(", ")  # type: ignore[index]
    with pytest.raises(Unreadable) as error:
        read(line["reply"], DecisionGrammar(skills))
    named = _NAMED.search(str(error.value))
    assert named is not None
    assert named[1].startswith("put down ")
