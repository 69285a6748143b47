"""Every outcome of a design with its probability, by enumerating the uniform numbers that the real code consumes.

A design maps uniform numbers to a sample, and the map is constant on boxes. One point of each box with the box's
volume gives the exact distribution of the real code. Boxes with the same sample are merged, so what comes after the
draw runs once per sample.
"""

from __future__ import annotations

import itertools

import numpy as np

from coresift.designs import Independent, Pivotal, Poisson, Systematic
from coresift.types import Design


class Script:
    """Uniform numbers that were decided beforehand."""

    def __init__(self, numbers):
        self.numbers = np.asarray(numbers, float)

    def random(self, size):
        assert size == self.numbers.size
        return self.numbers


class _Scripted(Design):
    """A design that draws from a script, and remembers the inclusion probabilities that it was given."""

    def __init__(self, design):
        self.design, self.script, self.seen = design, None, None
        for name in ("distinct", "fixed_size", "independent"):
            setattr(self, name, getattr(design, name))

    def record(self):
        return self.design.record()

    def moments(self, sample):
        return self.design.moments(sample)

    def inclusion(self, sizes, count):
        return self.design.inclusion(sizes, count)

    def draw(self, inclusion, uniforms):
        self.seen = inclusion
        return self.design.draw(inclusion, uniforms if self.script is None else self.script)

    def __repr__(self):
        return repr(self.design)


Scripted = _Scripted


def samples(design, inclusion):
    """Return (uniform numbers, probability) for every sample: those of one of its boxes, and the volume of them all."""
    scripts, chances = {}, {}
    for script, volume in _boxes(design, inclusion):
        key = _sample(design, inclusion, script)
        scripts.setdefault(key, script)
        chances[key] = chances.get(key, 0.0) + volume
    return [(scripts[key], chances[key]) for key in scripts]


def distribution(design, inclusion):
    """Return the probability of every sample, as a dict of {(position, count)}."""
    return {_sample(design, inclusion, script): probability for script, probability in samples(design, inclusion)}


def _sample(design, inclusion, script):
    positions, counts = design.draw(np.asarray(inclusion, float), script)
    return frozenset(zip(positions.tolist(), counts.tolist(), strict=True))


def _boxes(design, inclusion):
    axes = [_pieces(cuts) for cuts in _axes(design, np.asarray(inclusion, float))]
    for combination in itertools.product(*axes):
        yield Script([middle for middle, _ in combination]), float(np.prod([width for _, width in combination]))


def _axes(design, inclusion):
    rest = inclusion[(inclusion > 0) & (inclusion < 1 - 1e-9)]
    ends = np.cumsum(rest)
    count = round(ends[-1]) if rest.size else 0
    if isinstance(design, Independent):
        return [np.cumsum(inclusion) / inclusion.sum()] * round(inclusion.sum())
    if isinstance(design, Poisson):
        return [[p] for p in inclusion]
    if isinstance(design, Systematic):
        return [ends % 1]
    assert isinstance(design, Pivotal)
    places, tosses = [], []
    # As the design does, to the last digit: a sum that ends at a border may fall on either side of it.
    ends = ends * (count / ends[-1]) if rest.size else ends
    for step in range(count):
        crossing = min(int(np.searchsorted(ends, step + 1)), rest.size - 1)
        filled = 1.0 if step == count - 1 else (ends[crossing - 1] if crossing else 0.0) - step
        places.append((ends - step) / filled if filled > 0 else [])
        tosses.append([(1 - rest[crossing]) / (2 - filled - rest[crossing])])
    return places + tosses


def _pieces(cuts):
    inside = sorted({0.0, 1.0, *(float(cut) for cut in cuts if 1e-12 < cut < 1 - 1e-12)})
    return [((low + high) / 2, high - low) for low, high in itertools.pairwise(inside)]
