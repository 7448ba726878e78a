"""What may stand where is declared once: its patterns, schema, reading and writing agree, whatever is declared."""

from __future__ import annotations

import itertools
import json
import re
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import llguidance
import pytest
from doubles import takes
from hypothesis import assume, given
from hypothesis import strategies as st

from reactree_ros.agent.parameters import (
    GBNF,
    MOST_VALUES,
    REGEX,
    Boolean,
    Choice,
    List,
    Number,
    Parameter,
    ParameterError,
    Person,
    Place,
    Pose,
    Room,
    Text,
    Thing,
)
from reactree_ros.agent.skill import Offer, Skill, check_told_apart, offered_of, read_skill, skill_in, skill_of
from reactree_ros.agent.text import words
from reactree_ros.agent.wording import Wording

NAMES = (
    "cup 1",
    "cup 2",
    "kitchen table 1",
    "office 2B",
    "Anna",
    "Dr. Müller",
    "C-3PO",
    "shelf (left)",
    "salt and pepper",
)
_plain = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12)


@st.composite
def numbers(draw: st.DrawFn) -> Number:
    digits = draw(st.integers(0, 3))
    step = draw(st.sampled_from([1, 2, 3, 5, 7, 15, 25])) / 10**digits
    least = draw(st.integers(-300, 300)) / 10**digits
    most = least + step * draw(st.integers(0, 200)) + draw(st.sampled_from([0, step / 3]))
    if digits == 0:
        return Number(int(least), int(most), int(step), unit=draw(st.sampled_from(["", "m", "cm"])))
    return Number(least, round(most, 9), step, unit="m")


def all_of(number: Number) -> list[float]:
    values = itertools.count(number.least, number.step)
    return [round(value, 6) for value in itertools.takewhile(lambda one: one <= number.most + 1e-9, values)]


Declared = tuple[Parameter, list[str]]
_names = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)
_named: st.SearchStrategy[Declared] = st.tuples(st.sampled_from([Thing(), Place(), Room(), Person()]), _names)
_choice: st.SearchStrategy[Declared] = _names.map(lambda names: (Choice(tuple(names)), names))
_number: st.SearchStrategy[Declared] = st.tuples(numbers(), st.just([]))
_text: st.SearchStrategy[Declared] = st.tuples(st.integers(1, 40).map(Text), st.just([]))
_one_of_many = st.one_of(_named, _choice, _number, _text)
_boolean: st.SearchStrategy[Declared] = st.just((Boolean("open", "closed"), []))
_pose: st.SearchStrategy[Declared] = st.builds(lambda a, b, c: (Pose("map", a, b, c), []), *[numbers()] * 3)
_list: st.SearchStrategy[Declared] = st.tuples(_one_of_many, st.integers(1, 4)).map(
    lambda drawn: (List(drawn[0][0], drawn[1]), drawn[0][1])
)
PARAMETERS = st.one_of(_one_of_many, _boolean, _pose, _list)


def value_of(data: st.DataObject, parameter: Parameter, now: list[str] | None) -> object:
    if isinstance(parameter, Number):
        return data.draw(st.sampled_from(all_of(parameter)))
    if isinstance(parameter, List):
        each = st.builds(lambda: parameter.of.read(value_of(data, parameter.of, now), now))
        return data.draw(st.lists(each, min_size=1, max_size=parameter.most, unique=True))
    if isinstance(parameter, Pose):
        return {name: value_of(data, getattr(parameter, name), None) for name in ("x", "y", "yaw")}
    if isinstance(parameter, Text):
        return data.draw(_plain.map(lambda text: text.strip(" \r")[: parameter.longest].strip(" \r") or "a"))
    return data.draw(st.sampled_from(parameter.options(now) or ["?"]))


@given(PARAMETERS, st.data())
def test_what_is_written_is_read_again(declared: Declared, data: st.DataObject) -> None:
    parameter, now = declared
    value = parameter.read(value_of(data, parameter, now), now)
    text = parameter.write(value)
    assert parameter.read(text, now) == value
    assert re.fullmatch(parameter.pattern(REGEX, now), text)


@pytest.mark.slow
@given(PARAMETERS, st.data())
def test_the_pattern_has_nothing_that_is_not_read(declared: Declared, data: st.DataObject) -> None:
    parameter, now = declared
    text = data.draw(st.from_regex(parameter.pattern(REGEX, now), fullmatch=True))
    try:
        value = parameter.read(text, now)
    except ParameterError as error:  # no grammar can say that no value may come twice
        known = isinstance(parameter, List) and ("is named twice" in str(error) or isinstance(parameter.of, Text))
        assume(not known)
        raise
    assert isinstance(parameter, Text | List) or parameter.write(value) == text


@given(
    PARAMETERS.filter(lambda one: not isinstance(one[0], Text | List | Pose)), st.text("0123456789-.+ mcup", max_size=8)
)
def test_what_is_not_written_so_is_not_in_the_pattern(declared: Declared, text: str) -> None:
    parameter, now = declared
    try:
        written = parameter.write(parameter.read(text, now))
    except ParameterError as error:
        written, (line,) = None, str(error).splitlines()
        assert line
    assert bool(re.fullmatch(parameter.pattern(REGEX, now), text)) == (written == text)


@given(numbers())
def test_a_number_takes_each_of_its_steps_and_nothing_beside(number: Number) -> None:
    steps = all_of(number)
    assert [number.read(value) for value in steps] == pytest.approx(steps)
    for beside in (number.least - number.step, steps[-1] + number.step, steps[0] + number.step / 2):
        with pytest.raises(ParameterError, match="may not stand here, but a number from"):
            number.read(beside)


@pytest.mark.parametrize("said", ["1.5", "1.50", "+1.5", " 1.5 m ", "1.5m", "`1.5`", "\uff11.\uff15", 1.5, "1.5."])
def test_a_number_is_read_in_any_dress(said: object) -> None:
    assert Number(-2.0, 2.0, 0.1, "m").read(said) == 1.5


@pytest.mark.parametrize(
    "said",
    [
        "", "-", ".", "much", "1.5 cm", "150 cm", "1,5", "1e0", "NaN", "inf", "0x1", "1 2", float("nan"),
        float("inf"), *(True, None, [1], {}, 10**400, -(10**400), "9" * 5000, 2.01, "2.1", "1.55"),
    ],
)  # fmt: skip
def test_what_is_no_such_number_is_refused_in_one_line(said: object) -> None:
    with pytest.raises(ParameterError) as refused:
        Number(-2.0, 2.0, 0.1, "m").read(said)
    assert len(str(refused.value)) < 200
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    "said", ["cup 1", "The CUP 1.", "a cup 1", "`cup_1`", '"Cup 1"', "<cup> (1)", "cup: 1", "cup #1", "CUP 1"]
)
def test_a_name_is_read_in_any_dress(said: str) -> None:
    assert Thing().read(said, NAMES) == "cup 1"


@pytest.mark.parametrize("said", ["cup", "cup 3", "cup 1 and cup 2", "cup 1 2", "", "cup 11", None, ["cup 1"]])
def test_a_name_that_may_not_stand_there_is_refused_with_those_that_may(said: object) -> None:
    with pytest.raises(ParameterError) as refused:
        Thing().read(said, NAMES[:2])
    assert "may not stand here" in str(refused.value)


def test_names_that_differ_by_dress_alone_are_not_guessed() -> None:
    assert Thing().read("a-b", ("a b", "a-b")) == "a-b"
    with pytest.raises(ParameterError):
        Thing().read("A B", ("a b", "a-b"))


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Number(1, 0),
        lambda: Number(0.0, float("inf")),
        lambda: Number(0, MOST_VALUES + 1),
        lambda: Number(0, 1, -1),
        lambda: Choice(()),
        lambda: Choice(("left", "Left")),
        lambda: Choice(("",)),
        lambda: Text(0),
    ],
)
def test_what_cannot_be_declared_is_refused(declare: object) -> None:
    with pytest.raises(ValueError, match=r"not numbers|over 10000|not a choice|says nothing"):
        declare()  # type: ignore[operator]


def test_a_text_is_never_cut() -> None:
    assert Text(5).read("Hello") == "Hello"
    with pytest.raises(ParameterError, match="a text of 6 characters may not stand here"):
        Text(5).read("Hello!")


# ---- wordings


WORDINGS: dict[str, dict[str, Parameter]] = {
    "drive forward by {distance} m": {"distance": Number(-2.0, 2.0, 0.1, "m")},
    "pour from {source} into {target}": {"source": Thing(), "target": Thing()},
    "grip with {force} force": {"force": Choice(("low", "medium", "high"))},
    "say {text}": {"text": Text(60)},
    "say {text} to {person}": {"text": Text(60), "person": Person()},
    "wipe {place} for {seconds} s": {"place": Place(), "seconds": Number(1, 60, unit="s")},
    "put {thing} {relation} {place} on the {side}": {
        "thing": Thing(),
        "relation": Choice(("on", "in", "next to")),
        "place": Place(),
        "side": Choice(("left", "middle", "right")),
    },
    "dock": {},
    "go to {place}[ at {speed} m/s][, {quietly}]": {
        "place": Place(),
        "speed": Number(0.1, 1.2, 0.1, "m/s", default=0.5),
        "quietly": Boolean("quietly", "as usual", default=False),
    },
    "tell {person} of {note}[ and show {things}] at {spot}": {
        "person": Person(),
        "note": Text(20),
        "things": List(Thing(), 3, default=("cup 1",)),
        "spot": Pose(),
    },
    "call {text}[ for {person}]": {"text": Text(60), "person": Person(default="Bob")},
}
MAY_LACK = "go to {place}[ at {speed} m/s][, {quietly}]"
REFUSED = object()
NOW = {
    "source": ["cup 1", "cup 2"],
    "target": ["bowl 1", "cup 1"],
    "person": ["Anna", "Bob"],
    "thing": ["cup 1"],
    "place": ["desk 1"],
    "things": ["cup 1", "cup 2", "salt and pepper"],
}


def wording(template: str) -> Wording:
    return Wording(template, WORDINGS[template])


def values_of(data: st.DataObject, one: Wording) -> dict[str, object]:
    return {
        name: parameter.read(value_of(data, parameter, NOW.get(name)), NOW.get(name))
        for name, parameter in one.parameters.items()
    }


@given(st.sampled_from(sorted(WORDINGS)), st.data())
def test_a_wording_reads_what_it_writes(template: str, data: st.DataObject) -> None:
    one = wording(template)
    values = values_of(data, one)
    text = one.write(values)  # type: ignore[arg-type]
    assert one.read(text, NOW) == values
    assert one.read(values, NOW) == values
    with suppress(ParameterError):  # with names that nobody knows, it is refused or the same
        assert one.read(text) == values
    assert re.fullmatch(one.pattern(REGEX, NOW), text)
    options = one.options(NOW)
    assert options is None or text in options


@given(st.sampled_from(sorted(WORDINGS)), st.data())
def test_a_wordings_pattern_has_nothing_that_is_not_read(template: str, data: st.DataObject) -> None:
    one = wording(template)
    text = data.draw(st.from_regex(one.pattern(REGEX, NOW), fullmatch=True))
    try:
        values = one.read(text, NOW)
    except ParameterError as error:
        assume("is named twice" not in str(error))
        raise
    assert one.read(one.write(values), NOW) == values


@pytest.mark.slow
@given(st.sampled_from(sorted(WORDINGS)), st.data())
def test_both_notations_say_the_same(template: str, data: st.DataObject) -> None:
    one = wording(template)
    right = one.write(values_of(data, one))  # type: ignore[arg-type]
    at = data.draw(st.integers(0, len(right)))
    wrong = right[:at] + data.draw(st.sampled_from(["x", " ", "9", '"', "\\"])) + right[at + 1 :]
    ebnf = llguidance.gbnf_to_lark.gbnf_to_lark(f"root ::= {one.pattern(GBNF, NOW)}")
    for text in (right, wrong):
        assume(text)
        expected = re.fullmatch(one.pattern(REGEX, NOW), text) is not None
        assert takes(llguidance.LLMatcher.grammar_from_lark(ebnf), text) == expected
        assert takes(llguidance.LLMatcher.grammar_from_regex(one.pattern(REGEX, NOW)), text) == expected


@pytest.mark.parametrize(
    ("template", "said", "values"),
    [
        ("drive forward by {distance} m", "Drive  Forward by 0.5m.", {"distance": 0.5}),
        ("drive forward by {distance} m", {"Distance": "0.5 m"}, {"distance": 0.5}),
        (
            "pour from {source} into {target}",
            "pour from the Cup 1 into a bowl 1",
            {"source": "cup 1", "target": "bowl 1"},
        ),
        ("say {text}", "say Hello Anna. This is from Bob.", {"text": "Hello Anna. This is from Bob."}),
        ("say {text}", 'say "Hello Anna."', {"text": "Hello Anna."}),
        ("say {text}", 'say "a" and "b"', {"text": '"a" and "b"'}),
        ("say {text}", {"text": "go to\nkitchen 1"}, {"text": "go to kitchen 1"}),
        ("say {text} to {person}", "say go to Bob to Anna", {"text": "go to Bob", "person": "Anna"}),
        ("say {text} to {person}", 'say "to Bob" to Anna', {"text": "to Bob", "person": "Anna"}),
        ("dock", "Dock.", {}),
        (MAY_LACK, "go to desk 1", {"place": "desk 1", "speed": 0.5, "quietly": False}),
        (MAY_LACK, "Go to the desk 1 at 0.5 m/s.", {"place": "desk 1", "speed": 0.5, "quietly": False}),
        (MAY_LACK, "go to desk 1, quietly", {"place": "desk 1", "speed": 0.5, "quietly": True}),
        (MAY_LACK, 'go to {"place": "desk 1", "speed": null}', {"place": "desk 1", "speed": 0.5, "quietly": False}),
        (MAY_LACK, {"place": "desk 1", "quietly": True}, {"place": "desk 1", "speed": 0.5, "quietly": True}),
        ("call {text}[ for {person}]", "call it a day", {"text": "it a day", "person": "Bob"}),
        ("call {text}[ for {person}]", "call it a day for Anna", {"text": "it a day", "person": "Anna"}),
        ("call {text}[ for {person}]", 'call "it a day for Anna"', {"text": "it a day for Anna", "person": "Bob"}),
    ],
)
def test_a_wording_is_lenient_in_form(template: str, said: object, values: dict[str, object]) -> None:
    assert wording(template).read(said, NOW) == values  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("template", "said", "reason"),
    [
        ("drive forward by {distance} m", "drive forward by 2.1 m", "distance: "),
        (
            "drive forward by {distance} m",
            "drive forward by 50 cm",
            "is not said as 'drive forward by {distance} m'; distance is a number from -2 to 2 m by 0.1",
        ),
        ("drive forward by {distance} m", {"distance": "50 cm"}, "distance: "),
        ("drive forward by {distance} m", {"distance": 1, "speed": 9}, "'speed' is not a parameter"),
        ("drive forward by {distance} m", {"distance": 1, "Distance": 2}, "'Distance' is not a parameter"),
        ("drive forward by {distance} m", {}, "distance: it is not said"),
        ("drive forward by {distance} m", "drive forward by 1 m and 1 m", "distance: "),
        ("pour from {source} into {target}", "pour from cup 9 into bowl 1", "source: 'cup 9' may not stand here"),
        ("pour from {source} into {target}", "pour from bowl 1 into cup 1", "source: "),
        (
            "grip with {force} force",
            "grip with all force",
            "force: 'all' may not stand here; what may: low, medium, high",
        ),
        ("say {text}", "say", "text: nothing is said here"),
        ("say {text}", "say " + "a" * 61, "text: a text of 61 characters"),
        ("say {text} to {person}", "say hello to Eve", "person: 'Eve' may not stand here; what may: Anna, Bob"),
        ("dock", "dock now", "is not said as 'dock'"),
        (MAY_LACK, "go to desk 1 at 3 m/s", "speed: 3 may not stand here, but a number from 0.1 to 1.2 m/s by 0.1"),
        (MAY_LACK, "go to", "place: '' may not stand here"),
        (MAY_LACK, {"speed": 0.5}, "place: it is not said"),
        ("call {text}[ for {person}]", "call it a day for Eve", "person: 'Eve' may not stand here"),
    ],
)
def test_a_wording_is_strict_in_meaning(template: str, said: object, reason: str) -> None:
    with pytest.raises(ParameterError) as refused:
        wording(template).read(said, NOW)  # type: ignore[arg-type]
    assert reason in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_a_part_that_is_left_out_says_what_may_stand_there_now() -> None:
    one = Wording("bring it[ to {person}]", {"person": Person(default="Bob")})
    assert one.write({"person": "Bob"}) == "bring it"
    assert one.schema()["required"] == []
    for now, may_lack in ((["Bob", "Anna"], True), (["Anna"], False)):
        assert bool(re.fullmatch(one.pattern(REGEX, {"person": now}), "bring it")) == may_lack
    with pytest.raises(ParameterError, match="person: 'Bob' may not stand here; what may: Anna"):
        one.read("bring it", {"person": ["Anna"]})


def test_what_was_returned_stands_where_it_fits_and_is_put_in_once() -> None:
    given = {"code": "A <where> 7", "where": {"x": 1.0, "y": 2.0, "yaw": 0}, "level": 5, "photo": None}
    tell = Offer(skill("tell {person}: {text}", person="person", text={"text": 30}), {"person": ("Anna",)}, given)
    come = Offer(skill("come to {spot}[ at {v}]", spot="pose", v={**numbers(1, 9), "default": 2}), {}, given)
    assert tell.read("tell Anna: it is <code>, <level> % of <x>") == "tell Anna: it is A <where> 7, 5 % of <x>"
    assert come.read("come to <where> at <level>").values == {"spot": given["where"], "v": 5}
    assert come.read({"spot": "<where>"}) == "come to x 1, y 2, yaw 0"
    for offer, said, reason in (
        (tell, "tell Anna: <photo>", "<photo> stands for nothing yet"),
        (tell, "tell Anna: <where>", "<where> is not text"),
        (tell, "tell <code>: hello", "person: 'A <where> 7' may not stand here"),
        (come, "come to <level>", "spot: 5 may not stand here, but a pose"),
    ):
        with pytest.raises(ParameterError, match=re.escape(reason)):
            offer.read(said)
    for notation in (REGEX, GBNF):
        assert [notation.literal(f"<{one}>") in come.pattern(notation) for one in given] == [False, True, True, False]
    assert come.schema()["properties"]["spot"]["anyOf"][1] == {"type": "string", "enum": ["<where>"]}
    assert offered_of(json.loads(json.dumps(come.as_data()))) == come
    assert Offer(come.skill).pattern(REGEX) == come.skill.words.pattern(REGEX)


def test_an_offer_has_only_places_of_its_skill() -> None:
    go = skill("go to {place}", place="place")
    with pytest.raises(ValueError, match=r"'plase' is not a place of 'go to {place}'; did you mean 'place'\?"):
        Offer(go, {"plase": ("desk",)})


def test_what_a_skill_returns_has_no_dot_in_its_name() -> None:
    with pytest.raises(ValueError, match=r"returns: 'a\.b' has a dot"):
        skill_of({"name": "weigh", "wording": "weigh", "returns": {"a.b": numbers(0, 9)}})


def test_nothing_to_list_is_nothing_to_do() -> None:
    fetch = skill("fetch {items}", items={"list": "thing"})
    assert [fetch.words.possible({"items": names}) for names in ((), [], ["cup 1"])] == [False, False, True]


def test_a_name_that_nobody_knows_has_no_words_of_a_part_that_may_be_left_out() -> None:
    skills = [skill("go to {place}[ at {v} m/s]", place="place", v={**numbers(1, 5), "default": 2}), skill("go to bed")]
    assert read_skill("go to desk at 3 m/s", skills).values == {"place": "desk", "v": 3}
    assert read_skill("go to bed", skills).skill.wording == "go to bed"
    with pytest.raises(ParameterError, match="v: 9 may not stand here"):
        read_skill("go to desk at 9 m/s", skills)


@pytest.mark.parametrize(
    ("declared", "said", "value"),
    [
        (List(Thing(), 3), "The cup 1, a cup 2, and 'salt and pepper'", REFUSED),
        (List(Thing(), 3), 'The cup 1, cup 2, and "salt and pepper".', ("cup 1", "cup 2", "salt and pepper")),
        (List(Thing(), 3), ["cup 1"], ("cup 1",)),
        (List(Thing(), 3), "cup 1", ("cup 1",)),
        *((List(Thing(), 3), said, REFUSED) for said in ("cup 1 and cup 1", [], "", "cup 1 and", '"cup 1', "cup 9", 5)),
        (List(Thing(), 3), ["cup 1", "cup 2", "C-3PO", "Anna"], REFUSED),
        (List(Text(9), 3), "urgent", ("urgent",)),
        (List(Text(9), 3), '"a, b" and "c \\"d\\""', ("a, b", 'c "d"')),
        *((List(Text(9), 3), said, REFUSED) for said in ("a, b", '"a" and b', "far too long a text", [["a"]])),
        (List(Number(1, 9), 9), "1, 2 and 3", (1, 2, 3)),
        (Boolean("open", "closed"), "OPEN", True),
        *((Boolean("open", "closed"), said, False) for said in (False, "false", "closed")),
        *((Boolean("open", "closed"), said, REFUSED) for said in ("ajar", "", 1, None, ["open"])),
        *(
            (Pose(), said, {"x": 1.5, "y": -2, "yaw": 90})
            for said in ("X: 1.5 m, Y=-2 yaw 90°", "(x 1.5, y -2, yaw 90)")
        ),
        *(
            (Pose(), {"x": 1, "y": "2", "yaw": yaw}, ok)
            for yaw, ok in ((0, {"x": 1, "y": 2, "yaw": 0}), (181, REFUSED))
        ),
        *(
            (Pose(), said, REFUSED)
            for said in ("1.5, -2, 90", "x 1, y 2", {"x": 1, "y": 2}, [1, 2, 3], "x 1.51, y 0, yaw 0")
        ),
    ],
)
def test_lists_booleans_and_poses_are_read_leniently_and_never_guessed(
    declared: Parameter, said: object, value: object
) -> None:
    if value is not REFUSED:
        assert declared.read(said, NAMES) == value
        return
    with pytest.raises(ParameterError) as refused:
        declared.read(said, NAMES)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    "declared",
    [
        {"number": {"from": 0, "to": 2, "by": 0.5}, "default": 0.5},
        {"boolean": ["open", "closed"], "default": False},
        {"list": {"thing": "GRABBABLE"}, "most": 3},
        {"list": {"choice": ["a", "b"]}, "most": 2, "default": ["a", "b"]},
        {"pose": {"frame": "odom", **{name: {"from": -1, "to": 1, "by": 0.5} for name in ("x", "y", "yaw")}}},
    ],
)
def test_what_a_file_declares_is_what_a_message_carries(declared: Any) -> None:
    made = skill("do {it}", it=declared)
    assert json.loads(json.dumps(made.as_data()))["parameters"]["it"] == declared
    assert skill_of(json.loads(json.dumps(made.as_data()))) == made
    assert skill_in(json.loads(json.dumps(made.as_fields()), object_hook=lambda part: SimpleNamespace(**part))) == made


@pytest.mark.parametrize(
    ("wording", "declared", "reason"),
    [
        ("go[ to {it}]", "place", "{it} may be left out, so it needs a default"),
        ("go[ to[ the {it}]]", {"place": None, "default": "desk 1"}, "or one inside another"),
        ("[quickly {it} ]go", {"choice": ["a"], "default": "a"}, "has to begin with a word"),
        ("go {it}", {"number": {"from": 0, "to": 2}, "default": 3}, "it: 3 may not stand here"),
        ("go {it}", {"boolean": [True, False]}, "True is not a name; put it in quotes"),
        ("go {it}", {"boolean": "open"}, "not two words"),
        ("go {it}", {"boolean": ["open", "Open"]}, "is not a choice"),
        ("go {it}", {"list": {"list": "thing"}}, "a list is of names, options, numbers or texts"),
        ("go {it}", {"list": "thing", "most": 0}, "most: 0 is not a number from 1 to 64"),
        ("go {it}", {"thing": None, "most": 3}, "is not a kind of parameter"),
        ("go {it}", {"pose": {"z": 1}}, "'z' says nothing of a pose"),
    ],
)
def test_what_cannot_be_left_out_listed_or_placed_is_refused(wording: str, declared: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)) as refused:
        skill(wording, it=declared).words  # noqa: B018
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    "template",
    ["fetch {a} and {b}", "fetch {a}, {b}", "fetch {b} {a}"],
)
def test_a_list_ends_where_another_word_is(template: str) -> None:
    with pytest.raises(ValueError, match="needs a word between"):
        Wording(template, {"a": List(Thing()), "b": Thing()})


def test_what_is_needed_is_needed_of_each_of_a_list_and_has_no_effect_on_several() -> None:
    load = skill_of(
        {
            "name": "load",
            "wording": "load {items}",
            "parameters": {"items": {"list": "thing"}},
            "requires": {"held": "{items}"},
        }
    )

    class Holding:
        def holds(self, fact: str, about: str) -> bool:
            return about == "cup 1"

        def those(self, fact: str, about: str) -> list[str]:
            return []

    (need,) = load.requires
    assert not [*load.read("load cup 1").unmet(Holding())]
    assert [*load.read("load cup 1 and cup 2").unmet(Holding())] == [need]
    assert need.reason({"items": ("cup 1", "cup 2")}, Holding()) == "you do not hold cup 2"
    for where, of in (
        ("effect", {"effect": {"held": "items"}}),
        ("requires", {"requires": {"number": {"items": {"at_most": 1}}}}),
    ):
        with pytest.raises(ValueError, match=f"{where}.*'items' is a list"):
            skill_of({**load.as_data(), **of})


def test_what_a_skill_uses_is_a_list_and_no_letters_of_a_word() -> None:
    with pytest.raises(ValueError, match=r"^uses: 'base' is not a list; write it like \[base, arm\]$"):
        skill_of({"name": "drive", "wording": "drive", "uses": "base"})


@pytest.mark.parametrize(
    ("template", "parameters"),
    [
        ("go to {place}", {}),
        ("go to", {"place": Place()}),
        ("go {place} {room}", {"place": Place(), "room": Room()}),
        ("go to {place} or {place}", {"place": Place()}),
        ("go to {place:>9}", {"place": Place()}),
        ("go to {place.name}", {"place": Place()}),
    ],
)
def test_a_template_that_does_not_fit_is_refused(template: str, parameters: dict[str, Parameter]) -> None:
    with pytest.raises(ValueError, match=r"place-holder|each of its parameters|a word between"):
        Wording(template, parameters)


def test_options_are_all_that_may_be_said() -> None:
    assert wording("pour from {source} into {target}").options(NOW) == [
        f"pour from {source} into {target}" for source in NOW["source"] for target in NOW["target"]
    ]
    assert wording("say {text}").options(NOW) is None
    assert not wording("pour from {source} into {target}").possible({"source": ["cup 1"], "target": []})


def test_what_are_too_many_to_list_is_said_by_the_pattern_alone() -> None:
    wording = Wording("mix {a} {b} {c}", {name: Choice(tuple(f"{name}{n}" for n in range(40))) for name in "abc"})
    assert wording.options() is None
    assert re.fullmatch(wording.pattern(REGEX), "mix a1 b39 c0")
    assert wording.read("mix a1 b39 c0") == {"a": "a1", "b": "b39", "c": "c0"}


@pytest.mark.parametrize("end", ["", " zz"])
def test_a_text_full_of_the_words_between_is_taken_apart_in_few_steps(end: str, monkeypatch: Any) -> None:
    wording = Wording("say {a} x {b} x {c} x {d} x {e} zz", {name: Text(2000) for name in "abcde"})
    steps, on = itertools.count(), Wording._ways_on

    def counted(self: Wording, *arguments: Any) -> Any:
        next(steps)
        return on(self, *arguments)

    monkeypatch.setattr(Wording, "_ways_on", counted)
    said = "say " + " x ".join(["q"] * 300) + end
    assert wording.says(said) is bool(end)
    with pytest.raises(ParameterError, match="in several ways" if end else "is not said as"):
        wording.read(said)
    assert next(steps) < 2000


def test_words_are_what_a_text_says() -> None:
    assert words("The Cup, (1).") == ("the", "cup", "1")


WEIGHT, LEVEL = Number(0, 20, 0.01, "kg"), Number(0, 100, unit="%")
AS_DECLARED = ""
NOT_WEIGHED = " (it should be a number from 0 to 20 kg by 0.01)"


@pytest.mark.parametrize(
    ("declared", "came", "kept", "said"),
    [
        (WEIGHT, 0.30000001192092896, 0.3, AS_DECLARED), (WEIGHT, 0.304, 0.3, AS_DECLARED),
        (WEIGHT, 20.004, 20.0, AS_DECLARED), (WEIGHT, -0.001, 0.0, AS_DECLARED),
        (WEIGHT, "0.3 kg", 0.3, AS_DECLARED), (LEVEL, 57.4, 57, AS_DECLARED),
        (WEIGHT, 25.300000190734863, 25.3, NOT_WEIGHED), (WEIGHT, -3.0, -3.0, NOT_WEIGHED),
        (WEIGHT, 1e30, 1e30, NOT_WEIGHED), (WEIGHT, float("nan"), "nan", NOT_WEIGHED),
        (WEIGHT, float("-inf"), "-inf", NOT_WEIGHED), (WEIGHT, "heavy", "heavy", NOT_WEIGHED),
        (WEIGHT, True, True, NOT_WEIGHED), (WEIGHT, [1], "[1]", NOT_WEIGHED), (WEIGHT, None, None, NOT_WEIGHED),
        (Choice(("red", "green")), "GREEN", "green", AS_DECLARED),
        (Choice(("red", "green")), "blue", "blue", " (it should be one of red, green)"),
        (Text(5), "a\nb", "a b", AS_DECLARED),
        (Text(5), "a" * 6, "a" * 6, " (it should be a text of at most 5 characters)"),
        (Text(5), "", "", " (it should be a text of at most 5 characters)"), (Text(5), 3, "3", AS_DECLARED),
        (Person(), b"", "b''", AS_DECLARED),
    ],
)  # fmt: skip
def test_what_was_measured_is_kept_and_said_and_never_refused(
    declared: Parameter, came: object, kept: object, said: str
) -> None:
    skill = Skill(name="measure", wording="measure", returns={"it": declared})
    value = declared.measured(came)
    assert (value, type(value)) == (kept, type(kept))
    told = skill.describe({} if value is None else {"it": value})
    assert told.endswith(said)
    assert ("it should be" in told) == bool(said)
    assert ("nothing came" in told) == (came is None)


def numbers(least: float, most: float, by: float = 1) -> Any:
    return {"number": {"from": least, "to": most, "by": by}}


def skill(wording: str, **parameters: Any) -> Skill:
    return skill_of({"name": wording[:20], "wording": wording, "parameters": parameters})


#: Two skills, and a text that may be both; empty: there is none, or the one with more words of its own is meant.
PAIRS = [
    (skill("dock"), skill("Dock"), "dock"),
    (skill("go to {place}", place="place"), skill("go to {person}", person="person"), "go to Anna"),
    (skill("open drawer {n}", n=numbers(1, 3)), skill("open drawer {m}", m=numbers(3, 6)), "open drawer 3"),
    (skill("open drawer {n}", n=numbers(1, 3)), skill("open drawer {m}", m=numbers(4, 6)), ""),
    (skill("open drawer {n}", n=numbers(1, 3)), skill("open drawer {m}", m=["3", "left"]), "open drawer 3"),
    (skill("grip {how}", how=["softly"]), skill("grip {how}", how=["hard"]), ""),
    (skill("go at {v}", v=numbers(0, 1, 0.1)), skill("go at 0.5"), "go at 0.5"),
    (skill("drive {how}", how=["slow", "fast"]), skill("drive slow"), "drive slow"),
    (skill("say {text}", text={"text": 20}), skill("say hello"), ""),
    (skill("say {text}", text={"text": 20}), skill("say {words}", words={"text": 9}), "say hello"),
    (skill("go to {place}", place="place"), skill("go to {place} at {v} m/s", place="place", v=numbers(0, 1)), ""),
    (
        skill("go to {a}[ at {v}]", a="place", v={**numbers(0, 9), "default": 2}),
        skill("go to {b}", b="place"),
        "go to x",
    ),
    (skill("fetch {a}", a={"list": "thing"}), skill("fetch {b}", b="thing"), "fetch cup 1"),
    (skill("turn {a}", a={"list": ["red", "blue"]}), skill("turn {b}", b=["red", "green"]), "turn red"),
    (skill("turn {a}", a={"boolean": ["on", "off"]}), skill("turn on"), "turn on"),
    (skill("go to {a}", a="pose"), skill("go to x {b}", b=numbers(0, 9)), ""),
]


@pytest.mark.parametrize(("one", "other", "text"), PAIRS)
def test_skills_that_a_text_may_mean_both_are_not_told_apart(one: Skill, other: Skill, text: str) -> None:
    for first, second in ((one, other), (other, one)):
        if not text:
            check_told_apart(first, [second])
            continue
        with pytest.raises(ValueError, match=re.escape(f"may be skill '{second.name}', too")):
            check_told_apart(first, [second])
        assert {first.read(text).skill, second.read(text).skill} == {one, other}


@pytest.mark.parametrize(
    ("text", "meant"),
    [("say hello", "say hello"), ("say hello Anna", "say {text}"), ("open drawer 3", "open drawer {n}")],
)
def test_a_text_is_the_skill_with_the_most_words_of_its_own(text: str, meant: str) -> None:
    skills = [
        *(skill("say {text}", text={"text": 20}), skill("say hello")),
        *(skill("open {thing}", thing="thing"), skill("open drawer {n}", n=numbers(1, 6))),
    ]
    for order in (skills, skills[::-1]):
        assert read_skill(text, order).skill.wording == meant
        with pytest.raises(ParameterError, match="9 may not stand here, but a number from 1 to 6"):
            read_skill("open drawer 9", order)  # no thing that is called so


def test_a_text_that_may_be_two_skills_is_none() -> None:
    skills = [skill_of({"name": name, "wording": "dock"}) for name in ("dock", "undock")]
    with pytest.raises(ParameterError, match="'dock' may be 'dock' or 'undock'"):
        read_skill("dock", skills)
