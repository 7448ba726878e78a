"""The ways to an MCP server, with bounds for what it sends: a process of its own, or an address."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from typing_extensions import Self

from reactree_ros.agent.foreign import cleaned
from reactree_ros.agent.text import in_one_line, shortened_line
from reactree_ros.files.secrecy import is_loopback, redacted
from reactree_ros.world.tools.settings import ServerSettings

if TYPE_CHECKING:
    import anyio.abc

#: The longest message of a server, in bytes: a picture of the largest size fits.
LONGEST_MESSAGE = 8 << 20
#: The most messages between two answers of a server.
MOST_MESSAGES = 10_000
#: What of its environment a server gets in any case.
_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TZ", "USER")
#: Seconds for a server to end by itself, and after it was told to.
_ENDS, _TERMINATES = 1.0, 0.5
_TAIL = 300


class Heard:
    """What is heard of a server: an end to too many messages, and of a listed tool only its name and what it takes.

    The library refuses a whole list for one tool in it, so each tool is read for itself.

    Args:
        passed_over: Gets why a tool is left out, by its name.

    Attributes:
        over: Whether nothing more comes from the server.
    """

    def __init__(self, passed_over: dict[str, str]) -> None:
        self.over = False
        self._passed_over, self._since = passed_over, 0
        self._stream: Any = None

    def of(self, stream: Any) -> Self:
        """Hear a stream of the library's."""
        self._stream = stream
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.over = True
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            heard = await self._stream.__anext__()
        except StopAsyncIteration:
            self.over = True
            raise
        message = getattr(heard, "message", None)
        result = getattr(message, "result", None)
        self._since = 0 if hasattr(message, "result") or hasattr(message, "error") else self._since + 1
        if self._since > MOST_MESSAGES:
            self.over = True
            raise StopAsyncIteration
        if isinstance(result, dict) and isinstance(result.get("tools"), list):
            result["tools"] = [one for tool in result["tools"] for one in self._read(tool)]
        return heard

    def _read(self, tool: Any) -> Iterator[dict[str, Any]]:
        name, schema = (tool.get("name"), tool.get("inputSchema")) if isinstance(tool, dict) else (None, None)
        if not isinstance(name, str):
            self._passed_over[str(name)] = "it has no name"
        elif not isinstance(schema, dict) or schema.get("type") != "object":
            self._passed_over[name] = "its inputSchema is not of an object"
        else:
            yield {"name": name, "inputSchema": schema}


@asynccontextmanager
async def heard_by(
    heard: Heard, name: str, settings: ServerSettings, last_words: deque[bytes]
) -> AsyncIterator[tuple[Any, Any]]:
    """Reach a server.

    Args:
        heard: Hears it.
        name: The server's name.
        settings: Say how it is reached.
        last_words: Takes what its process writes for people, the end of it.

    Raises:
        UserError: An environment variable is not set.
    """
    variables = settings.variables(name)
    if settings.command:
        environment = {one: os.environ[one] for one in _INHERITED if one in os.environ}
        way = _process([settings.command, *settings.args], environment | variables, last_words)
    else:
        way = _address(settings.url, variables.get(settings.token_variable, ""))
    async with way as (stream, said):
        yield heard.of(stream), said


def said_last(last_words: deque[bytes]) -> str:
    """Return the last line that a process wrote for people, fit to be told."""
    text = b"".join(last_words).decode(errors="replace")
    line = next((one for one in reversed(cleaned(text).split("\n")) if one.strip()), "")
    return shortened_line(redacted(in_one_line(line)), _TAIL)


@asynccontextmanager
async def _process(command: list[str], environment: Mapping[str, str], last_words: deque[bytes]) -> AsyncIterator[Any]:
    """Start a process and exchange lines with it; it ends when it is left."""
    import anyio
    from mcp.shared.message import SessionMessage

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


async def _hear(process: anyio.abc.Process, heard: Any) -> None:
    """Read messages, one a line. What is none is left out; too much of it ends the connection."""
    import anyio
    from anyio.streams.buffered import BufferedByteReceiveStream
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    assert process.stdout is not None
    lines, unread = BufferedByteReceiveStream(process.stdout), 0
    ends = (
        anyio.BrokenResourceError,
        anyio.ClosedResourceError,
        anyio.DelimiterNotFound,
        anyio.IncompleteRead,
        OSError,
    )
    with heard, suppress(*ends):
        while unread <= MOST_MESSAGES:
            line = await lines.receive_until(b"\n", LONGEST_MESSAGE)
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:  # a line for people, or garbage
                unread += 1
            else:
                unread = 0
                await heard.send(SessionMessage(message))


async def _say(process: anyio.abc.Process, said: Any) -> None:
    import anyio

    assert process.stdin is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async for one in said:
            line = one.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.stdin.send(line.encode(errors="replace") + b"\n")


async def _overhear(process: anyio.abc.Process, last_words: deque[bytes]) -> None:
    """Keep the end of what the process writes for people."""
    import anyio

    assert process.stderr is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError):
        while True:
            last_words.append((await process.stderr.receive())[-4096:])


async def _end(process: anyio.abc.Process) -> None:
    """End the process and whatever it started: by the end of its input, then by a signal, then at once."""
    import anyio

    if process.stdin is not None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
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


@asynccontextmanager
async def _address(url: str, token: str) -> AsyncIterator[Any]:
    """Reach a server by HTTP."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    class Bounded(httpx2.AsyncByteStream):
        """The body of an answer, up to the longest message."""

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

    async def bounded(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.ReadError("the answer is compressed, which was not asked for")
        response.stream = Bounded(response.stream)

    headers = {"Accept-Encoding": "identity", **({"Authorization": f"Bearer {token}"} if token else {})}
    direct = is_loopback(urlsplit(url).hostname or "")
    hooks: dict[str, list[Any]] = {"response": [bounded]}
    limits = httpx2.Timeout(30.0, read=None)  # each call has a limit of its own
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=not direct, timeout=limits, event_hooks=hooks) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams
