"""What is known before anything is asked: the number of rows, signals, predictions, groups and components."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from coresift.checks import InputError, refuse, whole
from coresift.components import leading_components
from coresift.engine import Engine
from coresift.evaluation.metrics import Context, Metric
from coresift.prediction import standardized
from coresift.progress import Progress
from coresift.recipes.known import read_signals
from coresift.rows import Rows, open_rows
from coresift.types import Bools, Floats, Ints, SignalTable, Value, as_array, digest, numbered

# How many principal components of the rows are used to predict answers.
COMPONENTS = 16
# Of more groups than this, only the largest tell by themselves how a row's answer may be.
MOST_GROUP_COLUMNS = 100


@dataclass(frozen=True, eq=False)
class Population(Value):
    """The rows that are relevant to a metric, by position; `rows` has their row numbers.

    Attributes:
        n: The number of all rows.
        rows: The numbers of the relevant rows.
        known: What is known about each, in standardized columns.
        sizes: Signals of at least 0, which can be used as sizes.
        calibrated: Which of them are calibrated probabilities of the answer 1.
        strata: The number of each row's group; all 0 without groups.
        groups: The names of the groups.
        all_strata: The group of every row, relevant or not.
        units: The unit of each relevant row, such as its document; empty if rows are units.
    """

    n: int
    rows: Ints
    known: Floats
    sizes: Floats
    calibrated: Bools
    strata: Ints
    groups: tuple[Any, ...]
    all_strata: Ints
    units: Ints

    @cached_property
    def totals(self) -> Floats:
        """The totals of what is known."""
        totals: Floats = self.known.sum(axis=0)
        return totals

    @property
    def chances(self) -> Floats:
        """The columns of calibrated probabilities."""
        return self.sizes[:, self.calibrated]

    @property
    def others(self) -> Ints:
        """The numbers of the rows that are not relevant and are never asked."""
        return np.setdiff1d(np.arange(self.n), self.rows, assume_unique=True)

    @property
    def nonempty_groups(self) -> int:
        """The number of groups that have a relevant row."""
        return int(np.count_nonzero(np.bincount(self.strata)))

    def __len__(self) -> int:
        return self.rows.size


def count_rows(rows: Rows | None, signals: SignalTable | None, predictions: int | None, groups: Any, n: Any) -> int:
    """Return the number of rows, or refuse lengths that differ."""
    lengths = {
        "rows": None if rows is None else rows.n,
        "signals": None if signals is None else len(signals),
        "predictions": predictions,
        "groups": None if groups is None else _length("groups", groups),
        "n": None if n is None else whole("n", n),
    }
    known = {name: length for name, length in lengths.items() if length is not None}
    if not known:
        raise InputError("evaluate needs rows, signals, predictions or n, to know how many rows there are.")
    if len(set(known.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in known.items())
        raise InputError(f"rows, signals, predictions, groups and n must be about the same rows; got {listed}.")
    return next(iter(known.values()))


def _length(argument: str, labels: Any) -> int:
    try:
        return len(labels)
    except TypeError:
        refuse(argument, "one label per row", type(labels).__name__)


def population_of(
    metric: Metric,
    context: Context,
    rows: Rows | None,
    signals: SignalTable | None,
    groups: Any,
    units: Any,
    seed: int,
    engine: Engine | None,
    progress: Progress,
) -> Population:
    """Put together what is known about the rows that are relevant to the metric."""
    relevant = np.flatnonzero(metric.relevant(context))
    if not relevant.size:
        raise InputError(f"There is nothing to ask, because {metric.nothing}.")
    strata, names = _groups(groups, context.n)
    parts = [standardized(metric.features(context)[relevant])]
    sizes, calibrated = np.zeros((relevant.size, 0)), np.zeros(0, np.bool_)
    if signals is not None and signals.names:
        columns = signals.columns[relevant]
        roots = np.sign(columns) * np.sqrt(np.abs(columns))
        curved = [place for place, size in enumerate(signals.sizes) if size]
        parts += [signals.scales * standardized(columns), signals.scales[curved] * standardized(roots[:, curved])]
        sizes, calibrated = np.maximum(columns[:, signals.sizes], 0.0), signals.calibrated[signals.sizes]
    if len(names) > 1:
        own = strata[relevant]
        parts.append(standardized((own[:, None] == _group_columns(own, len(names))).astype(np.float64)))
    if rows is not None:
        components = leading_components(rows, min(COMPONENTS, rows.d), seed=seed, engine=engine, progress=progress)
        parts.append(standardized(components[relevant].astype(np.float64)))
    known = np.concatenate(parts, axis=1)
    members = np.zeros(0, np.int64) if units is None else _numbered("units", units, context.n)[0][relevant]
    kept = known[:, known.any(axis=0)]
    return Population(context.n, relevant, kept, sizes, calibrated, strata[relevant], names, strata, members)


def opened(rows: Any, signals: Any) -> tuple[Rows | None, SignalTable | None]:
    """Open rows and signals."""
    source = None if rows is None else open_rows(rows)
    if source is not None:
        source.warn_of_columns()
    return source, read_signals(signals, source)


def column_of(rows: Rows | None, argument: str, values: Any) -> Any:
    """Return the values of a column if this is its name; return anything else unchanged."""
    if not isinstance(values, str):
        return values
    if rows is None:
        refuse(argument, "one entry per row; the name of a column needs rows that come from a table", repr(values))
    return rows.labels(values, argument)


def fingerprint(rows: Rows | None, population: Population) -> dict[str, str]:
    """Return digests of the inputs that a run's answers belong to."""
    # The draw depends on which signals are calibrated; without any, digests are those of earlier versions.
    calibrated = [population.calibrated] if population.calibrated.any() else []
    known = digest(population.rows, population.known, population.sizes, population.strata, *calibrated)
    return {"rows": "none" if rows is None else rows.fingerprint(), "known": known}


def _group_columns(strata: Ints, count: int) -> Ints:
    """Return the groups that get a column of their own: all but the first, or the largest of very many."""
    if count - 1 <= MOST_GROUP_COLUMNS:
        return np.arange(1, count)
    sizes = np.bincount(strata, minlength=count)
    return np.sort(np.argsort(-sizes, kind="stable")[:MOST_GROUP_COLUMNS])


def _groups(groups: Any, n: int) -> tuple[Ints, tuple[Any, ...]]:
    return (np.zeros(n, np.int64), ("",)) if groups is None else _numbered("groups", groups, n)


def _numbered(argument: str, labels: Any, n: int) -> tuple[Ints, tuple[Any, ...]]:
    """Return one number per row, and the names of the numbers."""
    try:
        named = as_array(labels)
    except ValueError:
        refuse(argument, f"one label for each of {n} rows", "lists of unequal length")
    if named.shape != (n,):
        refuse(argument, f"one label for each of {n} rows", f"shape {named.shape}")
    texts = [str(label) for label in named.tolist()] if named.dtype == object else named.astype(str).tolist()
    names, numbers = numbered(texts)
    return numbers, tuple(names)
