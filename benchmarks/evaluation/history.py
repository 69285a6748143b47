"""Results of earlier models on the same items, and factor models of them.

`alpaca()` is real data: models were judged one after another, so the order of a judge's annotations in the wheel
`alpaca-eval` shows which answers came from the same model. That gives about sixty models on 805 instructions, with
some results missing. There are two judges, two reference models, and the texts of all answers. `simulated()` draws
answers from factors. The study never uses these factors; it learns new ones from the other models' answers.
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
# Smaller blocks of annotations do not belong to one model.
SMALLEST_BLOCK = 540
STEPS = 25


@dataclass(frozen=True)
class Table:
    """Items × models: 1 if the model succeeded on the item, 0 if it failed, NaN if the result is unknown.

    `kinds` has the judge and the number of the reference for each model, and `texts` its answers, if they are known.
    `instructions` has the text of each item.
    """

    name: str
    results: Floats
    kinds: tuple[tuple[str, str], ...] = ()
    texts: tuple[tuple[str | None, ...], ...] = ()
    instructions: tuple[str, ...] = ()

    def without(self, model: int) -> Floats:
        """Return the results of all other models."""
        return np.delete(self.results, model, axis=1)

    def others_first(self, model: int) -> list[int]:
        """Return the numbers of all models, this one last."""
        return [*(other for other in range(self.results.shape[1]) if other != model), model]

    def answered(self, model: int) -> NDArray[np.int64]:
        """Return the items that a model answered."""
        return np.flatnonzero(np.isfinite(self.results[:, model]))


@dataclass(frozen=True)
class Factors:
    """P(model succeeds on item) = σ(model · item)."""

    items: Floats
    models: Floats


@cache
def alpaca() -> Table:
    """Read the table of AlpacaEval: does the judge prefer the model's answer to the reference answer?"""
    blocks = [(judge, block) for judge in JUDGES for block in _blocks(annotations(judge))]
    # A block of this length has every instruction of the benchmark exactly once.
    complete = next(block for _, block in blocks if len(block) == ITEMS)
    position_of = {row["instruction"]: position for position, row in enumerate(complete)}
    columns, kinds, texts = [], [], []
    references: list[dict[int, str]] = []
    for judge, block in blocks:
        column, answers, reference = np.full(ITEMS, np.nan), [None] * ITEMS, {}
        for row in block:
            if row["instruction"] in position_of and row["preference"] in (1, 2):
                position = position_of[row["instruction"]]
                column[position] = row["preference"] == 2
                reference[position], answers[position] = row["output_1"], row["output_2"]
        known = column[np.isfinite(column)]
        # A block with only wins or only losses is a test of the judge, not a model.
        if known.size >= SMALLEST_BLOCK and 0.02 < known.mean() < 0.98:
            columns.append(column)
            texts.append(tuple(answers))
            kinds.append((judge, str(_number(reference, references))))
    return Table("AlpacaEval", np.stack(columns, axis=1), tuple(kinds), tuple(texts), tuple(position_of))


def _number(reference: dict[int, str], references: list[dict[int, str]]) -> int:
    """Return the number of the reference model, by its answers; a new one is added to the list."""
    for number, other in enumerate(references):
        common = reference.keys() & other.keys()
        if sum(reference[item] == other[item] for item in common) > len(common) / 2:
            return number
    references.append(reference)
    return len(references) - 1


def _blocks(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Split a judge's annotations wherever an instruction repeats."""
    starts, seen = [0], set()
    for position, row in enumerate(rows):
        key = row["instruction"], row.get("input")
        if key in seen:
            starts.append(position)
            seen = set()
        seen.add(key)
    blocks = [rows[start:end] for start, end in zip(starts, [*starts[1:], len(rows)], strict=True)]
    return [block for block in blocks if len(block) >= SMALLEST_BLOCK]


@cache
def simulated(spread: float, items: int = 12_032, models: int = 200, rank: int = 4) -> Table:
    """Draw items, models, and an answer for each pair of them.

    Args:
        spread: The standard deviation of the items' ease, in log odds; everything else is the same for every spread.
        items: The number of items.
        models: The number of models.
        rank: The number of factors, including the items' ease.
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
    """Fit a logistic factor model by alternating Newton steps; missing results are ignored."""
    known = np.isfinite(results)
    filled, rng = np.where(known, results, 0.0), np.random.default_rng(0)
    items, models = (0.3 * rng.standard_normal((size, rank)) for size in results.shape)
    models[:, 0] += 1.0  # all models share the first factor, which is the item's ease
    for _ in range(STEPS):
        items = _newton(items, models, filled, known, penalty)
        models = _newton(models, items, filled.T, known.T, penalty)
    return Factors(items, models)


def _newton(factors: Floats, others: Floats, results: Floats, known: NDArray[np.bool_], penalty: float) -> Floats:
    """Return the factors of one side after a Newton step, with those of the other side fixed."""
    chance = sigmoid(factors @ others.T)
    slopes = np.where(known, results - chance, 0.0) @ others - penalty * factors
    weights = np.where(known, np.maximum(chance * (1 - chance), 1e-3), 0.0)
    squares = (others[:, :, None] * others[:, None, :]).reshape(len(others), -1)
    curvature = (weights @ squares).reshape(len(factors), others.shape[1], -1) + penalty * np.eye(others.shape[1])
    step = np.linalg.solve(curvature, slopes[:, :, None])[:, :, 0]
    return factors + np.clip(step, -1.0, 1.0)


def tune(results: Floats) -> tuple[int, float]:
    """Return the rank and penalty with the smallest log loss on a held-out tenth of the results."""
    rng = np.random.default_rng(1)
    held = np.isfinite(results) & (rng.random(results.shape) < 0.1)
    rest = np.where(held, np.nan, results)
    losses = {}
    for rank in (1, 2, 4, 8, 16):
        for penalty in (0.3, 1.0, 3.0):
            factors = fit(rest, rank, penalty)
            chance = np.clip(sigmoid(factors.items @ factors.models.T)[held], 1e-6, 1 - 1e-6)
            truth = results[held]
            losses[rank, penalty] = float(-(truth * np.log(chance) + (1 - truth) * np.log(1 - chance)).mean())
    return min(losses, key=lambda key: losses[key])


def sigmoid(odds: Floats) -> Floats:
    """Return 1/(1 + e^−x)."""
    return np.asarray(1 / (1 + np.exp(-np.clip(odds, -30, 30))))
