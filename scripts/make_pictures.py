"""Make the pictures of README and docs, headless: the map in the demo's report, light and dark.

    python scripts/make_pictures.py [FOLDER [WIDTH]]     (by default docs/pictures and 1040; needs Chromium, playwright)

Look at them before you commit them, at another width, too.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from coresift.cli import app

WIDTH = 1040
MARGIN = 12


def main() -> None:
    """Write the demo's page into a folder of its own, and take the pictures."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures")
    width = int(sys.argv[2]) if len(sys.argv) > 2 else WIDTH
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        page = Path(work) / "demo.html"
        app(["demo", "--quiet", "--out", str(page)], standalone_mode=False)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            take(browser, page, folder / f"map-{scheme}.png", scheme, width)
        browser.close()


def take(browser: Browser, page: Path, out: Path, scheme: str, width: int) -> None:
    """Take a picture of the map as it is shown in one color scheme and at one width."""
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab.goto(page.as_uri())
    tab.wait_for_timeout(500)
    box = tab.locator("#picture").locator("..").bounding_box()
    assert box is not None
    clip = {"x": max(box["x"] - MARGIN, 0), "y": box["y"] - MARGIN}
    clip |= {"width": min(box["width"] + 2 * MARGIN, width), "height": box["height"] + 2 * MARGIN}
    tab.screenshot(path=out, clip=clip, full_page=True)
    tab.close()
    print(f"Wrote {out} ({out.stat().st_size / 1000:.0f} KB)")


if __name__ == "__main__":
    main()
