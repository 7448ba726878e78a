"""The connection to a server: requests with the SDK's retries, and what becomes of each failure."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import well_formed
from reactree_ros.files.secrecy import HIDDEN, redacted, shown_address
from reactree_ros.llm.openai.refusal import Refused
from reactree_ros.llm.openai.way import Proxy, http_client, proxy_to
from reactree_ros.llm.port import LanguageModelError, ServerUnavailable

#: A server that dies refuses a connection or resets one, as it happens: what is told does not depend on which.
GONE = "cannot be reached: nothing listens there, or it closed the connection"
#: Longest time for a request outside of the protocol, in seconds.
_ASIDE = 10.0
_CLOSED = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
#: By their names, because the SDK's HTTP library has had two.
_CLOSED_HTTP = frozenset({"ReadError", "WriteError", "CloseError", "RemoteProtocolError"})


class Connection:
    """Sends requests to a server. The key goes to the server and nowhere else.

    Args:
        url: Of the server, with ``/v1``.
        key: The key; empty: none.
        retries: How often a request that failed for a passing reason (connection, 408, 409, 429, 5xx) is sent again,
            with exponential backoff and jitter.
        timeout: Longest time for one request, in seconds.

    Attributes:
        name: What errors call the server.
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
        """What errors call the server, with the proxy on the way to it."""
        return f"{self.name} (by way of {self._proxy})" if self._proxy else self.name

    async def get(self, path: str, *, retries: int | None = None) -> Any:
        """Ask for something.

        Args:
            path: What for.
            retries: How often it is asked again; None: as often as anything.

        Raises:
            Refused: The server answers with an error, or with what is no JSON.
            ServerUnavailable: It does not answer.
            UserError: The proxy on the way to it cannot be used.
        """
        more = {} if retries is None else {"max_retries": retries}
        return await self._sent(lambda client: client.with_options(**more).get(path, cast_to=object))

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send something; half characters in it, which no JSON takes, become question marks. Raises as :meth:`get`."""
        whole = _whole(body)
        return await self._sent(lambda client: client.post(path, cast_to=object, body=whole))

    async def get_aside(self, path: str) -> Any:
        """Ask for something outside of the protocol, once. Raises as :meth:`get`."""
        return await self._sent(lambda client: self._aside(client).get(path, cast_to=object))

    async def post_aside(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send something outside of the protocol, once. Raises as :meth:`get`."""
        whole = _whole(body)
        return await self._sent(lambda client: self._aside(client).post(path, cast_to=object, body=whole))

    def _aside(self, client: Any) -> Any:
        return client.with_options(base_url=self.url.removesuffix("/v1"), max_retries=0, timeout=_ASIDE)

    async def _sent(self, call: Callable[[Any], Awaitable[Any]]) -> Any:
        """Make a call.

        Its failure is raised outside of the handlers, so that the SDK's error is not part of it: that may hold the key.
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
            failure = Refused(error.status_code, error.body or error.message)
        except (openai.OpenAIError, ValueError, RecursionError) as error:  # no JSON, or none of the protocol's
            failure = Refused(0, str(error), "with garbage")
        raise failure

    async def _opened(self) -> Any:
        """Make the client. Whoever looks whether a server answers goes this way, too, so that all go the same way."""
        import openai

        proxy = await asyncio.to_thread(proxy_to, self.url)
        if self._client is None:  # nobody else was quicker
            try:
                http = http_client(proxy)
            except UserError as error:
                raise UserError(f"{self.name}: {error}") from None
            self._proxy = proxy
            self._client = openai.AsyncOpenAI(
                base_url=self.url,
                api_key=self._key or "none",
                max_retries=self._retries,
                timeout=self._timeout,
                http_client=http,
            )
        return self._client

    def redacted(self, message: str) -> str:
        """Return a message without this key and any other."""
        return redacted(message.replace(self._key, HIDDEN) if self._key else message)

    async def close(self) -> None:
        """Close all connections; the next request opens one again."""
        if self._client is not None:
            await self._client.close()
            self._client = None


def _whole(value: Any) -> Any:
    """Return JSON with texts that are well formed: a world or a file may have brought half a character."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, Mapping):
        return {_whole(key): _whole(one) for key, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, (list, tuple)) else value


def _problem(error: BaseException) -> str:
    """Say what is wrong with a connection, in words."""
    causes = list(_causes(error))
    if any(isinstance(one, socket.gaierror) for one in causes):
        return "cannot be reached: the host name is not known"
    names = {kind.__name__ for one in causes for kind in type(one).__mro__}
    if any(isinstance(one, _CLOSED) for one in causes) or names & _CLOSED_HTTP:
        return GONE
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    return f"cannot be reached: {str(root) or type(root).__name__}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all that it came of."""
    waiting: list[BaseException | None] = [error]
    seen = set[int]()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            several = getattr(one, "exceptions", ())  # of a group: every address of a host was tried
            waiting += [one.__cause__, one.__context__, *several]
