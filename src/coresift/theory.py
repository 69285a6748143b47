"""The paper's theory: error bounds, numbers of draws, the Hölder constant Λ, leverage, and the difference estimator."""

from coresift.bounds import difference_error, difference_size, paper_error, paper_size
from coresift.estimation.centers import center_predictions, difference_weights
from coresift.holder import estimate as estimate_holder
from coresift.holder import plan as plan_holder
from coresift.leverage import leverage_scores

__all__ = [
    "center_predictions",
    "difference_error",
    "difference_size",
    "difference_weights",
    "estimate_holder",
    "leverage_scores",
    "paper_error",
    "paper_size",
    "plan_holder",
]
