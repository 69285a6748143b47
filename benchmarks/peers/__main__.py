"""Compare coresift with other tools on five jobs: same data, same budget, one thread.

    python -m benchmarks.peers                             all jobs, 10 to 200 seeds each
    python -m benchmarks.peers --jobs label --seeds 1      one job, one seed
    python -m benchmarks.peers --python PATH [PATH ...]    interpreters that have the other tools, tried in this order
    python -m benchmarks.peers --report                    only write the table and the plot, from the stored runs

Install the other tools in three environments: `pip install apricot-select coreax faiss-cpu kmedoids ppi-python
scikit-activeml scikit-learn semhash small-text` in the first, `pip install modAL-python 'scikit-learn<1.6'` in the
second, and `pip install glide-py` in the third, which needs Python 3.12 or newer. Each tool runs in its own process.
Each run is a line of `results/peers.jsonl` and is not repeated. If a tool is not installed or fails, the line has the
error, and the next call tries again. At the end, `results/peers.md` and the plot are written. `benchmarks.peers.data`
describes the data; data sets that are not available are skipped.

| job | quality |
|---|---|
| label | accuracy on other rows of a logistic regression trained on the chosen rows |
| evaluate | error of the estimated accuracy of a model |
| summarize | relative error of the estimated total loss; each seed has another model and other rows |
| cover | mean distance of all rows to the nearest chosen row |
| cluster | mean squared distance of all rows to the nearest center |
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.keeping import append, read
from benchmarks.peers.child import CPU_LIMIT
from benchmarks.peers.data import BUDGETS, MAKERS, OUTSIDE, available, images_path
from benchmarks.peers.picture import write_picture
from benchmarks.peers.report import write_report
from benchmarks.peers.tools import FIXED, JOBS

RESULTS = Path(__file__).parent.parent / "results"
RUNS_FILE = RESULTS / "peers.jsonl"
# Errors of estimates vary more between seeds than the other measures, and evaluations are cheap.
SEEDS = {"label": 10, "evaluate": 200, "summarize": 200, "cover": 10, "cluster": 10}
# Data that coresift was tuned on gets fewer seeds, and so do slow tools.
FEWER = {("label", "questions"): 3, ("summarize", "questions"): 10}
SLOW = dict.fromkeys(("coreax, herding", "coreax, herding and weights", "apricot", "scikit-learn, KMeans"), 30)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
ONE_THREAD |= {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}

Facts = dict[str, Any]


class Case(NamedTuple):
    """One tool, job and data set."""

    job: str
    data: str
    tool: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="+", default=list(JOBS), choices=list(JOBS))
    parser.add_argument("--data", nargs="+", default=list(OUTSIDE), choices=list(OUTSIDE))
    parser.add_argument("--seeds", type=int, help="at most this many seeds per job")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters that have the other tools")
    parser.add_argument("--report", action="store_true", help="only write the table and the plot")
    options = parser.parse_args()
    lines = read(RUNS_FILE)
    if not options.report:
        for line in run_missing(lines, cases(options.jobs, options.data, options.seeds), options.python):
            lines.append(line)
            append(RUNS_FILE, line)
        print(f"{cpu_seconds():.0f} seconds of CPU time", flush=True)
    write_report(lines, RESULTS / "peers.md")
    write_picture(lines, RESULTS / "peers.svg")


def run_missing(lines: Sequence[Facts], runs: Iterable[tuple[Case, range]], pythons: list[str]) -> Iterator[Facts]:
    """Yield the missing runs, or errors; after an error, the tool is not tried again on the same data."""
    done = {(Case(line["job"], line["data"], line["tool"]), line["seed"]) for line in lines if "error" not in line}
    failed = set()
    for case, seeds in runs:
        missing = [seed for seed in seeds if (case, seed) not in done]
        if missing and case not in failed:
            results = try_all(case, missing, pythons)
            if any("error" in facts for facts in results):
                failed.add(case)
            yield from ({**case._asdict(), **facts} for facts in results)
            print(*case, f"{len(results)} seeds, {cpu_seconds():.0f} s", results[-1], flush=True)


def cases(jobs: Sequence[str], data: Sequence[str], most: int | None) -> Iterator[tuple[Case, range]]:
    """Yield all cases and their seeds."""
    for name in (name for name in data if not available(name)):
        print(f"{name} is skipped, because {images_path()} does not exist; set CORESIFT_DATA to another folder.")
    for job in jobs:
        for name in (name for name in BUDGETS[job] if name in data and available(name)):
            for tool in JOBS[job]:
                limits = [SEEDS[job], FEWER.get((job, name), SEEDS[job]), SEEDS[job] if most is None else most]
                if tool in SLOW:
                    limits.append(SLOW[tool])
                if tool in FIXED and job == "cover":
                    limits.append(1)
                yield Case(job, name, tool), range(min(limits))


def try_all(case: Case, seeds: list[int], pythons: list[str]) -> list[Facts]:
    """Run with the first interpreter that works; if none does, return the error of the first that has the tool."""
    errors: list[list[Facts]] = []
    for python in [sys.executable] if case.tool.startswith("coresift") else pythons:
        results = run_tool(case, seeds, python)
        if "error" not in results[0]:
            return results
        errors.append(results)
    return next((results for results in errors if "ModuleNotFoundError" not in results[0]["error"]), errors[0])


def run_tool(case: Case, seeds: list[int], python: str) -> list[Facts]:
    """Run a tool in its own process, and judge its results."""
    data, judge = MAKERS[case.job](case.data, seeds)
    budget = BUDGETS[case.job][case.data]
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "data.npz", Path(folder) / "out.npz"
        np.savez(source, **data)
        command = [python, "-m", "benchmarks.peers.child", case.job, case.tool, str(budget)]
        command += [",".join(map(str, seeds)), str(source), str(out)]
        process = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
        if process.returncode == -signal.SIGXCPU:
            return [{"seed": seeds[0], "error": f"took more than {CPU_LIMIT} seconds of CPU time"}]
        results: list[Facts] = [json.loads(line) for line in process.stdout.splitlines() if line.startswith('{"seed"')]
        if not results or not out.exists():
            return [{"seed": seeds[0], "error": (process.stderr.strip().splitlines() or ["no output"])[-1][:200]}]
        with np.load(out) as file:
            for facts in (facts for facts in results if "error" not in facts):
                prefix = f"{facts['seed']} "
                arrays = {name.removeprefix(prefix): file[name] for name in file.files if name.startswith(prefix)}
                facts.update(judge(arrays, budget, facts["seed"]))
        return results


def environment() -> dict[str, str]:
    """Return the environment of every tool: one thread, and compiled imports are cached."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return inherited | ONE_THREAD


def cpu_seconds() -> float:
    """Return the CPU time of this process and its children."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


if __name__ == "__main__":
    main()
