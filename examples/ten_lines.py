"""From embeddings and a loss to an unbiased total, in ten lines."""

import numpy as np

import coresift as cs

rng = np.random.default_rng(0)
embeddings = rng.normal(size=(50, 16))[rng.integers(50, size=20_000)] + 0.3 * rng.normal(size=(20_000, 16))
loss = np.abs(embeddings[:, 0]) ** 3 + 0.1 * rng.exponential(size=20_000)  # your model, asked for some rows only

selection = cs.select(embeddings, losses=lambda rows: loss[rows], budget=400, seed=0)
total = cs.estimate(selection, loss[selection.ids]).total
print(f"{len(selection)} of {selection.n} rows, {selection.ledger.asked} losses asked to choose them")
print(f"estimated total loss {total}, truth {loss.sum():,.0f}")
