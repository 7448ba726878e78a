"""Retrieval from episodic memory against the bare matrix product and against one file per experience.

    python benchmarks/retrieval.py --sizes 1000 10000 100000

Every experience has its own subgoal (the worst case: one matrix row each), a random unit vector of 384 numbers as its
embedding, and a text of about 1,700 characters, the mean of the recorded ReAcTree runs. The embedder answers at once,
so the rest is measured: checking for other processes' additions, the product, ranking, reading from the database,
counting tokens up to the limit of 5,000.

- first: each query is new to the memory; its examples are read from the database and their tokens counted.
- bare: the product, and a bare SELECT of the same rows' turns; nothing that keeps them on a disk does less.
- turns: the turns of the examples that were found, which are made when they are asked for.
- again: the same query once more, as the same subgoal comes again when many agent nodes ask.
- process: a process opens the memory, reads ahead as a run does while its model starts, and asks once; of several
  processes.
- product: `matrix @ query` over the same embeddings, float32 and contiguous.
- files: the authors' way: a folder with one pickle (text, embedding) per experience. Each query reads them all, takes
  the cosine of each, sorts, and counts tokens up to the limit. Measured only up to --files-up-to.
- load: the first retrieval after adding, which loads everything into memory.
- add run: one transaction of 20 experiences, on the disk when it returns.

Product, first, turns, again and bare alternate query by query, so that they meet the same load of the machine.
Medians, in milliseconds.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.think import Think
from reactree_ros.agent.text import approximate_tokens
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn
from reactree_ros.memory.experience import End, Experience
from reactree_ros.memory.port import TOKEN_LIMIT
from reactree_ros.memory.stores.sqlite import SqliteMemory

DIMENSION = 384
RUN = 20  # experiences per run
WORDS = ("go", "to", "the", "kitchen", "table", "pick", "up", "put", "down", "apple", "juice", "open", "fridge", "see")


class ReadyEmbedder:
    """Knows every vector beforehand; replaces the sentence embedder, which is not measured."""

    name = "ready"
    dimension = DIMENSION

    def __init__(self) -> None:
        self.vectors: dict[str, NDArray[np.float32]] = {}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Looks the vectors up; shape (number of texts, 384)."""
        return np.stack([self.vectors[text] for text in texts])


def unit_vectors(count: int, seed: int) -> NDArray[np.float32]:
    """Random directions, shape (count, 384)."""
    vectors = np.random.default_rng(seed).standard_normal((count, DIMENSION), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def experiences(count: int) -> Iterator[Experience]:
    """Made-up experiences with texts as long as the recorded ones."""
    words = random.Random(0)
    ends = list(End)
    for number in range(count):
        subgoal = f"subgoal {number}"
        turns: list[Turn] = [
            Told(f"Your task is to: {subgoal}"),
            Saw("You are in the house, and there are 5 rooms: kitchen (1)."),
        ]
        for _ in range(14):
            thought, skill = " ".join(words.choices(WORDS, k=12)), f"go to {words.choice(WORDS)} 1"
            seen = " (1), ".join(words.choices(WORDS, k=2))
            turns += (Said(f"Think: {thought}.", Think(f"{thought}.")), Told("OK.", About.ANSWER))
            turns += (Said(f"Act: {skill}", Act(skill)), Saw(f"You see {seen} (1)."))
        turns.append(Said("Act: done", Act("done")))
        yield Experience(
            subgoal=subgoal,
            turns=tuple(turns),
            end=ends[number % 3],
            task_id=str(number // RUN),
            task_name="benchmark",
            decision=1,
            depth=1,
        )


def fill(memory: SqliteMemory, embedder: ReadyEmbedder, vectors: NDArray[np.float32], files: Path | None) -> float:
    """Adds one experience and one pickle per vector; returns the seconds spent on adding."""
    seconds = 0.0
    run: list[Experience] = []
    for number, experience in enumerate(experiences(len(vectors)), start=1):
        embedder.vectors[experience.subgoal] = vectors[number - 1]
        if files is not None:
            content = {"text": experience.text, "embedding": vectors[number - 1].copy()}
            (files / f"{number:06d}.pkl").write_bytes(pickle.dumps(content))
        run.append(experience)
        if len(run) == RUN or number == len(vectors):
            start = time.perf_counter()
            memory.add_run(run)
            seconds += time.perf_counter() - start
            run = []
    return seconds


def from_files(files: Path, query: NDArray[np.float32]) -> list[str]:
    """Retrieval as the authors' code does it."""
    found = []
    for file in files.iterdir():
        with file.open("rb") as stream:
            content = pickle.load(stream)
        embedding = content["embedding"]
        cosine = np.dot(query, embedding) / (np.linalg.norm(query) * np.linalg.norm(embedding))
        found.append((float(cosine), content["text"]))
    found.sort(key=lambda item: item[0], reverse=True)
    texts, tokens = [], 0
    for _, text in found:
        tokens += approximate_tokens(text)
        if tokens > TOKEN_LIMIT:
            break
        texts.append(text)
    return texts


#: On a busy machine (`--busy`) the time that this thread computes is measured, not the time that passes.
_clock = time.thread_time if "--busy" in sys.argv else time.perf_counter


def timed(call: Callable[[], object]) -> float:
    """Duration of a call in milliseconds."""
    start = _clock()
    call()
    return (_clock() - start) * 1e3


def turns_of(found: Sequence[Experience]) -> int:
    """The number of all turns of what was found."""
    return sum(len(one.turns) for one in found)


def bare_rows(memory: SqliteMemory, rows: Sequence[int]) -> None:
    """Read the turns of experiences by a bare SELECT."""
    marks = ",".join("?" * len(rows))
    memory._reader.execute(f"SELECT turns FROM experience WHERE id IN ({marks})", rows).fetchall()


def ask_once(path: Path, size: int, number: int) -> None:
    """Prints the milliseconds of a process's first query, and of the bare product after it."""
    embedder, vectors, query = ReadyEmbedder(), unit_vectors(size, seed=1), unit_vectors(1, seed=100 + number)[0]
    embedder.vectors["query"] = query
    with SqliteMemory(path, embedder) as memory:
        memory.read_ahead(approximate_tokens).result()
        ask = partial(memory.retrieve, "query", count_tokens=approximate_tokens)
        first = memory.do(partial(timed, ask)).result()  # in the thread in which runs ask, where read_ahead read
        vectors @ query
        print(first, statistics.median(timed(partial(np.matmul, vectors, query)) for _ in range(9)))


def first_of_processes(path: Path, size: int, processes: int) -> tuple[float, float]:
    """The median time of a process's first query in milliseconds, and its median ratio to the bare product."""
    pairs, busy = [], ["--busy"] if _clock is time.thread_time else []
    for number in range(processes):
        command = [sys.executable, __file__, "--once", str(path), str(size), str(number), *busy]
        pairs.append(tuple(map(float, subprocess.run(command, check=True, capture_output=True).stdout.split())))
    return statistics.median(first for first, _ in pairs), statistics.median(first / bare for first, bare in pairs)


def measure(size: int, *, queries: int, files_up_to: int, processes: int) -> list[str]:
    """One row of the table."""
    embedder = ReadyEmbedder()
    vectors = unit_vectors(size, seed=1)
    asked = unit_vectors(queries + 3, seed=2)
    embedder.vectors.update((f"query {number}", vector) for number, vector in enumerate(asked))
    with tempfile.TemporaryDirectory(prefix="reactree_retrieval_") as name:
        files = Path(name) / "files" if size <= files_up_to else None
        if files is not None:
            files.mkdir()
        path = Path(name) / "memory.db"
        with SqliteMemory(path, embedder) as memory:
            adding = fill(memory, embedder, vectors, files)

            def retrieve(number: int) -> tuple[Experience, ...]:
                return memory.retrieve(f"query {number}", token_limit=TOKEN_LIMIT, count_tokens=approximate_tokens)

            opening = timed(partial(retrieve, queries))
            for number in range(queries, queries + 3):  # warm up
                retrieve(number)
                vectors @ asked[number]
            product, first, turns, again, bare_read = [], [], [], [], []
            examples = 0
            for number in range(queries):
                product.append(timed(partial(np.matmul, vectors, asked[number])))
                first.append(timed(partial(retrieve, number)))
                found = retrieve(number)
                turns.append(timed(partial(turns_of, found)))
                again.append(timed(partial(retrieve, number)))
                examples += len(found)
                rows = random.Random(number).sample(range(1, size + 1), min(size, len(found)))
                bare_read.append(product[-1] + timed(partial(bare_rows, memory, rows)))
            one_by_one: list[float] = []
            if files is not None:
                expected = [experience.text for experience in retrieve(0)]
                if from_files(files, asked[0]) != expected:
                    raise SystemExit("the two ways of retrieval disagree")
                one_by_one = [timed(partial(from_files, files, asked[1])) for _ in range(3 if size > 5000 else 7)]
        process, ratio = first_of_processes(path, size, processes)
    bare, floor = statistics.median(product), statistics.median(bare_read)
    slow = statistics.median(one_by_one) if one_by_one else None
    once, twice = statistics.median(first), statistics.median(again)
    return [
        f"{size:,}",
        f"{examples / queries:.1f}",
        f"{bare:.3f}",
        f"{once:.3f}",
        f"{once / bare:.2f}x",
        f"{once / floor:.2f}x",
        f"{statistics.median(turns):.3f}",
        f"{twice:.3f}",
        f"{twice / bare:.2f}x",
        f"{process:.3f}",
        f"{ratio:.2f}x",
        "-" if slow is None else f"{slow:.1f}",
        "-" if slow is None else f"{slow / once:,.0f}x",
        f"{opening:.0f}",
        f"{adding * 1e3 / (size / RUN):.2f}",
    ]


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="numbers of experiences")
    parser.add_argument("--queries", type=int, default=100, help="different queries per size")
    parser.add_argument("--files-up-to", type=int, default=10_000, help="largest size at which files are read")
    parser.add_argument("--processes", type=int, default=9, help="processes that ask once, per size")
    parser.add_argument("--busy", action="store_true", help="measure computing, for a busy machine, on one thread")
    given = parser.parse_args()
    if min(given.sizes) < 1 or given.queries < 2:
        parser.error("--sizes must be positive and --queries at least 2")
    if given.busy and os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        parser.error("--busy needs OPENBLAS_NUM_THREADS=1 in the environment: the product has to be in one thread, too")
    print(f"{os.cpu_count()} cores, numpy {np.__version__}; medians over {given.queries} queries")
    heads = (
        "experiences|examples|product ms|first ms|/product|/bare|turns ms|again ms|/product|process ms|/product|"
        "files ms|files/first|load ms|add run ms"
    )
    rows = [heads.split("|")]
    for size in given.sizes:
        rows.append(measure(size, queries=given.queries, files_up_to=given.files_up_to, processes=given.processes))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--once"]:
        ask_once(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
