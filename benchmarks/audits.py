"""Do the intervals of audits cover the truth? Complete runs of active learning on two data sets, with three audits
each.

    python -m benchmarks.audits               run what is missing of 1,000 runs, about ten minutes of CPU time
    python -m benchmarks.audits --runs 50     fewer runs

A run labels 300 of 2,000 rows, drawn anew for every run, in four rounds; half of the labels are for three audits. Each
audit is compared with the audited model's true accuracy on all rows of the run. The report also has the bias, and the
mean width of the interval next to that of a uniform sample of the same size (the same audit without the model's
confidence). Single runs are stored in `results/audits.jsonl` and are not repeated. Writes `results/audits.json` and
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
RUNS_FILE = RESULTS / "audits.jsonl"
RUNS, POOL, BUDGET, ROUNDS, AUDIT = 1000, 2000, 300, 4, 0.5

Facts = dict[str, Any]


class RecordingHead(LogisticHead):
    """A head whose class remembers the last head that was fitted."""

    last: LogisticHead

    def fit(self, X: Any, y: Any) -> LogisticHead:
        """Fit, and remember the result."""
        RecordingHead.last = super().fit(X, y)
        return self


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    runs = parser.parse_args().runs
    features = {name: load(name) for name in DATA}
    stored = read(RUNS_FILE)
    done = {(run["data"], run["seed"]) for run in stored}
    for seed, name in product(range(runs // len(DATA)), DATA):
        if (name, seed) not in done:
            stored.append({"data": name, "seed": seed, "audits": list(audits_of(features[name], seed))})
            append(RUNS_FILE, stored[-1])
    facts: list[Facts] = []
    for name in DATA:
        audits = [audit for run in stored if run["data"] == name for audit in run["audits"]]
        rounds = sorted({audit["round"] for audit in audits})
        facts += [summary(name, number, [audit for audit in audits if audit["round"] == number]) for number in rounds]
        print(f"{name}: {coverage(facts, name):.4f}", flush=True)
    (RESULTS / "audits.json").write_text(json.dumps(facts, indent=1) + "\n")
    (RESULTS / "audits.md").write_text(to_markdown(facts))


def audits_of(features: Features, seed: int) -> Iterator[Facts]:
    """Do one run, and compare each of its audits with the true accuracy of the audited model."""
    ids = np.sort(np.random.default_rng([seed, 1]).choice(len(features.x), POOL, replace=False))
    x, y = features.x[ids], features.y[ids]
    run = steps(
        x, BUDGET, rounds=ROUNDS, audit=AUDIT, head=RecordingHead(), seed=seed, engine=ONE_THREAD, progress=False
    )
    labeled, truths, uniform_widths = np.zeros(POOL, np.bool_), [], []
    try:
        request = next(run)
        while True:
            if request.reason == "audit":
                right = RecordingHead.last.predict(x) == y
                truths.append(right.mean())
                uniform_widths.append(_uniform_width(right, labeled, request.ids, request.round))
            labeled[request.ids] = True
            request = run.send(y[request.ids])
    except StopIteration as stop:
        audits = stop.value.audits
    for audit, truth, width in zip(audits, truths, uniform_widths, strict=True):
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


def _uniform_width(right: np.ndarray, labeled: np.ndarray, drawn: np.ndarray, number: int) -> float:
    """Return the width of the interval if the model's confidence is unknown."""
    rng, flat = np.random.default_rng(0), np.ones(int((~labeled).sum()))
    audit = audit_accuracy(right[drawn], flat[: drawn.size], flat, right[labeled], rng, number)
    return audit.high - audit.low


def summary(name: str, number: int, audits: list[Facts]) -> Facts:
    """Return the summary of all audits of one round."""
    covered = int(sum(audit["covers"] for audit in audits))
    errors = np.array([audit["value"] - audit["truth"] for audit in audits])
    return {
        "data": name,
        "round": number,
        "rows": audits[0]["rows"],
        "audits": len(audits),
        "accuracy": float(np.mean([audit["truth"] for audit in audits])),
        "coverage": covered / len(audits),
        "always": float(np.mean([audit["always"] for audit in audits])),
        "p": float(binomtest(covered, len(audits), 0.95, alternative="less").pvalue),
        "bias": float(errors.mean()),
        "bias_error": float(errors.std() / np.sqrt(errors.size)),
        "width": float(np.mean([audit["width"] for audit in audits])),
        "plain_width": float(np.mean([audit["plain"] for audit in audits])),
    }


def coverage(facts: list[Facts], name: str | None = None) -> float:
    """Return the pooled coverage, of one data set or of all."""
    rounds = [fact for fact in facts if name in (None, fact["data"])]
    return float(np.average([fact["coverage"] for fact in rounds], weights=[fact["audits"] for fact in rounds]))


def to_markdown(facts: list[Facts]) -> str:
    """Return a table with one line per data set and round."""
    names = {fact["data"] for fact in facts}
    runs = sum(max(fact["audits"] for fact in facts if fact["data"] == name) for name in names)
    audits, least = sum(fact["audits"] for fact in facts), min(fact["p"] for fact in facts)
    lines = [
        "# Audits",
        "",
        f"Nominal 95 % intervals cover the truth in {coverage(facts):.1%} of {audits:,} audits, from {runs:,} runs.",
        f"The smallest p-value of a round (one-sided binomial test against 95 %) is {least:.3f}. Bias and widths are",
        "in percentage points of accuracy; the last column is the width for a uniform sample of the same size. The",
        "study is described in `benchmarks/audits.py`; `python -m benchmarks.audits` runs it.",
        "",
        "| data | round | rows | accuracy | coverage | bias ± error | width | uniform width |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for fact in facts:
        bias = f"{100 * fact['bias']:+.2f} ± {100 * fact['bias_error']:.2f}"
        cells = [fact["data"], fact["round"], fact["rows"], f"{fact['accuracy']:.3f}", f"{fact['coverage']:.3f}", bias]
        cells += [f"{100 * fact['width']:.1f}", f"{100 * fact['plain_width']:.1f}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
