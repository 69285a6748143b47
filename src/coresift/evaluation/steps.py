"""An evaluation, stage by stage: draw, ask, learn where answers differ most, draw again, estimate."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.evaluation.calibration import Calibration
from coresift.evaluation.densities import Density, first_density, next_density
from coresift.evaluation.intervals import interval_of
from coresift.evaluation.metrics import Context, Metric, Target
from coresift.evaluation.population import Population
from coresift.evaluation.result import Evaluation, Figure, figure_of
from coresift.evaluation.sampling import Sample, draw_phase
from coresift.evaluation.stages import NEARLY_ALL, SECOND, Forecast, first_stage, normal_quantile
from coresift.inclusion import deal
from coresift.streams import Stream, generator
from coresift.types import Bools, Floats, Ints, Request

Steps = Generator[Request, Any, Evaluation]


@dataclass(frozen=True)
class Task:
    """Everything that an evaluation depends on, besides the answers."""

    metric: Metric
    context: Context
    population: Population
    budget: int | None
    within: float | None
    confidence: float
    seed: int

    def steps(self) -> Steps:
        """Ask in stages, and return the evaluation."""
        course = Course(self)
        first = first_stage(len(self.population), self.budget, self.within)
        yield from course.ask(first, first_density(self.population.sizes), "pilot")
        if self.within is None:
            assert self.budget is not None
            yield from course.grow(min(self.budget, len(self.population)), "rest")
            return course.evaluation()
        need = course.need()
        if need > len(course.sample):
            whole = need >= NEARLY_ALL * len(self.population)
            yield from course.grow(need if whole else max(round(SECOND * need), first), "second stage")
            yield from course.grow(course.need(), "third stage")
        return course.evaluation()


class Course:
    """How far an evaluation has come."""

    def __init__(self, task: Task) -> None:
        self.task = task
        population = task.population
        self.sample = Sample.empty(np.bincount(population.strata, minlength=len(population.groups)))
        self.answers: NDArray[Any] = np.empty(0, object)
        self._totals = population.known.sum(axis=0)

    def ask(self, count: int, sizes: Floats, reason: str) -> Generator[Request, Any, None]:
        """Draw and ask one more stage."""
        population, stage = self.task.population, len(self.sample.counts) + 1
        left: Bools = np.ones(len(population), np.bool_)
        left[self.sample.ids] = False
        counts = _counts(sizes, left, population.strata, count, self.sample.sizes.size)
        rng = generator(self.task.seed, Stream.EVALUATION, stage)
        ids, inclusion, strata = draw_phase(sizes, left, population.strata, counts, rng)
        answers = yield Request(population.rows[ids], reason, stage)
        self.sample = self.sample.grown(ids, inclusion, strata)
        self.answers = np.concatenate([self.answers, answers])

    def grow(self, total: int, reason: str) -> Generator[Request, Any, None]:
        """Ask until `total` rows were asked in all."""
        if total > len(self.sample):
            yield from self.ask(total - len(self.sample), self.density().sizes, reason)

    def density(self) -> Density:
        """Return how to draw next."""
        population = self.task.population
        sample, targets = self.targets()
        residuals = np.sqrt(np.mean([target.fit.residuals**2 for target in targets], axis=0))
        return next_density(sample, residuals, population.known, population.sizes)

    def targets(self) -> tuple[Sample, list[Target]]:
        """Return the rows that have an answer, and the estimates they give."""
        task, population = self.task, self.task.population
        columns = task.metric.columns(self.answers, population.rows[self.sample.ids], task.context)
        given: Bools = ~np.isnan(columns.sum(axis=1))
        sample = self.sample.answered(given)
        calibration = Calibration(sample, population.known[sample.ids], self._totals)
        return sample, task.metric.targets(columns[given], task.context, calibration)

    def need(self) -> int:
        """Return how many answers in all reach the wanted half-width, at most the budget."""
        task, (sample, targets) = self.task, self.targets()
        assert task.within is not None
        wanted = (task.within / normal_quantile(task.confidence)) ** 2
        density = self.density()
        need = max(
            Forecast(sample, target.fit.moments.variance, _of(density, target)).answers_for(wanted)
            for target in targets
        )
        return need if task.budget is None else min(need, task.budget)

    def evaluation(self) -> Evaluation:
        """Return what the answers so far say."""
        sample, targets = self.targets()
        figures = {target.name: self._figure(target, sample) for target in targets}
        main = next(iter(figures.values()))
        return Evaluation(
            **vars(main),
            metric=self.task.metric.label,
            n=self.task.population.n,
            stages=tuple(self.sample.counts.sum(axis=1).tolist()),
            figures=figures,
            remarks=self._remarks(main),
        )

    def _figure(self, target: Target, sample: Sample) -> Figure:
        interval = interval_of(target, sample, self.task.confidence)
        weights, population = sample.weights, len(self.task.population)
        middle = float(weights @ target.linear) / float(weights.sum())
        spread = population**2 * float(weights @ (target.linear - middle) ** 2) / float(weights.sum())
        return figure_of(interval, self.task.confidence, population, len(self.sample), spread)

    def _remarks(self, main: Figure) -> tuple[str, ...]:
        within, budget = self.task.within, self.task.budget
        if within is None or main.half_width <= 1.1 * within:
            return ()
        if budget is not None and len(self.sample) >= budget:
            return (f"A budget of {budget:,} answers buys ± {main.half_width:.3g}, not ± {within:g}.",)
        return ()


def _of(density: Density, target: Target) -> Density:
    return Density(density.sizes, density.here, target.fit.residuals**2)


def _counts(sizes: Floats, left: Bools, strata: Ints, count: int, groups: int) -> Ints:
    """Return how many rows to draw from each stratum, in proportion to the sizes of its rows that are left."""
    limits = np.bincount(strata[left], minlength=groups)
    if groups == 1:
        return np.minimum(limits, count)
    wishes = np.bincount(strata[left], sizes[left], groups)
    return deal(count * wishes / wishes.sum(), limits, count)
