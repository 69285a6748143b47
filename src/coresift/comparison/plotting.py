"""A plot of a comparison: the error or score against the budget, with each method named at the end of its line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coresift.checks import CoresiftError
from coresift.comparison.summary import Line
from coresift.errors import install_hint
from coresift.tables.writing import check_target
from coresift.types import Floats

if TYPE_CHECKING:
    from coresift.comparison import Comparison

SUFFIXES = (".svg", ".pdf", ".png")
# Lines can be distinguished without color, too: by marker, dashes and lightness.
COLORS = ("#0b3c8c", "#d1495b", "#2a9d8f", "#8a5a00", "#7b4bb7", "#e08a00", "#3f88c5", "#5b6c5d", "#b23a9c", "#6a994e")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h")
DASHES = ("-", (0, (6, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (2, 2)))
HEIGHT, SPACING = 4.6, 0.043  # of the figure in inches, and between two names as a part of it
KEY = 1.05  # where the names begin, in widths of the panel
SIZE = 4.5  # of a marker, in points


def check_matplotlib() -> None:
    """Refuse to plot if matplotlib is not installed, and say how to install it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise CoresiftError(f"A plot needs matplotlib: {install_hint('plots')}.") from None


def draw(comparison: Comparison, path: Path) -> Path:
    """Write the plot; the same comparison gives the same file."""
    check_target(path, SUFFIXES, "a plot")
    check_matplotlib()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # A separate figure object, so that the user's own pyplot figures are left alone.
    with matplotlib.rc_context({"svg.hashsalt": "coresift", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(7.2, HEIGHT), layout="constrained")
        FigureCanvasAgg(figure)
        panel = figure.add_subplot()
        lines = {name: _points(comparison, name) for name in comparison.methods}
        lines = {name: points for name, points in lines.items() if points}
        for place, (name, points) in enumerate(lines.items()):
            _curve(panel, points, place, len(lines), name == comparison.reference)
        _axes(panel, comparison)
        _names(panel, lines, comparison)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=160)
    return path


def _points(comparison: Comparison, method: str) -> list[Line]:
    return [line for line in comparison.lines if line.method == method and line.measure is not None]


def _style(place: int, reference: bool) -> dict[str, Any]:
    if reference:
        return {"color": "black", "marker": "o", "markerfacecolor": "white", "linestyle": (0, (4, 3)), "linewidth": 1.6}
    return {
        "color": COLORS[place % len(COLORS)],
        "marker": MARKERS[place % len(MARKERS)],
        "linestyle": DASHES[place % len(DASHES)],
        "linewidth": 1.4,
    }


def _curve(panel: Any, points: list[Line], place: int, count: int, reference: bool) -> None:
    values, errors = _values(points)
    panel.errorbar(
        [line.budget * _apart(place, count) for line in points],
        values,
        yerr=errors,
        markersize=SIZE,
        capsize=2,
        elinewidth=0.9,
        zorder=3 if reference else 2,
        **_style(place, reference),
    )


def _apart(place: int, count: int) -> float:
    """Return a factor that moves a method's points a little to the side, so that error bars do not overlap."""
    return float(1.013 ** (place - (count - 1) / 2))


def _values(points: list[Line]) -> tuple[Floats, Floats]:
    values = np.array([line.measure.value for line in points if line.measure])
    errors = np.array([(line.measure.error or 0.0) for line in points if line.measure])
    return values, errors


def _axes(panel: Any, comparison: Comparison) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

    panel.set_xscale("log")
    panel.set_xticks(comparison.budgets, [f"{budget:,}" for budget in comparison.budgets])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xlabel("budget: rows selected" if comparison.scored else "budget: losses for the estimate")
    panel.grid(axis="y", color="0.88", linewidth=0.6)
    panel.set_axisbelow(True)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    if comparison.scored:
        panel.set_ylabel(f"score, mean ± standard error over {len(comparison.seeds)} seeds")
        return
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(_round_numbers())
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.3g} %"))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_ylabel("absolute error of the estimated total loss")
    panel.set_title(
        f"{comparison.rows:,} rows, {len(comparison.seeds)} seeds, mean ± standard error",
        loc="left",
        fontsize=9,
        color="0.3",
    )


def _round_numbers() -> Any:
    from matplotlib.ticker import LogLocator

    return LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0))


def _names(panel: Any, lines: dict[str, list[Line]], comparison: Comparison) -> None:
    """Write each name to the right of its last point, moved up or down if names would overlap."""
    places = {name: place for place, name in enumerate(lines)}
    ends = [(name, points[-1].budget, float(_values(points)[0][-1])) for name, points in lines.items()]
    scale = panel.transLimits.transform
    heights = [scale(panel.transScale.transform((budget, value)))[1] for _, budget, value in ends]
    for (name, budget, value), height in zip(ends, spread_out(np.array(heights), SPACING), strict=True):
        style = _style(places[name], name == comparison.reference)
        panel.annotate(
            "",
            xy=(budget * _apart(places[name], len(lines)), value),
            xytext=(KEY, height),
            textcoords="axes fraction",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": style["color"], "linewidth": 0.5, "shrinkA": 4, "shrinkB": 5},
        )
        # The marker is repeated, so that a name can be matched without its line or color.
        panel.plot([KEY], [height], transform=panel.transAxes, clip_on=False, markersize=SIZE, **style)
        panel.text(KEY + 0.02, height, name, transform=panel.transAxes, va="center", color="0.1", fontsize=8.5)


def spread_out(heights: Floats, spacing: float) -> Floats:
    """Return heights in the same order, at least `spacing` apart, and moved as little as possible (least squares).

    >>> spread_out(np.array([0.5, 0.5, 0.9]), 0.1).round(2).tolist()
    [0.45, 0.55, 0.9]
    """
    order = np.argsort(heights, kind="stable")
    steps = spacing * np.arange(heights.size)
    blocks: list[tuple[float, int]] = []  # the mean and the size of heights that have been pushed together
    for target in heights[order] - steps:
        mean, size = float(target), 1
        while blocks and blocks[-1][0] > mean:
            other, count = blocks.pop()
            mean, size = (mean * size + other * count) / (size + count), size + count
        blocks.append((mean, size))
    moved = np.repeat([mean for mean, _ in blocks], [size for _, size in blocks]) + steps
    result = np.empty_like(heights, dtype=np.float64)
    result[order] = moved
    return result
