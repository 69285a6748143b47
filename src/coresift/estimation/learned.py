"""An estimate that learns: what was predicted for every row before it was drawn carries part of the total.

A selection that was made by a score with predictions has, for each phase k from the second on, a prediction mₖ that was
made from the answers of the phases before k alone. Phase k then has to estimate only what mₖ misses:

    Tₖ = Σ_{drawn before k} aₖ·y + Σ_{rest} aₖ·bₖ·mₖ + Σ_{Sₖ} aₖ·(y − bₖ·mₖ)/πₖ,    T̂ = T₁ + Σₖ Tₖ.

Given the phases before k, the last sum has the expectation Σ_{rest} aₖ·(y − bₖ·mₖ) whatever mₖ and bₖ are, so T̂ is
exactly unbiased. The coefficient bₖ comes from the rows drawn before k: where rows are drawn in proportion to what is
predicted, y/πₖ is nearly constant already, and taking the prediction off would add noise. The pilot's part T₁ has no
prediction: one that is made from the second draw would not be exact, since that draw depends on the pilot.

What is fixed when: clustering, signals, components, π₁ and a₁ before the pilot; mₖ, bₖ, πₖ and the order of the draw
after the phases before k, and before phase k; aₖ by planned sizes alone. Nothing that phase k is weighed with depends
on its own answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coresift.checks import InputError
from coresift.estimation.intervals import unit_of
from coresift.estimation.methods import Adjusted
from coresift.estimation.rates import is_binary
from coresift.types import Bools, Clustering, Floats, Strategy, WeightedSelection

# With fewer rows before a phase than this, or fewer positives or negatives of a rate, a coefficient is noise.
FEWEST_ROWS = 10


@dataclass(frozen=True, eq=False, repr=False)
class LearnedDifference(Strategy):
    """The predictions' total + Σ w·(y − b·prediction), with the predictions that the selection itself was made by.

    The default for selections that carry predictions: those of `select` with losses. It is exactly unbiased, since
    the prediction used in a phase is made from answers of earlier phases alone. The coefficient b is learned from
    earlier phases too, so useless predictions cost nothing.

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
        """The predictions' total is known; the residual is what they miss, in the phase that drew the row."""
        if not selection.predicted.size:
            raise InputError("This selection carries no predictions; use HorvitzThompson(), or make it with losses.")
        growth = selection.growth if selection.growth.size else np.ones(1)
        known, residuals = 0.0, values.copy()
        by_phase = np.tile(values, (len(selection.phases), 1))
        for place, total in enumerate(selection.predicted):
            number = place + 2
            part = coefficient_before(selection, values, number)
            member = selection.phase == number
            missed = part * selection.predictions[member]
            known += part * float(growth[place] * total)
            by_phase[number - 1, member] -= missed
            # In later phases a row counts as itself: only its own phase's part of the weight has the prediction off.
            own = selection.multiplicity * selection.carried(number) / selection.inclusion / selection.weights
            residuals[member] -= own[member] * missed
        plain = not np.any(residuals != values)
        return Adjusted(known, residuals, residuals, plain=plain, by_phase=by_phase)

    def ends(self, upper: float) -> None:
        """Return None: how far a prediction is off has no bound that is known."""

    def theorem(
        self, selection: WeightedSelection, values: Floats, clustering: Clustering, holder: Floats
    ) -> tuple[str, str]:
        """Return none: the paper's theorem is about the plain weighted total."""
        return "", "no theorem is about this: it needs score=Sensitivity(holder) and the plain weighted total"


def coefficient_before(selection: WeightedSelection, values: Floats, number: int) -> float:
    """Return bₖ of phase k = `number` from the rows that were drawn before it; 0 if they are too few to tell."""
    before: Bools = (selection.phase > 0) & (selection.phase < number)
    observed = values[before]
    fewest = observed.size
    if is_binary(observed):
        fewest = min(int(np.count_nonzero(observed)), int(np.count_nonzero(observed == 0)))
    if fewest < FEWEST_ROWS:
        return 0.0
    # What each row stands for among the rows that are left to phase k: after a pilot nearly all that it weighs, later
    # all but itself. A group that was drawn whole says nothing about those left.
    standing = (1 - selection.share) / selection.inclusion if number == 2 else np.maximum(selection.weights - 1, 0.0)
    return coefficient(observed, selection.predictions[before], selection.sizes[before], standing[before])


def coefficient(values: Floats, predicted: Floats, sizes: Floats, expansion: Floats) -> float:
    """Return a b for which (y − b·m)/q varies little between rows that are drawn in proportion to q.

    It is the slope of y/q on m/q, weighted by expansion·q, times 1 − its squared standard error over its square, or 0
    where that is negative: a slope that may be noise is taken back, so that useless predictions cost nothing. Values in
    other units, or with the other sign, have the same estimate in those.

    Args:
        values: y of rows that were drawn before.
        predicted: m of the same rows, each made without its own answer.
        sizes: q, their sizes in the draw to come; where unknown (0), all are taken as equal.
        expansion: What each stands for in that draw, (1 − α)/π₁ after a pilot.

    Returns:
        The coefficient.

    Examples:
        >>> values = np.array([1.0, 2.0, 4.0])
        >>> coefficient(values, values, np.ones(3), np.ones(3))
        1.0
    """
    likely = sizes if np.all(sizes > 0) else np.ones(values.size)
    weights = expansion * likely
    if not weights.any():
        return 0.0
    weights = weights / weights.sum()
    # Powers of two change no digit, and keep squares of very large and small numbers finite.
    unit, other = unit_of(values), unit_of(predicted)
    apart, level = predicted / other / likely, values / unit / likely
    apart, level = apart - weights @ apart, level - weights @ level
    size = float(weights @ apart**2)
    slope = float(weights @ (apart * level)) / size if size > 0 else 0.0
    if slope == 0:
        return 0.0
    noise = float((weights * apart) ** 2 @ (level - slope * apart) ** 2) / size**2
    return slope * max(1 - noise / slope**2, 0.0) * (unit / other)
