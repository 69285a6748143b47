"""Estimate the mean loss of an expensive model on 20,000 images from 500 of its answers.

    python examples/evaluate_model.py DATA     (DATA/mnist/mnist.npz: X_train, y_train, X_test, y_test)

The expensive model is a network of random features with 600 units, and the cheap one is a linear model. Both are
trained on the same 5,000 test images. The cheap one runs on all 20,000 rows, the expensive one on 500 of them. What is
its mean loss on all rows, and how wide is the interval? Since this is an example, the truth is computed, too. The last
step writes a page with the images, `digits.html`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import coresift as cs

IMAGES, BUDGET = 20_000, 500


def fit(features: np.ndarray, labels: np.ndarray, ridge: float) -> np.ndarray:
    """Fit a ridge regression with one column per class."""
    targets = np.eye(10, dtype=np.float32)[labels]
    return np.linalg.solve(
        features.T @ features + ridge * np.eye(features.shape[1], dtype=np.float32), features.T @ targets
    )


def losses_of(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the cross entropy of sharpened scores, one per row."""
    sharp = 6 * scores.astype(np.float64)
    sharp -= sharp.max(axis=1, keepdims=True)
    return np.log(np.exp(sharp).sum(axis=1)) - sharp[np.arange(len(labels)), labels]


def main() -> None:
    """Compare three ways to choose rows, and write the page."""
    with np.load(Path(sys.argv[1]) / "mnist" / "mnist.npz", allow_pickle=False) as file:
        images, labels = file["X_train"][:IMAGES], file["y_train"][:IMAGES].astype(int)
        training_images, training_labels = file["X_test"][:5000], file["y_test"][:5000].astype(int)
    rows = (images.reshape(len(images), -1) / 255).astype(np.float32)
    training = (training_images.reshape(len(training_images), -1) / 255).astype(np.float32)

    rng = np.random.default_rng(0)
    units = rng.standard_normal((784, 600), np.float32) / 10
    expensive_fit = fit(np.tanh(training @ units), training_labels, 10.0)
    cheap_fit = fit(training, training_labels, 30.0)

    def expensive(ids: np.ndarray) -> np.ndarray:
        return losses_of(np.tanh(rows[ids] @ units) @ expensive_fit, labels[ids])

    cheap = losses_of(rows @ cheap_fit, labels)
    truth = expensive(np.arange(len(rows))).mean()
    print(f"mean loss of the expensive model on {len(rows):,} images: {truth:.4f} (known here, for comparison)")
    methods = {
        "uniform sample": lambda: cs.baselines.uniform(rows, BUDGET, seed=1),
        "embedding alone": lambda: cs.select(rows, expensive, BUDGET, seed=1),
        "cheap model as proxy": lambda: cs.select(rows, budget=BUDGET, seed=1, score=cs.scores.Proxy(cheap)),
    }
    for name, choose in methods.items():
        picked = choose()
        mean = cs.estimate(picked, expensive(picked.ids)).mean
        print(f"{name:22} {mean.value:.4f}, 95% interval {mean.low:.4f} to {mean.high:.4f}, {BUDGET} answers")
    page = cs.report(picked, "digits.html", rows=rows, losses=expensive(picked.ids), image=images)
    print(f"Wrote {page}")


if __name__ == "__main__":
    main()
