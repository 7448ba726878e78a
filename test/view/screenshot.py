"""Makes the picture of the page that the README shows: the demo's run at its 18th decision, in Chromium.

python test/view/screenshot.py FILE.png
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from view.writing import demo

from reactree_ros.view.runs import Runs
from reactree_ros.view.server import ViewServer

DECISION = "18"


def main(file: Path) -> None:
    """Carry the demo out, open its page and take the picture."""
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        record = Path(folder, "demo.jsonl")
        demo(record).run()
        with ViewServer(Runs(record)) as server:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 760})
            page.goto(server.url)
            expect(page.locator(".outcome .chip")).to_have_text("Goal reached")
            page.get_by_label("Decision to go to").fill(DECISION)
            page.get_by_label("Decision to go to").blur()
            expect(page.locator(".budget b").first).to_have_text(DECISION)
            page.screenshot(path=file, animations="disabled")
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
