"""The sections of a report as markup, with everything that users wrote escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

import numpy as np

from coresift.notebook import counted
from coresift.reporting.facts import PERCENTILES, Facts, Row
from coresift.reporting.pictures import bars, scatter

HEAVIEST = 12
NOTHING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def sections(facts: Facts) -> Iterable[str]:
    """Yield the parts of the page's body; one for which nothing was given is empty."""
    yield _head(facts)
    yield '<main id="main">'
    yield _map(facts)
    yield _weights(facts)
    yield _losses(facts)
    yield _clusters(facts)
    yield _classes(facts)
    yield _making(facts)
    yield _left_out(facts)
    yield "</main>"
    yield f"<footer>Made with coresift {text(facts.version)}. This page is one file and loads nothing.</footer>"


def _head(facts: Facts) -> str:
    links = [
        ("map", "Map", facts.map),
        ("weights", "Weights", facts.weights),
        ("losses", "Losses", facts.loss_by_distance or facts.smoothness),
        ("clusters", "Clusters", facts.clusters),
        ("classes", "Classes", facts.coverage),
        ("making", "How it was made", True),
    ]
    listed = "".join(f'<a href="#{name}">{label}</a>' for name, label, there in links if there)
    figures = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd><dd class='quiet'>{text(more)}</dd></div>"
        for name, value, more in _figures(facts)
    )
    verdict = ""
    if facts.verdict is not None:
        said = facts.verdict[0].upper() + facts.verdict[1:]
        verdict = f"<p class='verdict'><strong>{text(said)}.</strong> {text(facts.reason or '')}</p>"
    remarks = "".join(
        f"<p class='warning'>{text(remark)}</p>" for remark in (facts.estimate.warnings if facts.estimate else ())
    )
    return (
        f"<header><div class='top'><p class='brand'>coresift report</p>"
        "<button type='button' id='theme' hidden>Dark</button></div>"
        f"<h1>{text(facts.title)}</h1><p class='lead'>{text(summary(facts))}</p>{verdict}{remarks}"
        f"<dl class='figures'>{figures}</dl><nav aria-label='Parts of this report'>{listed}</nav></header>"
    )


def summary(facts: Facts) -> str:
    """Return what was done and found, in a few plain sentences."""
    of = f"{facts.rows:,} rows"
    if facts.population < facts.rows:
        of = f"{facts.population:,} rows ({facts.rows - facts.population:,} more were excluded)"
    if facts.weights is None:
        parts = [
            f"{facts.selected:,} of {of} were chosen. This method defines no weights, so they stand for themselves."
        ]
    else:
        parts = [
            f"{facts.selected:,} rows were selected out of {of}, and with their weights they stand for all of them."
        ]
    asked = (
        "No loss was asked"
        if not facts.asked
        else f"{counted(facts.asked, 'loss', 'losses')} {'was' if facts.asked == 1 else 'were'} asked"
    )
    parts.append(f"{asked} to choose them.")
    if facts.estimate is not None:
        total, mean = facts.estimate.total, facts.estimate.mean
        sure = f"{100 * facts.estimate.confidence:g}%"
        parts.append(
            f"The total loss over all rows is about {number(total.value)}, with {sure} confidence between "
            f"{number(total.low)} and {number(total.high)}; the mean loss is about {number(mean.value)}."
        )
        if facts.truth is not None:
            where = "inside" if total.low <= facts.truth <= total.high else "outside"
            parts.append(f"Here every loss is known: the true total is {number(facts.truth)}, {where} that interval.")
    return " ".join(parts)


def _figures(facts: Facts) -> list[tuple[str, str, str]]:
    share = f"{facts.selected / facts.population:.1%}" if facts.population else ""
    found = [("Selected", f"{facts.selected:,}", f"of {facts.population:,} rows, {share}")]
    reasons = ", ".join(f"{count:,} {reason}" for _, reason, count in facts.ledger)
    found.append(("Losses asked", f"{facts.asked:,}", reasons or "none"))
    if facts.estimate is not None:
        total, mean = facts.estimate.total, facts.estimate.mean
        found.append(("Total loss", number(total.value), f"{number(total.low)} to {number(total.high)}"))
        found.append(("Mean loss", number(mean.value), f"{number(mean.low)} to {number(mean.high)}"))
    if facts.weights is not None:
        found.append(("Worth", f"{facts.weights.effective:,.0f}", "rows of equal weight"))
    if facts.coverage is not None:
        uniform = f"a uniform sample {facts.coverage.uniform_covers:,.1f}"
        found.append(("Classes reached", f"{facts.coverage.covered:,} of {len(facts.coverage.names):,}", uniform))
    return found


def _map(facts: Facts) -> str:
    if facts.map is None:
        return ""
    captured = f"{facts.map['captured']:.0%}"
    listed = len(facts.listed)
    drawn = "a selected row" if listed == facts.selected else f"one of the {listed:,} rows with the largest weights"
    middles = "the center of a cluster" if facts.clusters and facts.clusters.exact else "about the middle of a cluster"
    weighted = ", larger the more rows it stands for" if facts.weights is not None else ""
    return (
        "<section id='map' aria-labelledby='map-title'><h2 id='map-title'>Map</h2>"
        f"<p>All rows on their two principal axes, which show {captured} of the variance. The shade is how many rows "
        f"are there; each dot is {drawn}{weighted}{'; each diamond is ' + middles if facts.clusters else ''}. Point at "
        f"a dot to see its row{', click to see its cluster' if facts.clusters else ''}.</p>"
        "<div class='map'><div class='stage'>"
        "<canvas id='picture' width='1200' height='900' tabindex='0' role='application' "
        "aria-label='Map of the rows. Arrow keys walk through the rows from the largest weight on, Enter opens the "
        "cluster, plus and minus zoom, Escape goes back.' aria-describedby='found'></canvas>"
        "<canvas id='marks' width='1200' height='900' aria-hidden='true'></canvas>"
        "<div class='tools'><button type='button' id='closer' aria-label='Zoom in'>+</button>"
        "<button type='button' id='farther' aria-label='Zoom out'>−</button>"
        "<button type='button' id='whole'>All</button></div>"
        "<div id='hint' role='status' hidden></div></div>"
        "<aside id='found' aria-live='polite'></aside></div></section>"
    )


def _weights(facts: Facts) -> str:
    weights = facts.weights
    if weights is None:
        return ""
    half = counted(weights.half, "row")
    lines = "".join(_heavy_line(facts, row) for row in facts.listed[:HEAVIEST])
    loss = "<th scope='col' class='number'>Loss</th>" if _any_loss(facts) else ""
    said = "<th scope='col'>Text</th>" if facts.texts else ""
    return (
        "<section id='weights' aria-labelledby='weights-title'><h2 id='weights-title'>Weights</h2>"
        f"<p>A weight says how many rows a row stands for. They go from {number(weights.least)} to "
        f"{number(weights.largest)}, half of them below {number(weights.median)}, and add up to {weights.total:,.0f}. "
        f"The {half} with the largest weights carry half of that. For estimates the selection is worth "
        f"{weights.effective:,.0f} rows of equal weight.</p>"
        "<div class='pair'>"
        f"<figure>{bars(weights.histogram, 'Weights')}<figcaption>Weights of the selected rows</figcaption></figure>"
        f"<figure>{bars(weights.inclusion, 'Inclusion probabilities')}"
        "<figcaption>The probabilities with which they were drawn</figcaption></figure></div>"
        "<h3>The largest weights</h3><div class='wide'><table><thead><tr><th scope='col'>Row</th>"
        f"<th scope='col' class='number'>Weight</th><th scope='col' class='number extra'>Probability</th>"
        f"<th scope='col' class='extra'>How it came in</th>{loss}{said}</tr></thead>"
        f"<tbody>{lines}</tbody></table></div></section>"
    )


def _heavy_line(facts: Facts, row: Row) -> str:
    cells = [f"<th scope='row'>{_row_name(row)}</th>", _cell(number(row.weight))]
    cells.append(f"<td class='number extra'>{number(row.inclusion)}</td>")
    cells.append(f"<td class='extra'>{text(row.origin)}</td>")
    if _any_loss(facts):
        cells.append(_cell("" if row.loss is None else number(row.loss)))
    if facts.texts:
        cells.append(f"<td class='text' dir='auto'>{text(facts.texts.get(row.row, ''))}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _losses(facts: Facts) -> str:
    smooth, by_distance = facts.smoothness, facts.loss_by_distance
    if smooth is None and by_distance is None:
        return ""
    parts = ["<section id='losses' aria-labelledby='losses-title'><h2 id='losses-title'>Losses and distances</h2>"]
    if by_distance is not None:
        parts.append(
            "<p>If clusters say something about the loss, rows near their center have losses like the center's. Each "
            "dot is a selected row; the line is the mean loss of all rows at that distance, by the weights.</p>"
            f"<figure class='narrow'>{scatter(by_distance)}"
            "<figcaption>Loss against the distance to the center of the cluster</figcaption></figure>"
        )
    if smooth is not None:
        heads = "".join(f"<th scope='col' class='number'>{one} %</th>" for one in PERCENTILES)
        cells = "".join(_cell(number(value)) for value in smooth.percentiles)
        reference = "its center's" if smooth.exact else "that of the selected row nearest to its center"
        power = "distance" if smooth.z == 1 else f"distance^{smooth.z:g}"
        parts.append(
            f"<h3>Hölder percentiles</h3><p>How much a row's loss differs from {reference}, over {power}, from "
            f"{counted(smooth.compared, 'row')}: this part of all rows is below</p>"
            f"<div class='wide'><table class='small'><thead><tr>{heads}</tr></thead>"
            f"<tbody><tr>{cells}</tr></tbody></table></div>"
        )
    return "".join([*parts, "</section>"])


def _clusters(facts: Facts) -> str:
    found = facts.clusters
    if found is None:
        return ""
    how = "Sizes and costs are counted." if found.exact else "Sizes and costs are estimates from the weights."
    heads = [
        ("number", "Cluster"),
        ("size", "Rows"),
        ("cost", "Cost"),
        ("selected", "Selected"),
        ("share", "Share of the budget"),
    ]
    if found.loss is not None:
        heads += [("loss", "Mean loss"), ("total", "Share of the total loss")]
    cells = "".join(
        f"<th scope='col' class='number'><button type='button' data-key='{key}'>{label}</button></th>"
        for key, label in heads
    )
    return (
        "<section id='clusters' aria-labelledby='clusters-title'><h2 id='clusters-title'>Clusters</h2>"
        f"<p>{counted(len(found.number), 'cluster')}. {how} The cost is the sum of the distances to the center, "
        "to the power z. Click a heading to sort by it, and a cluster to see it.</p>"
        f"<div class='wide'><table id='cluster-table'><thead><tr>{cells}</tr></thead><tbody></tbody></table></div>"
        "<button type='button' class='more' id='more-clusters' hidden>Show all</button>"
        "<div id='cluster-panel' aria-live='polite'></div></section>"
    )


def _classes(facts: Facts) -> str:
    found = facts.coverage
    if found is None:
        return ""
    heads = [("name", found.column), ("rows", "Rows"), ("selected", "Selected"), ("uniform", "A uniform sample")]
    if found.estimated is not None:
        heads.append(("estimated", "Rows by the weights"))
    cells = "".join(
        f"<th scope='col'{'' if key == 'name' else chr(32) + 'class=' + chr(39) + 'number' + chr(39)}>"
        f"<button type='button' data-key='{key}'>{text(label)}</button></th>"
        for key, label in heads
    )
    return (
        "<section id='classes' aria-labelledby='classes-title'><h2 id='classes-title'>Classes</h2>"
        f"<p>The selection has rows of {found.covered:,} of {counted(len(found.names), 'class', 'classes')}; a uniform "
        f"sample of the same size has rows of {found.uniform_covers:,.1f} on average.</p>"
        f"<div class='wide'><table id='class-table'><thead><tr>{cells}</tr></thead><tbody></tbody></table></div>"
        "<button type='button' class='more' id='more-classes' hidden>Show all</button></section>"
    )


def _making(facts: Facts) -> str:
    parts = ["<section id='making' aria-labelledby='making-title'><h2 id='making-title'>How it was made</h2>"]
    came = ", ".join(f"{count:,} {_origin(name)}" for name, count in facts.origins.items() if count)
    parts.append(f"<p>Of the selected rows, {text(came)}.</p>" if came else "")
    if facts.ledger:
        lines = "".join(
            f"<tr>{_cell(f'{turn}')}<td>{text(why)}</td>{_cell(f'{count:,}')}</tr>" for turn, why, count in facts.ledger
        )
        parts.append(
            "<h3>Losses asked</h3><table class='small'><thead><tr><th scope='col' class='number'>Round</th>"
            "<th scope='col'>For</th><th scope='col' class='number'>Rows</th></tr></thead>"
            f"<tbody>{lines}</tbody></table>"
        )
    recipe = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in facts.recipe.items())
    parts.append(f"<h3>Recipe</h3><dl class='recipe'>{recipe}<div><dt>seed</dt><dd>{text(facts.seed)}</dd></div></dl>")
    if facts.command is not None:
        parts.append(f"<h3>The same selection again, by command</h3>{_code(facts.command, 'command')}")
    if facts.code is not None:
        parts.append(f"<h3>The same selection again, in Python</h3>{_code(facts.code.rstrip(), 'python')}")
    return "".join([*parts, "</section>"])


def _left_out(facts: Facts) -> str:
    if not facts.left_out:
        return ""
    lines = "".join(f"<li><strong>{text(name)}</strong>: {text(why)}</li>" for name, why in facts.left_out)
    return (
        "<section id='left-out' aria-labelledby='left-title'><h2 id='left-title'>What is not here</h2>"
        f"<ul>{lines}</ul></section>"
    )


def _code(content: str, kind: str) -> str:
    return (
        f"<div class='code'><pre class='{kind}' tabindex='0'><code>{text(content)}</code></pre>"
        "<button type='button' class='copy' hidden>Copy</button></div>"
    )


def _origin(name: str) -> str:
    words = {
        "given": "were given",
        "center": "are centers",
        "pilot": "were in the pilot",
        "drawn": "were drawn after it",
    }
    return words[name]


def _any_loss(facts: Facts) -> bool:
    return any(row.loss is not None for row in facts.listed[:HEAVIEST])


def _row_name(row: Row) -> str:
    return f"{row.row:,}" if row.name is None else f"<bdi>{text(row.name[:80])}</bdi>"


def _cell(content: str) -> str:
    return f"<td class='number'>{text(content)}</td>"


def number(value: float | None) -> str:
    """Return a number with as many digits as a reader wants.

    >>> number(12345.6), number(0.012345), number(3.0), number(None)
    ('12,346', '0.0123', '3', '')
    """
    if value is None or not np.isfinite(value):
        return ""
    if value != 0 and (abs(value) >= 1e9 or abs(value) < 1e-4):
        return f"{value:.3g}"
    if abs(value) >= 1000 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")


def text(value: object) -> str:
    """Return anything for markup: escaped, without control characters."""
    return escape(NOTHING.sub("\ufffd", str(value)), quote=True)
