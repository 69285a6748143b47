"""How results look in a notebook: a title and a small table, in the notebook's own colors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

# Numbers outside of these limits are written with an exponent.
MOST_DECIMALS, LARGEST = 8, 1e12
CELL = "text-align:left;vertical-align:top;padding:2px 16px 2px 0;border:0;background:none"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with a noun in the singular or plural.

    >>> counted(1, "label"), counted(1200, "label"), counted(2, "loss", "losses")
    ('1 label', '1,200 labels', '2 losses')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def interval_texts(value: float, low: float, high: float) -> tuple[str, str, str]:
    """Return a number and its interval with the same number of decimals: three digits of the interval's width.

    >>> interval_texts(50.5521, 48.679, 52.5966), interval_texts(987637.2, 951042.0, 1027580.3)
    (('50.55', '48.68', '52.60'), ('987,637', '951,042', '1,027,580'))
    """
    numbers = (value, low, high)
    largest = max(map(abs, numbers))
    width = high - low if high > low else largest
    if not (all(map(math.isfinite, numbers)) and width > 0):
        return f"{value:,.6g}", f"{low:,.6g}", f"{high:,.6g}"
    decimals = max(2 - math.floor(math.log10(width)), 0)
    if decimals > MOST_DECIMALS or largest >= LARGEST:
        return f"{value:.6g}", f"{low:.6g}", f"{high:.6g}"
    return f"{value:,.{decimals}f}", f"{low:,.{decimals}f}", f"{high:,.{decimals}f}"


def card(title: str, lines: Sequence[tuple[str, str]], remarks: Sequence[str] = ()) -> str:
    """Return HTML with a title, a table of names and values, and remarks; all text is escaped.

    >>> card("2 < 3 rows", [("seed", "0")]).count("<tr>")
    1
    """
    cells = "".join(
        f'<tr><td style="{CELL};opacity:.7">{escape(name)}</td><td style="{CELL}">{escape(value)}</td></tr>'
        for name, value in lines
    )
    notes = "".join(f'<div style="margin-top:4px">{escape(remark)}</div>' for remark in remarks)
    return (
        f'<div style="font-variant-numeric:tabular-nums"><div><strong>{escape(title)}</strong></div>'
        f'<table style="border-collapse:collapse;margin:4px 0"><tbody>{cells}</tbody></table>{notes}</div>'
    )
