"""The sections of a page about a selection as markup, with all texts of users escaped."""

from __future__ import annotations

from collections.abc import Iterable

from coresift.notebook import counted
from coresift.reporting import details
from coresift.reporting.facts import Facts, Row
from coresift.reporting.layout import KeyFigure, end, head, listing, paragraph, section, steps
from coresift.reporting.markup import code_block, number, number_cell, text
from coresift.reporting.pictures import bars

HEAVIEST = 12


def sections(facts: Facts) -> Iterable[str]:
    """Yield the parts of the page's body; a part without input is empty."""
    yield _head(facts)
    yield '<main id="main">'
    yield _map(facts)
    yield details.representatives(facts)
    yield _weights(facts)
    yield details.losses(facts)
    yield details.clusters(facts)
    yield details.classes(facts)
    yield section("sure", "How sure is this?", listing(_how_sure(facts)))
    yield steps(_next(facts))
    yield _making(facts)
    yield _left_out(facts)
    yield "</main>"
    yield end()


def _head(facts: Facts) -> str:
    cover = facts.clusters is not None and facts.clusters.cover
    links = [
        ("map", "Map", facts.map),
        ("representatives", "Representatives", cover),
        ("weights", "Weights", facts.weights),
        ("losses", "Losses", facts.loss_by_distance or facts.smoothness),
        ("clusters", "Clusters", facts.clusters and not cover),
        ("classes", "Classes", facts.coverage),
        ("sure", "How sure is this?", True),
        ("next", "What to do next", True),
        ("making", "How it was made", True),
    ]
    verdict = ""
    if facts.verdict is not None:
        sentence = facts.verdict[0].upper() + facts.verdict[1:]
        verdict = f"<p class='verdict'><strong>{text(sentence)}.</strong> {text(facts.reason or '')}</p>"
    warnings = facts.estimate.warnings if facts.estimate else ()
    remarks = "".join(paragraph(remark, "warning") for remark in warnings)
    listed = [(name, label) for name, label, there in links if there]
    return head(facts.title, summary(facts), _figures(facts), listed, verdict + remarks)


def summary(facts: Facts) -> str:
    """Return what was done, and the result, in a few plain sentences."""
    of = f"{facts.rows:,} rows"
    if facts.population < facts.rows:
        of = f"{facts.population:,} rows ({facts.rows - facts.population:,} more were excluded)"
    if facts.clusters is not None and facts.clusters.cover:
        parts = [f"{facts.selected:,} of {of} were chosen so that every row is near one of them."]
    elif facts.weights is None:
        parts = [
            f"{facts.selected:,} of {of} were chosen. This method defines no weights, so they stand only for "
            "themselves."
        ]
    else:
        parts = [f"{facts.selected:,} rows were selected from {of}. With their weights, they stand for all of them."]
    asked = (
        "No loss was asked"
        if not facts.asked
        else f"{counted(facts.asked, 'loss', 'losses')} {'was' if facts.asked == 1 else 'were'} asked"
    )
    if facts.asked or facts.weights is not None:
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


def _figures(facts: Facts) -> list[KeyFigure]:
    share = f"{facts.selected / facts.population:.1%}" if facts.population else ""
    figures = [("Selected", f"{facts.selected:,}", f"of {facts.population:,} rows, {share}")]
    reasons = ", ".join(f"{count:,} {reason}" for _, reason, count in facts.ledger)
    if facts.asked or facts.weights is not None:
        figures.append(("Losses asked", f"{facts.asked:,}", reasons or "none"))
    if facts.estimate is not None:
        total, mean = facts.estimate.total, facts.estimate.mean
        figures.append(("Total loss", number(total.value), f"{number(total.low)} to {number(total.high)}"))
        figures.append(("Mean loss", number(mean.value), f"{number(mean.low)} to {number(mean.high)}"))
    if facts.weights is not None:
        figures.append(("Effective sample size", f"{facts.weights.effective:,.0f}", "rows of equal weight"))
    if facts.clusters is not None and facts.clusters.cover:
        most = max(facts.clusters.size)
        figures.append(("Largest representative", f"{most:,.0f}", "rows that one row stands for"))
    if facts.coverage is not None:
        uniform = f"a uniform sample covers about {facts.coverage.uniform_covers:,.1f}"
        figures.append(("Classes covered", f"{facts.coverage.covered:,} of {len(facts.coverage.names):,}", uniform))
    return figures


def _map(facts: Facts) -> str:
    if facts.map is None:
        return ""
    captured = f"{facts.map['captured']:.0%}"
    listed = len(facts.listed)
    dots = "a selected row" if listed == facts.selected else f"one of the {listed:,} rows with the largest weights"
    cover = facts.clusters is not None and facts.clusters.cover
    middles = "the center of a cluster" if facts.clusters and facts.clusters.exact else "about the middle of a cluster"
    diamonds = f"; each diamond is {middles}" if facts.clusters and not cover else ""
    weighted = ", and a larger dot stands for more rows" if facts.weights is not None or cover else ""
    opened = "the rows that it stands for" if cover else "its cluster"
    return (
        "<section id='map' aria-labelledby='map-title'><h2 id='map-title'>Map</h2>"
        f"<p>All rows on their two principal axes, which show {captured} of the variance. The shading shows how many "
        f"rows are in each place. Each dot is {dots}{weighted}{diamonds}. Point at a dot to see its row"
        f"{f', and click it to see {opened}' if facts.clusters else ''}.</p>"
        "<div class='map'><div class='stage'>"
        "<canvas id='picture' width='1200' height='900' tabindex='0' role='application' "
        "aria-label='Map of the rows. Arrow keys step through the rows, largest weights first. Enter opens the "
        "cluster, plus and minus zoom, and Escape goes back.' aria-describedby='found'></canvas>"
        "<canvas id='marks' width='1200' height='900' aria-hidden='true'></canvas>"
        "<div class='tools'><button type='button' id='closer' aria-label='Zoom in'>+</button>"
        "<button type='button' id='farther' aria-label='Zoom out'>−</button>"
        "<button type='button' id='whole'>All</button></div>"
        "<div id='hint' role='status' hidden></div></div>"
        "<aside id='map-panel' aria-live='polite'></aside></div></section>"
    )


def _weights(facts: Facts) -> str:
    weights = facts.weights
    if weights is None:
        return ""
    half = counted(weights.half, "row")
    lines = "".join(_heavy_line(facts, row) for row in facts.listed[:HEAVIEST])
    loss = "<th scope='col' class='number'>Loss</th>" if _any_loss(facts) else ""
    words = "<th scope='col'>Text</th>" if facts.texts else ""
    return section(
        "weights",
        "Weights",
        "<div class='pair'>"
        f"<figure>{bars(weights.histogram, 'weight')}<figcaption>Weights of the selected rows</figcaption></figure>"
        f"<figure>{bars(weights.inclusion, 'probability')}"
        "<figcaption>The probability with which each row was drawn in its phase</figcaption></figure></div>"
        f"<p>A row's weight is the number of rows that it stands for. The weights range from {number(weights.least)} "
        f"to {number(weights.largest)} with a median of {number(weights.median)}, and they add up to "
        f"{weights.total:,.0f}. The {half} with the largest weights carry half of that.</p>"
        f"<p><strong>Effective sample size.</strong> {_effective(facts)}</p>"
        "<p><strong>Why a weight is not one over its probability.</strong> A row has two chances to be selected: in "
        "the pilot, and if the pilot did not take it, in the draw that follows. The probability shown is that of the "
        "phase that took the row, given what happened before. The weights are such that the expected weight of every "
        "row, over both phases, is exactly 1. That keeps totals unbiased.</p>"
        "<h3>The largest weights</h3><div class='wide' tabindex='0' role='group' "
        f"aria-label='Table'><table><thead><tr><th scope='col'>Row</th><th scope='col' class='number'>Weight</th><th "
        f"scope='col' class='number extra'>Probability in its phase</th><th scope='col' class='extra'>How it was "
        f"selected</th>{loss}{words}</tr></thead><tbody>{lines}</tbody></table></div>",
    )


def _effective(facts: Facts) -> str:
    weights = facts.weights
    assert weights is not None
    return (
        f"{facts.selected:,} rows with unequal weights are worth about {weights.effective:,.0f} rows of equal weight, "
        "by (Σw)²/Σw². That holds for numbers that are unrelated to the weights. If rows with small weights have large "
        "losses, as the draw intends, the estimate is more precise than that."
    )


def _heavy_line(facts: Facts, row: Row) -> str:
    kind = " class='number'" if row.name is None else ""  # a row number must not break into two lines
    cells = [f"<th scope='row'{kind}>{_row_name(row)}</th>", number_cell(number(row.weight))]
    cells.append(f"<td class='number extra'>{number(row.inclusion)}</td>")
    cells.append(f"<td class='extra'>{text(row.origin)}</td>")
    if _any_loss(facts):
        cells.append(number_cell("" if row.loss is None else number(row.loss)))
    if facts.texts:
        cells.append(f"<td class='text' dir='auto'>{text(facts.texts.get(row.row, ''))}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _how_sure(facts: Facts) -> list[str]:
    if facts.weights is None:
        return [
            "These rows were chosen, not drawn at random, so they give no interval. To estimate a total or a share "
            "over all rows, use cs.evaluate or cs.select, which draw with known probabilities."
        ]
    estimate = facts.estimate
    if estimate is None:
        return [
            "Weighted totals over these rows are unbiased for any numbers that do not depend on the draw. Pass the "
            "numbers of all selected rows to cs.estimate to get totals and means with intervals."
        ]
    sentences = [
        f"Over many draws, about {100 * estimate.confidence:g}% of such intervals contain the true total.",
        "The interval cannot account for kinds of rows that were never sampled. If a few rows carry the total, there "
        "is a warning at the top of this page.",
    ]
    return sentences


def _next(facts: Facts) -> list[tuple[str, str]]:
    if facts.weights is None:
        return [
            ("Label or train on these rows", 'cs.save(selection, "chosen.csv", table=table)'),
            ("Choose again, important rows first", "cs.cover(rows, budget, importance=scores)"),
        ]
    advice = [("Estimate any other number over all rows", "cs.estimate(selection, values_of(selection.ids))")]
    if facts.growth is not None:
        advice.append(
            (
                "Narrow the intervals: add rows and keep all answers. Twice the rows give about 0.7 of the width",
                facts.growth,
            )
        )
    advice.append(("Save the rows with their weights", 'cs.save(selection, "picked.csv", table=table)'))
    return advice


def _making(facts: Facts) -> str:
    parts = ["<section id='making' aria-labelledby='making-title'><h2 id='making-title'>How it was made</h2>"]
    origins = facts.origins if facts.weights is not None else {"given": facts.origins.get("given", 0)}
    listed = ", ".join(f"{count:,} {_origin(name)}" for name, count in origins.items() if count)
    parts.append(f"<p>Of the selected rows, {text(listed)}.</p>" if listed else "")
    if facts.ledger:
        lines = "".join(
            f"<tr>{number_cell(f'{turn}')}<td>{text(why)}</td>{number_cell(f'{count:,}')}</tr>"
            for turn, why, count in facts.ledger
        )
        parts.append(
            "<h3>Losses asked</h3><table class='small'><thead><tr><th scope='col' class='number'>Round</th>"
            "<th scope='col'>For</th><th scope='col' class='number'>Rows</th></tr></thead>"
            f"<tbody>{lines}</tbody></table>"
        )
    recipe = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in facts.recipe.items())
    parts.append(f"<h3>Recipe</h3><dl class='recipe'>{recipe}<div><dt>seed</dt><dd>{text(facts.seed)}</dd></div></dl>")
    if facts.command is not None:
        parts.append(f"<h3>Repeat this selection on the command line</h3>{code_block(facts.command, 'command')}")
    if facts.code is not None:
        parts.append(f"<h3>Repeat this selection in Python</h3>{code_block(facts.code.rstrip(), 'python')}")
    return "".join([*parts, "</section>"])


def _left_out(facts: Facts) -> str:
    if not facts.left_out:
        return ""
    lines = "".join(f"<li><strong>{text(name)}</strong>: {text(why)}</li>" for name, why in facts.left_out)
    return (
        "<section id='left-out' aria-labelledby='left-title'><h2 id='left-title'>What is not here</h2>"
        f"<ul>{lines}</ul></section>"
    )


def _origin(name: str) -> str:
    words = {
        "given": "were given",
        "center": "are centers",
        "pilot": "were in the pilot",
        "drawn": "were drawn after the pilot",
    }
    return words[name]


def _any_loss(facts: Facts) -> bool:
    return any(row.loss is not None for row in facts.listed[:HEAVIEST])


def _row_name(row: Row) -> str:
    return f"{row.row:,}" if row.name is None else f"<bdi>{text(row.name[:80])}</bdi>"
