"""A page about an evaluation: the number after each stage, width against answers, models and groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from coresift.evaluation import Evaluation, EvaluationRun, Figure
from coresift.evaluation.result import halved
from coresift.notebook import counted
from coresift.reporting.axes import Axis
from coresift.reporting.document import simple_page
from coresift.reporting.layout import end, figure, head, interval_table, listing, paragraph, section, steps
from coresift.reporting.pictures import curve, projection
from coresift.tables.writing import write_bytes

# Metrics that are shares of rows, shown in percent.
SHARES = ("accuracy", "precision", "recall", "rate")
TELL = "coresift tell run.state ask.csv"


@dataclass(frozen=True)
class EvaluationFacts:
    """Everything that the page says.

    Attributes:
        title: The heading.
        finished: Whether the run has its result.
        pending: How many answers are missing.
        stages: The estimate after each stage; the last one is the result.
        widths: Numbers of answers, and the half-width that each gives; empty if unknown.
        wishes: The half-widths that the run was asked to reach, one after the other.
    """

    title: str
    finished: bool
    pending: int
    stages: tuple[Evaluation, ...]
    widths: tuple[tuple[int, float], ...]
    wishes: tuple[float, ...] = ()


def report_evaluation(run: EvaluationRun, path: Path, *, title: str | None) -> Path:
    """Write the page, and return its path."""
    write_bytes(evaluation_page(evaluation_facts(run, title)).encode(), path)
    return path


def evaluation_facts(run: EvaluationRun, title: str | None) -> EvaluationFacts:
    """Gather what the page says about a run, finished or not."""
    status, stages = run.status(), run.stages()
    name = f"{_capital(stages[-1].metric)} over {run.n:,} rows" if stages else f"Evaluation of {run.n:,} rows"
    return EvaluationFacts(title or name, status.finished, status.pending, stages, run.widths(), run.wishes)


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
        yield section("sure", "How sure is this?", listing(_how_sure(facts)))
    yield steps(_next(facts))
    yield "</main>"
    yield end()


def _head(facts: EvaluationFacts) -> str:
    if not facts.stages:
        lead = f"There is no estimate yet: {facts.pending:,} answers of the first stage are missing."
        return head(facts.title, lead, [], [("next", "What to do next")])
    last = facts.stages[-1]
    sure = f"{100 * last.confidence:g}%"
    model = next(iter(last.figures), "")
    name = _capital(last.metric) + (f" of {model}" if model and last.metric != "difference" else "")
    lead = (
        f"{name} over all {last.n:,} rows is about {_level(last.value, last)}, with {sure} confidence between "
        f"{_level(last.low, last)} and {_level(last.high, last)}. It took {last.asked:,} answers."
    )
    if facts.wishes and facts.finished:
        reached = "was reached" if last.half_width <= facts.wishes[-1] else "was not reached"
        lead += f" The target of ± {_width(facts.wishes[-1], last)} {reached}."
    if not facts.finished:
        lead += f" This is an interim result, with {facts.pending:,} answers missing. Do not stop because of it."
    figures = [
        (name, _level(last.value, last), f"{_level(last.low, last)} to {_level(last.high, last)}"),
        (
            "Answers",
            f"{last.asked:,}",
            f"of {last.rows:,} rows that matter for {last.metric}" if last.rows < last.n else f"of {last.rows:,} rows",
        ),
        ("Effective sample size", f"{last.effective_sample_size:,.0f}", "uniform rows would be as precise"),
    ]
    if last.half_width > 0 and math.isfinite(last.half_width):
        half = halved(last.half_width)
        figures.append((f"For ± {_width(half, last)}", f"about {last.answers_for(half):,}", "answers in total"))
    if last.missing is not None:
        span = (
            f"estimate from {_level(last.missing.worst, last)} to {_level(last.missing.best, last)}, whatever they are"
        )
        figures.append(("No answer", f"{last.missing.rows:,}", span))
    links = [
        ("widths", "Width against answers", bool(_width_points(facts)[0])),
        ("groups", "Groups", bool(last.groups)),
        ("models", "Models", any(last.figures)),
        ("stages", "Stage by stage", True),
        ("sure", "How sure is this?", True),
        ("next", "What to do next", True),
    ]
    remarks = "".join(paragraph(remark, "warning") for remark in last.remarks)
    verdicts = "".join(paragraph(sentence, "verdict") for sentence in last.verdicts)
    return head(
        facts.title, lead, figures, [(name, label) for name, label, shown in links if shown], verdicts + remarks
    )


def _width_points(facts: EvaluationFacts) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return the half-width after each stage, and the half-width that more answers would give."""
    known = [(float(stage.asked), stage.half_width) for stage in facts.stages]
    ahead = [(float(count), half) for count, half in facts.widths]
    keep = [[(x, half) for x, half in points if half > 0 and math.isfinite(half)] for points in (known, ahead)]
    return keep[0], keep[1]


def _widths(facts: EvaluationFacts) -> str:
    known, ahead = _width_points(facts)
    if not known:
        return ""
    caption = "Dots: half the width of the interval after each stage. "
    caption += "Dashed line: a forecast of what more answers would give, drawn in the same way." if ahead else ""
    scale, unit = (100, "± points") if _in_points(facts.stages[-1]) else (1, "±")
    known, ahead = [(x, scale * half) for x, half in known], [(x, scale * half) for x, half in ahead]
    picture = projection(known, ahead, "answers", f"half-width of the interval ({unit})")
    content = f"<div class='pair'>{figure(picture, caption)}{_estimates(facts)}</div>"
    return section("widths", "Width against answers", content)


def _estimates(facts: EvaluationFacts) -> str:
    """Return the chart of the estimate and its interval after each stage; nothing if no interval is finite."""
    known = [stage for stage in facts.stages if math.isfinite(stage.low) and math.isfinite(stage.high)]
    if not known:
        return ""
    last = facts.stages[-1]
    scale, unit = (100, " (points)") if _is_difference(last) else (1, "")
    points = [(float(stage.asked), scale * stage.value, scale * stage.low, scale * stage.high) for stage in known]
    picture = curve(points, "answers", f"{last.metric}{unit}", percent=_is_share(last))
    return figure(picture, "The estimate after each stage, with its interval. Only the last one is a result.")


def _stages(facts: EvaluationFacts) -> str:
    last = facts.stages[-1]
    lines = [(f"After {stage.asked:,} answers", stage) for stage in facts.stages]
    chart = "" if _width_points(facts)[0] else _estimates(facts)  # otherwise it is next to the widths
    table = _table("Stage", lines, last, points=_is_difference(last))
    return section("stages", "Stage by stage", chart + table)


def _groups(last: Evaluation) -> str:
    if not last.groups:
        return ""
    note = (
        "<p>The dashed line is the value over all rows. Each interval holds by itself; with many groups, some will "
        "miss by chance.</p>"
    )
    lines = [(str(name), part) for name, part in last.groups.items()]
    return section("groups", "Groups", note + _table("Group", lines, last, last.value, points=_is_difference(last)))


def _models(last: Evaluation) -> str:
    named = [(name, part) for name, part in last.figures.items() if name]
    differences = [(name, part) for name, part in named if " − " in name]
    single = [(name, part) for name, part in named if " − " not in name]
    content = _table("Model", single, last) if single else ""
    if differences:
        content += (
            "<p>If the interval of a difference contains 0, the dashed line, these answers show no difference.</p>"
        )
        content += _table("Difference", differences, last, 0.0, points=_in_points(last))
    return section("models", "Models", content)


def _table(
    heading: str,
    lines: Sequence[tuple[str, Figure]],
    last: Evaluation,
    mark: float | None = None,
    *,
    points: bool = False,
) -> str:
    """Return a table of intervals; differences of shares are in percentage points."""
    scale, unit = (100, " points") if points else (1, "")

    def level(value: float) -> str:
        return _points(value) if points else _level(value, last)

    ends = [scale * end for _, part in lines for end in (part.low, part.high) if math.isfinite(end)]
    axis = Axis.around(heading, ends if mark is None else [*ends, scale * mark], percent=_is_share(last) and not points)
    shown = [f"{level(part.value)}{unit} ({level(part.low)} to {level(part.high)})" for _, part in lines]
    cells = [
        (
            name,
            scale * part.value,
            scale * part.low,
            scale * part.high,
            [f"{part.asked:,}", f"{part.effective_sample_size:,.0f}"],
        )
        for name, part in lines
    ]
    heads = [heading, "Value and interval", "Answers", "Effective sample size"]
    return interval_table(heads, cells, axis, None if mark is None else scale * mark, shown)


def _how_sure(facts: EvaluationFacts) -> list[str]:
    last = facts.stages[-1]
    sentences = [
        f"Over many such evaluations, about {100 * last.confidence:g}% of the intervals contain the true value. "
        "The documentation has measured rates.",
        "The effective sample size is the number of rows, drawn uniformly with replacement, that would give an "
        f"estimate as precise as these {last.asked:,} answers: {last.effective_sample_size:,.0f}. It is larger than "
        "the number of answers if signals predict them well, and smaller if the signals are misleading.",
        'The number is about these rows. For a claim about new rows, use target="rows like these".',
    ]
    if not facts.finished:
        sentences.append(
            "Intervals before the last stage are interim. If you stop when one looks good, it is wrong more often than "
            "it says. With anytime=True, you may stop at any time."
        )
    return sentences


def _next(facts: EvaluationFacts) -> list[tuple[str, str]]:
    if not facts.finished:
        return [
            (
                f"Answer the {counted(facts.pending, 'row')} without an answer",
                "ids = run.ask()\nrun.tell(ids, answers)",
            ),
            ("Or with files", "coresift ask run.state --out ask.csv     # add a column of answers\n" + TELL),
        ]
    last = facts.stages[-1]
    advice = []
    if last.half_width > 0 and math.isfinite(last.half_width) and last.asked < last.rows:
        half = halved(last.half_width)
        words = f"Half the width takes about {last.answers_for(half):,} answers in total"
        wish = f"--within {half:g}" if facts.wishes else f"--budget {last.answers_for(half)}"
        advice.append((words, f"coresift evaluate extend run.state {wish} --state more.state"))
        name, so_far = ("within", facts.wishes) if facts.wishes else ("budget", (last.asked,))
        after = [*so_far, half if facts.wishes else last.answers_for(half)]
        advice.append(("Or in Python, with the same other arguments", f"cs.evaluate(..., {name}={after}, state=...)"))
    advice.append(("See where the errors are, if you know groups of rows", "cs.evaluate(..., groups=kinds)"))
    advice.append(("Get all numbers as a table", "run.result.to_pandas()"))
    return advice


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _is_share(last: Evaluation) -> bool:
    return last.metric in SHARES


def _in_points(last: Evaluation) -> bool:
    """Return whether differences and half-widths are in percentage points, as in the verdicts."""
    return _is_share(last) or any(sentence.endswith(" points.") for sentence in last.verdicts)


def _is_difference(last: Evaluation) -> bool:
    """Return whether the number itself is a difference of shares."""
    return last.metric == "difference" and _in_points(last)


def _width(half: float, of: Evaluation) -> str:
    return f"{_points(half)} points" if _in_points(of) else f"{half:.4g}"


def _points(value: float) -> str:
    return f"{100 * value:.3g}".replace("-", "−")


def _level(value: float, of: Evaluation) -> str:
    if _is_difference(of):
        return f"{_points(value)} points"
    shown = f"{100 * value:.3g}%" if _is_share(of) else f"{value:.4g}"
    return shown.replace("-", "−")
