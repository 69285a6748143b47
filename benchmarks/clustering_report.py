"""The report of the clustering benchmark: a page of tables, and a plot of how time grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Facts = dict[str, Any]


def write_report(sections: dict[str, list[Facts]], folder: Path) -> None:
    """Write `clustering.md` and, if growth was measured, `clustering_growth.svg`."""
    small = ("kernel", "clustering", "sentences", "cifar", "texts", "mixtures")
    facts = [fact for name in small for fact in sections.get(name, [])]
    tables = {
        kernel: [fact for fact in facts if "methods" not in fact],
        clustering: [fact for fact in facts if "methods" in fact],
        paper: sections.get("paper", []),
        growth: sections.get("growth", []),
    }
    text = "\n".join(write(facts) for write, facts in tables.items() if facts)
    title = "# Clustering: speed, cost and memory on two cores"
    (folder / "clustering.md").write_text(f"{title}\n\n{machines(sections)}\n\n{text}")
    if "growth" in sections:
        plot(sections["growth"], folder / "clustering_growth.svg")


def machines(sections: dict[str, list[Facts]]) -> str:
    """Say which sections were measured on which processor; ratios depend on it."""
    names: dict[str, list[str]] = {}
    for section, facts in sections.items():
        for machine in sorted({fact.get("machine", "another machine, with an earlier version") for fact in facts}):
            names.setdefault(machine, []).append(f"`{section}`")
    return "Measured by section: " + "; ".join(f"{', '.join(names[name])} on {name}" for name in names) + "."


def table(title: str, head: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    rule = ("---",) * len(head)
    return f"## {title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *lines))


def kernel(facts: list[Facts]) -> str:
    lines = [
        (
            fact["case"],
            f"{fact['n']:,} × {fact['d']}",
            f"{fact['ratio']:.3f}",
            f"{fact['choice']:.3f}" if "choice" in fact else "",
            f"{fact['processor']:.3f}" if "processor" in fact else "",
            f"{fact['inflation']:+.2%}" if "inflation" in fact else "",
            fact.get("search", ""),
        )
        for fact in facts
    ]
    head = ("case", "rows", "× limit", "choosing the search, × limit", "both by processor time", "added cost", "search")
    return table("One assignment to 4,500 given centers", head, lines)


def clustering(facts: list[Facts]) -> str:
    lines = []
    for fact in facts:
        ours = fact["methods"][0]
        for method in fact["methods"]:
            lines.append(
                (
                    f"{fact['case']}, {fact['n']:,} × {fact['d']}, k={fact['k']:,}",
                    method["method"],
                    f"{method['seconds']:.2f}",
                    f"{method['seconds'] / fact['limit']:.1f}",
                    f"{ours['seconds'] / method['seconds']:.4f}",
                    f"{method['processor'] / fact['limit_processor']:.1f}" if "processor" in method else "",
                    f"{ours['processor'] / method['processor']:.4f}" if "processor" in method else "",
                    f"{ours['free'] / method['free']:.4f}",
                    f"{ours['snapped'] / method['snapped']:.4f}",
                )
            )
    ratios = (
        "our time / its time",
        "processor × limit",
        "ours / its processor time",
        "our cost / its cost",
        "our snapped cost / its snapped cost",
    )
    return table("Complete clusterings", ("rows", "method", "seconds", "× limit", *ratios), lines)


def large(title: str, facts: list[Facts]) -> str:
    lines = [
        (
            f"{fact['n']:,} × {fact['d']}",
            f"{fact['k']:,}",
            f"{fact['selected']:,}" if "selected" in fact else "",
            f"{fact['seconds']:.1f}",
            f"{fact['ratio']:.3f}",
            f"{fact['peak_gb']:.2f}",
            f"{fact['inflation']:+.2%}" if "inflation" in fact else "",
        )
        for fact in facts
    ]
    head = ("rows, float16 file", "k", "selected", "seconds", "× limit", "peak anonymous GB", "added cost")
    return table(title, head, lines)


def paper(facts: list[Facts]) -> str:
    return large("At the paper's scale", facts)


def growth(facts: list[Facts]) -> str:
    text = large("Growth", facts)
    for name in ("n", "k"):
        text += f"\nTime grows as {name}^{exponent(facts, name):.2f}.\n"
    return text + "\n![time and memory against n and k](clustering_growth.svg)\n"


def exponent(facts: list[Facts], name: str) -> float:
    """Return the slope of log time against log n or log k."""
    series = [fact for fact in facts if fact["against"] == name]
    sizes, times = ([fact[key] for fact in series] for key in (name, "seconds"))
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def plot(facts: list[Facts], path: Path) -> None:
    import matplotlib  # noqa: PLC0415

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "coresift"  # the same figures give the same file
    from matplotlib import pyplot  # noqa: PLC0415

    figure, panels = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for panel, name, value in zip(panels, ("n", "k", "n"), ("seconds", "seconds", "peak_gb"), strict=True):
        series = [fact for fact in facts if fact["against"] == name]
        sizes = [fact[name] for fact in series]
        panel.loglog(sizes, [fact[value] for fact in series], "o-", label="coresift")
        if value == "seconds":
            limits = [fact["limit"] for fact in series]
            panel.loglog(sizes, limits, "--", color="gray", label="the limit: one exact pass")
            panel.legend()
            panel.set_title(f"exponent {exponent(facts, name):.2f}")
        else:
            panel.set_yscale("linear")
            panel.set_ylim(0)
        panel.set_xlabel("rows" if name == "n" else "centers")
        panel.set_ylabel("seconds" if value == "seconds" else "peak anonymous GB")
    figure.savefig(path, metadata={"Date": None})
