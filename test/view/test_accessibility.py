"""The page and a bench's report as axe-core sees them: without a violation, in each state, size and colour scheme."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from view.test_page import FRIDGE, KITCHEN, expect
from view.writing import Lines, Live, Wide, demo, parted_run

pytestmark = pytest.mark.view

Open = Callable[..., Any]
Serve = Callable[..., Any]
Check = Callable[[Any, str], None]

LOOKS = [
    pytest.param({"width": width, "height": 900, "color_scheme": scheme}, id=f"{scheme} {width}")
    for width in (1400, 400)
    for scheme in ("light", "dark")
]


@pytest.fixture
def check() -> Iterator[Check]:
    """Runs axe-core on a page as it is; at the end there may be no violation in any state."""
    from axe_playwright_python.sync_playwright import Axe

    axe, found = Axe(), list[str]()

    def run(page: Any, state: str) -> None:
        page.evaluate("Promise.allSettled(document.getAnimations().map((one) => one.finished)).then(() => null)")
        for one in axe.run(page).response["violations"]:
            found.extend(
                f"{state}: {one['id']}: {node['html'][:200]}: {node['failureSummary']}" for node in one["nodes"]
            )

    yield run
    assert not found, "\n".join(found)


def choose(page: Any, name: str) -> None:
    tab = page.get_by_role("tab", name=name)
    if tab.is_visible():  # a wide page has the tree beside the others
        tab.click()


def check_panes(page: Any, check: Check) -> None:
    for name in ("Tree", "Node", "World", "Run"):
        choose(page, name)
        check(page, name)


@pytest.mark.parametrize("look", LOOKS)
def test_every_pane_of_a_run_and_what_opens_in_it(
    tmp_path: Path, serve: Serve, open_page: Open, check: Check, look: dict[str, Any]
) -> None:
    page = open_page(serve(parted_run(tmp_path / "chore.jsonl")).url, **look)
    expect(page.locator(".outcome .chip")).to_be_visible()
    check_panes(page, check)
    choose(page, "Tree")
    page.get_by_role("button", name="Refused", exact=True).click()
    page.get_by_label("Kind of decision").select_option("act")
    page.get_by_label("Search the run").fill("moon")
    page.get_by_role("button", name="Next found").click()
    check(page, "filters")
    choose(page, "Node")
    check(page, "found turn")
    choose(page, "Tree")
    page.locator(".legend summary").click()
    page.locator(".outcome summary").click()
    page.locator(".exports summary").click()
    check(page, "legend, reason and menu")
    page.get_by_label("Decision to go to").fill("3")
    page.keyboard.press("Enter")
    check(page, "earlier moment")
    page.get_by_label("Search the run").blur()
    page.keyboard.press("?")
    check(page, "keys")


@pytest.mark.parametrize("look", LOOKS)
def test_a_run_of_four_hundred_decisions(
    tmp_path: Path, serve: Serve, open_page: Open, check: Check, look: dict[str, Any]
) -> None:
    Wide(tmp_path / "wide.jsonl", 400).write()
    page = open_page(serve(tmp_path / "wide.jsonl").url, **look)
    expect(page.locator(".moves .of")).to_have_text("of 400")
    page.get_by_role("button", name="Open all").click()
    check_panes(page, check)


@pytest.mark.parametrize("look", LOOKS)
def test_a_map_runs_in_a_table_and_two_side_by_side(
    tmp_path: Path, serve: Serve, open_page: Open, check: Check, look: dict[str, Any]
) -> None:
    lines = Lines.of_root(tmp_path)
    spots = [{"name": "", "x": 1.0, "y": 1.0, "yaw": 0.0}, KITCHEN, FRIDGE]
    lines.add("observation", node=0, of="observe", text="A kitchen.", outcome="done", rooms=["kitchen 1"], spots=spots)
    lines.end(end="failure", message="gave up")
    demo(tmp_path / "demo.jsonl").run()
    page = open_page(serve(tmp_path).url, **look)
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_label("Search").fill("o")
    check(page, "table")
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Side by side").click()
    expect(page.get_by_text("they differ from decision")).to_be_visible()
    check(page, "side by side")
    page.goto(re.sub("#.*", "", page.url) + "#/run/run.jsonl")
    expect(page.locator(".outcome .chip")).to_be_visible()
    choose(page, "World")
    check(page, "map")


@pytest.mark.parametrize("look", LOOKS)
def test_a_run_that_is_steered(live: Live, open_page: Open, check: Check, look: dict[str, Any]) -> None:
    page = open_page(live.url, **look)
    page.get_by_role("button", name="Step", exact=True).click()
    expect(page.locator(".budget b").first).to_have_text("1")
    expect(page.get_by_role("button", name="Continue")).to_be_visible()
    check_panes(page, check)
    choose(page, "Tree")
    page.get_by_role("button", name="Cancel").click()
    check(page, "cancel?")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a small bench."""
    folder = tmp_path_factory.mktemp("bench")
    out = str(folder / "out")
    what = ["--suite", "generated", "--houses", "2", "--planner", "react_wm,reactree_wm", "--llm", "expert"]
    for words in (["bench", *what, "--limit", "2", "--out", out], ["report", out]):
        subprocess.run([sys.executable, "-m", "reactree_ros.cli", "lab", *words], check=True, cwd=folder)
    return folder / "out/report.html"


@pytest.mark.parametrize("look", LOOKS)
def test_the_report_of_a_bench(report: Path, open_page: Open, check: Check, look: dict[str, Any]) -> None:
    page = open_page(report.as_uri(), **look)
    check(page, "report")
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    check(page, "all open")
