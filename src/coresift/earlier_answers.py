"""Expect a new model's results from what is known before its answers are judged: earlier results, and all texts.

Every earlier model takes a turn as the new one. What the other models' results and the texts say about its answers is
one line per item, and a ridge regression over the lines of all models learns what such lines say about results. The
lines of the new model then give its expected results. Lines that are alike share results beyond what is linear in
them: a Gaussian kernel around a few of the lines adds columns. How good the new model is overall is predicted from the
earlier models that are judged and write like it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coresift.answer_texts import Likeness, Texts
from coresift.kriging import predictions
from coresift.progress import Progress
from coresift.types import Bools, Floats, Ints, Value

# How each model was judged; several parts, such as judge and reference, are compared one by one, too.
Kinds = Sequence[tuple[str, ...]]

# A mean of results is shrunk toward the model's mean by a prior worth this many models.
PRIOR_MODELS = 2.0
# The ridge penalties, in lines: of columns, and of what is learned from lines that are alike.
PENALTY, ALIKE_PENALTY = 100.0, 20.0
# A model's mean counts for the new one's level if it has at least this part of the results of the most complete model.
ENOUGH_RESULTS = 0.25
# The farthest value in standard deviations.
FARTHEST = 4.0
# Lines are compared with so many of them. Their likeness is e^(−d²/(2·reach·columns)), for a distance d.
CENTERS, REACH = 250, 2.0
# Results that differ from their mean by no more than this part of it are equal.
ROUNDING = 1e-9
# Added to the likeness of each of them with itself, so that rounding cannot make the matrix singular.
TINY = 1e-6


def expected_results(
    results: Floats, kinds: Kinds | None, texts: Texts | None, progress: Progress
) -> tuple[Floats, Floats]:
    """Return the expected result of the new model on every item.

    Args:
        results: One line per item and one column per earlier model; NaN if unknown.
        kinds: How each earlier model was judged, and the new model last.
        texts: The answers of each earlier model, and those of the new model last.
        progress: Counts steps of learning, and items.

    Returns:
        The expected results, and what remains of the earlier models' results if they are expected in the same way.
    """
    models, known = results.shape[1], np.isfinite(results)
    means = np.array([float(column[mask].mean()) for column, mask in zip(results.T, known.T, strict=True)])
    centered = np.where(known, results - means, 0.0)
    centered[:, np.abs(centered).max(axis=0) <= ROUNDING * np.abs(means)] = 0.0
    same = [] if kinds is None else _same(kinds)
    others = np.arange(models + 1)[:, None] != np.arange(models)
    # Whose results count for a model: all others, those that were judged in the same way, and those partly so.
    sources = [others, *(others & own[:, :-1] for own in same)]
    means_of_others = [(centered @ own.T) / (known @ own.T.astype(np.float64) + PRIOR_MODELS) for own in sources]
    likeness = None if texts is None else Likeness.of(texts)
    groups = _alike_models(models + 1, same, likeness)
    like_new = same[0][-1, :-1] if same else np.zeros(models, np.bool_)
    predicted, doubt = _predicted(centered, known, groups, like_new, likeness, progress)
    basics = np.stack([predicted, np.log(doubt), *means_of_others], axis=-1)
    # Powers, because a probability near 0 or 1 changes less.
    bends = [predicted**2, predicted**3, predicted / np.sqrt(doubt)]
    if likeness is not None:
        columns = likeness.columns()
        basics = np.concatenate([basics, columns], axis=-1)
        bends.append(columns[..., 1] ** 2)
    expected, left = _learned(basics, np.stack(bends, axis=-1), centered, known)
    return _level(means, known.sum(axis=0), groups) + expected, left


def _alike_models(models: int, same: Sequence[Bools], likeness: Likeness | None) -> Floats:
    """Return how alike models are: all of them, those judged in the same way, and both times how alike they write."""
    groups = [np.ones((models, models)), *(own.astype(np.float64) for own in same)]
    if likeness is not None:
        groups += [own * likeness.styles for own in groups]
    return np.stack(groups)


def _level(means: Floats, counts: Ints, groups: Floats) -> float:
    """Return the expected mean of the new model's results, from the means of models that are like it.

    Args:
        means: The mean of each earlier model's results.
        counts: How many results it has.
        groups: How alike models are, the new one last.
    """
    enough = counts >= ENOUGH_RESULTS * counts.max()
    means, with_new = means[enough], np.append(enough, True)
    groups = groups[:, with_new][:, :, with_new]
    middle, spread = float(means.mean()), float(means.std())
    if not spread > ROUNDING * float(np.abs(means).max()):
        return middle
    standard = (means - middle)[None] / spread
    found = predictions(standard, np.ones(standard.shape, np.bool_), None, groups, Progress())
    return middle + spread * float(found.values[0, -1])


def _predicted(
    centered: Floats, known: Bools, groups: Floats, like_new: Bools, likeness: Likeness | None, progress: Progress
) -> tuple[Floats, Floats]:
    """Return the best linear predictions from results on the same item, and how much they leave open.

    There is one column per earlier model, and the new one's is last. Predictions are relative to the largest.
    """
    deviations = np.sqrt((centered**2).sum(axis=0) / known.sum(axis=0))
    standard = centered / np.where(deviations > 0, deviations, 1.0)
    kernels = None if likeness is None else likeness.kernels
    found = predictions(standard, known, kernels, groups, progress)
    typical = deviations[like_new] if like_new.any() else deviations
    predicted = found.values * np.append(deviations, np.sqrt(np.mean(typical**2)))
    return predicted / max(float(np.abs(predicted).max()), 1e-300), found.variances


@dataclass(frozen=True, eq=False)
class Columns(Value):
    """Turns what is known about an answer into columns for a regression.

    Attributes:
        basics_mean: The mean of each basic column, and
        basics_scale: its standard deviation.
        scale: The standard deviation of each column within models.
        centers: Lines that others are compared with.
        root: The Cholesky factor of how alike the centers are.
    """

    basics_mean: Floats
    basics_scale: Floats
    scale: Floats
    centers: Floats
    root: Floats

    @classmethod
    def of(cls, basics: Sequence[Floats], bends: Sequence[Floats]) -> Columns:
        """Learn scales and centers from the known results' lines, model by model."""
        pooled = np.concatenate(basics)
        mean, scale = pooled.mean(axis=0), np.maximum(pooled.std(axis=0), 1e-12)
        places = np.linspace(0, len(pooled) - 1, min(CENTERS, len(pooled))).round().astype(np.int64)
        centers = np.clip((pooled[places] - mean) / scale, -FARTHEST, FARTHEST)
        within = [np.concatenate([lines - lines.mean(axis=0) for lines in parts]) for parts in (basics, bends)]
        deviations = np.maximum(np.concatenate(within, axis=1).std(axis=0), 1e-12)
        root = np.asarray(np.linalg.cholesky(_alike(centers, centers) + TINY * np.eye(len(centers))), np.float64)
        return cls(mean, scale, deviations, centers, root)

    def make(self, basics: Floats, bends: Floats, known: Bools) -> Floats:
        """Return a model's columns, relative to their mean over its known results."""
        lines = np.concatenate([basics, bends], axis=1)
        lines = np.clip((lines - lines[known].mean(axis=0)) / self.scale, -FARTHEST, FARTHEST)
        near = np.clip((basics - self.basics_mean) / self.basics_scale, -FARTHEST, FARTHEST)
        alike = np.linalg.solve(self.root, _alike(self.centers, near)).T
        return np.concatenate([lines, alike - alike[known].mean(axis=0)], axis=1)

    @property
    def penalties(self) -> Floats:
        """The ridge penalty of each column."""
        return np.append(np.full(len(self.scale), PENALTY), np.full(len(self.centers), ALIKE_PENALTY))


def _alike(one: Floats, other: Floats) -> Floats:
    """Return how alike lines are, from 0 to 1."""
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1) - 2 * one @ other.T
    return np.asarray(np.exp(-np.maximum(squares, 0.0) / (2 * REACH * one.shape[1])))


def _learned(basics: Floats, bends: Floats, centered: Floats, known: Bools) -> tuple[Floats, Floats]:
    """Regress earlier results on their lines; return what to expect of the new model, and the earlier ones' residuals.

    Args:
        basics: What is known: by item, by model (the new one last), and in columns.
        bends: The same for columns made of them.
        centered: Earlier results, with mean 0 per model.
        known: Which of them are known.
    """
    # Only differences between a model's own items count; the level of the new model is learned from its answers.
    masks = [*known.T, np.ones(len(known), np.bool_)]
    earlier = list(enumerate(known.T))
    columns = Columns.of(*([lines[mask, model] for model, mask in earlier] for lines in (basics, bends)))
    size = len(columns.penalties)
    normal, right = np.diag(columns.penalties), np.zeros(size)
    for model, mask in earlier:
        design = columns.make(basics[:, model], bends[:, model], mask)[mask]
        normal += design.T @ design
        right += design.T @ centered[mask, model]
    slopes = np.linalg.solve(normal, right)
    fitted = [columns.make(basics[:, model], bends[:, model], mask) @ slopes for model, mask in enumerate(masks)]
    return fitted[-1], np.where(known, centered - np.stack(fitted[:-1], axis=1), np.nan)


def _same(kinds: Kinds) -> list[Bools]:
    """Return which models were judged in the same way as each model: in all respects, and in each."""
    parts = [np.array(part)[:, None] == np.array(part) for part in zip(*kinds, strict=True)]
    return [np.logical_and.reduce(parts), *(parts if len(parts) > 1 else [])]
