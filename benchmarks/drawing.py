"""Make many selections from one problem fast: what does not depend on the seed is computed once per clustering.

`Stage` holds a clustering, the pilot's plan and the rows' features. `Stage.select(seed)` selects the same rows as
`coresift.select` with the same clustering and seed, with the same predictions, so `coresift.estimate` gives the same
result. Tests compare the two. It is about twenty times as fast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import coresift as cs
from benchmarks.problems import CACHE, Problem
from coresift.assembly import PhaseDraw, PhasePredictions, weigh
from coresift.columns import Column
from coresift.components import leading_components
from coresift.inclusion import parts
from coresift.portfolio import MixedSizes, PilotFacts, fixed_densities, mix
from coresift.prediction import feature_columns
from coresift.shares import learn
from coresift.signal_table import SignalTable, signal_table
from coresift.streams import Stream, generator
from coresift.types import (
    Evidence,
    Floats,
    Frame,
    Ints,
    Ledger,
    PilotSample,
    Provenance,
    Scores,
    Singles,
    WeightedSelection,
)

DESIGN = cs.designs.Systematic()
NOTHING = np.zeros(0, np.int64)
NOWHERE = Provenance("select", 0, None, {})


class Stage:
    """A problem with one clustering and everything that is fixed before the pilot is drawn."""

    def __init__(
        self, problem: Problem, clustering: cs.Clustering, signals: Any = None, components: Any = None
    ) -> None:
        self.problem, self.clustering = problem, clustering
        self.signals: SignalTable = signal_table(signals, clustering.n)
        self.frame = Frame(clustering.n, signals=self.signals if self.signals.names else None)
        self.pilot = cs.pilots.Informed() if self.signals.names else cs.pilots.Representatives()
        self.plan = self.pilot.plan(clustering, self.frame, problem.budget)
        features = feature_columns(clustering, components, self.signals.columns if self.signals.names else None)
        self.features = _computed(features)
        self.open_rows = self.frame.open()
        self._reachable = self.plan.order[self.plan.inclusion[self.plan.order] > 0]
        fixed = fixed_densities(clustering, self.open_rows, self.signals)
        self._fixed = {name: _computed(density) for name, density in fixed.items()}

    def select(self, seed: int) -> WeightedSelection:
        """Return the selection that `coresift.select` makes with this seed."""
        ids = self.asked(seed)
        return self._selection(ids, mix(self.known(ids)), seed)

    def scored(self, score: Any, seed: int) -> WeightedSelection:
        """Return a selection by another score, without a pilot if the score needs none."""
        ids = self.asked(seed) if score.needs.pilot else NOTHING
        evidence = Evidence(self.clustering, self.frame, PilotSample(ids, self.plan), self.problem.losses[ids])
        return self._selection(ids, score.scores(evidence), seed)

    def asked(self, seed: int) -> Ints:
        """Return the pilot's rows, in the order in which they were drawn."""
        drawn, _ = DESIGN.draw(self.plan.inclusion[self._reachable], generator(seed, Stream.PILOT))
        return self._reachable[drawn]

    def known(self, ids: Ints) -> PilotFacts:
        """Return the input of the portfolio."""
        return PilotFacts(
            clustering=self.clustering,
            open_rows=self.open_rows,
            share=self.plan.share,
            features=self.features,
            fixed=self._fixed,
            ids=ids,
            inclusion=self.plan.inclusion[ids],
            losses=self.problem.losses[ids],
        )

    def _selection(self, pilot: Ints, scores: Scores | MixedSizes, seed: int) -> WeightedSelection:
        share = self.plan.share if pilot.size else np.zeros(self.clustering.n)
        left = self.open_rows.copy()
        left[pilot] = False
        order = scores.order[left[scores.order]]
        sizes = parts(scores.sizes[order] * (1 - share[order]))
        inclusion = DESIGN.inclusion(sizes, self.problem.budget - pilot.size)
        drawn, multiplicity = DESIGN.draw(inclusion, generator(seed, Stream.DRAW))
        second = PhaseDraw(order[drawn], inclusion[drawn], multiplicity, DESIGN)
        predicted = PhasePredictions.of(scores, pilot, np.where(left, 1 - share, 0.0), share)
        if predicted is not None and scores.left_out is not None:
            sample = PilotSample(pilot, self.plan)
            learned = learn(self.clustering, sample, scores, second.ids, second.inclusion)
            predicted = predicted.with_learned(learned)
        return self._assembled(pilot, second, share, float(inclusion.min()), predicted, seed)

    def _assembled(
        self, pilot: Ints, second: PhaseDraw, share: Floats, least: float, predicted: PhasePredictions | None, seed: int
    ) -> WeightedSelection:
        ids = np.concatenate([pilot, second.ids])
        sort, sizes = np.argsort(ids, kind="stable"), (pilot.size, second.ids.size)
        ids, phase = ids[sort], np.repeat([1, 2], sizes)[sort]
        chance = np.concatenate([self.plan.inclusion[pilot], second.inclusion])[sort]
        once = np.ones(ids.size, np.int64)
        return WeightedSelection(
            ids=ids,
            weights=weigh(phase, chance, share[ids], once),
            inclusion=chance,
            share=share[ids],
            clusters=self.clustering.labels[ids],
            distances=self.clustering.distances[ids],
            origin=np.where(phase == 1, cs.types.ORIGINS.index("pilot"), cs.types.ORIGINS.index("drawn")),
            phase=phase,
            order=np.concatenate([np.arange(size) for size in sizes])[sort],
            multiplicity=once,
            losses=np.full(ids.size, np.nan),
            n=self.clustering.n,
            population=self.clustering.n,
            seed=seed,
            z=self.clustering.z,
            phases=(self.pilot if pilot.size else None, DESIGN),
            provenance=NOWHERE,
            ledger=Ledger(),
            least_inclusion=least,
            **({} if predicted is None else predicted.fields(ids)),
        )


def _computed(column: Column[Any]) -> Column[Any]:
    """Return a column that is computed once instead of in every draw."""
    return Column(column.n, column[:].__getitem__)


def components_of(problem: Problem) -> Singles:
    """Return the leading components of a problem's rows, which are stored for later runs."""
    path = CACHE / "components" / f"{problem.name}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, leading_components(problem.rows, engine=cs.engines.Local(threads=1)))
    return np.load(path)
