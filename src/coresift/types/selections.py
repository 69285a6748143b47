"""The results of the jobs that choose rows: selections with weights, labels or representatives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError
from coresift.notebook import card, counted
from coresift.types.content import check_content, check_order
from coresift.types.flow import ORIGINS, Recipe
from coresift.types.places import column_of, find_places, length_of, rows_at
from coresift.types.provenance import Ledger, Provenance
from coresift.types.strategies import Design, Opaque, Pilot
from coresift.types.values import Floats, Ints, Singles, Value, freeze

# The most phases of a selection before it grows: a pilot and a draw.
MOST_PHASES = 2
NO_WEIGHTS = "none; this method does not define any"
# The columns of rows that were not drawn from clusters.
CHOSEN = {"origin": ("origin", "string"), "order": ("order", "int64")}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Selection(Value):
    """Rows that were chosen from n rows, sorted by row number.

    Attributes:
        ids: The row numbers.
        origin: How each row got into the selection, as an index into `ORIGINS`.
        order: Each row's position in the draw, or in the order in which rows were chosen.
        clusters: Each row's cluster, −1 if there are none.
        distances: Each row's distance to the center of its cluster.
        losses: Each row's loss, NaN if it was not asked.
        n: The number of rows that were chosen from.
        population: How many of them the selection stands for: all but the excluded ones.
        seed: The seed.
        provenance: How the selection was made.
        ledger: How many answers were asked, and why.
        names: The table's ids of the rows, or None.
    """

    # Field of a selection → its column and type in a file.
    COLUMNS: ClassVar[dict[str, tuple[str, str]]] = {
        "clusters": ("cluster", "int32"),
        "distances": ("distance", "float"),
        "origin": ("origin", "string"),
        "order": ("order", "int64"),
        "losses": ("loss", "double"),
    }
    ids: Ints
    origin: NDArray[np.uint8]
    order: Ints
    clusters: NDArray[np.int32]
    distances: Singles
    losses: Floats
    n: int
    population: int
    seed: int
    provenance: Provenance
    ledger: Ledger
    names: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        freeze(self, ids=np.int64, origin=np.uint8, order=np.int64, losses=np.float64)
        freeze(self, clusters=np.int32, distances=np.float32)
        for name in ("n", "population", "seed"):
            if isinstance(value := getattr(self, name), bool) or not isinstance(value, (int, np.integer)):
                raise InputError(f"A selection's {name} must be a whole number; got {type(value).__name__}.")
        if not self.ids.size <= self.population <= self.n < 2**63:
            raise InputError(f"A selection of {self.ids.size} rows cannot stand for {self.population} of {self.n}.")
        if np.any(np.diff(self.ids) <= 0) or (self.ids.size and (self.ids[0] < 0 or self.ids[-1] >= self.n)):
            raise InputError(f"A selection's rows must be distinct, sorted and below {self.n}.")
        columns = [getattr(self, name) for name in self.columns]
        columns += [] if self.names is None else [self.names]
        if {len(column) for column in columns} != {self.ids.size}:
            raise InputError("A selection needs one entry per row in each of its columns.")
        if self.origin.size and self.origin.max() >= len(ORIGINS):
            raise InputError(f"A selection's origins must be indexes into {', '.join(ORIGINS)}.")

    @property
    def columns(self) -> dict[str, tuple[str, str]]:
        """Field of this selection → its column and type in a file."""
        return self.COLUMNS

    @property
    def recipe(self) -> Recipe | None:
        """The recipe, or None for a baseline."""
        return self.provenance.recipe

    def take(self, table: Any) -> Any:
        """Return the selected rows of a table or an array, in the order of `ids`, as the same type.

        Args:
            table: A pandas or polars frame, an Arrow table, a `datasets.Dataset`, a dict of columns, an array, a tensor
                or a list. If the rows have ids and the table has the same id column, rows are looked up by id.
                Otherwise the table must have all n rows in their order, and rows are taken by position: judging by the
                columns used that it has, another order is refused, and other numbers cause a warning.

        Returns:
            The rows, in the order of `ids`; `take(frame).assign(weight=selection.weights)` is a weighted frame.

        Raises:
            InputError: The table does not have the selected rows, or has them elsewhere.

        Examples:
            >>> import coresift as cs
            >>> picked = cs.select(np.arange(40.0).reshape(20, 2), budget=3)
            >>> len(picked.take(list("abcdefghijklmnopqrst")))
            3
        """
        if hasattr(table, "block_rows"):  # `Rows`, which cannot be imported here
            return rows_at(table, self._rows_in(table))
        length = length_of(table)
        id_column = None if self.names is None else column_of(table, self.provenance.id_column or "id")
        if self.names is not None and id_column is not None:
            return rows_at(table, find_places(self.names, self.ids, id_column))
        self._check_length(length)
        check_order(self.provenance, table, self.ids)
        return rows_at(table, self.ids.copy())

    def _rows_in(self, rows: Any) -> Ints:
        """Return the numbers of the selected rows in `Rows`: looked up by id, or unchanged."""
        if self.names is not None and rows.id_name is not None:
            numbers: Ints = rows.numbers_of(list(self.names), "The ids of the selected rows")
            return numbers
        self._check_length(rows.n)
        if rows.table is not None:
            check_order(self.provenance, rows.table, self.ids)
        elif rows.columns is not None and rows.columns == self.provenance.columns:
            check_content(self.provenance, rows.content(self.ids), rows.stored())
        return self.ids.copy()

    def _check_length(self, length: int) -> None:
        if length != self.n:
            raise InputError(f"table must have all {self.n} rows that were selected from; got {length} rows.")

    def to_arrow(self) -> Any:
        """Return the selection as an Arrow table: row, id and weight if there are any, and the other columns."""
        import pyarrow as pa

        columns: dict[str, Any] = {"row": self.ids}
        if self.names is not None:
            columns["id"] = list(self.names)
        columns |= self._weights()
        columns |= {short: getattr(self, name) for name, (short, _) in self.columns.items()}
        columns["origin"] = [ORIGINS[code] for code in self.origin]
        if "loss" in columns:
            columns["loss"] = pa.array(self.losses, mask=np.isnan(self.losses))
        return pa.table(columns)

    def to_pandas(self) -> Any:
        """Return the selection as a pandas frame with the columns of `to_arrow`."""
        return self.to_arrow().to_pandas()

    def _weights(self) -> dict[str, Any]:
        return {}

    if not TYPE_CHECKING:  # a type checker would then let any name pass

        def __getattr__(self, name: str) -> Any:
            if name == "weights":
                raise AttributeError(
                    f"A {type(self).__name__} has no weights; use its rows as they are.", name=name, obj=self
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __len__(self) -> int:
        return self.ids.size

    def __repr__(self) -> str:
        asked = f", {counted(self.ledger.asked, 'loss', 'losses')} asked"
        asked = asked if self.ledger.asked or hasattr(self, "weights") else ""  # a method without weights may need none
        return f"{type(self).__name__}({len(self)} of {self.n} rows{asked}, seed={self.seed}{self.provenance.brief()})"

    def _repr_html_(self) -> str:
        return card(f"{len(self):,} of {self.population:,} rows", self._lines())

    def _lines(self) -> list[tuple[str, str]]:
        asked = [("losses asked", f"{self.ledger.asked:,}")] if self.ledger.asked else []
        return [*asked, ("weights", NO_WEIGHTS), *self._ending()]

    def _ending(self) -> list[tuple[str, str]]:
        provenance, used = self.provenance, self.provenance.used()
        lines = [] if used is None else [("columns used", used)]
        lines += [("standardized", "yes")] if provenance.standardized else []
        lines += (
            [("strata", f"{provenance.frame['strata']['classes']:,} classes")] if "strata" in provenance.frame else []
        )
        return [*lines, ("seed", str(self.seed))]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CoverSelection(Selection):
    """Rows that cover all rows; each stands for the rows that it is nearest to.

    Attributes:
        represents: How many rows each selected row stands for, itself included. Do not use it as a weight: totals
            weighted by it are biased.
        representative: For each of the n rows, the number of the selected row that stands for it; −1 for excluded
            rows. It is not stored in files, so it is empty in a selection that was loaded.
    """

    COLUMNS: ClassVar[dict[str, tuple[str, str]]] = CHOSEN | {"represents": ("represents", "int64")}
    represents: Ints
    representative: Ints = field(default_factory=lambda: np.zeros(0, np.int64), compare=False)

    def __post_init__(self) -> None:
        freeze(self, represents=np.int64, representative=np.int64)
        super().__post_init__()
        if self.representative.size not in (0, self.n):
            raise InputError("A selection needs one representative for each of the n rows, or none at all.")

    def members(self, row: int) -> Ints:
        """Return the rows that a selected row stands for, itself included.

        Args:
            row: The number of the selected row.

        Returns:
            Row numbers.

        Examples:
            >>> import coresift as cs
            >>> cs.cover(np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]]), 2).members(4)
            array([3, 4, 5])
        """
        if not self.representative.size:
            raise InputError("A file does not store which rows a row stands for; run cover again with the same seed.")
        if row not in self.ids:
            raise InputError(f"row must be one of the {len(self)} selected rows; got {row}.")
        return np.flatnonzero(self.representative == row)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LearningSelection(Selection):
    """Rows that were labeled to train a model.

    Attributes:
        rounds: The round in which each row was asked; 0 for given rows. The ledger says why.
        labels: Each row's label: a string, a number, or None if nobody could tell. Labels of several types become
            strings.
    """

    COLUMNS: ClassVar[dict[str, tuple[str, str]]] = CHOSEN | {"rounds": ("round", "int64")}
    rounds: Ints
    labels: tuple[Any, ...]

    def __post_init__(self) -> None:
        freeze(self, rounds=np.int64)
        super().__post_init__()
        if len(self.labels) != self.ids.size:
            raise InputError("A selection needs one label per row, or None for a row without one.")
        kinds = {type(label) for label in self.labels if label is not None}
        if len(kinds) > 1:
            texts = tuple(None if label is None else str(label) for label in self.labels)
            object.__setattr__(self, "labels", texts)

    def _weights(self) -> dict[str, Any]:
        return {"label": list(self.labels)}

    def __repr__(self) -> str:
        count = sum(label is not None for label in self.labels)
        used = self.provenance.brief()
        return f"LearningSelection({len(self)} of {self.n} rows, {count} labels, seed={self.seed}{used})"

    def _lines(self) -> list[tuple[str, str]]:
        count = sum(label is not None for label in self.labels)
        return [
            ("labels", f"{count:,}"),
            ("rounds", f"{int(self.rounds.max(initial=0))}"),
            ("weights", NO_WEIGHTS),
            *self._ending(),
        ]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class WeightedSelection(Selection):
    """Rows that stand for all rows, with weights that make totals unbiased: E[Σ_S w y] = Σ y for any fixed y.

    It has the attributes of a `Selection`, and these:

    Attributes:
        weights: How many rows each row stands for.
        inclusion: The conditional probability that a row's phase draws it (the expected count if rows can repeat).
        share: α, the part of a row's total that the pilot carries.
        phase: 0 for given rows, 1 for the pilot, 2 for the draw, and higher numbers for phases added by `grow`.
        multiplicity: How often a row was drawn.
        z: The power of the distances.
        phases: The strategy that drew each phase, starting with phase 1; None for a phase that drew nothing.
        holder: The Λ that was used, if any.
        least_inclusion: The smallest inclusion of any row in the second draw (0 if it is unknown or has no bound).
        growth: The part of every total that the first two phases carry together, followed by the part of each phase
            that `grow` added; empty for a selection that has not grown.
        predictions: The prediction for each row, made without its answer; 0 for given rows. Empty if the score
            predicts nothing.
        sizes: Each row's size when the last phase that could draw it was planned; empty without predictions.
        learned_share: α as an estimate uses it, once the pilot's answers are known; empty without predictions.
        unseen: The prediction for each row if one answer of its cluster is left out, the row's own in the pilot; after
            growing, the prediction before the last phase, without the row's own answer; empty without predictions.
        predicted: For each phase from the second on, the sum of aₖ·prediction over the rows that it could draw, where
            aₖ is the phase's share before the selection grew; empty without predictions.
        learned_kept: The part of each row's total that all phases but the last carry, as an estimate uses it once
            their answers are known; empty for a selection that has not grown, and without predictions.
    """

    COLUMNS: ClassVar[dict[str, tuple[str, str]]] = {
        "inclusion": ("inclusion", "double"),
        "share": ("share", "double"),
        "clusters": ("cluster", "int32"),
        "distances": ("distance", "float"),
        "origin": ("origin", "string"),
        "phase": ("phase", "uint8"),
        "order": ("order", "int64"),
        "multiplicity": ("multiplicity", "int64"),
        "losses": ("loss", "double"),
    }
    # Additional columns if the score predicts losses.
    PREDICTED: ClassVar[dict[str, tuple[str, str]]] = {
        "predictions": ("prediction", "double"),
        "sizes": ("size", "double"),
        "learned_share": ("learned_share", "double"),
        "unseen": ("unseen", "double"),
    }
    # One more if it has grown as well.
    GROWN: ClassVar[dict[str, tuple[str, str]]] = {"learned_kept": ("learned_kept", "double")}
    weights: Floats
    inclusion: Floats
    share: Floats
    phase: NDArray[np.uint8]
    multiplicity: Ints
    z: float
    phases: tuple[Pilot | Design | Opaque | None, ...]
    holder: Floats = field(default_factory=lambda: np.zeros(0))
    least_inclusion: float = 0.0
    growth: Floats = field(default_factory=lambda: np.zeros(0))
    predictions: Floats = field(default_factory=lambda: np.zeros(0))
    sizes: Floats = field(default_factory=lambda: np.zeros(0))
    learned_share: Floats = field(default_factory=lambda: np.zeros(0))
    unseen: Floats = field(default_factory=lambda: np.zeros(0))
    predicted: Floats = field(default_factory=lambda: np.zeros(0))
    learned_kept: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        freeze(self, weights=np.float64, inclusion=np.float64, share=np.float64)
        freeze(self, predictions=np.float64, sizes=np.float64, predicted=np.float64)
        freeze(self, learned_share=np.float64, unseen=np.float64, learned_kept=np.float64)
        freeze(self, phase=np.uint8, multiplicity=np.int64, holder=np.float64, growth=np.float64)
        super().__post_init__()
        if self.weights.shape != self.ids.shape:
            raise InputError("A selection needs one weight per row.")
        if not np.all(np.isfinite(self.weights)) or np.any(self.weights <= 0):
            raise InputError("A selection's weights must be finite and above 0.")
        if self.phase.size and int(self.phase.max()) > len(self.phases):
            raise InputError("A selection needs a strategy for each of its phases.")
        if not (np.isfinite(self.least_inclusion) and self.least_inclusion >= 0):
            raise InputError("A selection's least inclusion must be a finite number of at least 0.")

        valid = self.growth.shape == (len(self.phases) - 1,) and abs(float(self.growth.sum()) - 1) <= 1e-9
        if self.growth.size and not valid:
            raise InputError(
                "A selection's growth must be one part for the first two phases and one per added phase, with sum 1."
            )
        fits = self.predicted.ndim == 1 and self.predicted.size in (0, len(self.phases) - 1)
        if not fits or not np.all(np.isfinite(self.predicted)):
            raise InputError("A selection needs a predicted total for each phase from the second on, or none at all.")
        if not np.all((self.learned_share >= 0) & (self.learned_share <= 1)):
            raise InputError("A selection's learned shares must be numbers from 0 to 1.")
        if not np.all((self.learned_kept >= 0) & (self.learned_kept <= 1)):
            raise InputError("A selection's learned parts of earlier phases must be numbers from 0 to 1.")

    @property
    def columns(self) -> dict[str, tuple[str, str]]:
        """Field of this selection → its column and type in a file."""
        columns = self.COLUMNS | (self.PREDICTED if self.predicted.size else {})
        return columns | (self.GROWN if self.learned_kept.size else {})

    def _weights(self) -> dict[str, Any]:
        return {"weight": self.weights}

    def carried(self, phase: int) -> Floats:
        """Return aₖ of each selected row: the part of its total that phase k carries."""
        if phase > MOST_PHASES:
            return np.full(len(self), self.growth[phase - MOST_PHASES])
        share = self.share if phase == 1 else 1 - self.share
        return share * self.growth[0] if self.growth.size else share

    @property
    def effective_size(self) -> float:
        """Kish's effective sample size, (Σw)²/Σw²: how many rows of equal weight the selection is worth."""
        return float(self.weights.sum() ** 2 / (self.weights**2).sum()) if self.weights.size else 0.0

    def _lines(self) -> list[tuple[str, str]]:
        lines = [("losses asked", f"{self.ledger.asked:,}")]
        if len(self):
            least, most = f"{self.weights.min():,.3g}", f"{self.weights.max():,.3g}"
            lines.append(("weights", f"{least} each" if least == most else f"{least} to {most}"))
            lines.append(("effective sample size", f"{self.effective_size:,.0f} rows of equal weight"))
        return [*lines, *self._ending()]
