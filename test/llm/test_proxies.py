"""Proxies of the environment: which servers are reached without one, and what is said where one stands in the way."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from clients import PATIENCE, Model, ask, clients, refusal
from openai_peer import Exchange, Peer, fails

from reactree_ros.doctor import servers
from reactree_ros.errors import UserError
from reactree_ros.llm.openai.connection import Connection
from reactree_ros.llm.port import RequestRejected, ServerUnavailable
from reactree_ros.plugins.diagnosis import Level
from reactree_ros.plugins.installation import install_line

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


HERE = ("127.8.9.10", "[::1]", "[::ffff:127.0.0.1]", "LOCALHOST", "localhost.", "api.localhost")
ABROAD = ("gpu.example", "10.0.0.7", "128.0.0.1", "localhost.example", "[2001:db8::1]")


@pytest.mark.parametrize(("host", "here"), [*dict.fromkeys(HERE, True).items(), *dict.fromkeys(ABROAD, False).items()])
def test_only_servers_elsewhere_have_a_proxy(monkeypatch: pytest.MonkeyPatch, host: str, here: bool) -> None:
    connection = Connection(url=f"http://{host}:8000/v1", key="", retries=0, timeout=1)
    assert "environment" not in connection.called
    monkeypatch.setenv("ALL_PROXY", f"http://me:{PASSWORD}@proxy:3128")
    assert connection.called.endswith(" (the environment has $ALL_PROXY)") is not here
    assert PASSWORD not in connection.called


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


@pytest.mark.parametrize("scheme", ["http://", "https://", ""])
def test_an_error_names_the_proxy_without_its_password(
    model: Model, monkeypatch: pytest.MonkeyPatch, nowhere: str, scheme: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"{scheme}me:{PASSWORD}@{nowhere}")
    failure = refusal(model(ELSEWHERE))
    assert type(failure) is ServerUnavailable
    assert f"the server at {ELSEWHERE} (the environment has $HTTP_PROXY) cannot be reached" in str(failure)
    (found,) = servers.servers(ELSEWHERE, None)
    assert "(the environment has $HTTP_PROXY) cannot be reached" in found.said
    assert PASSWORD not in f"{failure} {failure.__cause__!r} {failure.__context__!r} {found}"


@pytest.mark.parametrize("status", [403, 407, 502, 503])
def test_what_a_proxy_answers_itself_is_told_with_its_name(
    model: Model, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    with ProxyPeer() as proxy:
        proxy.on_models = fails(status, "the proxy says no")
        monkeypatch.setenv("HTTP_PROXY", f"http://me:{PASSWORD}@127.0.0.1:{proxy.port}")
        failure = refusal(model(ELSEWHERE))
        assert "(the environment has $HTTP_PROXY)" in str(failure)
        assert PASSWORD not in str(failure)


UNUSABLE = ("socks4://{}@proxy:1080", "ftp://{}@proxy", "http://{}@proxy:port", "http://{}@[::1")


@pytest.mark.parametrize("proxy", UNUSABLE)
def test_a_proxy_that_cannot_be_used_is_the_users_error_in_one_line(
    model: Model, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy.format(f"me:{PASSWORD}"))
    one = model(ELSEWHERE)
    with pytest.raises(UserError, match="ALL_PROXY") as raised:
        one.ready().result(PATIENCE)
    assert "it is no proxy URL" in str(raised.value)
    assert PASSWORD not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert type(refusal(one)) is RequestRejected
    (found,) = servers.servers(ELSEWHERE, None)
    assert found.level is Level.WRONG
    assert "it is no proxy URL" in found.said
    assert PASSWORD not in str(found)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
@pytest.mark.parametrize("command", [["run", "Go to the kitchen", "--llm", "openai"], ["llm", "check"], ["doctor"]])
def test_a_socks_proxy_without_its_package_says_what_to_install(command: list[str], scheme: str) -> None:
    code = "import sys; sys.modules['socksio'] = None; from reactree_ros.cli import main; main()"
    environment = {**os.environ, "ALL_PROXY": f"{scheme}://me:{PASSWORD}@127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", code, *command, "--base-url", ELSEWHERE],
        capture_output=True,
        text=True,
        env={name: value for name, value in environment.items() if name.lower() not in NAMES or name == "ALL_PROXY"},
        timeout=120,
    )
    told = done.stdout + done.stderr
    assert f"SOCKS needs the package socksio: {install_line('socksio')}" in " ".join(told.split())
    assert "$ALL_PROXY cannot be used" in " ".join(told.split())
    assert PASSWORD not in told
    assert "Traceback" not in told
    assert done.returncode == (1 if command == ["doctor"] else 2)
