"""Makes the pictures of README and docs, each for a light and a dark page: python test/view/screenshot.py FOLDER.

The runs in them are those of the tutorials, whose commands are carried out here.
"""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.blocks import ROOT, Place, blocks_of
from view.writing import DEMO

from reactree_ros.record.reader import read_record
from reactree_ros.record.schema import Event
from reactree_ros.view import STATUSES
from reactree_ros.view.growing import as_growing_svg
from reactree_ros.view.runs import Runs
from reactree_ros.view.server import ViewServer
from reactree_ros.view.terminal import Terminal


def main(folder: Path) -> None:
    with TemporaryDirectory() as within:
        run, robot = made("first-run", "first_run.jsonl", within), made("try-a-robot", "run.jsonl", within)
        take(folder, run, robot, made("compare-planners", "my_bench/report.html", within))


def take(folder: Path, run: Path, robot: Path, report: Path) -> None:
    folder.mkdir(exist_ok=True)
    events = read_record(run).events
    with sync_playwright() as playwright, ViewServer(Runs(run)) as first, ViewServer(Runs(robot)) as second:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            (folder / f"growing-{scheme}.svg").write_text(growing(events, scheme))
            (folder / f"terminal-{scheme}.svg").write_text(terminal(events, scheme))
            context = browser.new_context(viewport={"width": 1280, "height": 760}, color_scheme=scheme)
            page = context.new_page()
            page.goto(first.url)
            go_to(page, "18")
            save(page, folder / f"page-{scheme}.png")
            page.goto(second.url)
            go_to(page, "4")
            page.get_by_role("tab", name="World").click()
            save(page, folder / f"map-{scheme}.png")
            page.goto(report.as_uri())
            page.locator("details summary").nth(1).click()
            save(page, folder / f"report-{scheme}.png")
            context.close()
        browser.close()


def made(tutorial: str, name: str, within: str) -> Path:
    """Carry out the blocks of a tutorial until they have made a file."""
    place, blocks = Place.make(Path(within, tutorial)), blocks_of(ROOT / f"docs/tutorials/{tutorial}.md")
    while not (file := place.folder / name).exists():
        place.carry_out(next(blocks))
    return file


def go_to(page: Page, decision: str) -> None:
    expect(page.locator(".outcome .chip")).to_have_text("Goal reached")
    page.get_by_label("Decision to go to").fill(decision)
    page.get_by_label("Decision to go to").blur()
    expect(page.locator(".budget b").first).to_have_text(decision)


def save(page: Page, path: Path) -> None:
    picture = Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
    picture.quantize().save(path, optimize=True)


def growing(events: Sequence[Event], scheme: str) -> str:
    svg = as_growing_svg(events)
    if scheme == "light":
        return svg
    style = (ROOT / "reactree_ros/view/page/style.css").read_text()
    dark = dict(re.findall(r"--(\w+): light-dark\([^,]+, (#\w+)\)", style))
    change = {status.colour: dark[name or "idle"] for name, status in STATUSES.items()}
    change |= {"#ffffff": dark["paper"], "#1d2126": dark["ink"], "#1f2937": dark["ink"], "#c9ccd1": dark["edge"]}
    return re.sub("#[0-9a-f]{6}", lambda found: change[found[0]], svg)


def terminal(events: Sequence[Event], scheme: str) -> str:
    """Draw what `reactree run` shows from the 5th to the 9th decision."""
    console = Console(record=True, width=100, height=40, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    shown = Terminal(console, clock=lambda: 0.0)
    for event in events:
        if event.get("decisions") == 5:
            console.export_text()  # what was before is not shown
        if event.get("decisions") == 10:
            break
        shown.take(event)
    console.print(shown.live_tree())
    theme = {"light": DEFAULT_TERMINAL_THEME, "dark": SVG_EXPORT_THEME}[scheme]
    svg = console.export_svg(title=f'reactree run "{DEMO}"', theme=theme, unique_id="terminal")
    return re.sub(r"@font-face {.*?}\s*", "", svg, flags=re.DOTALL)  # from elsewhere


if __name__ == "__main__":
    main(Path(sys.argv[1]))
