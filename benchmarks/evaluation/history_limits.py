"""How much can earlier models' results help at most on AlpacaEval?

python -m benchmarks.evaluation.history_limits      ten seconds; writes results/evaluation/history-limits.json

Every second of the 57 models takes a turn as the new one, and all others are its history. A predictor sees 80 random
answers of the new model, and R² is measured on the items it did not see. For an upper limit, it sees nine tenths of
all answers, which no method with 80 answers can. Judges themselves are hardly a limit: they judged some pairs several
times, and two verdicts on the same pair agree almost always if the judge saw both answers in the same order.
"""

from __future__ import annotations

import itertools
import json
import random
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
        "order": order_effects(),
    }


def repeated(judge: str) -> dict[str, float]:
    """Return how two verdicts of a judge on the same pair correlate: over all couples of four, and by order."""
    verdicts = []
    with zipfile.ZipFile(fetch_wheel("alpaca_eval")) as wheel:
        for seed in range(4):
            path = f"alpaca_eval/evaluators_configs/{judge}/annotations_seed{seed}_configs.json"
            rows = [row for row in json.loads(wheel.read(path)) if row["preference"] in (1, 2)]
            names = "instruction", "input", "output_1", "output_2"
            verdicts.append({tuple(row.get(name) or "" for name in names): row["preference"] for row in rows})
    pairs = [pair for pair in verdicts[1] if all(pair in own for own in verdicts)]
    table = np.array([[own[pair] for pair in pairs] for own in verdicts], np.float64)
    order = np.array([[switched(pair[0] + pair[1], seed) for pair in pairs] for seed in range(4)])
    both: dict[str, list[Floats]] = {"all": [], "same": [], "other": []}
    for first, second in itertools.combinations(range(4), 2):
        couple, same = table[[first, second]], order[first] == order[second]
        for name, chosen in (("all", np.ones_like(same)), ("same", same), ("other", ~same)):
            both[name].append(couple[:, chosen])
    correlations = {name: float(np.corrcoef(np.concatenate(own, axis=1))[0, 1]) for name, own in both.items()}
    return {"pairs": len(pairs), **correlations}


def switched(text: str, seed: int = 0, newer: bool = False) -> bool:
    """Return whether a judge saw the second answer first. AlpacaEval draws that from the instruction and the seed.

    Args:
        text: The instruction, and its input.
        seed: The seed of the annotations; that of the leaderboard is 0.
        newer: Whether the draw is that of the wheel's own code. ChatGPT judged the models of the leaderboard with it.
            Everything else is older, and follows `random.choice`: then, and with no other rule that we tried, verdicts
            on the same pair agree if the order is the same.
    """
    draw = random.Random(f"is_switched_outputs{text}{seed}")
    return draw.choices([False, True])[0] if newer else draw.choice([False, True])


def order_effects() -> dict[str, Any]:
    """Return how much more often models win if they are shown first, and what knowing that adds to kinds.

    The order is the same for all models of a judge, so most of it is in what earlier models say about an item. `before`
    and `after` are medians of R², without and with the order and its product with the expected result as regressors.
    """
    table, effects, shares = alpaca(), dict[str, list[float]](), []
    for model in range(0, table.results.shape[1], 2):
        rows, judge = table.answered(model), table.kinds[model][0]
        answers = table.results[rows, model]
        first = np.array([switched(table.instructions[row], newer=judge == "chatgpt_fn") for row in rows])
        effects.setdefault(judge, []).append(float(answers[first].mean() - answers[~first].mean()))
        kinds = [table.kinds[other] for other in table.others_first(model)]
        expected = cs.signals.history(table.without(model)[rows], kinds=kinds).columns[:, 0]
        known = np.column_stack([np.ones(rows.size), expected, first, first * expected])
        fits = (known[:, :columns] @ np.linalg.lstsq(known[:, :columns], answers, rcond=None)[0] for columns in (2, 4))
        shares.append([_explained(answers, fit, np.zeros(0, np.int64)) for fit in fits])
    before, after = np.median(shares, axis=0)
    wins = {judge: float(np.median(own)) for judge, own in effects.items()}
    return {"wins": wins, "before": float(before), "after": float(after)}


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
    """Say how well a judge predicts itself, and what the order of both answers does."""
    judges, order = figures.get("judges", {}), figures.get("order")
    if not judges or order is None:
        return ""
    every, same, other = (
        ", ".join(f"{name} {own[which]:.2f}" for name, own in judges.items()) for which in ("all", "same", "other")
    )
    pairs = ", ".join(f"{name} {own['pairs']}" for name, own in judges.items())
    wins = ", ".join(f"{name} {100 * share:.0f}" for name, share in order["wins"].items())
    return (
        f"A judge's own noise is no limit. Two verdicts of the same judge on the same pair of answers correlate only "
        f"moderately ({every}; pairs: {pairs}), and an earlier version of this page took that for noise. But the order "
        "in which the judge saw both answers was drawn anew for each verdict. It follows from the instruction and the "
        f"seed, so it can be computed again: in the same order, verdicts have a correlation of {same}; in the other "
        f"order, {other}. In the table, every item has one order per judge, so the order is a property of the item. "
        f"Models win more often if they are shown first (median, points: {wins}). Earlier models that were judged in "
        "the same way have most of this already: if the order and its product with the expected result are added to "
        f"`kinds`, the median R² goes from {order['before']:.3f} to {order['after']:.3f} (fitted to all answers). So "
        "there is no known limit below 2.5 for predictors that read the texts; we only know what we reached.\n"
    )


def main() -> None:
    PATH.write_text(json.dumps(limits(), indent=1) + "\n")
    print(text())


if __name__ == "__main__":
    main()
