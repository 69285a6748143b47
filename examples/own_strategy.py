"""A design, a score and a pilot of your own: about twenty lines each, tested by the same checks as ours.

Run it with `python examples/own_strategy.py`. To use them on the command line and in comparisons, put them into a
package of your own and declare an entry point there:

    [project.entry-points."coresift.strategies"]
    own = "own_strategy"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import coresift as cs
from coresift.inclusion import fixed_size_inclusion
from coresift.testing import check_design, check_pilot, check_score
from coresift.types import Moments, Needs, PilotPlan, Scores
from coresift.variance import independent_rows, within_clusters


@dataclass(frozen=True)
class CoinFlips(cs.designs.Design):
    """Flip a coin for every row."""

    fixed_size: ClassVar[bool] = False
    variance_note: ClassVar[str] = "variance of independent coins"

    def inclusion(self, sizes, count):
        return fixed_size_inclusion(sizes, count)

    def draw(self, inclusion, uniforms):
        drawn = np.flatnonzero(uniforms.random(inclusion.size) < inclusion)
        return drawn, np.ones(drawn.size, np.int64)

    def moments(self, sample) -> Moments:
        return independent_rows(sample)


@dataclass(frozen=True)
class FarFirst(cs.scores.Score):
    """Rows far from their center count `times` as much as the others; no losses are needed."""

    times: float = 3.0

    @property
    def needs(self) -> Needs:
        return Needs(pilot=False, answers=False)

    def scores(self, evidence) -> Scores:
        clustering = evidence.clustering
        far = clustering.distances > np.median(clustering.distances)
        order = np.argsort(clustering.labels, kind="stable")
        return Scores(np.where(far, self.times, 1.0), order)


@dataclass(frozen=True)
class EvenPilot(cs.pilots.Pilot):
    """Draw a random pilot of a `part` of the budget; it carries the same part of every total."""

    part: float = 0.5
    variance_note: ClassVar[str] = "variance inside the clusters for the pilot"

    def size(self, clusters, budget):
        return max(1, round(self.part * budget))

    def plan(self, clustering, frame, budget) -> PilotPlan:
        free = frame.open()
        inclusion = fixed_size_inclusion(free.astype(float), min(self.size(clustering.k, budget), int(free.sum())))
        share = np.where(inclusion > 0, self.part, 0.0)
        return PilotPlan(inclusion, share, np.arange(frame.n), keep=True, origin="pilot")

    def moments(self, sample) -> Moments:
        return within_clusters(sample)


def main() -> None:
    """Check the three strategies, and select with them."""
    check_design(CoinFlips())
    check_score(FarFirst())
    check_pilot(EvenPilot())
    rows = np.random.default_rng(0).normal(size=(2_000, 5))
    losses = np.abs(rows[:, 0])
    picked = cs.select(rows, losses, budget=200, pilot=EvenPilot(), score=cs.scores.Learned(), design=CoinFlips())
    estimate = cs.estimate(picked, losses[picked.ids])
    print(f"total loss {estimate.total} from {len(picked)} rows; truth: {losses.sum():.1f}")


if __name__ == "__main__":
    main()
