"""One MCP server: its connection in a thread of its own, begun again where it was lost, and the calls of its tools."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from reactree_ros.agent.foreign import cleaned
from reactree_ros.agent.text import in_one_line, shortened_line
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import redacted
from reactree_ros.plugins.installation import check_modules
from reactree_ros.world.tools.schema import said_schema
from reactree_ros.world.tools.settings import ServerSettings
from reactree_ros.world.tools.ways import Heard, heard_by, said_last

if TYPE_CHECKING:
    import anyio
    from anyio.abc import TaskGroup, TaskStatus
    from mcp import Client

_log = logging.getLogger(__name__)
#: How often in a row a server is begun anew, before it is given up.
_TRIES = 3
#: The most pages of a list of tools, and the most tools.
_MOST_PAGES, _MOST_TOOLS = 50, 2000
#: What the library says of a request whose connection has ended; servers use its code for other things.
_CLOSED = "Connection closed"


class CallFailed(Exception):
    """A call came to nothing; the message says why, in a line that may be told.

    Attributes:
        late: Whether its time was over.
    """

    def __init__(self, why: str, *, late: bool = False) -> None:
        super().__init__(why)
        self.late = late


@dataclass(frozen=True)
class Asked:
    tool: str  # the tool's name at its server
    arguments: Mapping[str, Any]  # what it gets
    schema: str  # what its schema was when the world was made
    seconds: float  # the longest that it may take


@dataclass(frozen=True)
class _Connection:
    client: Client
    heard: Heard
    scope: anyio.CancelScope


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
        check_modules(f"MCP server '{name}'", "reactree_ros[mcp]", ["mcp"])
        import anyio
        from anyio.from_thread import start_blocking_portal

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

    def call(self, asked: Asked) -> Pending[Any]:
        """Call a tool; the result is what the server answers, or fails with :class:`CallFailed`."""
        return self._do(self._called, asked)

    def at_rest(self) -> Pending[None]:
        """Settle when the server was told of everything that was cancelled."""
        return self._do(self._rested)

    def close(self) -> None:
        """End the connection, and the process if there is one."""
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
        import anyio

        async with anyio.create_task_group() as tasks:
            task_status.started(tasks)
            await anyio.sleep_forever()

    async def _rested(self) -> None:
        import anyio

        while any(one.cancelled() for one in self._under_way):
            await anyio.sleep(0.005)

    async def _begin(self) -> Mapping[str, Any]:
        import anyio

        connection = await self._connected(modes=("auto", "legacy"))
        try:
            with anyio.fail_after(self._settings.start_seconds):
                return await self._tools(connection.client)
        except TimeoutError:
            raise self._silent() from None

    def _silent(self) -> CallFailed:
        return CallFailed(f"it does not answer within {self._settings.start_seconds:g} s{self._why()}")

    async def _connected(self, *, modes: Sequence[Literal["auto", "legacy"]] = ("auto",)) -> _Connection:
        import anyio

        async with self._connecting:
            if self._connection is not None and not self._connection.heard.over:
                return self._connection
            self._leave()
            if self._failed >= _TRIES:
                raise CallFailed(f"it was lost {_TRIES} times in a row, and is not begun again{self._why()}")
            problem = CallFailed("")
            for mode in modes:  # a server of an older kind may end when it is asked what is new
                self._last_words.clear()
                try:
                    with anyio.fail_after(self._settings.start_seconds):
                        self._connection = await self._tasks.start(self._hold, mode)
                    return self._connection
                except TimeoutError:
                    problem = self._silent()
                except Exception as error:
                    problem = self._explained(error)
            self._failed += 1
            raise problem

    async def _hold(self, mode: Literal["auto", "legacy"], *, task_status: TaskStatus[_Connection]) -> None:
        import anyio
        from mcp import Client

        begun = False
        with anyio.CancelScope() as scope:
            heard = Heard(self.passed_over)
            try:
                way = heard_by(heard, self.name, self._settings, self._last_words)
                async with Client(way, mode=mode, cache=None) as client:
                    task_status.started(_Connection(client, heard, scope))
                    begun = True
                    await anyio.sleep_forever()
            except Exception as error:
                if not begun:
                    raise
                _log.debug("MCP server '%s': %s", self.name, self._explained(error))
            finally:
                heard.over = True

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.scope.cancel()
        self._connection = None

    async def _tools(self, client: Client) -> Mapping[str, Any]:
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

    async def _called(self, asked: Asked) -> Any:
        import anyio
        from mcp.shared.exceptions import MCPError

        connection, answers = None, False
        try:
            with anyio.fail_after(asked.seconds):
                connection = await self._connected()
                now = await self._tools(connection.client)
                answers = True
                self._check(asked, now)
                answer = await self._answer(connection.client, asked)
        except TimeoutError:
            if not answers:  # it does not even say which tools it has
                self._failed += 1
                self._leave()
            raise CallFailed(f"it did not answer within {asked.seconds:g} s", late=True) from None
        except (MCPError, OSError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            is_lost = connection is None or connection.heard.over or getattr(error, "message", _CLOSED) == _CLOSED
            if not is_lost:
                raise
            self._failed += 1
            self._leave()
            raise CallFailed(f"its connection has ended{self._why()}") from None
        self._failed = 0
        return answer

    @staticmethod
    def _check(asked: Asked, now: Mapping[str, Any]) -> None:
        if asked.tool not in now:
            raise CallFailed(f"it has no tool '{_shown(asked.tool)}' any more")
        if said_schema(now[asked.tool]) != asked.schema:
            raise CallFailed(
                f"what its tool '{_shown(asked.tool)}' takes is not what it was when the run began, so it is not "
                "called; begin anew if that is wanted"
            )

    @staticmethod
    async def _answer(client: Client, asked: Asked) -> Any:
        from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult, InputRequiredResult
        from pydantic import TypeAdapter

        request = CallToolRequest(params=CallToolRequestParams(name=asked.tool, arguments=dict(asked.arguments)))
        kinds: TypeAdapter[Any] = TypeAdapter(CallToolResult | InputRequiredResult)
        # not `call_tool`, which checks the answer by patterns that the server has written
        answer = await client.session.send_request(request, kinds)
        if isinstance(answer, InputRequiredResult):
            raise CallFailed("it asks for more than the tool takes, which nobody answers")
        return answer

    def _why(self) -> str:
        said = said_last(self._last_words)
        return f" ({said})" if said else ""

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


def _shown(text: str) -> str:
    return shortened_line(in_one_line(cleaned(text[:2000])), 200)


def names_of(tools: Sequence[str]) -> str:
    return ", ".join(_shown(one)[:60] for one in list(tools)[:30]) or "none"
