"""The table of the comparison with other tools: where coresift loses comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Line = Mapping[str, Any]
OURS = "coresift"
HIGHER = ("label",)
# Jobs whose quality is an error of either sign: the root of the mean square counts.
ERRORS = ("evaluate", "summarize")
MEASURES = {
    "label": "accuracy on other rows (higher is better)",
    "evaluate": "root mean squared error of the accuracy (lower is better)",
    "summarize": "root mean squared relative error of the total (lower is better)",
    "cover": "mean distance to the nearest chosen row (lower is better)",
    "cluster": "mean squared distance to the nearest center (lower is better)",
}


def quality(job: str, values: Sequence[float]) -> tuple[float, float]:
    """Return the quality over seeds and its standard error (0 for one seed)."""
    array = np.array(values, float)
    if job not in ERRORS:
        return float(array.mean()), float(array.std(ddof=1) / np.sqrt(array.size)) if array.size > 1 else 0.0
    mean = float(np.sqrt((array**2).mean()))
    spread = (array**2).std(ddof=1) / np.sqrt(array.size) if array.size > 1 else 0.0
    return mean, float(spread / (2 * mean)) if mean else 0.0


def verdict(job: str, tools: Mapping[str, tuple[float, float]]) -> str:
    """Say how coresift stands: best, within one standard error of the best, or behind."""
    if OURS not in tools:
        return "not run"
    sign = -1 if job in HIGHER else 1
    best = min(tools, key=lambda tool: sign * tools[tool][0])
    if best == OURS:
        return "best"
    gap = sign * (tools[OURS][0] - tools[best][0])
    return (
        f"within one standard error of {best}" if gap <= np.hypot(tools[OURS][1], tools[best][1]) else f"behind {best}"
    )


def write_report(lines: Sequence[Line], path: Path) -> None:
    """Write one table per job and data set, those where coresift is behind first."""
    groups: dict[tuple[str, str], dict[str, list[Line]]] = {}
    for line in lines:
        groups.setdefault((line["job"], line["data"]), {}).setdefault(line["tool"], []).append(line)
    parts = [_part(job, data, tools) for (job, data), tools in groups.items()]
    order = ("behind", "not run", "within", "best")
    parts.sort(key=lambda part: next(place for place, word in enumerate(order) if part[0].startswith(word)))
    head = [
        "# Other tools",
        "",
        "`python -m benchmarks.peers`: same data, same budget, one thread. Quality ± one standard",
    ]
    head += ["error over seeds; CPU seconds of importing and calling the tool; peak memory of the process.", ""]
    head += [f"- {title}: {said}" for said, title, _ in parts]
    path.write_text("\n".join(head + [line for _, _, table in parts for line in table]) + "\n")


def _part(job: str, data: str, tools: Mapping[str, Sequence[Line]]) -> tuple[str, str, list[str]]:
    good = {tool: [run for run in runs if "quality" in run] for tool, runs in tools.items()}
    found = {tool: quality(job, [run["quality"] for run in runs]) for tool, runs in good.items() if runs}
    title = f"{job}, {data}"
    table = ["", f"## {title[0].upper()}{title[1:]}", "", f"| tool | {MEASURES[job]} | CPU seconds | peak MB | seeds |"]
    table += ["|---|---|---|---|---|"]
    sign = -1 if job in HIGHER else 1
    for tool in sorted(found, key=lambda tool: sign * found[tool][0]):
        mean, error = found[tool]
        runs = good[tool]
        seconds = np.mean([run["cpu_seconds"] for run in runs])
        peak = max(run["peak_megabytes"] for run in runs)
        shown = f"{mean:.4g} ± {error:.2g}" if len(runs) > 1 else f"{mean:.4g}"
        table.append(f"| {tool} | {shown}{_interval(runs)} | {seconds:.2f} | {peak:.0f} | {len(runs)} |")
    for tool in (tool for tool in tools if tool not in found):
        table.append(f"| {tool} | failed: {tools[tool][-1]['error']} | | | |")
    return verdict(job, found), title, table


def _interval(runs: Sequence[Line]) -> str:
    """Say how wide intervals are, and how many of them contain the truth, where a tool gives any."""
    if "covered" not in runs[0]:
        return ""
    width = np.mean([run["half_width"] for run in runs])
    return f"; half-width {width:.4f}, {sum(run['covered'] for run in runs)} of {len(runs)} intervals cover"
