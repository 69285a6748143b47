"""Small drawings as SVG: the style sheet colors them, so that they follow the theme and print well."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from coresift.reporting.axes import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    WIDTH,
    Axis,
    frame,
    horizontal,
    short,
    vertical,
)
from coresift.reporting.facts import Histogram, LossByDistance
from coresift.reporting.markup import text

# A position on the horizontal axis, a value, and the two ends of its interval.
Point = tuple[float, float, float, float]
# How many kinds of lines the style sheet has.
KINDS = 8


def bars(histogram: Histogram, name: str, counted: str = "rows") -> str:
    """Return a histogram; logarithmic bins are drawn with equal widths."""
    if not histogram.counts:
        return ""
    edges, counts = histogram.edges, histogram.counts
    across, base = WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM
    up = Axis.around(counted, [0, max(counts)], zero=True)
    step = across / len(counts)
    shapes = [
        f'<rect x="{LEFT + place * step + 0.5:.1f}" y="{vertical(up, count):.1f}" '
        f'width="{max(step - 1, 0.5):.1f}" height="{base - vertical(up, count):.1f}"/>'
        for place, count in enumerate(counts)
        if count
    ]
    # The edges of the bins are marked, so the frame itself has no marks on this axis.
    marks = "".join(
        f'<text x="{LEFT + place * step:.1f}" y="{base + 17}" text-anchor="middle">{short(edges[place])}</text>'
        for place in _spread(len(edges))
    )
    said = f"{name}: from {short(edges[0])} to {short(edges[-1])}, at most {max(counts):,} in one bar"
    plain = _Unmarked(name, 0, 1)
    return frame(plain, up, ['<g class="bars">', *shapes, "</g>", marks], said)


class _Unmarked(Axis):
    def marks(self) -> list[tuple[float, str]]:
        return []


def scatter(losses: LossByDistance) -> str:
    """Return loss against distance: one dot per row, and a line for the mean."""
    top = _ceiling(losses.loss, losses.means)
    across = Axis("distance to the center of its cluster", 0, max(*losses.distance, 1e-300))
    up = Axis("loss", 0, top)
    points = zip(losses.distance, losses.loss, strict=True)
    dots = [f'<circle cx="{horizontal(across, x):.1f}" cy="{vertical(up, y):.1f}" r="1.7"/>' for x, y in points]
    beyond = sum(loss > top for loss in losses.loss)
    note = f" {beyond} of {len(losses.loss)} dots lie above the frame and are drawn at its top." if beyond else ""
    said = f"Loss from 0 to {short(top)} against distance from 0 to {short(across.high)}.{note}"
    line = _line(across, up, zip(losses.middles, losses.means, strict=True))
    return frame(across, up, ['<g class="dots">', *dots, "</g>", f'<polyline class="mean" points="{line}"/>'], said)


def _ceiling(losses: Sequence[float], means: Sequence[float]) -> float:
    """Return an upper end that 99 % of the losses are below; one large loss would make the others too small to see."""
    ordered = sorted(losses)
    return max(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], *means, 1e-300) * 1.05


def curve(points: Sequence[Point], across: str, up: str, *, percent: bool = False, zero: bool = False) -> str:
    """Return values with their intervals, joined by a line.

    Args:
        points: At least one.
        across: The name of the horizontal axis.
        up: The name of the values.
        percent: Whether the values are shares.
        zero: Whether the vertical axis begins at 0.
    """
    beneath = Axis.around(across, [point[0] for point in points], zero=True)
    beside = Axis.around(up, [value for point in points for value in point[1:]], zero=zero, percent=percent)
    said = f"{up} against {across}: " + "; ".join(
        f"{short(x)}: {short(value)}, from {short(low)} to {short(high)}" for x, value, low, high in points
    )
    return frame(beneath, beside, _with_intervals(points, beneath, beside, 0), said, classes="curve")


def _with_intervals(points: Sequence[Point], across: Axis, up: Axis, kind: int) -> list[str]:
    places = [(horizontal(across, x), value, low, high) for x, value, low, high in points]
    bars = [
        f'<line class="interval" x1="{x:.1f}" x2="{x:.1f}" y1="{vertical(up, low):.1f}" y2="{vertical(up, high):.1f}"/>'
        for x, _, low, high in places
        if high > low
    ]
    dots = [f'<circle class="end" cx="{x:.1f}" cy="{vertical(up, value):.1f}" r="3.5"/>' for x, value, _, _ in places]
    line = _line(across, up, [(x, value) for x, value, _, _ in points])
    return [f'<g class="k{kind}">', *bars, f'<polyline points="{line}"/>', *dots, "</g>"]


def projection(known: Sequence[tuple[float, float]], ahead: Sequence[tuple[float, float]], across: str, up: str) -> str:
    """Return known values as dots and a forecast as a line, with two logarithmic axes."""
    everything = [*known, *ahead]
    beneath = Axis.around(across, [x for x, _ in everything], log=True)
    beside = Axis.around(up, [y for _, y in everything], log=True)
    dots = "".join(
        f'<circle class="end" cx="{horizontal(beneath, x):.1f}" cy="{vertical(beside, y):.1f}" r="4"/>'
        for x, y in known
    )
    said = f"{up} against {across}: " + "; ".join(f"{short(x)}: {short(y)}" for x, y in everything)
    line = f'<polyline class="ahead" points="{_line(beneath, beside, ahead)}"/>' if ahead else ""
    return frame(beneath, beside, [f'<g class="k0">{line}{dots}</g>'], said, classes="curve")


def curves(named: Sequence[tuple[str, Sequence[Point]]], across: Axis, up: Axis) -> str:
    """Return several lines with their intervals; lines of later names are drawn over earlier ones."""
    shapes = [
        shape for kind, (_, points) in enumerate(named) for shape in _with_intervals(points, across, up, kind % KINDS)
    ]
    said = f"{up.name} against {across.name}. " + " ".join(
        f"{name}: " + "; ".join(f"{short(x)}: {short(value)}" for x, value, _, _ in points) + "."
        for name, points in named
    )
    return frame(across, up, shapes, said, classes="curve")


def key(names: Sequence[str]) -> str:
    """Return the legend of `curves`."""
    lines = "".join(
        f'<li><svg viewBox="0 0 26 10" aria-hidden="true"><g class="k{kind % KINDS}"><polyline points="1,5 25,5"/>'
        f'<circle class="end" cx="13" cy="5" r="3.5"/></g></svg><bdi>{text(name)}</bdi></li>'
        for kind, name in enumerate(names)
    )
    return f"<ul class='legend lines'>{lines}</ul>"


def strip(value: float, low: float, high: float, axis: Axis, mark: float | None = None) -> str:
    """Return an interval for a table cell; all cells of a column share the axis, and `mark` is a thin line."""

    def x(of: float) -> float:
        return 2 + 96 * axis.place(of)

    line = (
        ""
        if mark is None or math.isnan(mark)
        else f'<line class="mark" x1="{x(mark):.2f}" x2="{x(mark):.2f}" y1="0" y2="12"/>'
    )
    span = f'<line class="interval" x1="{x(low):.2f}" x2="{x(high):.2f}" y1="6" y2="6"/>'
    dot = "" if math.isnan(value) else f'<line class="dot" x1="{x(value):.2f}" x2="{x(value):.2f}" y1="2.5" y2="9.5"/>'
    return f'<svg viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">{line}{span}{dot}</svg>'


def bar(share: float) -> str:
    """Return a bar for a table cell; `share` is its length relative to the longest."""
    return (
        '<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{100 * share:.2f}" height="8"/></svg>'
    )


def _line(across: Axis, up: Axis, points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{horizontal(across, x):.1f},{vertical(up, y):.1f}" for x, y in points)


def _spread(count: int) -> list[int]:
    if count <= 2:
        return list(range(count))
    return sorted({round(part * (count - 1)) for part in (0, 0.25, 0.5, 0.75, 1)})
