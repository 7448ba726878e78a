"""A file of an SQLite database: made, opened and written so that a kill loses nothing, with errors of one line.

Write-ahead logging lets readers read while one process writes; a second writer waits for the first one. What is written
in one transaction is there as a whole after a kill, or not at all.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import in_a_line


class SqliteFile:
    """A database file with one connection that writes and one that reads; its methods are for any thread.

    Args:
        path: The file; made if it does not exist (its folder must).
        busy_timeout: How long to wait while another process writes, in seconds.

    Raises:
        UserError: It is no database, one of another program or schema version, or it cannot be opened.

    Attributes:
        what: What it is, for errors.
        application_id: By which it is known, in the header of the file.
        version: Of the schema.
        synchronous: Whether a commit waits for the disk (``FULL``), and so outlives a power failure, or only a kill.
        error: Of what class errors are.
    """

    what: ClassVar[str]
    application_id: ClassVar[int]
    version: ClassVar[int]
    synchronous: ClassVar[str] = "FULL"
    error: ClassVar[type[UserError]] = UserError

    def __init__(self, path: Path, *, busy_timeout: float) -> None:
        self.path = path
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

    def _make(self, database: sqlite3.Connection) -> None:
        """Makes the schema in a new file."""
        raise NotImplementedError

    def _check(self, database: sqlite3.Connection) -> None:
        """Refuses a file of the schema that does not fit in another way."""

    @classmethod
    def check_schema(cls, database: sqlite3.Connection, path: Path) -> None:
        """Looks whether a database is one of these that can be read.

        Raises:
            UserError: It is one of another program, or of another schema version.
            sqlite3.Error: It cannot be read.
        """
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
        """Closes the database; a second call does nothing."""
        with self._write_lock, self._read_lock:
            if self._open:
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
        """Makes the schema in a new file, and refuses every other that does not fit, before anything is changed."""
        if self._is_new():
            self._use_write_ahead_log()
            with self._transaction() as database:
                if self._is_new():  # another process may have been first
                    self._make(database)
                    database.execute(f"PRAGMA application_id = {self.application_id}")
                    database.execute(f"PRAGMA user_version = {self.version}")
        self.check_schema(self._writer, self.path)
        self._check(self._writer)
        self._use_write_ahead_log()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Writes all that is written meanwhile, or, if anything is raised, nothing."""
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield self._writer
            self._writer.execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def _is_new(self) -> bool:
        (application,) = self._writer.execute("PRAGMA application_id").fetchone()
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        (tables,) = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return bool(application == version == tables == 0)

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
    def _explained(self, doing: str) -> Iterator[None]:
        """Turns SQLite's exceptions into one line that names the file and says what to do."""
        if not self._open:
            raise self.error(f"{self.path}: is closed")
        cannot = f"{self.path}: cannot {doing} this {self.what.partition(' ')[2]}"
        try:
            yield
        except sqlite3.Error as error:
            if "locked" in str(error):
                reason = f"another process has been writing to it for more than {self._busy_timeout:g} s: try again"
            elif "not a database" in str(error):
                reason = "not an SQLite database: name another file"
            else:
                reason = str(error)
            raise self.error(f"{cannot}: {reason}") from error
        except UnicodeEncodeError as error:
            raise self.error(f"{cannot}: {error}") from error
        except (ValueError, TypeError, LookupError, ArithmeticError) as error:  # of a column of another type
            raise self.error(f"{cannot}: a row is not what was written ({in_a_line(error)})") from error
