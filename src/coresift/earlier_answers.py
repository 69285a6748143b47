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
from coresift.latents import latents
from coresift.types import Bools, Floats

# How each model was judged; several parts, such as judge and reference, are compared one by one, too.
Kinds = Sequence[tuple[str, ...]]

# A mean of results is shrunk toward the model's mean by a prior worth this many models.
PRIOR_MODELS = 2.0
# The ridge penalty, in lines, and the farthest value in standard deviations.
PENALTY, FARTHEST = 100.0, 4.0
# With more models, latent numbers take too long, and the linear prediction is enough.
MOST_MODELS = 200
# The most extreme probit of a chance, and the farthest mean of a latent number, in deviations.
MOST_ODDS, MOST_SHIFT = 4.0, 6.0


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
    predicted = _predicted(results, centered, known, same, likeness)
    lines = np.stack([*means_of_others, *predicted], axis=-1)
    if likeness is not None:
        lines = np.concatenate([lines, likeness.columns()], axis=-1)
    return _learned(lines, centered, known)


def _predicted(
    results: Floats, centered: Floats, known: Bools, same: Sequence[Bools], likeness: Likeness | None
) -> list[Floats]:
    """Return columns of predictions from results on the same item, for earlier models and the new one, last."""
    models = centered.shape[1]
    deviations = np.sqrt((centered**2).sum(axis=0) / known.sum(axis=0))
    like_new = same[0][-1, :-1] if same else np.zeros(models, np.bool_)
    standard = centered / np.where(deviations > 0, deviations, 1.0)
    every = np.ones((models + 1, models + 1))
    groups = [every, *(own.astype(np.float64) for own in same)]
    if likeness is not None:
        groups += [own * likeness.styles for own in groups]
    alike, kernels = np.stack(groups), None if likeness is None else likeness.kernels
    linear = predictions(standard, known, kernels, alike, like_new)
    typical = deviations[like_new] if like_new.any() else deviations
    columns = _powers(linear * np.append(deviations, np.sqrt(np.mean(typical**2))))
    if models <= MOST_MODELS and np.isin(results[known], (0.0, 1.0)).all():
        latent = latents(np.where(known, results, 0.0), known, kernels, alike, like_new)
        rates = results.mean(axis=0, where=known)
        level = (rates[like_new] if like_new.any() else rates).mean()
        columns += _powers(latent.chances - np.append(rates, level))
        shifts = latent.mean / np.sqrt(np.median(latent.variance))
        columns += [np.clip(latent.odds, -MOST_ODDS, MOST_ODDS), np.clip(shifts, -MOST_SHIFT, MOST_SHIFT)]
    return columns


def _powers(predicted: Floats) -> list[Floats]:
    """Return powers, because a probability near 0 or 1 changes less; relative ones, so that they do not overflow."""
    relative = predicted / max(float(np.abs(predicted).max()), 1e-300)
    return [relative, relative**2, relative**3]


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
