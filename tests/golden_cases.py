"""The golden cases: small runs whose results are stored in `tests/golden/`, one file per case.

`CASES` start from a stored clustering and stored losses, with rows that are whole numbers so small that no sum of
squares is rounded: integers come out the same on every platform, and floating-point numbers to 1e-12. `ROW_CASES` start
from rows that are rounded everywhere and go through the whole clustering. Their bytes are made and compared with
`KERNELS`, which any x86-64 processor since 2013 has, and only where every change is checked.

Everything that depends on how coresift is called stands in the section "How coresift is called". A change of names
changes that section alone; a change of results renews the cases that it means to change, by name:

    python tests/golden_cases.py --renew score-learned rounds-sampling
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import coresift as cs
from coresift.demo import load_demo

HOME = Path(__file__).parent / "golden"
INPUTS = HOME / "inputs.npz"
FILES = HOME / "files"
BUDGET, SEED = 90, 11
NEAR = 1e-12
# Predictions are products of single-precision features, which processors round in their own ways.
NEAR_PREDICTIONS = 1e-6
# Processors with wider registers would add in another order.
KERNELS = {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"}
CLUSTERINGS = ("plain", "median", "unit", "classes", "fine")


# ------------------------------------------------------------------ what the cases start from


@cache
def inputs():
    """Return the stored arrays: rows, losses, a proxy, values to estimate, classes, labels, and clusterings."""
    with np.load(INPUTS) as stored:
        return SimpleNamespace(**{name: stored[name] for name in stored.files})


def rows():
    return inputs().rows.astype(np.float32)


@cache
def demo():
    """Return some of the rows that ship with the package, as they are."""
    data = load_demo()
    some = np.arange(0, len(data.losses), 5)
    classes = np.unique(data.intents[some], return_inverse=True)[1] % 12
    return SimpleNamespace(rows=data.embeddings[some].astype(np.float32), losses=data.losses[some], classes=classes)


def make_inputs():
    """Make the stored arrays. To make them anew changes every case, so nothing does it by itself."""
    rng = np.random.default_rng(77)
    n, groups = 480, 15
    group = rng.choice(groups, p=rng.dirichlet(np.full(groups, 2.0)), size=n)
    points = (
        rng.normal(size=(groups, 6))[group] * 170 + rng.normal(size=(n, 6)) * rng.uniform(20, 70, groups)[group, None]
    )
    points = np.clip(points.round(), -500, 500).astype(np.int16)
    losses = rng.exponential(size=groups)[group] + 0.3 * rng.exponential(size=n) + np.abs(points[:, 0]) / 400
    losses[rng.choice(n, 12, replace=False)] = 0.0
    found = {
        "rows": points,
        "losses": losses,
        "later_losses": losses * rng.uniform(0.5, 1.5, size=n),
        "proxy": losses * rng.uniform(0.7, 1.4, size=n) + 0.05,
        "values": np.sin(points[:, 1] / 100) + losses**2,
        "classes": (group % 4).astype(np.int16),
        "labels": points @ np.array([1.0, -2.0, 0.5, 0.0, 3.0, 0.25]) / 100 + 2 + 0.5 * rng.normal(size=n),
        "lengths": rng.integers(3, 90, size=n).astype(np.int16),
        "probabilities": rng.dirichlet(np.ones(4), size=n),
        "twins": np.concatenate(
            [points[:150], points[:40], points[:30] + rng.integers(-1, 2, size=(30, 6), dtype=np.int16)]
        ),
    }
    matrix = points.astype(np.float32)
    made = {
        "plain": cs.cluster(matrix, 12, seed=3),
        "median": cs.cluster(matrix, 12, z=1.0, seed=3),
        "unit": cs.cluster(matrix, 12, seed=3, normalize=True),
        "classes": cs.cluster(matrix, 12, seed=3, strata=found["classes"]),
        "fine": cs.cluster(matrix, 60, seed=3),
    }
    for name, clustering in made.items():
        found |= {f"{name}_{part}": np.asarray(getattr(clustering, part)) for part in CLUSTERING_PARTS}
    HOME.mkdir(exist_ok=True)
    np.savez_compressed(INPUTS, **found)


# ------------------------------------------------------------------ how coresift is called

CLUSTERING_PARTS = (
    "centers",
    "labels",
    "distances",
    "free_centers",
    "z",
    "free_cost",
    "snapped_cost",
    "seed",
    "normalized",
    "search",
    "strata",
)
LAMBDA = 2e-4  # about what the stored losses differ by, over squared distances


def clustering(name):
    """Return a stored clustering."""
    parts = {part: getattr(inputs(), f"{name}_{part}") for part in CLUSTERING_PARTS}
    parts = {part: value.item() if value.ndim == 0 else value for part, value in parts.items()}
    return cs.Clustering(**parts, fingerprint=cs.open_rows(rows()).fingerprint())


def per_cluster(k):
    return LAMBDA * (1 + np.arange(k) % 5)


PILOTS = {
    "centers": lambda: cs.pilots.Centers(keep=False),
    "centers-kept": lambda: cs.pilots.Centers(keep=True),
    "representatives": cs.pilots.Representatives,
    "representatives-more": lambda: cs.pilots.Representatives(part=0.35, balance=0.8),
}
SCORES = {
    "learned": cs.scores.Learned,
    "learned-low-floor": lambda: cs.scores.Learned(floor=0.25),
    "mixture": cs.scores.Mixture,
    "mixture-other": lambda: cs.scores.Mixture(loss=0.5, distance=0.1),
    "distance": cs.scores.Distance,
    "distance-power": lambda: cs.scores.Distance(floor=0.3, power=2.0),
    "distance-holder": lambda: cs.scores.Distance(holder=per_cluster(12)),
    "proxy": lambda: cs.scores.Proxy(inputs().proxy),
    "sensitivity": lambda: cs.scores.Sensitivity(holder=LAMBDA),
    "sensitivity-array": lambda: cs.scores.Sensitivity(holder=per_cluster(12)),
    "sensitivity-infinite": lambda: cs.scores.Sensitivity(holder=np.inf),
    "sensitivity-free": lambda: cs.scores.Sensitivity(holder="free"),
    "sensitivity-robust": lambda: cs.scores.Sensitivity(holder="robust"),
    "sensitivity-estimate": lambda: cs.scores.Sensitivity(holder="estimate"),
    "leverage": cs.scores.LeverageMixture,
    "leverage-ridge": lambda: cs.scores.LeverageMixture(leverage=0.4, floor=0.3, ridge=1e5),
}
DESIGNS = {
    "independent": cs.designs.Independent,
    "systematic": cs.designs.Systematic,
    "pivotal": cs.designs.Pivotal,
    "poisson": cs.designs.Poisson,
}
GIVEN, EXCLUDED = (5, 77, 301), (0, 9, 79, 104, 222, 300, 302, 410)
BOTH = {"given": GIVEN, "exclude": EXCLUDED}


def strategies(pilot=None, score=None, design=None):
    """Return the parts of the flow by their names here."""
    chosen = {"pilot": PILOTS.get(pilot), "score": SCORES.get(score), "design": DESIGNS.get(design)}
    return {name: make() for name, make in chosen.items() if make is not None}


def pick(clusters="plain", budget=BUDGET, seed=SEED, losses=True, exclude=(), **options):
    """Select with a stored clustering, and return all that the selection and its estimates say."""
    found = cs.select(
        rows(),
        inputs().losses if losses else None,
        budget,
        seed=seed,
        clusters=clustering(clusters),
        exclude=exclude or None,
        **strategies(options.pop("pilot", None), options.pop("score", None), options.pop("design", None)),
        **options,
    )
    return told(found, exclude)


def grown(**options):
    """Select with a stored clustering, and let the selection grow twice."""
    found = cs.select(
        rows(), inputs().losses, BUDGET, seed=SEED, clusters=clustering("plain"), **strategies(**options), **BOTH
    )
    for budget in (150, 240):
        known = {"rows": rows(), "clusters": clustering("plain"), "exclude": EXCLUDED}
        found = cs.grow(found, inputs().losses, budget, **known)
    return told(found, EXCLUDED) | {"growth": found.growth}


def told(selection, exclude=()):
    """Return a selection's arrays, its ledger, and the estimates of the stored values."""
    found = columns(selection) | ledger(selection.ledger)
    if not isinstance(selection, cs.WeightedSelection):
        return found
    if selection.least_inclusion:
        found["least_inclusion"] = np.asarray(selection.least_inclusion)
    if selection.holder.size:
        found["holder"] = selection.holder
    return found | {"weights": selection.weights, "estimates": estimates(selection, exclude)}


SELECTED = ("ids", "multiplicity", "inclusion", "share", "phase", "order")


def columns(selection, *more):
    """Return the columns of a selection; rows without weights were chosen once, with certainty."""
    if isinstance(selection, cs.WeightedSelection):
        return {name: np.asarray(getattr(selection, name)) for name in (*SELECTED, *more)}
    chosen = {name: np.asarray(getattr(selection, name)) for name in ("ids", "order", *more)}
    ones = np.ones(len(selection))
    phase = np.where(selection.origin == 0, 0, 2).astype(np.uint8)
    return chosen | {"multiplicity": ones.astype(np.int64), "inclusion": ones, "share": 0 * ones, "phase": phase}


def ledger(entries):
    """Return a ledger: round and rows of each line, and why they were asked."""
    if not entries.entries:
        return {}
    counts = [(number, count) for number, _, count in entries.entries]
    reasons = [reason for _, reason, _ in entries.entries]
    return {"ledger": np.array(counts), "reasons": np.array(reasons, str)}


def interval(found):
    return np.array([found.value, found.low, found.high, found.standard_error])


def estimates(selection, exclude=()):
    """Return the totals of the stored values by each estimator, with their ends, one line each."""
    known = np.column_stack([inputs().proxy, rows()[:, 0].astype(np.float64)])
    known[list(exclude)] = np.nan
    methods = (
        cs.estimators.HorvitzThompson(),
        cs.estimators.Difference(known[:, 0]),
        cs.estimators.GeneralizedRegression(known),
        cs.estimators.GeneralizedRegression(known, intercept=False),
    )
    values = inputs().values[selection.ids]
    return np.array([interval(cs.estimate(selection, values, method=method).total) for method in methods])


def everything(**options):
    """Select from the demo rows, clustering included, and return the exact arrays."""
    data = demo()
    losses = data.losses if options.pop("losses", True) else None
    return exact(cs.select(data.rows, losses, options.pop("budget", 150), seed=SEED, **options))


def exact(selection):
    found = columns(selection, "clusters", "distances")
    if not isinstance(selection, cs.WeightedSelection):
        return found
    total = cs.estimate(selection, demo().losses[selection.ids]).total
    return found | {"weights": selection.weights, "estimate": interval(total)}


def estimate_by_group(confidence=0.8):
    """Return the total and mean of every class, plain and by regression."""
    picked = cs.select(rows(), inputs().losses, BUDGET, seed=SEED, clusters=clustering("plain"))
    values, groups = inputs().values[picked.ids], inputs().classes[picked.ids].tolist()
    found = {}
    for name, method in (("plain", None), ("regression", cs.estimators.GeneralizedRegression(inputs().proxy))):
        options = {"groups": groups, "confidence": confidence, "method": method}
        for label, one in cs.estimate(picked, values, **options).items():
            found |= {f"{name}_{label}_total": interval(one.total), f"{name}_{label}_mean": interval(one.mean)}
    return found


def estimate_far_from_zero():
    """Return total and mean of values that are far from 0, by default and by the Hájek estimator, with a given row."""
    picked = cs.select(rows(), inputs().losses, BUDGET, seed=SEED, clusters=clustering("plain"), given=[3])
    values = 1000 + inputs().values[picked.ids]
    found = {}
    for name, method in (("default", None), ("hajek", cs.estimators.Hajek())):
        one = cs.estimate(picked, values, method=method)
        found |= {f"{name}_total": interval(one.total), f"{name}_mean": interval(one.mean)}
    return found


def estimate_learned():
    """Return what a default selection learned for estimates, and the default estimate of two columns."""
    picked = cs.select(rows(), inputs().losses, BUDGET, seed=SEED, clusters=clustering("plain"), given=[3])
    found = columns(picked, "learned_share", "unseen", "predictions")
    for name in ("losses", "values"):
        found[name] = interval(cs.estimate(picked, getattr(inputs(), name)[picked.ids]).total)
    return found


def estimate_holder(word, clusters="plain"):
    """Return what each word for Λ gives by itself."""
    found = cs.theory.estimate_holder(clustering(clusters), inputs().losses, rows(), word, seed=SEED)
    return {"values": found.values, "ratios": np.sort(found.ratios), "queries": np.asarray(found.queries)}


def asked(**options):
    """Return the rows that a selection will ask."""
    chosen = strategies(options.pop("pilot", None), options.pop("score", None))
    return {"ids": all_asked(cs.select, BUDGET, inputs().losses, clusters=clustering("plain"), **chosen, **options)}


def all_asked(function, budget, answers, **options):
    """Return every row that a job asks, in the order in which it asks them."""
    run = cs.start(function, rows(), budget, SEED, **options)
    while (pending := run.ask()).size:
        run.tell(pending, answers[pending])
    return run.asked


def planned(**options):
    """Return the parts of a plan that are no times."""
    found = cs.plan(rows(), BUDGET, seed=SEED, **strategies(options.pop("pilot", None), options.pop("score", None)))
    names = ("clusters", "losses_asked", "losses_for_estimate", "passes")
    return {name: np.asarray(getattr(found, name)) for name in names}


def certified(score="sensitivity", difference=False, **options):
    """Return the numbers of a certificate, with and without an upper bound of the losses."""
    clusters, losses = clustering("plain"), inputs().losses
    chosen = strategies("centers-kept" if difference else "centers", score, "independent")
    if difference:
        chosen["score"] = cs.scores.Distance(floor=0.0, holder=per_cluster(12))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.CoresiftWarning)
        picked = cs.select(rows(), losses, 240, seed=SEED, clusters=clusters, **chosen)
    method = (
        cs.estimators.Difference(cs.theory.center_predictions(clusters, losses[clusters.centers]))
        if difference
        else None
    )
    certificate = cs.certify(picked, losses[picked.ids], clustering=clusters, method=method, **options)
    conditional = certificate.conditional
    found = {
        "total": interval(certificate.statistical.estimate.total),
        "kind": np.array([certificate.statistical.kind, conditional.theorem]),
        "cost": np.asarray(conditional.cost),
        "draws": np.array([conditional.draws, conditional.draws_one_sided or 0, conditional.draws_two_sided]),
    }
    for name in ("one_sided", "two_sided"):
        bound = getattr(conditional, name)
        if bound is not None:
            found[name] = np.array([bound.epsilon, bound.error, bound.failure, bound.low, bound.high])
    return found


def completed():
    """Return the weights that make the difference estimator a weighted total, with rows excluded."""
    clusters = clustering("plain")
    exclude = np.setdiff1d(EXCLUDED, clusters.centers)
    picked = cs.select(rows(), inputs().losses, BUDGET, seed=SEED, clusters=clusters, exclude=exclude)
    ids, weights = cs.theory.difference_weights(picked, clusters, exclude)
    predictions = cs.theory.center_predictions(clusters, inputs().losses[clusters.centers], exclude)
    return {"ids": ids, "weights": weights, "predictions": predictions}


def sizes():
    """Return how many draws some errors take."""
    wishes = [(0.05, 0.01), (0.1, 0.05), (0.3, 0.2)]
    alone = [cs.theory.paper_size(epsilon) for epsilon, _ in wishes]
    both = [(cs.theory.paper_size(*wish), cs.theory.difference_size(*wish)) for wish in wishes]
    return {"alone": np.array(alone), "both": np.array(both)}


def in_rounds(count=3, clusters=12, change=None, score=None, **options):
    """Run several rounds, and return what each says; `change` says in which round other losses come, and how."""
    data = inputs()
    options |= strategies(options.pop("pilot", None), score, options.pop("design", None))
    losses = data.losses if options.pop("losses", True) else None
    exclude = options.get("exclude", ())
    run = cs.rounds(rows(), losses, BUDGET, clusters=clusters, rounds=count, seed=SEED, **options)
    found = {}
    for number in range(1, count + 1):
        at, keep = change or (0, False)
        picked = run.next(losses=data.later_losses, keep_answers=keep) if number == at else run.next()
        found |= {f"round{number}_{name}": value for name, value in told(picked, exclude).items()}
        found[f"round{number}_centers"] = run.clustering.centers
    return found


def regressed(score=None, budget=80, labels=True, clusters="median", ridge=1e4, **options):
    """Select for a regression, fit, and return both."""
    options |= strategies(options.pop("pilot", None), score, options.pop("design", None))
    given = inputs().labels if labels else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.CoresiftWarning)
        found = cs.regression.select(rows(), given, budget, seed=SEED, clusters=clustering(clusters), **options)
    result = {**told(found.selection, options.get("exclude") or ()), "asked": found.asked}
    result["losses"] = found.selection.losses
    if labels:
        fits = {"x0": found.x0, "fit": found.fit(), "fit_ridge": found.fit(ridge)}
        result |= {name: np.append(fit.coefficients, fit.intercept) for name, fit in fits.items()}
        result["determination"] = np.asarray(found.determination(fits["fit"]))
    return result


def asked_for_regression(score=None, **options):
    """Return the rows whose labels a regression will ask."""
    chosen = strategies(score=score)
    options = {"clusters": clustering("median"), **chosen, **options}
    return {"ids": np.sort(all_asked(cs.regression.select, 80, inputs().labels, **options))}


def leverages(**options):
    return {"scores": cs.theory.leverage_scores(rows(), **options)}


def diagnosed(clusters="plain", proxy=False, **options):
    """Return the numbers of a diagnosis."""
    proxy = inputs().proxy if proxy else None
    found = cs.diagnose(
        rows(), inputs().losses, BUDGET, seed=SEED, clusters=clustering(clusters), proxy=proxy, **options
    )
    intervals = {"ratio": found.ratio, "explained": found.explained}
    intervals |= {"proxy_ratio": found.proxy_ratio, "violations": found.violations}
    return {
        **{name: interval(one) for name, one in intervals.items() if one is not None},
        "verdict": np.array([found.verdict]),
        "holder": np.array([(line.z, *line.percentiles, line.price) for line in found.holder]),
        "best_z": np.asarray(found.best_z),
        "gaps": np.array([found.gaps.center, found.gaps.random]),
        "nearer": np.asarray(found.gaps.nearer),
        "centers": found.centers,
        "probes": found.probes,
        **ledger(found.ledger),
    }


def probed():
    return {"ids": all_asked(cs.diagnose, BUDGET, inputs().losses, clusters=clustering("plain"), probes=60)}


def baseline(method, matrix=None, budget=60, **options):
    """Select by a baseline."""
    data = inputs()
    if method in {"margin", "least-confidence", "entropy", "badge"}:
        options["probabilities"] = data.probabilities
    if method == "length-matched":
        options["lengths"] = data.lengths
    if method == "cluster-stratified":
        options["clusters"] = clustering("plain")
    if "design" in options:
        options["design"] = DESIGNS[options["design"]]()
    picked = cs.baselines.METHODS[method](rows() if matrix is None else matrix, budget, seed=SEED, **options)
    return told(picked, options.get("exclude") or ())


def without_twins(budget=60, **options):
    """Select by the baseline that looks for duplicates, where there are some."""
    matrix = inputs().twins.astype(np.float32)
    picked = cs.baselines.deduplicated(matrix, budget, seed=SEED, **options)
    return {name: getattr(picked, name) for name in ("ids", "multiplicity", "inclusion", "weights", "order")}


def clustered(k, array=None, **options):
    """Cluster rows (by default the demo's), and return the exact arrays, the large ones as digests."""
    found = cs.cluster(demo().rows if array is None else array, k, seed=SEED, **options)
    parts = {part: np.asarray(getattr(found, part)) for part in CLUSTERING_PARTS if part != "search"}
    return parts | {part: digest(parts[part]) for part in ("free_centers", "distances", "labels")}


def many_rows():
    """Return more rows than 260 centers are learned from, so that the others have to find their centers."""
    scales = np.linspace(2, 0.1, 24, dtype=np.float32)
    return np.random.default_rng(SEED).standard_normal((70_000, 24), np.float32) * scales


def digest(array):
    return np.array([sha256(np.ascontiguousarray(array).tobytes()).hexdigest()])


def rounds_from_rows(**options):
    """Run two rounds on the demo rows."""
    run = cs.rounds(demo().rows, demo().losses, 150, clusters=30, rounds=2, seed=SEED, **options)
    return {f"round{i}_{name}": value for i, one in enumerate(run, 1) for name, value in exact(one).items()}


def regressed_from_rows(**options):
    """Select for a regression of the demo's losses on its rows, and fit."""
    data = demo()
    found = cs.regression.select(data.rows, data.losses, 200, seed=SEED, **options)
    fits = {"x0": found.x0, "fit": found.fit(1.0)}
    result = {name: np.append(fit.coefficients, fit.intercept) for name, fit in fits.items()}
    return exact(found.selection) | result | {"asked": found.asked}


def diagnosed_from_rows():
    found = cs.diagnose(demo().rows, demo().losses, 150, seed=SEED)
    return {"ratio": interval(found.ratio), "explained": interval(found.explained), "probes": found.probes}


def baseline_from_rows(method):
    """Select some of the demo rows by a baseline."""
    data, options = demo(), {}
    if method in {"margin", "least-confidence", "entropy", "badge"}:
        options["probabilities"] = np.random.default_rng(5).dirichlet(np.ones(4), size=len(data.rows))
    if method == "length-matched":
        options["lengths"] = np.random.default_rng(5).integers(3, 90, size=len(data.rows))
    return exact(cs.baselines.METHODS[method](data.rows, 60, seed=SEED, **options))


def files():
    """Return what is kept in files of each kind, by the file's name."""
    options = {"seed": SEED, "clusters": clustering("plain"), "given": GIVEN, "exclude": EXCLUDED}
    saved = {
        "picked": cs.select(rows(), inputs().losses, BUDGET, score=cs.scores.Learned(), **options),
        "predicted": cs.select(rows(), inputs().losses, BUDGET, score=cs.scores.Portfolio(), **options),
        "chosen": cs.baselines.k_center(rows(), 20, seed=SEED),
    }
    kinds = (".parquet", ".csv", ".jsonl")
    found = {f"{name}{kind}": one for name, one in saved.items() for kind in kinds}
    return found | {"clusters.npz": clustering("classes")}


def write_files():
    """Write the files anew, which a new version of their format calls for."""
    FILES.mkdir(exist_ok=True)
    for name, one in files().items():
        cs.save(one, FILES / name)


METHODS = tuple(cs.baselines.METHODS)

# ------------------------------------------------------------------ the table

Case = Callable[[], dict[str, np.ndarray]]
RECIPES = {
    "learned": {"pilot": "representatives", "score": "learned"},
    "paper": {"pilot": "centers", "score": "sensitivity", "design": "independent"},
    "distance": {"losses": False, "score": "distance"},
}
FRAMES = {
    "given": {"given": GIVEN},
    "exclude": {"exclude": EXCLUDED},
    "given-exclude": BOTH,
    "normalize": {"clusters": "unit"},
    "z1": {"clusters": "median"},
    "strata": {"clusters": "classes"},
    "strata-given-exclude": {"clusters": "classes", **BOTH},
}
SELECTIONS: dict[str, Case] = {
    "default": pick,
    "without-losses": partial(pick, losses=False),
    "small-budget": partial(pick, budget=25, score="mixture"),
    "large-budget": partial(pick, budget=400),
    "whole-budget": partial(pick, budget=480),
    "normalize-free": partial(pick, clusters="unit", score="sensitivity-free"),
    "z1-free": partial(pick, clusters="median", score="sensitivity-free"),
    "z1-robust": partial(pick, clusters="median", pilot="centers", score="sensitivity-robust", **BOTH),
    "fine-free": partial(pick, clusters="fine", pilot="centers", score="sensitivity-free", design="independent"),
    "fine-learned": partial(pick, clusters="fine", budget=200, pilot="representatives-more", score="learned"),
    "fine-mixture": partial(pick, clusters="fine", score="mixture", **BOTH),
    "other-seed": partial(pick, seed=12),
    "grown": grown,
    "grown-pivotal": partial(grown, pilot="centers-kept", score="mixture", design="pivotal"),
    "epsilon": partial(pick, budget=None, epsilon=0.2, **RECIPES["paper"]),
    "epsilon-delta": partial(pick, budget=None, epsilon=0.3, delta=0.1, **RECIPES["paper"]),
    **{f"score-{name}": partial(pick, score=name) for name in SCORES if not name.startswith("leverage")},
    **{f"paper-{word}": partial(pick, pilot="centers", score=f"sensitivity-{word}") for word in ("robust", "estimate")},
    # With one row per cluster, two columns of the fit of `Learned` are equal but for rounding, which then decides.
    **{
        f"pilot-{pilot}-{score}": partial(pick, pilot=pilot, score=score)
        for pilot in PILOTS
        for score in ("mixture", "sensitivity", "distance", *(("learned",) if "representatives" in pilot else ()))
    },
    **{
        f"design-{design}-{name}": partial(pick, **recipe | {"design": design})
        for design in DESIGNS
        for name, recipe in (RECIPES | {"kept": {"pilot": "centers-kept", "score": "mixture"}}).items()
    },
    **{
        f"{frame}-{name}": partial(pick, **recipe, **options)
        for frame, options in FRAMES.items()
        for name, recipe in RECIPES.items()
    },
}
ESTIMATES: dict[str, Case] = {
    "groups": estimate_by_group,
    "far-from-zero": estimate_far_from_zero,
    "learned-shares": estimate_learned,
    **{f"holder-{word}": partial(estimate_holder, word) for word in ("free", "robust", "estimate")},
    **{f"holder-{word}-z1": partial(estimate_holder, word, "median") for word in ("free", "robust", "estimate")},
    **{
        f"ask-{score}": partial(asked, score=score)
        for score in ("learned", "sensitivity-robust", "sensitivity-estimate")
    },
    "plan": planned,
    "plan-robust": partial(planned, pilot="centers", score="sensitivity-robust"),
    "certify": certified,
    "certify-upper": partial(certified, upper=9.0, epsilon=0.2, delta=0.1),
    "certify-array": partial(certified, score="sensitivity-array"),
    "certify-difference": partial(certified, difference=True, upper=9.0),
    "difference-weights": completed,
    "sizes": sizes,
}
ROUNDS: dict[str, Case] = {
    "rounds-sampling": in_rounds,
    "rounds-mettu-plaxton": partial(in_rounds, order="mettu-plaxton"),
    "rounds-kept": partial(in_rounds, count=2, pilot="centers-kept"),
    "rounds-kept-mettu-plaxton": partial(in_rounds, count=2, pilot="centers-kept", order="mettu-plaxton"),
    "rounds-frame": partial(in_rounds, count=2, **BOTH),
    "rounds-z1": partial(in_rounds, count=2, z=1.0),
    "rounds-change": partial(in_rounds, change=(2, False)),
    "rounds-change-kept-answers": partial(in_rounds, change=(3, True)),
    "rounds-without-losses": partial(in_rounds, count=2, losses=False),
    **{
        f"rounds-{name}": partial(in_rounds, count=2, score=name)
        for name in ("sensitivity", "sensitivity-robust", "mixture")
    },
    **{
        f"rounds-{design}": partial(in_rounds, count=2, design=design)
        for design in ("systematic", "pivotal", "poisson")
    },
}
REGRESSIONS: dict[str, Case] = {
    "regression": regressed,
    "regression-without-labels": partial(regressed, labels=False),
    "regression-frame": partial(regressed, **BOTH),
    "regression-no-intercept": partial(regressed, intercept=False),
    "regression-leverage-frame": partial(regressed, score="leverage", **BOTH),
    "regression-distance-frame": partial(regressed, score="distance", **BOTH),
    "regression-paper": partial(
        regressed, pilot="centers", score="sensitivity-infinite", design="independent", intercept=False
    ),
    **{
        f"regression-{score}": partial(regressed, score=score)
        for score in (
            "leverage",
            "leverage-ridge",
            "sensitivity",
            "sensitivity-array",
            "mixture",
            "proxy",
            "distance",
        )
    },
    "regression-learned": partial(regressed, pilot="representatives-more", score="learned"),
    **{f"regression-{design}": partial(regressed, design=design) for design in DESIGNS},
    **{
        f"regression-ask-{score}": partial(asked_for_regression, score=score)
        for score in ("distance", "leverage", "mixture")
    },
    "leverage": leverages,
    "leverage-ridge": partial(leverages, ridge=1e6, intercept=True),
}
DIAGNOSES: dict[str, Case] = {
    "diagnose": diagnosed,
    "diagnose-proxy": partial(diagnosed, proxy=True, holder=LAMBDA, probes=100),
    "diagnose-z1": partial(diagnosed, clusters="median", powers=(1.0, 3.0)),
    "diagnose-strata": partial(diagnosed, clusters="classes"),
    "probe": probed,
}
BASELINES: dict[str, Case] = {
    **{f"baseline-{name}": partial(baseline, name) for name in METHODS},
    **{f"baseline-{name}-frame": partial(baseline, name, **BOTH) for name in METHODS},
    **{f"baseline-leverage-{design}": partial(baseline, "leverage", design=design) for design in DESIGNS},
    "baseline-leverage-few": lambda: baseline("leverage", np.where(np.arange(480)[:, None] < 40, rows(), 0)),
    "baseline-deduplicated-twins": without_twins,
    "baseline-deduplicated-near": partial(without_twins, budget=20, near=0.5),
}
CASES: dict[str, Case] = SELECTIONS | ESTIMATES | ROUNDS | REGRESSIONS | DIAGNOSES | BASELINES
ROW_CASES: dict[str, Case] = {
    "rows-cluster": partial(clustered, 30),
    "rows-cluster-many": partial(clustered, 300),
    "rows-cluster-many-exact": partial(clustered, 300, exact=True),
    "rows-cluster-quantized": lambda: clustered(260, many_rows()),
    "rows-cluster-z1": partial(clustered, 30, z=1.0),
    "rows-cluster-normalize": partial(clustered, 30, normalize=True),
    "rows-cluster-strata": lambda: clustered(30, strata=demo().classes),
    "rows-select": everything,
    "rows-select-without-losses": partial(everything, losses=False),
    "rows-select-strata": lambda: everything(strata=demo().classes),
    "rows-select-normalize": partial(everything, normalize=True, z=1.0),
    "rows-select-free": lambda: everything(**strategies("centers", "sensitivity-free", "independent")),
    "rows-select-signals": lambda: everything(signals={"length": np.abs(demo().rows).sum(axis=1)}),
    "rows-select-portfolio": lambda: everything(score=cs.scores.Portfolio(), strata=demo().classes),
    "rows-rounds": rounds_from_rows,
    "rows-rounds-mettu-plaxton": partial(rounds_from_rows, order="mettu-plaxton"),
    "rows-regression": regressed_from_rows,
    "rows-regression-leverage": lambda: regressed_from_rows(**strategies(score="leverage")),
    "rows-diagnose": diagnosed_from_rows,
    **{f"rows-baseline-{name}": partial(baseline_from_rows, name) for name in METHODS},
}


# ------------------------------------------------------------------ coverage and active learning


def covered(matrix, **options):
    """Choose rows that cover all."""
    found = cs.cover(matrix, 60, seed=SEED, **options)
    return {name: getattr(found, name) for name in ("ids", "order", "origin", "represents", "representative")}


def evaluated(**options):
    """Evaluate, and return which rows were asked, in which stages, and every figure."""
    run = cs.evaluate(seed=SEED, **options)
    found = run.complete()
    figures = [*found.figures.values(), *found.groups.values()]
    numbers = [(one.value, one.low, one.high, one.standard_error, one.effective_sample_size) for one in figures]
    return {"asked": run.asked, "stages": np.array(found.stages), "figures": np.array(numbers, np.float64)}


def expected(**options):
    """Return signals from the results of four models that were judged in two ways."""
    return cs.signals.history(
        inputs().probabilities[:, :4], kinds=["mild", "strict", "mild", "strict", "mild"], **options
    )


def sentences():
    """Return answers of five models, which differ in words, lengths and form."""
    words = ["yes", "no", "perhaps", "- sure", "never!", "if so,", "then"]
    return [
        [" ".join(words[(row * (model + 2) + step) % 7] for step in range((row + 3 * model) % 11)) for row in range(n)]
        for model, n in enumerate([len(inputs().losses)] * 5)
    ]


def guesses(shift=0):
    """Return predictions of four classes, and other ones."""
    return np.roll(inputs().probabilities, shift, axis=0).argmax(axis=1)


def learned(matrix, labels, budget=120, **options):
    """Label all that a run asks, and return the rows with their rounds, and the audits."""
    found = cs.active_learning(matrix, budget, rounds=3, labels=lambda ids: labels[ids], seed=SEED, **options)
    selection = found.complete()
    audits = [(one.trained_on, one.rows, one.value, one.low, one.high) for one in found.audits]
    result = {name: getattr(selection, name) for name in ("ids", "order", "rounds")}
    return result | {"audits": np.array(audits, np.float64).reshape(-1, 5)}


CASES |= {
    "cover": lambda: covered(rows()),
    "cover-frame": lambda: covered(rows(), **BOTH),
    "cover-importance": lambda: covered(rows(), importance=inputs().losses),
}
ROW_CASES |= {
    "rows-cover": lambda: covered(demo().rows, normalize=True),
    "rows-active-learning": lambda: learned(demo().rows, demo().classes, audit=50),
    "rows-active-learning-numeric": lambda: learned(demo().rows, demo().losses, audit=None, numeric=True),
}
EVALUATIONS = {
    "evaluate-mean": lambda: evaluated(values=inputs().losses, signals={"proxy": inputs().proxy}, budget=120),
    "evaluate-within": lambda: evaluated(values=inputs().losses, signals=inputs().proxy, within=0.1),
    "evaluate-quantile": lambda: evaluated(values=inputs().losses, n=480, metric="p95", budget=150),
    "evaluate-rate": lambda: evaluated(values=inputs().losses > 1, n=480, metric="rate", budget=100),
    "evaluate-chances": lambda: evaluated(
        values=inputs().losses > 1, signals={"proxy": inputs().proxy}, metric="rate", budget=100
    ),
    "evaluate-f1": lambda: evaluated(
        labels=inputs().classes, predictions=guesses(), metric=cs.evaluation.F1(positive=1), budget=150
    ),
    "evaluate-difference": lambda: evaluated(
        labels=inputs().classes, predictions={"A": guesses(), "B": guesses(3), "C": guesses(5)}, budget=120
    ),
    "evaluate-groups": lambda: evaluated(
        values=inputs().losses, signals={"length": inputs().lengths}, groups=inputs().classes, group_within=0.3
    ),
    "evaluate-history": lambda: evaluated(
        values=inputs().losses, signals=cs.signals.history(inputs().probabilities), budget=100
    ),
    "evaluate-kinds": lambda: evaluated(values=inputs().losses, signals=expected(), budget=100),
    "evaluate-texts": lambda: evaluated(values=inputs().losses, signals=expected(texts=sentences()), budget=100),
}
CASES |= EVALUATIONS
EVERY_CASE: dict[str, Case] = CASES | ROW_CASES
# Cases whose score predicts losses from features.
PREDICTING = {"learned-shares", "default", "large-budget", "other-seed", "grown", "groups", "difference-weights"}
PREDICTING |= set(EVALUATIONS)
PREDICTING |= {"diagnose", "diagnose-proxy", "diagnose-z1", "diagnose-strata"}


# ------------------------------------------------------------------ running and storing


def run(name):
    """Return the arrays of a case; that some rows can never come out is known here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*have probability 0.*", cs.CoresiftWarning)
        return {key: np.asarray(value) for key, value in EVERY_CASE[name]().items()}


def stored(name):
    """Return what is stored of a case."""
    with np.load(HOME / f"{name}.npz") as found:
        return {key: found[key] for key in found.files}


def differences(found, expected, *, exactly, near=NEAR):
    """Return a sentence for every array that is not as stored."""
    if found.keys() != expected.keys():
        return [f"arrays {sorted(found.keys() ^ expected.keys())} are there only once"]
    return [f"{name}: {why}" for name in expected if (why := difference(found[name], expected[name], exactly, near))]


def nearness(name):
    """Return how near floating-point numbers of a case must be to the stored ones, as a part of the largest."""
    return NEAR_PREDICTIONS if name in PREDICTING else NEAR


def difference(found, expected, exactly, near=NEAR):
    """Return how an array differs from the stored one: whole numbers and texts at all, others by more than rounding."""
    if found.shape != expected.shape:
        return f"shape {found.shape} instead of {expected.shape}"
    if expected.dtype.kind != "f":
        return "" if np.array_equal(found, expected) else f"{found.tolist()} instead of {expected.tolist()}"
    if exactly:
        return "" if found.dtype == expected.dtype and found.tobytes() == expected.tobytes() else "other bytes"
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    close = np.isclose(found, expected, rtol=near, atol=near * largest, equal_nan=True)
    return "" if close.all() else f"{found[~close][:3]} instead of {expected[~close][:3]}, {(~close).sum()} in all"


def first_broken(names):
    """Return the first of these cases that does not give what is stored, or nothing."""
    for name in names:
        try:
            same = not differences(run(name), stored(name), exactly=name in ROW_CASES, near=nearness(name))
        except Exception:  # whatever an error in the source raises
            same = False
        if not same:
            return name
    return ""


def check_rows():
    """Return what differs from the stored bytes in each case from rows, by name."""
    return {name: differences(run(name), stored(name), exactly=True) for name in ROW_CASES}


def with_pinned_kernels():
    """Run this command again with the kernels that the bytes were made with: processors round in other places."""
    if any(os.environ.get(name) != value for name, value in KERNELS.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | KERNELS)


def renew(names):
    """Store what the named cases give now."""
    for name in names:
        np.savez_compressed(HOME / f"{name}.npz", **run(name))
        print(f"renewed {name}")


def main():
    """Check or renew the cases that the command line names."""
    parser = argparse.ArgumentParser(description="Check golden cases, or store their results anew.")
    told = "cases; 'missing' for new ones, or 'files' for the files that are to load in all versions to come"
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--check", nargs="*", metavar="NAME", help="print the first of these cases that is broken")
    task.add_argument("--renew", nargs="+", metavar="NAME", help=told)
    task.add_argument("--check-rows", action="store_true", help="print what differs in each case from rows, as JSON")
    told = parser.parse_args()
    if told.check is not None:
        return print(cs.__file__, first_broken(told.check or CASES), sep="\n")
    with_pinned_kernels()
    if told.check_rows:
        return print(json.dumps(check_rows()))
    names = told.renew
    if names == ["files"]:
        return write_files()
    if names == ["missing"]:
        names = [name for name in EVERY_CASE if not (HOME / f"{name}.npz").exists()]
    unknown = [name for name in names if name not in EVERY_CASE]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    return renew(names)


if __name__ == "__main__":
    main()
