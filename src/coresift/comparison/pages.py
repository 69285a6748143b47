"""A comparison as text, JSON and CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coresift.comparison.summary import Line, Mean, Verdict

if TYPE_CHECKING:
    from coresift.comparison import Comparison

FORMAT = 1


def as_text(comparison: Comparison) -> str:
    """Return the verdicts, a line per budget and method, what the columns mean, and which methods failed."""
    return (
        "\n".join([*answers(comparison), "", table(comparison), "", meaning(comparison), *failures(comparison)]) + "\n"
    )


def as_markdown(comparison: Comparison, picture: Path) -> str:
    """Return the same as a page, with the plot if there is one."""
    heads, cells = columns(comparison)
    rule = ["---:" if place != 1 else "---" for place in range(len(heads))]
    safe = [[cell.replace("|", "\\|") for cell in row] for row in (heads, *cells)]
    lines = [f"| {' | '.join(row)} |" for row in (safe[0], rule, *safe[1:])]
    plot = ["", f"![{heads[2]} against budget]({picture.name})"] if picture.exists() else []
    remarks = [f"- {sentence}" for sentence in (*answers(comparison), *failures(comparison))]
    return "\n".join(["# Comparison", "", *remarks, "", *lines, "", meaning(comparison), *plot]) + "\n"


def answers(comparison: Comparison) -> list[str]:
    """Return a sentence per budget: which method is best, and whether that is beyond chance."""
    if not comparison.verdicts:
        return [f"There are no two methods with {'a score' if comparison.scored else 'weights'} to compare."]
    return [_answer(comparison, verdict) for verdict in comparison.verdicts]


def _answer(comparison: Comparison, verdict: Verdict) -> str:
    best = next(line for line in comparison.lines if (line.budget, line.method) == (verdict.budget, verdict.best))
    what = "best score" if comparison.scored else "smallest error"
    text = f"At {verdict.budget:,}: {best.method} has the {what}, {shown(best.measure, comparison)}"
    if best.difference is not None:
        size = Mean(abs(best.difference.value), best.difference.error)
        side = "above" if best.difference.value > 0 else "below"
        judged = "beyond chance" if best.beyond else "within chance"
        text += f", {shown(size, comparison)} {side} {comparison.reference}: {judged}"
    others = sum(line.budget == verdict.budget and line.measure is not None for line in comparison.lines) - 1
    if len(verdict.tied) == others:
        which = "any other" if others > 1 else "the other"
        return f"{text}. {len(comparison.seeds)} seeds cannot distinguish {which} from it."
    return text + (f". Not distinguishable from it: {'; '.join(verdict.tied)}." if verdict.tied else ".")


def meaning(comparison: Comparison) -> str:
    """Return what the columns mean."""
    judged = (
        "the result of training" if comparison.scored else "absolute error of the estimated total loss, relative to it"
    )
    return (
        f"{'Score' if comparison.scored else 'Error'}: {judged}; mean ± standard error over {len(comparison.seeds)} "
        f"seeds. Against {comparison.reference}: the same for paired differences; * means beyond chance, with at most "
        "5% false alarms per budget. Calls: losses asked to choose the rows, and losses of the rows. Seconds: one "
        f"whole selection, on {comparison.threads} thread{'s' if comparison.threads > 1 else ''}. Memory: the peak of "
        "the process."
    )


def failures(comparison: Comparison) -> list[str]:
    """Return a sentence per method that failed, with the reason."""
    at: dict[tuple[str, str], list[str]] = {}
    for line in comparison.failures:
        at.setdefault((line.method, str(line.failure)), []).append(f"{line.budget:,}")
    return [f"{method} failed at {', '.join(budgets)}. {why}" for (method, why), budgets in at.items()]


def table(comparison: Comparison) -> str:
    """Return the lines as aligned columns."""
    heads, cells = columns(comparison)
    rows = [heads, *cells]
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    texts = []
    for number, row in enumerate(rows):
        if number > 1 and row[0] != rows[number - 1][0]:
            texts.append("")
        aligned = [
            cell.ljust(width) if place == 1 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        texts.append("  ".join(aligned).rstrip())
    return "\n".join(texts)


def columns(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return the heads and cells of the table."""
    judged = ["score"] if comparison.scored else ["error", "RMSE", "coverage"]
    heads = [
        "budget",
        "method",
        judged[0],
        f"against {comparison.reference}",
        *judged[1:],
        "calls",
        "seconds",
        "memory",
    ]
    return heads, [_cells(comparison, line) for line in comparison.lines]


def _cells(comparison: Comparison, line: Line) -> list[str]:
    start = [f"{line.budget:,}", line.method]
    if line.failure or not line.seeds:
        width = 5 if comparison.scored else 7
        return [*start, "failed" if line.failure else "", *[""] * (width - 1)]
    difference = shown(line.difference, comparison, sign=True) + ("*" if line.beyond else "")
    own = [shown(line.measure, comparison), difference]
    if not comparison.scored:
        own += [shown(line.rmse, comparison), "" if line.coverage is None else f"{line.coverage.value:.0%}"]
    calls = "" if line.calls is None else f"{line.calls.value:,.0f}"
    seconds = "" if line.seconds is None else _seconds(line.seconds)
    memory = "" if line.memory is None else f"{line.memory / 1e6:,.0f} MB"
    return [*start, *own, calls, seconds, memory]


def shown(mean: Mean | None, comparison: Comparison, *, sign: bool = False) -> str:
    """Return a mean and its standard error, as percentages for errors and as numbers for scores."""
    if mean is None:
        return ""
    plus = "+" if sign else ""
    if comparison.scored:
        text, error = f"{mean.value:{plus}.4g}", "" if mean.error is None else f" ± {mean.error:.2g}"
        return text + error
    error = "" if mean.error is None else f" ± {100 * mean.error:.2f}"
    return f"{100 * mean.value:{plus}.2f}{error}%"


def _seconds(mean: Mean) -> str:
    digits = 3 if mean.value < 1 else 1
    return f"{mean.value:.{digits}f}"


def as_json(comparison: Comparison) -> bytes:
    """Return everything as JSON, one line per run."""
    facts = asdict(comparison)
    runs = ",\n  ".join(json.dumps(run, ensure_ascii=False, allow_nan=False) for run in facts.pop("runs"))
    head = json.dumps({"format": FORMAT, **facts}, indent=1, ensure_ascii=False, allow_nan=False)
    return f'{head[:-2]},\n "runs": [\n  {runs}\n ]\n}}\n'.encode()


def as_csv(lines: Sequence[Line]) -> Any:
    """Return the lines as an Arrow table, a mean and its standard error in two columns."""
    import pyarrow as pa

    columns: dict[str, list[Any]] = {}
    for name in (field.name for field in fields(Line)):
        values = [getattr(line, name) for line in lines]
        if name in ("method", "failure", "budget", "seeds", "beyond", "memory"):
            columns[name] = values
        else:
            columns[name] = [None if value is None else value.value for value in values]
            columns[f"{name}_standard_error"] = [None if value is None else value.error for value in values]
    kinds = {"method": pa.string(), "failure": pa.string(), "budget": pa.int64(), "seeds": pa.int64()}
    kinds |= {"beyond": pa.bool_()}
    return pa.table({name: pa.array(column, kinds.get(name, pa.float64())) for name, column in columns.items()})
