"""The inner loops of clustering: compiled ones, if the package was built with a C compiler, or else those in numpy.

`kernels.c` and `products.c` have the compiled loops, and `plain` has the same in numpy, several times slower. Each
rounds in its own order, so results can differ in the last digits between an installation with compiled loops and one
without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coresift.clustering import compiled, plain

if TYPE_CHECKING or compiled.LIBRARY is None:
    from coresift.clustering.plain import (
        add_rows,
        add_scores,
        follow_lists,
        nearest_of,
        pick_few,
        score_listed,
    )
else:
    from coresift.clustering.compiled import (
        add_rows,
        add_scores,
        follow_lists,
        nearest_of,
        pick_few,
        score_listed,
    )

__all__ = [
    "COMPILED",
    "add_rows",
    "add_scores",
    "compiled",
    "follow_lists",
    "nearest_of",
    "pick_few",
    "plain",
    "score_listed",
]

COMPILED = compiled.LIBRARY is not None
