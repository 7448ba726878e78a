"""In-context examples are turns, lose no byte, and shrink before they go."""

from __future__ import annotations

from pathlib import Path

import pytest

import reactree_ros
from reactree_ros.agent.prompt import start_turn
from reactree_ros.agent.transcript import Example, shortened
from reactree_ros.agent.turns import About, Said, Saw, Told, ToldStart, turn_from_dict, turn_to_dict

ROOT = "Your task is to: a\nYou are in the house.\nThink: b\nOK.\nAct: done"
CHILD = "Your primary goal is to: a\nTo achieve this, …\nYour task is to: c\nYou are in the house.\nAct: go\nYou go."
TREE = Example.of_text(f"{ROOT}\n\n{CHILD}\n\n{CHILD}")
SHIPPED = sorted(Path(reactree_ros.__file__).parent.rglob("prompts/**/*.txt"))


def words(text: str) -> int:
    return len(text.split())


def test_each_agent_node_of_an_example_is_its_turns() -> None:
    assert len(TREE.nodes) == 3
    assert [type(turn) for turn in TREE.nodes[1]] == [Told, Saw, Said, Saw]
    assert TREE.turns[5] == Told("", About.ANSWER)  # the empty line between two nodes


def test_a_text_of_anything_else_is_one_turn() -> None:
    for text in ("", "def run():\n\n    pass", f"{ROOT}\n\nand more", "x" * 1_000_000):
        assert Example.of_text(text).nodes == ((Told(text, About.SYSTEM),),)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: "/".join(path.parts[-3:]))
def test_an_example_gives_its_text_again(path: Path) -> None:
    text = path.read_text(encoding="utf-8").removesuffix("\n")
    assert Example.of_text(text).text == text
    if path.name.startswith("react") and path.parent.parent.name in ("household", "ai2thor"):
        assert start_turn("", [Example.of_text(text)]).is_exchange


def test_the_start_of_a_prompt_is_read_back_whole_from_a_record() -> None:
    start = start_turn("S", [TREE, Example.of_text("text")], "Rule.")
    assert turn_from_dict(turn_to_dict(start)) == start
    assert turn_to_dict(start)["told"] == f"S\nSource domain:\n{TREE.text}\ntext\nTarget_domain:"
    assert turn_from_dict(turn_to_dict(Told("S", About.SYSTEM))) == Told("S", About.SYSTEM)
    with pytest.raises(ValueError, match="is no turn"):
        turn_from_dict({"told": "", "about": "system", "examples": []})


def test_an_example_that_is_too_long_gives_way_to_the_short_one_then_loses_its_last_nodes() -> None:
    long = Example(TREE.nodes * 2, short=TREE)
    for excess, nodes in ((1, [3]), (words(long.text) - words(TREE.text) + 1, [2]), (words(long.text), [])):
        assert [len(one.nodes) for one in shortened([long], excess, count=words)] == nodes


def test_the_least_similar_example_goes_before_the_next_one_shrinks() -> None:
    first, last = Example(TREE.nodes[:2]), Example(TREE.nodes[:1])
    assert shortened([first, last], 1, count=words) == [first]
    assert shortened([first, last], words(last.text) + 1, count=words) == [Example(first.nodes[:1])]
    assert shortened([first, last], 0, count=words) == [first, last]


def test_the_texts_of_a_start_are_changed_together() -> None:
    start = ToldStart(system="a", examples=((Told("b"), Said("c")),), rule="d")
    changed = start.with_texts(str.upper)
    assert (changed.system, changed.rule, [turn.text for turn in changed.examples[0]]) == ("A", "D", ["B", "C"])
    assert changed.text == "A\nSource domain:\nB\nC\nTarget_domain:"
