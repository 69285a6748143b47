"""The second half of a report: facts become one HTML page that needs nothing else and loads nothing.

What users wrote stands either escaped in the markup (`sections`) or in a block of JSON (`payload`), from which the
script sets it as text. The page's own policy allows its one style and its one script, by their digests, and no request
at all.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from coresift.reporting.facts import Facts
from coresift.reporting.payload import data_of, fitting_words, safe_json
from coresift.reporting.sections import sections, text

# The size that a page is kept to, in bytes: texts and images are added as long as they fit.
LIMIT = 2_000_000


def as_page(facts: Facts, limit: int = LIMIT) -> str:
    """Return the page; texts and images beyond `limit` bytes in all are left out, small weights first."""
    style, script = read_file("page.css"), read_file("page.js")
    body = "\n".join(part for part in sections(facts) if part)
    frame = _frame(facts, style, script, body)
    data = data_of(facts)
    room = limit - len((frame % safe_json(data)).encode()) - 200
    texts, images, fitting = fitting_words(facts, room)
    data |= {"texts": texts, "images": images, "cut": not fitting}
    return frame % safe_json(data)


def document(title: str, style: str, body: str, script: str = "") -> str:
    """Return a whole document without the ends of its body: it may use this one style and script, and load nothing."""
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


def _frame(facts: Facts, style: str, script: str, body: str) -> str:
    before = document(facts.title, style, body, script).replace("%", "%%")
    after = f"<script>{script}</script>\n</body>\n</html>\n".replace("%", "%%")
    return f'{before}\n<script type="application/json" id="facts">%s</script>\n{after}'


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def read_file(name: str) -> str:
    """Return a style or a script of this package."""
    return (files("coresift.reporting") / name).read_text(encoding="utf-8")
