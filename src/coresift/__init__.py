"""Pick the few rows of a large data set that stand for all of it, with weights that keep every total unbiased."""

from coresift.arguments import paper_size
from coresift.checks import CoresiftError, CoresiftWarning, InputError, LossError
from coresift.clustering import cluster
from coresift.design import Independent, Pivotal, Poisson, Systematic
from coresift.engine import Local
from coresift.estimation import estimate
from coresift.leverage import leverage_scores
from coresift.oracle import Oracle
from coresift.pilot import Centers, Representatives
from coresift.pipeline import ask, select
from coresift.planning import Plan, plan
from coresift.regression import Fit, Regression, ask_regression, select_regression
from coresift.rows import Rows, open_rows
from coresift.score import Distance, Learned, LeverageMixture, Mixture, Proxy, Sensitivity
from coresift.storage import load, save
from coresift.types import Clustering, Estimate, Interval, Ledger, Selection
from coresift.version import __version__

__all__ = [
    "Centers",
    "Clustering",
    "CoresiftError",
    "CoresiftWarning",
    "Distance",
    "Estimate",
    "Fit",
    "Independent",
    "InputError",
    "Interval",
    "Learned",
    "Ledger",
    "LeverageMixture",
    "Local",
    "LossError",
    "Mixture",
    "Oracle",
    "Pivotal",
    "Plan",
    "Poisson",
    "Proxy",
    "Regression",
    "Representatives",
    "Rows",
    "Selection",
    "Sensitivity",
    "Systematic",
    "__version__",
    "ask",
    "ask_regression",
    "cluster",
    "estimate",
    "leverage_scores",
    "load",
    "open_rows",
    "paper_size",
    "plan",
    "save",
    "select",
    "select_regression",
]
