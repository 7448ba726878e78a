"""Replies of real models, in `../shared/data/replies`: each is taken for what a person labelled, or refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from reactree_ros.agent.control_flow import flow_named
from reactree_ros.agent.decision import DONE, FAILURE
from reactree_ros.agent.grammar import DecisionGrammar, Grammar
from reactree_ros.agent.reading import Unreadable, read
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.agent.text import words

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
