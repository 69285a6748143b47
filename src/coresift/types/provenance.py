"""How a result was made: the answers that were asked, and the recipe, rows and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coresift.types.flow import Recipe, Request
from coresift.types.values import Value

# How many columns are listed by name.
MOST_NAMED = 12
MOST_IN_REPR = 4


@dataclass(frozen=True)
class Ledger:
    """How many answers were asked, as entries (round, reason, rows), whatever source answered them."""

    entries: tuple[tuple[int, str, int], ...] = ()

    @classmethod
    def of(cls, requests: Sequence[Request]) -> Ledger:
        """Count the rows that each request asked for the first time."""
        entries, seen = [], np.zeros(0, np.int64)
        for request in requests:
            new = np.setdiff1d(request.ids, seen)
            seen = np.concatenate([seen, new])
            entries += [(request.round, request.reason, int(new.size))] if new.size else []
        return cls(tuple(entries))

    @property
    def asked(self) -> int:
        """The total number of answers asked; a row that is asked again because its loss changed counts twice."""
        return sum(rows for _, _, rows in self.entries)


@dataclass(frozen=True, eq=False)
class Provenance(Value):
    """How a selection was made, so that it can be checked, repeated and reported.

    Attributes:
        job: The function that made it: "select", "rounds", "regression", or the name of a baseline.
        budget: The number of rows to select.
        recipe: The recipe, with every choice filled in; None for baselines.
        frame: The rows it was made from: counts and digests, as `Frame.record` returns them.
        clustering_seed: The seed of the clustering, if there was one.
        options: The job's other options, as strings.
        columns: The columns of the rows' table that were used, if there was one. This and the attributes below do not
            affect equality.
        id_column: The column of that table with the ids.
        standardized: Whether the rows were opened with `standardize=True`; None in older files.
        content: A digest of the selected rows' numbers, to detect a table in another order; None in older files, and if
            the rows have no numbers.
    """

    job: str
    budget: int
    recipe: Recipe | None
    frame: Mapping[str, Any]
    clustering_seed: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] | None = field(default=None, compare=False)
    id_column: str | None = field(default=None, compare=False)
    standardized: bool | None = field(default=None, compare=False)
    content: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", dict(self.frame))
        object.__setattr__(self, "options", dict(self.options))

    def lines(self) -> dict[str, str]:
        """Return everything as names and strings, for reports and for fingerprints."""
        lines = {"made by": self.job, "budget": str(self.budget)}
        if self.recipe is not None:
            lines["clusters"] = f"{self.recipe.clusters}, seed {self.clustering_seed}"
            lines |= {"z": repr(self.recipe.z), "normalize": repr(self.recipe.normalize)}
            lines |= {name: repr(getattr(self.recipe, name)) for name in ("pilot", "score", "design")}
        lines |= {name: _counted(self.frame.get(name)) for name in ("given", "exclude")}
        if "strata" in self.frame:
            classes = self.frame["strata"]
            lines["strata"] = f"{classes['classes']} classes, digest {classes['digest']}"
        if "signals" in self.frame:
            signals = self.frame["signals"]
            lines["signals"] = f"{', '.join(signals['names'])}, digest {signals['digest']}"
        return lines | dict(self.options)

    def used(self, most: int = MOST_NAMED) -> str | None:
        """Return a list of the first columns that were used, as text; None if there are none."""
        return None if self.columns is None else brief_list(self.columns, most)

    def brief(self) -> str:
        """Return the part of a repr that says which columns were used."""
        used = self.used(MOST_IN_REPR)
        return "" if used is None else f", columns {used}"


def brief_list(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Return the first names as text, and how many more there are.

    >>> brief_list(["x", "y", "z"], 2)
    'x, y and 1 more'
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def _counted(record: Mapping[str, Any] | None) -> str:
    return "no rows" if record is None else f"{record['count']} rows, digest {record['digest']}"
