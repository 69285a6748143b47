"""What the texts of answers say before anybody judges them: how alike answers are, and how alike models write."""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.sparse import csr_array

from coresift.types import Floats, Value

# The answers of each model, one per item; None if there is none.
Texts = Sequence[Sequence[str | None]]

# Words are counted in this many bins, by their hash. Signs and line breaks are words, too: they show lists and code.
BINS = 1 << 15
WORD = re.compile(r"\w+|[^\w\s]|\n")
# The likeness of two answers with the cosine c is e^(sharpness·(c − 1)). Openings are compared with two sharpnesses.
SHARPNESS, TOPIC_SHARPNESS, OPENING_SHARPNESS = 2.0, 6.0, (1.0, 4.0)
# An answer's opening: its first so many characters.
OPENING = 150
# The number of topics, how many answers they are learned from, and in how many steps of power iteration.
TOPICS, TOPIC_ANSWERS, TOPIC_STEPS = 64, 8192, 4
# How often a model uses a word counts to this power in its style, so common words do not count for everything.
STYLE_POWER = 0.75


@dataclass(frozen=True, eq=False)
class Likeness(Value):
    """How alike answers to the same item are.

    Attributes:
        words: The words of every answer, model by model, as vectors of length 1.
        openings: The same for how answers begin.
        topics: What the answers are about, item by item, as vectors of length 1.
        lengths: The logarithm of every answer's length, one line per item.
        styles: How alike two models write, from 0 to 1, over all items.
    """

    words: csr_array
    openings: csr_array
    topics: Floats
    lengths: Floats
    styles: Floats

    @classmethod
    def of(cls, texts: Texts) -> Likeness:
        """Read the answers of several models."""
        words = word_counts(texts)
        openings = word_counts([[text and text[:OPENING] for text in answers] for answers in texts])
        about = topics(words).reshape(len(texts), -1, TOPICS).swapaxes(0, 1)
        return cls(words, openings, about, answer_lengths(texts), styles(words, len(texts)))

    def cosines(self, item: int) -> Floats:
        """Return the cosines of all models' answers to an item."""
        return self._products(self.words, item)

    def _products(self, vectors: csr_array, item: int) -> Floats:
        own = vectors[item :: len(self.lengths)]
        return np.asarray((own @ own.T).toarray())

    def kernels(self, item: int) -> Floats:
        """Return measures of how alike answers to an item are, one matrix each, with one line and column per model."""
        similar = np.exp(SHARPNESS * (self.cosines(item) - 1))
        near = np.exp(-((self.lengths[item][:, None] - self.lengths[item]) ** 2))
        about = np.exp(TOPIC_SHARPNESS * (self.topics[item] @ self.topics[item].T - 1))
        opened = self._products(self.openings, item) - 1
        openings = [np.exp(sharpness * opened) for sharpness in OPENING_SHARPNESS]
        return np.stack([np.ones_like(near), similar, near, similar * near, about, *openings])

    def columns(self) -> Floats:
        """Return what may shift results by itself: lengths, and how usual an answer is; one line per item and model."""
        relative = self.lengths - self.lengths.mean(axis=1, keepdims=True)
        usual = np.stack([self.cosines(item).mean(axis=1) for item in range(len(self.lengths))])
        return np.stack([self.lengths, relative, usual], axis=-1)


def word_counts(texts: Texts) -> csr_array:
    """Return tf-idf vectors of length 1, one line per answer, model by model."""
    starts, bins, values, bin_of = [0], list[int](), list[float](), cache(_bin)
    for answers in texts:
        for text in answers:
            words = Counter(map(bin_of, WORD.findall((text or "").lower())))
            bins += words.keys()
            values += [1 + math.log(count) for count in words.values()]
            starts.append(len(bins))
    columns = np.array(bins, np.int64)
    documents = len(starts) - 1
    rarity = 1 + np.log((1 + documents) / (1 + np.bincount(columns, minlength=BINS)))
    vectors = csr_array((np.array(values) * rarity[columns], columns, np.array(starts)), shape=(documents, BINS))
    lengths = np.sqrt(np.asarray((vectors * vectors).sum(axis=1)).ravel())
    vectors.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(starts))
    return vectors


def _bin(word: str) -> int:
    return zlib.crc32(word.encode(errors="surrogatepass")) % BINS


def topics(words: csr_array) -> Floats:
    """Return vectors of length 1, one line per answer: its words' part along the main axes of all answers."""
    axes = np.random.default_rng(0).normal(size=(words.shape[1], TOPICS))
    some = words[:: max(1, -(-words.shape[0] // TOPIC_ANSWERS))]
    for _ in range(TOPIC_STEPS):
        axes, _ = np.linalg.qr(some.T @ (some @ axes))
    along = np.asarray(words @ axes)
    return np.asarray(along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-12))


def styles(words: csr_array, models: int) -> Floats:
    """Return how alike models write, from how often each uses which words: 1 for the same, e^−1 for a usual pair."""
    items = words.shape[0] // models
    used = np.stack(
        [np.asarray(words[start : start + items].sum(axis=0)).ravel() for start in range(0, words.shape[0], items)]
    )
    used = (used / np.maximum(used.sum(axis=1, keepdims=True), 1e-12)) ** STYLE_POWER
    used /= np.maximum(np.sqrt((used**2).sum(axis=1, keepdims=True)), 1e-12)
    products = used @ used.T
    squares = np.maximum(products.diagonal()[:, None] + products.diagonal() - 2 * products, 0.0)
    usual = float(np.median(squares[~np.eye(models, dtype=np.bool_)]))
    return np.asarray(np.exp(-squares / max(usual, 1e-12)))


def answer_lengths(texts: Texts) -> Floats:
    """Return the logarithm of every answer's length, one line per item; a missing one has the mean of its item."""
    lengths = np.array([[math.nan if text is None else math.log1p(len(text)) for text in answers] for answers in texts])
    present = np.isfinite(lengths)
    typical = np.where(present, lengths, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    return np.where(present, lengths, typical).T
