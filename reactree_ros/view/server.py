"""The server of the page: shows records as they are written, and lets a person steer the run.

Every request is checked first: it names this server (``Host``), carries the token, and comes from this server's own
page (``Origin``). Only the terminal prints the token. It is needed on the loopback, too, which every user of the
machine can reach.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import secrets
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from reactree_ros.agent.text import number_of
from reactree_ros.background.pending import in_a_thread
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import LONGEST_LINE, parse_json
from reactree_ros.record.reader import Reading, RecordError, read_record
from reactree_ros.record.schema import Event
from reactree_ros.record.verdict import verdict_of
from reactree_ros.view import as_script
from reactree_ros.view.exports import EXPORTS, export
from reactree_ros.view.http import address_of, admit, bound, own_hosts, server_of
from reactree_ros.view.runs import Runs
from reactree_ros.view.steering import Helm

PAGE = Path(__file__).parent / "page"
#: Time between two reads of a record that is being written, in seconds.
LOOK_PERIOD = 0.05
#: Time until a quiet stream sends an empty line to test its reader, in seconds.
QUIET_PERIOD = 10.0
#: Longest wait for the server to start and to end, in seconds.
PATIENCE = 10.0
#: Most bytes of a record that are read at once.
PART = 1 << 20
#: Longest command of a person, in bytes.
LONGEST_COMMAND = 100_000
#: Matches every line that a browser could read as the last event, however its JSON is written.
_MAY_BE_LAST = re.compile(rb'"end"|\\u006')
#: The cookie with the token; browsers send a cookie to every port of a host, so each page has its own.
COOKIE = "reactree_token_{port}"
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
P = ParamSpec("P")
T = TypeVar("T")
Scope = Any
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class ViewServer:
    """Serves the page in its own thread, within a ``with`` block; a free port for 0; without steering it only shows."""

    def __init__(self, runs: Runs, *, host: str = "127.0.0.1", port: int = 0, steering: Helm | None = None) -> None:
        self._runs, self._steering = runs, steering
        self._stopping = threading.Event()
        self._socket = bound(host, port)
        self.port = self._socket.getsockname()[1]
        self._address, self._token = address_of(self._socket), secrets.token_urlsafe(24)
        self._cookie = COOKIE.format(port=self.port)
        self._once = set[str]()  # tokens that each open the page once
        routes = [
            Route("/", self._page),
            Route("/api/runs", self._table),
            Route("/api/events", self._events),
            Route("/api/export", self._export),
            Route("/api/steering", self._steer, methods=["POST"]),
            Route("/page/words.js", lambda request: Response(as_script(), media_type="text/javascript")),
            Mount("/page", StaticFiles(directory=PAGE)),
        ]
        guarded = _Guard(Starlette(routes=routes), self._token, self._once, self._cookie, own_hosts(self._socket))
        self._server = server_of(guarded, lifespan="off")
        serve = partial(self._server.serve, sockets=[self._socket])
        self._thread = threading.Thread(target=lambda: asyncio.run(serve()), name="view", daemon=True)

    @property
    def url(self) -> str:
        """URL of the page with the token: for the person's eyes, not for a log."""
        return f"http://{self._address}/?token={self._token}"

    def url_for_once(self) -> str:
        """Return a URL that opens the page once: every user of the machine sees what a browser is started with."""
        self._once.add(token := secrets.token_urlsafe(24))
        return f"http://{self._address}/?token={token}"

    def __enter__(self) -> ViewServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._server.should_exit = True
        self._thread.join(PATIENCE)

    def wait(self) -> None:
        while self._thread.is_alive():
            self._thread.join(PATIENCE)

    async def _page(self, request: Request) -> Response:
        if "token" in request.query_params:  # removes it from the address line, where others could read it
            self._once.discard(request.query_params["token"])
            answer: Response = RedirectResponse("/", status_code=303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            return answer
        return Response((PAGE / "index.html").read_bytes(), media_type="text/html")

    async def _table(self, request: Request) -> Response:
        runs = await _apart(self._runs.table)
        return _json({"alone": self._runs.alone, "steered": self._steering is not None, "runs": runs})

    async def _events(self, request: Request) -> Response:
        path = await self._asked(request)
        first = number_of(request.query_params.get("from", "0"))
        if path is None or first is None:
            return _refusal(404, "no such run; go back to the table")
        try:
            reading = Reading(path, await _apart(self._runs.open, path), _loosely)
        except RecordError as error:
            return _refusal(422, str(error))
        return StreamingResponse(self._follow(reading, path, first), media_type="application/x-ndjson")

    async def _export(self, request: Request) -> Response:
        path, kind = await self._asked(request), request.query_params.get("as", "")
        at = number_of(request.query_params.get("at", ""))
        if path is None or kind not in EXPORTS:
            return _refusal(404, f"no such run or export; exports are {', '.join(EXPORTS)}")
        try:
            content = await _apart(lambda: export(read_record(path, self._runs.open(path)), kind, at))
        except UserError as error:
            return _refusal(422, str(error))
        named = f'attachment; filename="run.{EXPORTS[kind].suffix}"'
        return Response(content, media_type=EXPORTS[kind].media_type, headers={"content-disposition": named})

    async def _steer(self, request: Request) -> Response:
        if self._steering is None:
            return _refusal(409, "you can only watch this run; `reactree run --view` steers")
        try:
            command = parse_json(await request.body(), halves=True)
            do, run, words = str(command["do"]), str(command.get("run", "")), str(command.get("words", ""))
        except (ValueError, TypeError, KeyError, AttributeError):
            return _refusal(400, 'a command is {"do": …, "run": …}')
        path = self._runs.path if self._runs.alone else await _apart(self._runs.find, run)
        if path is None:
            return _refusal(404, "no such run; go back to the table")
        commands = self._steering.commands(path)
        if do not in commands:
            return _refusal(400, f"{do[:60]!r} is none of {', '.join(commands)}")
        try:
            commands[do](words)
        except UserError as error:
            return _refusal(409, str(error))
        return _json({})  # the events show the result

    async def _asked(self, request: Request) -> Path | None:
        return await _apart(self._runs.find, request.query_params.get("run", ""))

    async def _follow(self, reading: Reading, path: Path, skip: int) -> AsyncIterator[bytes]:
        # complete lines of a record until its end, and between them each change of the steering
        sent, quiet = None, 0.0
        with reading:
            while not self._stopping.is_set():
                if self._steering is not None and (course := self._steering.course_of(path)) != sent:
                    sent = course
                    yield _line({"e": "steering"} | asdict(course))
                try:
                    found = await _apart(reading.more, PART) if reading.grown() else []
                except RecordError as error:
                    yield _line({"e": "unreadable", "reason": str(error)})
                    return
                lines, skip = [_with_verdict(*one) for one in found[skip:]], max(0, skip - len(found))
                if lines:
                    quiet = 0.0
                    yield b"".join(lines)
                elif quiet >= QUIET_PERIOD:
                    quiet = 0.0
                    yield b"\n"
                if reading.ended:
                    return
                if not found:
                    quiet += LOOK_PERIOD
                    await asyncio.sleep(LOOK_PERIOD)


def _loosely(line: bytes) -> Event:
    # as far as the stream needs it; the page skips other lines that make no sense
    if len(line) > LONGEST_LINE:
        raise ValueError(f"is longer than {LONGEST_LINE >> 20} MiB, the most that a line may have")
    event = parse_json(line, halves=True) if _MAY_BE_LAST.search(line) else None
    return event if isinstance(event, dict) and event.get("e") == "end" else {"e": ""}


def _with_verdict(line: bytes, event: Event) -> bytes:
    # the last line gets the verdict, so that the page need not judge
    if event["e"] != "end":
        return line
    verdict = verdict_of(event.get("result")).as_dict()
    return line.rstrip()[:-1] + b',"verdict":' + json.dumps(verdict).encode() + b"}\n"


async def _apart(work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    return await asyncio.wrap_future(in_a_thread(partial(work, *args, **named), "view work"))


class _Guard:
    # lets only requests of this server's own page through; without hosts it may be called anything

    def __init__(self, app: Any, token: str, once: Collection[str], cookie: str, hosts: Collection[str]) -> None:
        self._app, self._token, self._once, self._cookie, self._hosts = app, token.encode(), once, cookie, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def secured(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        status, reason = self._objection(scope, Headers(scope=scope))
        if reason:
            await _refusal(status, reason)(scope, receive, secured)
            return
        admit(scope)
        await self._app(scope, receive, secured)

    def _objection(self, scope: Scope, headers: Headers) -> tuple[int, str]:
        host, origin = headers.get("host", ""), headers.get("origin")
        if self._hosts and host not in self._hosts:
            return 403, f"this is not {host[:80]!r}; open the page at the printed address"
        request = Request(scope)
        asked = request.query_params.get("token", "")
        given = (asked, request.cookies.get(self._cookie, ""))
        known = any(hmac.compare_digest(one.encode(errors="replace"), self._token) for one in given)
        if not known and not (scope["path"] == "/" and asked in self._once):
            return 401, "the token is missing; open the page at the printed address"
        if origin is not None and origin != f"http://{host}":
            return 403, "a page from elsewhere may neither read nor steer a run"
        if scope["method"] not in ("GET", "HEAD"):
            if origin is None or not headers.get("content-type", "").startswith("application/json"):
                return 403, "commands must come from the page, as JSON"
            length = number_of(headers.get("content-length", ""))
            if length is None or length > LONGEST_COMMAND:
                return 413, f"a command has at most {LONGEST_COMMAND} bytes"
        return 0, ""


def _line(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode() + b"\n"


def _json(value: Any, status: int = 200) -> Response:
    # Starlette's own encoder rejects lone surrogates.
    return Response(json.dumps(value), status, media_type="application/json")


def _refusal(status: int, reason: str) -> Response:
    return _json({"error": reason}, status)
