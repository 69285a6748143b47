"""Enumerate every outcome of a draw with its probability, by finding where each uniform number changes the outcome.

A draw maps uniform numbers to a sample, and the map is piecewise constant along each number. The jumps are found by
bisection; between them are boxes whose volumes are probabilities. Running the real code once per box gives its exact
distribution. Random points check that no jump was missed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from coresift.types import Design, Floats, Ints

R = TypeVar("R")

# How many points along a line to search for jumps between, and how many lines to search per number.
POINTS, LINES = 32, 4
# Two lines have the same jump if they find it within this distance.
SAME = 1e-10
# How many random points to check against the outcome of their box.
CHECKS = 100
MOST_BOXES = 300_000


class Script:
    """A source of uniform numbers that returns given numbers in order."""

    def __init__(self, numbers: Floats) -> None:
        self.numbers, self.used = np.asarray(numbers, np.float64), 0

    def random(self, size: int) -> Floats:
        """Return the next numbers."""
        if self.used + size > self.numbers.size:
            raise _MoreNumbersError(self.used + size)
        self.used += size
        return self.numbers[self.used - size : self.used]


class _MoreNumbersError(Exception):
    """A draw needs more numbers than the script has."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"{needed} numbers are needed")
        self.needed = needed


@dataclass(frozen=True)
class Outcome:
    """One possible sample: positions and counts, and its probability."""

    positions: Ints
    counts: Ints
    probability: float


def outcomes(design: Design, inclusion: Floats) -> list[Outcome]:
    """Return every sample that a design can draw, with its probability.

    Args:
        design: The design.
        inclusion: The inclusion probability of each row, in the order of the draw.

    Returns:
        The outcomes; their probabilities sum to 1.

    Examples:
        >>> from coresift.designs import Systematic
        >>> samples = outcomes(Systematic(), np.array([0.25, 0.75]))
        >>> sorted((sample.positions.tolist(), round(sample.probability, 6)) for sample in samples)
        [([0], 0.25), ([1], 0.75)]
    """
    inclusion = np.asarray(inclusion, np.float64)

    def draw(script: Script) -> tuple[Ints, Ints]:
        positions, counts = design.draw(inclusion, script)
        return np.asarray(positions), np.asarray(counts)

    merged: dict[Hashable, Outcome] = {}
    for (positions, counts), probability in boxes(draw, _key):
        key = _key((positions, counts))
        so_far = merged[key].probability if key in merged else 0.0
        merged[key] = Outcome(positions, counts, so_far + probability)
    return list(merged.values())


def boxes(run: Callable[[Script], R], key: Callable[[R], Hashable]) -> Iterator[tuple[R, float]]:
    """Yield the result of `run` in every box of the uniform numbers that it uses, with the box's volume.

    Args:
        run: A function of a script of uniform numbers; the same numbers must give the same result.
        key: Returns equal keys for results that are the same outcome.
    """
    size = _numbers_used(run)
    if size == 0:
        yield run(Script(np.zeros(0))), 1.0
        return
    rng = np.random.default_rng(0)
    cuts = [_jumps(run, key, axis, size, rng) for axis in range(size)]
    pieces = [_pieces(axis) for axis in cuts]
    count = int(np.prod([len(axis) for axis in pieces]))
    if count > MOST_BOXES:
        raise AssertionError(f"There are {count} boxes to enumerate; use a smaller problem.")
    for combination in itertools.product(*pieces):
        midpoint = np.array([point for point, _ in combination])
        yield run(Script(midpoint)), float(np.prod([width for _, width in combination]))
    _check_constant(run, key, cuts, rng)


def _numbers_used(run: Callable[[Script], R]) -> int:
    size = 0
    while True:
        script = Script(np.full(size, 0.5))
        try:
            run(script)
        except _MoreNumbersError as error:
            size = error.needed
            continue
        return script.used


def _jumps(
    run: Callable[[Script], R], key: Callable[[R], Hashable], axis: int, size: int, rng: np.random.Generator
) -> list[float]:
    jumps: set[float] = set()
    for _ in range(LINES):
        point = rng.random(size)

        def at(value: float, point: Floats = point) -> Hashable:
            shifted = point.copy()
            shifted[axis] = value
            return key(run(Script(shifted)))

        grid = np.linspace(0, 1 - 1e-12, POINTS)
        # Confirm the jumps of earlier lines instead of searching for them again.
        sides = [jump + side for jump in _distinct(sorted(jumps)) for side in (-SAME / 4, SAME / 4)]
        points = np.sort([*grid, *(side for side in sides if 0 < side < grid[-1])]).tolist()
        keys = [at(value) for value in points]
        for (low, high), (left, right) in zip(itertools.pairwise(points), itertools.pairwise(keys), strict=True):
            if high - low > SAME:
                jumps |= set(_between(at, low, high, left, right))
    return _distinct(sorted(jumps))


def _between(at: Callable[[float], Hashable], low: float, high: float, left: Hashable, right: Hashable) -> list[float]:
    """Return the jumps between two points with different outcomes; there may be more than one."""
    if left == right:
        return []
    while high - low > 1e-13:
        midpoint = (low + high) / 2
        outcome = at(midpoint)
        if outcome not in (left, right):
            return [*_between(at, low, midpoint, left, outcome), *_between(at, midpoint, high, outcome, right)]
        low, high = (midpoint, high) if outcome == left else (low, midpoint)
    return [(low + high) / 2]


def _distinct(jumps: list[float]) -> list[float]:
    """Merge equal jumps of several lines, which bisection finds to within about 1e-13."""
    distinct: list[float] = []
    for jump in jumps:
        if not distinct or jump - distinct[-1] > SAME:
            distinct.append(jump)
    return distinct


def _pieces(cuts: list[float]) -> list[tuple[float, float]]:
    ends = [0.0, *(cut for cut in cuts if 1e-12 < cut < 1 - 1e-12), 1.0]
    return [((low + high) / 2, high - low) for low, high in itertools.pairwise(ends)]


def _check_constant(
    run: Callable[[Script], R], key: Callable[[R], Hashable], cuts: list[list[float]], rng: np.random.Generator
) -> None:
    for _ in range(CHECKS):
        point = rng.random(len(cuts))
        midpoint = np.empty(len(cuts))
        for axis, jumps in enumerate(cuts):
            ends = np.array([0.0, *jumps, 1.0])
            index = int(np.searchsorted(ends, point[axis], side="right"))
            midpoint[axis] = (ends[index - 1] + ends[index]) / 2
        if key(run(Script(point))) != key(run(Script(midpoint))):
            raise AssertionError(
                "The draw changes inside a box of its uniform numbers, so its outcomes cannot be enumerated: "
                "where the outcome jumps along one number must not depend on the others."
            )


def _key(result: tuple[Ints, Ints]) -> Hashable:
    positions, counts = result
    return frozenset(zip(positions.tolist(), counts.tolist(), strict=True))
