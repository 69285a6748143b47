"""Choose 400 of 10,003 questions to label, and train a classifier of 77 intents on them.

    python examples/label_questions.py

The questions are real ones from a bank's customers and ship with coresift. A selection by distances, k-center and a
uniform sample are compared: a linear classifier is trained on each and tested on all other questions. There are five
seeds per method, since one run says little. The last step writes a page, `questions.html`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import coresift as cs
from coresift.demo import load_demo

BUDGET, SEEDS = 400, 5


def train(features: np.ndarray, classes: np.ndarray, count: int) -> np.ndarray:
    """Fit a one-against-all ridge regression, and return one column of coefficients per class."""
    targets = np.eye(count)[classes]
    return np.linalg.solve(features.T @ features + 0.3 * np.eye(features.shape[1]), features.T @ targets)


def main() -> None:
    """Compare three methods, and write the page."""
    data = load_demo()
    names, classes = np.unique(data.intents, return_inverse=True)
    features = np.column_stack([data.embeddings.astype(np.float64), np.ones(len(classes))])
    methods = {
        "uniform sample": cs.baselines.uniform,
        "coresift, distances": lambda rows, budget, seed: cs.select(rows, budget=budget, seed=seed),
        "k-center": cs.baselines.k_center,
    }
    print(f"{BUDGET} of {len(classes):,} questions labeled, mean of {SEEDS} seeds")
    print(f"{'':24}{'intents reached':>16}{'accuracy on the others':>24}")
    for method, choose in methods.items():
        reached, scores = [], []
        for seed in range(SEEDS):
            picked = choose(data.embeddings, BUDGET, seed=seed)
            others = np.setdiff1d(np.arange(len(classes)), picked.ids)
            coefficients = train(features[picked.ids], classes[picked.ids], len(names))
            reached.append(len(set(classes[picked.ids])))
            scores.append(np.mean((features[others] @ coefficients).argmax(axis=1) == classes[others]))
        error = np.std(scores, ddof=1) / np.sqrt(SEEDS)
        print(f"{method:24}{np.mean(reached):>16.1f}{np.mean(scores):>17.1%} ± {error:.1%}")
    picked = cs.select(data.embeddings, budget=BUDGET)
    table = pa.table({"text": data.texts.tolist(), "intent": data.intents.tolist()})
    page = cs.report(picked, "questions.html", rows=data.embeddings, table=table, text="text", label="intent")
    print(f"Wrote {page}")


if __name__ == "__main__":
    main()
