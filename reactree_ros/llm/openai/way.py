"""The way to a server: straight, or through a proxy from the environment."""

from __future__ import annotations

import ipaddress
import re
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from reactree_ros.errors import UserError
from reactree_ros.files.addresses import is_loopback
from reactree_ros.plugins.installation import install_line

#: The longest answer that is read, in bytes; far above the longest text that is used.
LONGEST_ANSWER = 16 * 2**20
_NO_PROXY_AT_ALL = "it is no proxy URL; a proxy URL looks like http://proxy:3128 or socks5://proxy:1080"


@dataclass(frozen=True)
class Proxy:
    """A proxy from the environment; its URL may hold a password."""

    variable: str
    url: str

    def __str__(self) -> str:
        """Name the proxy without a possible password."""
        scheme, _, rest = self.url.rpartition("://")
        return f"the proxy {scheme or 'http'}://{re.split('[/?#]', rest.rpartition('@')[2])[0]} (${self.variable})"


def proxy_to(url: str) -> Proxy | None:
    """Return the proxy on the way to a server; None if there is none.

    A server on this machine, or one that ``$NO_PROXY`` names, is reached directly. A name without a dot may be looked
    up, which takes as long as the system takes.
    """
    parts = urlsplit(url)
    host, port = (parts.hostname or "").rstrip("."), parts.port or {"http": 80, "https": 443}[parts.scheme]
    named = getproxies()
    scheme = next((one for one in (parts.scheme, "all") if named.get(one)), None)
    if scheme is None or _is_passed_over(host, port, named.get("no", "")) or _is_this_machine(host):
        return None
    return Proxy(f"{scheme.upper()}_PROXY", named[scheme])


def http_client(proxy: Proxy | None) -> Any:
    """Make the SDK's HTTP client: it uses this proxy or none, follows no redirect, and limits the length of an answer.

    Raises:
        UserError: The proxy cannot be used; the message says why, without its password.
    """
    import openai

    client: Any = openai.DefaultAsyncHttpxClient
    base = next(kind for kind in client.__mro__ if kind.__name__ == "AsyncClient")
    library: Any = sys.modules[base.__module__.partition(".")[0]]  # the SDK has used two HTTP libraries
    limits = openai.DEFAULT_CONNECTION_LIMITS

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
    if proxy is None:  # an explicit transport: without one, the client takes the environment's proxy
        return client(transport=library.AsyncHTTPTransport(limits=limits), **more)
    url = proxy.url if "://" in proxy.url else f"http://{proxy.url}"
    try:
        if urlsplit(url).hostname:
            return client(proxy=url, **more)
        problem = _NO_PROXY_AT_ALL
    except ImportError:
        problem = f"SOCKS needs the package socksio: {install_line('socksio')}"
    except Exception:  # the library's errors may repeat the password
        problem = _NO_PROXY_AT_ALL
    raise UserError(f"{proxy} cannot be used: {problem}; NO_PROXY lists the hosts that need none")


def _is_passed_over(host: str, port: int, listed: str) -> bool:
    """Return whether ``$NO_PROXY`` names a host: by name, domain, address or network, with or without a port."""
    return any(_names(entry, host, port) for entry in re.split(r"[,\s]+", listed) if entry)


def _names(entry: str, host: str, port: int) -> bool:
    entry = entry.rpartition("://")[2].lower()
    if entry == "*":
        return True
    if with_port := re.fullmatch(r"(\[[^]]*\]|[^:]*):(\d+)", entry):
        entry, its_port = with_port.groups()
        if int(its_port) != port:
            return False
    entry = entry.replace("[", "").replace("]", "")
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        domain = entry.lstrip("*.").rstrip(".")
        return bool(domain) and (host == domain or host.endswith(f".{domain}"))


def _is_this_machine(host: str) -> bool:
    if is_loopback(host):
        return True
    # Only the proxy may know a name with a dot, or be allowed to see it.
    flags = socket.AI_NUMERICHOST if re.search(r"[.:]", host) else 0
    try:
        found = socket.getaddrinfo(host, None, flags=flags)
    except (OSError, UnicodeError):
        return False
    return bool(found) and all(_is_local(str(address[0]).partition("%")[0]) for *_, address in found)


def _is_local(text: str) -> bool:
    return is_loopback(text) or ipaddress.ip_address(text).is_unspecified
