"""The table of problems, in similar pairs, and how they are split into a tuning half and a held-out half."""

from __future__ import annotations

import numpy as np

from benchmarks.problems import images, synthetic, tables, texts
from benchmarks.problems.base import Problem, Source, make

SPLIT_SEED = 17

# The problems of the first benchmarks; `PROBLEMS` has these and the others.
SOURCES = {
    "mnist-loss": Source(images.mnist, classes=images.mnist_classes, world="image losses"),
    "mnist-gradient": Source(images.mnist, loss="gradients", classes=images.mnist_classes, world="image gradients"),
    "fashion-loss": Source(images.fashion_mnist, classes=images.fashion_classes, world="image losses"),
    "fashion-gradient": Source(
        images.fashion_mnist, loss="gradients", classes=images.fashion_classes, world="image gradients"
    ),
    "digits-loss": Source(images.digits, budget=200, classes=images.digits_classes, world="few images"),
    "digits-gradient": Source(
        images.digits, loss="gradients", budget=200, classes=images.digits_classes, world="few images"
    ),
    "banking-loss": Source(texts.banking, classes=texts.banking_classes, world="text losses"),
    "gas-concentration": Source(tables.gas, world="measurements"),
    "holder": Source(synthetic.holder, "synthetic", world="distances matter"),
    "no-signal": Source(synthetic.no_signal, "synthetic", world="nothing to learn"),
    "lognormal": Source(synthetic.lognormal, "synthetic", hard=True, world="heavy tails"),
    "pareto": Source(synthetic.pareto, "synthetic", hard=True, world="heavy tails"),
    "rare-cluster": Source(synthetic.rare_cluster, "synthetic", hard=True, world="rare clusters"),
    "zero-inflated": Source(synthetic.zero_inflated, "synthetic", hard=True, world="made-up zeros"),
}

PROBLEMS = SOURCES | {
    "sst2-loss": Source(texts.sst2_words, world="text losses"),
    "banking-head-loss": Source(texts.banking_head, world="text head, losses"),
    "sst2-head-loss": Source(texts.sst2_head, world="text head, losses"),
    "banking-head-error": Source(texts.banking_head, loss="errors", world="text head, errors"),
    "sst2-head-error": Source(texts.sst2_head, loss="errors", world="text head, errors"),
    "mnist-head-loss": Source(images.mnist_head, world="image head, losses"),
    "cifar-head-loss": Source(images.cifar_head, world="image head, losses"),
    "mnist-head-error": Source(images.mnist_head, loss="errors", world="image head, errors"),
    "cifar-head-error": Source(images.cifar_head, loss="errors", world="image head, errors"),
    "europarl-language": Source(texts.europarl_language, world="language models"),
    "sst2-language": Source(texts.sst2_language, world="language models"),
    "diamonds-price": Source(tables.diamonds, world="measurements"),
    "diamonds-residual": Source(tables.diamonds, loss="residuals", world="residuals, outlying rows"),
    "flights-residual": Source(tables.flights, loss="residuals", world="residuals, outlying rows"),
    "nox-residual": Source(tables.nox, loss="residuals", world="residuals, plain rows"),
    "computers-residual": Source(tables.computers, loss="residuals", world="residuals, plain rows"),
    "gas-residual": Source(tables.gas_residuals, world="residuals, other"),
    "wages-residual": Source(tables.wages, loss="residuals", hard=True, world="residuals, other"),
    "doctor-visits": Source(tables.doctor_visits, world="rare counts"),
    "hospital-stays": Source(tables.german_visits, loss="stays", hard=True, world="rare counts"),
    "german-visits": Source(tables.german_visits, world="counts"),
    "experiment-visits": Source(tables.health_experiment, world="counts"),
    "murders": Source(tables.murders, hard=True, world="concentrated counts"),
    "patents": Source(tables.patents, hard=True, world="concentrated counts"),
    "experiment-dollars": Source(tables.health_experiment, loss="dollars", hard=True, world="health spending"),
    "medical-spending": Source(tables.medical_spending, hard=True, world="health spending"),
    "injury-costs": Source(tables.injuries, hard=True, world="skewed money"),
    "collections": Source(tables.collections, hard=True, world="skewed money"),
    "wages": Source(tables.wages, world="people"),
    "home-runs": Source(tables.baseball, world="people"),
    "distance-noise": Source(synthetic.distance_noise, "synthetic", world="distances matter"),
    "shuffled": Source(synthetic.shuffled, "synthetic", world="nothing to learn"),
    "rare-clusters": Source(synthetic.rare_clusters, "synthetic", hard=True, world="rare clusters"),
    "zero-nearby": Source(synthetic.zero_nearby, "synthetic", world="made-up zeros"),
    "inside-out": Source(synthetic.inside_out, "synthetic", world="distances mislead"),
    "hidden-axis": Source(synthetic.hidden_axis, "synthetic", world="distances mislead"),
    "outlying": Source(synthetic.outlying, "synthetic", world="strange rows"),
    "duplicated": Source(synthetic.duplicated, "synthetic", world="strange rows"),
}


def halves() -> tuple[list[str], list[str]]:
    """Return the names of the tuning and the held-out half: one problem of every world each, by a fixed seed."""
    rng = np.random.default_rng(SPLIT_SEED)
    tuning, held_out = [], []
    for world in sorted({source.world for source in PROBLEMS.values()}):
        first, second = sorted(name for name, source in PROBLEMS.items() if source.world == world)
        pair = (first, second) if rng.random() < 0.5 else (second, first)
        tuning.append(pair[0])
        held_out.append(pair[1])
    return tuning, held_out


def load_problem(name: str) -> Problem:
    """Return a problem by its name, a key of `PROBLEMS`."""
    return make(name, PROBLEMS[name])
