"""Expect a new model's results from what is known before its answers are judged: earlier results, and all texts.

Every earlier model takes a turn as the new one. What the other models' results and the texts say about its answers is
one line per item, and a ridge regression over the lines of all models learns what such lines say about results. The
lines of the new model then give its expected results.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from coresift.types import Bools, Floats

# How each model was judged; several parts, such as judge and reference, are compared one by one, too.
Kinds = Sequence[tuple[str, ...]]
# The answers of each model, one per item; None if there is none.
Texts = Sequence[Sequence[str | None]]

# A mean of results is shrunk toward the model's mean by a prior worth this many models.
PRIOR_MODELS = 2.0
# An answer with cosine c to the new one has the weight e^(sharpness·(c − 1)); the prior is worth an answer with this c.
SHARPNESS = (4.0, 12.0, 30.0)
PRIOR_COSINE = 0.4
# Words are counted in this many bins, by their hash.
BINS = 1 << 15
WORD = re.compile(r"\w\w+")
# The ridge penalty, in lines, and the farthest value in standard deviations.
PENALTY, FARTHEST = 100.0, 4.0


def expected_results(results: Floats, kinds: Kinds | None, texts: Texts | None) -> Floats:
    """Return the expected result of the new model on every item, relative to its unknown mean.

    Args:
        results: One line per item and one column per earlier model; NaN if unknown.
        kinds: How each earlier model was judged, and the new model last.
        texts: The answers of each earlier model, and those of the new model last.
    """
    models, known = results.shape[1], np.isfinite(results)
    means = np.array([float(column[mask].mean()) for column, mask in zip(results.T, known.T, strict=True)])
    centered = np.where(known, results - means, 0.0)
    from_texts = [] if texts is None else [_by_similarity(centered, known, texts), _by_length(texts)]

    def lines(model: int) -> Floats:
        others = np.arange(models) != model
        groups = [others] if kinds is None else [others, *(others & same for same in _same(kinds, model))]
        ease = [centered[:, group].sum(axis=1) / (known[:, group].sum(axis=1) + PRIOR_MODELS) for group in groups]
        return np.column_stack([*ease, *(columns[:, model] for columns in from_texts)])

    # Only differences between a model's own items count; the level of the new model is learned from its answers.
    pooled = [_centered(lines(model)[known[:, model]]) for model in range(models)]
    scale = np.maximum(np.concatenate(pooled).std(axis=0), 1e-12)
    design = np.clip(np.concatenate(pooled) / scale, -FARTHEST, FARTHEST)
    answers = np.concatenate([column[mask] for column, mask in zip(centered.T, known.T, strict=True)])
    slopes = np.linalg.solve(design.T @ design + PENALTY * np.eye(scale.size), design.T @ answers)
    return np.asarray(np.clip(_centered(lines(models)) / scale, -FARTHEST, FARTHEST) @ slopes)


def _centered(lines: Floats) -> Floats:
    return np.asarray(lines - lines.mean(axis=0))


def _same(kinds: Kinds, model: int) -> list[Bools]:
    """Return which earlier models were judged in the same way as this one: in each respect, and in all."""
    same = np.array([[mine == other for mine, other in zip(kinds[model], kind, strict=True)] for kind in kinds[:-1]])
    return [*(same.T if same.shape[1] > 1 else []), same.all(axis=1)]


def _by_similarity(centered: Floats, known: Bools, texts: Texts) -> Floats:
    """Return the mean result of other models, weighted by how similar their answers to the same item are."""
    items, models = centered.shape
    counts = _word_counts(texts)
    means = np.zeros((items, models + 1, len(SHARPNESS)))
    for item in range(items):
        vectors = counts[item::items]
        cosines = (vectors @ vectors.T).toarray()
        np.fill_diagonal(cosines, -math.inf)
        for place, sharpness in enumerate(SHARPNESS):
            weights = np.exp(sharpness * (cosines[:, :-1] - 1)) * known[item]
            prior = math.exp(sharpness * (PRIOR_COSINE - 1))
            means[item, :, place] = weights @ centered[item] / (weights.sum(axis=1) + prior)
    return means


def _word_counts(texts: Texts) -> csr_array:
    """Return tf-idf vectors of length 1, one line per answer, model by model."""
    starts, bins, values = [0], list[int](), list[float]()
    for answers in texts:
        for text in answers:
            words = Counter(zlib.crc32(word.encode()) % BINS for word in WORD.findall((text or "").lower()))
            bins += words.keys()
            values += [1 + math.log(count) for count in words.values()]
            starts.append(len(bins))
    columns = np.array(bins, np.int64)
    documents = len(starts) - 1
    rarity = 1 + np.log((1 + documents) / (1 + np.bincount(columns, minlength=BINS)))
    counts = csr_array((np.array(values) * rarity[columns], columns, np.array(starts)), shape=(documents, BINS))
    lengths = np.sqrt(np.asarray((counts * counts).sum(axis=1)).ravel())
    counts.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(starts))
    return counts


def _by_length(texts: Texts) -> Floats:
    """Return the logarithm of an answer's length, its difference from the mean of all models, and its square."""
    lengths = np.array([[math.nan if text is None else math.log1p(len(text)) for text in answers] for answers in texts])
    present = np.isfinite(lengths)
    typical = np.where(present, lengths, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    lengths = np.where(present, lengths, typical)
    relative = lengths - typical
    return np.stack([lengths, relative, relative**2], axis=-1).transpose(1, 0, 2)
