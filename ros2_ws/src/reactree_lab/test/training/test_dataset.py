"""A dataset as training reads it: nodes whole, decisions in their places, what may stand where."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli

from reactree_lab.training.dataset import TRAIN, node_texts, nodes_of
from reactree_lab.training.vocabulary import MaySay, Vocabulary, names_in
from reactree_ros.errors import UserError

TOKENS = [b"", b"\n", b"Act", b": ", b"Act: ", b"go", b" to", b" bed", b" bedroom", b"room", b"Think", b" x", b"pick"]
VOCABULARY = Vocabulary(TOKENS, 0)
MAY = MaySay(("Act: go to bed", "Act: go to bedroom"), ("Think: ",))


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def line(prompt: str, completion: str, node: int = 0, **more: Any) -> dict[str, Any]:
    return {"prompt": prompt, "completion": completion, "kind": "act", "house": "h", "task": "t", "node": node, **more}


def test_a_node_is_one_text_with_all_its_decisions(tmp_path: Path) -> None:
    first, second = line("a\n", "Act: b"), line("a\nAct: b\nc\n", "Act: d")
    (node,) = node_texts(write(tmp_path / "train.jsonl", first, second))
    assert node.text == "a\nAct: b\nc\nAct: d\n"
    assert [(one.begin, one.text, one.learn) for one in node.decisions] == [(2, "Act: b", True), (11, "Act: d", True)]


def test_what_would_have_been_right_is_a_text_of_its_own_beside_what_was_said(tmp_path: Path) -> None:
    lines = (
        line("a\n", "Act: wrong", learn=False),
        line("a\n", "Act: right"),
        line("a\nAct: wrong\nc\n", "Act: back"),
    )
    said, right = node_texts(write(tmp_path / "train.jsonl", *lines))
    assert [(one.text, one.learn) for one in said.decisions] == [("Act: wrong", False), ("Act: back", True)]
    assert [(one.text, one.learn) for one in right.decisions] == [("Act: right", True)]


ASTRAY = (
    line("a\n", "Act: go to bed", learn=False),
    line("a\n", "Act: go to sofa"),
    line("a\n", "Think: b"),
    line("a\nAct: go to bed\nc\n", "Act: pick up d"),
)


def test_a_skill_that_would_have_been_right_may_stand_beside_the_one_that_was_said(tmp_path: Path) -> None:
    said, thought = node_texts(write(tmp_path / "train.jsonl", *ASTRAY), joined=True)
    assert said.text == "a\nAct: go to bed\nc\nAct: pick up d\n"
    assert [(one.text, one.learn, one.instead) for one in said.decisions] == [
        ("Act: go to bed", False, "Act: go to sofa"),
        ("Act: pick up d", True, ""),
    ]
    assert [(one.text, one.learn, one.instead) for one in thought.decisions] == [("Think: b", True, "")]


@pytest.mark.train
def test_beside_what_was_said_is_learnt_where_the_two_part(tmp_path: Path) -> None:
    from reactree_lab.training.prepared import learnt_tokens, make_pass, prepare
    from reactree_lab.training.vocabulary import Words, make_tokenizer

    may_say = {"skills": ["go to bed", "go to sofa", "pick up d"], "control_flows": []}
    nodes = list(
        node_texts(write(tmp_path / "train.jsonl", *({**one, "may_say": may_say} for one in ASTRAY)), joined=True)
    )
    tokenizer = make_tokenizer([nodes[0].text] * 99, ["go to", "pick up"], 400)
    said, wanted, other = (tokenizer.encode(f"{one['completion']}\n").ids for one in (*ASTRAY[:2], ASTRAY[3]))
    prepared = prepare(nodes, Words(tokenizer.to_str(), 0), context=99, masked=True, processes=1)
    parted = next(number for number, token in enumerate(said) if token != wanted[number])
    assert 0 < parted < len(said) - 1
    assert prepared.learn.tolist()[:2] == [parted + 1, len(other)]
    one = make_pass(prepared, [0])
    count = len(said)
    assert one.targets[: parted + 1].tolist() == wanted[: parted + 1]
    assert one.targets[count:].tolist() == other
    assert one.learn.tolist() == [True] * (parted + 1) + [False] * (count - parted - 1) + [True] * len(other)
    assert {said[parted], wanted[parted]} <= set(one.may[1][one.may[0] == parted])
    assert one.held.tolist()[: parted + 2] == [True] * (parted + 1) + [False]
    learnt = make_pass(prepared, [0], learnt=True)
    assert (learnt.learn.all(), learnt.targets.tolist()) == (True, one.targets[one.learn].tolist())
    assert learnt.may[1].tolist() == [token for row, token in one.may.T if one.learn[row]]
    assert one.wanted.tolist() == [True, True]
    assert learnt_tokens(prepared, [0]) == sum(one.learn)


def folders(path: Path, *counts: int) -> list[Path]:
    """Datasets of so many nodes each."""
    path.mkdir(exist_ok=True)
    for number, count in enumerate(counts):
        (path / f"{number}").mkdir()
        write(
            path / f"{number}" / TRAIN,
            *(line(f"{one} of {number}\n", "Act: go to bed", node=one) for one in range(count)),
        )
    return [path / f"{number}" for number in range(len(counts))]


@pytest.mark.train
def test_each_dataset_has_its_share_of_the_tokens_however_large_it_is(tmp_path: Path) -> None:
    from collections import Counter

    from reactree_lab.training.prepared import prepare, steps
    from reactree_lab.training.vocabulary import Words, make_tokenizer

    nodes = list(nodes_of(folders(tmp_path, 90, 10), TRAIN))
    tokenizer = make_tokenizer([one.text for one in nodes], [], 400)
    prepared = prepare(nodes, Words(tokenizer.to_str(), 0), context=99, masked=True, processes=1)
    each = int(prepared.lengths.sum())

    once = [node for step in steps(prepared, tokens=each, batch_tokens=50, seed=0) for node in step]
    assert sorted(once[:100]) == list(range(100))

    tokens = Counter[int]()
    for step in steps(prepared, tokens=10 * each, batch_tokens=50, seed=0, parts=(1.0, 3.0)):
        for node in step:
            tokens[int(prepared.source[node])] += int(prepared.lengths[node])
    assert tokens[1] / tokens[0] == pytest.approx(3, rel=0.02)

    of_one = list(nodes_of(folders(tmp_path / "other", 3, 0), TRAIN))
    alone = prepare(of_one, Words(tokenizer.to_str(), 0), context=99, masked=True, processes=1)
    with pytest.raises(UserError, match="dataset 2 holds no decision"):
        next(steps(alone, tokens=9, batch_tokens=9, seed=0, parts=(1.0, 1.0)))


@pytest.mark.parametrize(
    ("shares", "says"),
    [
        ("2,1", "--shares 2,1: 2 shares for 1 --data; name one for each"),
        ("2;1", "'2;1' is not a list of numbers above 0"),
        ("0", "'0' is not a list of numbers above 0"),
        ("nan", "'nan' is not a list of numbers above 0"),
    ],
)
@pytest.mark.train
def test_shares_that_cannot_be_used_are_named(data: Path, cli: Cli, tmp_path: Path, shares: str, says: str) -> None:
    ended = cli("lab", "train", "--data", data, "--out", tmp_path / "out", "--shares", shares)
    assert ended.code == 2
    assert says in " ".join(ended.err.split())
    assert not (tmp_path / "out").exists()


def test_nodes_are_told_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "train.jsonl", line("a\n", "Act: b"), line("a\n", "Act: b", node=1))
    assert len(list(node_texts(path))) == 2


@pytest.mark.parametrize("broken", ["", "[]", '{"prompt": "a"}', '{"prompt": 1, "completion": "b", "kind": "act"}'])
def test_a_line_that_is_no_decision_is_named(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(f"{json.dumps(line('a', 'b'))}\n{broken}\n")
    with pytest.raises(UserError, match=r"train\.jsonl: line 2"):
        list(node_texts(path))


def test_tokens_that_may_come_are_those_of_what_may_be_said() -> None:
    said = [4, 5, 6, 7, 1]
    may = VOCABULARY.allowed(MAY, said, [TOKENS[token] for token in said])
    assert may == [[2, 4, 10], [5], [6], [7, 8], [0, 1, 9]]  # at the end of one skill another one may go on


def test_what_is_not_to_be_said_is_found_out() -> None:
    said = [4, 12]
    assert VOCABULARY.allowed(MAY, said, [TOKENS[token] for token in said]) is None


def test_a_thought_is_free() -> None:
    said = [10, 3, 12, 1]
    assert VOCABULARY.allowed(MAY, said, [TOKENS[token] for token in said]) == [[2, 4, 10], [3], [], []]


def test_names_are_what_stands_behind_verbs_of_many_things() -> None:
    things = [f"{letter} thing" for letter in "abcdefghijkl"]
    skills = [f"pick up {thing} {number}" for thing in things for number in (1, 12)] + ["done", "eat soup 1"]
    assert names_in(skills) == {"pick up", *things}


def test_the_words_of_another_planner_are_learnt_among_all_others(tmp_path: Path) -> None:
    one = line("a\n", "1 Subgoal: x\nAction: go to bed", may_say={"skills": ["go to bed"], "control_flows": []})
    (node,) = node_texts(write(tmp_path / "train.jsonl", one))
    assert [decision.may_say for decision in node.decisions] == [None]


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
@pytest.mark.parametrize(
    "arguments", [("lab", "train", "--data", "x", "--out", "y"), ("lab", "eval", "x", "--data", "y")]
)
def test_what_has_to_be_installed_is_said(cli: Cli, arguments: tuple[str, ...]) -> None:
    ended = cli(*arguments)
    assert ended.code == 2
    assert "-m pip install" in ended.err


@pytest.mark.train
def test_it_comes_to_what_llguidance_allows(data: Path) -> None:
    import llguidance
    import numpy as np
    from llguidance import LLMatcher
    from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

    from reactree_lab.training.dataset import HELD_OUT, read_lines
    from reactree_lab.training.evaluation import regex_of
    from reactree_lab.training.vocabulary import make_tokenizer, token_texts

    lines = list(read_lines(data / HELD_OUT))[:60]
    tokenizer = make_tokenizer([one["prompt"] for one in lines], ["kitchen cabinet", "go to"], 600)
    texts = token_texts(tokenizer)
    assert texts is not None
    ours = Vocabulary(texts, 0)
    theirs = llguidance.LLTokenizer(tokenizer.to_str(), n_vocab=len(texts), eos_token=0)
    several = 0
    for one in lines:
        matcher = LLMatcher(theirs, LLMatcher.grammar_from_regex(regex_of(one["may_say"])))
        may_say = MaySay.from_values(one["may_say"])
        assert may_say is not None
        tokens = tokenizer.encode(f"{one['completion']}\n").ids
        may = ours.allowed(may_say, tokens, [texts[token] for token in tokens])
        assert may is not None
        for token, found in zip(tokens, may, strict=True):
            mask = allocate_token_bitmask(1, len(texts))
            fill_next_token_bitmask(matcher, mask, 0)
            bits = np.unpackbits(mask[0].view(np.uint8), count=len(texts), bitorder="little")
            allowed = np.flatnonzero(bits).tolist()
            matcher.consume_token(token)
            if not found:
                assert len(allowed) >= len(texts) // 2
            elif len(allowed) == 1:  # of what must come it allows the one way of writing it that the tokenizer has
                assert allowed[0] in found
            else:
                several += 1
                assert allowed == found
    assert several > 100
