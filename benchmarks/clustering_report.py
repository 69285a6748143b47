"""The clustering benchmark's figures as one page of tables, and the growth as a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Facts = dict[str, Any]


def write_report(found: dict[str, list[Facts]], folder: Path) -> None:
    """Write `clustering.md` and, if growth was measured, `clustering_growth.svg`."""
    named = ("kernel", "clustering", "sentences", "cifar", "texts", "mixtures")
    both = [fact for name in named for fact in found.get(name, [])]
    tables = {
        "kernel": [fact for fact in both if "methods" not in fact],
        "clustering": [fact for fact in both if "methods" in fact],
        "paper": found.get("paper", []),
        "growth": found.get("growth", []),
    }
    parts = {"kernel": kernel, "clustering": clustering, "paper": paper, "growth": growth}
    text = "\n".join(parts[name](facts) for name, facts in tables.items() if facts)
    (folder / "clustering.md").write_text("# Clustering: speed, cost and memory on two cores\n\n" + text)
    if "growth" in found:
        plot(found["growth"], folder / "clustering_growth.svg")


def table(title: str, head: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    rule = ("---",) * len(head)
    return f"## {title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *lines))


def kernel(found: list[Facts]) -> str:
    lines = [
        (
            fact["case"],
            f"{fact['n']:,} × {fact['d']}",
            f"{fact['ratio']:.3f}",
            f"{fact['choice']:.3f}" if "choice" in fact else "",
            f"{fact['inflation']:+.2%}" if "inflation" in fact else "",
            fact.get("search", ""),
        )
        for fact in found
    ]
    head = ("case", "rows", "× limit", "choosing the search, × limit", "cost", "search")
    return table("One assignment to 4,500 given centers", head, lines)


def clustering(found: list[Facts]) -> str:
    lines = []
    for fact in found:
        ours = fact["methods"][0]
        for method in fact["methods"]:
            lines.append(
                (
                    f"{fact['case']}, {fact['n']:,} × {fact['d']}, k={fact['k']:,}",
                    method["method"],
                    f"{method['seconds']:.2f}",
                    f"{method['seconds'] / fact['limit']:.1f}",
                    f"{ours['seconds'] / method['seconds']:.4f}",
                    f"{ours['free'] / method['free']:.4f}",
                    f"{ours['snapped'] / method['snapped']:.4f}",
                )
            )
    head = ("rows", "method", "seconds", "× limit", "ours / its time", "ours / its cost", "ours / its snapped cost")
    return table("Whole clusterings", head, lines)


def large(title: str, found: list[Facts]) -> str:
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
        for fact in found
    ]
    head = ("rows, float16 file", "k", "selected", "seconds", "× limit", "peak anonymous GB", "cost of the search")
    return table(title, head, lines)


def paper(found: list[Facts]) -> str:
    return large("Paper scale", found)


def growth(found: list[Facts]) -> str:
    text = large("Growth", found)
    for name in ("n", "k"):
        text += f"\nExponent of the time against {name}: {exponent(found, name):.2f}\n"
    return text + "\n![time and memory against n and k](clustering_growth.svg)\n"


def exponent(found: list[Facts], name: str) -> float:
    """The slope of log time against log n or log k."""
    some = [fact for fact in found if fact["against"] == name]
    return float(np.polyfit(np.log([fact[name] for fact in some]), np.log([fact["seconds"] for fact in some]), 1)[0])


def plot(found: list[Facts], path: Path) -> None:
    import matplotlib  # noqa: PLC0415

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "coresift"  # the same figures give the same file
    from matplotlib import pyplot  # noqa: PLC0415

    figure, panels = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for panel, name, value in zip(panels, ("n", "k", "n"), ("seconds", "seconds", "peak_gb"), strict=True):
        some = [fact for fact in found if fact["against"] == name]
        at = [fact[name] for fact in some]
        panel.loglog(at, [fact[value] for fact in some], "o-", label="coresift")
        if value == "seconds":
            panel.loglog(at, [fact["limit"] for fact in some], "--", color="gray", label="the limit: one exact pass")
            panel.legend()
            panel.set_title(f"exponent {exponent(found, name):.2f}")
        else:
            panel.set_yscale("linear")
            panel.set_ylim(0)
        panel.set_xlabel("rows" if name == "n" else "centers")
        panel.set_ylabel("seconds" if value == "seconds" else "peak anonymous GB")
    figure.savefig(path, metadata={"Date": None})
