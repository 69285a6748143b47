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
# Answers are about equally long if the logarithms of their lengths differ by at most this.
NEAR_LENGTH = 0.3
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
    others = np.arange(models + 1)[:, None] != np.arange(models)
    # Whose results count for a model: all others, those that were judged in the same way, and those partly so.
    members = [others] if kinds is None else [others, *(others & same for same in _same(kinds))]
    from_texts = [] if texts is None else _from_texts(centered, known, members[:2], texts)

    def lines(model: int) -> Floats:
        groups = [own[model] for own in members]
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


def _same(kinds: Kinds) -> list[Bools]:
    """Return which earlier models were judged in the same way as each model: in all respects, and in each."""
    parts = [np.array(part)[:, None] == np.array(part[:-1]) for part in zip(*kinds, strict=True)]
    return [np.logical_and.reduce(parts), *(parts if len(parts) > 1 else [])]


def _from_texts(centered: Floats, known: Bools, members: Sequence[Bools], texts: Texts) -> list[Floats]:
    """Return what texts say about every answer, one line per item and model: columns of results, and of lengths."""
    lengths = _lengths(texts)
    relative = lengths - lengths.mean(axis=1, keepdims=True)
    return [_alike(centered, known, members, texts, lengths), np.stack([lengths, relative, relative**2], axis=-1)]


def _alike(centered: Floats, known: Bools, members: Sequence[Bools], texts: Texts, lengths: Floats) -> Floats:
    """Return the mean result of other models, weighted by how alike the answers to the same item are.

    There is one column per kernel (cosines of words, with three degrees of sharpness, and lengths) and set of members.
    """
    items, models = centered.shape
    counts, priors = _word_counts(texts), [*(math.exp(sharp * (PRIOR_COSINE - 1)) for sharp in SHARPNESS), 1.0]
    means = np.zeros((items, models + 1, len(priors) * len(members)))
    for item in range(items):
        vectors = counts[item::items]
        cosines = (vectors @ vectors[:-1].T).toarray()
        farther = (lengths[item][:, None] - lengths[item, :-1]) / NEAR_LENGTH
        kernels = [*(np.exp(sharp * (cosines - 1)) for sharp in SHARPNESS), np.exp(-(farther**2))]
        columns = [
            (weights := kernel * own * known[item]) @ centered[item] / (weights.sum(axis=1) + prior)
            for kernel, prior in zip(kernels, priors, strict=True)
            for own in members
        ]
        means[item] = np.stack(columns, axis=1)
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


def _lengths(texts: Texts) -> Floats:
    """Return the logarithm of every answer's length, one line per item; a missing one has the mean of its item."""
    lengths = np.array([[math.nan if text is None else math.log1p(len(text)) for text in answers] for answers in texts])
    present = np.isfinite(lengths)
    typical = np.where(present, lengths, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    return np.where(present, lengths, typical).T
