"""The time of ten rounds (Algorithm 3), compared with one clustering with as many centers and the same seeding.

    python -m benchmarks.rounds                     200,000 × 128, 10 × 200 centers, about two minutes
    python -m benchmarks.rounds --rows 20000        fewer rows (printed, not written)

*One clustering* draws all centers by D^z sampling at once, and assigns every row to its nearest center. *Rounds* asks
for 200 centers at a time, and draws a selection of 2,000 rows after each round. The methods take turns, and the
shortest of several times counts. The limit is the time of the matrix product in one assignment. Writes
`results/rounds.json` and `results/rounds.md`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.measuring import limit, side_by_side, write_rows
from coresift.clustering.prefix import Prefix, Sampling
from coresift.progress import Progress

RESULTS = Path(__file__).parent / "results"
ROUNDS, CLUSTERS, BUDGET, TIMES = 10, 200, 2_000, 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dimension", type=int, default=128)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        write_rows(path, arguments.rows, arguments.dimension)
        figures = measure(cs.open_rows(np.load(path).astype(np.float32)))
    print(json.dumps(figures, indent=1))
    if arguments.rows == parser.get_default("rows"):
        (RESULTS / "rounds.json").write_text(json.dumps(figures, indent=1) + "\n")
        (RESULTS / "rounds.md").write_text(table(figures))


def measure(rows: cs.rows.Rows) -> dict[str, Any]:
    losses = 0.1 + np.abs(np.sin(np.arange(rows.n)))
    paper = {"score": cs.scores.Sensitivity(holder=0.1)}
    times = side_by_side(
        {
            "limit": lambda: limit(rows.n, ROUNDS * CLUSTERS, rows.d),
            "one clustering": lambda: one_clustering(rows, ROUNDS * CLUSTERS),
            "rounds, a given Λ": lambda: ten_rounds(rows, losses, **paper),
            "rounds, Λ estimated for free": lambda: ten_rounds(rows, losses),
        },
        times=TIMES,
    )
    return {"rows": rows.n, "dimension": rows.d, "rounds": ROUNDS, "clusters": CLUSTERS, "seconds": times}


def one_clustering(rows: cs.rows.Rows, k: int) -> cs.Clustering:
    """Draw all centers at once, by the seeding that the rounds use."""
    prefix = Prefix(rows, 2.0, Sampling(np.random.default_rng(0)), np.ones(rows.n, np.bool_))
    with cs.engines.Local().open(Progress()) as workers:
        prefix.grow(k, workers, Progress())
    return prefix.clustering(0, normalized=False)


def ten_rounds(rows: cs.rows.Rows, losses: np.ndarray, **parts: Any) -> None:
    run = cs.rounds(rows, losses, BUDGET, CLUSTERS, ROUNDS, **parts)
    for selection in run:
        assert selection.multiplicity.sum() == BUDGET
    assert run.ledger.asked == ROUNDS * CLUSTERS


def table(figures: dict[str, Any]) -> str:
    times = figures["seconds"]
    base = times["one clustering"]
    lines = [f"| {name} | {seconds:.2f} | {seconds / base:.2f} |" for name, seconds in times.items()]
    k = figures["rounds"] * figures["clusters"]
    return "\n".join(
        [
            "# Rounds",
            "",
            f"{figures['rows']:,} × {figures['dimension']} rows: {figures['rounds']} rounds with {figures['clusters']}",
            f"centers each, compared with one clustering with {k:,} centers and the same seeding. Times are the",
            f"shortest of {TIMES}.",
            "",
            "| method | seconds | × one clustering |",
            "|---|---|---|",
            *lines,
            "",
        ]
    )


if __name__ == "__main__":
    main()
