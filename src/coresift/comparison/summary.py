"""The results of a comparison: single runs, a line per method and budget, and the best method."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# The probability, per budget, that a difference within chance is called real.
FALSE_ALARMS = 0.05
# The largest figure: sums of its squares over all seeds stay finite.
LARGEST = 1e100


@dataclass(frozen=True)
class Trial:
    """One selection by one method, with one budget and one seed, and its result.

    `selected` is the number of rows, `asked` the number of losses asked to choose them, and `calls` includes the losses
    of the selected rows. `error` is the error of the estimated total loss, relative to the true total; `covered` says
    whether the interval contains the truth; `width` is relative, too. All three are None without weights. `score` is
    the result of training on the selection. `seconds` is the time of one whole selection, `memory` the peak of the
    process in bytes. `failure` says why there is no result.
    """

    method: str
    text: str
    budget: int
    seed: int
    selected: int = 0
    asked: int = 0
    calls: int = 0
    seconds: float = 0.0
    memory: float | None = None
    error: float | None = None
    covered: bool | None = None
    width: float | None = None
    score: float | None = None
    training_seconds: float | None = None
    failure: str | None = None

    def is_sound(self) -> bool:
        """Say whether all figures are numbers that can be averaged; a file may say anything."""
        measures = (self.memory, self.error, self.width, self.score, self.training_seconds)
        return (
            all(map(_is_figure, (self.selected, self.asked, self.calls, self.seconds)))
            and all(measure is None or _is_figure(measure) for measure in measures)
            and isinstance(self.covered, bool | None)
        )


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


@dataclass(frozen=True)
class Mean:
    """A mean over seeds, and its standard error (None if there is only one seed)."""

    value: float
    error: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean | None:
        """Return the mean of the values, or None if there are none.

        >>> Mean.of([1.0, 2.0, 3.0])
        Mean(value=2.0, error=0.577350...)
        """
        if not len(values):
            return None
        numbers = np.asarray(values, np.float64)
        error = float(numbers.std(ddof=1) / math.sqrt(numbers.size)) if numbers.size > 1 else None
        return cls(float(numbers.mean()), error)


@dataclass(frozen=True)
class Line:
    """One method at one budget, over its seeds.

    `measure` is what methods are judged by: the mean absolute error of the estimated total, relative to the true total,
    or the mean score. `difference` is the mean paired difference from the reference, with the same seeds, and `beyond`
    says whether it is beyond chance.
    """

    method: str
    budget: int
    seeds: int
    failure: str | None = None
    measure: Mean | None = None
    difference: Mean | None = None
    beyond: bool = False
    rmse: Mean | None = None
    coverage: Mean | None = None
    width: Mean | None = None
    selected: Mean | None = None
    asked: Mean | None = None
    calls: Mean | None = None
    seconds: Mean | None = None
    training_seconds: Mean | None = None
    memory: float | None = None


@dataclass(frozen=True)
class Verdict:
    """Which method is best at a budget, and which others these seeds cannot distinguish from it."""

    budget: int
    best: str
    tied: tuple[str, ...]


def summarize(
    runs: Iterable[Trial], methods: Sequence[str], budgets: Sequence[int], reference: str, value: Callable[[Trial], Any]
) -> tuple[Line, ...]:
    """Return a line per budget and method; `value` returns what a run is judged by, or None."""
    by_row: dict[tuple[str, int], list[Trial]] = {(method, budget): [] for budget in budgets for method in methods}
    for run in runs:
        by_row[run.method, run.budget].append(run)
    return tuple(
        _line(by_row[method, budget], by_row[reference, budget], method, budget, len(methods) - 1, value)
        for budget in budgets
        for method in methods
    )


def _line(
    runs: list[Trial], others: list[Trial], method: str, budget: int, comparisons: int, value: Callable[[Trial], Any]
) -> Line:
    failure = next((run.failure for run in runs if run.failure), None)
    if failure or not runs:
        return Line(method, budget, sum(run.failure is None for run in runs), failure)
    errors = [run.error for run in runs if run.error is not None]
    difference = Mean.of(differences(runs, others, value)) if others is not runs else None
    memories = [run.memory for run in runs if run.memory is not None]
    return Line(
        method,
        budget,
        len(runs),
        measure=Mean.of([value(run) for run in runs if value(run) is not None]),
        difference=difference,
        beyond=beyond_chance(difference, len(runs), comparisons),
        rmse=root_mean_square(errors),
        coverage=Mean.of([run.covered for run in runs if run.covered is not None]),
        width=Mean.of([run.width for run in runs if run.width is not None]),
        selected=Mean.of([run.selected for run in runs]),
        asked=Mean.of([run.asked for run in runs]),
        calls=Mean.of([run.calls for run in runs]),
        seconds=Mean.of([run.seconds for run in runs]),
        training_seconds=Mean.of([run.training_seconds for run in runs if run.training_seconds is not None]),
        memory=max(memories, default=None),
    )


def differences(runs: Iterable[Trial], others: Iterable[Trial], value: Callable[[Trial], Any]) -> list[float]:
    """Return the differences of values for each seed that both methods finished."""
    other = {run.seed: value(run) for run in others if run.failure is None}
    pairs = [(value(run), other.get(run.seed)) for run in runs if run.failure is None]
    return [left - right for left, right in pairs if left is not None and right is not None]


def beyond_chance(difference: Mean | None, seeds: int, comparisons: int) -> bool:
    """Return whether a mean difference is further from 0 than Student's t allows for, with Bonferroni's correction.

    The correction is needed because the best of several methods was chosen with the same data.
    """
    from scipy.special import stdtrit

    if difference is None or difference.error is None or difference.value == 0:
        return False
    quantile = float(stdtrit(seeds - 1, 1 - FALSE_ALARMS / 2 / comparisons))
    return abs(difference.value) > quantile * difference.error


def root_mean_square(errors: Sequence[float]) -> Mean | None:
    """Return the root mean squared error; its standard error follows from that of the mean square."""
    square = Mean.of([error**2 for error in errors])
    if square is None:
        return None
    root = math.sqrt(square.value)
    return Mean(root, None if square.error is None or root == 0 else square.error / (2 * root))


def verdicts(
    lines: Sequence[Line], runs: Sequence[Trial], reference: str, value: Callable[[Trial], Any], higher: bool
) -> tuple[Verdict, ...]:
    """Return the best method at each budget, and those that cannot be distinguished from it."""
    results = []
    for budget in dict.fromkeys(line.budget for line in lines):
        candidates = {line.method: line for line in lines if line.budget == budget and line.measure is not None}
        if len(candidates) < 2:
            continue
        own = {name: [run for run in runs if run.budget == budget and run.method == name] for name in candidates}
        best = max(candidates, key=lambda name: _level(candidates[name]) if higher else -_level(candidates[name]))
        tied = [
            name
            for name in candidates
            if name != best and not _distinguishable(name, best, candidates, own, reference, value)
        ]
        results.append(Verdict(budget, best, tuple(tied)))
    return tuple(results)


def _distinguishable(
    name: str,
    best: str,
    candidates: dict[str, Line],
    runs: dict[str, list[Trial]],
    reference: str,
    value: Callable[[Trial], Any],
) -> bool:
    """Return whether two methods differ beyond chance, corrected for the number of comparisons."""
    if reference in (name, best):
        return candidates[best if name == reference else name].beyond
    others = len(candidates.keys() - {reference})
    pairs = differences(runs[name], runs[best], value)
    return beyond_chance(Mean.of(pairs), len(pairs), others * (others - 1) // 2)


def _level(line: Line) -> float:
    assert line.measure is not None
    return line.measure.value
