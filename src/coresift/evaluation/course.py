"""The course of an evaluation: the rows drawn so far, their answers, and how to draw the next ones."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.evaluation.densities import (
    Density,
    Expectation,
    first_density,
    first_order,
    next_binary_density,
    next_density,
)
from coresift.evaluation.estimating import Reading, Setup, critical_value, evaluation_of, figure, read, read_group
from coresift.evaluation.intervals import forecast_half_width
from coresift.evaluation.metrics import Target
from coresift.evaluation.result import Evaluation, missed_groups, missed_width
from coresift.evaluation.sampling import Sample, draw_phase
from coresift.evaluation.stages import LAST_AIM, NEARLY_ALL, SECOND, Forecast, Wish, first_stage
from coresift.inclusion import deal
from coresift.oracle.asking import MaxCostError
from coresift.streams import Stream, generator
from coresift.types import Bools, Floats, Ints, Request

Steps = Generator[Request, Any, Evaluation]
CONTINUED = (
    "This run went on after an earlier result; if you went on because of that result, the interval may hold a little "
    "less often than it says."
)
# The half-width by large-sample theory, from the variance and the number of answers.
Reached: TypeAlias = Callable[[float, int], float]


class Course:
    """The state of an evaluation between two stages."""

    def __init__(self, setup: Setup, seed: int) -> None:
        self.setup, self._seed = setup, seed
        population = setup.population
        self.sample = Sample.empty(np.bincount(population.strata, minlength=len(population.groups)))
        # The inclusion probability of every row in each stage.
        self._inclusion = np.zeros((0, len(population)))
        self.answers: NDArray[Any] = np.empty(0, object)
        self.stopped = False

    def drive(self, wish: Wish) -> Steps:
        """Ask in stages, and return the evaluation."""
        population, belief = self.setup.population, self.setup.metric.belief
        sizes = first_density(population.sizes, belief, population.calibrated)
        wishes = (*wish.earlier, wish)
        first = first_stage(len(population), len(population.groups), wishes[0], belief.first_per_root)
        # A group without a drawn row would be missing from every total.
        first = max(first, population.nonempty_groups)
        order = first_order(population.sizes, sizes, belief)
        yield from self.ask(self.counts(first, sizes), sizes, order, "first stage")
        for each in wishes:
            if not self.stopped and each.within is None and not each.group_within.size:
                yield from self._spend(each)
            elif not self.stopped:
                yield from self._reach(each)
        result = self.evaluation()
        return replace(result, remarks=(*self._remarks(wish, result), *result.remarks))

    def ask(self, counts: Ints, sizes: Floats, order: Floats, reason: str) -> Generator[Request, Any, None]:
        """Draw one more stage, with these numbers of rows from each group, and ask for its answers.

        Args:
            counts: How many rows to draw from each group.
            sizes: What each row's probability is in proportion to.
            order: What the draw is spread over: a row's expected answer, or what comes closest to it.
            reason: Why these rows are asked.
        """
        population, stage = self.setup.population, len(self.sample.counts) + 1
        rng = generator(self._seed, Stream.EVALUATION, stage)
        ids, strata, inclusion = draw_phase(sizes, order, self.left(), population.strata, counts, rng)
        if not ids.size:
            return
        # They are asked in random order, so that the first answers of a stage that is stopped represent the others.
        shuffled = rng.permutation(ids.size)
        ids, strata, places = ids[shuffled], strata[shuffled], shuffled  # `places` is where each was before
        try:
            answers = yield Request(population.rows[ids], reason, stage)
        except MaxCostError as error:
            answers, self.stopped = _partial(population.rows[ids], error), True
        self._inclusion = np.concatenate([self._inclusion, inclusion[None]])
        self.sample = self.sample.grown(ids, strata, self._inclusion, population.strata, places)
        self.answers = np.concatenate([self.answers, answers])

    def until(self, stage: int) -> Course:
        """Return the course as it was after a stage."""
        earlier = type(self)(self.setup, self._seed)
        earlier.sample = self.sample.until(stage)
        earlier._inclusion = self._inclusion[:stage]
        earlier.answers = self.answers[self.sample.phase <= stage]
        return earlier

    def left(self) -> Bools:
        """Return the rows that were not drawn yet."""
        left: Bools = np.ones(len(self.setup.population), np.bool_)
        left[self.sample.ids] = False
        return left

    def counts(self, more: int, sizes: Floats) -> Ints:
        """Return how many more rows to draw from each group, in proportion to the sizes of its remaining rows."""
        strata, groups, left = self.setup.population.strata, self.sample.sizes.size, self.left()
        limits = np.bincount(strata[left], minlength=groups)
        if groups == 1:
            return np.minimum(limits, more)
        totals = np.bincount(strata[left], sizes[left], groups)
        return deal(more * totals / max(float(totals.sum()), 1e-300), limits, more)

    def reading(self) -> Reading:
        """Return the estimates so far."""
        return read(self.setup, self.sample, self.answers)

    def density(self, reading: Reading) -> Density:
        """Return how to draw next."""
        population = self.setup.population
        if len(reading.targets) == 1 and reading.targets[0].event:
            answers = (reading.targets[0].linear != 0).astype(np.float64)
            return next_binary_density(reading.sample, answers, population.known, population.chances)
        expected = [self._expect(reading, target) for target in reading.targets]
        squares = np.mean([expectation.residuals**2 for expectation in expected], axis=0)
        roots, order, belief = np.sqrt(squares), expected[0].everywhere, self.setup.metric.belief
        signals, calibrated = population.sizes, population.calibrated
        return next_density(reading.sample, roots, order, population.known, signals, belief, calibrated)

    def _expect(self, reading: Reading, target: Target) -> Expectation:
        return Expectation.of(reading.sample, target.linear, self.setup.population.known)

    def need(self, reading: Reading, density: Density, within: float) -> int:
        """Return the total number of answers that reaches a half-width."""
        forecasts = self.forecasts(self.setup, reading, density.here)
        return max(own.answers_for(within, reached) for own, reached in forecasts)

    def group_needs(self, reading: Reading, density: Density, within: Floats) -> Ints:
        """Return the total number of answers that each group needs for its half-width."""
        needs = self.sample.sizes.copy()
        for group in range(needs.size):
            own = reading.sample.strata == group
            if own.any():
                setup, inside = read_group(self.setup, reading, group)
                first = Reading(inside.sample, inside.columns, inside.noise, inside.targets[:1])
                forecast, reached = self.forecasts(setup, first, density.here[own])[0]
                needs[group] = forecast.answers_for(within[group], reached)
        return needs

    def forecasts(self, setup: Setup, reading: Reading, here: Floats) -> list[tuple[Forecast, Reached]]:
        """Return, for each number, the forecast of its variance, and its half-width from a variance."""
        # More answers do not make rows like these more alike, so only the draw's own error is forecast.
        setup, sample = replace(setup, superpopulation=False, decided=None), reading.sample
        critical = critical_value(setup, reading.targets)
        forecasts: list[tuple[Forecast, Reached]] = []
        for target in reading.targets:
            squares = self._expect(reading, target).residuals ** 2
            now = figure(setup, reading, target, len(sample), critical if target.difference else None).half_width
            own = Forecast(sample, target.fit.moments.variance, here, squares, now)
            forecasts.append((own, partial(forecast_half_width, target, sample, confidence=setup.confidence)))
        return forecasts

    def evaluation(self) -> Evaluation:
        """Return the evaluation from the answers so far."""
        reached = "The oracle's max_cost was reached, so this is the estimate from the answers so far."
        return evaluation_of(self.setup, self.sample, self.answers, (reached,) if self.stopped else ())

    def _spend(self, wish: Wish) -> Generator[Request, Any, None]:
        """Ask the rest of the budget."""
        assert wish.budget is not None
        more = min(wish.budget, len(self.setup.population)) - len(self.sample)
        if more > 0:
            density = self.density(self.reading())
            yield from self.ask(self.counts(more, density.sizes), density.sizes, density.order, "rest")

    def _reach(self, wish: Wish) -> Generator[Request, Any, None]:
        """Ask most of the answers that are predicted to be needed, and then the rest."""
        for part, reason in ((SECOND, "second stage"), (1.0, "third stage")):
            reading = self.reading()
            density = self.density(reading)
            counts = self._more(wish, reading, density, part)
            if self.stopped:
                return
            # If the pilot has more than this part of the need already, only the rest is asked.
            if counts.any():
                yield from self.ask(counts, density.sizes, density.order, reason)

    def _more(self, wish: Wish, reading: Reading, density: Density, part: float) -> Ints:
        """Return how many more rows of each group to ask now."""
        asked = np.bincount(self.sample.strata, minlength=self.sample.sizes.size)
        sizes = self.sample.sizes
        if not wish.group_within.size:
            asked, sizes = np.array([len(self.sample)]), np.array([len(self.setup.population)])
        needs = self._needs(wish, reading, density, 1.0)
        if part == 1 and np.any(needs > asked):
            needs = np.where(needs > asked, self._needs(wish, reading, density, LAST_AIM), needs)
        more = _stage(needs, asked, sizes, part)
        more = more if wish.group_within.size else self.counts(int(more[0]), density.sizes)
        room = None if wish.budget is None else max(wish.budget - len(self.sample), 0)
        if room is not None and more.sum() > room:
            more = np.floor(more * (room / more.sum())).astype(np.int64)
        return more

    def _needs(self, wish: Wish, reading: Reading, density: Density, aim: float) -> Ints:
        """Return the total need, of each group if groups have their own half-widths, for `aim` times the half-width."""
        if wish.group_within.size:
            return self.group_needs(reading, density, aim * wish.group_within)
        assert wish.within is not None
        return np.array([self.need(reading, density, aim * wish.within)])

    def _remarks(self, wish: Wish, result: Evaluation) -> tuple[str, ...]:
        population, continued = len(self.setup.population), CONTINUED if wish.earlier else ""
        if wish.within is None and not wish.group_within.size:
            return (continued,) if continued else ()
        if len(self.sample) == population and population > 0:
            wanted = "The half-width" if wish.within is None else f"± {wish.within:g}"
            return (f"{wanted} takes nearly all of the {population:,} rows, so all of them were asked.",)
        missed = "" if wish.within is None else missed_width(result, wish.within, wish.budget)
        return tuple(filter(None, [missed, missed_groups(result.groups, wish.group_within), continued]))


def _stage(needs: Ints, asked: Ints, sizes: Ints, part: float) -> Ints:
    """Return how many more rows to ask for `part` of the need; all rows if nearly all are needed."""
    now = np.where(needs >= NEARLY_ALL * sizes, sizes, np.round(part * needs).astype(np.int64))
    return np.asarray(np.where(needs > asked, np.maximum(now - asked, 0), 0), np.int64)


def _partial(ids: Ints, error: MaxCostError) -> NDArray[Any]:
    """Return the answers of a stage that was stopped, with None for missing ones; raise if there are too few."""
    if error.ids.size < 2:
        raise error
    known = dict(zip(error.ids.tolist(), error.answers.tolist(), strict=True))
    answers = np.empty(ids.size, object)
    answers[:] = [known.get(row) for row in ids.tolist()]
    return answers
