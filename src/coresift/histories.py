"""Use the results of earlier models on the same items as signals for the next model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

import numpy as np

from coresift.checks import named_options, refuse, unusable
from coresift.earlier_answers import ROUNDING, expected_results
from coresift.engine import SINGLE_THREADED
from coresift.progress import Progress, choose
from coresift.spectra import axes_of_wide, wide
from coresift.types import Floats, SignalTable

LARGEST = 1e100
# The most factors, and how many times missing results are imputed from them.
FACTORS = 64
FILLS = 8
# An item's mean is shrunk toward the overall mean, with a prior worth this many models.
PRIOR_MODELS = 2.0
# The scale of an item's ease or expected result. It is large, so it is hardly penalized: the next model's results will
# follow it too.
EXPECTED = 3.0
# The scale of the chance beside an item's ease. It says how uncertain a result is, and corrects means near 0 and 1.
CHANCE = 0.3
# The scale of the chance and of the factors beside an expected result, which leaves them less to say.
BESIDE_EXPECTED = 0.1
# A chance is kept at least this far from 0 and 1.
LEAST_CHANCE = 0.02
# Expected results are called calibrated with at least so many earlier models, and one of the new model's kind.
FEWEST_MODELS = 4
# The least share of a factor's variance that differences between models have.
LEAST_SPREAD = 0.02


@named_options
def history(
    results: Any,
    *,
    kinds: Sequence[Any] | None = None,
    texts: Sequence[Sequence[str | None]] | None = None,
    progress: bool | Progress | None = None,
) -> SignalTable:
    """Return what earlier models' results say about each item: how easy it is, and how items vary together.

    Args:
        results: One line per item and one column per model, such as 1 for right and 0 for wrong; NaN if unknown.
        kinds: How each earlier model was judged, and how the new one will be, last: a name, or a tuple of names such as
            ("judge", "reference"). Models that were judged in the same way tell most.
        texts: The answers of each earlier model, one per item, and those of the new one last; None if missing. They are
            known before they are judged. They tell how similar answers were judged, and which models write alike.
        progress: Whether to show progress bars; by default, if standard error is a terminal.

    Returns:
        `ease`, an item's mean result; `chance`, the same as a probability, if results are from 0 to 1; and factors, the
        principal components of the results, with missing results imputed. A factor is scaled by the variance of the
        models along it, so a ridge regression shrinks its slope along weak factors, which are mostly noise. With kinds
        or texts, `expected` replaces ease: the new model's result, as learned from the earlier models; being linear, it
        may be below 0 or above 1. The factors are then those of what such expectations leave open. With at least four
        earlier models, one of them of the new one's kind, the chance is marked as calibrated, and `evaluate` trusts it.

    Examples:
        >>> table = history([[1, 1, 0], [0, float("nan"), 0], [1, 0, 1], [1, 1, 1]])
        >>> table.names[:2], len(table)
        (('ease', 'chance'), 4)
        >>> results = 5 * [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]]
        >>> table = history(results, kinds=["short", "long", "short", "long", "short"])
        >>> table.names[0], table.columns[:4, 0].round(1).tolist()
        ('expected', [0.9, 0.1, 1.0, 0.0])
    """
    matrix = _matrix(results)
    observed = np.isfinite(matrix)
    overall = float(matrix[observed].mean())
    counts = observed.sum(axis=1)
    with SINGLE_THREADED:  # several threads would add in another order, so bytes would depend on the number of cores
        if kinds is None and texts is None:
            name, trusted = "ease", False
            expected = (np.where(observed, matrix, 0.0).sum(axis=1) + PRIOR_MODELS * overall) / (counts + PRIOR_MODELS)
            factors, strengths = _factors(matrix, observed, expected)
            chance_scale = CHANCE
        else:
            labels = None if kinds is None else _kinds(kinds, matrix.shape[1])
            # Unlike an item's ease, what is expected of a model was learned by expecting earlier models' results.
            name, trusted = "expected", _trustworthy(matrix.shape[1], labels)
            expected, left = _expected(matrix, labels, texts, choose(progress))
            factors, strengths = _factors(left, observed, np.zeros(len(left)))
            strengths, chance_scale = BESIDE_EXPECTED * strengths, BESIDE_EXPECTED
    columns, names, sizes, scales, calibrated = [expected], [name], [False], [EXPECTED], [False]
    if matrix[observed].min() >= 0 and matrix[observed].max() <= 1:
        columns.append(np.clip(expected, LEAST_CHANCE, 1 - LEAST_CHANCE))
        names.append("chance")
        sizes.append(bool(np.ptp(columns[-1]) > 0))
        scales.append(chance_scale)
        calibrated.append(trusted and sizes[-1])
    for number, (factor, strength) in enumerate(zip(factors.T, strengths, strict=True), start=1):
        columns.append(factor)
        names.append(f"factor {number}")
        sizes.append(False)
        scales.append(float(strength))
        calibrated.append(False)
    marks = np.array(sizes, np.bool_), np.array(scales), np.array(calibrated, np.bool_)
    return SignalTable(tuple(names), np.stack(columns, axis=1), *marks)


def _expected(
    matrix: Floats, labels: list[tuple[str, ...]] | None, texts: Any, progress: Progress
) -> tuple[Floats, Floats]:
    """Return the expected result of the new model, and what such expectations leave open of earlier results."""
    items, models = matrix.shape
    if models < 2:
        refuse("results", "at least two models with kinds or texts, to learn from", f"{models}")
    texts = None if texts is None else _texts(texts, items, models)
    return expected_results(matrix, labels, texts, progress)


def _trustworthy(models: int, labels: list[tuple[str, ...]] | None) -> bool:
    """Return whether there are enough earlier models to trust what they say, and one of the new model's kind."""
    return models >= FEWEST_MODELS and (labels is None or labels[-1] in labels[:-1])


def _kinds(kinds: Any, models: int) -> list[tuple[str, ...]]:
    """Return one tuple of names per model."""
    if not _is_list(kinds):
        refuse("kinds", "a list with the kind of each model, the new model's last", type(kinds).__name__)
    parts = [tuple(kind) if isinstance(kind, list | tuple | np.ndarray) else (kind,) for kind in kinds]
    if len(parts) != models + 1:
        refuse("kinds", f"{models + 1} entries, the new model's last", f"{len(parts)}")
    if len({len(part) for part in parts}) > 1 or not parts[0]:
        refuse("kinds", "names, or tuples of equally many names", "tuples of different lengths")
    for model, part in enumerate(parts):
        if any(name is None or (isinstance(name, float) and np.isnan(name)) for name in part):
            refuse("kinds", "known for every model", f"a missing kind of model {model}")
    return [tuple(map(str, part)) for part in parts]


def _texts(texts: Any, items: int, models: int) -> list[list[str | None]]:
    """Return the answers of each model; None is a missing answer."""
    if not _is_list(texts):
        refuse("texts", "one list of answers per model, the new model's last", type(texts).__name__)
    for model, answers in enumerate(texts):
        if not _is_list(answers):
            refuse("texts", "one list of answers per model", f"{type(answers).__name__} for model {model}")
    lengths = sorted({len(answers) for answers in texts})
    if len(texts) != models + 1 or lengths != [items]:
        allowed = f"{models + 1} lists of {items} answers, one list per model and the new model's last"
        refuse("texts", allowed, f"{len(texts)} lists of {' or '.join(map(str, lengths[:3]))} answers")
    for model, answers in enumerate(texts):
        for item, answer in enumerate(answers):
            if not (answer is None or isinstance(answer, str)):
                refuse("texts", "strings, or None if missing", f"{type(answer).__name__} in texts[{model}][{item}]")
    return [list(answers) for answers in texts]


def _is_list(values: Any) -> bool:
    """Return whether values are in a list, an array or the like: several of them, in an order."""
    return isinstance(values, Collection) and not isinstance(values, str | bytes | Mapping | Set)


def _factors(matrix: Floats, observed: Any, ease: Floats) -> tuple[Floats, Floats]:
    """Return the principal components of the results, and their scales relative to the largest."""
    models = np.array([float(column[mask].mean()) for column, mask in zip(matrix.T, observed.T, strict=True)])
    filled = np.where(observed, matrix, ease[:, None] + models - models.mean())
    count = min(FACTORS, matrix.shape[1], len(matrix) - 1)
    if count == 0:
        return np.zeros((len(matrix), 0)), np.zeros(0)
    for _ in range(FILLS if not observed.all() else 1):
        centers = filled.mean(axis=0)
        if wide(filled):
            variances, directions = axes_of_wide(filled - centers, len(filled))
        else:
            variances, directions = np.linalg.eigh((filled - centers).T @ (filled - centers) / len(filled))
        order = np.argsort(-variances)[:count]
        if not order.size:
            return np.zeros((len(matrix), 0)), np.zeros(0)
        variances, directions = np.maximum(variances[order], 0.0), directions[:, order]
        # Weak factors are mostly noise, so missing results are imputed from the strong ones.
        with np.errstate(over="ignore"):
            shrinkage = np.maximum(1 - np.median(variances) / np.maximum(variances, 1e-300), 0.0)
        imputed = centers + ((filled - centers) @ directions * shrinkage) @ directions.T
        filled = np.where(observed, matrix, imputed)
    largest = directions[np.abs(directions).argmax(axis=0), np.arange(order.size)]
    factors = (filled - centers) @ (directions * np.where(largest < 0, -1.0, 1.0))
    deviations = factors.std(axis=0)
    largest_size = max(float(deviations.max(initial=0.0)), float(np.abs(filled).max()), 1e-300)
    varies = deviations > ROUNDING * largest_size
    # The ease already holds what all models have in common, so a factor is scaled by how much models differ along it:
    # by their variance, not their deviation, because most of a weak factor is noise.
    common = len(directions) * directions.mean(axis=0) ** 2
    counts = deviations**2 * np.maximum(1 - common, LEAST_SPREAD)
    return factors[:, varies], counts[varies] / max(float(counts.max(initial=0.0)), 1e-300)


def _matrix(results: Any) -> Floats:
    if unusable(results):
        refuse("results", "real numbers, one line per item and one column per model", unusable(results))
    try:
        matrix = np.asarray(results, np.float64)
    except (TypeError, ValueError, OverflowError):
        refuse("results", "numbers, one line per item and one column per model", type(results).__name__)
    if matrix.ndim != 2 or np.isinf(matrix).any():
        refuse("results", "finite numbers, one line per item and one column per model", f"shape {matrix.shape}")
    largest = float(np.abs(matrix[np.isfinite(matrix)]).max(initial=0.0))
    if largest > LARGEST:  # products would overflow
        refuse("results", f"numbers of at most {LARGEST:g} in size", f"{largest:g}")
    empty = np.flatnonzero(~np.isfinite(matrix).any(axis=0))
    if empty.size or not matrix.size:
        refuse("results", "at least one result of every model", f"none in column {empty[0] if empty.size else 0}")
    return matrix
