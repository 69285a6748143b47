"""One table of strategies drives the tests that hold for all of them: a new one is tested from birth."""

from __future__ import annotations

import itertools

import numpy as np

from coresift.designs import Independent, Pivotal, Poisson, Systematic
from coresift.pilots import Centers, Representatives
from coresift.scores import Distance, Learned, Mixture, Portfolio, Proxy, Sensitivity

DESIGNS = [Independent(), Systematic(), Pivotal(), Poisson()]
PILOTS = [Centers(keep=False), Centers(keep=True), Representatives()]


def scores(n):
    """Every score; the proxy's losses are for n rows and include zeros."""
    return [
        Sensitivity(holder=0.3),
        Sensitivity(holder="free"),
        Learned(),
        Mixture(),
        Distance(),
        Portfolio(),
        Proxy(np.random.default_rng(5).exponential(size=n).round(1)),
    ]


def combinations(n):
    """Every sensible choice of pilot, score and design; scores that ask nobody go without a pilot too."""
    for score in scores(n):
        for pilot in PILOTS if score.needs.pilot else [None, *PILOTS]:
            for design in DESIGNS:
                yield {"pilot": pilot, "score": score, "design": design}


def pairwise(n):
    """So few of the combinations that any two parts which can meet do meet: for what does not depend on all three."""
    whole = [(one, pairs(one)) for one in combinations(n)]
    missing = {pair for _, own in whole for pair in own}
    while missing:
        best, own = max(whole, key=lambda one: len(missing.intersection(one[1])))
        missing.difference_update(own)
        yield best


def pairs(combination):
    """Return the pairs of parts of a combination, by how they show."""
    return list(itertools.combinations([f"{kind} {part!r}" for kind, part in combination.items()], 2))


def show(combination):
    names = [type(part).__name__ for part in combination.values() if part is not None]
    word = "-free" if getattr(combination["score"], "holder", None) == "free" else ""
    kept = "-kept" if getattr(combination["pilot"], "keep", False) else ""
    return "-".join(names) + word + kept
