"""How much is left to gain? The error of a draw that knows all answers in advance, compared with ours.

python -m benchmarks.evaluation.oracle      a minute; writes results/evaluation/oracle.json

The oracle fits to all answers what `cs.evaluate` fits to a few: probabilities of right and wrong, or squared residuals
of numbers. It draws rows in proportion to the resulting deviations. For our own draw, the first stage is run, and what
it learns determines the inclusion probability of every row. The error of an estimate with the best linear regression
on what is known then follows without another simulation, so it takes few seeds to see small differences.
"""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from benchmarks.evaluation.peers import STRATA, UNIFORM_SHARE, capped
from benchmarks.evaluation.populations import Population, names, population
from benchmarks.evaluation.study import RESULTS, budgets
from coresift.evaluation.chances import predict_chances
from coresift.evaluation.densities import (
    NUMBERS,
    RIGHT_OR_WRONG,
    Expectation,
    first_density,
    next_binary_density,
    next_density,
)
from coresift.evaluation.sampling import Sample, draw_phase
from coresift.evaluation.stages import Wish, first_stage
from coresift.prediction import ridge, standardized
from coresift.signal_table import signal_table

Floats = NDArray[np.float64]
PATH = RESULTS / "oracle.json"
SEEDS = 30
FLOOR = 0.03


def known_columns(rows: Population) -> tuple[Floats, Floats]:
    """Return what `cs.evaluate` knows about each row, and the signals that can be sizes."""
    table = signal_table(rows.signals, rows.values.size)
    roots = np.sign(table.columns) * np.sqrt(np.abs(table.columns))
    known = np.concatenate([standardized(table.columns), standardized(roots[:, table.sizes])], axis=1)
    return known, np.maximum(table.columns[:, table.sizes], 0.0)


def oracle_inclusion(rows: Population, known: Floats, budget: int) -> Floats:
    """Return the inclusion probabilities of a draw that has learned from all answers."""
    everyone = np.ones(rows.values.size)
    if rows.binary:
        chance = np.clip(predict_chances(known, np.arange(rows.values.size), rows.values, everyone)[0], 0.005, 0.995)
        sizes = np.sqrt(chance * (1 - chance))
    else:
        unseen = ridge(known, rows.values, everyone)[2]
        squares = (rows.values - unseen) ** 2
        intercept, slopes, _ = ridge(known, np.minimum(squares, 25 * squares.mean()), everyone)
        sizes = np.sqrt(np.maximum(intercept + known @ slopes, 0.05 * squares.mean()))
    return np.minimum(capped(FLOOR + (1 - FLOOR) * sizes / sizes.mean(), budget), 1.0)


def our_inclusion(rows: Population, known: Floats, signals: Floats, budget: int, seed: int) -> Floats:
    """Return the inclusion probabilities of both stages together, after the first stage has been asked."""
    n, rng = rows.values.size, np.random.default_rng([9, seed])
    belief, strata, left = RIGHT_OR_WRONG if rows.binary else NUMBERS, np.zeros(n, np.int64), np.ones(n, np.bool_)
    sizes = first_density(signals, belief)
    first = first_stage(n, 1, Wish(budget, None), belief.first_per_root)
    ids, own, before = draw_phase(sizes, sizes, left, strata, np.array([first]), rng)
    sample, answers = Sample.empty(np.array([n])).grown(ids, own, before[None]), rows.values[ids]
    if rows.binary:
        density = next_binary_density(sample, answers, known)
    else:
        expected = Expectation.of(sample, answers, known)
        density = next_density(sample, expected.residuals, expected.everywhere, known, signals, belief)
    left[ids] = False
    after = draw_phase(density.sizes, density.order, left, strata, np.array([budget - first]), rng)[2]
    return np.asarray(1 - (1 - before) * (1 - after))


def variance(values: Floats, known: Floats, inclusion: Floats) -> float:
    """Return the variance of the mean with the best regression: Σ(1/π − 1)r²/n², at its smallest."""
    weights = np.maximum(1 / inclusion - 1, 0.0)
    design = np.column_stack([np.ones(values.size), inclusion, known]) * np.sqrt(weights)[:, None]
    scaled = values * np.sqrt(weights)
    residuals = scaled - design @ np.linalg.lstsq(design, scaled, rcond=None)[0]
    return float(residuals @ residuals) / values.size**2


def active_inference_variance(rows: Population, budget: int) -> float:
    """Return the exact variance of active inference, whose rows are independent."""
    share = (1 - UNIFORM_SHARE) * capped(rows.doubt, budget) + UNIFORM_SHARE * budget / rows.values.size
    return float((rows.values - rows.guess) ** 2 @ (1 / share - 1)) / rows.values.size**2


def glide_active_variance(rows: Population, budget: int) -> float:
    """Return the variance of glide's active sampler, with the best multiple of the prediction."""
    share = np.minimum(capped(np.maximum(rows.doubt, rows.doubt.max() / 999), budget), 1.0)
    weights = 1 / share - 1
    slope = float(weights @ (rows.values * rows.guess)) / max(float(weights @ rows.guess**2), 1e-300)
    return float((rows.values - slope * rows.guess) ** 2 @ weights) / rows.values.size**2


def glide_stratified_variance(rows: Population, budget: int) -> float:
    """Return the variance of glide's stratified sampler, with the best slope in each stratum."""
    n, total = rows.values.size, 0.0
    # As in the peer itself, a little noise breaks ties.
    guess = rows.guess + 1e-6 * np.random.default_rng(0).standard_normal(n)
    strata = np.searchsorted(np.quantile(guess, np.arange(1, STRATA) / STRATA), guess)
    for stratum in np.unique(strata):
        own = strata == stratum
        size = np.count_nonzero(own)
        covariance = np.cov(rows.values[own], guess[own])
        left = covariance[0, 0] - covariance[0, 1] ** 2 / max(float(covariance[1, 1]), 1e-300)
        total += (size / n) ** 2 * left * (n / (size * budget) - 1 / size)
    return float(total)


def measure(name: str) -> list[dict[str, object]]:
    """Return the RMSE of our draw, of the oracle's, of three peers, and of uniform rows."""
    rows = population(name)
    known, signals = known_columns(rows)
    lines: list[dict[str, object]] = []
    for budget in budgets(rows):
        ours = [
            variance(rows.values, known, our_inclusion(rows, known, signals, budget, seed)) for seed in range(SEEDS)
        ]
        variances = {
            "ours": float(np.mean(ours)),
            "oracle": variance(rows.values, known, oracle_inclusion(rows, known, budget)),
            "active inference": active_inference_variance(rows, budget),
            "glide active": glide_active_variance(rows, budget),
            "glide stratified": glide_stratified_variance(rows, budget),
            "uniform": float(rows.values.var(ddof=1)) * (1 / budget - 1 / rows.values.size),
        }
        line: dict[str, object] = {"population": name, "answers": budget, "role": rows.role}
        lines.append(line | {method: float(np.sqrt(square)) for method, square in variances.items()})
    return lines


def text() -> str:
    """Return the figures as a table for the report, or nothing if they were not computed."""
    if not PATH.exists():
        return ""
    lines = json.loads(PATH.read_text())
    ratio = float(np.exp(np.mean([np.log(line["ours"] / line["oracle"]) for line in lines])))
    worst = max(lines, key=lambda line: line["ours"] / line["oracle"])
    peers = ("active inference", "glide active", "glide stratified", "uniform")
    ratios = [line["ours"] / min(line[name] for name in peers) for line in lines]
    ahead, behind = sum(ratio < 1 for ratio in ratios), 100 * (max(ratios) - 1)
    table = [
        f"| population | answers | our draw | oracle's draw | {' | '.join(peers)} |",
        "|---" * (4 + len(peers)) + "|",
    ]
    for line in lines:
        figures = " | ".join(f"{100 * line[name]:.3f}" for name in ("ours", "oracle", *peers))
        table.append(f"| {line['population']} | {line['answers']:,} | {figures} |")
    return (
        "## How much is left to gain?\n\nThe oracle knows all answers and draws accordingly; its RMSE and that of our "
        "draw follow from inclusion probabilities and the best regression on what is known, without the noise of "
        "simulated runs (`python -m benchmarks.evaluation.oracle`). The RMSE of active inference and of uniform rows "
        "is exact, and that of glide's samplers is exact but for slopes that they learn. In "
        f"{ahead} of {len(lines)} cases, our draw has a smaller RMSE than all of them, and at most {behind:.1f} % "
        f"more in the others. On average, our RMSE is {ratio:.3f} times the oracle's, and at most "
        f"{worst['ours'] / worst['oracle']:.3f} times ({worst['population']}, {worst['answers']:,} answers). An oracle "
        "with a linear model is not the best draw there is, so ratios below 1 are possible.\n\n"
        + "\n".join(table)
        + "\n\n"
    )


def main() -> None:
    lines = []
    for name in names():
        try:
            lines += measure(name)
        except (FileNotFoundError, OSError, ImportError) as error:
            print(f"{name} is skipped: {error}")
    PATH.write_text(json.dumps(lines, indent=1) + "\n")
    print(text())


if __name__ == "__main__":
    main()
