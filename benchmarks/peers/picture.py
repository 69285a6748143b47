"""A plot of all jobs: one bar per tool with its error, relative to a well-known tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from benchmarks.peers.report import MEASURES, OURS, RELATIVE, Line, Quality, relative

COLUMNS, PANEL, GAP = 2, 470, 40
NAMES, BARS, LINE, TOP = 206, 176, 20, 48
STYLE = """
svg { --ink: #24292f; --soft: #57606a; --ours: #0f766e; --other: #b3bcc4; --paper: #ffffff; background: var(--paper); }
@media (prefers-color-scheme: dark) {
  svg { --ink: #d7dde3; --soft: #9aa4ad; --ours: #2dd4bf; --other: #4b555e; --paper: #14181c; }
}
text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: var(--ink); }
.job { font-size: 15px; font-weight: 600; }
.soft { fill: var(--soft); }
.ours { fill: var(--ours); font-weight: 600; }
.other { fill: var(--other); }
.one, .error { stroke: var(--soft); stroke-width: 1; }
.one { stroke-dasharray: 3 3; }
"""


def write_picture(lines: Sequence[Line], path: Path) -> None:
    """Write the plot of the runs."""
    path.write_text(picture({job: relative(lines, job) for job in MEASURES}), encoding="utf-8")


def picture(jobs: Mapping[str, Mapping[str, Quality]]) -> str:
    """Return the plot: one panel per job, the shortest bar first."""
    competing = {job: _competing(tools) for job, tools in jobs.items() if tools}
    panels = [(_panel(job, tools), TOP + LINE * len(tools) + 16) for job, tools in competing.items()]
    heights = [0.0] * COLUMNS
    parts = []
    for panel, height in panels:
        column = heights.index(min(heights))
        parts.append(f'<g transform="translate({column * (PANEL + GAP)} {heights[column]})">{panel}</g>')
        heights[column] += height
    width, height = COLUMNS * PANEL + (COLUMNS - 1) * GAP, max(heights, default=0)
    size = f'viewBox="0 0 {width} {height:.0f}" width="{width}" height="{height:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{STYLE}</style>{"".join(parts)}</svg>\n'


def _competing(tools: Mapping[str, Quality]) -> dict[str, Quality]:
    """Return all tools without coresift with other settings."""
    return {tool: value for tool, value in tools.items() if not tool.startswith(f"{OURS},")}


def _panel(job: str, tools: Mapping[str, Quality]) -> str:
    measure, base = RELATIVE[job]
    scale = BARS / max(mean for mean, _ in tools.values())
    parts = [f'<text x="0" y="18" class="job">{job.capitalize()}</text>']
    caption = f"{measure}, {base.split()[-1]} = 1; shorter is better"
    parts.append(f'<text x="0" y="36" class="soft">{escape(caption)}</text>')
    for rank, (tool, (mean, error)) in enumerate(sorted(tools.items(), key=lambda item: item[1][0])):
        y, kind = TOP + LINE * rank, "ours" if tool == OURS else "other"
        end, reach = NAMES + scale * mean, scale * error
        name = f'class="{kind}" ' if kind == "ours" else ""
        parts.append(f'<text {name}x="{NAMES - 8}" y="{y + 13}" text-anchor="end">{escape(tool)}</text>')
        parts.append(f'<rect class="{kind}" x="{NAMES}" y="{y + 2}" width="{scale * mean:.1f}" height="{LINE - 5}"/>')
        parts.append(f'<path class="error" d="M{end - reach:.1f} {y + 9.5}H{end + reach:.1f}"/>')
        parts.append(f'<text {name}x="{NAMES + BARS + 34}" y="{y + 13}">{mean:.2f}</text>')
    one, bottom = NAMES + scale, TOP + LINE * len(tools)
    parts.append(f'<path class="one" d="M{one:.1f} {TOP - 2}V{bottom}"/>')
    return "".join(parts)
