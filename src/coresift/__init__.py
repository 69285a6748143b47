"""Pick the few rows of a large data set that stand for all of it, with weights that keep every total unbiased."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from coresift import baselines, designs, holder, pilots, recipes, scores
from coresift.bounds import difference_size, paper_size
from coresift.checks import CoresiftError, CoresiftWarning, InputError, LossError
from coresift.clustering import cluster
from coresift.comparison import Comparison, compare
from coresift.designs import Independent, Pivotal, Poisson, Systematic
from coresift.diagnosis import Diagnosis, diagnose
from coresift.engine import Local
from coresift.estimation import estimate
from coresift.estimation.certificates import Certificate, certify
from coresift.estimation.methods import (
    Difference,
    HorvitzThompson,
    Regression,
    center_predictions,
    difference_weights,
)
from coresift.leverage import leverage_scores
from coresift.multiround import Run, rounds
from coresift.oracle import Oracle
from coresift.pilots import Centers, Representatives
from coresift.planning import Plan, plan
from coresift.regression import Fit, RegressionSelection, ask_regression, select_regression
from coresift.remote import Actors, Ray
from coresift.reporting import report
from coresift.rows import Rows, open_rows
from coresift.scores import Distance, Learned, LeverageMixture, Mixture, Proxy, Sensitivity
from coresift.selection import ask, select
from coresift.storage import load, save
from coresift.types import Clustering, Estimate, Frame, Interval, Ledger, Recipe, Selection, WeightedSelection
from coresift.version import __version__

if TYPE_CHECKING:
    from coresift import models as models

__all__ = [
    "Actors",
    "Centers",
    "Certificate",
    "Clustering",
    "Comparison",
    "CoresiftError",
    "CoresiftWarning",
    "Diagnosis",
    "Difference",
    "Distance",
    "Estimate",
    "Fit",
    "Frame",
    "HorvitzThompson",
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
    "Ray",
    "Recipe",
    "Regression",
    "RegressionSelection",
    "Representatives",
    "Rows",
    "Run",
    "Selection",
    "Sensitivity",
    "Systematic",
    "WeightedSelection",
    "__version__",
    "ask",
    "ask_regression",
    "baselines",
    "center_predictions",
    "certify",
    "cluster",
    "compare",
    "designs",
    "diagnose",
    "difference_size",
    "difference_weights",
    "estimate",
    "holder",
    "leverage_scores",
    "load",
    "open_rows",
    "paper_size",
    "pilots",
    "plan",
    "recipes",
    "report",
    "rounds",
    "save",
    "scores",
    "select",
    "select_regression",
]


def __getattr__(name: str) -> Any:
    """Load `coresift.models` when it is first used: its libraries take seconds to import, and are an extra."""
    if name == "models":
        return import_module("coresift.models")
    raise AttributeError(f"module 'coresift' has no attribute {name!r}")
