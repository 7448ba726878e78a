"""The connection to a server: its address and key, requests with the SDK's retries, an error for each failure."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import well_formed
from reactree_ros.files.secrecy import HIDDEN, is_loopback, redacted, shown_address
from reactree_ros.llm.openai.answer import error_in
from reactree_ros.llm.openai.refusal import Refused
from reactree_ros.llm.port import LanguageModelError, ServerUnavailable
from reactree_ros.plugins.installation import install_line

#: A dying server refuses or resets a connection by chance: the error does not depend on which.
GONE = "cannot be reached: nothing listens there, or it closed the connection"
#: The longest answer that is read, in bytes; far above the longest text that is used.
LONGEST_ANSWER = 16 * 2**20
#: Longest time for a request outside of the protocol, in seconds.
_ASIDE = 10.0
_CLOSED = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
#: By name, because the SDK has used two HTTP libraries.
_CLOSED_HTTP = frozenset({"ReadError", "WriteError", "CloseError", "RemoteProtocolError"})
_OF_HTTP = frozenset({"HTTPError", "StreamError"})

#: The error for a URL that holds a key; it does not repeat the URL.
KEY_IN_URL = "base_url: must hold no user, password or query; give a key by OPENAI_API_KEY or api_key_file"


def read_key(file: str) -> str:
    """Return the key in a file, or in ``$OPENAI_API_KEY``; empty if there is none."""
    if not file:
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        if key and not _is_a_key(key):
            raise UserError("$OPENAI_API_KEY: holds no key; a key has neither spaces nor control characters in it")
        return key
    try:
        key = Path(file).expanduser().read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"api_key_file {file}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if not _is_a_key(key):
        raise UserError(f"api_key_file {file}: holds no key; one line with the key is needed")
    return key


def _is_a_key(text: str) -> bool:
    return re.fullmatch("[!-~]+", text) is not None


def may_hold_a_key(base_url: str) -> bool:
    return "@" in base_url or "?" in base_url


def read_url(base_url: str) -> str:
    """Return the URL of a server: the given one, or ``$OPENAI_BASE_URL``; ``/v1`` is added if it has no path."""
    base_url = base_url or os.environ.get("OPENAI_BASE_URL", "")
    if not base_url:
        raise UserError("llm 'openai' needs a base URL, e.g. http://127.0.0.1:8000/v1 (or set OPENAI_BASE_URL)")
    if may_hold_a_key(base_url):
        raise UserError(KEY_IN_URL)
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    sound = parts.scheme in ("http", "https") and parts.hostname and port != 0 and not re.search(r"\s|#", base_url)
    if not sound:
        raise UserError(
            f"base_url {redacted(base_url)!r}: is not a URL of a server; it looks like http://127.0.0.1:8000/v1"
        )
    return base_url.rstrip("/") if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/v1"


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
        self._is_here = is_loopback(urlsplit(url).hostname or "")
        self._client: Any = None

    @property
    def has_key(self) -> bool:
        return bool(self._key)

    async def get(self, path: str, **options: Any) -> Any:
        """Send a GET request, with options of the SDK.

        Raises:
            Refused: The server answers with an error or with invalid JSON.
            ServerUnavailable: It does not answer.
            UserError: The proxy on the way to it cannot be used.
        """
        return await self._sent(lambda client: client.with_options(**options).get(path, cast_to=object))

    async def post(self, path: str, body: Mapping[str, Any], **options: Any) -> Any:
        """Send a POST request, with lone surrogates replaced by question marks. Raises the errors of :meth:`get`."""
        whole = _whole(body)
        return await self._sent(lambda client: client.with_options(**options).post(path, cast_to=object, body=whole))

    async def ask_aside(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request outside of the protocol, once; without a body, GET. Raises the errors of :meth:`get`."""
        more = {"base_url": self.url.removesuffix("/v1"), "max_retries": 0, "timeout": _ASIDE}
        return await (self.get(path, **more) if body is None else self.post(path, body, **more))

    async def stream(self, path: str, body: Mapping[str, Any], add: Callable[[Any], bool]) -> Any:
        """Send a POST request whose answer may come in parts; return that of a server that does not stream, or None.

        Once ``add`` returns False, the connection is closed, which stops the generation. Raises as :meth:`get`.
        """
        import openai

        whole = _whole(body)

        async def parts(client: Any) -> Any:
            kind = openai.AsyncStream[object]
            stream = await client.post(path, cast_to=object, body=whole, stream=True, stream_cls=kind)
            try:
                if "event-stream" not in stream.response.headers.get("content-type", ""):
                    return json.loads(await stream.response.aread())
                async for part in stream:
                    if not add(part):
                        break
                return None
            finally:
                await stream.close()

        return await self._sent(parts)

    async def _sent(self, call: Callable[[Any], Awaitable[Any]]) -> Any:
        """Make a call.

        A failure is raised outside of the handlers, so that it does not carry the SDK's error, which may hold the key.
        """
        import openai

        client = self._client or self._opened()
        failure: LanguageModelError | Refused
        try:
            return await call(client)
        except openai.APITimeoutError:
            failure = ServerUnavailable(f"{self.name}: no answer within {self._timeout:g} s")
        except openai.APIConnectionError as error:
            failure = ServerUnavailable(f"{self.name} {self.redacted(_problem(error))}")
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
            failure = ServerUnavailable(f"{self.name} {self.redacted(_problem(error))}")  # in a stream, it comes bare
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

    def _opened(self) -> Any:
        import openai

        try:
            http = _http_client(is_here=self._is_here)
        except Exception as error:  # the library's errors may repeat a password
            kind = type(error).__name__
        else:
            self._client = openai.AsyncOpenAI(
                base_url=self.url,
                api_key=self._key or "none",
                max_retries=self._retries,
                timeout=openai.Timeout(None, connect=self._timeout),  # whoever asks bounds the whole request
                http_client=http,
            )
            return self._client
        raise UserError(
            f"{self.name}: the proxy of the environment cannot be used ({kind}); look at HTTP_PROXY, HTTPS_PROXY and "
            f"ALL_PROXY, e.g. http://proxy:3128; SOCKS needs a package: {install_line('socksio')}"
        )

    def redacted(self, message: str) -> str:
        return redacted(message.replace(self._key, HIDDEN) if self._key else message)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


def _http_client(*, is_here: bool) -> Any:
    """Make the SDK's HTTP client: it follows no redirect, bounds an answer, and asks this machine without a proxy."""
    import openai

    client: Any = openai.DefaultAsyncHttpxClient
    base = next(kind for kind in client.__mro__ if kind.__name__ == "AsyncClient")
    library: Any = sys.modules[base.__module__.partition(".")[0]]  # the SDK has used two HTTP libraries

    async def bound(response: Any) -> None:
        if (packed := response.headers.get("content-encoding", "identity").lower()) != "identity":
            raise library.DecodingError(f"its answer is compressed ({packed}), which was not asked for")
        response.stream = Bounded(response.stream)

    class Bounded(library.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        async def __aiter__(self) -> AsyncIterator[bytes]:
            length = 0
            async for part in self._inner:
                length += len(part)
                if length > LONGEST_ANSWER:
                    raise library.DecodingError(f"its answer is longer than {LONGEST_ANSWER >> 20} MiB")
                yield part

        async def aclose(self) -> None:
            await self._inner.aclose()

    # A short compressed answer may be a very long one.
    more = {"event_hooks": {"response": [bound]}, "headers": {"Accept-Encoding": "identity"}, "follow_redirects": False}
    if is_here:  # with a transport of its own, the client takes no proxy
        more["transport"] = library.AsyncHTTPTransport(limits=openai.DEFAULT_CONNECTION_LIMITS)
    return client(**more)


def _whole(value: Any) -> Any:
    """Return JSON with well-formed texts: a world or a file may have brought a lone surrogate."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, Mapping):
        return {_whole(key): _whole(one) for key, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, (list, tuple)) else value


def _problem(error: BaseException) -> str:
    causes, waiting = list[BaseException](), [error]
    while waiting:  # every address of a host was tried: a group
        causes.append(one := waiting.pop())
        behind = (one.__cause__, one.__context__, *getattr(one, "exceptions", ()))
        waiting += [other for other in behind if other is not None and other not in causes]
    names = {kind.__name__ for one in causes for kind in type(one).__mro__}
    if any(isinstance(one, socket.gaierror) for one in causes):
        return "cannot be reached: the host name is not known"
    if any(isinstance(one, _CLOSED) for one in causes) or names & _CLOSED_HTTP:
        return GONE
    if "DecodingError" in names:
        return f"is not listened to: {next(str(one) for one in causes if type(one).__name__ == 'DecodingError')}"
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    return f"cannot be reached: {str(root) or type(root).__name__}"
