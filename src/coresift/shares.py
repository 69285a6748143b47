"""How an estimate divides each row's total between the pilot and the draw, once the pilot's answers are known.

A selection's weights use shares α that are fixed before the pilot, so that they are exactly unbiased. The pilot's
answers then change the draw: a row that it finds important is drawn with a high probability π₂, and the pilot should
estimate less of its total. If a row could be drawn by either phase with probabilities π₁ and π₂, and nothing but its
own value mattered, the best share would be

    b = π₁·(1 − π₂)/(π₁ + π₂ − π₁·π₂),

which gives a row drawn by either phase the weight 1/(probability that one of them draws it), known as the balance
heuristic (Veach and Guibas 1995). But π₂ depends on the pilot's answers. A pilot row with a large value raises its own
π₂ and so lowers its own weight, and the total is too small. Two rules prevent that:

- A pilot row's π₂ and prediction are computed without its own answer.
- A drawn row's π₂ and prediction are computed without the answer of one of its cluster's pilot rows, and the mean over
  these rows is used. So both kinds of rows know equally many answers of their cluster, and a row's expected share
  does not depend on whether the pilot drew it.

The second rule matters for small clusters: a cluster with a single pilot row is unknown to that row, but known to all
others. What a row tells about other clusters is ignored, so a small bias remains; the benchmark of estimates measures
it. The share used is the geometric mean of α and b, since b is itself an estimate from few answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.types import Clustering, Floats, Ints, PilotSample, Scores, Value

# The factor from sizes to probabilities if all drawn rows are certain; it is finite, so that a size of 0 stays 0.
CERTAIN = 1e30


def balanced_share(first: Floats, second: Floats) -> Floats:
    """Return b, the first phase's share under the balance heuristic; 0 if no phase can draw the row.

    Examples:
        >>> balanced_share(np.array([0.2, 0.2, 0.0]), np.array([0.2, 1.0, 0.0])).round(3).tolist()
        [0.444, 0.0, 0.0]
    """
    either = first + second - first * second
    return np.divide(first * (1 - second), either, out=np.zeros_like(either), where=either > 0)


@dataclass(frozen=True, eq=False)
class Learned(Value):
    """For the pilot's rows and then the drawn rows: the share, and a prediction that knows equally many answers."""

    ids: Ints
    shares: Floats
    unseen: Floats


def learn(clustering: Clustering, pilot: PilotSample, scores: Scores, drawn: Ints, inclusion: Floats) -> Learned:
    """Return what an estimate needs to know about each selected row.

    Args:
        clustering: The clusters of the rows.
        pilot: The pilot's rows and their plan, with π₁ and α of every row.
        scores: The scores, with `left_out`.
        drawn: The rows that the second phase drew.
        inclusion: Their inclusion probabilities π₂.
    """
    assert scores.left_out is not None
    scale = _scale(scores.sizes[drawn] * (1 - pilot.plan.share[drawn]), inclusion)

    def share(ids: Ints, sizes: Floats) -> Floats:
        fixed = pilot.plan.share[ids]
        second = np.minimum(scale * sizes * (1 - fixed), 1.0)
        return np.sqrt(fixed * balanced_share(pilot.plan.inclusion[ids], second))

    labels, pilot_labels = (clustering.labels[ids].astype(np.int64) for ids in (drawn, pilot.ids))
    positions, left_out = _pairs(labels, pilot_labels, clustering.k)
    rows = drawn[positions]
    sizes, predictions = scores.left_out.others(rows, np.maximum(left_out, 0))
    sizes = np.where(left_out >= 0, sizes, scores.sizes[rows])
    predictions = np.where(left_out >= 0, predictions, scores.predictions[rows])
    counts = np.maximum(np.bincount(positions, minlength=drawn.size), 1)
    shares, unseen = (
        np.bincount(positions, numbers, drawn.size) / counts for numbers in (share(rows, sizes), predictions)
    )
    return Learned(
        np.concatenate([pilot.ids, drawn]),
        np.concatenate([share(pilot.ids, scores.left_out.sizes), shares]),
        np.concatenate([scores.unseen, unseen]),
    )


def _scale(sizes: Floats, inclusion: Floats) -> float:
    """Return the factor from sizes to inclusion probabilities: the same for all rows that are not certain."""
    uncertain = (inclusion < 1) & (sizes > 0)
    return float(np.median(inclusion[uncertain] / sizes[uncertain])) if uncertain.any() else CERTAIN


def _pairs(labels: Ints, pilot_labels: Ints, clusters: int) -> tuple[Ints, Ints]:
    """Return all pairs of a row and a pilot row of its cluster, as positions; a row without any has one pair with −1.

    Examples:
        >>> _pairs(np.array([1, 0]), np.array([1, 1]), 2)
        (array([0, 0, 1]), array([ 0,  1, -1]))
    """
    order = np.argsort(pilot_labels, kind="stable")
    counts = np.bincount(pilot_labels, minlength=clusters)
    starts = np.cumsum(counts) - counts
    own = counts[labels]
    repeats = np.maximum(own, 1)
    positions = np.repeat(np.arange(labels.size), repeats)
    nth = np.arange(positions.size) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    places = np.minimum(starts[labels[positions]] + nth, max(order.size - 1, 0))
    return positions, np.where(own[positions] > 0, order[places], -1)
