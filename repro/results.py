"""The output of a reproduction: runs as JSON lines, a table, plots, and its section of the README."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError
from coresift.progress import Progress, choose, stage
from repro.data import Home
from repro.sharing import claim

Floats = NDArray[np.float64]
Entry = dict[str, Any]
Key = tuple[Any, ...]
T = TypeVar("T")

RESULTS = Path(__file__).parent / "results"
FOLDED = 35  # tables with more lines are folded on the page


@dataclass(frozen=True)
class Setting:
    """How to run a reproduction: the data folder, the folder for results, and the time limit."""

    where: Home
    out: Path = RESULTS
    quick: bool = False
    minutes: float = float("inf")
    runs: int | None = None
    started: float = field(default_factory=time.monotonic)
    progress: Progress = field(default_factory=lambda: choose(None))

    def work(self, name: str) -> Path:
        """Return a folder for large files that can be computed again: in the user's cache, or in `out`."""
        folder = (self.where.cache.parent / "repro" if self.out == RESULTS else self.out / ".work") / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def time_left(self) -> bool:
        """Return whether there is time for another run."""
        return time.monotonic() - self.started < 60 * self.minutes


@dataclass(frozen=True)
class Line:
    """One number of the paper, and ours."""

    what: str
    paper: str
    ours: str
    runs: int
    difference: str


@dataclass(frozen=True)
class Report:
    """The result of a reproduction.

    word: the verdict in one word: `YES`, `PARTLY`, `NO` or `OPEN`.
    number: the most important number, in a few words, for the page's first table.
    lines: every number, with the paper's.
    verdict: what was reproduced and what was not, in full sentences.
    plots: files.
    notes: how to read the lines; and if a claim was not reproduced, what was tried to find the cause.
    """

    word: str
    number: str
    lines: tuple[Line, ...]
    verdict: str
    plots: tuple[str, ...] = ()
    notes: str = ""


YES, PARTLY, NO, OPEN = "reproduced", "partly", "not", "open"


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper: `run` does the missing runs, and `report` writes their results.

    If there is no report, the README shows `unrun`.
    """

    name: str
    title: str
    about: str
    run: Callable[[Setting], None]
    report: Callable[[Setting], Report]
    unrun: str = "No report yet."


# ------------------------------------------------------------------ runs


class Journal:
    """Runs stored as JSON lines, each as soon as it is done; an incomplete last line is ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[Key, Entry]:
        """Return the runs by their keys."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        runs: dict[Key, Entry] = {}
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            runs[tuple(entry["key"])] = entry
        return runs

    def add(self, key: Key, entry: Entry) -> None:
        """Store a run."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        torn = self.path.exists() and self.path.read_bytes()[-1:] not in (b"", b"\n")
        with self.path.open("a") as file:
            file.write(("\n" if torn else "") + json.dumps({"key": list(key), **entry}) + "\n")

    def fill(self, setting: Setting, title: str, keys: Sequence[Key], one_run: Callable[[Key], Entry]) -> None:
        """Do the missing runs in order, as long as there is time; those that another process is at are left to it."""
        done = self.read()
        missing = [key for key in keys if key not in done]
        with stage(setting.progress, title, len(missing)):
            for key in missing:
                if not setting.time_left():
                    return
                with claim(self.path.with_suffix(".lock"), keys.index(key)) as mine:
                    if mine and key not in self.read():
                        start = time.process_time()
                        entry = one_run(key)
                        self.add(key, {**entry, "cpu_seconds": round(time.process_time() - start, 2)})
                setting.progress.advance(1)


def require_runs(results: T) -> T:
    """Return the results, or raise an error if there are none."""
    if not results:
        raise InputError("There are no runs to report yet; leave out --report, or allow more --minutes.")
    return results


# ------------------------------------------------------------------ figures


def standard_error(values: Floats) -> float:
    """Return the standard error of a mean; NaN for a single value."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else float("nan")


def degree(held: Sequence[bool]) -> str:
    """Return whether the paper's claim holds in all tests, in some or in none; without tests, it is open.

    Example:
        >>> degree([True, True]), degree([True, False]), degree([False]), degree([])
        ('reproduced', 'partly', 'not', 'open')
    """
    return OPEN if not held else YES if all(held) else PARTLY if any(held) else NO


def paired(values: Floats, base: Floats) -> tuple[float, float]:
    """Return the mean difference of paired runs and its standard error."""
    gaps = np.asarray(values) - np.asarray(base)
    return float(gaps.mean()), standard_error(gaps)


def outcome(gap: float, error: float) -> str:
    """Return how a mean difference compares with 0: it must be larger than two standard errors to count.

    Example:
        >>> outcome(0.03, 0.01), outcome(-0.03, 0.01), outcome(0.01, 0.01)
        ('better than', 'worse than', 'no different from')
    """
    return "better than" if gap > 2 * error else "worse than" if gap < -2 * error else "no different from"


def claim_and_parts(claim: str, parts: Sequence[str]) -> str:
    """Return a verdict: the claim, and a list of what the runs say about it.

    Example:
        >>> print(claim_and_parts("it holds", ["here: yes", "there: no"]))
        The claim: it holds.
        <BLANKLINE>
        - here: yes.
        - there: no.
    """
    return "\n".join([f"The claim: {claim}.", "", *(f"- {part}." for part in parts)])


def write_table(path: Path, head: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file atomically, without the last digits of numbers, which depend on the processor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    with partial.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in line] for line in lines)
    partial.replace(path)


def pyplot() -> Any:
    """Return matplotlib's pyplot, set up to write the same bytes for the same figures."""
    import matplotlib  # noqa: PLC0415

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "coresift"
    from matplotlib import pyplot as plots  # noqa: PLC0415

    return plots


def save_plot(figure: Any, path: Path) -> str:
    """Write a figure as SVG and PNG, and return the name of the SVG file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=110, metadata={"Software": None})
    pyplot().close(figure)
    return path.with_suffix(".svg").name


# ------------------------------------------------------------------ the README


def write_report(setting: Setting, experiment: Experiment, report: Report) -> None:
    """Store the result of a reproduction as JSON."""
    setting.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(asdict(report), indent=1, ensure_ascii=False)
    (setting.out / f"{experiment.name}.json").write_text(text + "\n")


def write_readme(setting: Setting, experiments: Sequence[Experiment]) -> Path:
    """Write the page about the whole paper, in this order, from the stored results."""
    usual = setting.out == RESULTS
    path = (setting.out.parent if usual else setting.out) / "README.md"
    prefix = f"{setting.out.name}/" if usual else ""
    text = ABOUT + "\n## At a glance\n\n"
    rows = [["study", "verdict", "result", "plot"], ["---"] * 4]
    sections = ""
    for experiment in experiments:
        file = setting.out / f"{experiment.name}.json"
        facts = json.loads(file.read_text()) if file.exists() else None
        verdict = ["not run", experiment.unrun, ""]
        if facts is not None:
            verdict = [facts["word"], facts["number"], _thumbnail(facts["plots"], prefix, experiment.title)]
        rows.append([f"[`{experiment.name}`](#{experiment.name})", *verdict])
        sections += f"\n## {experiment.name}\n\n{experiment.title}. {experiment.about}\n\n"
        sections += _section(facts, prefix) if facts is not None else f"{experiment.unrun}\n"
    path.write_text(text + _markdown(rows) + sections)
    return path


ABOUT = """# The paper's tables and figures, reproduced

*Data-Efficient Learning via Clustering-Based Sensitivity Sampling: Foundation Models and Beyond* (ICML 2024). From the
project's root, with `pip install -e ".[repro]"`:

    python -m repro --list               all studies, and what each costs
    python -m repro NAME                 run a study; the same command continues a stopped one, and two can share it
    python -m repro NAME --quick         a short version, in its own folder
    python -m repro NAME --data-home DIR --runs N --minutes M

A verdict is one word: *reproduced*, *partly* or *not*, or *open* if there are too few runs to tell. The section of each
study gives the evidence and, if a claim was not reproduced, what was tried to find the cause. These commands write this
page from the runs in `results/*.jsonl`. Data are read from `--data-home`, from `CORESIFT_DATA` or from the user's
cache; otherwise they are downloaded, and their checksums are verified. The Europarl pairs cannot be downloaded, because
this selection of them has no public source. Differences are ours minus the paper's, or paired by run if a line says so,
± one standard error.
"""


def _thumbnail(plots: Sequence[str], prefix: str, title: str) -> str:
    """Return a study's first plot, small, as a link to the plot itself."""
    return "".join(f'[<img src="{prefix}{plot}" width="160" alt="{title}">]({prefix}{plot})' for plot in plots[:1])


def _section(facts: dict[str, Any], prefix: str) -> str:
    rows = [["case", "paper", "ours", "runs", "difference"], ["---"] * 5]
    rows += [[str(line[name]) for name in ("what", *rows[0][1:])] for line in facts["lines"]]
    text = f"**Verdict: {facts['word']}.** {facts['verdict']}\n"
    if facts["notes"]:
        text += f"\n{facts['notes'].strip()}\n"
    for plot in facts["plots"]:
        text += f"\n![{Path(plot).stem}]({prefix}{plot})\n"
    table = _markdown(rows)
    if len(facts["lines"]) > FOLDED:
        table = f"<details>\n<summary>All {len(facts['lines'])} numbers</summary>\n\n{table}\n</details>\n"
    return f"{text}\n{table}"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in escaped)
