"""Runs of all methods on all populations at the same number of answers, kept so that a study can be continued.

Every population has a file in `benchmarks/results/evaluation/`: what the report needs to know of it, and one line per
seed (estimate, low, high) for each method and number of answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import coresift as cs
from benchmarks.evaluation.peers import Peer, peers
from benchmarks.evaluation.populations import Population, population

Floats = NDArray[np.float64]
RESULTS = Path(__file__).resolve().parent.parent / "results" / "evaluation"
OURS, OURS_UNIFORM = "coresift", "coresift, uniform rows"
BUDGETS = (300, 1_000)
SEEDS = 1_000
# So many seeds are run before they are kept and the next case has its turn.
CHUNK = 100
# Raise it when our method changes, so that earlier runs are not mixed with later ones. The report shows the version
# with the most runs.
VERSION = 4


@dataclass(frozen=True)
class Runs:
    """All runs on one population, by number of answers, method and version of it; one line per seed.

    `spread` is the variance S² of its answers, which tells exactly how far uniform rows are off.
    """

    name: str
    role: str
    rows: int
    truth: float
    spread: float
    digest: str
    lines: dict[tuple[int, str, int], Floats]

    def most(self, budget: int, method: str) -> tuple[Floats, int]:
        """The runs of a method in the version that has most of them, and that version; 0 for methods of others."""
        own = [key for key in self.lines if key[:2] == (budget, method)]
        best = max(own, key=lambda key: (len(self.lines[key]), key[2]), default=None)
        return (np.zeros((0, 3)), 0) if best is None else (self.lines[best], best[2])

    @classmethod
    def of(cls, given: Population) -> Runs:
        """The runs that are kept of this population; none if its answers have changed since."""
        digest = hashlib.sha256(given.values.tobytes()).hexdigest()[:16]
        path = path_of(given.name)
        kept = read(path) if path.exists() else None
        spread = float(given.values.var(ddof=1))
        if kept is not None and kept.digest == digest:
            return replace(kept, spread=spread)
        return cls(given.name, given.role, given.values.size, given.truth, spread, digest, {})

    def uniform_error(self, budget: int) -> float:
        """The RMSE of the mean of so many uniform rows without replacement: √(S²/m·(1 − m/n))."""
        return float(np.sqrt(self.spread * (1 / budget - 1 / self.rows)))

    def write(self) -> None:
        """Keep the runs in the repository: deviations from the truth, to eleven bits."""
        path = path_of(self.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".part.npz")
        facts = {"name": self.name, "role": self.role, "digest": self.digest}
        known = {"rows": np.array(self.rows), "truth": np.array(self.truth), "spread": np.array(self.spread)}
        known |= {key: np.array(text) for key, text in facts.items()}
        runs = {
            f"{budget}/{method}" + (f" v{version}" if version else ""): (kept - self.truth).astype(np.float16)
            for (budget, method, version), kept in self.lines.items()
        }
        np.savez_compressed(aside, allow_pickle=False, **known, **runs)
        aside.replace(path)


def ours(given: Population, budget: int, seeds: Iterable[int]) -> Floats:
    """The library's own evaluation, as a user would call it."""
    return np.array([_evaluated(given, budget, seed, signals=given.signals) for seed in seeds])


def ours_uniform(given: Population, budget: int, seeds: Iterable[int]) -> Floats:
    """The same without anything known of the rows, which are then equally likely: the same interval's plain width."""
    return np.array([_evaluated(given, budget, seed, n=given.values.size) for seed in seeds])


def _evaluated(given: Population, budget: int, seed: int, **known: object) -> tuple[float, float, float]:
    metric = "rate" if given.binary else "mean"
    result = cs.evaluate(values=given.values, budget=budget, metric=metric, seed=seed, **known).complete()
    assert result.asked <= budget
    return result.value, result.low, result.high


def methods() -> dict[str, Peer]:
    """All methods by name, ours first."""
    return {OURS: ours, OURS_UNIFORM: ours_uniform, **peers()}


def run(seeds: int, some: list[str], which: list[str]) -> Iterator[str]:
    """Run what is missing, a chunk of seeds everywhere before the next chunk."""
    known = methods()
    for end in range(CHUNK, seeds + CHUNK, CHUNK):
        for name in some:
            given = population(name)
            for budget in budgets(given):
                for method in which:
                    if extend(given, budget, method, known[method], min(end, seeds)):
                        yield f"{name} {budget} {method}: {min(end, seeds)} seeds"


def extend(given: Population, budget: int, method: str, call: Peer, seeds: int) -> bool:
    """Run a method until it has one line per seed; returns whether any were missing."""
    kept, key = Runs.of(given), (budget, method, VERSION if method in (OURS, OURS_UNIFORM) else 0)
    done = kept.lines.get(key, np.zeros((0, 3)))
    if len(done) >= seeds:
        return False
    more = np.concatenate([done, call(given, budget, range(len(done), seeds))])
    replace(kept, lines=kept.lines | {key: more}).write()
    return True


def read(path: Path) -> Runs:
    """Read the runs of one population."""
    with np.load(path, allow_pickle=False) as file:
        facts = {key: str(file[key]) for key in ("name", "role", "digest")}
        truth, found = float(file["truth"]), {}
        for label in file.files:
            budget, _, method = label.partition("/")
            name, _, version = method.partition(" v")
            if method:
                found[int(budget), name, int(version or 0)] = truth + file[label].astype(np.float64)
        return Runs(**facts, rows=int(file["rows"]), truth=truth, spread=float(file["spread"]), lines=found)


def path_of(name: str) -> Path:
    """Where the runs on a population are kept."""
    return RESULTS / f"runs-{name.replace(' ', '-')}.npz"


def budgets(given: Population) -> list[int]:
    """The numbers of answers that are tried: at most half of the rows."""
    return [budget for budget in BUDGETS if budget <= given.values.size / 2]
