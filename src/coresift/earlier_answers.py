"""Expect a new model's results from what is known before its answers are judged: earlier results, and all texts.

Every earlier model takes a turn as the new one. What the other models' results and the texts say about its answers is
one line per item, and a ridge regression over the lines of all models learns what such lines say about results. The
lines of the new model then give its expected results.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coresift.answer_texts import Likeness, Texts
from coresift.kriging import predictions
from coresift.types import Bools, Floats

# How each model was judged; several parts, such as judge and reference, are compared one by one, too.
Kinds = Sequence[tuple[str, ...]]

# A mean of results is shrunk toward the model's mean by a prior worth this many models.
PRIOR_MODELS = 2.0
# The ridge penalty, in lines, and the farthest value in standard deviations.
PENALTY, FARTHEST = 100.0, 4.0


def expected_results(results: Floats, kinds: Kinds | None, texts: Texts | None) -> tuple[Floats, Floats]:
    """Return the expected result of the new model on every item, relative to its unknown mean.

    Args:
        results: One line per item and one column per earlier model; NaN if unknown.
        kinds: How each earlier model was judged, and the new model last.
        texts: The answers of each earlier model, and those of the new model last.

    Returns:
        The expected results, and what remains of the earlier models' results if they are expected in the same way.
    """
    models, known = results.shape[1], np.isfinite(results)
    means = np.array([float(column[mask].mean()) for column, mask in zip(results.T, known.T, strict=True)])
    centered = np.where(known, results - means, 0.0)
    same = [] if kinds is None else _same(kinds)
    others = np.arange(models + 1)[:, None] != np.arange(models)
    # Whose results count for a model: all others, those that were judged in the same way, and those partly so.
    groups = [others, *(others & own[:, :-1] for own in same)]
    means_of_others = [(centered @ own.T) / (known @ own.T.astype(np.float64) + PRIOR_MODELS) for own in groups]
    likeness = None if texts is None else Likeness.of(texts)
    predicted = _predicted(centered, known, same, likeness)
    # Powers, because a probability near 0 or 1 changes less; relative ones, so that they do not overflow.
    predicted = predicted / max(float(np.abs(predicted).max()), 1e-300)
    columns = [*means_of_others, predicted, predicted**2, predicted**3]
    lines = np.stack(columns, axis=-1)
    if likeness is not None:
        lines = np.concatenate([lines, likeness.columns()], axis=-1)
    return _learned(lines, centered, known)


def _predicted(centered: Floats, known: Bools, same: Sequence[Bools], likeness: Likeness | None) -> Floats:
    """Return the best linear predictions from results on the same item, for earlier models and the new one, last."""
    models = centered.shape[1]
    deviations = np.sqrt((centered**2).sum(axis=0) / known.sum(axis=0))
    like_new = same[0][-1, :-1] if same else np.zeros(models, np.bool_)
    standard = centered / np.where(deviations > 0, deviations, 1.0)
    every = np.ones((models + 1, models + 1))
    groups = [every, *(own.astype(np.float64) for own in same)]
    if likeness is not None:
        groups += [own * likeness.styles for own in groups]
    kernels = None if likeness is None else likeness.kernels
    predicted = predictions(standard, known, kernels, np.stack(groups), like_new)
    typical = deviations[like_new] if like_new.any() else deviations
    return np.asarray(predicted * np.append(deviations, np.sqrt(np.mean(typical**2))))


def _learned(lines: Floats, centered: Floats, known: Bools) -> tuple[Floats, Floats]:
    """Regress earlier results on their lines; return what to expect of the new model, and the earlier ones' residuals.

    Args:
        lines: What is known: by item, by model (the new one last), and in columns.
        centered: Earlier results, with mean 0 per model.
        known: Which of them are known.
    """
    # Only differences between a model's own items count; the level of the new model is learned from its answers.
    models = centered.shape[1]
    own = [lines[:, model] - lines[known[:, model], model].mean(axis=0) for model in range(models)]
    pooled = np.concatenate([line[mask] for line, mask in zip(own, known.T, strict=True)])
    scale = np.maximum(pooled.std(axis=0), 1e-12)
    design = np.clip(pooled / scale, -FARTHEST, FARTHEST)
    answers = np.concatenate([column[mask] for column, mask in zip(centered.T, known.T, strict=True)])
    # Unlike a product of matrices, einsum adds up in one order, however many threads linear algebra has.
    normal, right = np.einsum("ij,ik->jk", design, design), np.einsum("ij,i->j", design, answers)
    slopes = np.linalg.solve(normal + PENALTY * np.eye(scale.size), right)
    own.append(lines[:, -1] - lines[:, -1].mean(axis=0))
    fitted = [np.einsum("ij,j->i", np.clip(line / scale, -FARTHEST, FARTHEST), slopes) for line in own]
    return fitted[-1], np.where(known, centered - np.stack(fitted[:-1], axis=1), np.nan)


def _same(kinds: Kinds) -> list[Bools]:
    """Return which models were judged in the same way as each model: in all respects, and in each."""
    parts = [np.array(part)[:, None] == np.array(part) for part in zip(*kinds, strict=True)]
    return [np.logical_and.reduce(parts), *(parts if len(parts) > 1 else [])]
