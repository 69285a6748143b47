"""What a result was made of and by: the answers that were asked, and the recipe, rows and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coresift.types.flow import Recipe, Request
from coresift.types.values import Value


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
    """

    job: str
    budget: int
    recipe: Recipe | None
    frame: Mapping[str, Any]
    clustering_seed: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)

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


def _counted(record: Mapping[str, Any] | None) -> str:
    return "no rows" if record is None else f"{record['count']} rows, digest {record['digest']}"
