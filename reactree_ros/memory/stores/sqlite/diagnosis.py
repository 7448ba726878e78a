"""A database file: whether it is a readable memory, and its contents. The check writes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from reactree_ros.memory.embedding import DEFAULT_MODEL
from reactree_ros.memory.port import EpisodicMemoryError
from reactree_ros.memory.stores.sqlite.database import SCHEMA_VERSION, check_schema
from reactree_ros.plugins.diagnosis import Diagnosis, Level
from reactree_ros.plugins.installation import install_line, lacking

#: Longest wait for a process that locks it, in seconds.
PATIENCE = 2.0
_JOURNAL_BYTE, _WRITE_AHEAD = 18, 2  # byte in the header of a database file, and its value for a write-ahead log


def diagnose(path: Path) -> Iterator[Diagnosis]:
    """Yield diagnoses about the memory in a file.

    Raises:
        OSError: The file does not exist or is not readable.
        EpisodicMemoryError: It is no memory of ours.
    """
    try:
        with closing(_opened(path)) as database:
            check_schema(database, path)
            meta = dict(database.execute("SELECT key, value FROM meta"))
            (experiences,) = database.execute("SELECT count(*) FROM experience").fetchone()
            (runs,) = database.execute("SELECT count(*) FROM run").fetchone()
    except sqlite3.Error as error:
        is_held = "locked" in str(error)
        said = f"{path}: {'another process holds it' if is_held else 'cannot be read'} ({error})"
        remedy = "wait for that process, or end it" if is_held else "name an episodic memory that you may read"
        yield Diagnosis("memory", Level.WRONG, said, remedy)
        return
    yield Diagnosis("memory", Level.RIGHT, f"{path}: {experiences} experiences of {runs} runs, schema {SCHEMA_VERSION}")
    said = f"{meta.get('embedder')}, {meta.get('dimension')} dimensions"
    if meta.get("embedder") != DEFAULT_MODEL:
        remedy = (
            f"`reactree` embeds with {DEFAULT_MODEL}: export the memory with the embedder that made it, and import that"
        )
        yield Diagnosis("embedder", Level.WRONG, said, remedy)
    elif lacking("reactree_ros[memory]"):
        remedy = install_line("reactree_ros[memory]")
        yield Diagnosis("embedder", Level.WRONG, f"{said}, which is not installed here", remedy)
    else:
        yield Diagnosis("embedder", Level.RIGHT, said)


def _opened(path: Path) -> sqlite3.Connection:
    """Open a database read-only.

    A database in write-ahead mode without a log is opened as immutable, because reading it otherwise creates a log.
    """
    with path.open("rb") as file:
        header = file.read(100)
    if not header.startswith(b"SQLite format 3\0"):
        raise EpisodicMemoryError(f"{path}: not an SQLite database")
    has_log = Path(f"{path}-wal").exists()
    how = "immutable=1" if header[_JOURNAL_BYTE] == _WRITE_AHEAD and not has_log else "mode=ro"
    return sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True, timeout=PATIENCE)
