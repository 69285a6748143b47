"""A page about a run of active learning: a map by round, the learning curve, and the balance of classes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from coresift.engine import Engine
from coresift.learning import LearningRun
from coresift.notebook import counted
from coresift.progress import Progress, choose
from coresift.reporting.axes import Axis
from coresift.reporting.document import simple_page
from coresift.reporting.facts import Histogram
from coresift.reporting.gathering import histogram
from coresift.reporting.layout import end, figure, head, interval_table, listing, long_table, paragraph, section, steps
from coresift.reporting.mapping import Map, draw_map
from coresift.reporting.markup import number, text
from coresift.reporting.pictures import bar, bars, curve
from coresift.tables.writing import write_bytes
from coresift.types import Ints

# At most this many rows that were not asked are on the map, and this many classes in the table.
OTHERS, CLASSES = 2_000, 500
TINTS = 8
MOST_IN_CALL = 12  # classes that a call lists
# Why rows were asked, as part of a sentence.
REASONS = {
    "coverage": "by coverage",
    "uncertainty": "by uncertainty",
    "mixed": "partly by uncertainty and partly at random, since the rows say little about the labels",
    "random": "at random, since the rows say little about the labels",
    "audit": "for the audit",
}
MAP_WIDTH, MAP_HEIGHT = 960, 600


@dataclass(frozen=True)
class RoundFacts:
    """How many rows a round asked, and why."""

    number: int
    rows: int
    reasons: str


@dataclass(frozen=True)
class AuditFacts:
    """How good the model of a round was, and how many rows were drawn to measure it."""

    round: int
    trained_on: int
    rows: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class LearningFacts:
    """Everything that the page says.

    Attributes:
        title: The heading.
        n: How many rows there are.
        budget: How many labels are asked in total.
        asked: How many rows were asked so far.
        labeled: How many rows have a label.
        skipped: How many rows nobody could label.
        pending: How many answers are missing.
        rounds: What each round asked.
        audits: How good the model was.
        changes: How it changed from audit to audit.
        classes: Each class and how many labels it has, the largest first; none for numbers.
        numbers: A histogram of the labels, if they are numbers.
        picture: Where rows are on the map: first those that were asked, then some others.
        places: The position of each asked row's round among the rounds.
        next_audit: When the next audit comes, if none was made so far; empty if none is planned.
        advice: How many audit rows would tell a change; empty without an accuracy, or after a single audit.
        call: The call that opens the run again.
        settings: The settings of the run, as names and texts.
    """

    title: str
    n: int
    budget: int
    asked: int
    labeled: int
    skipped: int
    pending: int
    rounds: tuple[RoundFacts, ...]
    audits: tuple[AuditFacts, ...]
    changes: tuple[str, ...]
    classes: tuple[tuple[str, int], ...]
    numbers: Histogram | None
    picture: Map
    places: tuple[int, ...]
    next_audit: str
    advice: str
    call: str
    settings: tuple[tuple[str, str], ...]


def report_learning(
    run: LearningRun, path: Path, *, title: str | None, engine: Engine | None, progress: bool | Progress | None
) -> Path:
    """Write the page, and return its path."""
    page = learning_page(learning_facts(run, title=title, engine=engine, progress=choose(progress)))
    write_bytes(page.encode(), path)
    return path


def learning_facts(run: LearningRun, *, title: str | None, engine: Engine | None, progress: Progress) -> LearningFacts:
    """Gather what the page says about a run, finished or not."""
    status, labels, asked = run.status(), run.labels, run.asked
    entries = run.ledger.entries
    numbers = sorted({number for number, _, _ in entries})
    rounds = tuple(
        RoundFacts(
            number,
            sum(count for turn, _, count in entries if turn == number),
            ", then ".join(f"{count:,} {REASONS.get(why, why)}" for turn, why, count in entries if turn == number),
        )
        for number in numbers
    )
    counts = Counter(str(label) for label in labels.values())
    audits = run.audits
    advised = audits and not run.numeric and (len(audits) > 1 or not status.finished)
    return LearningFacts(
        title=title or f"{len(labels):,} labels of {run.n:,} rows",
        n=run.n,
        budget=run.budget,
        asked=status.asked,
        labeled=len(labels),
        skipped=status.answered - sum(row in labels for row in asked.tolist()),
        pending=status.pending,
        rounds=rounds,
        audits=tuple(
            AuditFacts(audit.round, audit.trained_on, audit.rows, audit.value, audit.low, audit.high)
            for audit in audits
        ),
        changes=() if run.numeric else tuple(b.change_since(a) for a, b in pairwise(audits)),
        classes=() if run.numeric else tuple(counts.most_common()),
        numbers=histogram(np.array(list(labels.values()), np.float64)) if run.numeric and labels else None,
        picture=draw_map(run.rows, np.concatenate([asked, _others(run.n, asked)]), engine, progress),
        places=tuple(numbers.index(number) for number in run.rounds.tolist()),
        next_audit=run.next_audit,
        advice=audits[-1].advice(run.n) if advised else "",
        call=opening_call(run),
        settings=tuple(run.provenance.lines().items()),
    )


def opening_call(run: LearningRun, rows: str = "embeddings", state: str = "run.state") -> str:
    """Return the call that opens the run again, also if its labels came in files; `rows` is an expression."""
    plan = run.plan
    options = [f"budget={run.provenance.budget}", f"rounds={plan.rounds}", f"audit={sum(plan.audits) or None}"]
    if run.classes is not None:
        options.append(f"classes={list(run.classes)!r}" if len(run.classes) <= MOST_IN_CALL else "classes=[...]")
    options += ["numeric=True"] if run.numeric else []
    options += [f"seed={run.seed}"] if run.seed else []
    return f"run = cs.active_learning({rows}, {', '.join(options)}, state={json.dumps(state, ensure_ascii=False)})"


def _others(n: int, asked: Ints) -> Ints:
    """Return rows from all over the table that were not asked."""
    spread = np.unique(np.linspace(0, n - 1, min(n, OTHERS)).round().astype(np.int64))
    return np.setdiff1d(spread, asked)


def learning_page(facts: LearningFacts) -> str:
    """Return the page: one HTML document that loads nothing."""
    return simple_page(facts.title, list(_sections(facts)))


def _sections(facts: LearningFacts) -> Iterator[str]:
    yield _head(facts)
    yield "<main id='main'>"
    yield _curve(facts)
    yield _map(facts)
    yield _balance(facts)
    yield section("sure", "How sure is this?", _how_sure(facts))
    yield steps(_next(facts))
    recipe = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in facts.settings)
    yield section("making", "How it was made", f"<dl class='recipe'>{recipe}</dl>")
    yield "</main>"
    yield end()


def _head(facts: LearningFacts) -> str:
    rounds = counted(len(facts.rounds), "round")
    lead = f"{counted(facts.labeled, 'row')} of {facts.n:,} have a label, from {rounds} of active learning."
    figures = [
        ("Labels", f"{facts.labeled:,}", f"{facts.asked:,} rows asked of a budget of {facts.budget:,}"),
        ("Rounds", f"{len(facts.rounds)}", f"{facts.pending:,} answers missing" if facts.pending else "finished"),
    ]
    if facts.classes:
        figures.append(("Classes seen", f"{len(facts.classes):,}", f"the largest has {facts.classes[0][1]:,} labels"))
    if facts.skipped:
        figures.append(("Skipped", f"{facts.skipped:,}", "rows that nobody could label"))
    if facts.audits:
        last = facts.audits[-1]
        lead += (
            f" A model trained on {last.trained_on:,} of these labels {_measured(facts, last)} "
            f"(95% interval {_level(facts, last.low)} to {_level(facts, last.high)}), estimated from "
            f"{counted(last.rows, 'audit row')}."
        )
        if not facts.pending and facts.labeled > last.trained_on:
            lead += f" The final model, trained on all {facts.labeled:,} labels, was not measured."
        between = f"{_level(facts, last.low)} to {_level(facts, last.high)}"
        figures.insert(0, (_name(facts), _level(facts, last.value), between))
    else:
        lead += " No audit measured the model."
    links = [
        ("curve", "Learning curve"),
        ("map", "Map by round"),
        ("balance", "Labels" if facts.numbers else "Classes"),
    ]
    links += [("sure", "How sure is this?"), ("next", "What to do next"), ("making", "How it was made")]
    return head(facts.title, lead, figures, links)


def _name(facts: LearningFacts) -> str:
    return "Accuracy" if facts.numbers is None else "Mean squared error"


def _level(facts: LearningFacts, value: float) -> str:
    return f"{value:.1%}" if facts.numbers is None else number(value)


def _measured(facts: LearningFacts, audit: AuditFacts) -> str:
    level = _level(facts, audit.value)
    return f"is right on {level} of all rows" if facts.numbers is None else f"has a mean squared error of {level}"


def _map(facts: LearningFacts) -> str:
    count, picture = len(facts.places), facts.picture
    x, y = (picture.x * MAP_WIDTH).round(1), (picture.y * MAP_HEIGHT).round(1)
    others = "".join(
        f'<circle cx="{a:g}" cy="{b:g}" r="2"/>' for a, b in zip(x[count:].tolist(), y[count:].tolist(), strict=True)
    )
    asked = "".join(
        f'<circle class="t{_tint(place, facts)}" cx="{a:g}" cy="{b:g}" r="5.5"/>'
        for place, a, b in zip(facts.places, x[:count].tolist(), y[:count].tolist(), strict=True)
    )
    legend = "".join(
        f'<li><svg viewBox="0 0 10 10" aria-hidden="true"><circle class="t{_tint(place, facts)}" cx="5" cy="5" r="5"/>'
        f"</svg>Round {turn.number}: {text(turn.reasons)}</li>"
        for place, turn in enumerate(facts.rounds)
    )
    drawing = (
        f'<svg class="rounds" viewBox="0 0 {MAP_WIDTH} {MAP_HEIGHT}" role="img" '
        f'aria-label="{count:,} asked rows among others, colored by round">'
        f'<g class="others">{others}</g><g class="asked">{asked}</g></svg>'
    )
    note = (
        "<p>The first round covers all rows. Later rounds cover the rows where the model was unsure. Gray dots are "
        f"some of the rows that were not asked. The two principal axes show {picture.captured:.0%} of the variance.</p>"
    )
    return section("map", "Which rows were asked, by round", f"{note}{drawing}<ul class='legend'>{legend}</ul>")


def _tint(place: int, facts: LearningFacts) -> int:
    """Return the color of a round: rounds are spread over all colors, and share them if there are many."""
    last = len(facts.rounds) - 1
    return round(place * (TINTS - 1) / last) if last > 0 else 0


def _curve(facts: LearningFacts) -> str:
    if not facts.audits:
        when = (
            f"The first one comes {facts.next_audit}."
            if facts.next_audit
            else "By default, audits take a tenth of the budget if that is at least 50 rows. audit=100 takes 100 rows, "
            "and audit=None takes none."
        )
        why = f"This run has no audit so far, so there is no learning curve. {when}"
        return section("curve", "Learning curve", paragraph(why))
    accuracy = facts.numbers is None
    points = [(float(audit.trained_on), audit.value, audit.low, audit.high) for audit in facts.audits]
    drawing = curve(points, "labels that the model was trained on", _name(facts).lower(), percent=accuracy)
    caption = f"{_name(facts)} of the model on these {facts.n:,} rows, with 95% intervals. One point per audit."
    axis = Axis.around(
        _name(facts), [end for audit in facts.audits for end in (audit.low, audit.high)], percent=accuracy
    )
    lines = [
        (f"Round {audit.round}", audit.value, audit.low, audit.high, [f"{audit.trained_on:,}", f"{audit.rows:,}"])
        for audit in facts.audits
    ]
    shown = [
        f"{_level(facts, audit.value)} ({_level(facts, audit.low)} to {_level(facts, audit.high)})"
        for audit in facts.audits
    ]
    heads = ["Audit", f"{_name(facts)}, 95% interval", "Labels trained on", "Rows in the audit"]
    changes = "".join(paragraph(f"Change: {change}.") for change in facts.changes)
    changes += paragraph(facts.advice) if facts.advice else ""
    return section(
        "curve",
        "Learning curve",
        figure(drawing, caption) + interval_table(heads, lines, axis, None, shown) + changes,
    )


def _balance(facts: LearningFacts) -> str:
    if facts.numbers is not None:
        return section("balance", "Labels", figure(bars(facts.numbers, "label"), "The labels so far"))
    if not facts.classes:
        return section("balance", "Class balance", "<p>There are no labels yet.</p>")
    most = facts.classes[0][1]
    lines = "".join(
        f"<tr><th scope='row' dir='auto'>{text(name)}</th><td class='number'>{count:,}</td>"
        f"<td class='share'>{bar(count / most)}</td></tr>"
        for name, count in facts.classes[:CLASSES]
    )
    left = len(facts.classes) - CLASSES
    more = f"<p class='quiet'>{left:,} smaller classes are not shown.</p>" if left > 0 else ""
    note = (
        "<p>How many labels each class has. These rows were chosen to train a model, not drawn at random, so the "
        "shares do not tell you how common a class is.</p>"
    )
    top = "<th scope='col'>Class</th><th scope='col' class='number'>Labels</th><td></td>"
    return section("balance", "Class balance", note + long_table("balance", top, lines) + more)


def _how_sure(facts: LearningFacts) -> str:
    if not facts.audits:
        planned = f"The first audit comes {facts.next_audit}."
        other = "To measure the model, use cs.evaluate with its predictions, or run with audit=100."
        return paragraph(f"Nothing here was measured on random rows. {planned if facts.next_audit else other}")
    return listing(
        [
            "Audit rows are drawn at random from the rows without a label, and the model predicts them before anyone "
            "labels them. So the figure is a fair measurement of the model of that round.",
            "The figure is about these rows. It says nothing about rows from another source.",
            "Each interval holds for one audit, with 95% confidence. If you may stop because an audit looks good, use "
            "low_always and high_always of run.audits, which hold for all audits together.",
            "The other rows were chosen to train the model. Their shares of classes, and the accuracy on them, are "
            "biased.",
        ]
    )


def _next(facts: LearningFacts) -> list[tuple[str, str]]:
    if facts.pending:
        return [
            (
                f"Label the {counted(facts.pending, 'row')} without a label",
                "ids = run.ask()\nrun.tell(ids, labels)",
            ),
            (
                "Or with files",
                "coresift ask run.state --out ask.csv     # add a column label\ncoresift tell run.state ask.csv",
            ),
        ]
    return [
        ("If you labeled with files, open the run in Python: the same rows and arguments as in start", facts.call),
        ("Save the labels (with files, the --out of start has them)", 'cs.save(run.result, "labeled.csv")'),
        ("Use the model, or train your own on run.labels", "predicted = run.model.predict(embeddings)"),
        (
            "Measure its accuracy to a half-width of your choice",
            "cs.evaluate(predictions=predicted, labels=ask_people, within=0.02).complete()",
        ),
        (
            "Label more rows, starting with these labels",
            f"cs.active_learning(embeddings, budget={facts.budget}, given=run.labels)",
        ),
    ]
