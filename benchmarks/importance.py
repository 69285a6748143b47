"""Which importance should users give to `cover`? Test accuracy with 300 rows chosen by several kinds of importance.

    pip install 'coresift[benchmarks]'
    python -m benchmarks.importance          two minutes of CPU time, after `benchmarks.features`

There are three data sets (Banking77, SST-2, Fashion-MNIST) and three seeds. A first classifier is trained on 200
uniform rows; its loss or uncertainty (one minus the margin) on every row is the importance. A second classifier is
trained on the 300 chosen rows alone, or on the 200 first rows and 300 rows chosen to cover the rest; the table shows
its accuracy. Writes `results/importance.md` and `.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.active_learning import accuracy
from benchmarks.features import Features, load
from benchmarks.teaching import ONE_THREAD, learn, uniform
from coresift.heads import LogisticHead

RESULTS = Path(__file__).resolve().parent / "results"
DATA = ("banking77", "sst2", "fashion-mnist")
SEEDS, BUDGET, FIRST = 3, 300, 200
TITLES = {
    "uniform": "uniform rows",
    "cover": "`cover`",
    "uncertainty": "`cover`, uncertainty as importance",
    "loss": "`cover`, loss as importance",
    "active learning": "active learning in eight rounds",
}


def main() -> None:
    facts = []
    for name in DATA:
        features = load(name)
        for seed in range(SEEDS):
            facts.append({"data": name, "seed": seed, **run(features, seed)})
            print(facts[-1], flush=True)
    (RESULTS / "importance.json").write_text(json.dumps(facts, indent=1) + "\n")
    (RESULTS / "importance.md").write_text(to_markdown(facts))


def run(features: Features, seed: int) -> dict[str, Any]:
    """Return the accuracy for each way to choose rows, alone and in addition to the first rows."""
    first = np.sort(uniform(features.x, lambda ids: features.y[ids], FIRST, seed))
    head = LogisticHead().fit(features.x[first], features.y[first])
    chances = head.predict_proba(features.x)
    columns = np.searchsorted(head.classes_, features.y).clip(max=len(head.classes_) - 1)
    label_chance = np.where(head.classes_[columns] == features.y, chances[np.arange(len(columns)), columns], 0.0)
    top = np.sort(chances, axis=1)[:, -2:]
    importances = {
        "cover": None,
        "uncertainty": 1 - (top[:, 1] - top[:, 0]),
        "loss": -np.log(np.maximum(label_chance, 1e-6)),
    }
    alone = {"uniform": accuracy(features, uniform(features.x, lambda ids: features.y[ids], BUDGET, 100 + seed))}
    more = uniform(features.x, lambda ids: features.y[ids], FIRST + BUDGET, 100 + seed)
    added = {"uniform": accuracy(features, np.concatenate([first, more[~np.isin(more, first)][:BUDGET]]))}
    for name, importance in importances.items():
        options: dict[str, Any] = {"importance": importance, "seed": seed, "engine": ONE_THREAD, "progress": False}
        alone[name] = accuracy(features, cs.cover(features.x, BUDGET, **options).ids)
        added[name] = accuracy(features, cs.cover(features.x, FIRST + BUDGET, given=first, **options).ids)
    alone["active learning"] = accuracy(features, learn(features.x, lambda ids: features.y[ids], BUDGET, seed).ids)
    return {"alone": alone, "added": added}


def to_markdown(facts: list[dict[str, Any]]) -> str:
    """Return a table with one line per way to choose rows, and the mean accuracy on each data set."""
    lines = [
        "# Importance for `cover`",
        "",
        f"Mean test accuracy of a linear classifier over {SEEDS} seeds, trained on {BUDGET} chosen rows alone, or on",
        f"{BUDGET} chosen rows and {FIRST} uniform rows. Loss and uncertainty are those of a classifier trained on the",
        f"{FIRST} uniform rows. The study is described in `benchmarks/importance.py`.",
        "",
        "| rows | " + " | ".join(f"{name}, alone | {name}, with uniform" for name in DATA) + " |",
        "|---|" + "---|" * (2 * len(DATA)),
    ]
    for method, title in TITLES.items():
        cells = []
        for name in DATA:
            for part in ("alone", "added"):
                values = [fact[part].get(method) for fact in facts if fact["data"] == name]
                cells.append(f"{np.mean(values):.3f}" if None not in values else "")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
