"""One MCP server: its connection in a thread of its own, begun again where it was lost, and the calls of its tools."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from reactree_ros.agent.foreign import cleaned
from reactree_ros.agent.text import in_one_line, shortened_line
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import redacted
from reactree_ros.plugins.installation import check_modules
from reactree_ros.world.tools.schema import said_schema
from reactree_ros.world.tools.settings import ServerSettings
from reactree_ros.world.tools.ways import MOST_MESSAGES, Flood, Readable, said_last, way_to

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client import Transport

_log = logging.getLogger(__name__)
#: How often in a row a server is begun anew, before it is given up.
_TRIES = 3
#: The most pages of a list of tools, and the most tools.
_MOST_PAGES, _MOST_TOOLS = 50, 2000
#: Seconds to wait for a connection to end.
_CLOSE_LIMIT, _TERMINATES = 2.5, 0.5
#: What the library says of a request whose connection has ended; servers use its code for other things.
_CLOSED = "Connection closed"


class CallFailed(Exception):
    """A call came to nothing; the message says why, in a line that may be told.

    Attributes:
        late: Whether its time was over.
    """

    late = False


class _Late(CallFailed):
    late = True


@dataclass(frozen=True)
class Asked:
    """A call of a tool.

    Attributes:
        tool: The tool's name at its server.
        arguments: What it gets.
        schema: What its schema was when the world was made.
        seconds: The longest that it may take.
    """

    tool: str
    arguments: Mapping[str, Any]
    schema: str
    seconds: float


class _Link:
    """What is known of one connection.

    Attributes:
        ended: Set when nothing more comes from the server.
        over: Set when nobody wants the connection any more.
        messages: How many messages came since a tool was called.
    """

    messages = 0

    def __init__(self) -> None:
        self.ended, self.over = asyncio.Event(), asyncio.Event()


class ToolServer:
    """A server, once it has said which tools it has.

    What is asked of it are calls, which can be cancelled: the server is told so. A server that ends, or sends what
    nobody can read, fails the call that it is at. The next call begins it anew, three times in a row at most. It gets
    no answer to what it asks itself: neither a language model's nor a person's.

    Args:
        name: Its name.
        settings: Say how it is reached.

    Attributes:
        schemas: What each tool took when the server was begun.
        passed_over: Why tools that nobody can read are left out.

    Raises:
        UserError: The package for it is not installed, or it cannot be reached.
    """

    def __init__(self, name: str, settings: ServerSettings) -> None:
        check_modules(f"MCP server '{name}'", "reactree_ros[mcp]", ["mcp"])
        for library in ("client", "mcp"):  # nothing that a server says goes to the terminal by itself
            logging.getLogger(library).addHandler(logging.NullHandler())
        settings.variables(name)
        self.name = name
        self._settings, self._last_words = settings, deque[bytes](maxlen=8)
        self._loop = asyncio.new_event_loop()
        self._client: Client | None = None
        self._link = _Link()
        self._connection: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()
        self._failed, self._closed = 0, False
        self.passed_over: dict[str, str] = {}
        self._calls: set[asyncio.Task[Any]] = set()
        self._stopping: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._run, name=f"MCP server {name}", daemon=True)
        self._thread.start()
        listed: Pending[Mapping[str, Any]] = self._do(self._begin)
        try:
            self.schemas: Mapping[str, Any] = listed.result()  # what takes long in it has limits
            if self.passed_over:
                said = [f"'{_shown(tool)}', as {why}" for tool, why in self.passed_over.items()]
                _log.warning("MCP server '%s': tools are passed over: %s", name, "; ".join(said[:10]))
        except BaseException as error:
            self.close()
            if isinstance(error, CallFailed):
                raise UserError(f"MCP server '{name}': {error}") from error
            raise

    def call(self, asked: Asked) -> Pending[Any]:
        """Call a tool; the result is what the server answers, or fails with :class:`CallFailed`."""
        return self._do(partial(self._called, asked))

    def at_rest(self) -> Pending[None]:
        """Settle when the server was told of everything that was cancelled."""
        return self._do(self._rested)

    def close(self) -> None:
        """End the connection, and the process if there is one."""
        if self._closed:
            return
        self._closed = True
        self._soon(self._loop.stop)
        self._thread.join(_CLOSE_LIMIT)

    # ------------------------------------------------------------------ in any thread

    def _do(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Pending[Any]:
        """Do something in the thread; cancelling the result cancels it."""
        running: list[asyncio.Task[None]] = []

        def stop() -> None:
            for one in running:
                self._stopping.add(one)
                one.add_done_callback(self._stopping.discard)
                one.cancel()

        pending = Pending[Any](on_cancel=lambda: self._soon(stop))

        async def settle() -> None:
            try:
                pending.succeed(await work())
            except asyncio.CancelledError:
                pending.fail(CallFailed("it was closed"))
            except Exception as error:
                pending.fail(self._told(error))

        def begin() -> None:
            if not pending.done():
                running.append(task := self._loop.create_task(settle()))
                self._calls.add(task)
                task.add_done_callback(self._calls.discard)

        if self._closed or not self._soon(begin):
            return Pending.failed(CallFailed("it was closed"))
        return pending

    def _soon(self, work: Callable[[], object]) -> bool:
        """Do something in the thread; returns False if that has ended."""
        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:
            return False
        return True

    # ------------------------------------------------------------------ in the thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._end())
        finally:
            self._loop.close()

    async def _end(self) -> None:
        calls = list(self._calls)
        for one in calls:
            one.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await self._left()

    async def _rested(self) -> None:
        if self._stopping:
            await asyncio.wait(list(self._stopping))

    async def _begin(self) -> Mapping[str, Any]:
        client = await self._connected(modes=("auto", "legacy"))
        try:
            return await asyncio.wait_for(self._tools(client), self._settings.start_seconds)
        except asyncio.TimeoutError:
            raise self._silent() from None

    def _silent(self) -> CallFailed:
        return CallFailed(f"it does not answer within {self._settings.start_seconds:g} s{self._why()}")

    async def _connected(self, *, modes: Sequence[Literal["auto", "legacy"]] = ("auto",)) -> Client:
        """Return the connection; begin it if there is none."""
        async with self._connecting:
            if self._client is not None and not self._link.ended.is_set():
                return self._client
            await self._left()
            if self._failed >= _TRIES:
                raise CallFailed(f"it was lost {_TRIES} times in a row, and is not begun again{self._why()}")
            problem = CallFailed("")
            for mode in modes:  # a server of an older kind may end when it is asked what is new
                try:
                    self._client = await self._begun(mode)
                    return self._client
                except CallFailed as error:
                    problem = error
            self._failed += 1
            raise problem

    async def _begun(self, mode: Literal["auto", "legacy"]) -> Client:
        """Begin a connection."""
        self._link = link = _Link()
        self._last_words.clear()
        ready: asyncio.Future[Client] = self._loop.create_future()
        self._connection = self._loop.create_task(self._hold(mode, ready, link))
        try:
            return await asyncio.wait_for(asyncio.shield(ready), self._settings.start_seconds)
        except asyncio.TimeoutError:
            await self._left()
            raise self._silent() from None
        except BaseException:
            await self._left()
            raise

    async def _hold(self, mode: Literal["auto", "legacy"], ready: asyncio.Future[Client], link: _Link) -> None:
        """Hold a connection until it is over; all of it happens in this one task."""
        import anyio
        from mcp import Client

        async def heard(message: Any) -> None:
            link.messages += 1
            if isinstance(message, Flood) or link.messages > MOST_MESSAGES:
                link.ended.set()
                link.over.set()

        async def leave() -> None:
            await link.over.wait()
            scope.cancel()

        leaving = asyncio.ensure_future(leave())
        try:
            with anyio.CancelScope() as scope:
                way = way_to(self.name, self._settings, self._last_words, link.ended.set)
                async with Client(self._readable(way), mode=mode, message_handler=heard, cache=None) as client:
                    ready.set_result(client)
                    await anyio.sleep_forever()
        except Exception as error:
            if not ready.done():
                ready.set_exception(self._told(error))
        finally:
            leaving.cancel()
            link.ended.set()
            link.over.set()
            if not ready.done():
                ready.set_exception(CallFailed(f"it was not reached{self._why()}"))
            ready.exception()  # whether or not somebody waits for it

    async def _left(self) -> None:
        """Leave the connection; one that does not end is left alone after a while."""
        self._client = None
        connection, self._connection = self._connection, None
        if connection is not None:
            self._link.over.set()
            await asyncio.wait([connection], timeout=_CLOSE_LIMIT)
            connection.cancel()
            await asyncio.wait([connection], timeout=_TERMINATES)

    async def _tools(self, client: Client) -> Mapping[str, Any]:
        """Return the schema of each tool that the server has now."""
        from mcp_types import PaginatedRequestParams

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

    @asynccontextmanager
    async def _readable(self, way: Transport) -> AsyncIterator[Any]:
        async with way as (heard, said):
            yield Readable(heard, self.passed_over), said

    async def _called(self, asked: Asked) -> Any:
        """Call a tool, if its schema is what it was."""
        import anyio
        from mcp.shared.exceptions import MCPError

        told = asyncio.Event()
        try:
            answer = await asyncio.wait_for(self._answer_of(asked, told), asked.seconds)
        except asyncio.TimeoutError:
            if not told.is_set():  # it does not even say which tools it has
                self._failed += 1
                await self._left()
            raise _Late(f"it did not answer within {asked.seconds:g} s") from None
        except (MCPError, OSError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            if isinstance(error, MCPError) and not self._link.ended.is_set() and error.message != _CLOSED:
                raise
            self._failed += 1
            await self._left()
            raise CallFailed(f"its connection has ended{self._why()}") from None
        self._failed = 0
        return answer

    async def _answer_of(self, asked: Asked, told: asyncio.Event) -> Any:
        """Call a tool; ``told`` is set once the server has answered at all."""
        client = await self._connected()
        self._link.messages = 0
        now = await self._while_held(self._tools(client))
        told.set()
        if asked.tool not in now:
            raise CallFailed(f"it has no tool '{_shown(asked.tool)}' any more")
        if said_schema(now[asked.tool]) != asked.schema:
            raise CallFailed(
                f"what its tool '{_shown(asked.tool)}' takes is not what it was when the run began, so it is not "
                "called; begin anew if that is wanted"
            )
        return await self._while_held(self._answered(client, asked))

    async def _answered(self, client: Client, asked: Asked) -> Any:
        from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult, InputRequiredResult
        from pydantic import TypeAdapter

        request = CallToolRequest(params=CallToolRequestParams(name=asked.tool, arguments=dict(asked.arguments)))
        kinds: TypeAdapter[Any] = TypeAdapter(CallToolResult | InputRequiredResult)
        # not `call_tool`, which checks the answer by patterns that the server has written
        answer = await client.session.send_request(request, kinds)
        if isinstance(answer, InputRequiredResult):
            raise CallFailed("it asks for more than the tool takes, which nobody answers")
        return answer

    async def _while_held(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return what work comes to, or raise an OSError where the connection is left before."""
        doing, over = asyncio.ensure_future(work), asyncio.ensure_future(self._link.over.wait())
        try:
            await asyncio.wait([doing, over], return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise OSError
            return doing.result()
        finally:
            for one in (doing, over):
                one.cancel()
            await asyncio.gather(doing, over, return_exceptions=True)

    def _why(self) -> str:
        """Say what its process wrote last, for an error."""
        said = said_last(self._last_words)
        return f" ({said})" if said else ""

    def _told(self, error: BaseException) -> CallFailed:
        """Return what went wrong as it may be told: a server's words are in it, in one line."""
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


def _shown(text: str) -> str:
    return shortened_line(in_one_line(cleaned(text[:2000])), 200)


def names_of(tools: Sequence[str]) -> str:
    """List the names of tools for an error."""
    return ", ".join(_shown(one)[:60] for one in list(tools)[:30]) or "none"
