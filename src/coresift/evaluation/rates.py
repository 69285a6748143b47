"""Limits of rates with few events: a mid-p interval in which every event has a weight.

The interval of Clopper and Pearson (1934) has a rate's lower limit from the events that were seen, and the upper limit
from one more. Its mid-p version (Lancaster 1961) has both limits from half of each distribution, since the exact
interval covers too often. With unequal probabilities, as many trials count as have the estimated variance (Korn and
Graubard 1998), and one more event has a weight, too, as in the limits of Fay and Feuer (1997) for Poisson counts. So if
rows with events were likely to be drawn, the interval is short.
"""

from __future__ import annotations

import numpy as np

from coresift.evaluation.errors import average_step, kish, one_more
from coresift.evaluation.sampling import Sample
from coresift.types import Bools

# The variance is at least this part of the variance of one answer, so that trials are finite.
LEAST_VARIANCE = 1e-9


def rate_limits(sample: Sample, events: Bools, rate: float, variance: float, sure: float) -> tuple[float, float]:
    """Return the lower and upper limit of the part of all rows that are events; each holds with probability `sure`.

    Args:
        sample: The rows that were asked.
        events: Which of them are events; some are, and some are not.
        rate: The estimate, above 0 and below 1.
        variance: Its estimated variance.
        sure: The probability with which each limit holds.
    """
    from scipy.optimize import brentq
    from scipy.special import betainc

    if kish(sample.weights[~events]) < kish(sample.weights[events]):
        low, high = rate_limits(sample, ~events, 1 - rate, variance, sure)
        return 1 - high, 1 - low
    steps = np.sqrt(1 - sample.chances) / sample.chances
    more = min(one_more(steps[events], average_step(steps)) / sample.population, (1 - rate) / 2)
    # If all asked rows that a signal points to are events, their variance is 0, but one of them might not have been.
    variance = max(variance, more**2 * (1 - rate))
    # With equal weights, one more event changes rate·(1 − rate)/trials by this much.
    wider = more**2 * max(1 - 2 * rate - more, 0.0)
    shapes = [_shape(rate, variance), _shape(rate + more, variance + wider)]

    def limit(chance: float) -> float:
        return float(brentq(lambda end: sum(float(betainc(*shape, end)) for shape in shapes) / 2 - chance, 0.0, 1.0))

    return limit(1 - sure), limit(sure)


def _shape(rate: float, variance: float) -> tuple[float, float]:
    """Return the parameters of a limit's beta distribution, with as many trials as have this variance."""
    trials = rate * (1 - rate) / max(variance, LEAST_VARIANCE * rate * (1 - rate))
    return rate * trials, (1 - rate) * trials + 1
