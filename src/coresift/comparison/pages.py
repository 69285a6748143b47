"""A comparison as text, JSON and CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from coresift.comparison.summary import Line, Mean, Verdict

if TYPE_CHECKING:
    from coresift.comparison import Comparison

FORMAT = 1


def as_text(found: Comparison) -> str:
    """Return the answer first, then a line for each budget and method, then what failed."""
    parts = [answer(found, verdict) for verdict in found.verdicts]
    if not parts:
        parts.append(f"There are no two methods with {'a score' if found.scored else 'weights'} to compare.")
    return "\n".join([*parts, "", table(found), *notes(found)]) + "\n"


def answer(found: Comparison, verdict: Verdict) -> str:
    """Return who is best at a budget, and whether that is beyond chance, in one sentence."""
    best, reference = verdict.best, verdict.reference
    what = "score" if found.scored else "error"
    text = f"At {verdict.budget:,}: {best.method} has the best {what}, {shown(best.measure, found)}"
    if best is reference:
        text = f"At {verdict.budget:,}: no method has a better {what} than {best.method}, {shown(best.measure, found)}"
    elif reference is not None and best.difference is not None:
        side = "above" if best.difference.value > 0 else "below"
        size = Mean(abs(best.difference.value), best.difference.error)
        judged = "beyond chance" if best.beyond else "within chance"
        text += f"; that is {shown(size, found)} {side} {reference.method}, {judged}"
    others = [name for name in verdict.tied if reference is None or name != reference.method or best is reference]
    if others:
        text += f". Not told apart from it: {', '.join(others)}"
    return text + "."


def notes(found: Comparison) -> list[str]:
    """Return what the columns mean, and every failure once."""
    failures: dict[tuple[str, str], list[str]] = {}
    for line in found.lines:
        if line.failure:
            failures.setdefault((line.method, line.failure), []).append(f"{line.budget:,}")
    failed = [f"{method} failed at {', '.join(at)}: {why}" for (method, why), at in failures.items()]
    judged = "score" if found.scored else "mean absolute error of the estimated total loss, relative to the true one"
    return [
        "",
        f"{'Score' if found.scored else 'Error'}: {judged}, mean ± standard error over {len(found.seeds)} seeds. "
        f"Against {found.reference}: mean ± standard error of the differences at the same seeds; * beyond chance "
        "(at most 5 % false alarms a budget). Calls: losses to choose the rows and of the rows themselves. "
        f"Seconds: one whole selection on {found.threads} thread{'s' if found.threads > 1 else ''}. "
        "Memory: the process's peak.",
        *failed,
    ]


def table(found: Comparison) -> str:
    """Return the lines as aligned columns."""
    heads, cells = columns(found)
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


def markdown(found: Comparison) -> str:
    """Return the same table in Markdown."""
    heads, cells = columns(found)
    rule = ["---:" if place != 1 else "---" for place in range(len(heads))]
    return "".join(f"| {' | '.join(row)} |\n" for row in (heads, rule, *cells))


def columns(found: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return the heads and cells of the table."""
    judged = ["score"] if found.scored else ["error", "RMSE", "coverage"]
    heads = ["budget", "method", judged[0], f"against {found.reference}", *judged[1:], "calls", "seconds", "memory"]
    return heads, [_cells(found, line) for line in found.lines]


def _cells(found: Comparison, line: Line) -> list[str]:
    start = [f"{line.budget:,}", line.method]
    if line.failure or not line.seeds:
        width = 5 if found.scored else 7
        return [*start, "failed" if line.failure else "", *[""] * (width - 1)]
    difference = shown(line.difference, found, sign=True) + ("*" if line.beyond else "")
    own = [shown(line.measure, found), difference]
    if not found.scored:
        own += [shown(line.rmse, found), "" if line.coverage is None else f"{line.coverage.value:.0%}"]
    calls = "" if line.calls is None else f"{line.calls.value:,.0f}"
    seconds = "" if line.seconds is None else _seconds(line.seconds)
    memory = "" if line.memory is None else f"{line.memory / 1e6:,.0f} MB"
    return [*start, *own, calls, seconds, memory]


def shown(mean: Mean | None, found: Comparison, *, sign: bool = False) -> str:
    """Return a mean and its standard error as a percentage (errors), or as it is (scores)."""
    if mean is None:
        return ""
    plus = "+" if sign else ""
    if found.scored:
        text, error = f"{mean.value:{plus}.4g}", "" if mean.error is None else f" ± {mean.error:.2g}"
        return text + error
    error = "" if mean.error is None else f" ± {100 * mean.error:.2f}"
    return f"{100 * mean.value:{plus}.2f}{error} %"


def _seconds(mean: Mean) -> str:
    digits = 3 if mean.value < 1 else 1
    return f"{mean.value:.{digits}f}"


def as_json(found: Comparison) -> bytes:
    """Return everything, single runs too."""
    facts = {"format": FORMAT, **asdict(found)}
    return json.dumps(facts, indent=1, allow_nan=False, ensure_ascii=False).encode() + b"\n"


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
