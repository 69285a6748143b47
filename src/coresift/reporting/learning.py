"""A page about a run of active learning: a map by round, the learning curve, and the balance of classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from coresift.engine import Engine
from coresift.learning import LearningRun
from coresift.progress import Progress, choose
from coresift.reporting.facts import Histogram
from coresift.reporting.gathering import histogram
from coresift.reporting.mapping import Map, draw_map
from coresift.reporting.page import document, read_file
from coresift.reporting.pictures import bars, curve
from coresift.reporting.sections import text
from coresift.tables.writing import write_bytes
from coresift.types import Ints

# So many of the rows that were not asked are on the map, and so many classes in the table.
OTHERS, CLASSES = 2_000, 60
TINTS = 8
# Why rows were asked, as part of a sentence.
REASONS = {"coverage": "by coverage", "uncertainty": "by uncertainty", "audit": "for the audit"}
MAP_WIDTH, MAP_HEIGHT = 960, 600


@dataclass(frozen=True)
class RoundFacts:
    """What one round asked: how many rows, and why."""

    number: int
    rows: int
    reasons: str


@dataclass(frozen=True)
class AuditFacts:
    """How good the model of a round was, as a sentence and as numbers."""

    trained_on: int
    value: float
    low: float
    high: float
    said: str


@dataclass(frozen=True)
class LearningFacts:
    """All that the page says.

    Attributes:
        title: The heading.
        n: How many rows there are.
        budget: How many labels are asked in all.
        asked: How many rows were asked so far.
        labeled: How many rows have a label.
        skipped: How many were asked and nobody could tell.
        pending: How many answers are waited for.
        rounds: What each round asked.
        audits: How good the model was.
        changes: How it changed from audit to audit.
        classes: Each class and how many labels it has, the largest first; none for numbers.
        numbers: The labels, where they are numbers.
        picture: Where rows are: first those that were asked, then some others.
        places: The place of each asked row's round among the rounds.
        made: What made the run, as names and texts.
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
    made: tuple[tuple[str, str], ...]


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
    return LearningFacts(
        title=title or f"{len(labels):,} labels of {run.n:,} rows",
        n=run.n,
        budget=run.budget,
        asked=status.asked,
        labeled=len(labels),
        skipped=status.answered - sum(row in labels for row in asked.tolist()),
        pending=status.pending,
        rounds=rounds,
        audits=tuple(AuditFacts(one.trained_on, one.value, one.low, one.high, str(one)) for one in audits),
        changes=() if run.numeric else tuple(b.change_since(a) for a, b in pairwise(audits)),
        classes=() if run.numeric else tuple(counts.most_common()),
        numbers=histogram(np.array(list(labels.values()), np.float64)) if run.numeric and labels else None,
        picture=draw_map(run.rows, np.concatenate([asked, _others(run.n, asked)]), engine, progress),
        places=tuple(numbers.index(number) for number in run.rounds.tolist()),
        made=tuple(run.provenance.lines().items()),
    )


def _others(n: int, asked: Ints) -> Ints:
    """Return rows from all over the table that were not asked."""
    spread = np.unique(np.linspace(0, n - 1, min(n, OTHERS)).round().astype(np.int64))
    return np.setdiff1d(spread, asked)


def learning_page(facts: LearningFacts) -> str:
    """Return the page: one HTML document that loads nothing."""
    style = read_file("page.css") + read_file("learning.css")
    return document(facts.title, style, "\n".join(_sections(facts))) + "\n</body>\n</html>\n"


def _sections(facts: LearningFacts) -> Iterator[str]:
    yield _head(facts)
    yield "<main id='main'>"
    yield _map(facts)
    yield _curve(facts)
    yield _balance(facts)
    lines = "".join(f"<tr><th scope='row'>{text(name)}</th><td>{text(value)}</td></tr>" for name, value in facts.made)
    yield _section("making", "How it was made", f"<div class='wide'><table><tbody>{lines}</tbody></table></div>")
    yield "</main>"


def _head(facts: LearningFacts) -> str:
    figures = [
        ("Labels", f"{facts.labeled:,}", f"{facts.asked:,} rows asked of a budget of {facts.budget:,}"),
        (
            "Rounds so far",
            f"{len(facts.rounds)}",
            f"{facts.pending:,} answers to come" if facts.pending else "finished",
        ),
        ("Cannot tell", f"{facts.skipped:,}", "rows that were asked and skipped"),
    ]
    if facts.classes:
        figures.insert(
            1, ("Classes seen", f"{len(facts.classes):,}", f"the largest has {facts.classes[0][1]:,} labels")
        )
    shown = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd><dd class='quiet'>{text(more)}</dd></div>"
        for name, value, more in figures
    )
    lead = facts.audits[-1].said if facts.audits else "No audit so far: nothing is known about how good the model is."
    return (
        "<header><div class='top'><p class='brand'>coresift report</p></div>"
        f"<h1>{text(facts.title)}</h1><p class='lead'>{text(lead)}</p><dl class='figures'>{shown}</dl></header>"
    )


def _map(facts: LearningFacts) -> str:
    count, picture = len(facts.places), facts.picture
    x, y = (picture.x * MAP_WIDTH).round(1), (picture.y * MAP_HEIGHT).round(1)
    others = "".join(
        f'<circle cx="{a:g}" cy="{b:g}" r="2"/>' for a, b in zip(x[count:].tolist(), y[count:].tolist(), strict=True)
    )
    asked = "".join(
        f'<circle class="t{_tint(place, facts)}" cx="{a:g}" cy="{b:g}" r="5"/>'
        for place, a, b in zip(facts.places, x[:count].tolist(), y[:count].tolist(), strict=True)
    )
    legend = "".join(
        f'<li><svg viewBox="0 0 10 10" aria-hidden="true"><circle class="t{_tint(place, facts)}" cx="5" cy="5" r="5"/>'
        f"</svg>Round {one.number}: {text(one.reasons)}</li>"
        for place, one in enumerate(facts.rounds)
    )
    drawing = (
        f'<svg class="rounds" viewBox="0 0 {MAP_WIDTH} {MAP_HEIGHT}" role="img" '
        f'aria-label="{count:,} asked rows among others, colored by round">'
        f'<g class="others">{others}</g><g class="asked">{asked}</g></svg>'
    )
    note = (
        f"<p>Rows on their two principal axes, which show {100 * picture.captured:.0f} % of the variance. Gray: rows "
        "that were not asked (some of them). Later rounds go where the model was unsure.</p>"
    )
    return _section("map", "Which rows were asked, by round", f"{note}{drawing}<ul class='legend'>{legend}</ul>")


def _tint(place: int, facts: LearningFacts) -> int:
    """Return the color of a round: rounds are spread over all colors, and share them where there are many."""
    last = len(facts.rounds) - 1
    return round(place * (TINTS - 1) / last) if last > 0 else 0


def _curve(facts: LearningFacts) -> str:
    if not facts.audits:
        why = "An audit needs at least 50 rows of the budget; with audit=None there is none."
        return _section("curve", "Learning curve", f"<p>{why}</p>")
    points = [(float(one.trained_on), one.value, one.low, one.high) for one in facts.audits]
    accuracy = facts.numbers is None
    name = "Accuracy" if accuracy else "Mean squared error"
    said = "".join(f"<li>{text(one.said)}</li>" for one in facts.audits)
    changes = "".join(f"<p>From one audit to the next: {text(change)}.</p>" for change in facts.changes)
    note = (
        f"{name} against the labels that the model had, with 95 % intervals. Each figure is about the model of that "
        "round on these rows, before it learned from the audit; it is not about new data."
    )
    drawing = curve(points, name, 1.0 if accuracy else None)
    return _section(
        "curve", "Learning curve", f"<p>{note}</p><div class='curve'>{drawing}</div><ul>{said}</ul>{changes}"
    )


def _balance(facts: LearningFacts) -> str:
    if facts.numbers is not None:
        return _section("balance", "Labels", f"<div class='curve'>{bars(facts.numbers, 'Labels')}</div>")
    if not facts.classes:
        return _section("balance", "Class balance", "<p>There are no labels yet.</p>")
    most = facts.classes[0][1]
    lines = "".join(
        f"<tr><th scope='row'>{text(name)}</th><td class='number'>{count:,}</td><td class='share'>"
        f'<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{100 * count / most:.2f}" height="8"/></svg></td></tr>'
        for name, count in facts.classes[:CLASSES]
    )
    left = len(facts.classes) - CLASSES
    more = f"<p class='quiet'>{left:,} smaller classes are not shown.</p>" if left > 0 else ""
    note = (
        "<p>How many labels each class has. These rows were chosen to teach, not drawn at random: the shares say "
        "nothing about how common a class is.</p>"
    )
    head = "<tr><th scope='col'>Class</th><th scope='col' class='number'>Labels</th><th></th></tr>"
    table = f"<div class='wide'><table class='balance'><thead>{head}</thead><tbody>{lines}</tbody></table></div>"
    return _section("balance", "Class balance", note + table + more)


def _section(name: str, title: str, content: Any) -> str:
    return f"<section id='{name}' aria-labelledby='{name}-title'><h2 id='{name}-title'>{title}</h2>{content}</section>"
