"""The difference estimator with predictions that the selection itself learned, phase by phase.

If a score makes predictions, each phase k from the second on has a prediction mₖ that uses only the answers of earlier
phases. Phase k then has to estimate only the residual of mₖ:

    Tₖ = Σ_{drawn before k} aₖ·y + Σ_{rest} aₖ·bₖ·mₖ + Σ_{Sₖ} aₖ·(y − bₖ·mₖ)/πₖ,    T̂ = T₁ + Σₖ Tₖ.

Given the earlier phases, the expectation of the last sum is Σ_{rest} aₖ·(y − bₖ·mₖ) for any mₖ and bₖ, so predictions
cause no bias. The coefficient bₖ comes from the rows drawn before k: if rows are drawn in proportion to their
predictions, y/πₖ is already nearly constant, and subtracting the prediction would add noise. The pilot's part T₁ has no
prediction: a prediction from the second draw would cause bias, since that draw depends on the pilot.

Between the pilot and the draw, totals are divided by `learned_share` instead of α (see `coresift.shares`), and between
the last phase of a grown selection and all earlier ones by `learned_kept` (see `coresift.aiming`). They depend on
answers of earlier phases, but not on the row's own, so the bias is small; `benchmarks.estimation` and
`benchmarks.growing` measure it. A rate with few positives or negatives keeps the fixed shares, since its interval needs
the plain weights.

What is fixed when: clustering, signals, components, π₁ and α are fixed before the pilot; mₖ, bₖ, πₖ, learned shares and
the order of the draw are fixed after the phases before k and before phase k; aₖ of an added phase depends only on
planned sizes. No weight of phase k depends on its own answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coresift.checks import InputError
from coresift.estimation.intervals import unit_of
from coresift.estimation.limits import has_few_events
from coresift.estimation.methods import NO_THEOREM, Adjusted
from coresift.estimation.rates import is_binary
from coresift.types import Bools, Clustering, Floats, Strategy, WeightedSelection

# With fewer rows before a phase than this, or fewer positives or negatives of a rate, the coefficient is mostly noise.
FEWEST_ROWS = 10


@dataclass(frozen=True, eq=False, repr=False)
class LearnedDifference(Strategy):
    """The predictions' total + Σ w·(y − b·prediction), with predictions and shares that the pilot's answers gave.

    This is the default for selections with predictions, such as those of `select` with losses. The prediction used in a
    phase and its coefficient b depend only on answers of earlier phases, so useless predictions cost nothing. Where the
    draw knows more than the pilot, the pilot's rows count less than in the selection's weights. That makes errors
    smaller and causes a small bias, which was below a tenth of the standard error on all problems of the benchmark.

    Examples:
        >>> import numpy as np, coresift as cs
        >>> rows = np.random.default_rng(0).normal(size=(2000, 4))
        >>> loss = 5 + rows[:, 0] + 0.1 * rows[:, 1] ** 2
        >>> picked = cs.select(rows, loss, budget=200)
        >>> plain = cs.estimate(picked, loss[picked.ids], method=cs.estimators.HorvitzThompson())
        >>> learned = cs.estimate(picked, loss[picked.ids])
        >>> learned.total.standard_error < plain.total.standard_error
        True
    """

    label: ClassVar[str] = "difference from learned predictions"
    by_group: ClassVar[bool] = False
    plain: ClassVar[bool] = False

    def adjust(self, selection: WeightedSelection, values: Floats) -> Adjusted:
        """Return the predictions' total as the known part, and residuals in the phase that drew the row."""
        if not selection.predicted.size:
            raise InputError("This selection has no predictions; use HorvitzThompson(), or make it with losses.")
        growth = selection.growth if selection.growth.size else np.ones(1)
        known, residuals = 0.0, values.copy()
        by_phase = np.tile(values, (len(selection.phases), 1))
        slope = coefficient_before(selection, values, selection.predicted.size + 1)
        with np.errstate(over="ignore", invalid="ignore"):  # a total that is not finite is refused later
            move_shares(selection, residuals, by_phase, values - slope * selection.unseen)
        for index, total in enumerate(selection.predicted):
            number = index + 2
            slope = coefficient_before(selection, values, number)
            member = selection.phase == number
            predicted = slope * selection.predictions[member]
            known += slope * float(growth[index] * total)
            by_phase[number - 1, member] -= predicted
            # In later phases a row represents only itself, so subtract the prediction from its own phase's part alone.
            own_share = selection.multiplicity * selection.carried(number) / selection.inclusion / selection.weights
            residuals[member] -= own_share[member] * predicted
        plain = not np.any(residuals != values)
        return Adjusted(known, residuals, residuals, plain=plain, by_phase=by_phase)

    def ends(self, upper: float) -> None:
        """Return None: the errors of predictions have no known limits."""

    def theorem(
        self, selection: WeightedSelection, values: Floats, clustering: Clustering, holder: Floats
    ) -> tuple[str, str]:
        """Return no theorem: the paper's covers only the plain weighted total."""
        return "", NO_THEOREM


def move_shares(selection: WeightedSelection, residuals: Floats, by_phase: Floats, unpredicted: Floats) -> None:
    """Divide the unpredicted part of every total by learned shares instead of fixed ones, in place.

    Args:
        selection: The selection.
        residuals: The values of the weighted total.
        by_phase: One line of values per phase, for the variance.
        unpredicted: The values minus their predictions. What is predicted has no error to divide.
    """
    if is_binary(residuals) and has_few_events(residuals, selection.weights):
        return
    fixed, inclusion = selection.share, selection.inclusion
    more = selection.learned_share - fixed
    relative = np.zeros(by_phase.shape)
    relative[0] = np.divide(more, fixed, out=np.zeros_like(fixed), where=fixed > 0)
    relative[1] = -np.divide(more, 1 - fixed, out=np.zeros_like(fixed), where=fixed < 1)
    by_phase[:2] += unpredicted * relative[:2]
    # A pilot row weighs 1 − α + α/π₁, and a drawn row count·(1 − α)/π₂.
    weight_per_share = np.select(
        [selection.phase == 1, selection.phase == 2], [1 / inclusion - 1, -selection.multiplicity / inclusion], 0.0
    )
    part = selection.growth[0] if selection.growth.size else 1.0
    added = part * more * weight_per_share
    residuals += added * unpredicted / selection.weights
    if selection.learned_kept.size:
        _move_to_last(selection, residuals, by_phase, unpredicted * (1 + relative), selection.weights + added)


def _move_to_last(
    selection: WeightedSelection, residuals: Floats, by_phase: Floats, unpredicted: Floats, weights: Floats
) -> None:
    """Divide totals between the last phase and all earlier ones by `learned_kept`, in place.

    `unpredicted` has one line per phase, and `weights` are those with learned shares of the first two phases.
    """
    kept, last = 1 - float(selection.growth[-1]), selection.phase == len(selection.phases)
    more = selection.learned_kept - kept
    by_phase[:-1] += unpredicted[:-1] * (more / kept)
    by_phase[-1] -= unpredicted[-1] * (more / (1 - kept))
    # An earlier row weighs kept·w + 1 − kept, where w is its weight before the last phase; a new row (1 − kept)/π.
    before = (weights - (1 - kept)) / kept
    weight_per_part = np.where(last, -selection.multiplicity / selection.inclusion, before - 1)
    weight_per_part[selection.phase == 0] = 0.0
    residuals += more * weight_per_part * unpredicted[-1] / selection.weights


def coefficient_before(selection: WeightedSelection, values: Floats, number: int) -> float:
    """Return bₖ of phase k = `number` from the rows drawn before it; 0 if there are too few."""
    before: Bools = (selection.phase > 0) & (selection.phase < number)
    observed = values[before]
    count = observed.size
    if is_binary(observed):
        count = min(int(np.count_nonzero(observed)), int(np.count_nonzero(observed == 0)))
    if count < FEWEST_ROWS:
        return 0.0
    # How many of the rows left for phase k each row represents: nearly its whole weight after a pilot, and its weight
    # minus itself later on. A fully drawn group says nothing about the remaining rows.
    represents = (1 - selection.share) / selection.inclusion if number == 2 else np.maximum(selection.weights - 1, 0.0)
    return coefficient(observed, selection.predictions[before], selection.sizes[before], represents[before])


def coefficient(values: Floats, predicted: Floats, sizes: Floats, expansion: Floats) -> float:
    """Return a b for which (y − b·m)/q varies little between rows that are drawn in proportion to q.

    It is the slope of y/q on m/q, weighted by expansion·q, times max(0, 1 − squared standard error/slope²): a slope
    that may be noise is shrunk toward 0, so that useless predictions cost nothing. Changing the unit or the sign of the
    values changes the estimate accordingly.

    Args:
        values: y of the rows drawn before.
        predicted: m of the same rows, out-of-fold.
        sizes: q, their sizes in the draw to come; if unknown (0), all are taken as equal.
        expansion: How many rows each of them represents in that draw, (1 − α)/π₁ after a pilot.

    Returns:
        The coefficient.

    Examples:
        >>> values = np.array([1.0, 2.0, 4.0])
        >>> coefficient(values, values, np.ones(3), np.ones(3))
        1.0
    """
    draw_sizes = sizes if np.all(sizes > 0) else np.ones(values.size)
    weights = expansion * draw_sizes
    if not weights.any():
        return 0.0
    weights = weights / weights.sum()
    # Scaling by powers of two is exact, and keeps the squares of very large and small numbers finite.
    unit, predicted_unit = unit_of(values), unit_of(predicted)
    x, y = predicted / predicted_unit / draw_sizes, values / unit / draw_sizes
    x, y = x - weights @ x, y - weights @ y
    variance = float(weights @ x**2)
    slope = float(weights @ (x * y)) / variance if variance > 0 else 0.0
    if slope == 0:
        return 0.0
    noise = float((weights * x) ** 2 @ (y - slope * x) ** 2) / variance**2
    return slope * max(1 - noise / slope**2, 0.0) * (unit / predicted_unit)
