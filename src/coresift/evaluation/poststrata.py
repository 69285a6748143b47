"""Groups that become known with the answers: means by group, and an overall mean that uses the sizes of groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError, refuse
from coresift.evaluation.calibration import Calibration
from coresift.evaluation.estimating import Reading, Setup, figure
from coresift.evaluation.metrics import Target
from coresift.evaluation.result import Figure
from coresift.types import Floats

# Groups with fewer answers than this are merged.
FEWEST = 20
OTHERS = "others"


def by_group(setup: Setup, reading: Reading, labels: list[str], sizes: Mapping[Any, int] | None) -> dict[str, Figure]:
    """Return the mean of each group, and under "" the overall mean, post-stratified if group sizes are known.

    A group's mean is a ratio of two totals, since it is unknown which of the other rows are in the group. With known
    sizes the overall mean is Σ N_g·ȳ_g/n, so a group that was drawn too often by chance counts less.

    Args:
        setup: What was evaluated; a mean, rate or accuracy of one model.
        reading: The answers.
        labels: The group of each answered row.
        sizes: The number of rows of each group, if known.
    """
    if reading.columns.shape[1] != 1 or reading.targets[0].gradient.size != 1:
        raise InputError("by_group works with a mean, a rate or the accuracy of one model.")
    names, known = _collapse(labels, sizes)
    sample, values = reading.sample, reading.columns[:, 0]
    population = setup.population
    calibration = Calibration(sample, population.known[sample.ids], population.totals)
    figures, adjusted, linear = {}, 0.0, np.zeros(len(sample))
    for name in sorted(set(names.tolist())):
        member = (names == name).astype(np.float64)
        size = calibration.fit(member).total
        mean = calibration.fit(member * values).total / size
        influence = member * (values - mean)
        figures[name] = _figure(setup, reading, calibration, mean, influence / size)
        if known is not None:
            adjusted += known[name] * mean / setup.context.n
            linear += known[name] / size * influence / setup.context.n
    if known is None:
        return {"": figure(setup, reading, reading.targets[0], len(sample)), **figures}
    return {"": _figure(setup, reading, calibration, adjusted, linear), **figures}


def _figure(setup: Setup, reading: Reading, calibration: Calibration, value: float, linear: Floats) -> Figure:
    target = Target("", float(value), linear, linear, calibration.fit(linear))
    return figure(setup, reading, target, len(reading.sample))


def _collapse(labels: list[str], sizes: Mapping[Any, int] | None) -> tuple[NDArray[Any], dict[str, float] | None]:
    """Merge small groups, and their known sizes."""
    names = np.array(labels, dtype=object)
    counts = {name: int(np.count_nonzero(names == name)) for name in set(labels)}
    small = {name for name, count in counts.items() if count < FEWEST}
    collapsed = np.array([OTHERS if name in small else name for name in labels], dtype=object)
    if sizes is None:
        return collapsed, None
    known = {str(name): float(size) for name, size in sizes.items()}
    missing = sorted(set(labels) - set(known))
    if missing:
        refuse("sizes", f"the number of rows of every group, also of {missing[0]!r}", ", ".join(known))
    totals: dict[str, float] = {}
    for name, size in known.items():
        # A group without an answer belongs to the small ones.
        place = name if name in counts and name not in small else OTHERS
        totals[place] = totals.get(place, 0.0) + size
    if OTHERS in totals and not small:
        largest = max(counts, key=lambda name: counts[name])
        totals[largest] += totals.pop(OTHERS)
    return collapsed, totals
