"""Choose 160 of 7,946 gas measurements to label, so that a regression on them is close to the one on all.

    python examples/gas_regression.py DATA     (DATA/gas_drift/gas_drift.npz: X, concentration)

Sixteen features of a sensor array predict a concentration. Rows are chosen in two ways and labeled, and a ridge
regression is fitted to them. The figure is its R² on all rows, with eight seeds per method.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import coresift as cs

BUDGET, SEEDS = 160, 8


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return sixteen standardized features and the log concentration of the rows where it is known."""
    with np.load(folder / "gas_drift" / "gas_drift.npz", allow_pickle=False) as file:
        features, target = file["X"].astype(np.float64), file["concentration"].astype(np.float64)
    known = np.isfinite(target)
    features, target = features[known][:, ::8], np.log(target[known])  # the first feature of each sensor
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    typical = np.abs(features).max(axis=1) < 20  # one extreme row ruins any least-squares fit
    return features[typical], target[typical]


def main() -> None:
    """Compare two scores with the fit on all labels."""
    A, b = load(Path(sys.argv[1]))
    total = ((b - b.mean()) ** 2).sum()
    scores = {"distances": None, "leverage and distances": cs.scores.LeverageMixture()}
    print(f"{BUDGET} of {len(b):,} rows labeled, R² on all rows, mean of {SEEDS} seeds")
    for name, score in scores.items():
        determinations = []
        for seed in range(SEEDS):
            fit = cs.regression.select(A, lambda rows: b[rows], budget=BUDGET, seed=seed, score=score).fit(ridge=1.0)
            determinations.append(1 - ((b - fit.predict(A)) ** 2).sum() / total)
        print(f"{name:24}{np.mean(determinations):.3f} ± {np.std(determinations, ddof=1) / np.sqrt(SEEDS):.3f}")
    everything = cs.regression.select(A, b, budget=len(b)).fit(ridge=1.0)
    print(f"{'all labels':24}{1 - ((b - everything.predict(A)) ** 2).sum() / total:.3f}")


if __name__ == "__main__":
    main()
