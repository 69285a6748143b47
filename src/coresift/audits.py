"""Measure how good a model is on these rows, from a few rows that are drawn after it was trained.

The model is fixed, the labeled rows L are known, and m of the other rows U are drawn uniformly as a sample A. With
`right` 1 where the model agrees with the label, (Σ_L right + |U|/m·Σ_A right)/n is unbiased for its accuracy on these n
rows. The model's confidence serves as a control variate to reduce the variance: Σ_U right is estimated as
λ·Σ_U confidence + |U|/m·Σ_A (right − λ·confidence), which is unbiased for any λ that does not depend on the rows it is
used for. So each half of the drawn rows uses the λ that is best for the other half (cross-fitting).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.types import Bools, Floats, Ints

FEWEST = 50
# The effective sample size is at most this many times the drawn rows, however well the confidence explains them.
MOST_WORTH = 2.0


@dataclass(frozen=True)
class Audit:
    """The accuracy of one model on the rows of a run: `value` on all `n` rows, `unlabeled` on those without a label.

    `trained_on` is the number of labels the model was trained on. `rows` were drawn for the audit and answered;
    `skipped` were drawn but not answered. A skipped row could be right or wrong, and the interval allows for both.
    `low` and `high` hold with the stated `confidence` for this audit alone; `low_always` and `high_always` hold for all
    audits of the run together, so use those if you might stop at any audit.
    """

    round: int
    trained_on: int
    rows: int
    skipped: int
    value: float
    low: float
    high: float
    low_always: float
    high_always: float
    unlabeled: float
    what: str = "accuracy"
    confidence: float = 0.95
    n: int | None = None

    def __str__(self) -> str:
        """Say what was measured, of which model, and from how many rows.

        >>> print(Audit(3, 190, 50, 0, 0.445, 0.327, 0.571, 0.327, 0.571, 0.44, n=9390))
        accuracy on all 9,390 rows of the model after 190 labels: 44.5 % (32.7 to 57.1), from 50 audit rows of round 3
        """
        what, figures = self.what, f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})"
        if what == "accuracy":
            what += " on all rows" if self.n is None else f" on all {self.n:,} rows"
            figures = f"{100 * self.value:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"
        source = f"from {self.rows:,} audit rows of round {self.round}"
        return f"{what} of the model after {self.trained_on:,} labels: {figures}, {source}"

    def change_since(self, before: Audit) -> str:
        """Say how much the model has changed since an earlier audit, or that it is too early to tell.

        >>> early = Audit(1, 100, 50, 0, 0.80, 0.68, 0.90, 0.66, 0.92, 0.80)
        >>> Audit(2, 200, 50, 0, 0.81, 0.70, 0.91, 0.68, 0.93, 0.81).change_since(early)
        '1.0 ± 15.2 points from round 1 to round 2: cannot tell yet'
        """
        gain = 100 * (self.value - before.value)
        half = 100 * np.hypot((self.high - self.low) / 2, (before.high - before.low) / 2)
        verdict = ": cannot tell yet" if abs(gain) <= half else ""
        return f"{gain:.1f} ± {half:.1f} points from round {before.round} to round {self.round}{verdict}"

    def rows_for_change(self, points: float = 5.0, n: int | None = None) -> int:
        """Return about how many rows each of two audits needs so that a change of so many points is not noise.

        This is the normal approximation at this audit's accuracy: 2·1.96²·p(1 − p)/change² rows, and fewer if there are
        only n rows to draw from.

        >>> Audit(1, 100, 50, 0, 0.80, 0.68, 0.90, 0.66, 0.92, 0.80).rows_for_change()
        492
        """
        least = 1 / (self.rows + 2)  # an audit without a single error is not proof of perfection
        right = min(max(self.value, least), 1 - least)
        rows = 2 * (1.96 * 100 / points) ** 2 * right * (1 - right)
        return int(np.ceil(rows if n is None else rows / (1 + rows / n)))

    def advice(self, n: int | None = None) -> str:
        """Say how many audit rows would tell a change of 5 points, to decide whether to stop or go on."""
        return (
            "Differences inside the intervals may be noise; to tell a change of 5 points, two audits need about "
            f"{self.rows_for_change(n=n):,} rows each."
        )


def audit_accuracy(
    right: Bools,
    drawn: Floats,
    unlabeled: Floats,
    known: Bools,
    rng: np.random.Generator,
    round: int,
    skipped: int = 0,
    audits: int = 1,
) -> Audit:
    """Estimate the accuracy of a model on all rows.

    Args:
        right: Whether the model was right on each row that was drawn and answered.
        drawn: The model's confidence in its answers on these rows.
        unlabeled: Its confidence on all rows of U, including the drawn ones.
        known: Whether it is right on each row of L.
        rng: Splits the drawn rows in half.
        round: The model's round.
        skipped: How many drawn rows have no answer.
        audits: How many audits the run has.
    """
    n, m = unlabeled.size + known.size, right.size
    rate, worth = _rate(right.astype(np.float64), drawn, unlabeled, rng)
    sampled = (m + skipped) / max(unlabeled.size, 1)

    def accuracy_on_all(value: float) -> float:
        return float((known.sum() + unlabeled.size * np.clip(value, 0, 1)) / n)

    def interval(level: float) -> tuple[float, float]:
        low, high = _wilson(rate, worth, level, sampled)
        skipped_share = skipped / (m + skipped)
        return accuracy_on_all((1 - skipped_share) * low), accuracy_on_all((1 - skipped_share) * high + skipped_share)

    low, high = interval(0.95)
    low_always, high_always = interval(1 - 0.05 / audits)
    value = accuracy_on_all(rate)
    unlabeled_value = float(np.clip(rate, 0, 1))
    return Audit(round, known.size, m, skipped, value, low, high, low_always, high_always, unlabeled_value, n=n)


def audit_error(
    squares: Floats,
    drawn: Floats,
    unlabeled: Floats,
    trained_on: int,
    rng: np.random.Generator,
    round: int,
    skipped: int = 0,
    audits: int = 1,
) -> Audit:
    """Estimate a model's mean squared error on the unlabeled rows, from a sample of them.

    `drawn` and `unlabeled` are standard deviations of the model's predictions; their squares are the control variate.
    """
    from scipy.special import stdtrit

    m = squares.size
    rate, residuals = _difference(squares, drawn**2, unlabeled**2, rng)
    error = np.sqrt(np.square(residuals).sum() / max(m - 2, 1) / m * max(1 - m / unlabeled.size, 0.0))
    skipped_share = skipped / (m + skipped)

    def interval(level: float) -> tuple[float, float]:
        half = float(stdtrit(max(m - 2, 1), 0.5 + level / 2) * error)
        # The error on skipped rows has no upper bound, so the largest observed error stands in for it.
        return (1 - skipped_share) * max(rate - half, 0.0), (1 - skipped_share) * (rate + half) + skipped_share * float(
            squares.max()
        )

    (low, high), (low_always, high_always) = interval(0.95), interval(1 - 0.05 / audits)
    what = "mean squared error on the rows without a label"
    return Audit(round, trained_on, m, skipped, rate, low, high, low_always, high_always, rate, what, n=unlabeled.size)


def _rate(right: Floats, drawn: Floats, unlabeled: Floats, rng: np.random.Generator) -> tuple[float, float]:
    """Return the estimated accuracy on U, and the effective sample size of that estimate."""
    m = right.size
    rate, residuals = _difference(right, drawn, unlabeled, rng)
    unexplained = float(np.square(residuals).sum())
    variance_ratio = float(np.square(right - right.mean()).sum()) / unexplained if unexplained > 0 else 1.0
    return rate, m * float(np.clip(variance_ratio, 1.0, MOST_WORTH))


def _difference(values: Floats, drawn: Floats, unlabeled: Floats, rng: np.random.Generator) -> tuple[float, Floats]:
    """Return the difference estimate of the mean over U, and the residuals of the drawn rows."""
    m, size = values.size, unlabeled.size
    half = np.zeros(m, np.bool_)
    half[rng.permutation(m)[: m // 2]] = True
    total, rates, residuals = float(unlabeled.sum()), [], np.empty(m)
    for fold in (half, ~half):
        slope = _slope(values[~fold], drawn[~fold])
        residuals[fold] = values[fold] - slope * drawn[fold]
        # The other half is known; the rest of U is estimated from this half.
        remaining = size - np.count_nonzero(~fold)
        remaining_sum = slope * (total - drawn[~fold].sum()) + remaining * residuals[fold].mean()
        rates.append((remaining_sum + values[~fold].sum()) / size)
        residuals[fold] -= residuals[fold].mean()
    return float(np.mean(rates)), residuals


def _slope(right: Floats, confidence: Floats) -> float:
    """Return λ, the least squares slope on the confidence, clipped to between 0 and 1."""
    spread = confidence - confidence.mean()
    scale = float(spread @ spread)
    return float(np.clip(spread @ right / scale, 0, 1)) if scale > 0 else 0.0


def _wilson(rate: float, worth: float, level: float, sampled: float) -> tuple[float, float]:
    """Return Wilson's interval for a rate with effective sample size `worth` and a finite population correction."""
    from scipy.special import ndtri

    rate = float(np.clip(rate, 0, 1))
    square = float(ndtri(0.5 + level / 2)) ** 2 * max(1 - sampled, 0.0)
    center = (rate + square / (2 * worth)) / (1 + square / worth)
    half = np.sqrt(square * (rate * (1 - rate) / worth + square / (4 * worth**2))) / (1 + square / worth)
    return float(center - half), float(center + half)


def draw_audit(unlabeled: Ints, count: int, rng: np.random.Generator) -> Ints:
    """Draw audit rows uniformly, in ascending order."""
    return np.sort(rng.choice(unlabeled, min(count, unlabeled.size), replace=False))
