"""The random streams of a seed. Each use of randomness has its own stream, so no two share their draws."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What a random stream is for. Results depend on the numbers, so they never change once released."""

    CLUSTERING = 1
    PILOT = 2
    DRAW = 3
    HOLDER = 4
    DIAGNOSIS = 5
    PROBES = 6
    TRAINING = 7
    BASELINES = 8
    COVER = 9
    AUDIT = 10
    GROWTH = 11
    EVALUATION = 12
    COMPONENTS = 13
    STRATA = 14


def generator(seed: int, stream: Stream, *more: int) -> np.random.Generator:
    """Return the generator of a stream; `more` distinguishes rounds, blocks or attempts within it.

    >>> generator(0, Stream.PILOT).random() == generator(0, Stream.DRAW).random()
    False
    """
    return np.random.default_rng([seed, int(stream), *more])
