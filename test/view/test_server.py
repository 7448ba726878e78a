"""The server of the page: who may ask, and what it tells."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from view.writing import DEMO, Lines, Live, Wide, cookie_of, demo, origin_of, token_of

from reactree_ros.errors import UserError
from reactree_ros.record.verdict import verdict_of
from reactree_ros.view.runs import Runs
from reactree_ros.view.steering import Course

pytestmark = pytest.mark.view

Serve = Callable[..., Any]


def ask(url: str, path: str, *, method: str = "GET", body: bytes = b"", **headers: str) -> http.client.HTTPResponse:
    """Ask as whoever the headers say; ``Host`` and the cookie are the page's own unless they are given."""
    place = urlsplit(url)
    headers = {"Cookie": cookie_of(url)} | headers
    asking = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    asking.request(method, path, body or None, {name.replace("_", "-"): value for name, value in headers.items()})
    return asking.getresponse()


def command(live: Live, do: str, **headers: str) -> int:
    origin = origin_of(live.url)
    given = {"Origin": origin, "Content_Type": "application/json"} | headers
    return ask(live.url, "/api/steering", method="POST", body=json.dumps({"do": do}).encode(), **given).status


@pytest.fixture
def record(tmp_path: Path) -> Path:
    demo(tmp_path / "run.jsonl").run()
    return tmp_path / "run.jsonl"


def with_verdict(record: bytes) -> bytes:
    """Return a record whose last line says how the run ended, as the page is told it."""
    verdict = verdict_of(json.loads(record.splitlines()[-1])["result"]).as_dict()
    return record[:-2] + b',"verdict":' + json.dumps(verdict).encode() + b"}\n"


@pytest.mark.parametrize(
    "forged",
    [
        '{"e":"end",REST',
        '{"padding":"PADDING","e":"end",REST',
        '{  PADDED  "e":"end",REST',
        r'{"e":"\u0065nd",REST',
        r'{"e":"e\u006Ed",REST',
        r'{"\u0065":"en\u0064",REST',
        '{"e":"held","e":"end",REST',
        '{"e":"held","reason":"PADDING","e":"end",REST',
        '{REST,"e":"end"',
    ],
)
def test_a_forged_verdict_counts_for_nothing(tmp_path: Path, serve: Serve, forged: str) -> None:
    lines = Lines(tmp_path / "run.jsonl", "Wash a plate")
    verdict = {"judgement": "reached", "status": "success", "words": "Goal reached"}
    lines.end(gsr=0.0, ssr=0.0)
    *before, end = lines.path.read_text().splitlines()
    rest = json.dumps({"result": json.loads(end)["result"], "verdict": verdict})[1:-1]
    forged = forged.replace("REST", rest).replace("PADDING", "x" * 99).replace("PADDED", " " * 99)
    lines.path.write_text("\n".join([*before, f"{forged}}}", ""]))
    answer = ask(serve(tmp_path).url, "/api/events?run=run.jsonl")
    last = json.loads(answer.read().splitlines()[-1])
    assert (last["e"], last["verdict"]["judgement"]) == ("end", "not_reached")


def test_events_come_as_they_are_in_the_record_and_end_with_it(record: Path, serve: Serve) -> None:
    url = serve(record).url
    told = with_verdict(record.read_bytes())
    assert ask(url, "/api/events?run=run.jsonl").read() == told
    lines = told.splitlines(keepends=True)
    assert ask(url, "/api/events?run=run.jsonl&from=20").read() == b"".join(lines[20:])
    assert ask(url, f"/api/events?run=run.jsonl&from={len(lines)}").read() == b""


def test_who_comes_late_gets_everything_and_then_what_is_new(tmp_path: Path, serve: Serve) -> None:
    pieces = Wide(tmp_path / "run.jsonl", 30).pieces()
    for _ in range(10):
        next(pieces)
    there = (tmp_path / "run.jsonl").read_bytes()
    answer = ask(serve(tmp_path).url, "/api/events?run=run.jsonl")
    assert answer.read(len(there)) == there
    for _ in pieces:
        pass
    assert there + answer.read() == with_verdict((tmp_path / "run.jsonl").read_bytes())


def test_a_line_that_is_not_whole_is_not_told(tmp_path: Path, serve: Serve) -> None:
    lines = Lines(tmp_path / "run.jsonl", "Wash a plate")
    whole = lines.path.read_bytes()
    with lines.path.open("ab") as file:
        file.write(b'{"e":"held","reason":"')
        file.flush()
        answer = ask(serve(tmp_path).url, "/api/events?run=run.jsonl")
        assert answer.read(len(whole)) == whole
        file.write(b'","t":1}\n{"e":"end","result":{},"failures":[],"t":1}\n')
    assert answer.read().startswith(b'{"e":"held","reason":"","t":1}\n')


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", ""])
def test_a_name_that_is_not_the_servers_own_is_refused(record: Path, serve: Serve, host: str) -> None:
    server = serve(record)
    answer = ask(server.url, "/api/runs", Host=host.format(port=server.port))
    assert (answer.status, DEMO in answer.read().decode()) == (403, False)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
def test_a_page_from_elsewhere_can_neither_read_nor_steer(live: Live, origin: str) -> None:
    given = origin.format(port=urlsplit(live.url).port)
    assert ask(live.url, "/api/events?run=live.jsonl", Origin=given).status == 403
    assert command(live, "go on", Origin=given) == 403
    assert live.steering.course.paused


def test_a_form_cannot_steer(live: Live) -> None:
    assert command(live, "go on", Content_Type="text/plain") == 403
    no_origin = ask(live.url, "/api/steering", method="POST", body=b"{}", Content_Type="application/json")
    assert no_origin.status == 403
    assert live.steering.course.paused
    assert command(live, "go on") == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 400), (b"[]", 400), (b'{"do": "fly"}', 400), (b"\xff", 400), (b'{"do": "say"}', 409), (b"x" * 200_000, 413)],
)
def test_what_is_no_command_is_refused_with_a_reason(live: Live, body: bytes, status: int) -> None:
    origin = origin_of(live.url)
    answer = ask(
        live.url, "/api/steering", method="POST", body=body, Origin=origin, Content_Type="application/json",
        Content_Length=str(len(body)),
    )  # fmt: skip
    assert answer.status == status
    assert json.loads(answer.read())["error"]


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_there_is_not_is_refused(record: Path, serve: Serve, port: int) -> None:
    with pytest.raises(UserError, match=f"--port is {port}; it must be from 0"):
        serve(record, port=port)


def test_a_command_is_for_the_run_that_it_names(tmp_path: Path, serve: Serve) -> None:
    done: list[str] = []

    class Planner:
        def course_of(self, record: Path) -> Course:
            return Course()

        def commands(self, record: Path) -> dict[str, Callable[[str], None]]:
            return {"pause": lambda words: done.append(record.name)}

    for name in ("one", "two"):
        Lines(tmp_path / f"{name}.jsonl", "Wash a plate")
    url = serve(tmp_path, steering=Planner()).url
    headers = {"Origin": origin_of(url), "Content_Type": "application/json"}

    def status(**values: str) -> int:
        return ask(url, "/api/steering", method="POST", body=json.dumps(values).encode(), **headers).status

    assert [status(do="pause", run=run) for run in ("two.jsonl", "three.jsonl", "")] == [200, 404, 404]
    assert status(do="pause") == 404
    assert status(do="step", run="one.jsonl") == 400
    assert done == ["two.jsonl"]


def test_runs_that_are_only_watched_cannot_be_steered(record: Path, serve: Serve) -> None:
    url = serve(record).url
    headers = {"Origin": origin_of(url), "Content_Type": "application/json"}
    answer = ask(url, "/api/steering", method="POST", body=b'{"do":"pause"}', **headers)
    assert answer.status == 409


#: Everything that can be asked for.
ROUTES = [
    ("GET", "/"),
    ("HEAD", "/"),
    ("GET", "/page/main.js"),
    ("GET", "/api/runs"),
    ("GET", "/api/events?run=live.jsonl"),
    ("GET", "/api/export?run=live.jsonl&as=svg"),
    ("POST", "/api/steering"),
    ("PUT", "/api/steering"),
    ("OPTIONS", "/api/steering"),
    ("GET", "/nowhere"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_another_user_of_the_machine_who_has_no_token_gets_nothing_and_steers_nothing(
    live: Live, method: str, path: str
) -> None:
    token, port = token_of(live.url), urlsplit(live.url).port
    name = cookie_of(live.url).partition("=")[0]
    guesses = [
        "",
        "wrong",
        token[:-1],
        f"{token}=",
        token.swapcase(),
        "\udcff".encode(errors="surrogateescape").decode("latin-1"),
    ]
    cookies = [f"{name}={guess}" for guess in guesses]
    cookies += [f"reactree_token={token}", f"reactree_token_{(port or 0) + 1}={token}", f"{name.upper()}={token}"]
    words = json.dumps({"do": "go on"}).encode() if method != "GET" else b""
    page = {"Origin": origin_of(live.url), "Content_Type": "application/json"}
    for cookie in cookies:
        assert ask(live.url, path, method=method, body=words, Cookie=cookie, **page).status == 401, cookie
    for guess in guesses:
        asked = f"{path}{'&' if '?' in path else '?'}token={quote(guess)}"
        assert ask(live.url, asked, method=method, body=words, Cookie="", **page).status == 401, guess
    assert live.steering.course.paused


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_token_goes_from_the_address_into_a_cookie_that_scripts_cannot_read(
    record: Path, serve: Serve, host: str
) -> None:
    server = serve(record, host=host)
    token = token_of(server.url)
    assert len(token) > 20
    url = f"http://127.0.0.1:{server.port}/?token={token}"
    opened = ask(url, f"/?token={token}", Cookie="")
    assert (opened.status, opened.getheader("location")) == (303, "/")
    assert opened.getheader("referrer-policy") == "no-referrer"
    cookie, *attributes = (opened.getheader("set-cookie") or "").split("; ")
    assert {one.lower() for one in attributes} >= {"httponly", "samesite=strict"}
    assert ask(url, "/api/runs", Cookie=cookie).status == 200
    assert ask(url, f"/api/runs?token={token}", Cookie="").status == 200
    assert ask(url, "/api/runs", Cookie=cookie, Origin="http://evil.example").status == 403
    assert token not in ask(url, "/").read().decode() + ask(url, "/api/runs").read().decode()


def test_two_pages_of_one_host_keep_their_cookies_apart(tmp_path: Path, serve: Serve) -> None:
    one, other = (serve(Lines(tmp_path / f"{name}.jsonl", "Wash a plate").path).url for name in ("one", "other"))
    both = f"{cookie_of(one)}; {cookie_of(other)}"
    for url in (one, other):
        assert ask(url, "/api/runs", Cookie=both).status == 200
    assert ask(one, "/api/runs", Cookie=cookie_of(other)).status == 401


@pytest.mark.parametrize("path", ["/api/events?run=run.jsonl&from={}", "/api/export?run=run.jsonl&as=svg&at={}"])
def test_a_number_longer_than_any_that_is_meant_is_no_error_of_the_server(
    record: Path, serve: Serve, path: str
) -> None:
    assert ask(serve(record).url, path.format("1" * 5000)).status < 500


@pytest.mark.parametrize(
    "path", ["/api/events?run=../secret.jsonl", "/page/../server.py", "/page/%2e%2e/server.py", "/api/events?from=x"]
)
def test_no_other_file_is_told(tmp_path: Path, serve: Serve, path: str) -> None:
    (tmp_path / "runs").mkdir()
    Lines(tmp_path / "secret.jsonl", "a secret").end()
    assert ask(serve(tmp_path / "runs").url, path).status == 404


def test_a_page_may_load_and_run_nothing_but_what_the_server_has(record: Path, serve: Serve) -> None:
    answer = ask(serve(record).url, "/")
    policy = answer.getheader("content-security-policy") or ""
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    page = answer.read().decode()
    assert "http" not in page.replace('http-equiv="', "")
    assert "<script>" not in page


def test_exports_are_downloads(record: Path, serve: Serve) -> None:
    url = serve(record).url
    for kind, begin in (
        ("svg", b"<svg"),
        ("png", b"\x89PNG"),
        ("dot", b"digraph"),
        ("gif", b"GIF89a"),
        ("markdown", b"# "),
    ):
        answer = ask(url, f"/api/export?run={quote('run.jsonl')}&as={kind}&at=40")
        assert (answer.getheader("content-disposition") or "").startswith("attachment")
        assert answer.read().startswith(begin)
    assert ask(url, "/api/export?run=run.jsonl&as=exe").status == 404


@pytest.mark.parametrize("line", [b'{"e":"' + b"x" * (40 << 20) + b'"}\n', b"x" * (40 << 20), b'{"e":"end",}\n'])
def test_a_line_that_is_none_of_a_record_ends_the_stream_and_says_so(tmp_path: Path, serve: Serve, line: bytes) -> None:
    lines = Lines(tmp_path / "run.jsonl", "Wash a plate")
    whole = lines.path.read_bytes()
    with lines.path.open("ab") as file:
        file.write(line)
    told = ask(serve(tmp_path).url, "/api/events?run=run.jsonl").read()
    assert told.startswith(whole)
    said = json.loads(told[len(whole) :])
    assert said["e"] == "unreadable"
    assert f"line {whole.count(bytes([10])) + 1}" in said["reason"]


def test_a_pipe_that_is_called_as_a_record_holds_nobody_up(tmp_path: Path, serve: Serve) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    url = serve(tmp_path).url
    assert ask(url, "/api/events?run=pipe.jsonl").status == 404
    assert ask(url, "/api/export?run=pipe.jsonl&as=svg").status == 404
    assert json.loads(ask(url, "/api/runs").read())["runs"][0]["problem"]


def test_a_port_that_is_taken_is_named(record: Path, serve: Serve) -> None:
    from reactree_ros.view.server import ViewServer

    port = serve(record).port
    with pytest.raises(UserError, match=f"127.0.0.1:{port} is not available"):
        ViewServer(Runs(record), port=port)
