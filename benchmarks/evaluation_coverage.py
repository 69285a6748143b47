"""Do evaluations keep their promises? Do they reach the half-width, do intervals cover, what does stopping early cost?

    python -m benchmarks.evaluation_coverage              run what is missing, and write the report
    python -m benchmarks.evaluation_coverage --seconds 60 stop after a minute of CPU time; the next call continues

There are two studies with 2,000 seeds per case. "within": `within=0.01` on six populations. "metrics": F1, precision,
recall, p95, a difference A − B, and groups on two populations, with a fixed budget; and error rates of evaluations that
go on after a look at their first result ("continued"). Single runs are stored in
`results/evaluation_coverage/`, one row per seed: value, low, high, answers.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coresift as cs
from benchmarks.evaluation.populations import classification, population

Floats = NDArray[np.float64]
RESULTS = Path(__file__).parent / "results"
RUNS = RESULTS / "evaluation_coverage"
SEEDS, CHUNK = 2_000, 50
WITHIN = 0.01
POPULATIONS = (
    *("banking77 error", "mnist error", "fashion-mnist error"),
    *("fashion-mnist rival", "judges chatgpt", "judges gpt4"),
)
CLASSIFIED = ("mnist", "fashion-mnist")
BUDGET, SMALL_BUDGET, GROUP_BUDGET, FIXED_RUNS = 1_000, 300, 2_000, 40
# The positive class: a digit that linear classifiers confuse with 9, or a coat, which looks like a pullover.
POSITIVE = 4


def errors_and_signals(name: str) -> tuple[Floats, dict[str, Floats]]:
    """Return which rows are wrong, and the signals; a rival is a second classifier, trained on other rows."""
    data, _, kind = name.rpartition(" ")
    if kind != "rival":
        rows = population(name)
        return rows.values, rows.signals
    head = classification(data)
    wrong = (head.rival.argmax(axis=1) != head.labels).astype(np.float64)
    return wrong, cs.signals.from_probabilities(head.rival)


def _within(name: str) -> Any:
    values, signals = errors_and_signals(name)

    def run(seed: int, **options: Any) -> tuple[float, float, float, int]:
        options = options or {"within": WITHIN}
        evaluation = cs.evaluate(values=values, signals=signals, metric="rate", seed=seed, **options)
        return _line(evaluation.complete())

    return float(values.mean()), run


def _metric(name: str, metric: str) -> Any:
    return METRICS[metric](name)


def _labels(metric: Any, truth_of: Callable[[Any, Any], float], budget: int = BUDGET) -> Callable[[str], Any]:
    def make(name: str) -> Any:
        head = classification(name)
        signals = cs.signals.from_probabilities(head.probabilities) | {"positive": head.probabilities[:, POSITIVE]}

        def run(seed: int) -> tuple[float, float, float, int]:
            options = {"signals": signals, "budget": budget, "metric": metric, "seed": seed}
            return _line(cs.evaluate(labels=head.labels, predictions=head.predictions, **options).complete())

        return truth_of(head.predictions == POSITIVE, head.labels == POSITIVE), run

    return make


def _difference(name: str) -> Any:
    head = classification(name)
    models = {"A": head.predictions, "B": head.rival.argmax(axis=1)}
    right = {model: (guess == head.labels).mean() for model, guess in models.items()}

    def run(seed: int) -> tuple[float, float, float, int]:
        options = {"metric": "difference", "budget": SMALL_BUDGET, "seed": seed}
        return _line(cs.evaluate(labels=head.labels, predictions=models, **options).complete())

    return right["A"] - right["B"], run


def _p95(name: str) -> Any:
    rows = population(f"{name} log loss")
    # Without the deviation of the loss, which is a signal for its mean.
    signals = cs.signals.from_probabilities(classification(name).probabilities)

    def run(seed: int) -> tuple[float, float, float, int]:
        options = {"signals": signals, "budget": BUDGET, "metric": "p95", "seed": seed}
        return _line(cs.evaluate(values=rows.values, **options).complete())

    return float(np.quantile(rows.values, 0.95, method="inverted_cdf")), run


def _group(name: str) -> Any:
    """Estimate one of ten groups (predicted classes). The group depends on the seed, so its truth is subtracted."""
    head = classification(name)
    signals = cs.signals.from_probabilities(head.probabilities)
    wrong = (head.predictions != head.labels).astype(np.float64)
    groups = head.predictions.astype(str)
    truth = {group: wrong[groups == group].mean() for group in np.unique(groups)}

    def run(seed: int) -> tuple[float, float, float, int]:
        options = {"signals": signals, "groups": groups, "budget": GROUP_BUDGET, "metric": "rate", "seed": seed}
        result = cs.evaluate(values=wrong, **options).complete()
        group = sorted(truth)[seed % len(truth)]
        figure = result.groups[group]
        return figure.value - truth[group], figure.low - truth[group], figure.high - truth[group], figure.asked

    return 0.0, run


def _continued(name: str) -> Any:
    """Reach a half-width of 0.02, and go on to 0.01 only if the interval does not settle on which side of a bar it is.

    The answers decide whether there are more of them, so a small loss of coverage is possible.
    """
    rows = population(f"{name} error")
    bar = rows.truth + WITHIN

    def run(seed: int) -> tuple[float, float, float, int]:
        options = {"values": rows.values, "signals": rows.signals, "metric": "rate", "seed": seed}
        first = cs.evaluate(within=2 * WITHIN, **options).complete()
        if not first.low < bar < first.high:
            return _line(first)
        return _line(cs.evaluate(within=[2 * WITHIN, WITHIN], **options).complete())

    return rows.truth, run


METRICS: dict[str, Callable[[str], Any]] = {
    "F1": _labels(cs.evaluation.F1(positive=POSITIVE), lambda p, t: 2 * (p & t).sum() / (p.sum() + t.sum())),
    "precision": _labels(
        cs.evaluation.Precision(positive=POSITIVE), lambda p, t: (p & t).sum() / p.sum(), SMALL_BUDGET
    ),
    "recall": _labels(cs.evaluation.Recall(positive=POSITIVE), lambda p, t: (p & t).sum() / t.sum()),
    "p95": _p95,
    "difference": _difference,
    "group": _group,
    "continued": _continued,
}


def _line(result: Any) -> tuple[float, float, float, int]:
    return result.value, result.low, result.high, result.asked


def _path(case: str) -> Path:
    return RUNS / f"{case.replace(' ', '_')}.npy"


def read(case: str) -> Floats:
    """Read the runs of a case, one row per seed."""
    return np.load(_path(case), allow_pickle=False).astype(np.float64) if _path(case).exists() else np.zeros((0, 4))


def extend(case: str, run: Callable[[int], Any], seeds: int) -> None:
    """Add a chunk of runs to a case."""
    done = read(case)
    more = [run(seed) for seed in range(len(done), min(len(done) + CHUNK, seeds))]
    RUNS.mkdir(parents=True, exist_ok=True)
    partial = _path(case).with_suffix(".part.npy")
    np.save(partial, np.concatenate([done, more]).astype(np.float32), allow_pickle=False)
    partial.replace(_path(case))


def work(seconds: float) -> Iterator[str]:
    """Run what is missing for so many seconds of CPU time, the case with the fewest runs first."""
    started, cases = time.process_time(), {}
    for name in (*(f"within {name}" for name in POPULATIONS), *(f"{m} {n}" for n in CLASSIFIED for m in METRICS)):
        try:
            cases[name] = _make(name)
        except (FileNotFoundError, OSError) as error:
            yield f"{name} is skipped: {error}"
    while time.process_time() - started < seconds:
        name = min(cases, key=lambda case: len(read(case)))
        if len(read(name)) >= SEEDS:
            return
        extend(name, cases[name][1], SEEDS)
        yield f"{name}: {len(read(name))} seeds"


def _make(case: str) -> Any:
    kind, _, name = case.rpartition(" ") if not case.startswith("within ") else ("within", "", case[7:])
    return _within(name) if kind == "within" else _metric(name, kind)


def best_fixed(case: str, asked: float) -> float:
    """Return the fixed budget with a mean half-width of 0.01, extrapolated from runs with the budget `asked`."""
    path = RUNS / f"{case.replace(' ', '_')}_fixed.npy"
    if not path.exists():
        _, run = _make(case)
        lines = [run(seed, budget=round(asked)) for seed in range(FIXED_RUNS)]
        np.save(path, np.array(lines, np.float32), allow_pickle=False)
    lines = np.load(path, allow_pickle=False).astype(np.float64)
    rows = errors_and_signals(case[7:])[0].size
    half, budget = float(np.mean((lines[:, 2] - lines[:, 1]) / 2)), float(lines[0, 3])
    return 1 / ((WITHIN / half) ** 2 * (1 / budget - 1 / rows) + 1 / rows)


def summary() -> list[dict[str, Any]]:
    """Return the figures of every case that has runs."""
    from scipy.stats import binomtest  # noqa: PLC0415

    entries = []
    for path in sorted(RUNS.glob("*.npy")):
        if path.stem.endswith(("_fixed", ".part")):
            continue
        case = path.stem.replace("_", " ")
        lines, (truth, _) = read(case), _make(case)
        value, low, high, asked = lines.T
        covered = int(np.count_nonzero((low <= truth + 1e-7) & (truth - 1e-7 <= high)))
        entry = {"case": case, "runs": len(lines), "truth": truth, "coverage": covered / len(lines)}
        entry |= {
            "p": binomtest(covered, len(lines), 0.95).pvalue,
            "rmse": float(np.sqrt(np.mean((value - truth) ** 2))),
        }
        entry |= {"half_width": float(np.mean((high - low) / 2)), "answers": float(asked.mean())}
        if case.startswith("within"):
            entry["reached"] = float(np.mean((high - low) / 2 <= 1.1 * WITHIN))
            entry["over_fixed"] = entry["answers"] / best_fixed(case, entry["answers"])
        entries.append(entry)
    return entries


def report(entries: list[dict[str, Any]]) -> str:
    """Return the report as Markdown."""
    text = ["# Evaluations: do intervals cover the truth, and are half-widths reached?", ""]
    text += [
        "`python -m benchmarks.evaluation_coverage` runs this study; single runs are in `evaluation_coverage/`. The "
        f"goal is {SEEDS:,} seeds per case. The tables show how many there are so far, and the same command adds more.",
        "",
    ]
    within = [entry for entry in entries if "reached" in entry]
    if within:
        pooled = np.average([entry["coverage"] for entry in within], weights=[entry["runs"] for entry in within])
        text += [f"With `within=0.01`, the pooled coverage is {pooled:.4f}.", ""]
        head = "half-width ≤ .011 | coverage | p-value against 95 % | answers | answers / best fixed budget"
        text += [f"| population | runs | {head} |", "|---|---|---|---|---|---|---|"]
        text += [
            f"| {e['case'][7:]} | {e['runs']} | {e['reached']:.3f} | {e['coverage']:.4f} | {e['p']:.3g} | "
            f"{e['answers']:.0f} | {e['over_fixed']:.3f} |"
            for e in within
        ]
    text += [
        "",
        "| metric, population | runs | coverage | p-value against 95 % | half-width | RMSE | answers |",
        "|---|---|---|---|---|---|---|",
    ]
    text += [
        f"| {e['case']} | {e['runs']} | {e['coverage']:.4f} | {e['p']:.3g} | {e['half_width']:.4g} | {e['rmse']:.4g} | "
        f"{e['answers']:.0f} |"
        for e in entries
        if "reached" not in e
    ]
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1e9)
    for line in work(parser.parse_args().seconds):
        print(line, flush=True)
    entries = summary()
    (RESULTS / "evaluation_coverage.json").write_text(json.dumps(entries, indent=1) + "\n")
    (RESULTS / "evaluation_coverage.md").write_text(report(entries))


if __name__ == "__main__":
    main()
