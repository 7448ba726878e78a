r"""The environments of AgentGym's WebShop server, over HTTP, behind bounds.

The protocol is that of ``agentenv-webshop`` (github.com/WooooDyy/AgentGym: ``server.py``, ``model.py`` and
``environment.py`` there; its own client is ``agentenv/agentenv/envs/webshop.py``), and what it answers is up to WebShop
(github.com/princeton-nlp/WebShop: ``web_agent_site/envs/web_agent_text_env.py``, ``engine/engine.py``):

- ``GET /``: ``"ok"``, as of every server of AgentGym's.
- ``GET /list_envs``: the ids of its environments.
- ``POST /create``: makes an environment, which loads the whole shop, and the server answers nobody meanwhile. Answers
  its id, a number.
- ``POST /reset`` with ``{"env_idx", "session_id"}``: brings it to the start of a goal, whose number is ``session_id``.
  Answers ``[observation, null]``.
- ``POST /step`` with ``{"env_idx", "action"}``: answers ``{"state", "reward", "done", "info": null}``.
- ``GET /observation?env_idx=``: the page as text, with ``[SEP]`` between its parts.
- ``GET /available_actions?env_idx=``: ``{"has_search_bar", "clickables"}``, the latter in lower case.
- ``GET /instruction_text?env_idx=``: what is asked for, with ``Instruction:`` before it.

What it does that one would not expect:

- It has no ``/close``, though its own client asks for it (404): environments stay until 8,000 are reached, when the
  oldest are handed out again. So they are used for one episode after the other here; ``/close`` is asked for besides.
- ``/state`` answers the names of its fields instead of their values, and is not used.
- Prices are drawn anew for each environment: in another one, the same goal may name another price.
- An environment or goal that there is not is a 500 without a word why, as is ``/instruction_text`` after a purchase.
- An action is read by ``(.+)\[(.+)\]``: a name with ``[`` in it cannot be clicked, and empty keywords are nothing.
  What cannot be done changes nothing, which is not told. A search is done wherever one is, also after a purchase.
- The first of the keywords may be ``<r>``, ``<a>``, ``<c>`` or ``<q>``, for a page at random, by an attribute (a 500),
  by a category or a query.
- To choose an option leaves the text of the page as it was; a page of results, or of the search, forgets it.
- After a purchase the page tells the score. Where a server says 503, its own client asks again, up to five times.
- With several workers (``uvicorn --workers``) each knows its own environments alone.
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

from pydantic import BaseModel, Field, TypeAdapter

from reactree_ros.background.pending import Pending, where_late
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import parse_json
from reactree_ros.world.port import WorldError

T = TypeVar("T")
#: How long a server may take to take a connection, and to let an environment go, in seconds.
CONNECT_LIMIT, CLOSE_LIMIT = 10.0, 2.0
#: How often a server that says that it is busy is asked, and how long it is left alone in between, in seconds.
BUSY_TRIES, BUSY_PAUSE = 5, 0.1
#: The longest answer that is read, in bytes.
LONGEST_ANSWER = 10_000_000
_OK, _BUSY = 200, 503
_INSTRUCTION, _SEP = "Instruction:", "[SEP]"


class Actions(BaseModel):
    """What can be done on a page.

    Attributes:
        has_search_bar: Whether there is a search bar.
        clickables: What can be clicked.
    """

    has_search_bar: bool
    clickables: list[str]


class Step(BaseModel):
    """What came of an action.

    Attributes:
        state: The page then.
        reward: The score of a purchase, from 0 to 1; 0 before.
        done: Whether a purchase was made.
    """

    state: str
    reward: Annotated[float, Field(ge=0, le=1)]
    done: bool


_TEXT, _NUMBER, _NUMBERS = TypeAdapter(str), TypeAdapter(int), TypeAdapter(list[int])
_ACTIONS, _STEP = TypeAdapter(Actions), TypeAdapter(Step)
_RESET, _ANYTHING = TypeAdapter(list[str | None]), TypeAdapter[object](object)


class Refused(WorldError):
    """The server answered with a status of HTTP that is no success."""


def read_address(server: str) -> str:
    """Return the URL of a server without a slash at its end.

    Raises:
        ValueError: It is none.
    """
    try:
        parts = urlsplit(server)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or re.search(r"[\s?#@]|[^!-~]", server):
        raise ValueError("it is no URL of a server; it looks like http://127.0.0.1:36001")
    return server.rstrip("/")


def check_server(server: str, time_limit: float) -> None:
    """Look whether a server of AgentGym's answers.

    Raises:
        UserError: None does; the message says what to do.
    """
    try:
        said = _Server(server, time_limit).ask("GET", "/", _ANYTHING)
    except WorldError as error:
        raise UserError(str(error)) from None
    if said != "ok":
        raise UserError(f"WebShop at {server}: there is a server, but none of AgentGym's; name another with server")


class Shop:
    """An environment at a server, for one thread at a time.

    Args:
        server: The server's URL.
        time_limit: How long it may take to answer, in seconds.

    Raises:
        WorldError: The server makes none.
    """

    def __init__(self, server: str, time_limit: float) -> None:
        self.lost = ""  # why it is of no use any more
        self.place = server, time_limit
        self._server = _Server(server, time_limit)
        self._id = self._server.ask("POST", "/create", _NUMBER)

    def begin(self, session: int) -> None:
        """Go to the start of a goal.

        Raises:
            WorldError: There is no such goal, or the server is gone.
        """
        self._ask("POST", "/reset", _RESET, session_id=session)

    def is_known(self) -> bool:
        """Whether the server still has it, as it has not after it was started anew.

        Raises:
            WorldError: The server is gone.
        """
        return self._id in self._server.ask("GET", "/list_envs", _NUMBERS)

    def page(self) -> str:
        """Return the page as text.

        Raises:
            WorldError: The server is gone.
        """
        return tidy(self._ask("GET", "/observation", _TEXT))

    def instruction(self) -> str:
        """Return what is asked for.

        Raises:
            WorldError: The server is gone.
        """
        said = " ".join(self._ask("GET", "/instruction_text", _TEXT).split())
        return said.removeprefix(_INSTRUCTION).strip()

    def actions(self) -> Actions:
        """Return what can be done on the page.

        Raises:
            WorldError: The server is gone.
        """
        return self._ask("GET", "/available_actions", _ACTIONS)

    def step(self, action: str) -> Step:
        """Take an action, e.g. ``search[green shoes]`` or ``click[buy now]``.

        Raises:
            WorldError: The server is gone.
        """
        step = self._ask("POST", "/step", _STEP, action=action)
        return step.model_copy(update={"state": tidy(step.state)})

    def close(self) -> None:
        """Let the server have it back, where it takes it, and is there."""
        self.lost = self.lost or "the shop was closed"
        self._server.time_limit = min(CLOSE_LIMIT, self._server.time_limit)
        with contextlib.suppress(WorldError):
            self._server.ask("POST", "/close", _ANYTHING, env_idx=self._id)

    def _ask(self, method: str, path: str, kind: TypeAdapter[T], **values: Any) -> T:
        if self.lost:
            raise WorldError(self.lost)
        try:
            return self._server.ask(method, path, kind, env_idx=self._id, **values)
        except Refused:
            raise
        except WorldError as error:  # whether it was done, and whether it is still being done, cannot be told
            self.lost = str(error)
            raise


class _Server:
    """Asks a server, a connection a question, as AgentGym's own client does."""

    def __init__(self, server: str, time_limit: float) -> None:
        self.time_limit = time_limit
        self._where = f"WebShop at {server}"
        parts = urlsplit(server)
        self._connection = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port, self._folder = str(parts.hostname), parts.port, parts.path

    def ask(self, method: str, path: str, kind: TypeAdapter[T], **values: Any) -> T:
        """Ask for something; returns the answer.

        Raises:
            Refused: The server does not do it.
            WorldError: It cannot be reached, does not answer in time, or answers something else.
        """
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
            if isinstance(answer, Mapping) and answer.get("error"):  # as servers of AgentGym's for other worlds do
                raise Refused(f"{self._where} answers {path} with an error: {_line(str(answer['error']))}")
            return kind.validate_python(answer, strict=True)
        except ValueError:  # of JSON or pydantic
            said = f"answers {path} with what is no answer of AgentGym's WebShop"
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
                problem = "it broke off" if cut else ""  # a read of so many bytes does not say itself what is missing
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
        """Break a connection off once its time is over, however slowly its bytes come in; yields whether it was."""
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
    """Return a shop at the start of a goal: one that nobody uses, or a new one.

    Raises:
        WorldError: There is no such goal, or the server is gone.
    """
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
            if was_used and not shop.is_known():  # the server was started anew
                continue
            give_back(shop)
            raise WorldError(
                f"WebShop at {server} does not begin task {session}; the shop there may have fewer ({error})"
            ) from None
        except WorldError:
            give_back(shop)
            raise


def give_back(shop: Shop) -> None:
    """Let the next one have it: the server itself does not take it back."""
    if shop.lost:
        shop.close()
        return
    with _lock:
        _idle.setdefault(shop.place, []).append(shop)


def instruction_of(server: str, time_limit: float, session: int) -> str:
    """Ask a server what a goal is.

    Raises:
        WorldError: There is no such goal, or the server is gone.
    """
    shop = borrow(server, time_limit, session)
    try:
        return shop.instruction()
    finally:
        give_back(shop)


def tidy(page: str) -> str:
    """Return a page's text in one line, without what is empty in it."""
    parts = (" ".join(part.split()) for part in page.split(_SEP))
    return f" {_SEP} ".join(part for part in parts if part) or "The page is empty."


def _reason(text: str) -> str:
    """Return what FastAPI says of a refusal, which is in ``detail`` where it says anything."""
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
