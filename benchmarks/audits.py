"""Do the intervals of audits hold? Active learning on two data sets, many audits of the model of every round.

    python -m benchmarks.audits        about ten minutes on two cores

A run of active learning is a model after each round and the rows that it was taught with; an audit is a uniform draw of
other rows, made after the model. So five runs per data set are audited 200 times in each round, with 50 and with 100
rows: 1,000 audits per round and size, each compared with the model's true accuracy on all rows. Also shown: the mean
width of the interval beside that of the same draw without the model's confidence, and the bias.
Writes `results/audits.json` and `results/audits.md`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from benchmarks.features import Features, load
from coresift.audits import audit_accuracy, draw_audit
from coresift.heads import LogisticHead
from coresift.learning import Learned, complete, steps

RESULTS = Path(__file__).resolve().parent / "results"
DATA = {"banking77": 1000, "fashion-mnist": 2000}
RUNS, AUDITS, SIZES = 5, 200, (50, 100)

Facts = dict[str, Any]


def main() -> None:
    facts: list[Facts] = []
    for name, budget in DATA.items():
        features = load(name)
        by_round: dict[tuple[int, int], list[Facts]] = {}
        for seed in range(RUNS):
            run = steps(features.x, budget, audit=None, seed=seed, progress=False)
            learned = complete(run, lambda ids, y=features.y: y[ids])  # type: ignore[misc]
            for number in range(1, int(learned.rounds.max()) + 1):
                for size, found in audits_of(features, learned, number, seed).items():
                    by_round.setdefault((number, size), []).extend(found)
        facts += [summary(name, *key, found) for key, found in sorted(by_round.items())]
        print(f"{name}: {coverage(facts, name):.4f}", flush=True)
    (RESULTS / "audits.json").write_text(json.dumps(facts, indent=1) + "\n")
    (RESULTS / "audits.md").write_text(to_markdown(facts))


def audits_of(features: Features, learned: Learned, number: int, seed: int) -> dict[int, list[Facts]]:
    """Audit the model of one round many times."""
    taught = learned.ids[learned.rounds <= number]
    head = LogisticHead().fit(features.x[taught], features.y[taught])
    chances = head.predict_proba(features.x)
    right, sure = head.classes_[chances.argmax(axis=1)] == features.y, chances.max(axis=1)
    others = np.setdiff1d(np.arange(len(right)), taught)
    rng = np.random.default_rng([seed, number])
    found: dict[int, list[Facts]] = {size: [] for size in SIZES}
    for size in SIZES:
        for _ in range(AUDITS):
            drawn = draw_audit(others, size, rng)
            audit = audit_accuracy(right[drawn], sure[drawn], sure[others], right[taught], rng, number)
            flat = np.ones(others.size)
            plain = audit_accuracy(right[drawn], flat[:size], flat, right[taught], rng, number)
            facts = {"truth": right.mean(), "value": audit.value, "covers": audit.low <= right.mean() <= audit.high}
            found[size].append({**facts, "width": audit.high - audit.low, "plain": plain.high - plain.low})
    return found


def summary(name: str, number: int, size: int, found: list[Facts]) -> Facts:
    """Return what the audits of one round and size say together."""
    inside = int(sum(one["covers"] for one in found))
    errors = np.array([one["value"] - one["truth"] for one in found])
    return {
        "data": name,
        "round": number,
        "rows": size,
        "audits": len(found),
        "accuracy": float(np.mean([one["truth"] for one in found])),
        "coverage": inside / len(found),
        "p": float(binomtest(inside, len(found), 0.95, alternative="less").pvalue),
        "bias": float(errors.mean()),
        "bias_error": float(errors.std() / np.sqrt(errors.size)),
        "width": float(np.mean([one["width"] for one in found])),
        "plain_width": float(np.mean([one["plain"] for one in found])),
    }


def coverage(facts: list[Facts], name: str | None = None) -> float:
    """Return the pooled coverage, of one data set or all."""
    some = [one for one in facts if name in (None, one["data"])]
    return float(np.average([one["coverage"] for one in some], weights=[one["audits"] for one in some]))


def to_markdown(facts: list[Facts]) -> str:
    """Return a table with a line per round and size."""
    lines = [
        "# Audits",
        "",
        f"Nominal 95 % intervals cover in {coverage(facts):.1%} of {sum(one['audits'] for one in facts):,} audits; the",
        f"smallest p-value of a round against 95 % is {min(one['p'] for one in facts):.3f} (one-sided binomial). Width",
        "beside that of a uniform sample of the same size, in points of accuracy.",
        "",
        "| data | round | rows | accuracy | coverage | bias ± error | width | uniform's |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in facts:
        bias = f"{100 * one['bias']:+.2f} ± {100 * one['bias_error']:.2f}"
        cells = [one["data"], one["round"], one["rows"], f"{one['accuracy']:.3f}", f"{one['coverage']:.3f}", bias]
        cells += [f"{100 * one['width']:.1f}", f"{100 * one['plain_width']:.1f}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
