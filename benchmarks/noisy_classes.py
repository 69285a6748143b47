"""Is active learning's own model better than one of random rows where classes are few and noisy?

    python -m benchmarks.noisy_classes              do the missing runs and write the table
    python -m benchmarks.noisy_classes --report     only write the table

The classes of a data set are merged into two or three at random, and a part of the training labels is replaced by
random ones; test labels stay as they are. Rules for the head's penalty and for random rows in batches were chosen on
Banking77 and MNIST (seeds from 1000 on); the other problems are only reported. SST-2 is as it is.

The model of random rows is the default head, `LogisticHead()`; active learning's are `run.model`, and that of the same
run with `head=LogisticHead()`, whose penalty has the smallest held-out loss. Runs are kept in
`results/noisy_classes.jsonl`, the table in `results/noisy_classes.md`.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.active_learning import features_of
from benchmarks.features import Features
from benchmarks.keeping import Facts, append, read
from benchmarks.teaching import ONE_THREAD, uniform
from coresift.heads import LogisticHead
from coresift.learning import complete, steps

RESULTS = Path(__file__).resolve().parent / "results"
RUNS_FILE = RESULTS / "noisy_classes.jsonl"
# The data set, the number of classes it is merged into (0: its own), the share of random labels, and the budget.
CHOSEN_ON = (("banking77", 3, 0.3, 300), ("banking77", 2, 0.3, 200), ("mnist", 3, 0.5, 300))
REPORTED = (
    ("fashion-mnist", 3, 0.4, 300),
    ("fashion-mnist", 2, 0.3, 200),
    ("sst2", 0, 0.0, 300),
    ("sst2", 0, 0.3, 300),
)
SEEDS = tuple(range(1010, 1016))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", action="store_true", help="only write the table")
    options = parser.parse_args()
    runs = read(RUNS_FILE)
    done = {(*run["problem"], run["seed"]) for run in runs}
    for seed, problem in product([] if options.report else SEEDS, (*REPORTED, *CHOSEN_ON)):
        if (*problem, seed) not in done:
            runs.append(one_run(problem, seed))
            append(RUNS_FILE, runs[-1])
            print(runs[-1], flush=True)
    (RESULTS / "noisy_classes.md").write_text(to_markdown(runs))


def one_run(problem: tuple[str, int, float, int], seed: int) -> Facts:
    """Return the test accuracies of the three models, and how many rows of active learning were random."""
    start = time.process_time()
    budget, features = problem[-1], noisy(*problem[:3], seed)
    rows = uniform(features.x, features.y.__getitem__, budget, seed)
    models = {"uniform": LogisticHead().fit(features.x[rows], features.y[rows])}
    random_rows = 0
    for name, head in (("run.model", None), ("smallest loss", LogisticHead())):
        run = steps(features.x, budget, head=head, seed=seed, engine=ONE_THREAD, progress=False)
        learned = complete(run, features.y.__getitem__)
        models[name], random_rows = learned.model, learned.reasons.count("random")
    found = {name: float((model.predict(features.x_test) == features.y_test).mean()) for name, model in models.items()}
    seconds = round(time.process_time() - start, 2)
    return {"problem": problem, "seed": seed, "accuracy": found, "random": random_rows, "cpu": seconds}


def noisy(name: str, classes: int, flipped: float, seed: int) -> Features:
    """Merge classes at random, and replace a part of the training labels by random classes."""
    features, rng = features_of(name), np.random.default_rng([seed, 55])
    count = int(features.y.max()) + 1
    merged = rng.permutation(count) % classes if classes else np.arange(count)
    y = merged[features.y]
    random = rng.integers(merged.max() + 1, size=len(y))
    y = np.where(rng.random(len(y)) < flipped, random, y)
    return Features(features.x, y, features.x_test, merged[features.y_test])


def to_markdown(runs: list[Facts]) -> str:
    """Return a table of the gains over the model of random rows."""
    lines = [
        "# Few and noisy classes",
        "",
        "Test accuracy of a model of random rows, and what active learning's own model gains over it: mean ± one",
        "standard error over paired seeds. The study is described in `benchmarks/noisy_classes.py`.",
        "",
        "| problem | labels | random rows | `run.model` | penalty of the smallest loss | rows at random | seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    for problem in (*CHOSEN_ON, *REPORTED):
        own = [run for run in runs if tuple(run["problem"]) == problem]
        if own:
            name, classes, flipped, budget = problem
            base = np.array([run["accuracy"]["uniform"] for run in own])
            gains = [np.array([run["accuracy"][key] for run in own]) - base for key in ("run.model", "smallest loss")]
            cells = [f"{gain.mean():+.3f} ± {gain.std(ddof=1) / len(own) ** 0.5:.3f}" for gain in gains if len(own) > 1]
            merged = f", {classes} classes" if classes else ""
            what = f"{name}{merged}, {flipped:.0%} random labels" + ("" if problem in REPORTED else " (chosen on)")
            share = np.mean([run["random"] for run in own]) / budget
            lines.append(
                f"| {what} | {budget} | {base.mean():.3f} | " + " | ".join(cells) + f" | {share:.0%} | {len(own)} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
