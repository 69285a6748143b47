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


def as_text(found: Comparison) -> str:
    """Return the answer first, then a line for each budget and method, then what the columns mean and what failed."""
    return "\n".join([*answers(found), "", table(found), "", meaning(found), *failures(found)]) + "\n"


def as_markdown(found: Comparison, picture: Path) -> str:
    """Return the same as a page, with the plot if there is one."""
    heads, cells = columns(found)
    rule = ["---:" if place != 1 else "---" for place in range(len(heads))]
    safe = [[cell.replace("|", "\\|") for cell in row] for row in (heads, *cells)]
    lines = [f"| {' | '.join(row)} |" for row in (safe[0], rule, *safe[1:])]
    plot = ["", f"![{heads[2]} against budget]({picture.name})"] if picture.exists() else []
    said = [f"- {sentence}" for sentence in (*answers(found), *failures(found))]
    return "\n".join(["# Comparison", "", *said, "", *lines, "", meaning(found), *plot]) + "\n"


def answers(found: Comparison) -> list[str]:
    """Return which method is best at each budget, and whether that is beyond chance, a sentence each."""
    if not found.verdicts:
        return [f"There are no two methods with {'a score' if found.scored else 'weights'} to compare."]
    return [_answer(found, verdict) for verdict in found.verdicts]


def _answer(found: Comparison, verdict: Verdict) -> str:
    best = next(line for line in found.lines if (line.budget, line.method) == (verdict.budget, verdict.best))
    what = "best score" if found.scored else "smallest error"
    text = f"At {verdict.budget:,}: {best.method} has the {what}, {shown(best.measure, found)}"
    if best.difference is not None:
        size = Mean(abs(best.difference.value), best.difference.error)
        side = "above" if best.difference.value > 0 else "below"
        judged = "beyond chance" if best.beyond else "within chance"
        text += f", {shown(size, found)} {side} {found.reference}: {judged}"
    others = sum(line.budget == verdict.budget and line.measure is not None for line in found.lines) - 1
    if len(verdict.tied) == others:
        return f"{text}. {len(found.seeds)} seeds do not tell {'any other' if others > 1 else 'the other'} from it."
    return text + (f". Not told from it: {'; '.join(verdict.tied)}." if verdict.tied else ".")


def meaning(found: Comparison) -> str:
    """Return what the columns mean."""
    judged = "what training returned" if found.scored else "absolute error of the estimated total loss, as a part of it"
    return (
        f"{'Score' if found.scored else 'Error'}: {judged}; mean ± standard error over {len(found.seeds)} seeds. "
        f"Against {found.reference}: the same for differences at equal seeds; * beyond chance, at most 5% false "
        "alarms at a budget. Calls: losses to choose the rows, and of the rows. Seconds: one whole selection, on "
        f"{found.threads} thread{'s' if found.threads > 1 else ''}. Memory: the process's peak."
    )


def failures(found: Comparison) -> list[str]:
    """Return a sentence for each method that failed, and why."""
    at: dict[tuple[str, str], list[str]] = {}
    for line in found.failures:
        at.setdefault((line.method, str(line.failure)), []).append(f"{line.budget:,}")
    return [f"{method} failed at {', '.join(budgets)}. {why}" for (method, why), budgets in at.items()]


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
    return f"{100 * mean.value:{plus}.2f}{error}%"


def _seconds(mean: Mean) -> str:
    digits = 3 if mean.value < 1 else 1
    return f"{mean.value:.{digits}f}"


def as_json(found: Comparison) -> bytes:
    """Return everything, each single run in a line."""
    facts = asdict(found)
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
