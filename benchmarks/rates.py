"""Do intervals of small rates cover the truth? Values are 0 or 1, and few are 1.

The population has 20,000 rows with a rate of 0.1 to 2 %, and samples have 200 to 2,000 rows. Probabilities are equal;
unequal and unrelated to the values; or unequal, with the positives at the rows with the lowest probabilities.
The intervals of `coresift.estimate` should cover the truth in at least 93.5 % of the draws in each cell.

    python -m benchmarks.rates                     about two minutes of one core

Writes `results/rates.json` and `results/rates.md`.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.estimation import RESULTS
from coresift.types import ORIGINS, Ledger, Provenance, WeightedSelection

ROWS = 20_000
RATES, SIZES = (0.001, 0.002, 0.005, 0.01, 0.02), (200, 500, 2_000)
KINDS = ("equal", "unequal", "positives at the lowest")
TITLES = dict(zip(KINDS, ("equal", "unequal", "unequal, positives at the lowest probabilities"), strict=True))
DESIGN = cs.designs.Systematic()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1_000)
    draws = parser.parse_args().draws
    cells = [measure(kind, rate, size, draws) for kind, rate, size in product(KINDS, RATES, SIZES)]
    text = report(cells, draws)
    print(text)
    (RESULTS / "rates.json").write_text(json.dumps(cells, indent=1) + "\n")
    (RESULTS / "rates.md").write_text(text)


def measure(kind: str, rate: float, size: int, draws: int) -> dict[str, Any]:
    """Return how often the interval of the mean covers the truth, and its mean width."""
    rng = np.random.default_rng([KINDS.index(kind), round(rate * 1e4), size])
    sizes = np.ones(ROWS) if kind == "equal" else 0.2 + rng.lognormal(sigma=1.0, size=ROWS)
    inclusion = DESIGN.inclusion(sizes / sizes.sum(), size)
    values, count = np.zeros(ROWS), round(rate * ROWS)
    candidates = np.argsort(inclusion, kind="stable")[: 2 * count] if kind == KINDS[2] else np.arange(ROWS)
    values[rng.choice(candidates, count, replace=False)] = 1.0
    covered, widths = 0, []
    for _ in range(draws):
        order = rng.permutation(ROWS)
        places, _ = DESIGN.draw(inclusion[order], rng)
        picked = selection(np.sort(order[places]), inclusion)
        mean = cs.estimate(picked, values[picked.ids]).mean
        covered += mean.low <= count / ROWS <= mean.high
        widths.append(mean.high - mean.low)
    return {"kind": kind, "rate": rate, "size": size, "covered": covered / draws, "width": float(np.mean(widths))}


def selection(ids: np.ndarray, inclusion: np.ndarray) -> WeightedSelection:
    """Return a selection with one phase, as baselines do."""
    count = ids.size
    return WeightedSelection(
        ids=ids,
        weights=1 / inclusion[ids],
        inclusion=inclusion[ids],
        share=np.zeros(count),
        clusters=np.full(count, -1),
        distances=np.zeros(count),
        origin=np.full(count, ORIGINS.index("drawn")),
        phase=np.full(count, 2),
        order=np.arange(count),
        multiplicity=np.ones(count),
        losses=np.full(count, np.nan),
        n=ROWS,
        population=ROWS,
        seed=0,
        z=2.0,
        phases=(None, DESIGN),
        provenance=Provenance("rates", count, None, {}),
        ledger=Ledger(),
        least_inclusion=float(inclusion.min()),
    )


def report(cells: list[dict[str, Any]], draws: int) -> str:
    """Return the figures as a page."""
    about = f"Coverage of nominal 95 % intervals, and their mean width in parentheses; {draws:,} draws per cell."
    lines = ["# Intervals of small rates", "", about]
    for kind in KINDS:
        lines += ["", f"## Probabilities: {TITLES[kind]}", ""]
        lines += ["| rate | " + " | ".join(f"{size:,} rows" for size in SIZES) + " |", "|---|" + "---|" * len(SIZES)]
        for rate in RATES:
            line = [cell for cell in cells if (cell["kind"], cell["rate"]) == (kind, rate)]
            texts = [f"{cell['covered']:.3f} ({cell['width']:.4f})" for cell in line]
            lines.append(f"| {rate:.1%} | " + " | ".join(texts) + " |")
    least = min(cells, key=lambda cell: cell["covered"])
    where = f"{TITLES[least['kind']]}, {least['rate']:.1%}, {least['size']:,} rows"
    return "\n".join([*lines, "", f"Lowest coverage: {least['covered']:.3f} ({where}); the goal is .935."]) + "\n"


if __name__ == "__main__":
    main()
