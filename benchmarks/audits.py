"""Do the intervals of audits hold? Whole runs of active learning on two data sets, each with three audits.

    python -m benchmarks.audits               1,000 runs that are missing, about ten minutes of CPU time
    python -m benchmarks.audits --runs 50     fewer

A run labels 300 of 2,000 rows, drawn anew for every run, in four rounds; half of the labels are for three audits. Each
audit is compared with the audited model's true accuracy on all of the run's rows. Also shown: the mean width of the
interval beside that of a uniform sample of the same size (the same audit without the model's confidence), and the bias.
Single runs are kept in `results/audits.jsonl`; what is there is not run again. Writes `results/audits.json` and
`results/audits.md`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from benchmarks.features import Features, load
from benchmarks.keeping import append, read
from benchmarks.teaching import ONE_THREAD
from coresift.audits import audit_accuracy
from coresift.heads import LogisticHead
from coresift.learning import steps

RESULTS = Path(__file__).resolve().parent / "results"
DATA = ("sst2", "fashion-mnist")
KEPT = RESULTS / "audits.jsonl"
RUNS, POOL, BUDGET, ROUNDS, AUDIT = 1000, 2000, 300, 4, 0.5

Facts = dict[str, Any]


class KeptHead(LogisticHead):
    """A head that remembers the last one that was taught."""

    last: LogisticHead

    def fit(self, X: Any, y: Any) -> LogisticHead:
        """Learn, and remember."""
        KeptHead.last = super().fit(X, y)
        return self


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    runs = parser.parse_args().runs
    features = {name: load(name) for name in DATA}
    kept = read(KEPT)
    done = {(run["data"], run["seed"]) for run in kept}
    for seed, name in product(range(runs // len(DATA)), DATA):
        if (name, seed) not in done:
            kept.append({"data": name, "seed": seed, "audits": list(audits_of(features[name], seed))})
            append(KEPT, kept[-1])
    facts: list[Facts] = []
    for name in DATA:
        found = [audit for run in kept if run["data"] == name for audit in run["audits"]]
        rounds = sorted({one["round"] for one in found})
        facts += [summary(name, number, [one for one in found if one["round"] == number]) for number in rounds]
        print(f"{name}: {coverage(facts, name):.4f}", flush=True)
    (RESULTS / "audits.json").write_text(json.dumps(facts, indent=1) + "\n")
    (RESULTS / "audits.md").write_text(to_markdown(facts))


def audits_of(features: Features, seed: int) -> Iterator[Facts]:
    """Do one run, and compare each of its audits with the truth about the model that it was made for."""
    ids = np.sort(np.random.default_rng([seed, 1]).choice(len(features.x), POOL, replace=False))
    x, y = features.x[ids], features.y[ids]
    run = steps(x, BUDGET, rounds=ROUNDS, audit=AUDIT, head=KeptHead(), seed=seed, engine=ONE_THREAD, progress=False)
    taught, truths, plain = np.zeros(POOL, np.bool_), [], []
    try:
        request = next(run)
        while True:
            if request.reason == "audit":
                right = KeptHead.last.predict(x) == y
                truths.append(right.mean())
                plain.append(_plain_width(right, taught, request.ids, request.round))
            taught[request.ids] = True
            request = run.send(y[request.ids])
    except StopIteration as stop:
        audits = stop.value.audits
    for audit, truth, width in zip(audits, truths, plain, strict=True):
        covers = audit.low <= truth <= audit.high
        always = audit.low_always <= truth <= audit.high_always
        yield {
            "round": audit.round,
            "rows": audit.rows,
            "truth": round(float(truth), 5),
            "value": round(audit.value, 5),
            "covers": int(covers),
            "always": int(always),
            "width": round(audit.high - audit.low, 5),
            "plain": round(width, 5),
        }


def _plain_width(right: np.ndarray, taught: np.ndarray, drawn: np.ndarray, number: int) -> float:
    """Return how wide the interval is where nothing is known of the model's confidence."""
    rng, flat = np.random.default_rng(0), np.ones(int((~taught).sum()))
    audit = audit_accuracy(right[drawn], flat[: drawn.size], flat, right[taught], rng, number)
    return audit.high - audit.low


def summary(name: str, number: int, found: list[Facts]) -> Facts:
    """Return what the audits of one round say together."""
    inside = int(sum(one["covers"] for one in found))
    errors = np.array([one["value"] - one["truth"] for one in found])
    return {
        "data": name,
        "round": number,
        "rows": found[0]["rows"],
        "audits": len(found),
        "accuracy": float(np.mean([one["truth"] for one in found])),
        "coverage": inside / len(found),
        "always": float(np.mean([one["always"] for one in found])),
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
    """Return a table with a line per round."""
    runs = sum(max(one["audits"] for one in facts if one["data"] == name) for name in {one["data"] for one in facts})
    audits, least = sum(one["audits"] for one in facts), min(one["p"] for one in facts)
    lines = [
        "# Audits",
        "",
        f"Nominal 95 % intervals cover in {coverage(facts):.1%} of {audits:,} audits of {runs:,} runs; the smallest",
        f"p-value of a round against 95 % is {least:.3f} (one-sided binomial). Width beside that of a uniform sample",
        "of the same size, in points of accuracy. `python -m benchmarks.audits` says how.",
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
