"""One HTML document, which may use only its own style and script, by their digests, and load nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from coresift.reporting.markup import text


def document(title: str, style: str, body: str, script: str = "") -> str:
    """Return a document up to the end of its body, which is left open; it may use only this style and script."""
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_digest(style)}'",
            f"script-src '{_digest(script)}'" if script else "script-src 'none'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    head = "\n".join(
        (
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{text(title)}</title>",
            '<link rel="icon" href="data:,">',
            f"<style>{style}</style>",
        )
    )
    parts = (
        "<!doctype html>",
        f'<html lang="en">\n<head>\n{head}\n</head>\n<body>',
        '<a class="skip" href="#main">Skip to the report</a>',
        body,
    )
    return "\n".join(parts)


def simple_page(title: str, parts: Sequence[str]) -> str:
    """Return a page without data for a script, in the style of all pages."""
    style, script = read_file("page.css") + read_file("pictures.css"), read_file("theme.js")
    body = "\n".join(part for part in parts if part)
    return f"{document(title, style, body, script)}\n<script>{script}</script>\n</body>\n</html>\n"


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def read_file(name: str) -> str:
    """Return a style or a script of this package."""
    return (files("coresift.reporting") / name).read_text(encoding="utf-8")
