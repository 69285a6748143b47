"""Looks at pages in Chromium: one path per line comes in, one JSON value per line goes out, null if all is well.

A page must stay where it is, request nothing, say nothing on the console, run no script but its own, and have no
element that only a forger would put there.
"""

from __future__ import annotations

import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WATCH = "window.broken = 0; window.alert = window.prompt = window.confirm = () => { window.broken = 'a box'; };"
FORGED = (
    "document.querySelectorAll('meta[http-equiv=refresh], base, iframe, object, embed, img:not([src^=data])').length"
)


def problem_of(browser: Any, path: str) -> str | None:
    """Return what is wrong with a page."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    requests: list[str] = []
    messages: list[str] = []
    page.add_init_script(WATCH)
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    uri = Path(path).as_uri()
    try:
        page.goto(uri)
        page.wait_for_timeout(60)  # for a refresh of 0 seconds
        if page.url != uri:
            return f"the page went to {page.url}"
        if broken := page.evaluate("window.broken"):
            return f"a script of the file ran: {broken}"
        if page.evaluate(FORGED):
            return "the page has elements of the file"
        others = [url for url in requests if not url.startswith(("file:", "data:"))]
        return f"the page asks for {others[0]}" if others else (f"the page says {messages[0]}" if messages else None)
    finally:
        context.close()


def chromium() -> str | None:
    """Return where the browser is; None if there is none, or nothing to drive it with."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    return found if find_spec("playwright") is not None else None


def main() -> None:
    """Answer until there are no more pages."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        for line in sys.stdin:
            print(json.dumps(problem_of(browser, line.rstrip("\n"))), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
