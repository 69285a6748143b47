"""Results of earlier models on the same items, and factor models of them.

`alpaca()` is real: the order of a judge's annotations in the wheel `alpaca-eval` shows which answers came from one
model, since models were judged one after another. That gives about sixty models on 805 instructions, with gaps.
`simulated()` draws answers from factors. Factors are then learned again from other models' answers, and the generator's
own are never used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.evaluation.populations import annotations

Floats = NDArray[np.float64]
JUDGES = ("claude", "chatgpt_fn")
ITEMS = 805
# Blocks of annotations below this are not one model's; a model without wins or losses is a test of the judge.
SMALLEST_BLOCK = 540
STEPS = 25


@dataclass(frozen=True)
class Table:
    """Items × models: 1 where a model succeeded, 0 where it failed, NaN where that is not known."""

    name: str
    results: Floats

    def without(self, model: int) -> Floats:
        """The results of all other models."""
        return np.delete(self.results, model, axis=1)

    def answered(self, model: int) -> NDArray[np.int64]:
        """The items that a model answered."""
        return np.flatnonzero(np.isfinite(self.results[:, model]))


@dataclass(frozen=True)
class Factors:
    """P(model succeeds on item) = σ(model · item)."""

    items: Floats
    models: Floats


@cache
def alpaca() -> Table:
    """Read the table of AlpacaEval: does the judge prefer the model's answer to the reference's?"""
    blocks = [block for judge in JUDGES for block in _blocks(annotations(judge))]
    # The largest block has every instruction of the benchmark and nothing else.
    whole = next(block for block in blocks if len(block) == ITEMS)
    place_of = {row["instruction"]: place for place, row in enumerate(whole)}
    columns = []
    for block in blocks:
        column = np.full(ITEMS, np.nan)
        for row in block:
            if row["instruction"] in place_of and row["preference"] in (1, 2):
                column[place_of[row["instruction"]]] = row["preference"] == 2
        known = column[np.isfinite(column)]
        if known.size >= SMALLEST_BLOCK and 0.02 < known.mean() < 0.98:
            columns.append(column)
    return Table("AlpacaEval", np.stack(columns, axis=1))


def _blocks(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Cut a judge's annotations where an instruction comes again."""
    starts, seen = [0], set()
    for place, row in enumerate(rows):
        key = row["instruction"], row.get("input")
        if key in seen:
            starts.append(place)
            seen = set()
        seen.add(key)
    blocks = [rows[start:end] for start, end in zip(starts, [*starts[1:], len(rows)], strict=True)]
    return [block for block in blocks if len(block) >= SMALLEST_BLOCK]


@cache
def simulated(spread: float, items: int = 12_032, models: int = 200, rank: int = 4) -> Table:
    """Draw items, models and an answer for each pair.

    Args:
        spread: The standard deviation of the items' ease, in log odds; all else is the same for every spread.
        items: How many items.
        models: How many models.
        rank: How many factors there are, the items' ease among them.
    """
    rng = np.random.default_rng(18)
    ease = spread * rng.standard_normal((items, 1))
    tastes = 0.5 * rng.standard_normal((items, rank - 1))
    ability = rng.standard_normal((models, 1)) - 1.5
    likes = rng.standard_normal((models, rank - 1))
    chances = sigmoid(ease + ability.T + tastes @ likes.T)
    results = (rng.random(chances.shape) < chances).astype(np.float64)
    return Table(f"simulated, spread {spread:g}", results)


def fit(results: Floats, rank: int, penalty: float) -> Factors:
    """Fit a logistic factor model by alternating Newton steps; missing results are left out."""
    known = np.isfinite(results)
    filled, rng = np.where(known, results, 0.0), np.random.default_rng(0)
    items, models = (0.3 * rng.standard_normal((size, rank)) for size in results.shape)
    models[:, 0] += 1.0  # a first factor that all models share is the item's ease
    for _ in range(STEPS):
        items = _newton(items, models, filled, known, penalty)
        models = _newton(models, items, filled.T, known.T, penalty)
    return Factors(items, models)


def _newton(own: Floats, other: Floats, results: Floats, known: NDArray[np.bool_], penalty: float) -> Floats:
    chance = sigmoid(own @ other.T)
    slopes = np.where(known, results - chance, 0.0) @ other - penalty * own
    weights = np.where(known, np.maximum(chance * (1 - chance), 1e-3), 0.0)
    squares = (other[:, :, None] * other[:, None, :]).reshape(len(other), -1)
    curvature = (weights @ squares).reshape(len(own), other.shape[1], -1) + penalty * np.eye(other.shape[1])
    step = np.linalg.solve(curvature, slopes[:, :, None])[:, :, 0]
    return own + np.clip(step, -1.0, 1.0)


def chosen(results: Floats) -> tuple[int, float]:
    """Choose rank and penalty by the log loss of a tenth of the results that were held out."""
    rng = np.random.default_rng(1)
    held = np.isfinite(results) & (rng.random(results.shape) < 0.1)
    rest = np.where(held, np.nan, results)
    losses = {}
    for rank in (1, 2, 4, 8, 16):
        for penalty in (0.3, 1.0, 3.0):
            found = fit(rest, rank, penalty)
            chance = np.clip(sigmoid(found.items @ found.models.T)[held], 1e-6, 1 - 1e-6)
            truth = results[held]
            losses[rank, penalty] = float(-(truth * np.log(chance) + (1 - truth) * np.log(1 - chance)).mean())
    return min(losses, key=lambda key: losses[key])


def sigmoid(odds: Floats) -> Floats:
    """1/(1 + e^−x)."""
    return np.asarray(1 / (1 + np.exp(-np.clip(odds, -30, 30))))
