"""One MCP server: the way to it, its connection in a thread of its own, begun again where it was lost, its calls."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import anyio
import httpx2
from anyio.abc import Process, TaskGroup, TaskStatus
from anyio.from_thread import start_blocking_portal
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    PaginatedRequestParams,
    jsonrpc_message_adapter,
)
from pydantic import TypeAdapter

from reactree_doors.tools.schema import Tool, said_schema
from reactree_ros.agent.labels import cleaned
from reactree_ros.agent.text import in_one_line, shortened_line
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import is_loopback, redacted
from reactree_ros.world.tool_servers import ServerSettings

_log = logging.getLogger(__name__)
#: The longest message of a server, in bytes: a picture of the largest size fits.
LONGEST_MESSAGE = 8 << 20
#: The most messages between two answers of a server.
MOST_MESSAGES = 10_000
#: What of its environment a server gets in any case.
_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TZ", "USER")
#: Seconds for a server to end by itself, and after it was told to.
_ENDS, _TERMINATES = 1.0, 0.5
_TAIL = 300
#: How a stream ends.
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)
#: How often in a row a server is begun anew, before it is given up.
_TRIES = 3
#: The most pages of a list of tools, and the most tools.
_MOST_PAGES, _MOST_TOOLS = 50, 2000
#: What the library says of a request whose connection has ended; servers use its code for other things.
_CLOSED = "Connection closed"
_ANSWERS: TypeAdapter[Any] = TypeAdapter(CallToolResult | InputRequiredResult)


@dataclass
class _Connection:
    scope: anyio.CancelScope
    client: Any = None  # the library's
    over: bool = False  # whether nothing more comes from the server


@asynccontextmanager
async def _reached(
    connection: _Connection, name: str, settings: ServerSettings, last_words: deque[bytes], passed_over: dict[str, str]
) -> AsyncIterator[Any]:
    variables = settings.variables(name)
    if settings.command:
        environment = {one: os.environ[one] for one in _INHERITED if one in os.environ}
        way = _process([settings.command, *settings.args], environment | variables, last_words)
    else:
        way = _address(settings.url, variables.get(settings.token_variable, ""))
    to_session, heard = anyio.create_memory_object_stream[Any](0)
    async with way as (source, to_say), heard, anyio.create_task_group() as tasks:
        tasks.start_soon(_sift, source, to_session, connection, passed_over)
        try:
            yield heard, to_say
        finally:
            tasks.cancel_scope.cancel()


async def _sift(source: Any, to_session: Any, connection: _Connection, passed_over: dict[str, str]) -> None:
    since = 0  # the last answer
    with to_session, suppress(*_GONE):
        try:
            async for heard in source:
                message = getattr(heard, "message", None)
                result = getattr(message, "result", None)
                since = 0 if hasattr(message, "result") or hasattr(message, "error") else since + 1
                if since > MOST_MESSAGES:
                    break
                if isinstance(result, dict) and isinstance(result.get("tools"), list):
                    # the library refuses a whole list for one tool in it, so each is read for itself
                    result["tools"] = [one for tool in result["tools"] for one in _readable(tool, passed_over)]
                await to_session.send(heard)
        finally:
            connection.over = True


def _readable(tool: Any, passed_over: dict[str, str]) -> Iterator[dict[str, Any]]:
    name, schema = (tool.get("name"), tool.get("inputSchema")) if isinstance(tool, dict) else (None, None)
    if not isinstance(name, str):
        passed_over[str(name)] = "it has no name"
    elif not isinstance(schema, dict) or schema.get("type") != "object":
        passed_over[name] = "its inputSchema is not of an object"
    else:
        yield {"name": name, "inputSchema": schema}


@asynccontextmanager
async def _process(command: list[str], environment: Mapping[str, str], last_words: deque[bytes]) -> AsyncIterator[Any]:
    process = await anyio.open_process(
        command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    heard, to_hear = anyio.create_memory_object_stream[Any](0)
    to_say, said = anyio.create_memory_object_stream[SessionMessage](0)
    with heard, to_hear, to_say, said:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_hear, process, heard)
            tasks.start_soon(_say, process, said)
            tasks.start_soon(_overhear, process, last_words)
            try:
                yield to_hear, to_say
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process)
                tasks.cancel_scope.cancel()


async def _hear(process: Process, heard: Any) -> None:
    assert process.stdout is not None
    lines, unread = BufferedByteReceiveStream(process.stdout), 0
    with heard, suppress(*_GONE, anyio.DelimiterNotFound, anyio.IncompleteRead):
        while unread <= MOST_MESSAGES:
            line = await lines.receive_until(b"\n", LONGEST_MESSAGE)
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:  # a line for people, or garbage
                unread += 1
            else:
                unread = 0
                await heard.send(SessionMessage(message))


async def _say(process: Process, said: Any) -> None:
    assert process.stdin is not None
    with suppress(*_GONE):
        async for one in said:
            line = one.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.stdin.send(line.encode(errors="replace") + b"\n")


async def _overhear(process: Process, last_words: deque[bytes]) -> None:
    assert process.stderr is not None
    with suppress(*_GONE):
        while True:
            last_words.append((await process.stderr.receive())[-4096:])


async def _end(process: Process) -> None:
    if process.stdin is not None:
        with suppress(*_GONE):
            await process.stdin.aclose()
    for seconds, number in ((_ENDS, signal.SIGTERM), (_TERMINATES, signal.SIGKILL)):
        with anyio.move_on_after(seconds):
            while process.returncode is None:  # `wait` waits for its pipes, too, which a child of it may hold
                await anyio.sleep(0.01)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
    with anyio.move_on_after(_TERMINATES):  # a child that left its group may hold the pipes
        await process.aclose()
    transport = getattr(getattr(process, "_process", None), "_transport", None)  # what it was too late to say
    if transport is not None:
        with suppress(PermissionError):
            transport.close()


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = LONGEST_MESSAGE
        async for chunk in self._inner:
            left -= len(chunk)
            if left < 0:
                raise httpx2.ReadError(f"the answer has more than {LONGEST_MESSAGE >> 20} MiB")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def _address(url: str, token: str) -> AsyncIterator[Any]:
    async def bounded(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.ReadError("the answer is compressed, which was not asked for")
        response.stream = _Bounded(response.stream)

    headers = {"Accept-Encoding": "identity", **({"Authorization": f"Bearer {token}"} if token else {})}
    direct = is_loopback(urlsplit(url).hostname or "")
    hooks: dict[str, list[Any]] = {"response": [bounded]}
    limits = httpx2.Timeout(30.0, read=None)  # each call has a limit of its own
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=not direct, timeout=limits, event_hooks=hooks) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


class CallFailed(Exception):
    def __init__(self, why: str, *, late: bool = False) -> None:
        super().__init__(why)
        self.late = late  # whether its time was over


class ToolServer:
    """A server, once it has said which tools it has.

    What is asked of it are calls, which can be cancelled: the server is told so. A server that ends, or sends what
    nobody can read, fails the call that it is at. The next call begins it anew, three times in a row at most. It gets
    no answer to what it asks itself: neither a language model's nor a person's. Raises UserError: the package for it is
    not installed, or it cannot be reached.

    Attributes:
        schemas: What each tool took when the server was begun.
        passed_over: Why tools that nobody can read are left out.
    """

    def __init__(self, name: str, settings: ServerSettings) -> None:
        for library in ("client", "mcp"):  # nothing that a server says goes to the terminal by itself
            logging.getLogger(library).addHandler(logging.NullHandler())
        settings.variables(name)
        self.name = name
        self.passed_over: dict[str, str] = {}
        self._settings, self._last_words = settings, deque[bytes](maxlen=8)
        self._connection: _Connection | None = None
        self._connecting = anyio.Lock()
        self._failed = 0
        self._under_way = set[Pending[Any]]()
        self._closing = ExitStack()
        self._portal = self._closing.enter_context(start_blocking_portal())
        self._closing.callback(self._portal.call, self._portal.stop, True)
        try:
            self._tasks: TaskGroup = self._portal.start_task(self._run)[1]
            self.schemas: Mapping[str, Any] = self._do(self._begin).result()  # what takes long in it has limits
        except BaseException as error:
            self.close()
            if isinstance(error, CallFailed):
                raise UserError(f"MCP server '{name}': {error}") from error
            raise
        if self.passed_over:
            said = [f"'{_shown(tool)}', as {why}" for tool, why in self.passed_over.items()]
            _log.warning("MCP server '%s': tools are passed over: %s", name, "; ".join(said[:10]))

    def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Pending[Any]:
        """Call a tool; the result is what the server answers, or fails with :class:`CallFailed`."""
        return self._do(self._called, tool, arguments)

    def at_rest(self) -> Pending[None]:
        """Settle when the server was told of everything that was cancelled."""
        return self._do(self._rested)

    def close(self) -> None:
        self._closing.close()

    def _do(self, work: Callable[..., Coroutine[Any, Any, Any]], *given: Any) -> Pending[Any]:
        pending = Pending[Any]()

        async def do() -> Any:
            try:
                return await work(*given)
            finally:
                self._under_way.discard(pending)

        def settle(done: Future[Any]) -> None:
            if done.cancelled():
                pending.fail(CallFailed("it was closed"))
            elif (error := done.exception()) is not None:
                pending.fail(self._explained(error))
            else:
                pending.succeed(done.result())

        self._under_way.add(pending)
        try:
            doing = self._portal.start_task_soon(do)
        except RuntimeError:
            return Pending.failed(CallFailed("it was closed"))
        doing.add_done_callback(settle)
        pending.add_done_callback(lambda _: doing.cancel())
        return pending

    # ------------------------------------------------------------------ in the thread

    async def _run(self, *, task_status: TaskStatus[TaskGroup]) -> None:
        async with anyio.create_task_group() as tasks:
            task_status.started(tasks)
            await anyio.sleep_forever()

    async def _rested(self) -> None:
        while any(one.cancelled() for one in self._under_way):
            await anyio.sleep(0.005)

    async def _begin(self) -> Mapping[str, Any]:
        connection = await self._connected(modes=("auto", "legacy"))
        with self._soon():
            tools = await self._tools(connection.client)
        return tools

    @contextmanager
    def _soon(self) -> Iterator[None]:
        seconds = self._settings.start_seconds
        try:
            with anyio.fail_after(seconds):
                yield
        except TimeoutError:
            raise CallFailed(f"it does not answer within {seconds:g} s{self._why()}") from None

    async def _connected(self, *, modes: Sequence[Literal["auto", "legacy"]] = ("auto",)) -> _Connection:
        async with self._connecting:
            if self._connection is not None and not self._connection.over:
                return self._connection
            self._leave()
            if self._failed >= _TRIES:
                raise CallFailed(f"it was lost {_TRIES} times in a row, and is not begun again{self._why()}")
            problem = CallFailed("")
            for mode in modes:  # a server of an older kind may end when it is asked what is new
                self._last_words.clear()
                try:
                    with self._soon():
                        self._connection = await self._tasks.start(self._hold, mode)
                        return self._connection
                except Exception as error:
                    problem = self._explained(error)
            self._failed += 1
            raise problem

    async def _hold(self, mode: Literal["auto", "legacy"], *, task_status: TaskStatus[_Connection]) -> None:
        with anyio.CancelScope() as scope:
            connection = _Connection(scope)
            way = _reached(connection, self.name, self._settings, self._last_words, self.passed_over)
            try:
                async with Client(way, mode=mode, cache=None) as connection.client:
                    task_status.started(connection)
                    await anyio.sleep_forever()
            except Exception as error:
                if connection.client is None:
                    raise
                _log.debug("MCP server '%s': %s", self.name, self._explained(error))
            finally:
                connection.over = True

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.scope.cancel()
        self._connection = None

    def _lost(self) -> None:
        self._failed += 1
        self._leave()

    async def _tools(self, client: Client) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        cursor = None
        for _ in range(_MOST_PAGES):
            page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            for tool in page.tools:
                if tool.name in found:
                    self.passed_over[tool.name] = "there are two of this name"
                found[tool.name] = tool.input_schema
            cursor = page.next_cursor
            if cursor is None or len(found) > _MOST_TOOLS:
                break
        return {name: schema for name, schema in found.items() if name not in self.passed_over}

    async def _called(self, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        connection, answers = None, False
        try:
            with anyio.fail_after(tool.settings.seconds):
                connection = await self._connected()
                now = await self._tools(connection.client)
                answers = True
                _check(tool, now)
                answer = await _answer(connection.client, tool.name, arguments)
        except TimeoutError:
            if not answers:  # it does not even say which tools it has
                self._lost()
            raise CallFailed(f"it did not answer within {tool.settings.seconds:g} s", late=True) from None
        except (MCPError, OSError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            if connection and not connection.over and getattr(error, "message", _CLOSED) != _CLOSED:
                raise
            self._lost()
            raise CallFailed(f"its connection has ended{self._why()}") from None
        self._failed = 0
        return answer

    def _why(self) -> str:
        lines = cleaned(b"".join(self._last_words).decode(errors="replace")).split("\n")
        said = next((in_one_line(one) for one in reversed(lines) if one.strip()), "")
        return f" ({shortened_line(redacted(said), _TAIL)})" if said else ""

    def _explained(self, error: BaseException) -> CallFailed:
        while some := getattr(error, "exceptions", ()):  # of a group
            error = some[0]
        if isinstance(error, CallFailed):
            return error
        if isinstance(error, UserError):
            return CallFailed(str(error))
        if isinstance(error, FileNotFoundError | PermissionError):
            return CallFailed(f"the command '{self._settings.command}' cannot be started: {error.strerror}")
        said = _shown(redacted(str(error)))
        return CallFailed(f"{said or type(error).__name__}{self._why()}")


def _check(tool: Tool, now: Mapping[str, Any]) -> None:
    if tool.name not in now:
        raise CallFailed(f"it has no tool '{_shown(tool.name)}' any more")
    if said_schema(now[tool.name]) != tool.schema:
        raise CallFailed(
            f"what its tool '{_shown(tool.name)}' takes is not what it was when the run began, so it is not "
            "called; begin anew if that is wanted"
        )


async def _answer(client: Client, tool: str, arguments: Mapping[str, Any]) -> Any:
    request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
    # not `call_tool`, which checks the answer by patterns that the server has written
    answer = await client.session.send_request(request, _ANSWERS)
    if isinstance(answer, InputRequiredResult):
        raise CallFailed("it asks for more than the tool takes, which nobody answers")
    return answer


def _shown(text: str) -> str:
    return shortened_line(in_one_line(cleaned(text[:2000])), 200)


def names_of(tools: Sequence[str]) -> str:
    return ", ".join(_shown(one)[:60] for one in list(tools)[:30]) or "none"
