"""Fills a fleet's memory with made-up experiences, by PostgreSQL's COPY, and builds its index after."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from retrieval import DIMENSION, RUN, experiences

from reactree_ros.agent.turns import turn_to_dict
from reactree_ros.memory.stores.postgresql import schema

CHUNK = 20_000
_ROW = np.dtype(
    [
        *(("columns", ">i2"), ("key_size", ">i4"), ("key", "S16")),
        *(("size", ">i4"), ("dimension", ">i2"), ("unused", ">i2"), ("vector", ">f4", DIMENSION)),
    ]
)
_HEAD, _TAIL = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"


def composed_vectors(count: int, seed: int) -> NDArray[np.float32]:
    """Unit vectors of subgoals as sentences have them: of a verb, a thing and a place, and a little of their own."""
    parts, own = np.random.default_rng(0), np.random.default_rng(seed)
    vectors = 0.35 * own.standard_normal((count, DIMENSION), dtype=np.float32)
    for words, weight in ((24, 1.0), (400, 1.2), (60, 0.8)):
        meanings = parts.standard_normal((words, DIMENSION), dtype=np.float32)
        vectors += np.float32(weight) * meanings[own.integers(words, size=count)]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def key_of(subgoal: str) -> UUID:
    """The key of a subgoal."""
    return UUID(bytes=blake2b(subgoal.encode(), digest_size=16).digest())


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
