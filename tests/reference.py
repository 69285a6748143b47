"""Slow, obvious twins of the fast code: plain loops, written from the definitions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np


def distance(a, b):
    return math.sqrt(sum((float(x) - float(y)) ** 2 for x, y in zip(a, b, strict=True)))


def algorithm_one(rows, centers, labels, center_losses, holder, z, draws):
    """Algorithm 1: p_e = (ℓ(c_i) + Λ_i‖e−c_i‖^z) / (Σ_j Λ_j Φ_z(C_j) + Σ ℓ̂) and w(e) = 1/(s p_e)."""
    n, k = len(rows), len(centers)
    holder = [float(holder)] * k if np.isscalar(holder) else [float(h) for h in holder]
    v = [distance(rows[e], rows[centers[labels[e]]]) ** z for e in range(n)]
    costs = [sum(v[e] for e in range(n) if labels[e] == j) for j in range(k)]
    normalizer = sum(holder[j] * costs[j] for j in range(k)) + sum(center_losses[labels[e]] for e in range(n))
    p = [(center_losses[labels[e]] + holder[labels[e]] * v[e]) / normalizer for e in range(n)]
    w = [1 / (draws * p_e) if p_e > 0 else math.inf for p_e in p]
    return np.array(p), np.array(w)


def nearest(rows, centers):
    """The nearest center of every row by exhaustive search, and the distance to it."""
    labels, distances = [], []
    for row in rows:
        away = [distance(row, center) for center in centers]
        labels.append(away.index(min(away)))
        distances.append(min(away))
    return np.array(labels), np.array(distances)


def lloyd(rows, k, z, rng, steps=25):
    """One plain run: D^z seeding one center at a time, then weighted means; return the cost of the free centers."""
    rows = np.asarray(rows, float)
    centers = [rows[rng.integers(len(rows))]]
    while len(centers) < k:
        away = nearest_cost(rows, np.array(centers)) ** z
        if away.sum() == 0:
            break
        centers.append(rows[rng.choice(len(rows), p=away / away.sum())])
    centers = np.array(centers)
    best = math.inf
    for _ in range(steps):
        gaps = np.sqrt(((rows[:, None, :] - centers[None]) ** 2).sum(-1))
        labels, away = gaps.argmin(1), gaps.min(1)
        best = min(best, (away**z).sum())
        pull = np.maximum(away, 1e-9) ** (z - 2) * (labels == np.arange(len(centers))[:, None])  # center by row
        used = pull.sum(1) > 0
        targets = pull[used] @ rows / pull[used].sum(1, keepdims=True)
        centers[used] += (targets - centers[used]) / max(1.0, z - 1.0)
    return min(best, (nearest_cost(rows, centers) ** z).sum())


def nearest_cost(rows, centers):
    return np.sqrt(((rows[:, None, :] - centers[None]) ** 2).sum(-1)).min(1)


def fixed_size_inclusion(sizes, count):
    """π = min(1, c·size) with Σ π = count, by bisection on c."""
    low, high = 0.0, 1e12
    for _ in range(300):
        middle = (low + high) / 2
        if sum(min(1.0, middle * size) for size in sizes) < count:
            low = middle
        else:
            high = middle
    return np.array([min(1.0, high * size) for size in sizes])


def ordered_pivotal(inclusion):
    """Distribution over samples of the ordered pivotal method, duel by duel, in fractions."""
    probabilities = {}

    def duel(position, survivor, chance, chosen, probability):
        if probability == 0:
            return
        if position == len(inclusion):
            if chance == 1:
                chosen = chosen | {survivor}
            key = frozenset(chosen)
            probabilities[key] = probabilities.get(key, 0) + probability
            return
        other = Fraction(inclusion[position])
        if other in (0, 1):
            duel(position + 1, survivor, chance, chosen | {position} if other == 1 else chosen, probability)
        elif survivor is None or chance == 0:
            duel(position + 1, position, other, chosen, probability)
        elif chance == 1:
            duel(position + 1, position, other, chosen | {survivor}, probability)
        elif chance + other < 1:
            both = chance + other
            duel(position + 1, survivor, both, chosen, probability * chance / both)
            duel(position + 1, position, both, chosen, probability * other / both)
        else:
            rest = chance + other - 1
            wins = (1 - other) / (2 - chance - other)
            duel(position + 1, position, rest, chosen | {survivor}, probability * wins)
            duel(position + 1, survivor, rest, chosen | {position}, probability * (1 - wins))

    duel(0, None, Fraction(0), frozenset(), Fraction(1))
    return probabilities


def systematic(inclusion):
    """Distribution over samples of systematic sampling, from the intervals of its one random start, in fractions."""
    certain = frozenset(i for i, p in enumerate(inclusion) if p == 1)
    rest = [(i, Fraction(p)) for i, p in enumerate(inclusion) if 0 < p < 1]
    ends, total = [], Fraction(0)
    for _, p in rest:
        total += p
        ends.append(total)
    cuts = sorted({Fraction(0), Fraction(1), *(end % 1 for end in ends)})
    probabilities = {}
    for low, high in itertools.pairwise(cuts):
        start, chosen = (low + high) / 2, set(certain)
        for step in range(round(total)):
            point = start + step
            chosen.add(next(i for (i, _), end in zip(rest, ends, strict=True) if end > point))
        key = frozenset(chosen)
        probabilities[key] = probabilities.get(key, 0) + (high - low)
    return probabilities


def algorithm_two(A, labels, centers, center_labels, holder, draws):
    """Algorithm 2 without an intercept: x₀ on the weighted centers, p ∝ Λ‖a − â‖ + (⟨â,x₀⟩ − b̂)², w = 1/(s p)."""
    n, k, d = len(A), len(centers), len(A[0])
    sizes = [sum(1 for i in range(n) if labels[i] == j) for j in range(k)]
    rows = [[float(value) for value in A[center]] for center in centers]
    gram = [[sum(sizes[j] * rows[j][u] * rows[j][v] for j in range(k)) for v in range(d)] for u in range(d)]
    right = [sum(sizes[j] * rows[j][u] * float(center_labels[j]) for j in range(k)) for u in range(d)]
    x0 = solve(gram, right)
    missed = [(sum(rows[j][u] * x0[u] for u in range(d)) - float(center_labels[j])) ** 2 for j in range(k)]
    away = [distance(A[i], A[centers[labels[i]]]) for i in range(n)]
    if np.isscalar(holder) and math.isinf(holder):
        top = away
    else:
        holder = [float(holder)] * k if np.isscalar(holder) else [float(h) for h in holder]
        top = [holder[labels[i]] * away[i] + missed[labels[i]] for i in range(n)]
    p = [value / sum(top) for value in top]
    w = [1 / (draws * p_i) if p_i > 0 else math.inf for p_i in p]
    return np.array(x0), np.array(p), np.array(w)


def solve(matrix, right):
    """Gaussian elimination with row exchanges."""
    rows = [[*map(float, row), float(value)] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for at in range(size):
        best = max(range(at, size), key=lambda i: abs(rows[i][at]))
        rows[at], rows[best] = rows[best], rows[at]
        for i in range(size):
            if i != at:
                factor = rows[i][at] / rows[at][at]
                rows[i] = [mine - factor * theirs for mine, theirs in zip(rows[i], rows[at], strict=True)]
    return [rows[i][size] / rows[i][i] for i in range(size)]
