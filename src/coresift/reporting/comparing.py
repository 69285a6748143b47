"""A page about a comparison of methods: which one is best at each budget, and whether that is beyond chance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from coresift.comparison import Comparison, Line, Mean
from coresift.comparison.pages import answers, columns, failures, shown
from coresift.notebook import counted
from coresift.reporting.axes import Axis
from coresift.reporting.calls import as_call
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


def report_comparison(comparison: Comparison, path: Path, *, title: str | None) -> Path:
    """Write the page, and return its path."""
    write_bytes(comparison_page(comparison, title).encode(), path)
    return path


def comparison_page(comparison: Comparison, title: str | None = None) -> str:
    """Return the page: one HTML document that loads nothing."""
    title = title or f"{counted(len(comparison.methods), 'method')} on {comparison.rows:,} rows"
    return simple_page(title, list(_sections(comparison, title)))


def _sections(comparison: Comparison, title: str) -> Iterator[str]:
    yield _head(comparison, title)
    yield "<main id='main'>"
    yield _curves(comparison)
    yield _differences(comparison)
    heads, cells = columns(comparison)
    by_method = [[f"{line[1]}, {line[0]}", *line[2:]] for line in cells]
    yield section("numbers", "All numbers", table(["Method, budget", *heads[2:]], by_method))
    yield section("sure", "How sure is this?", listing(_how_sure(comparison)))
    yield steps(_next(comparison))
    settings = [
        ("methods", ", ".join(comparison.methods)),
        ("budgets", ", ".join(f"{budget:,}" for budget in comparison.budgets)),
    ]
    settings += [("seeds", f"{len(comparison.seeds)}"), ("rows", f"{comparison.rows:,} × {comparison.dimension}")]
    yield section(
        "making", "How it was made", table(["Setting", "Value"], [list(pair) for pair in settings], numbers_from=9)
    )
    yield "</main>"
    yield end()


def _head(comparison: Comparison, title: str) -> str:
    lead = (
        f"{counted(len(comparison.methods), 'method')} chose from the same {comparison.rows:,} rows, with the same "
        f"{counted(len(comparison.seeds), 'seed')} and budgets. They are judged by "
        + (
            "the score of training on the chosen rows."
            if comparison.scored
            else "the error of the estimated total loss."
        )
    )
    remarks = "".join(paragraph(sentence, "verdict") for sentence in answers(comparison))
    remarks += "".join(paragraph(sentence, "warning") for sentence in failures(comparison))
    links = [
        ("curves", "Error against budget" if not comparison.scored else "Score against budget"),
        ("differences", f"Against {comparison.reference}"[:60]),
        ("numbers", "All numbers"),
        ("sure", "How sure is this?"),
        ("next", "What to do next"),
        ("making", "How it was made"),
    ]
    return head(title, lead, _figures(comparison), [(name, text(label)) for name, label in links], remarks)


def _figures(comparison: Comparison) -> list[KeyFigure]:
    figures = []
    for verdict in comparison.verdicts[:4]:
        best = next(line for line in comparison.lines if (line.budget, line.method) == (verdict.budget, verdict.best))
        others = f"; tied with {len(verdict.tied)} other{'s' if len(verdict.tied) > 1 else ''}" if verdict.tied else ""
        figures.append((f"Best at {verdict.budget:,}", verdict.best, _mean(comparison, best.measure) + others))
    return figures


def _curves(comparison: Comparison) -> str:
    named = []
    for method in comparison.methods:
        lines = [line for line in comparison.lines if line.method == method and line.measure is not None]
        if lines:
            named.append((method, [_point(line) for line in lines]))
    if not named:
        return ""
    values = [value for _, points in named for point in points for value in point[1:]]
    name = "budget" if comparison.scored else "budget: losses asked"
    across = Axis.around(name, comparison.budgets, log=True, at=comparison.budgets)
    if comparison.scored:
        up = Axis.around("score", values)
    else:
        up = Axis.around("error of the total", values, percent=True, log=min(values) > 0)
    name = "Score" if comparison.scored else "Mean absolute error of the estimated total loss, relative to the total"
    caption = f"{name}, ± one standard error over {len(comparison.seeds)} seeds."
    picture = figure(curves(named, across, up), caption)
    heading = "Score against budget" if comparison.scored else "Error against budget"
    return section("curves", heading, picture + key([method for method, _ in named]))


def _point(line: Line) -> tuple[float, float, float, float]:
    assert line.measure is not None
    error = line.measure.error or 0.0
    return float(line.budget), line.measure.value, line.measure.value - error, line.measure.value + error


def _differences(comparison: Comparison) -> str:
    compared = [line for line in comparison.lines if line.difference is not None and line.difference.error is not None]
    if not compared:
        return ""
    lines, words = [], []
    for line in compared:
        assert line.difference is not None
        value, half = line.difference.value, 2 * (line.difference.error or 0.0)
        lines.append(
            (f"{line.method}, {line.budget:,}", value, value - half, value + half, [_judged(comparison, line)])
        )
        words.append(_mean(comparison, line.difference, sign=True))
    ends = [end for _, _, low, high, _ in lines for end in (low, high)]
    axis = Axis.around("difference", [*ends, 0.0], percent=not comparison.scored)
    note = (
        f"<p>Differences with the same seeds. Bars show two standard errors on either side; the dashed line is "
        f"{text(comparison.reference)}. {'Higher' if comparison.higher else 'Lower'} is better.</p>"
    )
    heads = ["Method, budget", "Difference ± standard error", "Verdict"]
    content = note + interval_table(heads, lines, axis, 0.0, words)
    return section("differences", f"Against {text(comparison.reference)}", content)


def _judged(comparison: Comparison, line: Line) -> str:
    if not line.beyond or line.difference is None:
        return "within chance"
    return "better" if (line.difference.value > 0) == comparison.higher else "worse"


def _mean(comparison: Comparison, mean: Mean | None, *, sign: bool = False) -> str:
    if mean is None:
        return ""
    return shown(mean, comparison, sign=sign).replace("-", "−")


def _how_sure(comparison: Comparison) -> list[str]:
    return [
        f"A difference counts as beyond chance by Student's t over {len(comparison.seeds)} paired seeds, corrected "
        "for the number of methods. At most one budget in twenty gets a verdict by chance.",
        "If a difference is within chance, the methods may still differ. More seeds can detect smaller differences.",
        "The comparison is about these rows and this loss. On another data set, the order may be different.",
    ]


def _next(comparison: Comparison) -> list[tuple[str, str]]:
    more = (
        "Add seeds, budgets or methods; the folder keeps the finished runs",
        f'cs.compare_methods(rows, losses, methods, budgets, seeds={4 * len(comparison.seeds)}, out="comparison")',
    )
    return [more, *_use_best(comparison)]


def _use_best(comparison: Comparison) -> list[tuple[str, str]]:
    """Return how to select by the method that is best at the largest budget."""
    if not comparison.verdicts:
        return []
    best, budget = comparison.verdicts[-1].best, comparison.verdicts[-1].budget
    call = as_call(next(run.text for run in comparison.runs if run.method == best), budget)
    return [] if call is None else [(f"Use {best}, the best method at {budget:,}", call)]
