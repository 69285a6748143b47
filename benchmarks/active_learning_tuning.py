"""How should rounds differ? Variations of active learning's schedule on Banking77 and MNIST alone, seeds from 1000 on.

    python -m benchmarks.active_learning_tuning              do the missing runs and write the table
    python -m benchmarks.active_learning_tuning --report     only write the table

Except for the rows of Banking77 and MNIST themselves, these decisions use none of the data sets and seeds that
`benchmarks.active_learning` reports. Audits are on and count in the budget. Single runs are kept in
`results/active_learning_tuning.jsonl`, the table in `results/active_learning_tuning.md`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.active_learning import accuracy, features_of
from benchmarks.keeping import Facts, append, read
from benchmarks.teaching import ONE_THREAD, uniform
from coresift.audits import FEWEST
from coresift.learning import complete, steps
from coresift.learning.plan import Schedule

RESULTS = Path(__file__).resolve().parent / "results"
RUNS_FILE = RESULTS / "active_learning_tuning.jsonl"
PAIRS = (("banking77", 300), ("banking77", 1000), ("mnist", 500), ("mnist", 2000))
SEEDS = tuple(range(1000, 1004))
BASE = "uniform"

# Arguments of `steps`, by name. Runs with settings that are no longer here stay in the table. "All rows" is from before
# rows of negligible importance were skipped (`NEGLIGIBLE` in `facility/groups.py`).
SETTINGS: dict[str, dict[str, Any]] = {
    "factor .7": {"schedule": Schedule(widest=0.7, narrowest=0.7)},
    "factor .5": {"schedule": Schedule(widest=0.5, narrowest=0.5)},
    "factor .7 to .5": {"schedule": Schedule(widest=0.7, narrowest=0.5)},
    "factor .7, 16 rounds": {"rounds": 16, "schedule": Schedule(widest=0.7, narrowest=0.7)},
    "factor .7, first tenth": {"schedule": Schedule(first=0.1, widest=0.7, narrowest=0.7)},
    "factor .7, root": {"schedule": Schedule(widest=0.7, narrowest=0.7, power=0.5)},
    "factor .7, audit .05": {"audit": 0.05, "schedule": Schedule(widest=0.7, narrowest=0.7)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--budgets", nargs="+", type=int, default=[budget for _, budget in PAIRS])
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    options = parser.parse_args()
    runs = read(RUNS_FILE)
    if not options.report:
        pairs = [pair for pair in PAIRS if pair[1] in options.budgets]
        for run in missing({_key(run) for run in runs}, options.settings, pairs, SEEDS[: options.seeds]):
            append(RUNS_FILE, run)
            runs.append(run)
            print(run, flush=True)
    (RESULTS / "active_learning_tuning.md").write_text(to_markdown(runs))


def missing(
    done: set[tuple[str, int, str, int]], settings: list[str], pairs: list[tuple[str, int]], seeds: tuple[int, ...]
) -> Iterator[Facts]:
    """Do the missing runs, seed by seed."""
    for seed, name, (data, budget) in product(seeds, (BASE, *settings), pairs):
        if (data, budget, name, seed) in done:
            continue
        features, start = features_of(data), time.process_time()
        if name == BASE:
            ids = uniform(features.x, features.y.__getitem__, budget, seed)
        else:
            options = dict(SETTINGS[name])
            if options.get("audit", 1) * budget < FEWEST:  # too few rows for an audit
                options["audit"] = None
            run = steps(features.x, budget, seed=seed, engine=ONE_THREAD, progress=False, **options)
            ids = complete(run, features.y.__getitem__).ids
        seconds = round(time.process_time() - start, 2)
        found = accuracy(features, ids)
        yield {"data": data, "budget": budget, "setting": name, "seed": seed, "accuracy": found, "cpu": seconds}


def _key(run: Facts) -> tuple[str, int, str, int]:
    return run["data"], run["budget"], run["setting"], run["seed"]


def to_markdown(runs: list[Facts]) -> str:
    """Return a table of gains over uniform rows, with one line per setting."""
    table = {_key(run): run["accuracy"] for run in runs}
    lines = [
        "# Settings of active learning",
        "",
        "Gain in test accuracy over uniform rows, on the problems that the defaults were chosen on: mean ± one",
        "standard error over paired seeds, starting at 1000. The study is described in",
        "`benchmarks/active_learning_tuning.py`.",
        "",
        "| setting | " + " | ".join(f"{data}, {budget:,}" for data, budget in PAIRS) + " | mean | seeds |",
        "|" + "---|" * (len(PAIRS) + 3),
    ]
    for name in dict.fromkeys(run["setting"] for run in runs if run["setting"] != BASE):
        gains = [[_gain(table, data, budget, name, seed) for seed in SEEDS] for data, budget in PAIRS]
        known = [np.array([gain for gain in values if gain is not None]) for values in gains]
        mean = f"{np.mean([values.mean() for values in known]):+.4f}" if all(map(len, known)) else ""
        seeds = f"{min(map(len, known))} to {max(map(len, known))}"
        lines.append(f"| {name} | " + " | ".join(map(_cell, known)) + f" | {mean} | {seeds} |")
    return "\n".join(lines) + "\n"


def _cell(gains: NDArray[np.float64]) -> str:
    if gains.size < 2:
        return "".join(f"{gain:+.4f}" for gain in gains)
    return f"{gains.mean():+.4f} ± {gains.std(ddof=1) / gains.size**0.5:.4f}"


def _gain(table: dict[tuple[str, int, str, int], float], data: str, budget: int, name: str, seed: int) -> float | None:
    own, base = table.get((data, budget, name, seed)), table.get((data, budget, BASE, seed))
    return None if own is None or base is None else own - base


if __name__ == "__main__":
    main()
