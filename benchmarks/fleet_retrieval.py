"""Retrieval from a fleet's memory, on PostgreSQL with pgvector, against the bare matrix product over the same vectors.

    .venv-bench/bin/python benchmarks/fleet_retrieval.py --sizes 1000 10000 100000

A server is started and filled by COPY, and its index is built after; a million takes some half an hour on two cores.
Every experience has its own subgoal, with vectors that are composed as sentences are, of a verb, a thing and a place.

- product: `matrix @ query` in this process over the same vectors, float32 and contiguous.
- search: the nearest subgoals from the server, compared in single precision.
- first: a whole retrieval of a query that is new: search, the draw among equals, the examples' turns, their tokens.
- found: the share of the exact ten nearest that are among the first ten.

Product and first alternate. Medians, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrieval import DIMENSION, RUN, ReadyEmbedder, experiences, timed

from reactree_doors.fleet import FleetMemory, link, schema
from reactree_doors.fleet.server import key_of
from reactree_ros.agent.text import approximate_tokens
from reactree_ros.agent.turns import turn_to_dict

sys.path += [
    str(Path(__file__).resolve().parents[1] / one) for one in ("test/memory", "ros2_ws/src/reactree_doors/test/fleet")
]

from postgres_server import PASSWORD, PostgresServer

CHUNK = 20_000
_ROW = np.dtype(
    [
        *(("columns", ">i2"), ("key_size", ">i4"), ("key", "S16")),
        *(("size", ">i4"), ("dimension", ">i2"), ("unused", ">i2"), ("vector", ">f4", DIMENSION)),
    ]
)
_HEAD, _TAIL = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"


def composed_vectors(count: int, seed: int) -> NDArray[np.float32]:
    """Unit vectors of subgoals as sentences have them: of a verb, a thing and a place, and a little of their own.

    Few directions have most of the variance, and all have something in common, as with a sentence embedder.
    """
    parts, own = np.random.default_rng(0), np.random.default_rng(seed)
    spread = (np.arange(DIMENSION, dtype=np.float32) + 8) ** np.float32(-0.75)
    spread /= np.linalg.norm(spread)
    common = parts.standard_normal(DIMENSION, dtype=np.float32)
    vectors = 0.35 * spread * own.standard_normal((count, DIMENSION), dtype=np.float32)
    vectors += 1.25 * common / np.linalg.norm(common)
    for words, weight in ((24, 1.0), (400, 1.2), (60, 0.8)):
        meanings = spread * parts.standard_normal((words, DIMENSION), dtype=np.float32)
        vectors += np.float32(weight) * meanings[own.integers(words, size=count)]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def _chunks(size: int) -> Iterator[range]:
    return (range(first, min(size, first + CHUNK)) for first in range(0, size, CHUNK))


def load(connection: Any, table: str, vectors: NDArray[np.float32]) -> None:
    """Add an experience with its own subgoal for each vector; the index of vectors is dropped."""
    connection.execute(f"DROP INDEX IF EXISTS {table}_near")
    pool = list(experiences(300))
    turns = [json.dumps([turn_to_dict(turn) for turn in one.turns], separators=(",", ":")) for one in pool]
    name = schema.NAME
    for some in _chunks(len(vectors)):
        keys = [key_of(f"subgoal {number}") for number in some]
        with connection.transaction():
            with connection.cursor().copy(f"COPY {name}.run (id, experiences) FROM STDIN") as copy:
                for number in some[::RUN]:
                    copy.write_row((key_of(f"run {number // RUN}"), RUN))
            with connection.cursor().copy(f"COPY {name}.subgoal FROM STDIN") as copy:
                for number, key in zip(some, keys, strict=True):
                    copy.write_row((key, f'"subgoal {number}"'))
            rows = np.zeros(len(some), _ROW)
            rows["columns"], rows["key_size"], rows["key"] = 2, 16, [key.bytes for key in keys]
            rows["size"], rows["dimension"], rows["vector"] = (
                4 + 4 * DIMENSION,
                DIMENSION,
                vectors[some.start : some.stop],
            )
            # numpy cuts zeros off the end of a text
            plain = rows.view(np.uint8).reshape(len(some), _ROW.itemsize)
            plain[:, 6:22] = np.frombuffer(b"".join(key.bytes for key in keys), np.uint8).reshape(-1, 16)
            with connection.cursor().copy(f"COPY {table} (subgoal, embedding) FROM STDIN (FORMAT binary)") as copy:
                copy.write(_HEAD + rows.tobytes() + _TAIL)
            columns = 'run, subgoal, "end", digest, task_id, task_name, decision, depth, turns'
            with connection.cursor().copy(f"COPY {name}.experience ({columns}) FROM STDIN") as copy:
                for number, key in zip(some, keys, strict=True):
                    digest = int.from_bytes(key.bytes[:8], "big", signed=True)
                    said = turns[number % 300].replace(f"subgoal {number % 300}", f"subgoal {number}")
                    run = key_of(f"run {number // RUN}")
                    about = (f'"{number // RUN}"', '"benchmark"', 1, 1, said)
                    copy.write_row((run, key, number % 3, digest, *about))


def fill(server: PostgresServer, size: int) -> float:
    """Fill a server with experiences; returns the seconds that its index took."""
    with server.connect() as connection:
        schema.prepare(connection, "this server")
        path = schema.path_of(connection, "this server")
        table = schema.vectors_of(connection, ReadyEmbedder.name, DIMENSION, path)
        load(connection, table, composed_vectors(size, 1))
        took = timed(partial(connection.execute, schema.index_of(table, DIMENSION)))
        connection.execute("ANALYZE")
    return took / 1e3


def measure(url: str, size: int, queries: int) -> list[str]:
    """One row of the table, of a server that is filled."""
    vectors, asked, embedder = composed_vectors(size, 1), composed_vectors(queries + 5, 2), ReadyEmbedder()
    embedder.vectors.update((f"query {number}", vector) for number, vector in enumerate(asked))
    product, search, first, found = [], [], [], 0
    with tempfile.TemporaryDirectory() as folder, FleetMemory(url, Path(folder) / "own.db", embedder) as memory:

        def retrieve(number: int) -> None:
            memory.retrieve(f"query {number}", count_tokens=approximate_tokens)

        server = memory._link.server
        assert server is not None
        for number in range(queries, queries + 5):  # warm up
            retrieve(number)
            vectors @ asked[number]
        for number in range(queries):
            product.append(timed(partial(np.matmul, vectors, asked[number])))
            search.append(timed(partial(server.nearest, asked[number], 64)))
            first.append(timed(partial(retrieve, number)))
            exact = np.argsort(-(vectors @ asked[number]))[:10]
            near = {key for key, _ in server.nearest(asked[number], 64)[0][:10]}
            found += len(near & {key_of(f"subgoal {at}") for at in exact})
        assert memory._link.server is server, "the server was lost while it was measured"
    bare, searched, whole = map(statistics.median, (product, search, first))
    return [
        f"{size:,}",
        f"{bare:.2f}",
        f"{searched:.2f}",
        f"{whole:.2f}",
        f"{whole / bare:.2f}x",
        f"{found / queries / 10:.3f}",
    ]


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="numbers of experiences")
    parser.add_argument("--queries", type=int, default=100, help="different queries per size")
    parser.add_argument("--url", help="a server that is filled already with one of the sizes")
    given = parser.parse_args()
    os.environ["PGPASSWORD"] = PASSWORD
    link.MOST_COPIES = 0  # they are not part of what is measured
    print(f"{os.cpu_count()} cores, numpy {np.__version__}; medians over {given.queries} queries")
    print("experiences  product ms  search ms  first ms  /product  found  index s")
    for size in given.sizes:
        if given.url:
            print("  ".join(measure(given.url, size, given.queries)), flush=True)
            continue
        server = PostgresServer({"shared_buffers": "2GB", "maintenance_work_mem": "4GB", "max_wal_size": "8GB"})
        try:
            took = fill(server, size)
            print("  ".join([*measure(server.url(), size, given.queries), f"{took:.0f}"]), flush=True)
        finally:
            server.remove()


if __name__ == "__main__":
    main()
