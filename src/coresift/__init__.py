"""Choose which few of many rows to label, train on or evaluate, and say what they tell about all of them."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from coresift.version import __version__ as __version__

if TYPE_CHECKING:
    from coresift import (
        baselines,
        designs,
        engines,
        estimators,
        evaluation,
        models,
        pilots,
        recipes,
        regression,
        scores,
        signals,
        testing,
        theory,
    )
    from coresift.clustering import cluster
    from coresift.comparison import compare_methods
    from coresift.covering import cover
    from coresift.diagnosis import diagnose
    from coresift.errors import CoresiftError, CoresiftWarning, InputError
    from coresift.estimation import estimate
    from coresift.estimation.certificates import certify
    from coresift.evaluation import evaluate
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
    from coresift.types import Clustering, Selection, WeightedSelection

__all__ = [
    "Clustering",
    "CoresiftError",
    "CoresiftWarning",
    "InputError",
    "Oracle",
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
    "evaluate",
    "evaluation",
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

# Where each name is defined. It is imported when it is first used: `import coresift` takes a moment, and the
# command line loads what a verb needs. The block above says the same to type checkers and editors.
_HOMES = {
    "Clustering": "types",
    "CoresiftError": "errors",
    "CoresiftWarning": "errors",
    "InputError": "errors",
    "Oracle": "oracle",
    "Selection": "types",
    "WeightedSelection": "types",
    "active_learning": "learning",
    "certify": "estimation.certificates",
    "cluster": "clustering",
    "compare_methods": "comparison",
    "cover": "covering",
    "diagnose": "diagnosis",
    "estimate": "estimation",
    "evaluate": "evaluation",
    "grow": "growing",
    "load": "storage",
    "open_rows": "rows",
    "plan": "planning",
    "report": "reporting",
    "rounds": "multiround",
    "save": "storage",
    "select": "selection",
    "start": "starting",
}


def __getattr__(name: str) -> Any:
    """Import a public name, or a module of this package, when it is first used."""
    if name in _HOMES:
        value = getattr(import_module(f"coresift.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if not name.startswith("_") and find_spec(f"coresift.{name}") is not None:
        return import_module(f"coresift.{name}")
    raise AttributeError(f"module 'coresift' has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
