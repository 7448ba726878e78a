"""A file of an SQLite database: made, opened and written so that a kill loses nothing, with errors of one line.

Write-ahead logging lets readers read while one process writes; a second writer waits for the first one. What is written
in one transaction is there as a whole after a kill, or not at all.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import in_a_line


class SqliteFile:
    """A database file with one connection that writes and one that reads; its methods are for any thread.

    The file is made if it does not exist (its folder must); who waits for another process that writes waits no longer
    than `busy_timeout`, in seconds.
    """

    what: ClassVar[str]
    application_id: ClassVar[int]  # by which it is known, in the header of the file
    version: ClassVar[int]
    schema: ClassVar[Sequence[str]]
    synchronous: ClassVar[str] = "FULL"  # a commit waits for the disk, and so outlives a power failure, not only a kill
    error: ClassVar[type[UserError]] = UserError

    def __init__(self, path: Path, *, busy_timeout: float = 10.0) -> None:
        self._path = path
        self._busy_timeout = busy_timeout
        self._read_lock = threading.RLock()
        self._write_lock = threading.Lock()
        self._open = True
        with contextlib.ExitStack() as opened, self._explained("open"):
            self._writer = opened.enter_context(contextlib.closing(self._connect()))
            self._prepare()
            self._reader = opened.enter_context(contextlib.closing(self._connect()))
            self._reader.execute("PRAGMA query_only = ON")
            opened.pop_all()

    @property
    def path(self) -> Path:
        return self._path

    @classmethod
    def check_schema(cls, database: sqlite3.Connection, path: Path) -> None:
        """Refuse a database of another program or schema version; raises also an ``sqlite3.Error``."""
        (application,) = database.execute("PRAGMA application_id").fetchone()
        if application != cls.application_id:
            raise cls.error(f"{path}: a database of another program, not {cls.what}")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version != cls.version:
            raise cls.error(
                f"{path}: has schema version {version}, this reactree_ros knows {cls.version}: "
                "export it with the version of reactree_ros that wrote it, then import that"
            )

    def close(self) -> None:
        with self._write_lock, self._read_lock:
            self._open = False
            self._reader.close()
            self._writer.close()

    def _connect(self) -> sqlite3.Connection:
        if not self.path.parent.is_dir():
            raise self.error(f"{self.path}: the folder {str(self.path.parent)!r} does not exist")
        if self.path.is_dir():
            raise self.error(f"{self.path}: is a folder, not a database file")
        connection = sqlite3.connect(
            self.path, timeout=self._busy_timeout, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(f"PRAGMA synchronous = {self.synchronous}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self) -> None:
        if self._is_new():
            self._use_write_ahead_log()
            with self._transaction() as database:
                if self._is_new():  # another process may have been first
                    self._make(database)
        self.check_schema(self._writer, self.path)

    def _make(self, database: sqlite3.Connection) -> None:
        header = f"PRAGMA application_id = {self.application_id}", f"PRAGMA user_version = {self.version}"
        for statement in (*self.schema, *header):
            database.execute(statement)

    def _is_new(self) -> bool:
        read = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        return not any(self._writer.execute(one).fetchone()[0] for one in read)

    def _use_write_ahead_log(self) -> None:
        # Two processes that switch a new file at once: SQLite refuses one of them without waiting.
        deadline = time.monotonic() + self._busy_timeout
        while True:
            try:
                (mode,) = self._writer.execute("PRAGMA journal_mode = WAL").fetchone()
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
        if mode != "wal":
            raise self.error(f"{self.path}: this file system has no write-ahead log: put it on a local disk")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._write_lock, self._explained("write to"), self._transaction() as database:
            yield database

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._read_lock, self._explained("read"):
            yield self._reader

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield self._writer
            self._writer.execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        """Turn what SQLite raises, and what a row that somebody changed leads to, into one line with the way out."""
        if not self._open:
            raise self.error(f"{self.path}: is closed")
        try:
            yield
        except (sqlite3.Error, ValueError, TypeError, LookupError, ArithmeticError) as error:
            if "locked" in str(error):
                reason = f"another process has been writing to it for more than {self._busy_timeout:g} s: try again"
            elif "not a database" in str(error):
                reason = "not an SQLite database: name another file"
            elif isinstance(error, (sqlite3.Error, UnicodeEncodeError)):
                reason = str(error)
            else:
                reason = f"a row is not what was written ({in_a_line(error)})"
            raise self.error(f"{self.path}: cannot {doing} this {self.what.partition(' ')[2]}: {reason}") from error
