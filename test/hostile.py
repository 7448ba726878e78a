"""A hostile peer: a server that keeps which keys it is sent, and records whose headers want something of the reader."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from typing_extensions import Self


class KeyCatcher:
    """A server that answers everything with nothing, and keeps what came.

    Attributes:
        requests: Method, path and ``Authorization`` of each request.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str]] = []
        catcher = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                catcher.requests.append((self.command, self.path, self.headers.get("Authorization", "")))
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.base_url = f"http://{self.host}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


def changed_header(record: Path, out: Path, changes: Mapping[str, Any]) -> Path:
    """Write a record with other values in its header, by names with dots between; returns the new one."""
    first, *lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
    header = json.loads(first)
    for name, value in changes.items():
        *within, last = name.split(".")
        at = header
        for one in within:
            at = at[one]
        at[last] = value
    out.write_text("".join([json.dumps(header) + "\n", *lines]), encoding="utf-8")
    return out
