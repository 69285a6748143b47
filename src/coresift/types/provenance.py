"""What a result was made of and by: the answers that were asked, and the recipe, rows and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coresift.types.flow import Recipe, Request
from coresift.types.values import Value

# So many columns are named one by one.
MOST_NAMED = 12
MOST_IN_REPR = 4


@dataclass(frozen=True)
class Ledger:
    """How many losses were asked: one entry (round, reason, rows) each, whoever answered them."""

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
        """How many losses were asked in all; a row whose loss has changed counts again."""
        return sum(rows for _, _, rows in self.entries)


@dataclass(frozen=True, eq=False)
class Provenance(Value):
    """What a selection was made by, so that it can be checked, repeated and reported.

    Attributes:
        job: The function that made it: "select", "rounds", "regression", or the name of a baseline.
        budget: How many rows were asked for.
        recipe: How it was made, completed; None for baselines.
        frame: Of which rows: counts and digests, as `Frame.record` gives them.
        clustering_seed: The seed of the clustering, where there was one.
        options: What the job has besides, as text.
        columns: The columns of the rows' table that were used, where the rows come from one. Two selections that
            differ in nothing but this and what follows are equal.
        id_column: The column of that table that has its ids.
        content: A digest of the selected rows' own numbers, by which a table in another order is noticed; None in older
            files, and where the rows have no numbers of their own.
    """

    job: str
    budget: int
    recipe: Recipe | None
    frame: Mapping[str, Any]
    clustering_seed: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] | None = field(default=None, compare=False)
    id_column: str | None = field(default=None, compare=False)
    content: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", dict(self.frame))
        object.__setattr__(self, "options", dict(self.options))

    def lines(self) -> dict[str, str]:
        """Return everything as names and texts, for pages, and to tell one run from another."""
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
            known = self.frame["signals"]
            lines["signals"] = f"{', '.join(known['names'])}, digest {known['digest']}"
        return lines | dict(self.options)

    def used(self, most: int = MOST_NAMED) -> str | None:
        """Return the columns that were used, for people: the first ones by name; None where there are none."""
        if self.columns is None:
            return None
        more = len(self.columns) - most
        return ", ".join(self.columns[:most]) + (f" and {more:,} more" if more > 0 else "")

    def brief(self) -> str:
        """Return the part of a repr that says which columns were used."""
        used = self.used(MOST_IN_REPR)
        return "" if used is None else f", columns {used}"


def _counted(record: Mapping[str, Any] | None) -> str:
    return "no rows" if record is None else f"{record['count']} rows, digest {record['digest']}"
