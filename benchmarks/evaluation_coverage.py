"""Do evaluations keep what they promise? Half-widths that are reached, intervals that cover, and what stopping costs.

    python -m benchmarks.evaluation_coverage              runs what is missing, and writes the report
    python -m benchmarks.evaluation_coverage --seconds 60 stops after a minute of computing; the next call goes on

Two studies, 2,000 seeds for each case. "within": `within=0.01` on six populations. "metrics": F1, precision, recall,
p95, a difference A − B and groups on two populations, from a fixed budget. Single runs are kept in
`results/evaluation_coverage/`, one line per seed: value, low, high, answers.
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
# The class that is found or not; 4 is a digit that linear heads confuse with 9, and a coat among pullovers.
POSITIVE = 4


def rated(name: str) -> tuple[Floats, dict[str, Floats]]:
    """Right or wrong answers and what is known of them; a rival is a second head, which learned from other rows."""
    data, _, kind = name.rpartition(" ")
    if kind != "rival":
        given = population(name)
        return given.values, given.signals
    head = classification(data)
    wrong = (head.rival.argmax(axis=1) != head.labels).astype(np.float64)
    return wrong, cs.signals.from_probabilities(head.rival)


def _within(name: str) -> Any:
    values, signals = rated(name)

    def run(seed: int, **options: Any) -> tuple[float, float, float, int]:
        wanted = options or {"within": WITHIN}
        made = cs.evaluate(values=values, signals=signals, metric="rate", seed=seed, **wanted)
        return _line(made.complete())

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
        made = cs.evaluate(labels=head.labels, predictions=models, metric="difference", budget=SMALL_BUDGET, seed=seed)
        return _line(made.complete())

    return right["A"] - right["B"], run


def _p95(name: str) -> Any:
    given = population(f"{name} log loss")

    def run(seed: int) -> tuple[float, float, float, int]:
        options = {"signals": given.signals, "budget": BUDGET, "metric": "p95", "seed": seed}
        return _line(cs.evaluate(values=given.values, **options).complete())

    return float(np.quantile(given.values, 0.95, method="inverted_cdf")), run


def _group(name: str) -> Any:
    """One of ten groups, the predicted class; which one turns with the seed, so the truth is subtracted."""
    head = classification(name)
    signals = cs.signals.from_probabilities(head.probabilities)
    wrong = (head.predictions != head.labels).astype(np.float64)
    groups = head.predictions.astype(str)
    truth = {group: wrong[groups == group].mean() for group in np.unique(groups)}

    def run(seed: int) -> tuple[float, float, float, int]:
        options = {"signals": signals, "groups": groups, "budget": GROUP_BUDGET, "metric": "rate", "seed": seed}
        found = cs.evaluate(values=wrong, **options).complete()
        group = sorted(truth)[seed % len(truth)]
        figure = found.groups[group]
        return figure.value - truth[group], figure.low - truth[group], figure.high - truth[group], figure.asked

    return 0.0, run


METRICS: dict[str, Callable[[str], Any]] = {
    "F1": _labels(cs.evaluation.F1(positive=POSITIVE), lambda p, t: 2 * (p & t).sum() / (p.sum() + t.sum())),
    "precision": _labels(
        cs.evaluation.Precision(positive=POSITIVE), lambda p, t: (p & t).sum() / p.sum(), SMALL_BUDGET
    ),
    "recall": _labels(cs.evaluation.Recall(positive=POSITIVE), lambda p, t: (p & t).sum() / t.sum()),
    "p95": _p95,
    "difference": _difference,
    "group": _group,
}


def _line(found: Any) -> tuple[float, float, float, int]:
    return found.value, found.low, found.high, found.asked


def _path(case: str) -> Path:
    return RUNS / f"{case.replace(' ', '_')}.npy"


def read(case: str) -> Floats:
    """Read the runs of a case, one line per seed."""
    return np.load(_path(case), allow_pickle=False).astype(np.float64) if _path(case).exists() else np.zeros((0, 4))


def extend(case: str, run: Callable[[int], Any], seeds: int) -> None:
    """Add a chunk of runs to a case."""
    done = read(case)
    more = [run(seed) for seed in range(len(done), min(len(done) + CHUNK, seeds))]
    RUNS.mkdir(parents=True, exist_ok=True)
    aside = _path(case).with_suffix(".part.npy")
    np.save(aside, np.concatenate([done, more]).astype(np.float32), allow_pickle=False)
    aside.replace(_path(case))


def work(seconds: float) -> Iterator[str]:
    """Run what is missing, the case with the fewest runs first, until so much computing time is used."""
    begun, known = time.process_time(), {}
    for name in (*(f"within {name}" for name in POPULATIONS), *(f"{m} {n}" for n in CLASSIFIED for m in METRICS)):
        try:
            known[name] = _make(name)
        except (FileNotFoundError, OSError) as error:
            yield f"{name} is left out: {error}"
    while time.process_time() - begun < seconds:
        name = min(known, key=lambda case: len(read(case)))
        if len(read(name)) >= SEEDS:
            return
        extend(name, known[name][1], SEEDS)
        yield f"{name}: {len(read(name))} seeds"


def _make(case: str) -> Any:
    kind, _, name = case.rpartition(" ") if not case.startswith("within ") else ("within", "", case[7:])
    return _within(name) if kind == "within" else _metric(name, kind)


def best_fixed(case: str, asked: float) -> float:
    """The fixed budget whose mean half-width is ± 0.01, by runs at the mean number of answers."""
    path = RUNS / f"{case.replace(' ', '_')}_fixed.npy"
    if not path.exists():
        _, run = _make(case)
        lines = [run(seed, budget=round(asked)) for seed in range(FIXED_RUNS)]
        np.save(path, np.array(lines, np.float32), allow_pickle=False)
    lines = np.load(path, allow_pickle=False).astype(np.float64)
    rows = rated(case[7:])[0].size
    half, budget = float(np.mean((lines[:, 2] - lines[:, 1]) / 2)), float(lines[0, 3])
    return 1 / ((WITHIN / half) ** 2 * (1 / budget - 1 / rows) + 1 / rows)


def summary() -> list[dict[str, Any]]:
    """The measures of every case that has runs."""
    from scipy.stats import binomtest  # noqa: PLC0415

    found = []
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
        found.append(entry)
    return found


def report(found: list[dict[str, Any]]) -> str:
    """The report as Markdown."""
    text = ["# Evaluations: do intervals cover, and are half-widths reached?", ""]
    text += [
        "Made by `python -m benchmarks.evaluation_coverage`; single runs are in `evaluation_coverage/`. "
        f"{SEEDS:,} seeds per case are meant; the tables say how many there are so far, and the same command goes on.",
        "",
    ]
    within = [entry for entry in found if "reached" in entry]
    if within:
        pooled = np.average([entry["coverage"] for entry in within], weights=[entry["runs"] for entry in within])
        text += [f"`within=0.01`; pooled coverage {pooled:.4f}.", ""]
        text += ["| population | runs | ± ≤ .011 | coverage | p of 95 % | answers | over the best fixed budget |"]
        text += ["|---|---|---|---|---|---|---|"]
        text += [
            f"| {e['case'][7:]} | {e['runs']} | {e['reached']:.3f} | {e['coverage']:.4f} | {e['p']:.3g} | "
            f"{e['answers']:.0f} | {e['over_fixed']:.3f} |"
            for e in within
        ]
    text += [
        "",
        "| metric, population | runs | coverage | p of 95 % | half-width | RMSE | answers |",
        "|---|---|---|---|---|---|---|",
    ]
    text += [
        f"| {e['case']} | {e['runs']} | {e['coverage']:.4f} | {e['p']:.3g} | {e['half_width']:.4g} | {e['rmse']:.4g} | "
        f"{e['answers']:.0f} |"
        for e in found
        if "reached" not in e
    ]
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1e9)
    for line in work(parser.parse_args().seconds):
        print(line, flush=True)
    found = summary()
    (RESULTS / "evaluation_coverage.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "evaluation_coverage.md").write_text(report(found))


if __name__ == "__main__":
    main()
