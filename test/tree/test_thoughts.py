"""A thought that may not follow is not among what may be said, in whatever way a model is held or read."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from doubles import EVERYTHING, START, ScriptedWorld, scripted_episode
from hypothesis import given
from hypothesis import strategies as st

from reactree_ros.agent.grammar import LONGEST_LINE, LONGEST_THOUGHT, DecisionGrammar
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.think import Think
from reactree_ros.agent.reading import Unreadable, read, read_call
from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.record.schema import may_say_to_dict
from reactree_ros.tree.agent_node import REPEATED
from reactree_ros.tree.options import AS_RECORDED, TreeOptions

SKILLS = ("go to kitchen 1", "done")
MAY, MAY_NOT = (DecisionGrammar(SKILLS, questions=1, longest_thought=length) for length in (LONGEST_THOUGHT, 0))
THOUGHT = "Think: I need to find the apple."


# ---------------------------------------------------------------------- what may be said

#: Each way to tell a model what may be said, as a text in which a thought would show.
TOLD: dict[str, Callable[[DecisionGrammar], str]] = {
    "regex": lambda grammar: grammar.regex(),
    "ebnf": lambda grammar: grammar.ebnf(),
    "json schema": lambda grammar: json.dumps(grammar.json_schema()),
    "one schema": lambda grammar: json.dumps(grammar.one_schema()),
    "tools": lambda grammar: json.dumps(grammar.tools()),
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
        return Pending.of(Reply(thought if held else f"Act: {may_say.skills[-1]}"))


class Fridge(ScriptedWorld):
    """A world in which all that can be done is to open the fridge."""

    def __init__(self) -> None:
        super().__init__(skills=["open fridge 1"])


def said_by(thoughts: Iterator[str], *, decisions: int = 16, **options: Any) -> str:
    """What a model that broods says, as one letter for each decision."""
    model = Broods(thoughts)
    given = {"max_decisions": decisions, "stuck_after": 0} | options
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
        (same, 1, "TATATATATATATATA"),
        (same, 2, "TTATTATTATTATTAT"),
        (same, 5, "TTATTATTATTATTAT"),  # what came again does not come a third time
        (new, 0, "TTTTTTTTTTTTTTTT"),
        (new, 1, "TATATATATATATATA"),
        (new, 3, "TTTATTTATTTATTTA"),
    ],
)
def test_after_so_many_in_a_row_or_the_same_again_something_else_is_said(
    thoughts: Callable[[], Iterator[str]], most: int, said: str
) -> None:
    assert said_by(thoughts(), thoughts_in_a_row=most) == said


def test_one_that_came_again_is_answered_and_followed_by_something_else() -> None:
    model = Broods(same())
    run = scripted_episode({}, model=model, options=TreeOptions(max_decisions=4, thoughts_in_a_row=9))
    run.run()
    assert [may_think(request) for request in model.requests] == [True, True, False, True]
    assert REPEATED in run.context.nodes[0].text


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
            return Pending.of(Reply(THOUGHT))

    run = scripted_episode({}, model=Free(), options=TreeOptions(thoughts_in_a_row=1))
    result = run.run()
    assert (result.end, result.decisions) == ("refused", 4)  # a thought, and the same reply three times
    assert "You have thought already" in result.reason


def test_a_record_says_where_no_thought_was_allowed() -> None:
    assert may_say_to_dict(MAY_NOT) == {**may_say_to_dict(MAY), "no_thoughts": True}
    assert may_say_to_dict(MAY) == may_say_to_dict(replace(MAY, longest_thought=LONGEST_LINE))


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
