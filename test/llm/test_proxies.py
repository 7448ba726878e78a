"""Proxies of the environment: which servers are reached without one, and what is said where one stands in the way."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from clients import PATIENCE, Model, ask, clients, refusal
from openai_peer import Exchange, Peer

from reactree_ros.doctor import servers
from reactree_ros.errors import UserError
from reactree_ros.llm.port import RequestRejected, ServerUnavailable
from reactree_ros.plugins.installation import Level

THOUGHT = "Think: well"
PASSWORD = "hush-4711"
NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUEST_METHOD", "OPENAI_API_KEY", "OPENAI_BASE_URL")
ELSEWHERE = "http://gpu.example:8000/v1"


@pytest.fixture(autouse=True)
def _no_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def model() -> Iterator[Model]:
    with clients(chat=False, retries=0) as make:
        yield make


@pytest.fixture
def nowhere() -> str:
    """The address of a proxy that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


VARIABLES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
SCHEMES = ("http", "https", "socks4", "socks5", "socks5h")


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize("scheme", [*SCHEMES, ""])
def test_a_server_on_this_machine_is_reached_without_a_proxy(
    model: Model, monkeypatch: pytest.MonkeyPatch, nowhere: str, variable: str, scheme: str
) -> None:
    monkeypatch.setenv(variable, f"{scheme}://{nowhere}" if scheme else nowhere)
    with Peer(say=lambda prompt: THOUGHT) as peer:
        assert ask(model(peer)).text == THOUGHT
        (found,) = servers.servers(peer.base_url, None)
        assert found.level is Level.RIGHT


# ---------------------------------------------------------------------- by way of a proxy


class ProxyPeer(Peer):
    """A server that is asked as a proxy, with the whole URL."""

    def answer(self, exchange: Exchange) -> None:
        exchange.request.path = urlsplit(exchange.request.path).path
        super().answer(exchange)


def test_a_server_elsewhere_is_reached_through_the_proxy(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with ProxyPeer(say=lambda prompt: THOUGHT) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:{PASSWORD}@127.0.0.1:{proxy.port}")
        assert ask(model(ELSEWHERE)).text == THOUGHT
        assert all(request.headers["host"] == "gpu.example:8000" for request in proxy.requests)
        assert any("proxy-authorization" in request.headers for request in proxy.requests)


@pytest.mark.parametrize(
    "proxy", ["socks4://{}@proxy:1080", "ftp://{}@proxy", "http://{}@proxy:port", "http://{}@[::1"]
)
def test_a_proxy_that_cannot_be_used_is_the_users_error_in_one_line(
    model: Model, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy.format(f"me:{PASSWORD}"))
    one = model(ELSEWHERE)
    with pytest.raises(UserError, match=r"the proxy of the environment cannot be used .*ALL_PROXY") as raised:
        one.ready().result(PATIENCE)
    assert "\n" not in str(raised.value)
    assert type(refusal(one)) is RequestRejected
    (found,) = servers.servers(ELSEWHERE, None)
    assert found.level is Level.WRONG
    assert PASSWORD not in f"{raised.value} {found}"


def test_a_proxy_that_is_not_there_is_no_secret_of_its_password(
    model: Model, monkeypatch: pytest.MonkeyPatch, nowhere: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://me:{PASSWORD}@{nowhere}")
    failure = refusal(model(ELSEWHERE))
    assert type(failure) is ServerUnavailable
    assert f"the server at {ELSEWHERE} cannot be reached" in str(failure)
    (found,) = servers.servers(ELSEWHERE, None)
    assert PASSWORD not in f"{failure} {failure.__cause__!r} {failure.__context__!r} {found}"
