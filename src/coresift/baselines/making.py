"""What all baselines share: checked arguments, the rows that may be selected, and making a `Selection`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.assembly import PhaseDraw, assemble, assemble_chosen, warn_unreachable
from coresift.checks import InputError, refuse, whole
from coresift.engine import Engine, Local, Workers
from coresift.progress import Progress, choose
from coresift.recipes import EVEN_DRAW
from coresift.rows import Rows, RowsLike, open_rows
from coresift.rows.base import Block
from coresift.rows.numbering import numbers_of, warn_of_budget
from coresift.streams import Stream, generator
from coresift.types import (
    Clustering,
    Design,
    Floats,
    Frame,
    Ints,
    Ledger,
    Provenance,
    Selection,
    Singles,
    WeightedSelection,
    recorded,
)

ProgressLike: TypeAlias = bool | Progress | None


@dataclass(frozen=True)
class BaselineTask:
    """The checked arguments that all baselines share; `room` rows are chosen in addition to the given ones."""

    rows: Rows
    frame: Frame
    budget: int
    seed: int
    method: str
    options: dict[str, str]
    rng: np.random.Generator
    engine: Engine
    progress: Progress

    @property
    def room(self) -> int:
        """How many rows to choose besides the given ones."""
        return self.budget - self.frame.given.size

    @property
    def open(self) -> Ints:
        """The rows that can be chosen, ascending."""
        return np.flatnonzero(self.frame.open())

    @property
    def counted(self) -> Ints:
        """The rows that a selection represents: all but the excluded ones."""
        return np.setdiff1d(np.arange(self.frame.n), self.frame.excluded, assume_unique=True)

    def view(self, ids: Ints, *, normalize: bool = False) -> Rows:
        """Return a view of these rows, numbered from 0."""
        rows = self.rows.normalized() if normalize else self.rows
        return rows if ids.size == rows.n else RowSubset(rows, ids)

    def workers(self) -> AbstractContextManager[Workers]:
        """Return what runs the row blocks."""
        return self.engine.open(self.progress)

    def choose(self, ids: Ints, ledger: Ledger | None = None) -> Selection:
        """Return the given rows and these, in the order of choice, without weights.

        If a method found too few distinct rows, random ones fill the rest.
        """
        if ids.size < self.room:
            others = self.rng.permutation(np.setdiff1d(self.open, ids, assume_unique=True))
            ids = np.concatenate([ids, others[: self.room - ids.size]])
        provenance = self._provenance()
        ledger = ledger or Ledger()
        return assemble_chosen(self.rows, self.frame, ids, provenance=provenance, seed=self.seed, ledger=ledger)

    def draw(
        self, order: Ints, sizes: Floats, *, design: Design | None = None, clustering: Clustering | None = None
    ) -> WeightedSelection:
        """Draw rows in this order, with probabilities proportional to their sizes; weights are 1/π."""
        design = design or EVEN_DRAW
        if not order.size:
            return self.weighted(order, sizes, clustering=clustering)
        inclusion = self._inclusion(sizes, design)
        drawn, multiplicity = design.draw(inclusion, self.rng)
        return self._assemble(PhaseDraw(order[drawn], inclusion[drawn], multiplicity, design), clustering)

    def weighted(self, ids: Ints, inclusion: Floats, *, clustering: Clustering | None = None) -> WeightedSelection:
        """Return the given rows and these, drawn with these probabilities, in draw order; weights are 1/π."""
        return self._assemble(PhaseDraw(ids, inclusion, np.ones(ids.size, np.int64), EVEN_DRAW), clustering)

    def _inclusion(self, sizes: Floats, design: Design) -> Floats:
        positive = sizes > 0
        if design.distinct and self.room > np.count_nonzero(positive):
            # Rows of size 0 share the rest of the budget equally.
            certain = int(np.count_nonzero(positive))
            return np.where(positive, 1.0, (self.room - certain) / max(sizes.size - certain, 1))
        warn_unreachable(sizes, self.method, stacklevel=6)
        return design.inclusion(sizes, self.room)

    def _assemble(self, drawn: PhaseDraw, clustering: Clustering | None) -> WeightedSelection:
        no_pilot = PhaseDraw(drawn.ids[:0], np.zeros(0), drawn.ids[:0], None)
        return assemble(
            self.rows,
            self.frame,
            (no_pilot, drawn),
            provenance=self._provenance(),
            seed=self.seed,
            ledger=Ledger(),
            clustering=clustering,
        )

    def _provenance(self) -> Provenance:
        return Provenance(
            self.method,
            self.budget,
            None,
            self.frame.record(),
            None,
            self.options,
            **self.rows.origin(),
        )


def begin(
    method: str,
    rows: RowsLike,
    budget: int,
    seed: int,
    given: Any,
    exclude: Any,
    engine: Engine | None,
    progress: ProgressLike,
    **options: Any,
) -> BaselineTask:
    """Check the arguments that all baselines share; the options go into the provenance."""
    rows, seed = open_rows(rows), whole("seed", seed, least=0)
    frame = Frame(rows.n, numbers_of("given", given, rows), numbers_of("exclude", exclude, rows))
    budget = whole("budget", budget)
    if frame.population == 0:
        raise InputError("exclude leaves no row to select.")
    if budget < frame.given.size or budget == frame.given.size < frame.population:
        refuse("budget", f"more than the {frame.given.size} given rows, which count toward it", budget)
    warn_of_budget(budget, frame.population)
    budget = min(budget, frame.population)
    option_texts = {name: option_text(option) for name, option in options.items()}
    rng = generator(seed, Stream.BASELINES)
    return BaselineTask(rows, frame, budget, seed, method, option_texts, rng, engine or Local(), choose(progress))


def flag(argument: str, value: Any) -> bool:
    """Return the flag; refuse anything but True and False."""
    if not isinstance(value, (bool, np.bool_)):
        refuse(argument, "True or False", repr(value))
    return bool(value)


def option_text(option: Any) -> str:
    """Return what the provenance says about an option."""
    if isinstance(option, Clustering):
        return f"{option.k}, seed {option.seed}"
    record = recorded(option)
    return f"{record['shape']} numbers, digest {record['digest']}" if isinstance(option, np.ndarray) else repr(option)


class RowSubset(Rows):
    """A subset of the rows, in ascending order."""

    def __init__(self, raw: Rows, ids: Ints) -> None:
        super().__init__(ids.size, raw.d)
        self._raw, self._ids = raw, ids

    def blocks(self) -> Iterator[Block]:
        """Yield blocks; their rows are read only when the block's function is called."""
        for start in range(0, self.n, self.block_rows):
            yield start, partial(self._raw.take, self._ids[start : start + self.block_rows])

    def number(self, row: int) -> int:
        """Return the row's number among all rows."""
        return self._raw.number(int(self._ids[row]))

    def _pick(self, ids: Ints) -> Iterator[Singles]:
        yield self._raw.take(self._ids[ids])


def by_block(pieces: Iterator[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate the results of all blocks."""
    return np.concatenate(list(pieces))
