"""Connections without the token: few, not for long, and in nobody's way."""

from __future__ import annotations

import http.client
import logging
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from flood import HALVES, flood, half, is_closed
from view.writing import cookie_of, demo

pytest.importorskip("uvicorn")

from reactree_ros.view import http as serving


def place_of(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 0


def asked(url: str) -> tuple[http.client.HTTPConnection, int]:
    """Ask with the token; return the connection, which stays, and the status."""
    asking = http.client.HTTPConnection(*place_of(url), timeout=60)
    asking.request("GET", "/api/runs", headers={"Cookie": cookie_of(url)})
    answer = asking.getresponse()
    answer.read()
    return asking, answer.status


@pytest.fixture
def url(tmp_path: Path, serve: Any) -> str:
    demo(tmp_path / "run.jsonl").run()
    return str(serve(tmp_path / "run.jsonl").url)


@pytest.mark.slow
def test_who_has_the_token_is_served_in_a_flood_of_those_who_have_not(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving._Connection, "_said", float("-inf"))
    monkeypatch.setattr(serving, "PATIENCE", 1e6)
    kept, _ = asked(url)
    with flood(place_of(url), 3 * serving.MOST_UNKNOWN) as held:
        for one in held[: serving.MOST_UNKNOWN]:
            assert is_closed(one), "the oldest go"
        assert asked(url)[1] == 200
        kept.request("GET", "/api/runs", headers={"Cookie": cookie_of(url)})
        assert kept.getresponse().status == 200, "a connection that has shown the token counts for none of them"
    said = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert said == [
        f"more than {serving.MOST_UNKNOWN} connections to 127.0.0.1:{place_of(url)[1]} without the token, most of them "
        "from 127.0.0.1: the oldest are closed"
    ]


@pytest.mark.slow
def test_a_flood_from_one_address_closes_none_of_another(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "PATIENCE", 1e6)
    slow = half(place_of(url), b"GET /api/runs HTTP/1.1\r\n")
    with flood(place_of(url), 2 * serving.MOST_UNKNOWN, source="127.0.0.2") as held:
        assert is_closed(held[0])
        host = ":".join(map(str, place_of(url)))
        slow.sendall(f"Host: {host}\r\nCookie: {cookie_of(url)}\r\n\r\n".encode())
        assert slow.recv(15) == b"HTTP/1.1 200 OK"
    slow.close()


@pytest.mark.slow
@pytest.mark.parametrize("said", HALVES.values(), ids=HALVES)
def test_a_connection_that_does_not_show_the_token_is_closed(
    url: str, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, _ = asked(url)
    monkeypatch.setattr(serving, "PATIENCE", 0.1)
    with half(place_of(url), said) as late:
        assert is_closed(late)
    kept.request("GET", "/api/runs", headers={"Cookie": cookie_of(url)})
    assert kept.getresponse().status == 200


def test_only_a_server_that_others_reach_may_be_called_anything() -> None:
    with socket.create_server(("127.0.0.1", 0)) as own, socket.create_server(("0.0.0.0", 0)) as open_to_all:
        port = own.getsockname()[1]
        assert serving.own_hosts(own) == [f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"]
        assert serving.own_hosts(open_to_all) == []
