"""Least squares from few labels: which rows of A to label, their weights, and the fit (the paper's Algorithm 2)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np

from coresift.checks import InputError, named_options, positive, real_vector, refuse
from coresift.engine import Engine
from coresift.errors import warn
from coresift.fitting import Fit, least_squares
from coresift.leverage import leverage_scores
from coresift.notebook import card
from coresift.oracle import LABEL, LossesLike, as_oracle
from coresift.oracle.driving import Prepared
from coresift.progress import Progress, choose
from coresift.recipes import regression as regression_parts
from coresift.recipes.arguments import Options, check_options, merge_recipe, settle
from coresift.rows import Rows, RowsLike, open_rows
from coresift.rows.numbering import numbers_of
from coresift.selection import Draft, finish, prepare
from coresift.types import Floats, Ints, Ledger, Request, Singles, Value, WeightedSelection, check_labels, freeze

__all__ = ["Fit", "RegressionOptions", "RegressionSelection", "select"]


class RegressionOptions(Options, total=False):
    """Options of `cs.regression.select` besides A, b, budget and seed: those of `select`, and an intercept."""

    intercept: bool


@dataclass(frozen=True, eq=False, repr=False)
class RegressionSelection(Value):
    """Weighted rows whose squared residuals stand for those of all rows: E Σ_S w(⟨a,x⟩ − b)² = ‖Ax − b‖² at any x.

    Attributes:
        selection: The rows and weights. Its losses are the squared residuals at `x0`, so their `estimate` is an
            estimate of ‖Ax₀ − b‖²; it is too small if x₀ was fitted to the same rows, as it is by default. Its ledger
            counts the labels that were asked.
        features: The selected rows of A.
        asked: All rows whose label was asked, in the order of their numbers.
        labels: The labels of the rows in `asked`.
        x0: The first fit, or None without labels (b=None).
        intercept: Whether fits have a constant in addition to A's columns.
        scaling: If A was standardized: the mean of each column, and its divisor.
    """

    selection: WeightedSelection
    features: Singles
    asked: Ints
    labels: Floats
    x0: Fit | None
    intercept: bool
    scaling: tuple[Floats, Floats] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        freeze(self, features=np.float32, asked=np.int64, labels=np.float64)
        if self.features.ndim != 2 or len(self.features) != len(self.selection):
            raise InputError("A regression needs the features of each selected row.")
        if self.asked.shape != self.labels.shape:
            raise InputError("A regression needs one label for each row that was asked.")

    def fit(self, ridge: float = 0.0, *, labels: Any = None) -> Fit:
        """Return the x that minimizes Σ w(⟨a,x⟩ + c − b)² + ridge·‖x‖² over the selection.

        If there are several solutions (fewer rows than columns, or dependent columns), it returns the minimum-norm one
        in units of the columns' lengths, with a warning; next to an intercept, a constant column gets coefficient 0.

        Args:
            ridge: A number of at least 0. The intercept is not penalized. Since the weights sum to about n, the penalty
                is as strong as it would be on all rows.
            labels: The labels of `selection.ids`, in that order, if you have your own.

        Returns:
            The fit.
        """
        ridge = positive("ridge", ridge, zero=True)
        weights = self.selection.weights
        if not len(self.selection):
            raise InputError("A fit needs a selection with at least one row.")
        fit = least_squares(self.features, self._labels(labels), weights, ridge, self.intercept)
        fit = replace(fit, columns=self._columns(), scaling=self.scaling)
        if fit.rank < self.features.shape[1]:
            message = (
                f"The {len(self.selection)} selected rows determine {fit.rank} of {self.features.shape[1]} "
                "coefficients; this is the minimum-norm fit. For a unique fit, use more rows or a ridge, "
                "or leave out columns that are constant or combinations of others."
            )
            warn(message)
        return fit

    def determination(self, fit: Fit) -> float:
        """Return the weighted R² of a fit on the selected rows: an optimistic estimate of R² on all rows.

        It is optimistic because it uses the labels that the fit was made from; hold out other labels for a fair one.
        """
        weights, labels = np.asarray(self.selection.weights), self._labels(None)
        spread = float(weights @ (labels - np.average(labels, weights=weights)) ** 2)
        unexplained = float(weights @ (fit.predict(self.features) - labels) ** 2)
        return 1 - unexplained / spread if spread > 0 else float("nan")

    def _columns(self) -> tuple[str, ...] | None:
        columns = self.selection.provenance.columns
        return columns if columns is not None and len(columns) == self.features.shape[1] else None

    def _labels(self, labels: Any) -> Floats:
        if labels is not None:
            check_labels("labels", labels, self.selection.ids, self.selection.names)
            return real_vector("labels", labels, len(self.selection))
        if not self.asked.size:
            raise InputError("A fit needs labels, and none were asked; give those of selection.ids as labels.")
        return self.labels[np.searchsorted(self.asked, self.selection.ids)]

    def __repr__(self) -> str:
        selection = self.selection
        size, source = f"{len(selection)} of {selection.n} rows", selection.provenance.brief()
        return f"RegressionSelection({size}, {self.asked.size} labels asked, seed={selection.seed}{source})"

    def _repr_html_(self) -> str:
        lines = [("labels asked", f"{self.asked.size:,}")]
        lines += [line for line in self.selection._lines() if not line[0].startswith("losses asked")]
        return card(f"{len(self.selection):,} of {self.selection.population:,} rows for least squares", lines)


@named_options
def select(
    A: RowsLike,
    b: LossesLike | None = None,
    budget: int | None = None,
    seed: int = 0,
    *,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
    **options: Unpack[RegressionOptions],
) -> RegressionSelection:
    """Select `budget` weighted rows of A and ask for their labels b, ready to fit: the paper's Algorithm 2.

    To run the paper's algorithm exactly, use `clusters=n // 10, pilot=Centers(keep=False),
    score=Sensitivity(holder=inf), design=Independent(), intercept=False`; it warns that medoids can never be drawn.

    Args:
        A: A matrix in any form that `open_rows` takes. Its numbers are read as float32, so center a column whose mean
            is a million times its spread.
        b: The labels: a callable of row numbers, an array of n labels, a file with a column `label`, or an `Oracle`.
            None means the target column that A was opened with; if there is none, no label is asked.
        budget: How many rows to select, medoids and draws together; each costs one label. If the medoids are not kept
            (as in the paper), their labels are asked in addition.
        seed: The seed.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.
        options: The options of `cs.select`, with other defaults, and `intercept` (whether x₀, leverage scores and fits
            have a constant term, by default True). `score` is `LeverageMixture()`: leverage scores, distances and a
            uniform floor. It needs no labels first, and x₀ is the fit on the drawn rows. With over 2,000 columns, or
            with a pilot, it is `Distance(floor=0.3, power=2)`, since the loss is a square. `Sensitivity(holder)` is the
            paper's (⟨â,x₀⟩ − b̂)² + Λ‖a − â‖. `pilot` is none, or `Centers(keep=True)` for the last two: medoids are
            always selected, with weight 1, and the rest are drawn from the other rows. `clusters` is the number of
            medoids or a `Clustering` with z=1: by default a third of the budget (a tenth if medoids are labeled, a
            tenth of the rows if they are not kept), and at most a tenth of the rows. `design` is `Pivotal()`.

    Returns:
        The selection, with its features and labels; `fit()` fits.

    Examples:
        >>> A = np.random.default_rng(0).normal(size=(1000, 3))
        >>> selection = select(A, lambda ids: A[ids] @ [1.0, 2.0, 3.0] + 4.0, budget=50)
        >>> selection
        RegressionSelection(50 of 1000 rows, 50 labels asked, seed=0)
        >>> fit = selection.fit()
        >>> fit.coefficients.round(4), round(fit.intercept, 4)
        (array([1., 2., 3.]), 4.0)
    """
    rows, progress = open_rows(A), choose(progress)
    oracle = as_oracle(rows.targets if b is None and rows.target_name else b, LABEL)
    if oracle is not None:
        oracle.verify(rows.n, LABEL, names=rows.names, skip=numbers_of("exclude", options.get("exclude"), rows))
    task = _begin(rows, budget, seed, engine, progress, options, asking=oracle is not None)
    return task.prepared(asking=oracle is not None).complete(oracle, progress)


def begin(
    A: Any, budget: int | None, seed: int, *, engine: Engine | None, progress: Progress, **options: Any
) -> Prepared[RegressionSelection]:
    """Prepare `select` up to its first question; labels come later."""
    task = _begin(open_rows(A), budget, seed, engine, progress, options, asking=True)  # type: ignore[arg-type]
    return task.prepared(asking=True)


@dataclass(frozen=True)
class _RegressionJob:
    """A regression up to its first label: the draft of `select`, with the leverage scores and the intercept."""

    rows: Rows
    draft: Draft
    leverage: Floats | None
    intercept: bool

    @property
    def limit(self) -> int:
        """The most labels that may be asked."""
        job, pilot = self.draft.job, self.draft.pilot
        if not job.design.fixed_size:
            return self.rows.n  # such a design may draw more rows than the budget
        return job.budget + (0 if pilot.plan.keep else pilot.ids.size)

    @property
    def reason(self) -> str:
        """Why the pilot's labels are asked."""
        return "medoids" if self.draft.pilot.plan.origin == "center" else "pilot"

    def prepared(self, *, asking: bool) -> Prepared[RegressionSelection]:
        """Return the job up to its first question."""
        return Prepared(
            lambda: self.steps(asking=asking),
            self.rows,
            self.draft.fingerprint,
            self.limit,
            LABEL,
            never=self.draft.job.frame.excluded,
        )

    def steps(self, *, asking: bool) -> Generator[Request, Floats, RegressionSelection]:
        """Ask for the medoids' labels, draw by their residuals, ask for the drawn rows' labels, and combine them.

        If the draw does not depend on residuals, all labels are asked at once.
        """
        pilot, requests, x0, residuals = self.draft.pilot.ids, [], None, np.zeros(0)
        if pilot.size and asking and self.draft.job.score.needs.answers:
            requests.append(Request(pilot, self.reason))
            x0, residuals = self.first_fit((yield requests[-1]))
        selection = finish(self.draft, residuals, Ledger.of(requests), leverage=self.leverage)
        features = self.rows.take(selection.ids)
        if not asking:
            return RegressionSelection(
                selection, features, pilot[:0], np.zeros(0), None, self.intercept, self.rows.scaling
            )
        asked_ids = np.union1d(pilot, selection.ids)
        requests.append(Request(asked_ids, "draws", 2) if requests else Request(asked_ids, "labels"))
        answers = yield requests[-1]
        labels = answers[np.searchsorted(asked_ids, selection.ids)]
        if x0 is None and pilot.size:
            x0, _ = self.first_fit(answers[np.searchsorted(asked_ids, pilot)])
        elif x0 is None and len(selection):  # without medoids, fit the selection itself
            x0 = least_squares(features, labels, selection.weights, 0.0, self.intercept)
        losses = np.full(len(selection), np.nan) if x0 is None else (x0.predict(features) - labels) ** 2
        selection = replace(selection, losses=losses, ledger=Ledger.of(requests))
        return RegressionSelection(selection, features, asked_ids, answers, x0, self.intercept, self.rows.scaling)

    def first_fit(self, labels: Floats) -> tuple[Fit, Floats]:
        """Return x₀ from the medoids' labels, and their squared residuals v = (⟨â, x₀⟩ − b̂)²."""
        pilot = self.draft.pilot.ids
        features = self.rows.take(pilot)
        fit = least_squares(features, labels, self._sizes(pilot), 0.0, self.intercept)
        if self.draft.job.score.needs.answers and fit.rank + self.intercept >= pilot.size:
            message = (
                f"x0 fits the labels of the medoids ({pilot.size}) exactly, since they are too few for {self.rows.d} "
                "columns, so the residuals say nothing about where to draw."
            )
            warn(message)
        return fit, (fit.predict(features) - labels) ** 2

    def _sizes(self, pilot: Ints) -> Floats:
        """Return how many rows each asked row represents: its cluster's rows, divided by the asked rows there."""
        labels = self.draft.clustering.labels
        members = np.bincount(labels, minlength=self.draft.clustering.k).astype(np.float64)
        members -= np.bincount(labels[self.draft.job.frame.excluded], minlength=members.size)
        asked_counts = np.bincount(labels[pilot], minlength=members.size)
        sizes: Floats = members[labels[pilot]] / asked_counts[labels[pilot]]
        return sizes


def _begin(
    rows: Rows,
    budget: int | None,
    seed: int,
    engine: Engine | None,
    progress: Progress,
    options: RegressionOptions,
    *,
    asking: bool,
) -> _RegressionJob:
    """Check the arguments, cluster, draw the medoids, and compute leverage scores if the score needs them."""
    check_options("regression", options, ("A", "b", "budget", "seed", "engine", "progress"), RegressionOptions)
    arguments: dict[str, Any] = dict(options)
    intercept = arguments.pop("intercept", True)
    if not isinstance(intercept, bool):
        refuse("intercept", "True or False", repr(intercept))
    recipe = merge_recipe(
        arguments.pop("recipe", None), {name: arguments.pop(name, None) for name in ("score", "pilot", "design")}
    )
    score, pilot, design = regression_parts(recipe.score, recipe.pilot, recipe.design, rows.d)
    if score.needs.probes:
        refuse("holder", "a number or one per cluster, since a regression does not estimate it", repr(score))
    if not asking and score.needs.answers:
        raise InputError(f"score={score!r} asks for labels, and there are none; give b, or use another score.")
    keeps_medoids = pilot is None or pilot.keep
    clusters = arguments.pop("clusters", None) or recipe.clusters
    if clusters is None:
        clusters = _default_medoids(rows.n, budget if keeps_medoids else None, pilot is None)
    recipe = merge_recipe(recipe, {"score": score, "pilot": pilot, "design": design, "z": 1.0})
    job = settle(rows, budget, seed, asking=True, clusters=clusters, recipe=recipe, **arguments)
    # The paper asks for a tenth of the rows, even if fewer are drawn afterward.
    draft = prepare(job, engine, progress, most=job.budget if keeps_medoids else rows.n)
    draft = replace(draft, name="regression", options={"intercept": repr(intercept)})
    ridge, leverage = job.score.needs.leverage, None
    if ridge is not None:
        leverage = leverage_scores(rows, ridge, intercept=intercept, engine=engine, progress=progress)
    return _RegressionJob(rows, draft, leverage, intercept)


def _default_medoids(n: int, budget: Any, free: bool) -> int:
    """Return the default number of medoids; there are more if they cost no labels."""
    most = n // 10
    if isinstance(budget, (int, np.integer)):
        most = min(most, int(budget) // (3 if free else 10))
    return max(1, most)
