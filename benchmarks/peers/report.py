"""The page of the comparison with other tools; cases where coresift is behind come first."""

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
# Jobs whose quality is the absolute value of an error, so the root mean square counts.
ERRORS = ("evaluate", "summarize")
MEASURES = {
    "label": "accuracy on other rows (higher is better)",
    "evaluate": "root mean squared error of the accuracy (lower is better)",
    "summarize": "root mean squared relative error of the total (lower is better)",
    "cover": "mean distance to the nearest chosen row (lower is better)",
    "cluster": "mean squared distance to the nearest center (lower is better)",
}
# What the plot and the summary show, relative to a well-known tool.
RELATIVE = {
    "label": ("error rate of the model", "uniform"),
    "evaluate": ("error of the accuracy", "uniform"),
    "summarize": ("error of the total", "uniform"),
    "cover": ("distance to the nearest chosen row", "uniform"),
    "cluster": ("squared distance to the center", "scikit-learn, KMeans"),
}
HEAD = """# Other tools

All tools get the same data, the same budget and one thread (`python -m benchmarks.peers`). The tables show the quality
± one standard error over seeds; the CPU seconds of the first call, with imports, and of later calls; and the peak
memory of the process, including interpreter and imports. `benchmarks/peers/data.py` describes the data and budgets, and
the modules next to it have every call. Defaults of coresift were chosen on *questions*, so the summary does not count
them.

![error of each tool, by job](peers.svg)
"""


def quality(job: str, values: Sequence[float]) -> Quality:
    """Return the quality over all seeds, and its standard error (0 for one seed)."""
    array = np.array(values, float)
    if job not in ERRORS:
        return float(array.mean()), float(array.std(ddof=1) / np.sqrt(array.size)) if array.size > 1 else 0.0
    mean = float(np.sqrt((array**2).mean()))
    spread = (array**2).std(ddof=1) / np.sqrt(array.size) if array.size > 1 else 0.0
    return mean, float(spread / (2 * mean)) if mean else 0.0


def verdict(tools: Mapping[str, Quality], *, higher: bool = False) -> str:
    """Return whether coresift is best, within one standard error of the best, or behind."""
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
    """Return whether this is coresift with other settings, which is in the tables but does not compete."""
    return tool.startswith(f"{OURS},")


def grouped(lines: Sequence[Line]) -> Runs:
    """Return runs by job and data set, then by tool."""
    runs: Runs = {}
    for line in lines:
        runs.setdefault((line["job"], line["data"]), {}).setdefault(line["tool"], []).append(line)
    return runs


def qualities(job: str, tools: Mapping[str, Sequence[Line]]) -> dict[str, Quality]:
    """Return the quality of each tool that did the job."""
    successes = {tool: [run["quality"] for run in runs if "quality" in run] for tool, runs in tools.items()}
    return {tool: quality(job, values) for tool, values in successes.items() if values}


def relative(lines: Sequence[Line], job: str) -> dict[str, Quality]:
    """Return each tool's error relative to a well-known tool: the geometric mean over data not used for tuning.

    The standard error is that of the tool's runs alone. Tools that did not do the job on all data are left out.
    """
    logs: list[dict[str, Quality]] = []
    for (name, data), tools in grouped(lines).items():
        if name != job or data in TUNED:
            continue
        errors = {
            tool: (1 - mean if job in HIGHER else mean, error) for tool, (mean, error) in qualities(job, tools).items()
        }
        base = errors.get(RELATIVE[job][1], (0.0, 0.0))[0]
        if base:
            logs.append({tool: (float(np.log(mean / base)), error / mean) for tool, (mean, error) in errors.items()})
    complete = [tool for tool in logs[0] if all(tool in ratios for ratios in logs)] if logs else []
    means: dict[str, Quality] = {}
    for tool in complete:
        mean = float(np.exp(np.mean([ratios[tool][0] for ratios in logs])))
        means[tool] = mean, mean * float(np.sqrt(sum(ratios[tool][1] ** 2 for ratios in logs))) / len(logs)
    return means


def write_report(lines: Sequence[Line], path: Path) -> None:
    """Write a summary by job, and one table per job and data set; cases where coresift is behind come first."""
    sections = [_section(job, data, tools) for (job, data), tools in grouped(lines).items()]
    sections.sort(key=lambda section: _rank(section[0]))
    jobs = {job: (verdict(errors), errors) for job in MEASURES if (errors := relative(lines, job))}
    text = [
        HEAD,
        "## By job",
        "",
        "| job | error | coresift | best other tool | verdict |",
        "|---|---|---|---|---|",
    ]
    for job, (outcome, errors) in sorted(jobs.items(), key=lambda item: _rank(item[1][0])):
        others = {tool: value for tool, value in errors.items() if tool != OURS and not _variant(tool)}
        best = min(others, key=lambda tool: others[tool][0]) if others else ""
        measure, base = RELATIVE[job]
        ours, other = _cell(errors.get(OURS)), f"{_cell(others.get(best))} ({best})"
        text.append(f"| {job} | {measure}, {base} = 1 | {ours} | {other} | {outcome} |")
    text += ["", "## By job and data set", ""]
    text += [f"- {title}: {outcome}" for outcome, title, _ in sections]
    path.write_text("\n".join(text + [line for _, _, table in sections for line in table]) + "\n")


def _rank(outcome: str) -> int:
    order = ("behind", "not run", "within", "best")
    return next(rank for rank, word in enumerate(order) if outcome.startswith(word))


def _cell(value: Quality | None) -> str:
    return "" if value is None else f"{value[0]:.3f} ± {value[1]:.3f}"


def _section(job: str, data: str, tools: Mapping[str, Sequence[Line]]) -> tuple[str, str, list[str]]:
    """Return the verdict, the title and the table of one job on one data set."""
    successes = {tool: [run for run in runs if "quality" in run] for tool, runs in tools.items()}
    measured = qualities(job, tools)
    title = f"{job}, {BUDGETS[job].get(data, '')} {data}{' (tuned on)' if data in TUNED else ''}"
    table = ["", f"### {title[0].upper()}{title[1:]}", ""]
    table += [f"| tool | {MEASURES[job]} | CPU seconds, first | later | peak MB | seeds |", "|---|---|---|---|---|---|"]
    sign = -1 if job in HIGHER else 1
    for tool in sorted(measured, key=lambda tool: sign * measured[tool][0]):
        mean, error = measured[tool]
        runs = successes[tool]
        quality_text = f"{mean:.4g} ± {error:.2g}" if len(runs) > 1 and error else f"{mean:.4g}"
        first, later = (_mean(runs, "cpu_seconds", first=first) for first in (True, False))
        peaks = [run["peak_megabytes"] for run in runs if "peak_megabytes" in run]
        peak = f"{min(peaks):,.0f}" if peaks else ""  # a process with many seeds holds the rows of all of them
        table.append(f"| {tool} | {quality_text}{_note(runs)} | {first} | {later} | {peak} | {len(runs)} |")
    for tool in (tool for tool in tools if tool not in measured):
        table.append(f"| {tool} | failed: {tools[tool][-1]['error']} | | | | |")
    return verdict(measured, higher=job in HIGHER), title, table


def _mean(runs: Sequence[Line], name: str, *, first: bool) -> str:
    values = [run[name] for run in runs if name in run and run["first"] == first]
    return f"{np.mean(values):,.2f}" if values else ""


def _note(runs: Sequence[Line]) -> str:
    """Return the other figures of a tool: its intervals, or the accuracy of a model trained on the chosen rows."""
    if "accuracy" in runs[0]:
        return f"; accuracy {np.mean([run['accuracy'] for run in runs]):.3f}"
    if "covered" not in runs[0]:
        return ""
    width = np.mean([run["half_width"] for run in runs])
    return f"; half-width {width:.4f}, {sum(run['covered'] for run in runs)} of {len(runs)} intervals cover the truth"
