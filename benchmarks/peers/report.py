"""The table of the comparison with other tools: where coresift loses comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.data import BUDGETS, TUNED

Line = Mapping[str, Any]
Runs = dict[tuple[str, str], dict[str, list[Line]]]
Quality = tuple[float, float]
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
# What the plot and the summary show, relative to a tool that everyone knows.
RELATIVE = {
    "label": ("error rate of the model", "uniform"),
    "evaluate": ("error of the accuracy", "uniform"),
    "summarize": ("error of the total", "uniform"),
    "cover": ("distance to the nearest chosen row", "uniform"),
    "cluster": ("squared distance to the center", "scikit-learn, KMeans"),
}
HEAD = """# Other tools

`python -m benchmarks.peers`: same data, same budget, one thread. Quality ± one standard error over seeds; CPU seconds
of a first call, with imports, and of later calls; peak memory of the process, interpreter and imports included.
`benchmarks/peers/data.py` describes data and budgets, and the modules beside it have every call. Defaults of coresift
were chosen on *questions*, so the summary leaves them out.

![each tool's error, job by job](peers.svg)
"""


def quality(job: str, values: Sequence[float]) -> Quality:
    """Return the quality over seeds and its standard error (0 for one seed)."""
    array = np.array(values, float)
    if job not in ERRORS:
        return float(array.mean()), float(array.std(ddof=1) / np.sqrt(array.size)) if array.size > 1 else 0.0
    mean = float(np.sqrt((array**2).mean()))
    spread = (array**2).std(ddof=1) / np.sqrt(array.size) if array.size > 1 else 0.0
    return mean, float(spread / (2 * mean)) if mean else 0.0


def verdict(tools: Mapping[str, Quality], *, higher: bool = False) -> str:
    """Say how coresift stands: best, within one standard error of the best, or behind."""
    if OURS not in tools:
        return "not run"
    sign = -1 if higher else 1
    best = min((tool for tool in tools if not _variant(tool)), key=lambda tool: sign * tools[tool][0])
    if best == OURS:
        return "best"
    gap = sign * (tools[OURS][0] - tools[best][0])
    near = gap <= np.hypot(tools[OURS][1], tools[best][1])
    return f"within one standard error of {best}" if near else f"behind {best}"


def _variant(tool: str) -> bool:
    """Say whether this is coresift with other settings, which is shown but does not compete."""
    return tool.startswith(f"{OURS},")


def grouped(lines: Sequence[Line]) -> Runs:
    """Return runs by job and data set, and tool."""
    runs: Runs = {}
    for line in lines:
        runs.setdefault((line["job"], line["data"]), {}).setdefault(line["tool"], []).append(line)
    return runs


def qualities(job: str, tools: Mapping[str, Sequence[Line]]) -> dict[str, Quality]:
    """Return the quality of each tool that did the job."""
    good = {tool: [run["quality"] for run in runs if "quality" in run] for tool, runs in tools.items()}
    return {tool: quality(job, values) for tool, values in good.items() if values}


def relative(lines: Sequence[Line], job: str) -> dict[str, Quality]:
    """Return each tool's error over that of a known tool: the geometric mean over data that nothing was tuned on.

    The standard error is that of the tool's own runs; tools that did not do the job on all data are left out.
    """
    logs: list[dict[str, Quality]] = []
    for (name, data), tools in grouped(lines).items():
        if name != job or data in TUNED:
            continue
        found = {
            tool: (1 - mean if job in HIGHER else mean, error) for tool, (mean, error) in qualities(job, tools).items()
        }
        base = found.get(RELATIVE[job][1], (0.0, 0.0))[0]
        if base:
            logs.append({tool: (float(np.log(mean / base)), error / mean) for tool, (mean, error) in found.items()})
    shared = [tool for tool in logs[0] if all(tool in part for part in logs)] if logs else []
    means: dict[str, Quality] = {}
    for tool in shared:
        mean = float(np.exp(np.mean([part[tool][0] for part in logs])))
        means[tool] = mean, mean * float(np.sqrt(sum(part[tool][1] ** 2 for part in logs))) / len(logs)
    return means


def write_report(lines: Sequence[Line], path: Path) -> None:
    """Write a summary by job, and one table per job and data set; those where coresift is behind come first."""
    parts = [_part(job, data, tools) for (job, data), tools in grouped(lines).items()]
    parts.sort(key=lambda part: _place(part[0]))
    jobs = {job: (verdict(found), found) for job in MEASURES if (found := relative(lines, job))}
    text = [
        HEAD,
        "## By job",
        "",
        "| job | error | coresift | the best other tool | verdict |",
        "|---|---|---|---|---|",
    ]
    for job, (said, found) in sorted(jobs.items(), key=lambda item: _place(item[1][0])):
        others = {tool: value for tool, value in found.items() if tool != OURS and not _variant(tool)}
        best = min(others, key=lambda tool: others[tool][0]) if others else ""
        what, base = RELATIVE[job]
        ours, other = _shown(found.get(OURS)), f"{_shown(others.get(best))} ({best})"
        text.append(f"| {job} | {what}, {base} = 1 | {ours} | {other} | {said} |")
    text += ["", "## By job and data set", ""]
    text += [f"- {title}: {said}" for said, title, _ in parts]
    path.write_text("\n".join(text + [line for _, _, table in parts for line in table]) + "\n")


def _place(said: str) -> int:
    order = ("behind", "not run", "within", "best")
    return next(place for place, word in enumerate(order) if said.startswith(word))


def _shown(value: Quality | None) -> str:
    return "" if value is None else f"{value[0]:.3f} ± {value[1]:.3f}"


def _part(job: str, data: str, tools: Mapping[str, Sequence[Line]]) -> tuple[str, str, list[str]]:
    good = {tool: [run for run in runs if "quality" in run] for tool, runs in tools.items()}
    found = qualities(job, tools)
    title = f"{job}, {BUDGETS[job].get(data, '')} {data}{' (tuned on)' if data in TUNED else ''}"
    table = ["", f"### {title[0].upper()}{title[1:]}", ""]
    table += [f"| tool | {MEASURES[job]} | CPU seconds, first | later | peak MB | seeds |", "|---|---|---|---|---|---|"]
    sign = -1 if job in HIGHER else 1
    for tool in sorted(found, key=lambda tool: sign * found[tool][0]):
        mean, error = found[tool]
        runs = good[tool]
        shown = f"{mean:.4g} ± {error:.2g}" if len(runs) > 1 and error else f"{mean:.4g}"
        first, later = (_mean(runs, "cpu_seconds", first=first) for first in (True, False))
        peaks = [run["peak_megabytes"] for run in runs if "peak_megabytes" in run]
        peak = f"{min(peaks):,.0f}" if peaks else ""  # a process of many seeds holds the rows of all of them
        table.append(f"| {tool} | {shown}{_beside(runs)} | {first} | {later} | {peak} | {len(runs)} |")
    for tool in (tool for tool in tools if tool not in found):
        table.append(f"| {tool} | failed: {tools[tool][-1]['error']} | | | | |")
    return verdict(found, higher=job in HIGHER), title, table


def _mean(runs: Sequence[Line], name: str, *, first: bool) -> str:
    values = [run[name] for run in runs if name in run and run["first"] == first]
    return f"{np.mean(values):,.2f}" if values else ""


def _beside(runs: Sequence[Line]) -> str:
    """Say what else is known: intervals of an evaluation, or how good a model of the rows that were chosen is."""
    if "accuracy" in runs[0]:
        return f"; accuracy {np.mean([run['accuracy'] for run in runs]):.3f}"
    if "covered" not in runs[0]:
        return ""
    width = np.mean([run["half_width"] for run in runs])
    return f"; half-width {width:.4f}, {sum(run['covered'] for run in runs)} of {len(runs)} intervals cover"
