"""Text as markup: everything that users wrote is escaped here."""

from __future__ import annotations

import re
from html import escape

import numpy as np

NOTHING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def code_block(content: str, kind: str) -> str:
    """Return code to copy; the script of the page shows the button."""
    return (
        f"<div class='code'><pre class='{kind}' tabindex='0'><code>{text(content)}</code></pre>"
        "<button type='button' class='copy' hidden>Copy</button></div>"
    )


def number(value: float | None) -> str:
    """Return a number with about three significant digits.

    >>> number(12345.6), number(0.012345), number(3.0), number(None)
    ('12,346', '0.0123', '3', '')
    """
    if value is None or not np.isfinite(value):
        return ""
    if value != 0 and (abs(value) >= 1e9 or abs(value) < 1e-4):
        return f"{value:.3g}"
    if abs(value) >= 1000 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")


def text(value: object) -> str:
    """Return any value as escaped text without control characters."""
    return escape(NOTHING.sub("\ufffd", str(value)), quote=True)


def number_cell(content: str) -> str:
    """Return a cell of a table with a number."""
    return f"<td class='number'>{text(content)}</td>"
