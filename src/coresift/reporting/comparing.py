"""A page about a comparison of methods: which is best, against the budget, and beyond chance or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from coresift.comparison import Comparison, Line, Mean
from coresift.comparison.pages import answers, columns, failures, shown
from coresift.notebook import counted
from coresift.reporting.axes import Axis
from coresift.reporting.document import simple_page
from coresift.reporting.layout import (
    KeyFigure,
    end,
    figure,
    head,
    interval_table,
    listing,
    paragraph,
    section,
    steps,
    table,
)
from coresift.reporting.markup import text
from coresift.reporting.pictures import curves, key
from coresift.tables.writing import write_bytes


def report_comparison(found: Comparison, path: Path, *, title: str | None) -> Path:
    """Write the page, and return its path."""
    write_bytes(comparison_page(found, title).encode(), path)
    return path


def comparison_page(found: Comparison, title: str | None = None) -> str:
    """Return the page: one HTML document that loads nothing."""
    title = title or f"{counted(len(found.methods), 'method')} on {found.rows:,} rows"
    return simple_page(title, list(_sections(found, title)))


def _sections(found: Comparison, title: str) -> Iterator[str]:
    yield _head(found, title)
    yield "<main id='main'>"
    yield _curves(found)
    yield _differences(found)
    heads, cells = columns(found)
    by_method = [[f"{line[1]}, {line[0]}", *line[2:]] for line in cells]
    yield section("numbers", "All numbers", table(["Method, budget", *heads[2:]], by_method))
    yield section("sure", "How sure is this", listing(_how_sure(found)))
    yield steps(_next(found))
    made = [("methods", ", ".join(found.methods)), ("budgets", ", ".join(f"{budget:,}" for budget in found.budgets))]
    made += [("seeds", f"{len(found.seeds)}"), ("rows", f"{found.rows:,} × {found.dimension}")]
    yield section(
        "making", "How it was made", table(["Setting", "Value"], [list(pair) for pair in made], numbers_from=9)
    )
    yield "</main>"
    yield end()


def _head(found: Comparison, title: str) -> str:
    lead = (
        f"{counted(len(found.methods), 'method')} chose rows of the same {found.rows:,}, with the same "
        f"{counted(len(found.seeds), 'seed')} and budgets. They are judged by "
        + ("what training on the chosen rows returned." if found.scored else "the error of the estimated total loss.")
    )
    said = "".join(paragraph(sentence, "verdict") for sentence in answers(found))
    said += "".join(paragraph(sentence, "warning") for sentence in failures(found))
    links = [
        ("curves", "Error against budget" if not found.scored else "Score against budget"),
        ("differences", f"Against {found.reference}"[:60]),
        ("numbers", "All numbers"),
        ("sure", "How sure is this"),
        ("next", "What to do next"),
        ("making", "How it was made"),
    ]
    return head(title, lead, _figures(found), [(name, text(label)) for name, label in links], said)


def _figures(found: Comparison) -> list[KeyFigure]:
    figures = []
    for verdict in found.verdicts[:4]:
        best = next(line for line in found.lines if (line.budget, line.method) == (verdict.budget, verdict.best))
        others = (
            f"; not told from {len(verdict.tied)} other{'s' if len(verdict.tied) > 1 else ''}" if verdict.tied else ""
        )
        figures.append((f"Best at {verdict.budget:,}", verdict.best, _mean(found, best.measure) + others))
    return figures


def _curves(found: Comparison) -> str:
    named = []
    for method in found.methods:
        lines = [line for line in found.lines if line.method == method and line.measure is not None]
        if lines:
            named.append((method, [_point(line) for line in lines]))
    if not named:
        return ""
    values = [value for _, points in named for point in points for value in point[1:]]
    name = "budget" if found.scored else "budget: losses asked"
    across = Axis.around(name, found.budgets, log=True, at=found.budgets)
    if found.scored:
        up = Axis.around("score", values)
    else:
        up = Axis.around("error of the total", values, percent=True, log=min(values) > 0)
    name = "Score" if found.scored else "Mean absolute error of the estimated total loss, as a part of it"
    caption = f"{name}, ± one standard error over {len(found.seeds)} seeds."
    picture = figure(curves(named, across, up), caption)
    heading = "Score against budget" if found.scored else "Error against budget"
    return section("curves", heading, picture + key([method for method, _ in named]))


def _point(line: Line) -> tuple[float, float, float, float]:
    assert line.measure is not None
    error = line.measure.error or 0.0
    return float(line.budget), line.measure.value, line.measure.value - error, line.measure.value + error


def _differences(found: Comparison) -> str:
    there = [line for line in found.lines if line.difference is not None and line.difference.error is not None]
    if not there:
        return ""
    lines, words = [], []
    for line in there:
        assert line.difference is not None
        value, half = line.difference.value, 2 * (line.difference.error or 0.0)
        lines.append((f"{line.method}, {line.budget:,}", value, value - half, value + half, [_judged(found, line)]))
        words.append(_mean(found, line.difference, sign=True))
    ends = [end for _, _, low, high, _ in lines for end in (low, high)]
    axis = Axis.around("difference", [*ends, 0.0], percent=not found.scored)
    note = (
        f"<p>Differences at equal seeds. Bars are two standard errors to either side; the dashed line is "
        f"{text(found.reference)}. {'Higher' if found.higher else 'Lower'} is better.</p>"
    )
    heads = ["Method, budget", "Difference ± standard error", "Verdict"]
    content = note + interval_table(heads, lines, axis, 0.0, words)
    return section("differences", f"Against {text(found.reference)}", content)


def _judged(found: Comparison, line: Line) -> str:
    if not line.beyond or line.difference is None:
        return "within chance"
    return "better" if (line.difference.value > 0) == found.higher else "worse"


def _mean(found: Comparison, mean: Mean | None, *, sign: bool = False) -> str:
    if mean is None:
        return ""
    return shown(mean, found, sign=sign).replace("-", "−")


def _how_sure(found: Comparison) -> list[str]:
    return [
        f"A difference counts as beyond chance by Student's t over {len(found.seeds)} paired seeds, corrected for the "
        "number of methods. At most one budget in twenty has a verdict by luck.",
        "Methods that are not told apart are not shown to be equal. More seeds can tell smaller differences.",
        "The comparison is about these rows and this loss. Another data set may have another order.",
    ]


def _next(found: Comparison) -> list[tuple[str, str]]:
    return [
        (
            "Add seeds, budgets or methods: the same folder keeps what was run",
            f'cs.compare_methods(rows, losses, methods, budgets, seeds={4 * len(found.seeds)}, out="comparison")',
        ),
        ("Use the best one", "selection = cs.select(rows, losses=losses, budget=budget)"),
    ]
