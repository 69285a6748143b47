"""Run all methods on all populations with the same number of answers. Runs are stored, so a study can be continued.

Every population has a file in `benchmarks/results/evaluation/` with what the report needs to know about it, and one row
per seed (estimate, low, high) for each method and number of answers.
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
SEEDS = 2_000
# The number of seeds to run before they are stored and the next case starts.
CHUNK = 100
# Increase this when our method changes, so that runs of different versions are not mixed. The report shows the version
# with the most runs.
VERSIONS = {OURS: 12, OURS_UNIFORM: 8}
BINARY_VERSIONS = {OURS: 14, OURS_UNIFORM: 11}
# Classifiers are fit by linear algebra whose last digits depend on the processor, so a few of 10,000 answers may differ
# between machines (four on fashion-mnist). Runs are kept if the truth moves by less than this part of the error of
# 1,000 uniform rows.
SAME = 0.04


@dataclass(frozen=True)
class Runs:
    """All runs on one population, by number of answers, method and version; one row per seed.

    `spread` is the variance S² of the answers, which gives the exact error of uniform rows.
    """

    name: str
    role: str
    rows: int
    truth: float
    spread: float
    digest: str
    lines: dict[tuple[int, str, int], Floats]

    def most(self, budget: int, method: str) -> tuple[Floats, int]:
        """Return the runs of a method in the version with the most runs, and that version (0 for peers)."""
        keys = [key for key in self.lines if key[:2] == (budget, method)]
        most = max(keys, key=lambda key: (len(self.lines[key]), key[2]), default=None)
        return (np.zeros((0, 3)), 0) if most is None else (self.lines[most], most[2])

    @classmethod
    def of(cls, population: Population) -> Runs:
        """Return the stored runs on this population; none if its answers have changed since then."""
        values, path = population.values, path_of(population.name)
        digest = hashlib.sha256(values.tobytes()).hexdigest()[:16]
        spread = float(values.var(ddof=1))
        runs = cls(population.name, population.role, values.size, population.truth, spread, digest, {})
        stored = read(path) if path.exists() else None
        return runs if stored is None or not runs.resembles(stored) else replace(runs, lines=stored.moved(runs.truth))

    def resembles(self, other: Runs) -> bool:
        """Return whether the other runs are on the same answers, but for a few that depend on the processor."""
        if self.digest == other.digest:
            return True
        moved = abs(self.truth - other.truth) / np.sqrt(self.spread / max(BUDGETS))
        return self.rows == other.rows and moved < SAME and abs(self.spread / other.spread - 1) < SAME

    def moved(self, truth: float) -> dict[tuple[int, str, int], Floats]:
        """Return the runs with the same deviations from another truth."""
        return {key: lines + (truth - self.truth) for key, lines in self.lines.items()}

    def uniform_error(self, budget: int) -> float:
        """Return the RMSE of the mean of `budget` uniform rows without replacement: √(S²/m·(1 − m/n))."""
        return float(np.sqrt(self.spread * (1 / budget - 1 / self.rows)))

    def write(self) -> None:
        """Store the runs as deviations from the truth, to eleven bits, so that the files stay small."""
        path = path_of(self.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".part.npz")
        texts = {"name": self.name, "role": self.role, "digest": self.digest}
        facts = {"rows": np.array(self.rows), "truth": np.array(self.truth), "spread": np.array(self.spread)}
        facts |= {key: np.array(text) for key, text in texts.items()}
        runs = {
            f"{budget}/{method}" + (f" v{version}" if version else ""): (lines - self.truth).astype(np.float16)
            for (budget, method, version), lines in self.lines.items()
        }
        np.savez_compressed(partial, allow_pickle=False, **facts, **runs)
        partial.replace(path)


def ours(rows: Population, budget: int, seeds: Iterable[int]) -> Floats:
    """Run the library's evaluation as a user would call it."""
    return np.array([_evaluate(rows, budget, seed, signals=rows.signals) for seed in seeds])


def ours_uniform(rows: Population, budget: int, seeds: Iterable[int]) -> Floats:
    """Run the library's evaluation without signals, so that all rows are equally likely."""
    return np.array([_evaluate(rows, budget, seed, n=rows.values.size) for seed in seeds])


def _evaluate(rows: Population, budget: int, seed: int, **known: object) -> tuple[float, float, float]:
    metric = "rate" if rows.binary else "mean"
    result = cs.evaluate(values=rows.values, budget=budget, metric=metric, seed=seed, **known).complete()
    assert result.asked <= budget
    return result.value, result.low, result.high


def methods() -> dict[str, Peer]:
    """Return all methods by name, ours first."""
    return {OURS: ours, OURS_UNIFORM: ours_uniform, **peers()}


def run(seeds: int, populations: list[str], method_names: list[str]) -> Iterator[str]:
    """Run what is missing; every case gets a chunk of seeds before any gets the next chunk."""
    calls = methods()
    for end in range(CHUNK, seeds + CHUNK, CHUNK):
        for name in populations:
            rows = population(name)
            for budget in budgets(rows):
                for method in method_names:
                    if extend(rows, budget, method, calls[method], min(end, seeds)):
                        yield f"{name} {budget} {method}: {min(end, seeds)} seeds"


def extend(rows: Population, budget: int, method: str, call: Peer, seeds: int) -> bool:
    """Run a method until it has a run for every seed; return whether any were missing."""
    versions = BINARY_VERSIONS if rows.binary else VERSIONS
    stored, key = Runs.of(rows), (budget, method, versions.get(method, 0))
    done = stored.lines.get(key, np.zeros((0, 3)))
    if len(done) >= seeds:
        return False
    lines = np.concatenate([done, call(rows, budget, range(len(done), seeds))])
    replace(stored, lines=stored.lines | {key: lines}).write()
    return True


def read(path: Path) -> Runs:
    """Read the runs of one population."""
    with np.load(path, allow_pickle=False) as file:
        facts = {key: str(file[key]) for key in ("name", "role", "digest")}
        truth, lines = float(file["truth"]), {}
        for label in file.files:
            budget, _, method = label.partition("/")
            name, _, version = method.partition(" v")
            if method:
                lines[int(budget), name, int(version or 0)] = truth + file[label].astype(np.float64)
        return Runs(**facts, rows=int(file["rows"]), truth=truth, spread=float(file["spread"]), lines=lines)


def path_of(name: str) -> Path:
    """Return the file of the runs on a population."""
    return RESULTS / f"runs-{name.replace(' ', '-')}.npz"


def budgets(rows: Population) -> list[int]:
    """Return the numbers of answers to try, each at most half of the rows."""
    return [budget for budget in BUDGETS if budget <= rows.values.size / 2]
