"""How far can earlier models' results go on AlpacaEval? Predictors of a new model, and what perfect use would give.

python -m benchmarks.evaluation.history_limits      ten seconds; writes results/evaluation/history-limits.json

Every second model is the new one; the others of all 57 are its history. A predictor sees 80 random answers, and R² is
that of the items it did not see. "All" sees nine tenths of all answers: no method that is asked 80 can know as much.
"""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

import coresift as cs
from benchmarks.evaluation.history import alpaca
from benchmarks.evaluation.peers import capped
from benchmarks.evaluation.study import RESULTS
from coresift.prediction import ridge, standardized

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PATH = RESULTS / "history-limits.json"
ANSWERS, SAMPLES, FOLDS = 80, 6, 10
# How sharply models count that agree with the new one, by e^(sharpness·correlation), and the ridge penalty per model.
SHARPNESS, PENALTY = 8.0, 100.0
# The noise of an answer, as a Gaussian process has it.
NOISE = 0.8


def library(results: Floats, ids: Ints, answers: Floats) -> Floats:
    """The ridge regression on factors that `cs.evaluate` draws by."""
    table = cs.signals.history(results)
    known = table.scales * standardized(table.columns)
    intercept, slopes, _ = ridge(known[ids], answers, np.ones(ids.size))
    return np.asarray(intercept + known @ slopes)


def gaussian_process(results: Floats, ids: Ints, answers: Floats) -> Floats:
    """Earlier models are draws of one Gaussian process over items; the new one is another."""
    ease = results.mean(axis=1)
    apart = results - ease[:, None]
    apart = apart - apart.mean(axis=0)
    covariance = apart @ apart[ids].T / results.shape[1] + np.outer(ease - ease.mean(), ease[ids] - ease.mean())
    expected = ease - ease.mean() + answers.mean()
    missed = answers - expected[ids]
    return np.asarray(expected + covariance @ np.linalg.solve(covariance[ids] + NOISE * np.eye(ids.size), missed))


def similar_models(results: Floats, ids: Ints, answers: Floats) -> Floats:
    """The mean of earlier models, weighted by how well each agrees with the new one, and a slope."""
    asked = results[ids]
    apart, own = asked - asked.mean(axis=0), answers - answers.mean()
    agreement = own @ apart / (ids.size * asked.std(axis=0) * own.std() + 1e-9)
    weights = np.exp(SHARPNESS * agreement)
    guess = results @ (weights / weights.sum())
    slope = np.clip(np.cov(guess[ids], answers)[0, 1] / max(guess[ids].var(ddof=1), 1e-9), 0.0, 1.5)
    return np.asarray(answers.mean() + slope * (guess - guess[ids].mean()))


def all_models(results: Floats, ids: Ints, answers: Floats) -> Floats:
    """A ridge regression on all models and their mean."""
    known = np.column_stack([results, np.sqrt(results.shape[1]) * results.mean(axis=1)])
    apart = known - known[ids].mean(axis=0)
    slopes = np.linalg.solve(
        apart[ids].T @ apart[ids] + PENALTY * np.eye(known.shape[1]), apart[ids].T @ (answers - answers.mean())
    )
    return np.asarray(answers.mean() + apart @ slopes)


PREDICTORS = {
    "ridge on factors, as drawn by": library,
    "Gaussian process": gaussian_process,
    "similar models": similar_models,
    "ridge on all models": all_models,
}


def limits() -> dict[str, object]:
    """Medians over new models: R² of each predictor, and the effective sample size that "all" would give."""
    table, rng = alpaca(), np.random.default_rng(1)
    few: dict[str, list[float]] = {name: [] for name in PREDICTORS}
    whole: dict[str, list[float]] = {name: [] for name in PREDICTORS}
    sizes = []
    for model in range(0, table.results.shape[1], 2):
        rows = table.answered(model)
        answers, results = table.results[rows, model], filled(table.without(model)[rows])
        draws = [rng.choice(rows.size, ANSWERS, replace=False) for _ in range(SAMPLES)]
        folds = np.random.default_rng(0).integers(FOLDS, size=rows.size)
        crossed = {}
        for name, predict in PREDICTORS.items():
            parts = [_explained(answers, predict(results, ids, answers[ids]), ids) for ids in draws]
            few[name].append(float(np.mean(parts)))
            crossed[name] = _out_of_fold(predict, results, answers, folds)
            whole[name].append(_explained(answers, crossed[name], np.zeros(0, np.int64)))
        sizes.append(_sample_sizes(answers, (crossed["similar models"] + crossed["ridge on all models"]) / 2))
    uniform, doubt = np.median(sizes, axis=0)
    return {
        "models": len(sizes),
        "explained": {name: [float(np.median(few[name])), float(np.median(whole[name]))] for name in PREDICTORS},
        "uniform_rows": float(uniform),
        "drawn_by_doubt": float(doubt),
    }


def filled(results: Floats) -> Floats:
    """Fill gaps by the item's mean, moved by how good the model is."""
    items, models = np.nanmean(results, axis=1, keepdims=True), np.nanmean(results, axis=0)
    return np.where(np.isnan(results), np.clip(items + models - np.nanmean(results), 0, 1), results)


def _out_of_fold(predict: object, results: Floats, answers: Floats, folds: Ints) -> Floats:
    found = np.zeros(answers.size)
    for fold in range(FOLDS):
        ids = np.flatnonzero(folds != fold)
        found[folds == fold] = predict(results, ids, answers[ids])[folds == fold]  # type: ignore[operator]
    return found


def _explained(answers: Floats, predicted: Floats, seen: Ints) -> float:
    missed = np.delete((answers - predicted) ** 2, seen)
    return 1 - float(missed.mean()) / float(answers.var())


def _sample_sizes(answers: Floats, predicted: Floats) -> tuple[float, float]:
    """Return the effective sample size over uniform's of 80 answers: uniform rows, and rows drawn by √(p(1 − p))."""
    n, missed = answers.size, (answers - predicted) ** 2
    flat = answers.var() * (1 / ANSWERS - 1 / n)
    likely = np.clip(predicted, 0.02, 0.98)
    inclusion = capped(np.sqrt(likely * (1 - likely)), ANSWERS)
    return float(answers.var() / missed.mean()), float(flat * n**2 / (missed @ (1 / inclusion - 1)))


def text() -> str:
    """The limits as a table for the report; nothing if they were not computed."""
    if not PATH.exists():
        return ""
    found = json.loads(PATH.read_text())
    lines = ["", f"| predictor, {found['models']} new models | R² from 80 answers | R² from nine tenths of all |"]
    lines += ["|---|---|---|"]
    lines += [f"| {name} | {few:.2f} | {whole:.2f} |" for name, (few, whole) in found["explained"].items()]
    return "\n".join(lines) + (
        "\n\nWith the mean of the last two, learned from nine tenths of all answers, uniform rows would be worth "
        f"{found['uniform_rows']:.2f} times as many, and rows drawn by √(p(1 − p)) {found['drawn_by_doubt']:.2f} "
        "times as many (`python -m benchmarks.evaluation.history_limits`). A method that is asked 80 answers knows "
        "less than that, so 2.5 by error is out of reach on this table with predictors like these.\n"
    )


def main() -> None:
    PATH.write_text(json.dumps(limits(), indent=1) + "\n")
    print(text())


if __name__ == "__main__":
    main()
