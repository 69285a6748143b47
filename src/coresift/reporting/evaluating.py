"""A page about an evaluation: the number after each stage, width against answers, models and groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from coresift.evaluation import Evaluation, EvaluationRun, Figure
from coresift.notebook import counted
from coresift.reporting.axes import Axis
from coresift.reporting.document import simple_page
from coresift.reporting.layout import end, figure, head, interval_table, listing, paragraph, section, steps
from coresift.reporting.pictures import curve, projection
from coresift.tables.writing import write_bytes

# Metrics that are shares of rows, told in percent.
SHARES = ("accuracy", "precision", "recall", "rate")
TELL = "coresift tell run.state ask.csv"


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
    name = f"{_capital(stages[-1].metric)} over {run.n:,} rows" if stages else f"Evaluation of {run.n:,} rows"
    return EvaluationFacts(title or name, status.finished, status.pending, stages, run.widths())


def evaluation_page(facts: EvaluationFacts) -> str:
    """Return the page: one HTML document that loads nothing."""
    return simple_page(facts.title, list(_sections(facts)))


def _sections(facts: EvaluationFacts) -> Iterator[str]:
    yield _head(facts)
    yield "<main id='main'>"
    if facts.stages:
        last = facts.stages[-1]
        yield _widths(facts)
        yield _groups(last)
        yield _models(last)
        yield _stages(facts)
        yield section("sure", "How sure is this", listing(_how_sure(facts)))
    yield steps(_next(facts))
    yield "</main>"
    yield end()


def _head(facts: EvaluationFacts) -> str:
    if not facts.stages:
        lead = f"Nothing is known yet: {facts.pending:,} answers of the first stage are to come."
        return head(facts.title, lead, [], [("next", "What to do next")])
    last = facts.stages[-1]
    sure = f"{100 * last.confidence:g}%"
    name = _capital(last.metric)
    lead = (
        f"{name} over all {last.n:,} rows is about {_level(last.value, last)}, with {sure} confidence between "
        f"{_level(last.low, last)} and {_level(last.high, last)}. It took {last.asked:,} answers."
    )
    if not facts.finished:
        lead += f" This is interim, {facts.pending:,} answers are to come: do not stop because of it."
    figures = [
        (name, _level(last.value, last), f"{_level(last.low, last)} to {_level(last.high, last)}"),
        ("Answers", f"{last.asked:,}", f"of {last.rows:,} rows that matter"),
        ("Effective sample size", f"{last.effective_sample_size:,.0f}", "uniform rows tell as much"),
    ]
    if last.half_width > 0 and math.isfinite(last.half_width):
        half = _half(last)
        figures.append((f"For ± {_level(half, last)}", f"{last.answers_for(half):,}", "answers in all, about"))
    if last.missing is not None:
        span = f"value from {_level(last.missing.worst, last)} to {_level(last.missing.best, last)}, whatever they are"
        figures.append(("No answer", f"{last.missing.rows:,}", span))
    there = [
        ("widths", "Width against answers", bool(_width_points(facts)[0])),
        ("groups", "Groups", bool(last.groups)),
        ("models", "Models", any(last.figures)),
        ("stages", "Stage by stage", True),
        ("sure", "How sure is this", True),
        ("next", "What to do next", True),
    ]
    remarks = "".join(paragraph(remark, "warning") for remark in last.remarks)
    verdicts = "".join(paragraph(sentence, "verdict") for sentence in last.verdicts)
    return head(
        facts.title, lead, figures, [(name, label) for name, label, shown in there if shown], verdicts + remarks
    )


def _width_points(facts: EvaluationFacts) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return the half-width after each stage, and what more answers would give."""
    known = [(float(one.asked), one.half_width) for one in facts.stages]
    ahead = [(float(count), half) for count, half in facts.widths]
    keep = [[(x, half) for x, half in points if half > 0 and math.isfinite(half)] for points in (known, ahead)]
    return keep[0], keep[1]


def _widths(facts: EvaluationFacts) -> str:
    known, ahead = _width_points(facts)
    if not known:
        return ""
    caption = "Dots: half the width of the interval after each stage. "
    caption += "Dashed: what more answers would give, drawn as these were." if ahead else ""
    picture = projection(known, ahead, "answers", "half-width of the interval (±)")
    return section("widths", "Width against answers", figure(picture, caption))


def _stages(facts: EvaluationFacts) -> str:
    known = [one for one in facts.stages if math.isfinite(one.low) and math.isfinite(one.high)]
    points = [(float(one.asked), one.value, one.low, one.high) for one in known]
    last = facts.stages[-1]
    picture = curve(points, "answers", last.metric, percent=_is_share(last)) if points else ""
    caption = "The estimate after each stage, with its interval. Only the last one is a result."
    lines = [(f"After {one.asked:,} answers", one) for one in facts.stages]
    content = (figure(picture, caption) if picture else "") + _table("Stage", lines, facts.stages[-1])
    return section("stages", "Stage by stage", content)


def _groups(last: Evaluation) -> str:
    if not last.groups:
        return ""
    note = (
        "<p>The dashed line is the value of all rows. Each interval holds alone; with many groups, some will miss by "
        "chance.</p>"
    )
    lines = [(str(name), one) for name, one in last.groups.items()]
    return section("groups", "Groups", note + _table("Group", lines, last, last.value))


def _models(last: Evaluation) -> str:
    named = [(name, one) for name, one in last.figures.items() if name]
    differences = [(name, one) for name, one in named if " − " in name]
    single = [(name, one) for name, one in named if " − " not in name]
    content = _table("Model", single, last) if single else ""
    if differences:
        content += "<p>Differences: if the interval holds 0, the dashed line, these answers show no difference.</p>"
        content += _table("Difference", differences, last, 0.0)
    return section("models", "Models", content)


def _table(heading: str, lines: Sequence[tuple[str, Figure]], last: Evaluation, mark: float | None = None) -> str:
    ends = [end for _, one in lines for end in (one.low, one.high) if math.isfinite(end)]
    axis = Axis.around(heading, ends if mark is None else [*ends, mark], percent=_is_share(last))
    shown = [f"{_level(one.value, last)} ({_level(one.low, last)} to {_level(one.high, last)})" for _, one in lines]
    cells = [
        (name, one.value, one.low, one.high, [f"{one.asked:,}", f"{one.effective_sample_size:,.0f}"])
        for name, one in lines
    ]
    heads = [heading, "Value and interval", "Answers", "Effective sample size"]
    return interval_table(heads, cells, axis, mark, shown)


def _how_sure(facts: EvaluationFacts) -> list[str]:
    last = facts.stages[-1]
    sentences = [
        f"Over many such evaluations, about {100 * last.confidence:g}% of the intervals hold the true value. "
        "benchmarks/results/evaluation_coverage.md in the repository has how often they did.",
        f"The effective sample size says how many rows, drawn at random with replacement, would tell as much as these "
        f"{last.asked:,} answers: {last.effective_sample_size:,.0f}. It is larger than the number of answers if "
        "signals predict them well, and smaller if the draw was steered wrongly.",
        'The number is about these rows. For a claim about rows that you did not see, use target="rows like these".',
    ]
    if not facts.finished:
        sentences.append(
            "Intervals before the last stage are interim. If you stop when one looks good, it is wrong more often than "
            "it says; anytime=True gives intervals that allow it."
        )
    return sentences


def _next(facts: EvaluationFacts) -> list[tuple[str, str]]:
    if not facts.finished:
        return [
            (
                f"Answer the {counted(facts.pending, 'row')} that are waited for",
                "ids = run.ask()\nrun.tell(ids, answers)",
            ),
            ("Or by files", "coresift ask run.state --out ask.csv     # add a column of answers\n" + TELL),
        ]
    last = facts.stages[-1]
    found = []
    if last.half_width > 0 and math.isfinite(last.half_width) and last.asked < last.rows:
        half = _half(last)
        words = f"Half the width takes about {last.answers_for(half):,} answers in all"
        found.append((words, f"cs.evaluate(..., within={half:g})"))
    found.append(
        ("Find where the errors are: name groups that you know for every row", "cs.evaluate(..., groups=kinds)")
    )
    found.append(("Keep every number as a table", "run.result.to_pandas()"))
    return found


def _half(last: Evaluation) -> float:
    return float(f"{last.half_width / 2:.2g}")


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _is_share(last: Figure) -> bool:
    return isinstance(last, Evaluation) and last.metric in SHARES


def _level(value: float, of: Figure) -> str:
    shown = f"{100 * value:.3g}%" if _is_share(of) else f"{value:.4g}"
    return shown.replace("-", "−")
