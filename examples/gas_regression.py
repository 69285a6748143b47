"""Which 160 of 7,946 gas measurements should get a label? Run it with the folder of the gas sensor data.

    python examples/gas_regression.py DATA     (DATA/gas_drift/gas_drift.npz: X, concentration)

Sixteen features of a sensor array predict a concentration. Rows are chosen in two ways, labelled, and a ridge
regression is fitted; the fit is judged by its R² on all rows. Eight seeds each.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import coresift as cs

BUDGET, SEEDS = 160, 8


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return sixteen standardized features and the logarithm of the concentration, where it is known."""
    with np.load(folder / "gas_drift" / "gas_drift.npz", allow_pickle=False) as file:
        features, target = file["X"].astype(np.float64), file["concentration"].astype(np.float64)
    known = np.isfinite(target)
    features, target = features[known][:, ::8], np.log(target[known])  # the first feature of each sensor
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    usual = np.abs(features).max(axis=1) < 20  # a row far beyond the others ruins any least squares fit
    return features[usual], target[usual]


def main() -> None:
    """Do all of it, and print what came out."""
    A, b = load(Path(sys.argv[1]))
    total = ((b - b.mean()) ** 2).sum()
    scores = {"distances": None, "leverage and distances": cs.scores.LeverageMixture()}
    print(f"{BUDGET} of {len(b):,} rows labelled, R² on all rows, mean of {SEEDS} seeds")
    for name, score in scores.items():
        found = []
        for seed in range(SEEDS):
            fit = cs.regression.select(A, lambda rows: b[rows], budget=BUDGET, seed=seed, score=score).fit(ridge=1.0)
            found.append(1 - ((b - fit.predict(A)) ** 2).sum() / total)
        print(f"{name:24}{np.mean(found):.3f} ± {np.std(found, ddof=1) / np.sqrt(SEEDS):.3f}")
    everything = cs.regression.select(A, b, budget=len(b)).fit(ridge=1.0)
    print(f"{'all labels':24}{1 - ((b - everything.predict(A)) ** 2).sum() / total:.3f}")


if __name__ == "__main__":
    main()
