"""An evaluation, stage by stage: draw, ask, learn where answers differ most, draw again, estimate."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from coresift.evaluation.course import Course
from coresift.evaluation.densities import first_density
from coresift.evaluation.estimating import Reading, Setup
from coresift.evaluation.result import Evaluation
from coresift.evaluation.stages import NEARLY_ALL, SECOND, Wish, first_stage
from coresift.types import Floats, Ints, Request

Steps = Generator[Request, Any, Evaluation]


@dataclass(frozen=True)
class Task:
    """Everything that an evaluation depends on, besides the answers."""

    setup: Setup
    wish: Wish
    seed: int

    def begin(self) -> Course:
        """Return an evaluation that has asked nothing yet."""
        return Course(self.setup, self.seed)

    def steps(self, course: Course) -> Steps:
        """Ask in stages, and return the evaluation."""
        population = self.setup.population
        sizes = first_density(population.sizes)
        first = first_stage(len(population), len(population.groups), self.wish)
        yield from course.ask(course.counts(first, sizes), sizes, "pilot")
        if not course.stopped and self.wish.within is None and not self.wish.group_within.size:
            yield from self._spend(course)
        elif not course.stopped:
            yield from self._reach(course)
        result = course.evaluation(self._remarks(course))
        return result

    def _spend(self, course: Course) -> Generator[Request, Any, None]:
        """Ask the rest of the budget."""
        assert self.wish.budget is not None
        more = min(self.wish.budget, len(self.setup.population)) - len(course.sample)
        if more > 0:
            sizes = course.density(course.reading()).sizes
            yield from course.ask(course.counts(more, sizes), sizes, "rest")

    def _reach(self, course: Course) -> Generator[Request, Any, None]:
        """Ask most of what is predicted to be needed, and then the rest."""
        for part, reason in ((SECOND, "second stage"), (1.0, "third stage")):
            reading = course.reading()
            density = course.density(reading)
            counts = self._more(course, reading, density.sizes, part)
            if not counts.any() or course.stopped:
                return
            yield from course.ask(counts, density.sizes, reason)

    def _more(self, course: Course, reading: Reading, sizes: Floats, part: float) -> Ints:
        """Return how many more rows of each group to ask now."""
        wish, asked = self.wish, np.bincount(course.sample.strata, minlength=course.sample.sizes.size)
        density = course.density(reading)
        if wish.group_within.size:
            needs = course.group_needs(reading, density, wish.group_within)
            more = _stage(needs, asked, course.sample.sizes, part)
        else:
            assert wish.within is not None
            need = np.array([course.need(reading, density, wish.within)])
            total = _stage(need, np.array([len(course.sample)]), np.array([len(self.setup.population)]), part)
            more = course.counts(int(total[0]), sizes)
        room = None if wish.budget is None else max(wish.budget - len(course.sample), 0)
        if room is not None and more.sum() > room:
            more = np.floor(more * (room / more.sum())).astype(np.int64)
        return more

    def _remarks(self, course: Course) -> tuple[str, ...]:
        wish, population = self.wish, len(self.setup.population)
        if wish.within is None:
            return ()
        found = course.evaluation()
        if len(course.sample) == population and population > 0:
            return (f"± {wish.within:g} takes nearly all of the {population:,} rows, so all were asked.",)
        if found.half_width <= 1.1 * wish.within or wish.budget is None or len(course.sample) < 0.98 * wish.budget:
            return ()
        needed = found.answers_for(wish.within)
        told = f"A budget of {wish.budget:,} answers buys ± {found.half_width:.2g}"
        return (f"{told}; ± {wish.within:g} would take about {needed:,}.",)


def _stage(needs: Ints, asked: Ints, sizes: Ints, part: float) -> Ints:
    """Return how many more to ask, where `part` of the need is to be reached now; all if nearly all are needed."""
    now = np.where(needs >= NEARLY_ALL * sizes, sizes, np.round(part * needs).astype(np.int64))
    return np.asarray(np.where(needs > asked, np.maximum(now - asked, 0), 0), np.int64)
