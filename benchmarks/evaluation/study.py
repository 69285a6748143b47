"""Runs of all methods on all populations at the same number of answers, kept so that a study can be continued."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coresift as cs
from benchmarks.evaluation.peers import Peer, peers
from benchmarks.evaluation.populations import Population, names, population
from benchmarks.features import cache_folder

Floats = NDArray[np.float64]
OURS = "coresift"
BUDGETS = (300, 1_000)
SEEDS = 1_000
# So many seeds are run before they are kept and the next case has its turn.
CHUNK = 100
# Raise it when our method changes, so that earlier runs are not mixed with later ones.
VERSION = 1


def ours(given: Population, budget: int, seeds: Iterable[int]) -> Floats:
    """The library's own evaluation, as a user would call it."""
    found = []
    for seed in seeds:
        metric = "rate" if given.binary else "mean"
        result = cs.evaluate(
            values=given.values, signals=given.signals, budget=budget, metric=metric, seed=seed
        ).complete()
        assert result.asked <= budget
        found.append((result.value, result.low, result.high))
    return np.array(found)


def methods() -> dict[str, Peer]:
    """All methods by name, ours first."""
    return {OURS: ours, **peers()}


def run(seeds: int, some: list[str], which: list[str]) -> Iterator[str]:
    """Run what is missing, a chunk of seeds everywhere before the next chunk."""
    known = methods()
    for end in range(CHUNK, seeds + CHUNK, CHUNK):
        for name in some:
            for budget in budgets(population(name)):
                for method in which:
                    if extend(path_of(name, budget, method), min(end, seeds), _call(known[method], name, budget)):
                        yield f"{name} {budget} {method}: {min(end, seeds)} seeds"


def extend(path: Path, seeds: int, call: Callable[[range], Floats]) -> bool:
    """Add runs to a file until it has one line per seed; returns whether any were missing."""
    done = read(path)
    if len(done) >= seeds:
        return False
    more = call(range(len(done), seeds))
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".part.npy")
    np.save(aside, np.concatenate([done, more]) if len(done) else more, allow_pickle=False)
    aside.replace(path)
    return True


def read(path: Path) -> Floats:
    """Read the runs so far, one line per seed."""
    return np.load(path, allow_pickle=False) if path.exists() else np.zeros((0, 3))


def path_of(name: str, budget: int, method: str) -> Path:
    """Where one method's runs on one population are kept; a population that changed is another one."""
    print_of = hashlib.sha256(population(name).values.tobytes()).hexdigest()[:8]
    version = f"-{VERSION}" if method == OURS else ""
    return runs_folder() / "means" / f"{name}-{print_of}-{budget}-{method}{version}.npy".replace(" ", "_")


def runs_folder() -> Path:
    """Where single runs are kept: never in the repository."""
    return cache_folder() / "evaluation" / "runs"


def budgets(given: Population) -> list[int]:
    """The numbers of answers that are tried: at most half of the rows."""
    return [budget for budget in BUDGETS if budget <= given.values.size / 2]


def summary() -> list[dict[str, Any]]:
    """All measures of all cases that every method has runs of."""
    found = []
    for name in names():
        given = population(name)
        for budget in budgets(given):
            runs = {method: read(path_of(name, budget, method)) for method in methods()}
            least = min(map(len, runs.values()))
            if least:
                found.append(_case(given, budget, {method: kept[:least] for method, kept in runs.items()}))
    return found


def _case(given: Population, budget: int, runs: dict[str, Floats]) -> dict[str, Any]:
    case = {"population": given.name, "role": given.role, "rows": given.values.size, "answers": budget}
    case |= {"truth": given.truth, "seeds": len(next(iter(runs.values()))), "methods": {}}
    flat = measures(runs["uniform"], given.truth)
    for method, kept in runs.items():
        own = measures(kept, given.truth)
        own["effective_sample_size"] = (flat["rmse"] / own["rmse"]) ** 2
        own["width_over_uniform"] = own["width"] / flat["width"]
        case["methods"][method] = own
    return case


def measures(runs: Floats, truth: float) -> dict[str, float]:
    """RMSE, mean width and coverage."""
    value, low, high = runs.T
    return {
        "rmse": float(np.sqrt(np.mean((value - truth) ** 2))),
        "bias": float(np.mean(value) - truth),
        "width": float(np.mean(high - low)),
        "coverage": float(np.mean((low <= truth) & (truth <= high))),
    }


def _call(method: Peer, name: str, budget: int) -> Callable[[range], Floats]:
    return lambda seeds: method(population(name), budget, seeds)
