"""Parts of a page about a selection that need losses, clusters or classes."""

from __future__ import annotations

from coresift.notebook import counted
from coresift.reporting.axes import Axis
from coresift.reporting.facts import PERCENTILES, Facts
from coresift.reporting.layout import figure, interval_table, paragraph, section
from coresift.reporting.markup import number, number_cell, text
from coresift.reporting.pictures import scatter


def losses(facts: Facts) -> str:
    """Return how losses depend on distances."""
    smooth, by_distance = facts.smoothness, facts.loss_by_distance
    content = ""
    if by_distance is not None:
        content += figure(
            scatter(by_distance),
            "Each dot is a selected row. The line is the mean loss of all rows at that distance, by the weights.",
        )
        content += paragraph(
            "If clusters say something about the loss, a row near the center of a cluster has a loss similar to the "
            "center's."
        )
    if smooth is not None:
        heads = "".join(f"<th scope='col' class='number'>{percentile}%</th>" for percentile in PERCENTILES)
        cells = "".join(number_cell(number(value)) for value in smooth.percentiles)
        reference = "its center's" if smooth.exact else "that of the selected row nearest to its center"
        power = "distance" if smooth.z == 1 else f"distance^{smooth.z:g}"
        content += (
            f"<h3>Hölder percentiles</h3><p>How much a row's loss differs from {reference}, divided by the {power}, "
            f"from {counted(smooth.compared, 'row')}. Each percentage of all rows is below the number under it:</p>"
            f"<div class='wide' tabindex='0' role='group' aria-label='Table'><table "
            f"class='small'><thead><tr>{heads}</tr></thead><tbody><tr>{cells}</tr></tbody></table></div>"
        )
    return section("losses", "Losses and distances", content)


def representatives(facts: Facts) -> str:
    """Return what each row of a cover stands for."""
    covers = facts.clusters
    if covers is None or not covers.cover:
        return ""
    heads = [("name", "Row"), ("size", "Rows that it stands for"), ("share", "Share of all rows")]
    return section(
        "representatives",
        "Representatives",
        f"<p>Every row is near one of these {facts.selected:,}. Click a row to see some of the rows that it stands "
        "for. These numbers are not weights: totals weighted by them are biased.</p>"
        + _sortable("cluster", heads)
        + "<div id='cluster-panel' aria-live='polite'></div>",
    )


def _sortable(name: str, heads: list[tuple[str, str]]) -> str:
    """Return a table that the script fills; each heading sorts it."""
    cells = "".join(
        f"<th scope='col'{_number_class(key)}><button type='button' data-key='{key}'>{text(label)}</button></th>"
        for key, label in heads
    )
    plural = "classes" if name == "class" else "clusters"
    return (
        f"<div class='wide' tabindex='0' role='group' aria-label='Table'><table "
        f"id='{name}-table'><thead><tr>{cells}</tr></thead><tbody></tbody></table></div><button type='button' "
        f"class='more' id='more-{plural}' hidden>Show all</button>"
    )


def _number_class(key: str) -> str:
    return "" if key == "name" else " class='number'"


def clusters(facts: Facts) -> str:
    """Return the table of clusters."""
    table = facts.clusters
    if table is None or table.cover:
        return ""
    how = "Sizes and costs are exact." if table.exact else "Sizes and costs are estimated from the weights."
    heads = [
        ("number", "Cluster"),
        ("size", "Rows"),
        ("cost", "Cost"),
        ("selected", "Selected"),
        ("share", "Share of the budget"),
    ]
    if table.loss is not None:
        heads += [("loss", "Mean loss"), ("total", "Share of the total loss")]
    return section(
        "clusters",
        "Clusters",
        f"<p>{counted(len(table.number), 'cluster')}. {how} The cost is the sum of the distances to the center, "
        "to the power z. Click a heading to sort by it, and a cluster to see it.</p>"
        + _sortable("cluster", heads)
        + "<div id='cluster-panel' aria-live='polite'></div>",
    )


def classes(facts: Facts) -> str:
    """Return which classes are covered, and their mean losses."""
    coverage = facts.coverage
    if coverage is None:
        return ""
    heads = [("name", coverage.column), ("rows", "Rows"), ("selected", "Selected"), ("uniform", "A uniform sample")]
    if coverage.estimated is not None:
        heads.append(("estimated", "Rows, estimated"))
    return section(
        "classes",
        "Classes",
        f"<p>The selection covers {coverage.covered:,} of {counted(len(coverage.names), 'class', 'classes')}; a "
        f"uniform sample of the same size covers {coverage.uniform_covers:,.1f} on average.</p>"
        + _class_losses(facts)
        + "<h3>How many rows of each class</h3>"
        + _sortable("class", heads),
    )


def _class_losses(facts: Facts) -> str:
    coverage = facts.coverage
    if coverage is None or not coverage.losses:
        return ""
    # A few very wide intervals would make all others too small to see; they end at the edge.
    highs = sorted(mean.high for _, _, mean in coverage.losses)
    most = max(highs[int(0.9 * (len(highs) - 1))], *(mean.value for _, _, mean in coverage.losses))
    axis = Axis.around("mean loss", [min(mean.low for _, _, mean in coverage.losses), most], zero=True)
    lines = [(name, mean.value, mean.low, mean.high, [f"{count:,}"]) for name, count, mean in coverage.losses]
    shown = [f"{number(mean.value)} ({number(mean.low)} to {number(mean.high)})" for _, _, mean in coverage.losses]
    mark = facts.estimate.mean.value if facts.estimate is not None else None
    heads = [coverage.column, "Mean loss, 95% interval", "Rows selected"]
    note = (
        "<h3>Mean loss of each class</h3><p>The largest classes with at least two selected rows. The dashed line is "
        "the mean of all rows. Intervals from a handful of rows are wide. Each one covers with 95% by itself, not all "
        "of them together.</p>"
    )
    return f"{note}{interval_table(heads, lines, axis, mark, shown)}"
