"""From the answers of a sample to figures: overall, by group, with missing answers at their worst and best."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import AnswerError
from coresift.evaluation.calibration import Calibration
from coresift.evaluation.intervals import interval_of, max_t
from coresift.evaluation.metrics import Context, Metric, Target
from coresift.evaluation.population import Population
from coresift.evaluation.result import Evaluation, Figure, Missing, figure_of, verdict
from coresift.evaluation.sampling import Sample
from coresift.notebook import counted
from coresift.types import Bools, Floats, Value

# A group with fewer answers than this has no interval.
FEWEST = 5


@dataclass(frozen=True, eq=False)
class Setup(Value):
    """What is evaluated, and for which rows.

    Attributes:
        metric: The metric.
        context: What the metric knows in advance.
        population: What is known about the relevant rows.
        confidence: The confidence of the intervals.
        superpopulation: Whether the number is about rows like these, of which these are a sample.
        decided: If the variance decides how many answers are asked, the part of them that it is estimated from.
    """

    metric: Metric
    context: Context
    population: Population
    confidence: float
    superpopulation: bool = False
    decided: float | None = None


@dataclass(frozen=True, eq=False)
class Reading(Value):
    """The estimates from the answers of a sample; rows without an answer are left out of sample and columns."""

    sample: Sample
    columns: Floats
    noise: Floats
    targets: list[Target]


def read(setup: Setup, sample: Sample, answers: NDArray[Any]) -> Reading:
    """Estimate every number of the metric."""
    metric, population = setup.metric, setup.population
    columns = metric.columns(answers, population.rows[sample.ids], setup.context)
    answered: Bools = ~np.isnan(columns.sum(axis=1))
    if not answered.any():
        raise AnswerError(f"There is no estimate, because all {len(sample):,} answers so far are None.")
    respondents = sample.answered(answered)
    calibration = Calibration(respondents, population.known[respondents.ids], population.totals)
    noise = metric.noise(answers[answered], setup.context)
    targets = metric.targets(columns[answered], setup.context, calibration)
    return Reading(respondents, columns[answered], noise, targets)


def read_group(setup: Setup, reading: Reading, group: int) -> tuple[Setup, Reading]:
    """Estimate the metric in one group alone."""
    population, own = setup.population, reading.sample.strata == group
    context = setup.context.within(population.all_strata == group)
    sample = reading.sample.within(group)
    totals = population.known[population.strata == group].sum(axis=0)
    calibration = Calibration(sample, population.known[sample.ids], totals)
    targets = setup.metric.targets(reading.columns[own], context, calibration)
    return replace(setup, context=context), Reading(sample, reading.columns[own], reading.noise[own], targets)


def evaluation_of(setup: Setup, sample: Sample, answers: NDArray[Any], remarks: tuple[str, ...] = ()) -> Evaluation:
    """Return the evaluation from these answers."""
    reading = read(setup, sample, answers)
    compared = [target for target in reading.targets if target.difference]
    critical = critical_value(setup, reading.targets)
    figures = {
        target.name: figure(setup, reading, target, len(sample), critical if target.difference else None)
        for target in reading.targets
    }
    main = next(iter(figures.values()))
    groups, group_remarks = _groups(setup, reading, sample)
    verdicts = [
        verdict(target.name, figures[target.name], points=setup.metric.labels and bool(setup.context.codes))
        for target in compared
    ]
    own = setup.metric.remarks(reading.columns, reading.sample.weights, setup.context)
    own = (*own, *setup.metric.answer_remarks(answers, setup.context))
    return Evaluation(
        **vars(main),
        metric=setup.metric.label,
        n=setup.population.n,
        stages=tuple(sample.counts.sum(axis=1).tolist()),
        figures=figures,
        groups=groups,
        missing=_missing(setup, reading, sample, answers),
        verdicts=tuple(verdicts),
        remarks=(*remarks, *own, *_simultaneous(compared, setup), *group_remarks),
    )


def critical_value(setup: Setup, targets: list[Target]) -> float | None:
    """Return how many standard errors the intervals of several differences extend; None if there are not several."""
    compared = [target for target in targets if target.difference]
    return max_t(compared, setup.confidence) if len(compared) > 1 else None


def figure(setup: Setup, reading: Reading, target: Target, asked: int, critical: float | None = None) -> Figure:
    """Return one number with its interval."""
    sample, n = reading.sample, setup.context.n
    deviations, beside = _deviations(setup, reading, target)
    weights = sample.weights
    spread = n * (float(weights @ deviations**2) + beside)
    extra = 0.0
    if target.gradient.size and reading.noise.any():
        # The noise of random answers is not from a finite population, so it remains even if all rows are asked.
        extra += float(weights @ (reading.noise[:, : target.gradient.size] @ target.gradient**2))
    if setup.superpopulation:
        extra += _between_units(setup, sample, deviations) + beside
    ends = (-math.inf, math.inf) if target.difference else setup.metric.ends
    interval = interval_of(
        target, sample, setup.confidence, extra=extra, critical=critical, ends=ends, decided=setup.decided
    )
    return figure_of(interval, setup.confidence, sample.population, asked, spread, n)


def _deviations(setup: Setup, reading: Reading, target: Target) -> tuple[Floats, float]:
    """Return the deviation of each answered row's z from the mean, and the sum of squares of irrelevant rows."""
    sample = reading.sample
    counted_rows = sample.population if setup.metric.among_relevant else setup.context.n
    middle = float(sample.weights @ target.influence) / counted_rows
    return target.influence - middle, (counted_rows - sample.population) * middle**2


def _between_units(setup: Setup, sample: Sample, deviations: Floats) -> float:
    """Estimate Σ (Σ of a unit's deviations)² over all units from the rows that were asked.

    A pair of rows of a unit has the product of their weights.
    """
    weights, units = sample.weights, setup.population.units
    alone = float(weights @ deviations**2)
    if not units.size:
        return alone
    moved = weights * deviations
    together = np.bincount(units[sample.ids], moved)
    return max(float(together @ together - moved @ moved) + alone, 0.0)


def _groups(setup: Setup, reading: Reading, sample: Sample) -> tuple[dict[Any, Figure], tuple[str, ...]]:
    names = setup.population.groups
    if len(names) == 1:
        return {}, ()
    figures, thin = {}, []
    for group, name in enumerate(names):
        asked = int(np.count_nonzero(sample.strata == group))
        answered = int(np.count_nonzero(reading.sample.strata == group))
        if answered < min(FEWEST, int(sample.sizes[group])) or answered == 0:
            figures[name] = _unknown(setup, int(sample.sizes[group]), asked, answered)
            thin.append(str(name))
            continue
        own, inside = read_group(setup, reading, group)
        figures[name] = figure(own, inside, inside.targets[0], asked)
    if not thin:
        return figures, ()
    return figures, (f"Too few answers for an interval in {counted(len(thin), 'group')}: {', '.join(thin[:6])}.",)


def _unknown(setup: Setup, rows: int, asked: int, answered: int) -> Figure:
    """Return the figure of a group with too few answers."""
    return Figure(math.nan, -math.inf, math.inf, math.inf, setup.confidence, rows, asked, float(answered))


def _missing(setup: Setup, reading: Reading, sample: Sample, answers: NDArray[Any]) -> Missing | None:
    gone = len(sample) - len(reading.sample)
    if not gone:
        return None
    metric, population = setup.metric, setup.population
    ids = population.rows[sample.ids]
    both = metric.extremes(metric.columns(answers, ids, setup.context), ids, setup.context)
    calibration = Calibration(sample, population.known[sample.ids], population.totals)
    worst, best = (metric.targets(columns, setup.context, calibration)[0].value for columns in both)
    return Missing(gone, worst, best)


def _simultaneous(compared: list[Target], setup: Setup) -> tuple[str, ...]:
    if len(compared) < 2:
        return ()
    return (f"The {len(compared)} intervals of differences hold simultaneously with {100 * setup.confidence:g}%.",)
