"""Evaluate a new model with the results of earlier ones: each model in turn is the new one, and the others are history.

The effective sample size is told in two ways. *By error*: how many times as many uniform rows would have had the same
RMSE. *By the paper's width*: the squared ratio of the width that FAQ's paper takes as uniform's to the method's own.
That baseline (Horvitz–Thompson, independent draws) is wider than a textbook interval, by 1.4 to 2 times as many rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coresift as cs
from benchmarks.evaluation.faq import Settings, faq, horvitz_thompson_width
from benchmarks.evaluation.history import Factors, Table, alpaca, chosen, fit, sigmoid, simulated
from benchmarks.evaluation.peers import active_inference, uniform
from benchmarks.evaluation.populations import Population
from benchmarks.evaluation.study import OURS, RESULTS

Floats = NDArray[np.float64]
# Per table: numbers of answers, target models (all of them, if None), and runs for each target model.
CASES: dict[str, tuple[tuple[int, ...], int | None, int]] = {
    "AlpacaEval": ((40, 80, 160), None, 100),
    "simulated": ((301, 602, 1_203, 3_008), 3, 5),
}
# With this spread FAQ has about its published 4.3 at 5 % of the items; the other budgets are then a test.
SPREAD = 3.0
PUBLISHED = {301: 3.6, 602: 4.3, 1_203: 4.9, 3_008: 4.9}
METHODS = (OURS, "FAQ", "active inference", "uniform")
# Raise it when our method changes, so that earlier runs are not mixed with later ones.
VERSION = 2


def run(name: str, which: tuple[str, ...] = METHODS) -> Iterator[str]:
    """Run what is missing of a table, one target model after the other."""
    table = alpaca() if name == "AlpacaEval" else simulated(SPREAD)
    budgets, targets, seeds = CASES[name]
    path = RESULTS / f"history-{name}.npz"
    kept: dict[str, Floats] = _read(name)
    models = list(range(table.results.shape[1]))[:targets]
    for model in models:
        setting = None
        for budget in budgets:
            for method in which:
                label = _label(model, budget, method)
                if label in kept:
                    continue
                setting = setting or Setting(table, model)
                lines = setting.runs(method, budget, range(seeds))
                kept[label] = (lines - setting.answers.mean()).astype(np.float16)
        if setting is not None:
            kept[f"truth {model}"] = np.array(setting.answers.mean())
            kept[f"items {model}"] = np.array(setting.answers.size)
            kept[f"explained {model}"] = np.array(explained(setting.others, setting.answers))
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(path.with_suffix(".part.npz"), allow_pickle=False, **kept)
            path.with_suffix(".part.npz").replace(path)
            yield f"{name}: target model {model}"


class Setting:
    """One new model: its answers, what the others answered, and the factors that this gives."""

    def __init__(self, table: Table, model: int) -> None:
        self.name, self._rows, self._all = table.name, table.answered(model), table.without(model)
        self.answers, self.others = table.results[self._rows, model], self._all[self._rows]
        self.past = cs.signals.history(self.others)

    @cached_property
    def factors(self) -> Factors:
        """Factors of the other models; only peers need them, and they take most of the time."""
        rank, penalty = chosen(self._all) if self._all.size < 1e6 else (4, 1.0)
        found = fit(self._all, rank, penalty)
        return Factors(found.items[self._rows], found.models)

    @cached_property
    def population(self) -> Population:
        """What peers know: the mean model's predictions, and how uncertain they are."""
        guess = sigmoid(self.factors.items @ self.factors.models.mean(axis=0))
        doubt = np.sqrt(guess * (1 - guess))
        return Population(self.name, "reported", self.answers, {}, guess, doubt, True)

    def runs(self, method: str, budget: int, seeds: range) -> Floats:
        """Run a method once per seed: estimate, low and high."""
        if method == OURS:
            return np.array([self._evaluated(budget, seed) for seed in seeds])
        if method == "FAQ":
            return faq(self.factors, self.answers, budget, seeds, Settings())
        return (uniform if method == "uniform" else active_inference)(self.population, budget, seeds)

    def _evaluated(self, budget: int, seed: int) -> tuple[float, float, float]:
        run = cs.evaluate(values=self.answers, signals=self.past, budget=budget, metric="rate", seed=seed)
        result = run.complete()
        return result.value, result.low, result.high


def cases() -> list[dict[str, Any]]:
    """Medians over target models, by table, number of answers and method."""
    found = []
    for name, (budgets, _, _) in CASES.items():
        kept = _read(name)
        models = [int(label.split()[1]) for label in kept if label.startswith("truth")]
        for budget in budgets:
            case: dict[str, Any] = {"table": name, "answers": budget, "models": len(models), "methods": {}}
            for method in METHODS:
                lines = [
                    _measures(kept[_label(model, budget, method)].astype(np.float64), kept, model, budget)
                    for model in models
                    if _label(model, budget, method) in kept
                ]
                if lines:
                    middle = np.median(np.array(lines), axis=0)
                    case["methods"][method] = {
                        "ess_by_error": float(middle[0]),
                        "ess_by_papers_width": float(middle[1]),
                        "ess_by_width": float(middle[2]),
                        "coverage": float(np.mean([line[3] for line in lines])),
                    }
            if case["methods"]:
                found.append(case)
    return found


def _measures(lines: Floats, kept: dict[str, Floats], model: int, budget: int) -> tuple[float, ...]:
    truth, n = float(kept[f"truth {model}"]), int(kept[f"items {model}"])
    value, low, high = truth + lines.T
    flat = truth * (1 - truth) * n / (n - 1) * (1 / budget - 1 / n)
    width = float(np.mean(high - low))
    return (
        float(flat / np.mean((value - truth) ** 2)),
        (horvitz_thompson_width(truth, n, budget) / width) ** 2,
        (2 * 1.959964 * np.sqrt(flat) / width) ** 2,
        float(np.mean((low <= truth) & (truth <= high))),
    )


def table_text(found: list[dict[str, Any]]) -> str:
    """All cases as a table."""
    lines = [
        "| table | answers | method | ESS by error | ESS by width | ESS by the paper's width | coverage |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in found:
        for method, own in case["methods"].items():
            published = PUBLISHED.get(case["answers"]) if method == "FAQ" and case["table"] == "simulated" else None
            beside = f" (published on MMLU-Pro: {published})" if published else ""
            lines.append(
                f"| {case['table']}, {case['models']} models | {case['answers']:,} | {method} "
                f"| {own['ess_by_error']:.2f} | {own['ess_by_width']:.2f} "
                f"| {own['ess_by_papers_width']:.2f}{beside} | {own['coverage']:.3f} |"
            )
    return "\n".join(lines) + "\n"


def explained(others: Floats, answers: Floats) -> float:
    """Return the part of the answers' variance that a ridge regression on other models explains, out of ten folds."""
    filled = np.where(np.isnan(others), np.nanmean(others, axis=1, keepdims=True), others)
    known = np.column_stack([filled, math.sqrt(filled.shape[1]) * filled.mean(axis=1)])
    fold = np.random.default_rng(0).integers(10, size=answers.size)
    missed = []
    for penalty in (10, 30, 100, 300):
        error = np.zeros(answers.size)
        for held in (fold == number for number in range(10)):
            x, y = known[~held] - known[~held].mean(axis=0), answers[~held] - answers[~held].mean()
            slopes = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y)
            error[held] = answers[held] - answers[~held].mean() - (known[held] - known[~held].mean(axis=0)) @ slopes
        missed.append(float(np.mean(error**2)))
    return 1 - min(missed) / float(answers.var())


def ceilings() -> str:
    """What the other models' answers explain at most, per table."""
    lines = []
    for name in CASES:
        parts = [float(value) for label, value in _read(name).items() if label.startswith("explained")]
        if parts:
            middle = float(np.median(parts))
            lines.append(f"- {name}: R² {middle:.2f} (median over all new models), so {1 / (1 - middle):.2f}.")
    return "\n".join(lines) + "\n"


def _read(name: str) -> dict[str, Floats]:
    path = RESULTS / f"history-{name}.npz"
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as file:
        return {label: file[label] for label in file.files if f"{OURS} v" not in label or label.endswith(f"v{VERSION}")}


def _label(model: int, budget: int, method: str) -> str:
    return f"{model}/{budget}/{method}" + (f" v{VERSION}" if method == OURS else "")
