"""Choose which few of many rows to label, train on or evaluate, and say what they tell about all of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from coresift import (
    baselines,
    designs,
    engines,
    estimators,
    pilots,
    recipes,
    regression,
    scores,
    signals,
    testing,
    theory,
)
from coresift.checks import CoresiftError, CoresiftWarning, InputError
from coresift.clustering import cluster
from coresift.comparison import compare_methods
from coresift.covering import cover
from coresift.diagnosis import diagnose
from coresift.estimation import estimate
from coresift.estimation.certificates import certify
from coresift.growing import grow
from coresift.learning import active_learning
from coresift.multiround import rounds
from coresift.oracle import Oracle
from coresift.planning import plan
from coresift.reporting import report
from coresift.rows import open_rows
from coresift.selection import select
from coresift.starting import start
from coresift.storage import load, save
from coresift.types import Clustering, Recipe, Selection, WeightedSelection
from coresift.version import __version__ as __version__

if TYPE_CHECKING:
    from coresift import models as models

__all__ = [
    "Clustering",
    "CoresiftError",
    "CoresiftWarning",
    "InputError",
    "Oracle",
    "Recipe",
    "Selection",
    "WeightedSelection",
    "active_learning",
    "baselines",
    "certify",
    "cluster",
    "compare_methods",
    "cover",
    "designs",
    "diagnose",
    "engines",
    "estimate",
    "estimators",
    "grow",
    "load",
    "models",
    "open_rows",
    "pilots",
    "plan",
    "recipes",
    "regression",
    "report",
    "rounds",
    "save",
    "scores",
    "select",
    "signals",
    "start",
    "testing",
    "theory",
]


def __getattr__(name: str) -> Any:
    """Load `coresift.models` when it is first used: its libraries take seconds to import, and are an extra."""
    if name == "models":
        return import_module("coresift.models")
    raise AttributeError(f"module 'coresift' has no attribute {name!r}")
