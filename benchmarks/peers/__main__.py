"""Compare coresift with the tools that people use, job by job: same data, same budget, one thread.

    python -m benchmarks.peers                             all jobs, 10 to 200 seeds each
    python -m benchmarks.peers --jobs label --seeds 1      a part of it
    python -m benchmarks.peers --python PATH [PATH ...]    interpreters that have the other tools, tried in this order
    python -m benchmarks.peers --report                    only write the table and the plot again

The other tools: `pip install apricot-select coreax faiss-cpu kmedoids ppi-python scikit-activeml scikit-learn semhash
small-text` in an environment of their own, `pip install modAL-python 'scikit-learn<1.6'` in another one, and
`pip install glide-py` in a third one with Python 3.12 or newer. Each tool runs in a process of its own. A run is a line
of `results/peers.jsonl`, and runs that are there are not run again; a tool that is not installed or fails has its error
there, and is tried again. Then `results/peers.md` and the plot are written. `benchmarks.peers.data` describes the data;
those that are not here are left out.

| job | quality |
|---|---|
| label | accuracy on other rows of logistic regression on the rows chosen |
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
KEPT = RESULTS / "peers.jsonl"
# Errors of estimates vary more from seed to seed than the other qualities, and evaluations are cheap.
SEEDS = {"label": 10, "evaluate": 200, "summarize": 200, "cover": 10, "cluster": 10}
# Where coresift was tuned there is less to learn, and some tools take long.
FEWER = {("label", "questions"): 3, ("summarize", "questions"): 10}
SLOW = dict.fromkeys(("coreax, herding", "coreax, herding and weights", "apricot", "scikit-learn, KMeans"), 30)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
ONE_THREAD |= {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}

Facts = dict[str, Any]


class Case(NamedTuple):
    """A tool's job on one data set."""

    job: str
    data: str
    tool: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="+", default=list(JOBS), choices=list(JOBS))
    parser.add_argument("--data", nargs="+", default=list(OUTSIDE), choices=list(OUTSIDE))
    parser.add_argument("--seeds", type=int, help="At most this many seeds of each job.")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="Interpreters that have the other tools.")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    lines = read(KEPT)
    if not given.report:
        for line in run_missing(lines, wanted(given.jobs, given.data, given.seeds), given.python):
            lines.append(line)
            append(KEPT, line)
        print(f"{cpu_seconds():.0f} seconds of CPU time", flush=True)
    write_report(lines, RESULTS / "peers.md")
    write_picture(lines, RESULTS / "peers.svg")


def run_missing(lines: Sequence[Facts], runs: Iterable[tuple[Case, range]], pythons: list[str]) -> Iterator[Facts]:
    """Yield the runs that are not there, or errors; after an error a tool is not tried on the same data again."""
    done = {(Case(line["job"], line["data"], line["tool"]), line["seed"]) for line in lines if "error" not in line}
    failed = set()
    for case, seeds in runs:
        left = [seed for seed in seeds if (case, seed) not in done]
        if left and case not in failed:
            found = try_all(case, left, pythons)
            if any("error" in facts for facts in found):
                failed.add(case)
            yield from ({**case._asdict(), **facts} for facts in found)
            print(*case, f"{len(found)} seeds, {cpu_seconds():.0f} s", found[-1], flush=True)


def wanted(jobs: Sequence[str], data: Sequence[str], most: int | None) -> Iterator[tuple[Case, range]]:
    """Yield all cases and their seeds."""
    for name in (name for name in data if not available(name)):
        print(f"{name}: left out, since {images_path()} is not there; CORESIFT_DATA says where to look.")
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
    """Do runs with the first interpreter that can; without one, the error of the first that has the tool."""
    errors: list[list[Facts]] = []
    for python in [sys.executable] if case.tool.startswith("coresift") else pythons:
        found = do(case, seeds, python)
        if "error" not in found[0]:
            return found
        errors.append(found)
    return next((found for found in errors if "ModuleNotFoundError" not in found[0]["error"]), errors[0])


def do(case: Case, seeds: list[int], python: str) -> list[Facts]:
    """Let a tool do a job in a process of its own, and judge what it found."""
    given, judge = MAKERS[case.job](case.data, seeds)
    budget = BUDGETS[case.job][case.data]
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "data.npz", Path(folder) / "out.npz"
        np.savez(source, **given)
        words = [python, "-m", "benchmarks.peers.child", case.job, case.tool, str(budget)]
        words += [",".join(map(str, seeds)), str(source), str(out)]
        ended = subprocess.run(words, capture_output=True, text=True, env=environment(), check=False)
        if ended.returncode == -signal.SIGXCPU:
            return [{"seed": seeds[0], "error": f"took more than {CPU_LIMIT} seconds of CPU time"}]
        found: list[Facts] = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith('{"seed"')]
        if not found or not out.exists():
            return [{"seed": seeds[0], "error": (ended.stderr.strip().splitlines() or ["no output"])[-1][:200]}]
        with np.load(out) as kept:
            for facts in (facts for facts in found if "error" not in facts):
                head = f"{facts['seed']} "
                arrays = {name.removeprefix(head): kept[name] for name in kept.files if name.startswith(head)}
                facts.update(judge(arrays, budget, facts["seed"]))
        return found


def environment() -> dict[str, str]:
    """Return what every tool is run with: one thread, and imports that are compiled once."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | ONE_THREAD


def cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it started."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


if __name__ == "__main__":
    main()
