"""One declaration a kind of decision: everything else follows from it, for this package's kinds and for others."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Annotated, Any, get_args, get_type_hints

import llguidance
import pytest
from doubles import ScriptedModel, ScriptedWorld, expand, takes

from reactree_lab.bench.results import told_by
from reactree_lab.dataset.lines import Run, kind_of, lines_of
from reactree_lab.training.vocabulary import MaySay
from reactree_ros import plugins
from reactree_ros.agent.decision import (
    DECISIONS,
    DECLARED,
    ONE,
    RECORDED,
    Counts,
    Decision,
    Look,
    Node,
    Program,
    check_kind,
    kinds,
)
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.kinds.line import Line
from reactree_ros.agent.kinds.think import Ask, Think
from reactree_ros.agent.parameters import Choice, Number, Text
from reactree_ros.agent.reading import Unreadable, read, read_call
from reactree_ros.agent.turns import Said, turn_from_dict, turn_to_dict
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.episode.player import replay
from reactree_ros.errors import UserError
from reactree_ros.person.port import Answer, Person, Question
from reactree_ros.planners.spec import planner
from reactree_ros.record.checking import check_decision, check_turn, forms
from reactree_ros.record.moment import Moment
from reactree_ros.record.reader import Record
from reactree_ros.record.schema import Event
from reactree_ros.record.writer import Recorder
from reactree_ros.tree.flows import SequenceFlow
from reactree_ros.view import as_script
from reactree_ros.view.terminal import _decided as terminal_lines

SKILLS = ("done", "failure", "go to kitchen 1", "pick up apple 1")


@dataclass(frozen=True)
class Sing(Line):
    """A song, as somebody else declares it."""

    name = "sing"
    word = "Sing"
    rule = "Sing: A song for the people around."
    spellings = "sing|song"
    keys = ("sing", "song")
    noun = "a song"
    counts = ONE
    look = Look("Sing", "{sing}", colour="--accent", style="blue")
    tally = "sing"
    learnt = False

    song: Annotated[str, Text(40)]

    def carry_out(self, node: Node) -> Program:
        node.take(self)
        node.tell("They listen.")
        return None
        yield


@dataclass(frozen=True)
class Blink(Line):
    """A light, with several arguments."""

    name = "blink"
    word = "Blink"
    rule = "Blink: Show a light."
    form = "{colour} for {seconds} s, since {why}"
    counts = Counts(decisions=2, steps=0)
    look = Look("Blink", "{blink} {seconds}")
    tally = "light"
    learnt = True

    colour: Annotated[str, Choice(("red", "green"))]
    seconds: Annotated[int, Number(1, 60)]
    why: Annotated[str, Text(60)]

    def carry_out(self, node: Node) -> Program:
        node.take(self)
        node.tell("OK.")
        return None
        yield


STRANGE = {"sing": f"{__name__}:Sing", "blink": f"{__name__}:Blink"}


def forget() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("reactree_ros."):
            for one in vars(module).values():
                if hasattr(one, "cache_clear") and getattr(one, "__module__", "").startswith("reactree_ros."):
                    one.cache_clear()


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {name: EntryPoint(name, value, DECISIONS.group) for name, value in STRANGE.items()}
    own = {**plugins._own_points(), DECISIONS.group: {**DECISIONS._own, **points}}
    monkeypatch.setattr(plugins, "_own_points", lambda: own)
    monkeypatch.setattr(DECISIONS, "_loaded", {})
    forget()


@pytest.fixture
def strange(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    register(monkeypatch)
    yield
    monkeypatch.undo()
    forget()


GRAMMAR = DecisionGrammar(SKILLS, questions=3, more=("sing", "blink"))
SAID = (
    Think("Two things to do"), Act("go to kitchen 1"), Act("done"), Expand(SequenceFlow(), ("find it", "bring it")),
    Ask("Which cup?"), Sing("la la"), Blink("red", 5, "it is hot"),
)  # fmt: skip
each = pytest.mark.parametrize("decision", SAID, ids=str)


@each
@pytest.mark.usefixtures("strange")
def test_it_is_said_and_read_in_every_form(decision: Decision) -> None:
    text = str(decision)
    assert re.fullmatch(GRAMMAR.regex(), text)
    assert takes(llguidance.LLMatcher.grammar_from_lark(llguidance.gbnf_to_lark.gbnf_to_lark(GRAMMAR.ebnf())), text)
    values = [getattr(decision, name) for name in decision.arguments()]
    said = [str(one) if isinstance(decision, Expand) and name == "control_flow" else one
            for name, one in zip(decision.arguments(), values, strict=True)]  # fmt: skip
    arguments = dict(zip(decision.arguments(), map(_as_json, said), strict=True))
    held = next(iter(arguments.values())) if len(arguments) == 1 else arguments
    schema = GRAMMAR.json_schema()
    in_json = json.dumps({"decision": {decision.word: held}})
    assert takes(llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema)), in_json)
    (tool,) = [tool for tool in GRAMMAR.tools() if tool["name"] == decision.name]
    call = json.dumps(arguments)
    assert takes(llguidance.LLMatcher.grammar_from_json_schema(json.dumps(tool["parameters"])), call)
    assert read_call([(tool["name"], call)], GRAMMAR) == (Said(text, decision),)
    for form in (text, f"{text}\n", in_json, f"**{text}**" if "\n" not in text else text):
        assert [one.decision for one in read(form, GRAMMAR)] == [decision]


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@each
@pytest.mark.usefixtures("strange")
def test_it_is_written_down_and_read_back(decision: Decision) -> None:
    turn = Said(str(decision), decision)
    values = json.loads(json.dumps(turn_to_dict(turn)))
    assert turn_from_dict(values) == turn
    check_turn(values)
    for name in decision.recorded_fields():
        with pytest.raises(ValueError, match=r"is not a decision|holds no|must be|may not|is unknown|not said"):
            check_decision({key: value for key, value in values.items() if key != name} | {"said": 1})


@dataclass(frozen=True)
class Noted(Think):
    """A thought with an argument that may be left out."""

    name = "noted"
    why: str = ""


def test_an_argument_with_a_default_is_written_down_where_it_says_something() -> None:
    assert Noted("hm").as_dict() == {"noted": "hm"}
    for one in (Noted("hm"), Noted("hm", "so")):
        assert Noted.from_dict(one.as_dict()) == one


@each
@pytest.mark.usefixtures("strange")
def test_the_mask_of_the_training_knows_it(decision: Decision) -> None:
    flows = [flow.name for flow in GRAMMAR.control_flows]
    may = MaySay.from_values({"skills": SKILLS, "control_flows": flows, "questions": 1, "more": ["sing", "blink"]})
    assert may is not None
    assert str(decision) in may.whole or str(decision).startswith(may.begun)
    assert kind_of(str(decision), "decision") == decision.name


@pytest.mark.usefixtures("strange")
def test_what_may_not_be_said_is_refused_with_what_may() -> None:
    without = DecisionGrammar(SKILLS)
    with pytest.raises(Unreadable, match="A decision starts with 'Think: ', 'Act: ' or 'Expand:', not with 'Sing: la'"):
        read("Sing: la", without)
    with pytest.raises(Unreadable, match="'Sing:' may not be said here"):
        read('{"sing": "la"}', without)
    assert "'Ask: ', 'Blink: ' or 'Sing: '" in GRAMMAR.expected
    with pytest.raises(Unreadable, match="Nothing follows 'Sing:'; write a song on the same line"):
        read("Sing:", GRAMMAR)
    with pytest.raises(Unreadable, match="'Sing:' cannot be read: song: a text of 41 characters may not stand here"):
        read(f"Sing: {'l' * 41}", GRAMMAR)
    with pytest.raises(Unreadable, match="'Blink:' cannot be read: seconds: 99 may not stand here"):
        read("Blink: red for 99 s, since it is hot", GRAMMAR)
    with pytest.raises(Unreadable, match="A decision starts with"):
        read("I will not do this: Sing: la", GRAMMAR)
    with pytest.raises(Unreadable, match="Say one decision at a time"):
        read("Sing: la\nAct: done", GRAMMAR)
    assert [str(one.decision) for one in read("Thought: they wait\nSong: la la", GRAMMAR)] == [
        "Think: they wait",
        "Sing: la la",
    ]


class Knows(Person):
    """Answers every question at once."""

    def ask(self, question: Question) -> Pending[Answer]:
        return Pending.ready(Answer("the red one", "test"))


SCRIPT = {
    "root": [
        "Think: they wait",
        "Sing: la la",
        "Blink: green for 2 s, since it is safe",
        expand("sequence", "go there"),
    ],
    "go there": ["Act: go to kitchen 1", "Act: done"],
}


@pytest.mark.usefixtures("strange")
def test_a_run_takes_it_records_it_shows_it_counts_it_and_learns_it() -> None:
    events: list[Event] = []
    model = ScriptedModel(SCRIPT)
    chosen = planner("reactree:more_decisions=sing+blink")
    episode = Episode("root", world=ScriptedWorld(), model=model, planner=chosen, record=Recorder(events.append))
    result = episode.run()
    assert (result.end, result.decisions, result.steps) == ("done", 1 + 1 + 2 + 1 + 1, 1)
    system = model.requests[0].turns[0].text
    assert "\n4. Blink: Show a light.\n5. Sing: A song for the people around.\n" in system
    assert model.requests[1].turns[-1].text == "OK."
    assert model.requests[2].turns[-1].text == "They listen."
    decided = [event for event in events if event["e"] == "decided"]
    assert [(event.get("sing"), event.get("blink")) for event in decided[1:3]] == [("la la", None), (None, "green")]
    assert replay(Record(tuple(events), "test")).identical
    moment, shown = Moment(), list[tuple[str, str]]()
    for event in events:
        moment.apply(event)
        if event["e"] == "decided":
            shown += [(line.text, line.style) for line in terminal_lines(moment, event)]
    assert ("Sing: la la", "blue") in shown
    assert [event.kind for event in told_by(events).events] == ["think", "sing", "light", "expand", "act", "end"]
    lines = list(lines_of(events, Run(house="1", task="1", planner="reactree")))
    assert [(line.kind, line.learn) for line in lines[:4]] == [
        ("think", True),
        ("sing", False),
        ("blink", True),
        ("expand", True),
    ]
    assert lines[0].may_say["more"] == ["sing", "blink"]
    assert '"sing": {"label": "Sing", "words": "{sing}", "colour": "--accent"' in as_script()


@pytest.mark.usefixtures("strange")
def test_a_flat_agent_takes_it_too() -> None:
    model = ScriptedModel({"root": ["Blink: green for 2 s, since it is safe", "Act: done"]})
    chosen = planner("react:more_decisions=blink")
    assert Episode("root", world=ScriptedWorld(), model=model, planner=chosen).run().decisions == 2


def test_the_bench_counts_questions_and_a_dataset_has_them() -> None:
    events: list[Event] = []
    model, chosen = ScriptedModel({"root": ["Ask: Which cup?", "Act: done"]}), planner("reactree:questions=2")
    record = Recorder(events.append)
    episode = Episode("root", world=ScriptedWorld(), model=model, planner=chosen, person=Knows(), record=record)
    assert episode.run().questions == 1
    assert [event.kind for event in told_by(events).events] == ["ask", "end"]
    asked, ended = lines_of(events, Run(house="1", task="1", planner="reactree"))
    assert (asked.kind, asked.completion, asked.learn) == ("ask", "Ask: Which cup?", True)
    may = MaySay.from_values(asked.may_say)
    assert may is not None
    assert "Ask: " in may.begun
    assert asked.may_say["questions"] == 2
    assert ended.may_say["questions"] == 1
    assert "Ask: " not in getattr(MaySay.from_values({"skills": SKILLS, "control_flows": []}), "begun", ())


# ---------------------------------------------------------------------- declarations


PARTS = (*DECLARED, *sorted(Decision.__abstractmethods__))


def complete(**other: Any) -> dict[str, Any]:
    return {
        "name": "hum",
        "word": "Hum",
        "rule": "Hum: a tune.",
        "counts": ONE,
        "look": Look("Hum", "{hum}"),
        "tally": "hum",
        "learnt": True,
        **{part: (lambda *given: None) for part in Decision.__abstractmethods__},
        **other,
    }


def declared(parts: dict[str, Any], *, fields: bool = True) -> Any:
    kind = type(Decision)("Hum", (Decision,), {**parts, "__annotations__": {"tune": str} if fields else {}})
    kind.__str__ = parts.get("__str__", Decision.__str__)  # type: ignore[method-assign]
    return dataclass(frozen=True)(kind)


def test_a_kind_that_declares_everything_is_taken() -> None:
    check_kind(declared(complete()))
    for kind in DECISIONS:
        check_kind(kind)  # type: ignore[arg-type]


@pytest.mark.parametrize("part", PARTS)
def test_a_kind_that_is_silent_on_a_part_is_refused_with_its_name(part: str) -> None:
    parts = complete()
    del parts[part]
    with pytest.raises(UserError, match=rf"decision kind Hum of .* does not declare '{part}'"):
        check_kind(declared(parts))


def test_a_kind_without_arguments_is_refused() -> None:
    with pytest.raises(UserError, match="has no 'fields'"):
        check_kind(declared(complete(), fields=False))


@pytest.mark.parametrize(
    "clash",
    [
        {"word": "Ask"},
        {"spellings": "sing|reflection"},
        {"spellings": "sing|(?:the )?clarification"},
        {"keys": ("song", "question")},
        {"name": "subgoals"},
    ],
)
def test_what_announces_another_kind_is_refused(clash: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in clash.items():
        monkeypatch.setattr(Sing, name, value)
    register(monkeypatch)
    with pytest.raises(
        UserError, match=r"stands for the decision kinds '(think|ask|expand)' and '(sing|subgoals)'; rename"
    ):
        kinds()
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"name": "Hum it"}, "has the name 'Hum it'; use small letters"),
        ({"name": "node"}, "calls an argument 'node', as a record's own field is called; rename it"),
        ({"spellings": "hum("}, "'spellings' is not a regular expression"),
        ({"spellings": "(hum|tune)"}, r"'spellings' has groups; write them as \(\?:…\)"),
    ],
)
def test_what_would_break_others_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=f"decision kind Hum of .*{says}"):
        check_kind(declared(complete(**wrong)))


@dataclass(frozen=True)
class Half(Sing):
    """A song, and how often, which has no place on the line."""

    name = "half"
    times: Annotated[int, Number(1, 3)]


@dataclass(frozen=True)
class Two(Sing):
    """Two texts, one of which says nothing of where it ends."""

    name = "two"
    more: str


@pytest.mark.parametrize("kind", [Half, Two])
def test_a_line_that_has_no_place_for_an_argument_is_refused(kind: Any) -> None:
    with pytest.raises(UserError, match=r"decision kind '(half|two)'.* (name each of its|declare one of each)"):
        check_kind(kind)


def test_the_names_of_a_record_are_no_arguments() -> None:
    fields = {name for kind in ("turn", "decided", "refused") for name in get_type_hints(get_args(forms()[kind])[0])}
    assert fields <= RECORDED


# ---------------------------------------------------------------------- nobody else enumerates them
