"""Many selections of one problem, fast: what does not depend on the seed is made once per clustering.

`Stage` holds a clustering, the pilot's plan and the rows' features. `Stage.draw(score, seed)` selects exactly what
`coresift.select` with the same clustering, score and seed selects (a test compares them), some twenty times as fast.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.problems import Problem
from coresift.components import leading_components
from coresift.estimation.learned import Auxiliary, learned_total, summarize
from coresift.inclusion import parts
from coresift.portfolio import Known, mix
from coresift.prediction import feature_columns
from coresift.signal_pilot import InformedRepresentatives
from coresift.signal_table import SignalTable, signal_table
from coresift.types import Evidence, Floats, Frame, Ints, PilotSample, Scores, Singles

DESIGN = cs.designs.Systematic()


@dataclass(frozen=True, eq=False)
class Draw:
    """One selection: ids sorted, with phase, inclusion, share, place in the draw, and weights."""

    ids: Ints
    phase: Ints
    inclusion: Floats
    share: Floats
    place: Ints
    weights: Floats
    least_inclusion: float
    sizes: Floats


class Stage:
    """A problem with one clustering and everything that is fixed before the pilot is drawn."""

    def __init__(
        self, problem: Problem, clustering: cs.Clustering, signals: Any = None, components: Any = None
    ) -> None:
        self.problem, self.clustering = problem, clustering
        self.frame = Frame(clustering.n, np.zeros(0), np.zeros(0))
        self.open_rows = self.frame.open()
        self.signals: SignalTable = signal_table(signals, clustering.n)
        pilot = cs.pilots.Representatives() if signals is None else InformedRepresentatives(self.signals)
        self.plan = pilot.plan(clustering, self.frame, problem.budget)
        columns = self.signals.columns if self.signals.names else None
        self.features = feature_columns(clustering, components, columns)
        labels, k, nothing = clustering.labels, clustering.k, np.zeros(0, np.int64)
        everyone = np.ones(clustering.n)
        self._totals = summarize(self.features, everyone, labels, k, self.plan.share, self.open_rows, nothing)
        self._reachable = self.plan.order[self.plan.inclusion[self.plan.order] > 0]

    def pilot(self, seed: int) -> Ints:
        """The pilot's rows in the order drawn."""
        drawn, _ = DESIGN.draw(self.plan.inclusion[self._reachable], np.random.default_rng([seed, 2]))
        return self._reachable[drawn]

    def known(self, ids: Ints) -> Known:
        """What the portfolio is told."""
        table = self.signals
        names = tuple(name for name, size in zip(table.names, table.sizes, strict=True) if size)
        return Known(
            clustering=self.clustering,
            open_rows=self.open_rows,
            share=self.plan.share,
            features=self.features,
            signals=table.columns[:, table.sizes],
            signal_names=names,
            ids=ids,
            inclusion=self.plan.inclusion[ids],
            losses=self.problem.losses[ids],
        )

    def portfolio(self, seed: int) -> Draw:
        """A selection by the portfolio."""
        ids = self.pilot(seed)
        mixed = mix(self.known(ids))
        return self._second(ids, mixed.sizes, mixed.order, seed)

    def scored(self, score: Any, seed: int) -> Draw:
        """A selection by any score; without a pilot if it does not ask."""
        ids = self.pilot(seed) if score.needs.pilot else np.zeros(0, np.int64)
        evidence = Evidence(self.clustering, self.frame, PilotSample(ids, self.plan), self.problem.losses[ids])
        found: Scores = score.scores(evidence)
        return self._second(ids, found.sizes, found.order, seed)

    def _second(self, pilot: Ints, sizes: Floats, order: Ints, seed: int) -> Draw:
        share = self.plan.share if pilot.size else np.zeros(self.clustering.n)
        left = self.open_rows.copy()
        left[pilot] = False
        order = order[left[order]]
        inclusion = DESIGN.inclusion(parts(sizes[order] * (1 - share[order])), self.problem.budget - pilot.size)
        drawn, _ = DESIGN.draw(inclusion, np.random.default_rng([seed, 3]))
        ids = np.concatenate([pilot, order[drawn]])
        sort = np.argsort(ids)
        phase = np.repeat([1, 2], [pilot.size, drawn.size])[sort]
        chance = np.concatenate([self.plan.inclusion[pilot], inclusion[drawn]])[sort]
        place = np.concatenate([np.arange(pilot.size), np.arange(drawn.size)])[sort]
        ids = ids[sort]
        weights = np.where(phase == 1, 1 - share[ids] + share[ids] / chance, (1 - share[ids]) / chance)
        return Draw(ids, phase, chance, share[ids], place, weights, float(inclusion.min()), sizes[ids])

    def auxiliary(self, draw: Draw) -> Auxiliary:
        """What the selection would carry for the learned estimate."""
        return replace(self._totals, features=self.features[draw.ids].astype(np.float64), sizes=draw.sizes)

    def learned(self, draw: Draw) -> tuple[float, Floats]:
        """The learned estimate of the total loss, and the residuals that the second phase is weighted for."""
        values = self.problem.losses[draw.ids]
        clusters = self.clustering.labels[draw.ids]
        found = learned_total(values, draw.phase, clusters, draw.inclusion, draw.share, self.auxiliary(draw))
        return found.total(draw.weights), found.residuals

    def plain(self, draw: Draw) -> float:
        """The weighted total."""
        return float(draw.weights @ self.problem.losses[draw.ids])


def components_of(problem: Problem) -> Singles:
    """The leading components of a problem's rows."""
    return leading_components(problem.rows, engine=cs.engines.Local(threads=1))
