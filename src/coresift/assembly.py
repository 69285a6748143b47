"""The last step of every job: combine the rows of all phases, and compute their weights in one place."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from coresift.checks import CoresiftWarning
from coresift.columns import Values, add_up, product, scattered
from coresift.phases import phase_weights
from coresift.rows import Rows
from coresift.shares import Learned
from coresift.types import (
    ORIGINS,
    Clustering,
    Design,
    Floats,
    Frame,
    Ints,
    Ledger,
    Opaque,
    Pilot,
    Provenance,
    Scores,
    Selection,
    WeightedSelection,
)


@dataclass(frozen=True)
class PhaseDraw:
    """The rows of one phase in draw order, with inclusion probabilities and counts, and the strategy that drew them."""

    ids: Ints
    inclusion: Floats
    multiplicity: Ints
    strategy: Pilot | Design | Opaque | None
    origin: str = "drawn"


@dataclass(frozen=True)
class PhasePredictions:
    """A score's predictions before the draw, the rows' sizes, and the sum of aₖ·prediction.

    The sum is over the rows that the phase could draw. Predictions for rows that were asked before are out-of-fold:
    they do not use the row's own answer. `shares` and `unseen` are what `coresift.shares` learned.
    """

    predictions: Values
    sizes: Floats
    total: float
    shares: Values
    unseen: Values

    @classmethod
    def of(cls, scores: Scores, asked_ids: Ints, carried: Values, fixed: Values) -> PhasePredictions | None:
        """Return the predictions of the scores, or None if there are none or their sum overflows.

        Args:
            scores: The scores.
            asked_ids: The rows whose answers the score used, in its order.
            carried: aₖ of every row that the phase can draw; 0 for all others.
            fixed: α of every row.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(product(carried, scores.predictions)) if scores.predictions.size else np.inf
        if not np.isfinite(total):
            return None
        predictions = scattered(scores.sizes.size, asked_ids, scores.unseen, scores.predictions)
        return cls(predictions, scores.sizes, total, fixed, predictions)

    def with_learned(self, learned: Learned) -> PhasePredictions:
        """Return these predictions with learned shares."""
        n = self.sizes.size
        shares = scattered(n, learned.ids, learned.shares, self.shares)
        return replace(self, shares=shares, unseen=scattered(n, learned.ids, learned.unseen, self.unseen))

    def fields(self, ids: Ints) -> dict[str, Floats]:
        """Return the fields that a selection of these rows stores."""
        return {
            "predictions": self.predictions[ids],
            "sizes": self.sizes[ids],
            "learned_share": self.shares[ids],
            "unseen": self.unseen[ids],
            "predicted": np.array([self.total]),
        }


def assemble(
    rows: Rows,
    frame: Frame,
    phases: Sequence[PhaseDraw],
    *,
    provenance: Provenance,
    seed: int,
    ledger: Ledger,
    clustering: Clustering | None = None,
    share: Floats | None = None,
    losses: Values | None = None,
    holder: Floats | None = None,
    least_inclusion: float = 0.0,
    predicted: PhasePredictions | None = None,
) -> WeightedSelection:
    """Combine the given rows and the rows of all phases, in row order, and compute their weights.

    Without a clustering, rows belong to no cluster; `share` and `losses` have one number per row.
    """
    given = PhaseDraw(frame.given, np.ones(frame.given.size), np.ones(frame.given.size, np.int64), None, "given")
    sources = (given, *phases)
    sizes = [source.ids.size for source in sources]
    ids = np.concatenate([source.ids for source in sources])
    sort = np.argsort(ids, kind="stable")
    ids, phase = ids[sort], np.repeat(np.arange(len(sources)), sizes)[sort]
    inclusion = np.concatenate([source.inclusion for source in sources])[sort]
    multiplicity = np.concatenate([source.multiplicity for source in sources])[sort]
    shares = np.zeros(ids.size) if share is None else share[ids]
    names = rows.names(ids)
    return WeightedSelection(
        ids=ids,
        weights=weigh(phase, inclusion, shares, multiplicity),
        inclusion=inclusion,
        share=shares,
        clusters=np.full(ids.size, -1) if clustering is None else clustering.labels[ids],
        distances=np.zeros(ids.size, np.float32) if clustering is None else clustering.distances[ids],
        origin=np.array([ORIGINS.index(source.origin) for source in sources])[phase],
        phase=phase.astype(np.uint8),
        order=np.concatenate([np.arange(size) for size in sizes])[sort],
        multiplicity=multiplicity,
        losses=np.full(ids.size, np.nan) if losses is None else losses[ids],
        n=frame.n,
        population=frame.population,
        seed=seed,
        z=2.0 if clustering is None else clustering.z,
        phases=tuple(drawn.strategy if drawn.ids.size else None for drawn in phases),
        provenance=replace(provenance, content=rows.content(ids)),
        ledger=ledger,
        holder=np.zeros(0) if holder is None else holder,
        names=None if names is None else tuple(names),
        least_inclusion=least_inclusion,
        **({} if predicted is None else predicted.fields(ids)),
    )


def assemble_chosen(
    rows: Rows, frame: Frame, ids: Ints, *, provenance: Provenance, seed: int, ledger: Ledger
) -> Selection:
    """Combine given rows and rows that were chosen deterministically; these have no weights."""
    unsorted = np.concatenate([frame.given, ids])
    sort = np.argsort(unsorted, kind="stable")
    origin = np.repeat([ORIGINS.index("given"), ORIGINS.index("drawn")], [frame.given.size, ids.size])
    names = rows.names(unsorted[sort])
    return Selection(
        ids=unsorted[sort],
        origin=origin[sort],
        order=np.concatenate([np.arange(frame.given.size), np.arange(ids.size)])[sort],
        clusters=np.full(unsorted.size, -1),
        distances=np.zeros(unsorted.size, np.float32),
        losses=np.full(unsorted.size, np.nan),
        n=frame.n,
        population=frame.population,
        seed=seed,
        provenance=replace(provenance, content=rows.content(unsorted[sort])),
        ledger=ledger,
        names=None if names is None else tuple(names),
    )


def weigh(phase: Ints, inclusion: Floats, share: Floats, multiplicity: Ints) -> Floats:
    """Return the weights of two phases: 1 for given rows, 1 − α + α/π₁ in the pilot, count·(1 − α)/π₂ in the draw."""
    return phase_weights(phase, inclusion, np.stack([share, 1 - share], axis=1), multiplicity)


def warn_unreachable(sizes: Floats, rule: str, *, stacklevel: int) -> None:
    """Warn about rows that can never be drawn."""
    unreachable = int(add_up(sizes.size, lambda rows: np.count_nonzero(sizes[rows] == 0)))
    if unreachable:
        message = (
            f"{unreachable} of {sizes.size} rows have probability 0 under {rule} and can never be drawn: "
            "totals are unbiased only for values that are 0 there."
        )
        warnings.warn(message, CoresiftWarning, stacklevel=stacklevel)
