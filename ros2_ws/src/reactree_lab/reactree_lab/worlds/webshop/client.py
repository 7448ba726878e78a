r"""The environments of AgentGym's WebShop server, over HTTP, with time limits.

The protocol is that of ``agentenv-webshop`` (github.com/WooooDyy/AgentGym: ``server.py``, ``model.py`` and
``environment.py`` there; its own client is ``agentenv/agentenv/envs/webshop.py``). The answers come from WebShop
(github.com/princeton-nlp/WebShop: ``web_agent_site/envs/web_agent_text_env.py``, ``engine/engine.py``):

- ``GET /``: ``"ok"``, as from every AgentGym server.
- ``GET /list_envs``: the ids of its environments.
- ``POST /create``: makes an environment, which loads the whole shop; meanwhile, the server answers nobody. Returns its
  id, a number.
- ``POST /reset`` with ``{"env_idx", "session_id"}``: starts a goal, whose number is ``session_id``. Returns
  ``[observation, null]``.
- ``POST /step`` with ``{"env_idx", "action"}``: returns ``{"state", "reward", "done", "info": null}``.
- ``GET /observation?env_idx=``: the page as text, with ``[SEP]`` between its parts.
- ``GET /available_actions?env_idx=``: ``{"has_search_bar", "clickables"}``, the latter in lower case.
- ``GET /instruction_text?env_idx=``: the instruction, after ``Instruction:``.

Its surprises:

- It has no ``/close``, though its own client asks for it (404): environments stay until there are 8,000, then it hands
  out the oldest again. So this client reuses them for one episode after the other, and also asks for ``/close``.
- ``/state`` returns the names of its fields instead of their values, and is not used.
- Prices are random for each environment: in another one, the same goal may name another price.
- An unknown environment or goal is a 500 without a reason, and so is ``/instruction_text`` after a purchase.
- It reads an action by ``(.+)\[(.+)\]``: a name with ``[`` in it cannot be clicked, and empty keywords do nothing. An
  impossible action silently changes nothing. A search works on every page, even after a purchase.
- The first keyword may be ``<r>``, ``<a>``, ``<c>`` or ``<q>``, for a random page, by an attribute (a 500), by a
  category or a query.
- Choosing an option does not change the text of the page; a page of results, or of the search, forgets it.
- After a purchase the page tells the score. If a server returns 503, its own client asks again, up to five times.
- With several workers (``uvicorn --workers``) each knows only its own environments.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from reactree_ros.background.pending import Pending, where_late
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import checked, parse_json
from reactree_ros.world.port import WorldError

T = TypeVar("T")
#: Seconds that a server may take to accept a connection, and to close an environment.
CONNECT_LIMIT, CLOSE_LIMIT = 10.0, 2.0
#: Number of requests to a busy server, and seconds between two of them.
BUSY_TRIES, BUSY_PAUSE = 5, 0.1
#: The longest answer that is read, in bytes.
LONGEST_ANSWER = 10_000_000
_OK, _BUSY = 200, 503
_INSTRUCTION, _SEP = "Instruction:", "[SEP]"


class Actions(BaseModel):
    has_search_bar: bool  # whether there is a search bar
    clickables: list[str]  # the names that can be clicked


class Step(BaseModel):
    state: str  # the new page
    reward: Annotated[float, Field(ge=0, le=1)]  # the score of a purchase, from 0 to 1; 0 before
    done: bool  # whether a purchase was made


class Refused(WorldError):
    """The server answered with an HTTP status other than success."""


def read_address(server: str) -> str:
    try:
        parts = urlsplit(server)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or re.search(r"[\s?#@]|[^!-~]", server):
        raise ValueError("it is not a server URL; a server URL looks like http://127.0.0.1:36001")
    return server.rstrip("/")


def check_server(server: str, time_limit: float) -> None:
    try:
        said = _Server(server, time_limit).ask("GET", "/", object)
    except WorldError as error:
        raise UserError(str(error)) from None
    if said != "ok":
        raise UserError(f"WebShop at {server}: there is a server, but it is not AgentGym's; name another with server")


class Shop:
    """An environment at a server, for one thread at a time."""

    def __init__(self, server: str, time_limit: float) -> None:
        self.lost = ""  # why it is useless
        self.place = server, time_limit
        self._server = _Server(server, time_limit)
        self._id = self._server.ask("POST", "/create", int)

    def begin(self, session: int) -> None:
        self._ask("POST", "/reset", list[str | None], session_id=session)

    def is_known(self) -> bool:
        """Return whether the server still has it; a restarted server has not."""
        return self._id in self._server.ask("GET", "/list_envs", list[int])

    def page(self) -> str:
        return tidy(self._ask("GET", "/observation", str))

    def instruction(self) -> str:
        said = " ".join(self._ask("GET", "/instruction_text", str).split())
        return said.removeprefix(_INSTRUCTION).strip()

    def actions(self) -> Actions:
        return self._ask("GET", "/available_actions", Actions)

    def step(self, action: str) -> Step:
        step = self._ask("POST", "/step", Step, action=action)
        return step.model_copy(update={"state": tidy(step.state)})

    def close(self) -> None:
        self.lost = self.lost or "the shop was closed"
        self._server.time_limit = min(CLOSE_LIMIT, self._server.time_limit)
        with contextlib.suppress(WorldError):
            self._server.ask("POST", "/close", object, env_idx=self._id)

    def _ask(self, method: str, path: str, kind: type[T], **values: Any) -> T:
        if self.lost:
            raise WorldError(self.lost)
        try:
            return self._server.ask(method, path, kind, env_idx=self._id, **values)
        except Refused:
            raise
        except WorldError as error:  # whether it was or still is being done is unknown
            self.lost = str(error)
            raise


class _Server:
    def __init__(self, server: str, time_limit: float) -> None:
        self.time_limit = time_limit
        self._where = f"WebShop at {server}"
        parts = urlsplit(server)
        self._connection = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port, self._folder = str(parts.hostname), parts.port, parts.path

    def ask(self, method: str, path: str, kind: type[T], **values: Any) -> T:
        for _ in range(BUSY_TRIES):
            status, body = self._exchange(method, path, values)
            if status != _BUSY:
                break
            time.sleep(BUSY_PAUSE)
        text = body.decode("utf-8", errors="replace")
        if status != _OK:
            raise Refused(f"{self._where} answers {path} with {status}: {_line(_reason(text))}")
        try:
            answer: object = parse_json(text)
            if isinstance(answer, Mapping) and answer.get("error"):  # AgentGym's servers for other worlds do this
                raise Refused(f"{self._where} answers {path} with an error: {_line(str(answer['error']))}")
            return checked(kind, answer)
        except ValueError:  # of JSON or pydantic
            said = f"answers {path} with what is not an answer of AgentGym's WebShop"
            raise WorldError(f"{self._where} {said}: {_line(text)}") from None

    def _exchange(self, method: str, path: str, values: Mapping[str, Any]) -> tuple[int, bytes]:
        posts = method == "POST"
        query = "" if posts or not values else "?" + "&".join(f"{name}={value}" for name, value in values.items())
        headers = {"Accept": "application/json", "Connection": "close"}
        body = json.dumps(values).encode() if posts else None
        if posts:
            headers["Content-Type"] = "application/json"
        connection = self._connection(self._host, self._port, timeout=min(CONNECT_LIMIT, self.time_limit))
        try:
            connection.connect()
        except OSError as error:
            raise WorldError(
                f"{self._where} cannot be reached ({error.strerror or error}): start AgentGym's server there, or name "
                "another with server"
            ) from None
        with self._in_time(connection) as late:
            try:
                connection.request(method, f"{self._folder}{path}{query}", body, headers)
                answer = connection.getresponse()
                read, cut = answer.read(LONGEST_ANSWER + 1), answer.length
                problem = "it broke off" if cut else ""  # a read of a fixed length does not report missing bytes itself
            except TimeoutError:
                raise self._late(path) from None
            except (OSError, HTTPException) as error:
                problem = _line(str(error))
            if late():
                raise self._late(path)
        if problem:
            raise WorldError(f"{self._where} did not answer {path} to the end ({problem})")
        return answer.status, read

    def _late(self, path: str) -> WorldError:
        return WorldError(f"{self._where} did not answer {path} within {self.time_limit:g} s")

    @contextlib.contextmanager
    def _in_time(self, connection: HTTPConnection) -> Iterator[Callable[[], bool]]:
        """Close a connection once its time is over, however slowly bytes arrive; yield whether it was closed."""
        line: socket.socket = connection.sock
        line.settimeout(self.time_limit)
        answered, broken = Pending[None](), threading.Event()

        def break_off(_: object) -> None:
            broken.set()
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

        where_late(answered, self.time_limit, break_off)
        try:
            yield broken.is_set
        finally:
            answered.succeed(None)
            connection.close()


_idle: dict[tuple[str, float], list[Shop]] = {}
_lock = threading.Lock()


def borrow(server: str, time_limit: float, session: int) -> Shop:
    while True:
        with _lock:
            idle = _idle.get((server, time_limit))
            shop = idle.pop() if idle else None
        was_used = shop is not None
        shop = shop or Shop(server, time_limit)
        try:
            shop.begin(session)
            return shop
        except Refused as error:
            if was_used and not shop.is_known():  # the server was restarted
                continue
            give_back(shop)
            raise WorldError(
                f"WebShop at {server} does not begin task {session}; the shop there may have fewer ({error})"
            ) from None
        except WorldError:
            give_back(shop)
            raise


def give_back(shop: Shop) -> None:
    if shop.lost:
        shop.close()
        return
    with _lock:
        _idle.setdefault(shop.place, []).append(shop)


def instruction_of(server: str, time_limit: float, session: int) -> str:
    shop = borrow(server, time_limit, session)
    try:
        return shop.instruction()
    finally:
        give_back(shop)


def tidy(page: str) -> str:
    parts = (" ".join(part.split()) for part in page.split(_SEP))
    return f" {_SEP} ".join(part for part in parts if part) or "The page is empty."


def _reason(text: str) -> str:
    """Return FastAPI's reason for a refusal, from ``detail`` if there is one."""
    with contextlib.suppress(ValueError):
        said = parse_json(text)
        if isinstance(said, Mapping) and said.get("detail"):
            return str(said["detail"])
    return text


def _line(text: str) -> str:
    line = " ".join(text.split())
    return f"{line[:200]}…" if len(line) > 200 else line or "nothing is said"


@atexit.register
def _close_idle() -> None:
    until = time.monotonic() + CLOSE_LIMIT
    for shop in [shop for shops in _idle.values() for shop in shops]:
        if time.monotonic() < until:
            shop.close()
