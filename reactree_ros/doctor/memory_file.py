"""An episodic memory that was named: whether it can be read, what it holds. Nothing is written, nor beside it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from reactree_ros.doctor.diagnosis import Diagnosis, Level
from reactree_ros.plugins.installation import install_line, lacking

#: Longest wait for whoever holds it, in seconds.
PATIENCE = 2.0
_JOURNAL_BYTE, _WRITE_AHEAD = 18, 2  # of the header of a database file: how it is written


def episodic_memory(path: Path | None) -> Iterator[Diagnosis]:
    """Yield what there is of an episodic memory.

    Args:
        path: The file; None: none was named.
    """
    if path is None:
        yield Diagnosis("memory", Level.NOTE, "none is named", "--memory FILE looks at one")
        return
    from reactree_ros.memory.store import EpisodicMemoryError

    try:
        yield from _look(path)
    except EpisodicMemoryError as error:
        yield Diagnosis("memory", Level.WRONG, str(error), "it is left as it is; name another file with --memory")
    except (sqlite3.Error, OSError) as error:
        is_held = "locked" in str(error)
        said = f"{path}: {'another process holds it' if is_held else 'cannot be read'} ({error})"
        remedy = "wait for that process, or end it" if is_held else "name an episodic memory, a file that may be read"
        yield Diagnosis("memory", Level.WRONG, said, remedy)


def _look(path: Path) -> Iterator[Diagnosis]:
    from reactree_ros.memory.embedding import DEFAULT_MODEL
    from reactree_ros.memory.store import SCHEMA_VERSION, check_schema

    with closing(_opened(path)) as database:
        check_schema(database, path)
        meta = dict(database.execute("SELECT key, value FROM meta"))
        (experiences,) = database.execute("SELECT count(*) FROM experience").fetchone()
        (runs,) = database.execute("SELECT count(*) FROM run").fetchone()
    yield Diagnosis("memory", Level.RIGHT, f"{path}: {experiences} experiences of {runs} runs, schema {SCHEMA_VERSION}")
    said = f"{meta.get('embedder')}, {meta.get('dimension')} dimensions"
    if meta.get("embedder") != DEFAULT_MODEL:
        remedy = f"`reactree` embeds with {DEFAULT_MODEL}: export it with what made it, and import that"
        yield Diagnosis("embedder", Level.WRONG, said, remedy)
    elif lacking("reactree_ros[memory]"):
        remedy = install_line("reactree_ros[memory]")
        yield Diagnosis("embedder", Level.WRONG, f"{said}, which is not installed here", remedy)
    else:
        yield Diagnosis("embedder", Level.RIGHT, said)


def _opened(path: Path) -> sqlite3.Connection:
    """Open a database to be read only.

    With a write-ahead log it is taken as unchanging where there is no log, because to read it otherwise makes one.

    Raises:
        OSError: There is no such file, or it may not be read.
        EpisodicMemoryError: It is no database.
        sqlite3.Error: It cannot be opened.
    """
    from reactree_ros.memory.store import EpisodicMemoryError

    with path.open("rb") as file:
        header = file.read(100)
    if not header.startswith(b"SQLite format 3\0"):
        raise EpisodicMemoryError(f"{path}: not an SQLite database")
    has_log = Path(f"{path}-wal").exists()
    how = "immutable=1" if header[_JOURNAL_BYTE] == _WRITE_AHEAD and not has_log else "mode=ro"
    return sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True, timeout=PATIENCE)
