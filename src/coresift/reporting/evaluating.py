"""A page about an evaluation: the number after each stage, width against answers, models and groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from coresift.evaluation import Evaluation, EvaluationRun, Figure
from coresift.reporting.page import document, read_file
from coresift.reporting.pictures import curve
from coresift.reporting.sections import text
from coresift.tables.writing import write_bytes


@dataclass(frozen=True)
class EvaluationFacts:
    """All that the page says.

    Attributes:
        title: The heading.
        finished: Whether the run has its result.
        pending: How many answers are waited for.
        stages: What the answers said after each stage; the last one is the result.
        widths: Numbers of answers, and the half-width that each gives; empty if that is not known.
    """

    title: str
    finished: bool
    pending: int
    stages: tuple[Evaluation, ...]
    widths: tuple[tuple[int, float], ...]


def report_evaluation(run: EvaluationRun, path: Path, *, title: str | None) -> Path:
    """Write the page, and return its path."""
    write_bytes(evaluation_page(evaluation_facts(run, title)).encode(), path)
    return path


def evaluation_facts(run: EvaluationRun, title: str | None) -> EvaluationFacts:
    """Gather what the page says about a run, finished or not."""
    status, stages = run.status(), run.stages()
    name = f"{stages[-1].metric} of {run.n:,} rows" if stages else f"Evaluation of {run.n:,} rows"
    return EvaluationFacts(title or name, status.finished, status.pending, stages, run.widths())


def evaluation_page(facts: EvaluationFacts) -> str:
    """Return the page: one HTML document that loads nothing."""
    style = read_file("page.css") + read_file("learning.css")
    return document(facts.title, style, "\n".join(_sections(facts))) + "\n</body>\n</html>\n"


def _sections(facts: EvaluationFacts) -> Iterator[str]:
    yield _head(facts)
    yield "<main id='main'>"
    if facts.stages:
        last = facts.stages[-1]
        yield _stages(facts)
        yield _widths(facts)
        named = [(name, one) for name, one in last.figures.items() if name]
        if named:
            said = "".join(f"<p>{text(sentence)}</p>" for sentence in last.verdicts)
            yield _section("models", "Models", said + _table("Model", named))
        if last.groups:
            yield _section("groups", "Groups", _table("Group", [(str(name), one) for name, one in last.groups.items()]))
    yield "</main>"


def _head(facts: EvaluationFacts) -> str:
    if not facts.stages:
        lead, shown = f"Nothing is known yet: {facts.pending:,} answers of the first stage are to come.", ""
    else:
        last = facts.stages[-1]
        lead = f"{last.metric} {_shown(last)}, with {100 * last.confidence:g} % confidence."
        if not facts.finished:
            lead += f" This is interim, {facts.pending:,} answers are to come: do not stop because of it."
        figures = [
            ("Answers", f"{last.asked:,}", f"of {last.rows:,} rows that matter"),
            ("Worth", f"{last.effective_sample_size:,.0f}", "uniform rows (effective sample size)"),
        ]
        if last.half_width > 0 and math.isfinite(last.half_width):
            half = last.half_width / 2
            figures.append((f"For ± {half:.2g}", f"{last.answers_for(half):,}", "answers in all, about"))
        if last.missing is not None:
            span = f"value from {last.missing.worst:.4g} to {last.missing.best:.4g}, whatever they are"
            figures.append(("No answer", f"{last.missing.rows:,}", span))
        shown = "".join(
            f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd><dd class='quiet'>{text(more)}</dd></div>"
            for name, value, more in figures
        )
    remarks = "".join(f"<p>{text(remark)}</p>" for remark in (facts.stages[-1].remarks if facts.stages else ()))
    return (
        "<header><div class='top'><p class='brand'>coresift report</p></div>"
        f"<h1>{text(facts.title)}</h1><p class='lead'>{text(lead)}</p>"
        f"<dl class='figures'>{shown}</dl>{remarks}</header>"
    )


def _stages(facts: EvaluationFacts) -> str:
    known = [one for one in facts.stages if math.isfinite(one.low) and math.isfinite(one.high)]
    points = [(float(one.asked), one.value, one.low, one.high) for one in known]
    note = "<p>The estimate after each stage, against the number of answers. Only the last interval is a result.</p>"
    # The frame begins at 0; numbers below it, such as differences, stand in the table alone.
    drawn = bool(points) and min(low for _, _, low, _ in points) >= 0
    drawing = f"<div class='curve'>{curve(points, facts.stages[-1].metric)}</div>" if drawn else ""
    lines = [(f"after {one.asked:,} answers", one) for one in facts.stages]
    return _section("stages", "Stage by stage", note + drawing + _table("Stage", lines))


def _widths(facts: EvaluationFacts) -> str:
    if not facts.widths:
        return ""
    points = [(float(count), half, half, half) for count, half in facts.widths if math.isfinite(half)]
    note = "<p>The half-width that so many answers in all would give, drawn as these were.</p>"
    return _section("widths", "Width against answers", f"{note}<div class='curve'>{curve(points, 'Half-width')}</div>")


def _table(heading: str, lines: Sequence[tuple[str, Figure]]) -> str:
    head = "".join(f"<th scope='col'>{name}</th>" for name in (heading, "Value", "Interval", "Answers", "Worth"))
    body = "".join(
        f"<tr><th scope='row'>{text(name)}</th><td class='number'>{one.value:.4g}</td>"
        f"<td>{one.low:.4g} to {one.high:.4g}</td><td class='number'>{one.asked:,}</td>"
        f"<td class='number'>{one.effective_sample_size:,.0f}</td></tr>"
        for name, one in lines
    )
    return f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _shown(figure: Figure) -> str:
    return f"{figure.value:.4g}, from {figure.low:.4g} to {figure.high:.4g}"


def _section(name: str, title: str, content: str) -> str:
    return f"<section id='{name}' aria-labelledby='{name}-title'><h2 id='{name}-title'>{title}</h2>{content}</section>"
