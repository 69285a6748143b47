"""How good is a costly model on 20,000 images, from 500 of its answers? Run it with the folder of MNIST.

    python examples/evaluate_model.py DATA     (DATA/mnist/mnist.npz: X_train, y_train, X_test, y_test)

The costly model is a network of random features with 600 units, the cheap one a linear model; both are trained on the
same 5,000 test images. The cheap one is run on all 20,000 rows, the costly one on 500 of them. What do these say
about its loss on all, and how wide is the interval? As this is an example, the truth is computed too. It ends with a
page to look at, with the images: `digits.html`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import coresift as cs

IMAGES, BUDGET = 20_000, 500


def fit(features: np.ndarray, labels: np.ndarray, ridge: float) -> np.ndarray:
    """Fit ridge regression on one column a class."""
    wanted = np.eye(10, dtype=np.float32)[labels]
    return np.linalg.solve(
        features.T @ features + ridge * np.eye(features.shape[1], dtype=np.float32), features.T @ wanted
    )


def losses_of(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the cross entropy of sharpened scores, one per row."""
    sharp = 6 * scores.astype(np.float64)
    sharp -= sharp.max(axis=1, keepdims=True)
    return np.log(np.exp(sharp).sum(axis=1)) - sharp[np.arange(len(labels)), labels]


def main() -> None:
    """Do all of it, and print what came out."""
    with np.load(Path(sys.argv[1]) / "mnist" / "mnist.npz", allow_pickle=False) as file:
        images, labels = file["X_train"][:IMAGES], file["y_train"][:IMAGES].astype(int)
        seen, known = file["X_test"][:5000], file["y_test"][:5000].astype(int)
    rows = (images.reshape(len(images), -1) / 255).astype(np.float32)
    few = (seen.reshape(len(seen), -1) / 255).astype(np.float32)

    rng = np.random.default_rng(0)
    units = rng.standard_normal((784, 600), np.float32) / 10
    costly_fit = fit(np.tanh(few @ units), known, 10.0)
    cheap_fit = fit(few, known, 30.0)

    def costly(ids: np.ndarray) -> np.ndarray:
        return losses_of(np.tanh(rows[ids] @ units) @ costly_fit, labels[ids])

    cheap = losses_of(rows @ cheap_fit, labels)
    truth = costly(np.arange(len(rows))).mean()
    print(f"mean loss of the costly model on {len(rows):,} images: {truth:.4f} (known here, for comparison)")
    ways = {
        "uniform sample": lambda: cs.baselines.uniform(rows, BUDGET, seed=1),
        "embedding alone": lambda: cs.select(rows, costly, BUDGET, seed=1),
        "cheap model as proxy": lambda: cs.select(rows, budget=BUDGET, seed=1, score=cs.scores.Proxy(cheap)),
    }
    for name, choose in ways.items():
        picked = choose()
        mean = cs.estimate(picked, costly(picked.ids)).mean
        print(f"{name:22} {mean.value:.4f}, 95% interval {mean.low:.4f} to {mean.high:.4f}, {BUDGET} answers")
    page = cs.report(picked, "digits.html", rows=rows, losses=costly(picked.ids), image=images)
    print(f"Wrote {page}")


if __name__ == "__main__":
    main()
