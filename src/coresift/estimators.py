"""Estimators of a total from a weighted selection; `estimate(..., method=)` takes them."""

from coresift.estimation.hajek import Hajek
from coresift.estimation.learned import LearnedDifference
from coresift.estimation.methods import Difference, HorvitzThompson
from coresift.estimation.regression import GeneralizedRegression

__all__ = ["Difference", "GeneralizedRegression", "Hajek", "HorvitzThompson", "LearnedDifference"]
