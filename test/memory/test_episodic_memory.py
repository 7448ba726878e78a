"""Episodic memory: retrieval, storage, several handles, and what is refused."""

from __future__ import annotations

import json
import math
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from word_hash_embedder import WordHashEmbedder, experience

from reactree_ros.agent.text import approximate_tokens
from reactree_ros.memory.embedding import EmbeddingError, ExperienceIndex
from reactree_ros.memory.experience import End, Experience
from reactree_ros.memory.port import EpisodicMemoryError
from reactree_ros.memory.recorded import export_experiences, import_experiences
from reactree_ros.memory.stores.sqlite import SqliteMemory

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
WORDS = ["find", "pick", "up", "apple", "juice", "fridge", "open", "kitchen", "table", "move"]
phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


def plain_cosine(left: Sequence[float], right: Sequence[float]) -> float:
    product = sum(a * b for a, b in zip(left, right, strict=True))
    return product / math.sqrt(sum(a * a for a in left)) / math.sqrt(sum(b * b for b in right))


@settings(max_examples=50, deadline=None)
@given(subgoals=st.lists(phrases, min_size=1, max_size=120), query=phrases)
def test_search_equals_a_plain_python_sort_by_cosine(
    tmp_path_factory: pytest.TempPathFactory, subgoals: list[str], query: str
) -> None:
    embedder = WordHashEmbedder()
    stored = [experience(subgoal, task=number) for number, subgoal in enumerate(subgoals)]
    with SqliteMemory(tmp_path_factory.mktemp("search") / "memory.db", embedder) as memory:
        memory.add_run(stored)
        found = memory.search(query, len(stored))
    asked = embedder.encode([query])[0].tolist()
    exact = {one: plain_cosine(asked, embedder.encode([one.subgoal])[0].tolist()) for one in stored}
    assert Counter(one for _, one in found) == Counter(stored)
    assert [similarity for similarity, _ in found] == pytest.approx(sorted(exact.values(), reverse=True), abs=1e-5)
    assert [exact[one] for _, one in found] == pytest.approx(sorted(exact.values(), reverse=True), abs=1e-5)


def test_examples_are_taken_until_the_next_would_exceed_the_token_limit(memory: SqliteMemory) -> None:
    near = experience("find the apple", filler="Think: a\nOK.\n" * 3)
    middle = experience("find the big apple quickly now", filler="Think: a\nOK.\n" * 50)
    far = experience("open fridge")
    memory.add_run([far, middle, near])
    ordered = [one for _, one in memory.search("find the apple", 3)]
    assert ordered == [near, middle, far]

    def taken(limit: int) -> tuple[Experience, ...]:
        return memory.retrieve("find the apple", token_limit=limit, count_tokens=len)

    assert taken(len(near.text) - 1) == ()
    assert taken(len(near.text)) == (near,)
    # the third would fit, but the second, which does not, ends it
    assert taken(len(near.text) + len(far.text)) == (near,)
    assert taken(len(near.text) + len(middle.text)) == (near, middle)
    assert taken(10**6) == (near, middle, far)
    assert taken(0) == ()


@settings(max_examples=50, deadline=None)
@given(lengths=st.lists(st.integers(0, 40), min_size=1, max_size=40), limit=st.integers(0, 6000))
def test_the_limit_is_never_exceeded_and_never_stopped_short(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], limit: int
) -> None:
    stored = [experience(f"move apple {n}", task=n, filler="Think: x\nOK.\n" * n) for n in lengths]
    with SqliteMemory(tmp_path_factory.mktemp("limit") / "memory.db", WordHashEmbedder()) as memory:
        memory.add_run(stored)
        taken = memory.retrieve("move apple", token_limit=limit, count_tokens=len)
        order = [one for _, one in memory.search("move apple", len(stored))]
    total = sum(len(one.text) for one in taken)
    assert total <= limit
    if len(taken) < len(order):
        left = Counter(order)
        left.subtract(taken)
        assert total + max(len(one.text) for one in left.elements()) > limit


def test_a_text_is_counted_once_while_the_counter_stays_the_same(memory: SqliteMemory) -> None:
    memory.add_run([experience(task=number, filler=f"Think: {number}\nOK.\n") for number in range(5)])
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return 1

    for seed in range(3):
        assert len(memory.retrieve("find", count_tokens=count, seed=seed)) == 5
    assert len(counted) == 5
    assert memory.retrieve("find", token_limit=1, count_tokens=len) == ()
    assert len(memory.retrieve("find", token_limit=3, count_tokens=count)) == 3
    assert len(counted) > 5


def test_equal_similarities_give_every_end_its_share(memory: SqliteMemory) -> None:
    memory.add_run([experience(task=number, end=End.SUCCESS) for number in range(30)])
    memory.add_run([experience(task=number, end=End.FAILURE) for number in range(3)])
    memory.add_run([experience(task=number, end=End.EXPAND) for number in range(30)])
    first = Counter(
        memory.retrieve("find and pick up the apple", token_limit=1, count_tokens=lambda _: 1, seed=seed)[0].end
        for seed in range(900)
    )
    assert all(240 < first[end] < 360 for end in End)  # 300 expected, standard deviation 14


def test_the_same_seed_gives_the_same_examples_in_whatever_order_they_were_added(tmp_path: Path) -> None:
    stored = [experience(task=n, end=list(End)[n % 3]) for n in range(30)]
    others = [experience(f"open fridge {n}", task=n) for n in range(30)]

    def taken(name: str, runs: list[list[Experience]], seed: int) -> tuple[Experience, ...]:
        with SqliteMemory(tmp_path / name, WordHashEmbedder()) as memory:
            if not len(memory):
                for run in runs:
                    memory.add_run(run)
            return memory.retrieve("find and pick up the apple", token_limit=10, count_tokens=lambda _: 1, seed=seed)

    one = taken("a.db", [stored, others], 5)
    assert one == taken("a.db", [], 5) == taken("b.db", [others[::-1], stored[::-1]], 5)
    assert one != taken("a.db", [], 6)


def test_a_known_subgoal_is_not_embedded_again(tmp_path: Path) -> None:
    embedder = WordHashEmbedder()
    with SqliteMemory(tmp_path / "memory.db", embedder) as memory:
        memory.add_run([experience("a"), experience("a", task=2), experience("b")])
        memory.add_run([experience("b", task=3), experience("c")])
    assert embedder.asked == ["a", "b", "c"]


def test_one_thread_adds_while_others_retrieve(memory: SqliteMemory) -> None:
    def add() -> None:
        for number in range(40):
            memory.add_run([experience(f"open fridge {number} {part}", task=number) for part in range(5)])

    def look() -> None:
        last, finished = 0, False
        while not finished:
            finished = adding.done()
            found = len(memory.search("open fridge", 1000))
            assert found >= last
            assert found % 5 == 0
            last = found
        assert last == 200

    with ThreadPoolExecutor() as threads:
        adding = threads.submit(add)
        for one in [adding, *(threads.submit(look) for _ in range(2))]:
            one.result(timeout=60)


def foreign_database(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE meta (key, value)")
    database.close()


def changed_memory(*statements: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with SqliteMemory(path, WordHashEmbedder()) as memory:
            memory.add_run([experience(), experience("open the fridge")])
        database = sqlite3.connect(path, isolation_level=None)
        for statement in statements:
            database.execute(statement)
        database.close()

    return make


def other_embedder(name: str, dimension: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        SqliteMemory(path, WordHashEmbedder(name, dimension)).close()

    return make


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_text("hello"), "not an SQLite database: name another file"),
        (lambda path: path.write_bytes(b"\x00" * 4096), "not an SQLite database: name another file"),
        (lambda path: path.mkdir(), "is a folder, not a database file"),
        (lambda path: path.parent.rmdir(), r"the folder '.*' does not exist"),
        (foreign_database, "a database of another program, not an episodic memory"),
        (changed_memory("PRAGMA user_version = 1"), "has schema version 1, .* knows 3: export it with"),
        (changed_memory("PRAGMA application_id = 7"), "a database of another program"),
        (changed_memory("DROP TABLE meta"), "no such table: meta"),
        (other_embedder("all-MiniLM-L6-v2", 64), "its embeddings are by 'all-MiniLM-L6-v2' with 64 dimensions, not by"),
        (other_embedder("word hash", 32), "its embeddings are by 'word hash' with 32 dimensions, not by"),
    ],
)
def test_a_file_that_is_no_memory_of_ours_is_refused_and_left_as_it_was(
    make: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "memory.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(EpisodicMemoryError, match=message) as refused:
        SqliteMemory(path, WordHashEmbedder())
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)
    assert before is None or path.read_bytes() == before


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("UPDATE subgoal SET embedding = x'00' WHERE id = 2", "row 2 of table subgoal is damaged: 256 bytes expected"),
        ("UPDATE subgoal SET embedding = 'text' WHERE id = 1", "row 1 of table subgoal is damaged: 256 bytes expected"),
        ("UPDATE subgoal SET embedding = zeroblob(256) WHERE id = 2", "row 2 of table subgoal is damaged: its length"),
        ("UPDATE subgoal SET embedding = x'" + "ff" * 256 + "' WHERE id = 2", "row 2 .* damaged: its length is not 1"),
        ("DELETE FROM subgoal WHERE id = 1", "the subgoal of row 1 of table experience is gone"),
    ],
)
def test_a_damaged_row_is_named_at_every_retrieval(damage: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    changed_memory(damage)(path)
    with SqliteMemory(path, WordHashEmbedder()) as memory:
        for _ in range(2):
            with pytest.raises(EpisodicMemoryError, match=message):
                memory.search("fridge", 1)


@pytest.mark.parametrize("turns", ["[", "null", "[3]", '[{"told": 3, "about": "task"}]', '[{"seen": "x"}]', "[]"])
def test_damaged_turns_are_named(turns: str, tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    changed_memory(f"UPDATE experience SET turns = '{turns}' WHERE id = 2")(path)
    with (
        SqliteMemory(path, WordHashEmbedder()) as memory,
        pytest.raises(EpisodicMemoryError, match="row 2 of table experience is damaged: "),
    ):
        memory.search("fridge", 2)


UNKNOWN_END = '[{"told": "Your task is to: x"}, {"said": "Act: x", "act": 3}]'


def test_damaged_turns_are_named_to_who_looks_for_examples_not_to_who_puts_them_into_a_prompt(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    changed_memory(f"UPDATE experience SET turns = '{UNKNOWN_END}'")(path)
    with (
        SqliteMemory(path, WordHashEmbedder()) as memory,
        pytest.raises(EpisodicMemoryError, match=r"row \d of table experience is damaged: "),
    ):
        memory.find("fridge", count_tokens=len).result(timeout=60)


def test_a_writer_that_never_ends_is_reported_after_the_timeout(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with SqliteMemory(path, WordHashEmbedder(), busy_timeout=0.1) as memory:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(EpisodicMemoryError, match=r"another process has been writing to it for more than 0\.1 s"):
            memory.add_run([experience()])
        assert memory.search("x", 1) == []  # readers do not wait
        other.execute("ROLLBACK")
        other.close()
        memory.add_run([experience()])
        assert len(memory) == 1


class Broken(WordHashEmbedder):
    def __init__(self, vectors: NDArray[np.float32]) -> None:
        super().__init__()
        self.vectors = vectors

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.vectors


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.ones((1, 64), dtype=np.float32), "gave a vector of length 8 instead of 1 for 'find and pick up the apple'"),
        (np.zeros((1, 64), dtype=np.float32), "gave a vector of length 0 instead of 1"),
        (np.full((1, 64), np.nan, dtype=np.float32), "gave a vector of length nan instead of 1"),
        (np.eye(1, 63, dtype=np.float32), r"gave an array of shape \(1, 63\) instead of \(1, 64\)"),
        (np.eye(2, 64, dtype=np.float32), r"gave an array of shape \(2, 64\) instead of \(1, 64\)"),
    ],
)
def test_an_embedder_that_breaks_its_promise_is_refused(
    vectors: NDArray[np.float32], message: str, tmp_path: Path
) -> None:
    with SqliteMemory(tmp_path / "memory.db", Broken(vectors)) as memory:
        with pytest.raises(EmbeddingError, match=message):
            memory.add_run([experience()])
        with pytest.raises(EmbeddingError):
            memory.retrieve("find and pick up the apple", count_tokens=len)
        assert len(memory) == 0


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"needs the recorded runs in {SHARED}")
def test_the_recorded_runs_go_through_a_memory_unchanged(memory: SqliteMemory, tmp_path: Path) -> None:
    file = SHARED / "data" / "wah_nl" / "trajectories" / "reactree_wm.jsonl"
    for run in import_experiences(file).runs:
        memory.add_run(run)
    export_experiences(memory, tmp_path / "out.jsonl")
    texts = [
        [json.loads(line)["text"] for line in path.read_bytes().split(b"\n") if line]
        for path in (file, tmp_path / "out.jsonl")
    ]
    assert texts[0] == texts[1]
    examples = memory.retrieve("find and pick up the pudding", count_tokens=approximate_tokens)
    assert len(examples) == 9
    assert {one.subgoal for one in examples} == {"find and pick up the pudding"}
    assert sum(approximate_tokens(one.text) for one in examples) <= 5000


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("juice", 1),
        ("You see wine glass (1), fridge (2).", 11),
        ("kitchen cabinet (1, 2, 3)", 11),
        ("Act: done\n", 4),
        ("a  b\n\nc", 4),
        ("Kühlschrank öffnen", 2),
        ("\ud800", 1),
    ],
)
def test_tokens_are_counted_by_the_documented_rule(text: str, tokens: int) -> None:
    assert approximate_tokens(text) == tokens


def test_what_is_read_ahead_is_not_counted_again(tmp_path: Path) -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return 1

    with SqliteMemory(tmp_path / "memory.db", WordHashEmbedder()) as memory:
        memory.add_run([experience(f"open {number}", task=number) for number in range(40)])
    with SqliteMemory(tmp_path / "memory.db", WordHashEmbedder()) as memory:
        memory.read_ahead(count).result(timeout=60)
        assert sorted(counted) == sorted(one.text for one in memory)
        found = memory.find("open 7", count_tokens=count, token_limit=30).result(timeout=60)
        assert len(found) == 30
        assert found[0].subgoal == "open 7"
        assert len(counted) == 40


def test_reading_ahead_ends_with_the_memory_and_lets_others_come_between(tmp_path: Path) -> None:
    with SqliteMemory(tmp_path / "memory.db", WordHashEmbedder()) as memory:
        memory.add_run([experience(f"open {number}", task=number) for number in range(600)])
        begun, go_on = threading.Event(), threading.Event()

        def count(text: str) -> int:
            begun.set()
            go_on.wait(60)
            return 1

        ahead = memory.read_ahead(count)
        assert begun.wait(60)
        found = memory.find("open 7", count_tokens=count, most=1)
        found.add_done_callback(lambda _: memory.close())
        go_on.set()
        assert found.result(timeout=60)[0].subgoal == "open 7"
        with pytest.raises((EpisodicMemoryError, RuntimeError)):
            ahead.result(timeout=60)


def unit_rows(count: int, seed: int, dimension: int = 8) -> NDArray[np.float32]:
    rows = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def test_a_large_group_of_equals_at_the_edge_of_the_first_look_comes_as_a_whole() -> None:
    vectors = np.repeat(unit_rows(1, 3), 300, axis=0)
    better = unit_rows(1, 3)[0]
    index = ExperienceIndex(8)
    index.extend(np.concatenate([unit_rows(50, 4), vectors]), range(350), np.zeros(350), np.arange(350))
    first = [position for _, position in islice(index.ranked(better, draw="1"), 300)]
    assert set(first) == set(range(50, 350))
    assert first != sorted(first)
