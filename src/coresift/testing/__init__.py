"""Checks that every strategy must pass, yours and ours. Each raises an AssertionError that says what is wrong.

They prove unbiasedness by enumeration (every outcome of the real code, with its probability), and compare the variance
that a strategy claims with the observed variance over many seeds.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from coresift import recipes, registry
from coresift.checks import CoresiftWarning
from coresift.clustering import cluster
from coresift.estimation.intervals import moments
from coresift.progress import Progress
from coresift.recipes.arguments import merge_recipe, settle
from coresift.rows import open_rows
from coresift.selection import Draft, finish, prepare
from coresift.testing.enumeration import Outcome, outcomes
from coresift.types import (
    Clustering,
    Design,
    Evidence,
    Floats,
    Ledger,
    Pilot,
    PilotSample,
    Score,
    Scores,
    Strategy,
    WeightedSelection,
)

__all__ = ["check_design", "check_pilot", "check_score", "expected_weights", "outcomes"]

# A problem that is small enough to enumerate every outcome: two groups of rows and a single one.
TINY = np.array([[0.0, 0.0], [0.3, 0.1], [0.1, 0.5], [4.0, 4.0], [4.2, 4.5], [3.5, 4.4], [9.0, 0.0]])
TINY_LOSSES = np.array([0.5, 1.0, 0.2, 3.0, 2.0, 2.5, 7.0])
FRAMES: tuple[dict[str, Any], ...] = ({}, {"given": [4]}, {"exclude": [1]}, {"given": [0], "exclude": [6]})
EXACT = 1e-7
# The ratio of claimed to observed variance, over the same seeds and summed over several vectors of values, because a
# single vector may suit a draw by chance. A correct claim is outside of these limits once in 10,000 checks.
ROWS, SELECTED, SEEDS, VECTORS, LOWEST, HIGHEST = 900, 90, 250, 12, 0.8, 1.4


def check_design(design: Design) -> None:
    """Check a design: its inclusion probabilities, unbiased weights, and the variance that it claims.

    Args:
        design: The design to check.

    Raises:
        AssertionError: Something is wrong; the message says what.

    Examples:
        >>> from coresift.designs import Poisson
        >>> check_design(Poisson())
    """
    _check_strategy(design, Design)
    for sizes in ([1.0, 1, 1, 1, 1], [1.0, 2, 3, 4, 5], [50.0, 1, 1, 2, 1], [1.0, 0, 2, 1, 3]):
        for count in (1, 2, 3):
            _check_inclusion(design, np.array(sizes), count)
    _check_flow(pilot=None, score=recipes.by_distance().score, design=design)
    _check_variance(merge_recipe(recipes.by_distance(), {"design": design}), what=repr(design), mean=5.0)


def check_score(score: Score) -> None:
    """Check a score: sizes above 0 for all rows that matter, a complete order, and unbiased weights.

    The score is applied to 7 rows, so an option with one number per row needs 7 of them.

    Args:
        score: The score to check.

    Raises:
        AssertionError: Something is wrong; the message says what.

    Examples:
        >>> from coresift.scores import Learned
        >>> check_score(Learned())
    """
    _check_strategy(score, Score)
    draft = _draft({"score": score, "pilot": recipes.default().pilot if score.needs.pilot else None})
    for losses in (TINY_LOSSES, np.zeros(len(TINY)), np.where(TINY_LOSSES > 3, TINY_LOSSES, 0.0)):
        scores, again = (score.scores(_evidence(draft, losses)) for _ in range(2))
        same = np.array_equal(scores.sizes, again.sizes) and np.array_equal(scores.order, again.order)
        assert same, f"{score!r} must give the same sizes and the same order to the same evidence."
        unreachable = np.flatnonzero((scores.sizes <= 0) & (losses > 0))
        assert not unreachable.size, (
            f"{score!r} gives row {unreachable[0]} size 0, but its loss is above 0: totals are biased."
        )
        assert np.array_equal(np.sort(scores.order), np.arange(len(TINY))), f"{score!r} must order every row once."
    _check_flow(pilot=None, score=score, design=recipes.EVEN_DRAW)


def check_pilot(pilot: Pilot) -> None:
    """Check a pilot: a consistent plan, unbiased weights, and the variance that it claims.

    Args:
        pilot: The pilot to check.

    Raises:
        AssertionError: Something is wrong; the message says what.

    Examples:
        >>> from coresift.pilots import Centers
        >>> check_pilot(Centers(keep=True))
    """
    _check_strategy(pilot, Pilot)
    draft = _draft({"pilot": pilot, "score": recipes.default().score})
    plan = draft.pilot.plan
    assert plan.keep == pilot.keep, f"{pilot!r} says keep={pilot.keep}, but its plan says {plan.keep}."
    unreachable = np.flatnonzero((plan.share > 0) & (plan.inclusion == 0))
    assert not unreachable.size, (
        f"{pilot!r} gives row {unreachable[0]} a share, but can never draw it: totals are biased."
    )
    expected = pilot.size(draft.clustering.k, 4)
    assert draft.pilot.ids.size == expected, f"{pilot!r} asks {draft.pilot.ids.size} rows, but says {expected}."
    _check_flow(pilot=pilot, score=recipes.default().score, design=recipes.EVEN_DRAW)
    _check_variance(merge_recipe(recipes.default(), {"pilot": pilot}), what=repr(pilot), mean=0.0)


def expected_weights(
    options: dict[str, Any], frame: dict[str, Any] | None = None, budget: int = 4, clustering: Clustering | None = None
) -> Floats:
    """Return the exact expected weight of each of the seven rows of `TINY`, over every outcome of both draws.

    Args:
        options: The pilot, score and design, as `select` takes them.
        frame: Rows that are given or excluded.
        budget: How many rows to select.
        clustering: A clustering of `TINY`, or None for one with two clusters.

    Returns:
        Seven numbers, each 1 (0 for an excluded row) if the weights are unbiased.
    """
    draft = _draft(options, frame, budget, clustering)
    total = np.zeros(len(TINY))
    for pilot, chance in _pilots(draft):
        for selection, draw_chance in _draws(replace(draft, pilot=pilot)):
            total[selection.ids] += chance * draw_chance * selection.weights
    return total


def _draft(
    options: dict[str, Any],
    frame: dict[str, Any] | None = None,
    budget: int = 4,
    clustering: Clustering | None = None,
) -> Draft:
    clustering = clustering or cluster(TINY, 2, seed=1)
    job = settle(TINY, budget, 0, asking=True, clusters=clustering, **options, **(frame or {}))
    return prepare(job, None, Progress())


def _pilots(draft: Draft) -> list[tuple[PilotSample, float]]:
    plan = draft.pilot.plan
    order = plan.order[plan.inclusion[plan.order] > 0]
    if not order.size:
        return [(draft.pilot, 1.0)]
    all_outcomes = outcomes(recipes.EVEN_DRAW, plan.inclusion[order])
    return [(PilotSample(order[outcome.positions], plan), outcome.probability) for outcome in all_outcomes]


class _FixedOutcome:
    """A design that returns a fixed outcome; without one it draws, and records the inclusion probabilities."""

    def __init__(self, design: Design, outcome: Outcome | None = None) -> None:
        self._design, self._outcome = design, outcome
        self.inclusion_seen: Floats | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._design, name)

    def draw(self, inclusion: Floats, uniforms: Any) -> Any:
        self.inclusion_seen = inclusion
        if self._outcome is None:
            return self._design.draw(inclusion, uniforms)
        return self._outcome.positions, self._outcome.counts


class Remembered:
    """A score that is computed once, for many draws with the same evidence."""

    def __init__(self, score: Score) -> None:
        self._score = score
        self._scores: Scores | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._score, name)

    def __repr__(self) -> str:
        return repr(self._score)

    def scores(self, evidence: Evidence) -> Scores:
        """Return the scores of the first evidence that was given."""
        if self._scores is None:
            self._scores = self._score.scores(evidence)
        return self._scores


def _draws(draft: Draft) -> Iterator[tuple[WeightedSelection, float]]:
    """Yield every selection that the second draw can produce, with its probability."""
    score: Any = Remembered(draft.job.score)

    def run(design: Any) -> WeightedSelection:
        answers, probed = TINY_LOSSES[draft.pilot.ids], TINY_LOSSES[draft.probed]
        job = replace(draft.job, score=score, design=design)
        return finish(replace(draft, job=job), answers, Ledger(), probed=probed)

    recorder = _FixedOutcome(draft.job.design)
    drawn = run(recorder)
    if recorder.inclusion_seen is None:
        yield drawn, 1.0
        return
    for outcome in outcomes(draft.job.design, recorder.inclusion_seen):
        yield run(_FixedOutcome(draft.job.design, outcome)), outcome.probability


def _check_strategy(strategy: Any, kind: type[Strategy]) -> None:
    name = kind.__name__.lower()
    assert isinstance(strategy, kind), f"{strategy!r} must derive from coresift.types.{kind.__name__}."
    registered = registry.known(name, installed=False)
    assert registered.get(type(strategy).__name__) is type(strategy), f"{strategy!r} is not registered under its name."
    restored = registry.restore(name, strategy.record())
    assert restored == strategy, f"{strategy!r} is not equal to {restored!r}, which was restored from its record."


def _check_inclusion(design: Design, sizes: Floats, count: int) -> None:
    inclusion = design.inclusion(sizes / sizes.sum(), count)
    possible = int(np.count_nonzero(sizes))
    assert np.all(inclusion[sizes == 0] == 0), f"{design!r} must give rows of size 0 the inclusion 0."
    assert np.all(inclusion[sizes > 0] > 0), f"{design!r} must give rows of positive size a positive inclusion."
    expected = min(count, possible) if design.distinct else count
    assert np.isclose(inclusion.sum(), expected), f"{design!r}: inclusions sum to {inclusion.sum():g}, not {expected}."
    inclusion_seen, mass = np.zeros(sizes.size), 0.0
    for outcome in outcomes(design, inclusion):
        inclusion_seen[outcome.positions] += outcome.probability * outcome.counts
        mass += outcome.probability
        drawn = int(outcome.counts.sum())
        assert not design.fixed_size or drawn == expected, f"{design!r} drew {drawn} rows instead of {expected}."
        assert not design.distinct or np.all(outcome.counts == 1), f"{design!r} is distinct and drew a row twice."
    assert np.isclose(mass, 1, atol=EXACT), f"The probabilities of {design!r} sum to {mass}."
    worst = int(np.abs(inclusion_seen - inclusion).argmax())
    assert np.allclose(inclusion_seen, inclusion, atol=EXACT), (
        f"{design!r} draws row {worst} with probability {inclusion_seen[worst]:.6g}, but says {inclusion[worst]:.6g}."
    )


def _check_flow(*, pilot: Pilot | None, score: Any, design: Design) -> None:
    for frame in FRAMES:
        weights = expected_weights({"pilot": pilot, "score": score, "design": design}, frame)
        expected = np.ones(len(TINY))
        expected[frame.get("exclude", [])] = 0
        worst = int(np.abs(weights - expected).argmax())
        assert np.allclose(weights, expected, atol=1e-6), (
            f"The expected weight of row {worst} is {weights[worst]:.6g} instead of {expected[worst]:g} "
            f"with {pilot!r}, {score!r} and {design!r}: totals are biased."
        )


def _evidence(draft: Draft, losses: Floats) -> Evidence:
    leverage = np.full(len(TINY), 1 / len(TINY)) if draft.job.score.needs.leverage is not None else np.zeros(0)
    holder = np.ones(draft.clustering.k) if draft.job.score.needs.probes else np.zeros(0)
    answers = losses[draft.pilot.ids]
    return Evidence(draft.clustering, draft.job.frame, draft.pilot, answers, leverage, holder)


def _check_variance(recipe: Any, *, what: str, mean: float) -> None:
    """Compare the claimed variance with the observed one, for values that are unrelated to the order of the rows.

    Values far from 0 reveal the effect of a random sample size. Values around 0 reveal the pilot's own share of the
    error, which the second draw would otherwise hide.
    """
    rng = np.random.default_rng(5)
    points = rng.normal(size=(6, 3))[rng.integers(6, size=ROWS)] * 3 + rng.normal(size=(ROWS, 3))
    vectors = mean + rng.normal(size=(VECTORS, ROWS))
    clustering = cluster(points, 6, seed=2)
    totals, claims = np.empty((SEEDS, VECTORS)), np.empty((SEEDS, VECTORS))
    rows, asking = open_rows(points), recipe.pilot is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoresiftWarning)
        for seed in range(SEEDS):
            job = settle(rows, SELECTED, seed, asking=asking, clusters=clustering, recipe=recipe)
            draft = prepare(job, None, Progress())
            selection = finish(draft, np.abs(vectors[0][draft.pilot.ids]), Ledger())
            totals[seed] = vectors[:, selection.ids] @ selection.weights
            claims[seed] = [moments(selection, values).variance for values in vectors[:, selection.ids]]
    if not np.all(np.isfinite(claims)):
        return  # without moments there is a total but no interval, so there is nothing to compare
    claimed, observed = float(claims.mean(axis=0).sum()), float(totals.var(axis=0, ddof=1).sum())
    ratio = claimed / observed
    assert LOWEST < ratio < HIGHEST, (
        f"{what} claims a standard error of {np.sqrt(claimed / VECTORS):.3g}, but its totals have "
        f"{np.sqrt(observed / VECTORS):.3g} over {SEEDS} seeds: its moments are wrong."
    )
