"""What every baseline shares: checked arguments, the rows that may come out, and the making of a Selection."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.checks import CoresiftWarning, InputError, refuse, row_numbers, whole
from coresift.design import Design, Systematic
from coresift.engine import Engine, Local, Workers
from coresift.progress import Progress, choose
from coresift.rows import Rows, open_rows
from coresift.rows.base import Block
from coresift.types import ORIGINS, Clustering, Floats, Frame, Ints, Ledger, Selection, Singles, digest

Watch: TypeAlias = bool | Progress | None

# Clustering, pilot and second draw have the streams 1 to 3 of a seed.
STREAM = 4


@dataclass(frozen=True)
class Task:
    """The arguments that all baselines have, checked; `room` rows are to be chosen besides the given ones."""

    rows: Rows
    frame: Frame
    budget: int
    seed: int
    recipe: dict[str, str]
    rng: np.random.Generator
    engine: Engine
    progress: Progress

    @property
    def room(self) -> int:
        """How many rows are still to be chosen."""
        return self.budget - self.frame.given.size

    @property
    def open(self) -> Ints:
        """The rows that are left to choose from, in their order."""
        return np.flatnonzero(self.frame.open())

    @property
    def counted(self) -> Ints:
        """The rows that a selection is to stand for: all but the excluded ones."""
        return np.setdiff1d(np.arange(self.frame.n), self.frame.excluded, assume_unique=True)

    def view(self, ids: Ints, *, normalize: bool = False) -> Rows:
        """Return some of the rows as if they were all there are, block by block."""
        rows = self.rows.normalized() if normalize else self.rows
        return rows if ids.size == rows.n else Some(rows, ids)

    def workers(self) -> AbstractContextManager[Workers]:
        """Return those who run the row blocks."""
        return self.engine.open(self.progress)

    def choose(self, ids: Ints, ledger: Ledger | None = None) -> Selection:
        """Return the given rows and these, in the order in which they were chosen, without weights.

        Where a method found fewer rows that differ than there is room for, others at random fill it up.
        """
        if ids.size < self.room:
            others = self.rng.permutation(np.setdiff1d(self.open, ids, assume_unique=True))
            ids = np.concatenate([ids, others[: self.room - ids.size]])
        return self._select(ids, None, np.ones(ids.size, np.int64), ledger=ledger)

    def draw(
        self, order: Ints, sizes: Floats, *, design: Design | None = None, clustering: Clustering | None = None
    ) -> Selection:
        """Draw open rows with probabilities that follow their sizes, walking them in this order; weights 1/π."""
        if not order.size:
            return self.weighted(order, sizes)
        design = design or Systematic()
        inclusion = self._inclusion(sizes, design)
        drawn, multiplicity = design.draw(inclusion, self.rng)
        name = type(design).__name__
        return self._select(order[drawn], inclusion[drawn], multiplicity, name, clustering=clustering)

    def weighted(self, ids: Ints, inclusion: Floats) -> Selection:
        """Return the given rows and these, drawn with these probabilities, in the order of the draw; weights 1/π."""
        ones = np.ones(ids.size, np.int64)
        return self._select(ids, inclusion, ones, "Systematic" if ids.size else "")

    def _inclusion(self, sizes: Floats, design: Design) -> Floats:
        positive = sizes > 0
        if design.distinct and self.room > np.count_nonzero(positive):
            # Rows that are worth nothing share what the others leave.
            certain = int(np.count_nonzero(positive))
            return np.where(positive, 1.0, (self.room - certain) / max(sizes.size - certain, 1))
        if not positive.all():
            message = (
                f"{np.count_nonzero(~positive)} of {sizes.size} rows have probability 0 under {self.recipe['method']} "
                "and can never come out: totals are unbiased only for values that are 0 there."
            )
            warnings.warn(message, CoresiftWarning, stacklevel=5)
        return design.inclusion(sizes, self.room)

    def _select(
        self,
        ids: Ints,
        inclusion: Floats | None,
        multiplicity: Ints,
        design: str = "",
        *,
        ledger: Ledger | None = None,
        clustering: Clustering | None = None,
    ) -> Selection:
        given = self.frame.given
        both = np.concatenate([given, ids])
        sort = np.argsort(both, kind="stable")
        both = both[sort]
        phase = np.repeat([0, 2], [given.size, ids.size])[sort]
        # Whoever is chosen, not drawn, is certain, and has no weight.
        chances = np.concatenate([np.ones(given.size), np.ones(ids.size) if inclusion is None else inclusion])[sort]
        multiplicity = np.concatenate([np.ones(given.size, np.int64), multiplicity])[sort]
        names = self.rows.names(both)
        return Selection(
            ids=both,
            weights=None if inclusion is None else multiplicity / chances,
            inclusion=chances,
            share=np.zeros(both.size),
            # A row of no cluster stands for itself.
            clusters=np.full(both.size, -1) if clustering is None else clustering.labels[both],
            distances=np.zeros(both.size, np.float32) if clustering is None else clustering.distances[both],
            origin=np.where(phase == 0, ORIGINS.index("given"), ORIGINS.index("drawn")),
            phase=phase,
            order=np.concatenate([np.arange(given.size), np.arange(ids.size)])[sort],
            multiplicity=multiplicity,
            losses=np.full(both.size, np.nan),
            n=self.frame.n,
            population=self.frame.population,
            seed=self.seed,
            z=2.0 if clustering is None else clustering.z,
            designs=("", design),
            recipe=self.recipe,
            ledger=ledger or Ledger(),
            names=None if names is None else tuple(names),
        )


def begin(
    method: str,
    rows: Any,
    budget: int,
    seed: int,
    given: Any,
    exclude: Any,
    engine: Engine | None,
    progress: Watch,
    **options: Any,
) -> Task:
    """Check what all baselines are given; the options go into the recipe."""
    rows, seed = open_rows(rows), whole("seed", seed, least=0)
    frame = Frame(rows.n, row_numbers("given", given, rows.n), row_numbers("exclude", exclude, rows.n))
    budget = whole("budget", budget)
    if frame.population == 0:
        raise InputError("exclude leaves no row to select.")
    if budget <= frame.given.size < frame.population:
        refuse("budget", f"more than the {frame.given.size} given rows, which count in it", budget)
    budget = min(budget, frame.population)
    recipe = {
        "method": method,
        "budget": str(budget),
        **{name: _shown(option) for name, option in options.items()},
        "given": _rows(frame.given),
        "exclude": _rows(frame.excluded),
    }
    rng = np.random.default_rng([seed, STREAM])
    return Task(rows, frame, budget, seed, recipe, rng, engine or Local(), choose(progress))


def flag(argument: str, value: Any) -> bool:
    """Return True or False, and nothing that is merely like them."""
    if not isinstance(value, (bool, np.bool_)):
        refuse(argument, "True or False", repr(value))
    return bool(value)


def _shown(option: Any) -> str:
    if isinstance(option, Clustering):
        return f"{option.k}, seed {option.seed}"
    return f"array(shape={option.shape}, digest={digest(option)!r})" if isinstance(option, np.ndarray) else repr(option)


def _rows(ids: Ints) -> str:
    return f"{ids.size} rows, digest {digest(ids)}" if ids.size else "no rows"


class Some(Rows):
    """Some of the rows, in the order of their numbers."""

    def __init__(self, raw: Rows, ids: Ints) -> None:
        super().__init__(ids.size, raw.d)
        self._raw, self._ids = raw, ids

    def blocks(self) -> Iterator[Block]:
        """Yield blocks that are gathered only when their function runs."""
        for start in range(0, self.n, self.block_rows):
            yield start, partial(self._raw.take, self._ids[start : start + self.block_rows])

    def number(self, row: int) -> int:
        """Return the row's number among all rows."""
        return self._raw.number(int(self._ids[row]))

    def _pick(self, ids: Ints) -> Iterator[Singles]:
        yield self._raw.take(self._ids[ids])


def by_block(pieces: Iterator[NDArray[Any]]) -> NDArray[Any]:
    """Return what the blocks gave as one array."""
    return np.concatenate(list(pieces))
