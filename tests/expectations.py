"""The expected weight of every row of a tiny problem, by running the real flow on every outcome of its draws."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from enumeration import Scripted, samples

import coresift as cs
from coresift import selection
from coresift.progress import Progress
from coresift.recipes.arguments import settle
from coresift.testing import TINY, TINY_LOSSES, Remembered


@cache
def tiny_clustering(k=2, **options):
    """Return the clustering of the seven rows; in two classes, if `strata` says so."""
    return cs.cluster(TINY, k, seed=1, **options)


def expected_weights(monkeypatch, combination, frame, budget, clustering=None):
    """Run the real flow on every outcome of the pilot's draw and of the second draw."""
    pilot_design, design = Scripted(selection.EVEN_DRAW), Scripted(combination["design"])
    monkeypatch.setattr(selection, "EVEN_DRAW", pilot_design)
    options = {**combination, **frame, "design": design, "clusters": clustering or tiny_clustering()}
    job = settle(TINY, budget, 0, asking=True, **options)

    def prepare():
        return selection.prepare(job, None, Progress())

    def finish(draft):
        return selection.finish(draft, TINY_LOSSES[draft.pilot.ids], cs.types.Ledger())

    prepare()
    first_draws = [(None, 1.0)] if pilot_design.seen is None else samples(pilot_design.design, pilot_design.seen)
    total, mass = np.zeros(len(TINY)), 0.0
    for first, chance in first_draws:
        pilot_design.script = first
        draft = prepare()
        draft = replace(draft, job=replace(draft.job, score=Remembered(draft.job.score)))
        design.script = design.seen = None
        certain = finish(draft)
        second_draws = [(None, 1.0)] if design.seen is None else samples(design.design, design.seen)
        for second, further in second_draws:
            design.script = second
            picked = certain if second is None else finish(draft)
            total[picked.ids] += chance * further * picked.weights
            mass += chance * further
    assert mass == pytest.approx(1)
    return total
