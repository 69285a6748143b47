"""Small drawings as SVG: the style sheet colors them, so that they follow the theme and print well."""

from __future__ import annotations

import math
from collections.abc import Sequence

from coresift.reporting.facts import Histogram, LossByDistance

WIDTH, HEIGHT = 420, 190
LEFT, RIGHT, TOP, BOTTOM = 44, 22, 10, 28
# The picture of dots is larger, and still readable at a phone's width.
DOTS_WIDTH, DOTS_HEIGHT = 560, 290


def bars(found: Histogram, name: str) -> str:
    """Return a histogram; edges may grow by equal factors, and are then drawn at equal steps."""
    if not found.counts:
        return ""
    edges, counts = found.edges, found.counts
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    most = max(counts)
    step = across / len(counts)
    shapes = [
        f'<rect x="{LEFT + place * step + 0.5:.1f}" y="{TOP + down * (1 - count / most):.1f}" '
        f'width="{max(step - 1, 0.5):.1f}" height="{down * count / most:.1f}"/>'
        for place, count in enumerate(counts)
        if count
    ]
    marks = [(LEFT + place * step, edges[place]) for place in _spread(len(edges))]
    said = f"{name}: from {_short(edges[0])} to {_short(edges[-1])}, at most {most:,} in one bar"
    lines = [*_across(marks), *_grid([(TOP + down * (1 - value / most), value) for value in _steps(most)])]
    return _drawing(said, [*lines, '<g class="bars">', *shapes, "</g>"])


def scatter(found: LossByDistance) -> str:
    """Return loss against distance: a dot a row, and a line for the mean."""
    across, down = DOTS_WIDTH - LEFT - RIGHT, DOTS_HEIGHT - TOP - BOTTOM
    farthest = max(*found.distance, 1e-300)
    top = _ceiling(found.loss, found.means)

    def place(distance: float, loss: float) -> tuple[float, float]:
        return LEFT + across * distance / farthest, TOP + down * (1 - min(loss / top, 1))

    points = [place(*pair) for pair in zip(found.distance, found.loss, strict=True)]
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2"/>' for x, y in points]
    line = " ".join(
        f"{x:.1f},{y:.1f}" for x, y in (place(*pair) for pair in zip(found.middles, found.means, strict=True))
    )
    marks = [(LEFT + across * value / farthest, value) for value in _steps(farthest)]
    grid = _grid([(TOP + down * (1 - value / top), value) for value in _steps(top)], DOTS_WIDTH)
    beyond = sum(loss > top for loss in found.loss)
    note = f" {beyond} of {len(found.loss)} dots lie above the frame and are drawn at its top." if beyond else ""
    said = f"Loss from 0 to {_short(top)} against distance from 0 to {_short(farthest)}.{note}"
    shapes = [*grid, '<g class="dots">', *dots, "</g>", f'<polyline class="mean" points="{line}"/>']
    return _drawing(said, [*shapes, *_across(marks, DOTS_HEIGHT)], DOTS_WIDTH, DOTS_HEIGHT)


def _ceiling(losses: Sequence[float], means: Sequence[float]) -> float:
    """Return a top that all but a hundredth of the losses are below: one large loss would press the others flat."""
    ordered = sorted(losses)
    return max(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], *means, 1e-300) * 1.05


def _drawing(said: str, shapes: Sequence[str], width: float = WIDTH, height: float = HEIGHT) -> str:
    label = said.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{label}">{"".join(shapes)}</svg>'


def _across(marks: Sequence[tuple[float, float]], height: float = HEIGHT) -> list[str]:
    base = height - BOTTOM + 16
    return [f'<text x="{x:.1f}" y="{base:.1f}" text-anchor="middle">{_short(value)}</text>' for x, value in marks]


def _grid(marks: Sequence[tuple[float, float]], width: float = WIDTH) -> list[str]:
    return [
        f'<line x1="{LEFT}" x2="{width - RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(value)}</text>'
        for y, value in marks
    ]


def _steps(top: float) -> list[float]:
    """Return 0 and a few round numbers up to the top."""
    about = top / 3
    unit = 10.0 ** math.floor(math.log10(about)) if about > 0 else 1.0
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= about * 0.999)
    return [turn * step for turn in range(int(top / step) + 1)]


def _spread(count: int) -> list[int]:
    if count <= 2:
        return list(range(count))
    return sorted({round(part * (count - 1)) for part in (0, 0.25, 0.5, 0.75, 1)})


def _short(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 10_000 or abs(value) < 0.001:
        return f"{value:.2g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def curve(points: Sequence[tuple[float, float, float, float]], name: str, top: float | None = None) -> str:
    """Return values with their intervals: (across, value, low, high) each, joined by a line.

    Args:
        points: At least one.
        name: What the values are.
        top: The largest value that the frame holds, by default that of the intervals.
    """
    across, down = DOTS_WIDTH - LEFT - RIGHT, DOTS_HEIGHT - TOP - BOTTOM
    farthest = max(*(point[0] for point in points), 1e-300)
    ceiling = top or max(*(point[3] for point in points), 1e-300) * 1.05

    def height(value: float) -> float:
        return TOP + down * (1 - min(max(value / ceiling, 0), 1))

    places = [(LEFT + across * x / farthest, value, low, high) for x, value, low, high in points]
    bars = [
        f'<line class="interval" x1="{x:.1f}" x2="{x:.1f}" y1="{height(low):.1f}" y2="{height(high):.1f}"/>'
        for x, _, low, high in places
    ]
    dots = [f'<circle cx="{x:.1f}" cy="{height(value):.1f}" r="4"/>' for x, value, _, _ in places]
    line = " ".join(f"{x:.1f},{height(value):.1f}" for x, value, _, _ in places)
    grid = _grid([(height(value), value) for value in _steps(ceiling)], DOTS_WIDTH)
    marks = _across([(LEFT + across * value / farthest, value) for value in _steps(farthest)], DOTS_HEIGHT)
    said = f"{name} after so many labels: " + "; ".join(
        f"{_short(x)}: {_short(value)}, from {_short(low)} to {_short(high)}" for x, value, low, high in points
    )
    shapes = [*grid, *bars, f'<polyline class="mean" points="{line}"/>', '<g class="ends">', *dots, "</g>", *marks]
    return _drawing(said, shapes, DOTS_WIDTH, DOTS_HEIGHT)
