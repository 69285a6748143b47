"""Parts of every kind of page: a head with key figures, sections, tables, and next steps."""

from __future__ import annotations

from collections.abc import Sequence

from coresift.reporting.axes import Axis
from coresift.reporting.markup import code_block, text
from coresift.reporting.pictures import strip
from coresift.version import __version__

# A long table shows this many lines, and a button for the others.
FIRST = 12
# A key figure: its name, its value, and a short explanation.
KeyFigure = tuple[str, str, str]
# A line of a table of intervals: name, value, low, high, and further cells.
IntervalLine = tuple[str, float, float, float, Sequence[str]]


def head(title: str, lead: str, figures: Sequence[KeyFigure], links: Sequence[tuple[str, str]], more: str = "") -> str:
    """Return the head of a page; `lead` sums up the result, `more` is markup such as warnings."""
    listed = "".join(f'<a href="#{name}">{label}</a>' for name, label in links)
    shown = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd><dd class='quiet'>{text(about)}</dd></div>"
        for name, value, about in figures
    )
    shown = f"<dl class='figures'>{shown}</dl>" if shown else ""
    return (
        f"<header><div class='top'><p class='brand'>coresift report</p>"
        "<button type='button' id='theme' hidden>Dark</button></div>"
        f"<h1>{text(title)}</h1><p class='lead'>{text(lead)}</p>{more}{shown}"
        f"<nav aria-label='Parts of this report'>{listed}</nav></header>"
    )


def end() -> str:
    """Return the last lines of a page."""
    return f"<footer>Made with coresift {text(__version__)}. This page is one file and loads nothing.</footer>"


def section(name: str, title: str, content: str) -> str:
    """Return a section with a heading, or nothing if there is no content."""
    if not content:
        return ""
    return f"<section id='{name}' aria-labelledby='{name}-title'><h2 id='{name}-title'>{title}</h2>{content}</section>"


def paragraph(words: str, kind: str = "") -> str:
    """Return a paragraph of escaped words."""
    return f"<p{f' class={chr(39)}{kind}{chr(39)}' if kind else ''}>{text(words)}</p>"


def figure(picture: str, caption: str) -> str:
    """Return a picture with its caption."""
    return f"<figure class='narrow'>{picture}<figcaption>{text(caption)}</figcaption></figure>"


def listing(sentences: Sequence[str]) -> str:
    """Return sentences as a list."""
    return f"<ul>{''.join(f'<li>{text(sentence)}</li>' for sentence in sentences)}</ul>" if sentences else ""


def steps(parts: Sequence[tuple[str, str]]) -> str:
    """Return the section of next steps, each with a sentence and its code."""
    content = "".join(f"<h3>{text(words)}</h3>{code_block(code, 'python') if code else ''}" for words, code in parts)
    return section("next", "What to do next", content)


def table(heads: Sequence[str], lines: Sequence[Sequence[str]], *, numbers_from: int = 1) -> str:
    """Return a table; the first cell of a line names it, and cells from `numbers_from` on are numbers."""
    top = "".join(
        f"<th scope='col'{_number(place, numbers_from)}>{text(name)}</th>" for place, name in enumerate(heads)
    )
    body = "".join(
        f"<tr><th scope='row' dir='auto'>{text(line[0])}</th>"
        + "".join(f"<td{_number(place, numbers_from)}>{text(cell)}</td>" for place, cell in enumerate(line[1:], 1))
        + "</tr>"
        for line in lines
    )
    return (
        "<div class='wide' tabindex='0' role='group' aria-label='Table'><table>"
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def interval_table(
    heads: Sequence[str], lines: Sequence[IntervalLine], axis: Axis, mark: float | None, shown: Sequence[str]
) -> str:
    """Return a table whose lines show intervals on one axis, then as numbers, then further cells.

    Args:
        heads: The headings of the names, the values, and the further cells.
        lines: The intervals.
        axis: The axis that all intervals share.
        mark: A value with a thin line, such as that of all rows.
        shown: The value and interval of each line, as text.
    """
    marks = axis.marks()
    scale = f"<span>{text(marks[0][1])}</span><span>{text(marks[-1][1])}</span>" if marks else ""
    top = (
        f"<th scope='col'>{text(heads[0])}</th><th scope='col' class='strip'><span class='scale'>{scale}</span></th>"
        f"<th scope='col'>{text(heads[1])}</th>"
        + "".join(f"<th scope='col' class='number extra'>{text(name)}</th>" for name in heads[2:])
    )
    body = "".join(
        f"<tr><th scope='row' dir='auto'>{text(name)}</th><td class='strip'>{strip(value, low, high, axis, mark)}</td>"
        f"<td>{text(words)}</td>" + "".join(f"<td class='number extra'>{text(cell)}</td>" for cell in more) + "</tr>"
        for (name, value, low, high, more), words in zip(lines, shown, strict=True)
    )
    return long_table("strips", top, body)


def long_table(kind: str, top: str, body: str) -> str:
    """Return a table that begins with a few lines, and a button for the others."""
    return (
        f"<div class='wide' tabindex='0' role='group' aria-label='Table'><table class='{kind}' "
        f"data-first='{FIRST}'><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _number(place: int, numbers_from: int) -> str:
    return " class='number'" if place >= numbers_from else ""
