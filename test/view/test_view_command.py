"""``reactree view`` and ``reactree run --view`` as commands."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import pytest
from command_line import Cli
from view.writing import DEMO, Lines, cookie_of, demo, origin_of, token_of

without_the_page = pytest.mark.skipif(find_spec("uvicorn") is not None, reason="what the page needs is installed")


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate(timeout=30)


def start(
    processes: list[subprocess.Popen[str]], *arguments: object, code: str = "from reactree_ros.cli import main; main()"
) -> tuple[subprocess.Popen[str], str]:
    """Start a command in a process of its own; returns where it says that its page is."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    processes.append(process)
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"http://\S+", line):
            return process, found[0]
    raise AssertionError(f"it ended with {process.wait(30)} and named no page")


def asked(url: str, path: str, command: bytes | None = None) -> Request:
    """Return what the page at an address asks for."""
    headers = {"Cookie": cookie_of(url), "Origin": origin_of(url), "Content-Type": "application/json"}
    return Request(f"{origin_of(url)}{path}", command, headers)


@without_the_page
def test_where_the_page_cannot_be_served_it_says_what_to_install(cli: Cli, tmp_path: Path) -> None:
    for command in (("view", tmp_path), ("run", DEMO, "--view")):
        ended = cli(*command)
        assert (ended.code, "-m pip install " in ended.err) == (2, True)


def test_paused_without_a_page_is_refused(cli: Cli) -> None:
    ended = cli("run", DEMO, "--paused")
    assert (ended.code, ended.out) == (2, "")
    assert "--paused needs --view" in ended.err


@pytest.mark.view
@pytest.mark.skipif(find_spec("rclpy") is not None, reason="ROS 2 is here")
def test_without_ros_a_planner_cannot_be_followed_and_it_says_so(cli: Cli) -> None:
    ended = cli("view", "--ros")
    assert (ended.code, ended.err.count("\n"), "Traceback" in ended.err) == (2, 1, False)
    assert "--ros needs ROS 2" in ended.err


@pytest.mark.view
@pytest.mark.parametrize("content", [None, "{}\n"])
def test_what_is_no_record_is_bad_input(cli: Cli, tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "run.jsonl"
    if content:
        path.write_text(content, encoding="utf-8")
    ended = cli("view", path)
    assert (ended.code, "run.jsonl" in ended.err, "Traceback" in ended.err) == (2, True, False)


@pytest.mark.view
def test_a_folder_is_shown_until_it_is_interrupted(started: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    demo(tmp_path / "run.jsonl").run()
    Lines(tmp_path / "other.jsonl", "Wash a plate")
    process, url = start(started, "view", tmp_path, "--no-browser")
    with urlopen(asked(url, "/api/runs"), timeout=30) as answer:
        assert {run["run"] for run in json.load(answer)["runs"]} == {"run.jsonl", "other.jsonl"}
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130


@pytest.mark.view
@pytest.mark.skipif(sys.platform == "win32", reason="the browser of the test is a shell script")
def test_the_browser_is_opened_with_an_address_that_works_once(
    started: list[subprocess.Popen[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, told = tmp_path / "browser", tmp_path / "told"
    os.mkfifo(told)
    browser.write_text(f'#!/bin/sh\necho "$1" >{told}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    _, url = start(started, "view", tmp_path)
    once = told.read_text().strip()
    assert (origin_of(once), token_of(once) == token_of(url)) == (origin_of(url), False)
    with pytest.raises(HTTPError, match="401"):
        urlopen(f"{origin_of(once)}/api/runs?token={token_of(once)}", timeout=30)
    opened = build_opener(HTTPCookieProcessor())
    for path in (once, f"{origin_of(url)}/api/runs"):
        assert opened.open(path, timeout=30).status == 200
    with pytest.raises(HTTPError, match="401"):
        urlopen(once, timeout=30)


@pytest.mark.view
def test_ctrl_c_ends_the_page_whatever_it_is_at(started: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    busy = tmp_path / "busy"
    code = f"""
from pathlib import Path
from reactree_ros.cli import main
from reactree_ros.view.runs import Runs

def table(self):
    Path({str(busy)!r}).touch()
    while True:
        pass

Runs.table = table
main()
"""
    demo(tmp_path / "run.jsonl").run()
    process, url = start(started, "view", tmp_path, "--no-browser", code=code)

    def ask() -> None:
        with suppress(OSError):
            urlopen(asked(url, "/api/runs"))

    threading.Thread(target=ask, daemon=True).start()
    while not busy.exists():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130


@pytest.mark.view
def test_a_run_waits_for_the_page_then_is_carried_out_and_stays_to_be_looked_at(
    started: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    record = tmp_path / "kept.jsonl"
    process, url = start(started, "run", DEMO, "--view", "--paused", "--save", record, "--json")
    with urlopen(asked(url, "/api/steering", b'{"do": "go on"}'), timeout=30) as answer:
        assert answer.status == 200
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["end"] == "done"
    with urlopen(asked(url, "/api/events?run=kept.jsonl"), timeout=30) as answer:
        told = [line for line in answer.read().splitlines() if not line.startswith(b'{"e": "steering"')]
    *lines, end = record.read_bytes().splitlines()
    assert (told[:-1], told[-1][: len(end) - 1]) == (lines, end[:-1])
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
