"""Losses and errors of text classifiers, and of a small language model."""

from __future__ import annotations

import gzip
from collections import Counter

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from benchmarks.embeddings import embed
from benchmarks.problems.base import Arrays, Floats, Labels, Matrix, cached, cross_entropy, data_folder, head

SENTENCES, TRAINING, SHORTEST = 12_000, 6_000, 4


def banking() -> Arrays:
    """Banking77's 10,003 questions: latent semantic vectors, a linear classifier that saw a tenth of them."""
    labels, texts = banking_questions()
    vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)
    words = vectorizer.fit_transform(texts)
    rows = normalize(TruncatedSVD(64, random_state=12).fit_transform(words))
    part = np.random.default_rng(12).permutation(len(rows))[: len(rows) // 10]
    part = np.union1d(part, np.unique(labels, return_index=True)[1])  # the classifier must know every class
    model = LogisticRegression(C=10.0, max_iter=300).fit(rows[part], labels[part])
    return {"rows": rows.astype(np.float32), "losses": cross_entropy(model.predict_proba(rows), labels)}


def banking_questions() -> tuple[Labels, list[str]]:
    """What each question is about, by number, and the question."""
    with gzip.open(data_folder() / "banking77" / "train.tsv.gz", "rt", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t", 1) for line in file][1:]
    _, labels = np.unique([label for label, _ in pairs], return_inverse=True)
    return labels, [text for _, text in pairs]


def banking_classes() -> Labels:
    """The 77 things that customers ask about."""
    return banking_questions()[0]


def sst2_words() -> Arrays:
    """Movie reviews: latent semantic vectors, a linear classifier that saw 1,000 of 12,000 sentences."""
    labels, texts = reviews()
    return head(latent(texts, seed=13), labels, 1_000, seed=13, strength=10.0)


def sst2_head() -> Arrays:
    """Movie reviews: MiniLM vectors, a linear classifier that saw 1,000 of 12,000 sentences."""
    return head(cached(sst2_vectors)["vectors"].astype(np.float32), reviews()[0], 1_000, seed=14, strength=30.0)


def banking_head() -> Arrays:
    """Banking77: MiniLM vectors, a linear classifier that saw a tenth of the questions."""
    vectors = cached(banking_vectors)["vectors"].astype(np.float32)
    return head(vectors, banking_questions()[0], len(vectors) // 10, seed=15, strength=30.0)


def sst2_vectors() -> Arrays:
    """MiniLM vectors of the movie reviews."""
    return {"vectors": embed(reviews()[1])}


def banking_vectors() -> Arrays:
    """MiniLM vectors of the questions."""
    return {"vectors": embed(banking_questions()[1])}


def reviews() -> tuple[Labels, list[str]]:
    """Sentiment and text of random sentences of SST-2, none of which is a mere phrase."""
    with gzip.open(data_folder() / "sst2" / "train.tsv.gz", "rt", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t", 1) for line in file][1:]
    pairs = [pair for pair in pairs if len(pair[1].split()) >= SHORTEST]
    chosen = np.random.default_rng(13).permutation(len(pairs))[:SENTENCES]
    return np.array([int(pairs[place][0]) for place in chosen]), [pairs[place][1] for place in chosen]


def europarl_language() -> Arrays:
    """Sentences of the European Parliament, and the surprise of each to a language model of word pairs."""
    with gzip.open(data_folder() / "europarl_de_en" / "europarl_de_en_200k.tsv.gz", "rt", encoding="utf-8") as file:
        header, *lines = (line.rstrip("\n").split("\t") for line in file)
    chosen = np.random.default_rng(16).permutation(len(lines))[: TRAINING + 20_000]
    return surprises([lines[place][header.index("en")] for place in chosen], seed=16)


def sst2_language() -> Arrays:
    """Movie reviews, and the surprise of each to a language model of word pairs."""
    return surprises(reviews()[1], seed=17)


def surprises(texts: list[str], seed: int) -> Arrays:
    """A word-pair model learns from the first 6,000 texts: its losses on the others, and their semantic vectors."""
    known = [text.lower().split() for text in texts[:TRAINING]]
    words = Counter(word for text in known for word in text)
    pairs = Counter(pair for text in known for pair in zip(["<s>", *text], text, strict=False))
    starts = words + Counter({"<s>": TRAINING})
    total, vocabulary = sum(words.values()), len(words) + 1

    def surprise(text: str) -> float:
        read = text.lower().split()
        loss = 0.0
        for before, word in zip(["<s>", *read], read, strict=False):
            alone = (words[word] + 1) / (total + vocabulary)
            loss -= np.log((pairs[before, word] + 5 * alone) / (starts[before] + 5))
        return float(loss)

    rest = texts[TRAINING:]
    return {"rows": latent(rest, seed), "losses": np.array([surprise(text) for text in rest])}


def latent(texts: list[str], seed: int) -> Matrix:
    """Unit vectors of 64 latent semantic dimensions."""
    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2).fit_transform(texts)
    vectors: Floats = normalize(TruncatedSVD(64, random_state=seed).fit_transform(words))
    return vectors.astype(np.float32)
