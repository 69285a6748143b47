"""Why Algorithm 2 falls short of leverage scores here: one setting at a time is changed.

    python -m repro regression          does these runs after its own

The paper leaves open which 16 of the 128 features it takes, how they are scaled, whether outliers stay, whether the fit
has a ridge and uses the weights, and whether rows are drawn with replacement. `VARIANTS` has one entry per guess; each
is compared with leverage scores under the same guess, at a tenth and at a fifth of the training rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import coresift as cs
from coresift.regression import least_squares
from repro.data import Arrays
from repro.plans import Ints
from repro.results import Entry, Floats, Key, paired

RUNS, CONFIRMING = 20, 40  # the second number on splits that no choice was based on
SHARES = (0.1, 0.2)  # of the training rows
RIDGES = {16: 0.1, 128: 10.0}
OUTLIER = 20.0  # standard deviations


@dataclass(frozen=True)
class Variant:
    """A variant of the protocol; the default values are those of `regression`."""

    title: str = "as in the table above"
    target: str = "concentration"
    scale: str = "standardized"
    outliers: bool = False
    medoids: float = 0.1  # of the training rows
    power: float = 1.0  # of the distance
    loss: bool = False  # also the medoids' loss counts, with Λ = 1
    distinct: bool = False
    keep: bool = False  # the medoids are fitted too
    weighted: bool = True
    ridge: float = 1.0  # times the usual


VARIANTS = {
    "as written": Variant(),
    "distinct": Variant("without replacement", distinct=True),
    "medoids kept": Variant("the medoids, whose labels are known, are fitted too", keep=True),
    "unweighted": Variant("fits without weights", weighted=False),
    "distinct, unweighted": Variant("without replacement, fits without weights", distinct=True, weighted=False),
    "no ridge": Variant("no ridge", ridge=1e-6),
    "ten times the ridge": Variant("ten times the ridge", ridge=10.0),
    "squared": Variant("by squared distances", power=2.0),
    "with loss": Variant("by Λ‖a − â‖ + v(a, x₀) with Λ = 1", loss=True),
    "few medoids": Variant("medoids for one row in a hundred", medoids=0.01),
    "outliers": Variant("the 18 outliers stay", outliers=True),
    "0 to 1": Variant("features between 0 and 1", scale="0 to 1"),
    "raw": Variant("features as they are", scale="raw"),
    "class": Variant("the number of the gas as the target, all 13,910 rows", target="gas_class"),
}


CONFIRMED = ("as written", "medoids kept", "few medoids")


class Problem:
    """A split of a variant's rows, with what both methods compute from it."""

    def __init__(self, arrays: Arrays, features: int, number: int, variant: Variant) -> None:
        rows, target = usable(arrays, variant)
        order = np.random.default_rng([number, 1]).permutation(len(rows))
        train, held = np.split(order, [round(0.8 * len(rows))])
        rows = rows[:, :: 128 // features]
        shift, size = scaling(rows[train], variant.scale)
        self.A, self.V = (((rows[ids] - shift) / size).astype(np.float32) for ids in (train, held))
        self.b, self.c = target[train], target[held]
        self.number = number
        self.clusterings: dict[float, cs.Clustering] = {}

    @cached_property
    def leverage(self) -> Floats:
        """The leverage scores of the training rows."""
        return np.asarray(cs.theory.leverage_scores(self.A, intercept=True), np.float64)

    def clustering(self, share: float) -> cs.Clustering:
        """Return the medoids, this many per row."""
        if share not in self.clusterings:
            k = max(2, round(share * len(self.A)))
            self.clusterings[share] = cs.cluster(self.A, k, z=1.0, seed=self.number, progress=False)
        return self.clusterings[share]


def usable(arrays: Arrays, variant: Variant) -> tuple[Floats, Floats]:
    """Return the rows whose target is known, with or without those that have a feature far out."""
    target = arrays[variant.target].astype(np.float64)
    known = np.isfinite(target)
    rows, target = arrays["X"][known].astype(np.float64), target[known]
    usual = np.abs((rows - rows.mean(0)) / rows.std(0)).max(1) <= (np.inf if variant.outliers else OUTLIER)
    return rows[usual], target[usual]


def scaling(rows: Floats, scale: str) -> tuple[Any, Any]:
    """Return what is subtracted from the features and what they are divided by."""
    if scale == "standardized":
        return rows.mean(0), rows.std(0)
    return (rows.min(0), np.ptp(rows, 0)) if scale == "0 to 1" else (0.0, 1.0)


def names_of(number: int) -> tuple[str, ...]:
    """Return the variants of a run: all in the first ones, then those that are to be confirmed."""
    return tuple(VARIANTS) if number < RUNS else CONFIRMED


def one_run(arrays: Arrays, features: int, number: int, names: tuple[str, ...]) -> Entry:
    """Return the validation R² of Algorithm 2 and of leverage scores for every variant and size on one split."""
    problems: dict[tuple[Any, ...], Problem] = {}
    results = []
    for name in names:
        variant = VARIANTS[name]
        data = (variant.target, variant.scale, variant.outliers)
        if data not in problems:
            problems[data] = Problem(arrays, features, number, variant)
        problem = problems[data]
        for share in SHARES:
            size = round(share * len(problem.A))
            ours = fitted(problem, variant, size, sizes(problem, variant), keep=variant.keep, features=features)
            base = fitted(problem, variant, size, problem.leverage, keep=False, features=features)
            results.append({"variant": name, "share": share, "algorithm": ours, "leverage": base})
    return {"results": results}


def sizes(problem: Problem, variant: Variant) -> Floats:
    """Return the numerators of Algorithm 2's probabilities; without the loss they are those of Λ → ∞."""
    clustering = problem.clustering(variant.medoids)
    distances = np.asarray(clustering.distances, np.float64) ** variant.power
    if not variant.loss:
        return distances
    centers = clustering.centers
    members = np.bincount(clustering.labels, minlength=len(centers)).astype(np.float64)
    first = least_squares(problem.A[centers], problem.b[centers], members, 0.1, intercept=True)
    residual = (first.predict(problem.A[centers]) - problem.b[centers]) ** 2
    numerators: Floats = distances + residual[clustering.labels]
    return numerators


def fitted(problem: Problem, variant: Variant, size: int, numerators: Floats, *, keep: bool, features: int) -> float:
    """Draw rows in proportion to the numerators, fit, and return R² on the validation rows."""
    rng = np.random.default_rng([problem.number, size, 5])
    chance = numerators / numerators.sum()
    ids, weights = drawn(chance, size, rng, distinct=variant.distinct)
    if not variant.weighted:
        weights = np.ones(size)
    if keep:
        centers = problem.clustering(variant.medoids).centers
        ids, weights = np.concatenate([ids, centers]), np.concatenate([weights, np.ones(len(centers))])
    ridge = RIDGES[features] * variant.ridge
    if not variant.weighted:
        ridge *= size / len(problem.A)  # weights sum to about n; without them the ridge is to matter as much
    fit = least_squares(problem.A[ids], problem.b[ids], weights, ridge, intercept=True)
    errors = ((fit.predict(problem.V) - problem.c) ** 2).sum()
    return 1 - float(errors / ((problem.c - problem.c.mean()) ** 2).sum())


def drawn(chance: Floats, size: int, rng: np.random.Generator, *, distinct: bool) -> tuple[Ints, Floats]:
    """Return rows drawn in proportion to their chances, and their weights: independently, or each at most once."""
    if not distinct:
        ids = rng.choice(len(chance), size, p=chance)
        return ids, 1 / (size * chance[ids])
    inclusion = inclusion_of(chance, size)
    order = rng.permutation(len(chance))
    ends = np.cumsum(inclusion[order])
    places = np.searchsorted(ends, rng.random() + np.arange(size), side="right")  # systematic: steps of one
    ids = order[np.minimum(places, len(order) - 1)]
    return ids, 1 / inclusion[ids]


def inclusion_of(chance: Floats, size: int) -> Floats:
    """Return probabilities in proportion to the chances, none above 1, that sum to the size.

    Example:
        >>> inclusion_of(np.array([0.7, 0.2, 0.1]), 2)
        array([1.        , 0.66666667, 0.33333333])
    """
    certain = np.zeros(len(chance), bool)
    while True:
        scaled = np.where(certain, 1.0, chance * (size - certain.sum()) / chance[~certain].sum())
        if not (scaled > 1).any():
            return scaled
        certain |= scaled > 1


# ------------------------------------------------------------------ report


def compared(entries: dict[Key, Entry]) -> list[tuple[str, int, float, Floats, Floats]]:
    """Return variant, features, share, and the R² of both methods over the runs."""
    values_of: dict[tuple[str, int, float], list[tuple[float, float]]] = {}
    for (features, _), entry in sorted(entries.items()):
        for result in entry["results"]:
            key = (result["variant"], features, result["share"])
            values_of.setdefault(key, []).append((result["algorithm"], result["leverage"]))
    return [(*key, *np.array(values).T) for key, values in values_of.items()]


def parted(entries: dict[Key, Entry]) -> tuple[dict[Key, Entry], dict[Key, Entry]]:
    """Return the first runs, and those that confirm."""
    first = {key: entry for key, entry in entries.items() if key[1] < RUNS}
    return first, {key: entry for key, entry in entries.items() if key not in first}


def markdown(entries: dict[Key, Entry]) -> str:
    """Return a table of the differences to leverage scores, one line per variant."""
    columns = sorted({(features, share) for _, features, share, _, _ in compared(entries)})
    cells: dict[str, dict[tuple[int, float], str]] = {}
    for name, features, share, ours, base in compared(entries):
        gap, error = paired(ours, base)
        shown = f"{gap:+.3f} ± {error:.3f} ({base.mean():.3f})" if base.mean() > 0 else "both fail"
        cells.setdefault(name, {})[features, share] = shown
    head = " | ".join(f"{features} features, {share:.0%} of the rows" for features, share in columns)
    text = f"| variant | {head} |\n| --- |{' --- |' * len(columns)}\n"
    for name, row in cells.items():
        text += f"| {VARIANTS[name].title} | {' | '.join(row.get(column, '') for column in columns)} |\n"
    return text


def with_as_many_labels(entries: dict[Key, Entry]) -> dict[int, tuple[float, float]]:
    """Return how a tenth drawn and a tenth medoids compare with a fifth drawn by leverage scores, by features."""
    values = {(name, features, share): (ours, base) for name, features, share, ours, base in compared(entries)}
    few, many = SHARES
    return {
        features: paired(values["medoids kept", features, few][0], values["medoids kept", features, many][1])
        for features in sorted({key[1] for key in values})
        if ("medoids kept", features, few) in values
    }


def medoids_suffice(entries: dict[Key, Entry], near: float) -> bool:
    """Return whether fits with the medoids are nowhere clearly more than `near` below leverage scores."""
    gaps = [paired(ours, base) for name, _, _, ours, base in compared(entries) if name == "medoids kept"]
    return bool(gaps) and all(gap + 2 * error > -near and gap > -near for gap, error in gaps)
