"""The connection to a server: requests with the SDK's retries, and errors for each failure."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import well_formed
from reactree_ros.files.secrecy import HIDDEN, redacted, shown_address
from reactree_ros.llm.openai.answer import error_in
from reactree_ros.llm.openai.refusal import Refused
from reactree_ros.llm.openai.way import Proxy, http_client, proxy_to
from reactree_ros.llm.port import LanguageModelError, ServerUnavailable

#: A dying server refuses or resets a connection by chance: the error does not depend on which.
GONE = "cannot be reached: nothing listens there, or it closed the connection"
#: Longest time for a request outside of the protocol, in seconds.
_ASIDE = 10.0
_CLOSED = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
#: By name, because the SDK has used two HTTP libraries.
_CLOSED_HTTP = frozenset({"ReadError", "WriteError", "CloseError", "RemoteProtocolError"})
_OF_HTTP = frozenset({"HTTPError", "StreamError"})


class Connection:
    """Sends requests to a server. Only the server gets the key.

    Args:
        url: URL of the server, with ``/v1``.
        retries: How often to repeat a request that failed for a passing reason (connection, 408, 409, 429, 5xx), with
            exponential backoff and jitter.
        timeout: Longest time for connecting, in seconds; whoever asks bounds the request.
    """

    def __init__(self, *, url: str, key: str, retries: int, timeout: float) -> None:
        import openai  # noqa: F401 - it takes a second, which is not to be part of any time limit

        self.url = url
        self.name = f"the server at {shown_address(url)}"
        self._key = key
        self._retries = retries
        self._timeout = timeout
        self._proxy: Proxy | None = None
        self._client: Any = None

    @property
    def has_key(self) -> bool:
        """Whether a key is sent."""
        return bool(self._key)

    @property
    def called(self) -> str:
        """The server's name in errors, with the proxy on the way to it."""
        return f"{self.name} (through {self._proxy})" if self._proxy else self.name

    async def get(self, path: str, *, retries: int | None = None) -> Any:
        """Send a GET request.

        Raises:
            Refused: The server answers with an error or with invalid JSON.
            ServerUnavailable: It does not answer.
            UserError: The proxy on the way to it cannot be used.
        """
        more = {} if retries is None else {"max_retries": retries}
        return await self._sent(lambda client: client.with_options(**more).get(path, cast_to=object))

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send a POST request, with lone surrogates replaced by question marks. Raises the errors of :meth:`get`."""
        whole = _whole(body)
        return await self._sent(lambda client: client.post(path, cast_to=object, body=whole))

    async def stream(self, path: str, body: Mapping[str, Any], add: Callable[[Any], bool]) -> Any:
        """Send a POST request whose answer may come in parts.

        Args:
            path: Path of the request.
            body: Its fields.
            add: Takes each part; once it returns False, the connection is closed, which stops the generation.

        Returns:
            The answer of a server that does not stream; None if it streamed.

        Raises the errors of :meth:`get`.
        """
        whole = _whole(body)
        return await self._sent(lambda client: self._streamed(client, path, whole, add))

    @staticmethod
    async def _streamed(client: Any, path: str, body: Any, add: Callable[[Any], bool]) -> Any:
        import openai

        stream = await client.post(path, cast_to=object, body=body, stream=True, stream_cls=openai.AsyncStream[object])
        try:
            if "event-stream" not in stream.response.headers.get("content-type", ""):
                return json.loads(await stream.response.aread())
            async for part in stream:
                if not add(part):
                    break
            return None
        finally:
            await stream.close()

    async def get_aside(self, path: str) -> Any:
        """Send a GET request outside of the protocol, once. Raises the errors of :meth:`get`."""
        return await self._sent(lambda client: self._aside(client).get(path, cast_to=object))

    async def post_aside(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send a POST request outside of the protocol, once. Raises the errors of :meth:`get`."""
        whole = _whole(body)
        return await self._sent(lambda client: self._aside(client).post(path, cast_to=object, body=whole))

    def _aside(self, client: Any) -> Any:
        return client.with_options(base_url=self.url.removesuffix("/v1"), max_retries=0, timeout=_ASIDE)

    async def _sent(self, call: Callable[[Any], Awaitable[Any]]) -> Any:
        """Make a call.

        A failure is raised outside of the handlers, so that it does not carry the SDK's error, which may hold the key.
        """
        import openai

        client = self._client or await self._opened()
        failure: LanguageModelError | Refused
        try:
            return await call(client)
        except openai.APITimeoutError:
            failure = ServerUnavailable(f"{self.called}: no answer within {self._timeout:g} s")
        except openai.APIConnectionError as error:
            failure = ServerUnavailable(f"{self.called} {self.redacted(_problem(error))}")
        except openai.APIStatusError as error:
            elsewhere = self._elsewhere(error) if error.response.is_redirect else ""
            failure = Refused(error.status_code, elsewhere or error.body or error.message)
        except openai.APIError as error:  # in the middle of a stream
            failure = error_in(error.body or error.message)
        except (openai.OpenAIError, ValueError, RecursionError) as error:  # not JSON, or not the protocol
            failure = Refused(0, str(error), "with garbage")
        except Exception as error:
            if not {kind.__name__ for kind in type(error).__mro__} & _OF_HTTP:
                raise
            failure = ServerUnavailable(f"{self.called} {self.redacted(_problem(error))}")  # in a stream, it comes bare
        raise failure

    def _elsewhere(self, error: Any) -> str:
        """Say where a server redirects to; it is not followed, as prompts would go to somebody whom nobody named."""
        asked = str(error.request.url)
        with contextlib.suppress(ValueError):  # it may be no address
            place = shown_address(urljoin(asked, error.response.headers.get("location", "")))
            base = place.rstrip("/").removesuffix(asked.removeprefix(self.url))
            if base != shown_address(self.url):
                return f"it redirects to {base}; if that is the server, set --base-url {base}"
        return "it redirects in circles; is its base URL right?"

    async def _opened(self) -> Any:
        """Return the client, made at the first call; a check whether the server answers uses the same client."""
        import openai

        proxy = await asyncio.to_thread(proxy_to, self.url)
        if self._client is None:  # no other call was quicker
            try:
                http = http_client(proxy)
            except UserError as error:
                raise UserError(f"{self.name}: {error}") from None
            self._proxy = proxy
            self._client = openai.AsyncOpenAI(
                base_url=self.url,
                api_key=self._key or "none",
                max_retries=self._retries,
                timeout=openai.Timeout(None, connect=self._timeout),  # whoever asks bounds the whole request
                http_client=http,
            )
        return self._client

    def redacted(self, message: str) -> str:
        """Return a message without this key or any other."""
        return redacted(message.replace(self._key, HIDDEN) if self._key else message)

    async def close(self) -> None:
        """Close all connections; the next request opens a new one."""
        if self._client is not None:
            await self._client.close()
            self._client = None


def _whole(value: Any) -> Any:
    """Return JSON with well-formed texts: a world or a file may have brought a lone surrogate."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, Mapping):
        return {_whole(key): _whole(one) for key, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, (list, tuple)) else value


def _problem(error: BaseException) -> str:
    """Describe a connection error in words."""
    causes = list(_causes(error))
    if any(isinstance(one, socket.gaierror) for one in causes):
        return "cannot be reached: the host name is not known"
    names = {kind.__name__ for one in causes for kind in type(one).__mro__}
    if any(isinstance(one, _CLOSED) for one in causes) or names & _CLOSED_HTTP:
        return GONE
    if "DecodingError" in names:
        return f"is not listened to: {next(str(one) for one in causes if type(one).__name__ == 'DecodingError')}"
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    return f"cannot be reached: {str(root) or type(root).__name__}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all its causes."""
    waiting: list[BaseException | None] = [error]
    seen = set[int]()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            several = getattr(one, "exceptions", ())  # of a group: every address of a host was tried
            waiting += [one.__cause__, one.__context__, *several]
