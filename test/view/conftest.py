"""A browser, and pages of runs that are watched in it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from view.writing import Live, demo, expert

from reactree_ros.episode import EpisodeResult
from reactree_ros.view.runs import Runs
from reactree_ros.view.steering import Steering

#: Longest wait for what a page is to show, in milliseconds; it is far from what it takes.
PATIENCE = 30_000


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import expect, sync_playwright

    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert path, "these tests need Chromium on PATH; install the system's package (Debian: apt install chromium)"
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages; at the end none may have met an error."""
    problems: list[str] = []
    with ExitStack() as stack:

        def open_(url: str, *, width: int = 1300, height: int = 800, **context: Any) -> Any:
            opened = chromium.new_context(viewport={"width": width, "height": height}, **context)
            stack.callback(opened.close)
            page = opened.new_page()
            page.set_default_timeout(PATIENCE)
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
            page.goto(url)
            return page

        yield open_
    assert problems == []


@pytest.fixture
def serve() -> Iterator[Callable[..., Any]]:
    from reactree_ros.view.server import ViewServer

    with ExitStack() as stack:
        yield lambda path, **given: stack.enter_context(ViewServer(Runs(path), **given))


@pytest.fixture
def live(tmp_path: Path, serve: Callable[..., Any]) -> Iterator[Live]:
    """The demo's run, paused before its first decision."""
    steering = Steering(expert(), paused=True)
    record = tmp_path / "live.jsonl"
    episode = demo(record, model=steering)
    steering.follow(episode)
    results: list[EpisodeResult] = []

    def carry_out() -> None:
        results.append(episode.run())
        steering.ended()

    thread = threading.Thread(target=carry_out)
    thread.start()
    server = serve(record, steering=steering)
    yield Live(episode, steering, record, server.url, thread, results)
    if not results:
        steering.cancel()
    thread.join(60)
    assert not thread.is_alive()
