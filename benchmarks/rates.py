"""Do intervals of small rates cover? Values are 0 or 1, and few are 1.

A population of 20,000 rows with a rate of .1 to 2 %, samples of 200 to 2,000 rows. Probabilities are equal; unequal,
unrelated to the values; or unequal with the positives at the rows of the lowest probabilities. `coresift.estimate`
should cover in at least 93.5 % of the draws in each cell.

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
DESIGN = cs.designs.Systematic()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1_000)
    draws = parser.parse_args().draws
    found = [measure(kind, rate, size, draws) for kind, rate, size in product(KINDS, RATES, SIZES)]
    text = report(found, draws)
    print(text)
    (RESULTS / "rates.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "rates.md").write_text(text)


def measure(kind: str, rate: float, size: int, draws: int) -> dict[str, Any]:
    """How often the interval of the mean covers, and how wide it is."""
    rng = np.random.default_rng([KINDS.index(kind), round(rate * 1e4), size])
    sizes = np.ones(ROWS) if kind == "equal" else 0.2 + rng.lognormal(sigma=1.0, size=ROWS)
    inclusion = DESIGN.inclusion(sizes / sizes.sum(), size)
    values, count = np.zeros(ROWS), round(rate * ROWS)
    lowest = np.argsort(inclusion, kind="stable")[: 2 * count] if kind == KINDS[2] else np.arange(ROWS)
    values[rng.choice(lowest, count, replace=False)] = 1.0
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
    """A draw of one phase, as a baseline returns it."""
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


def report(found: list[dict[str, Any]], draws: int) -> str:
    """The results as Markdown."""
    lines = ["# Intervals of small rates", "", f"Nominal 95 %, {draws:,} draws in each cell: covered, and mean width."]
    for kind in KINDS:
        lines += ["", f"## Probabilities: {kind}", ""]
        lines += ["| rate | " + " | ".join(f"{size:,} rows" for size in SIZES) + " |", "|---|" + "---|" * len(SIZES)]
        for rate in RATES:
            cells = [one for one in found if (one["kind"], one["rate"]) == (kind, rate)]
            lines.append(
                f"| {rate:.1%} | " + " | ".join(f"{one['covered']:.3f} ({one['width']:.4f})" for one in cells) + " |"
            )
    least = min(found, key=lambda one: one["covered"])
    where = f"{least['kind']}, {least['rate']:.1%}, {least['size']:,} rows"
    return "\n".join([*lines, "", f"Least coverage: {least['covered']:.3f} ({where}); aim: at least .935."]) + "\n"


if __name__ == "__main__":
    main()
