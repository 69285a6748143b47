"""How results look in a notebook: a title and a small table, in the notebook's own colors."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

CELL = "text-align:left;vertical-align:top;padding:2px 16px 2px 0;border:0;background:none"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with a noun in the singular or plural.

    >>> counted(1, "label"), counted(1200, "label"), counted(2, "loss", "losses")
    ('1 label', '1,200 labels', '2 losses')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


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
