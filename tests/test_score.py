"""Scores: closed forms, a slow twin of the fit, and what must never happen."""

import numpy as np
import pytest
from scipy.optimize import nnls

import coresift as cs
from coresift.types import Evidence, Frame, PilotSample


def evidence(seed=0, n=200, k=8, pilot=None, losses=None):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 3)).astype(np.float32)
    clustering = cs.cluster(rows, k, seed=seed)
    frame = Frame(n, np.zeros(0), np.zeros(0))
    strategy = cs.pilots.Representatives() if pilot is None else pilot
    plan = strategy.plan(clustering, frame, 60)
    chance = plan.inclusion > 0 if strategy == cs.pilots.Centers() else rng.random(n) < plan.inclusion
    ids = np.flatnonzero(chance)
    values = rng.exponential(size=ids.size) if losses is None else np.full(ids.size, losses)
    return Evidence(clustering, frame, PilotSample(ids, plan), values)


def test_cluster_losses_are_the_centers_own_in_the_paper_s_pilot():
    known = evidence(pilot=cs.pilots.Centers())
    by_row = dict(zip(known.pilot.ids.tolist(), known.losses.tolist(), strict=True))
    assert known.cluster_losses().tolist() == pytest.approx([by_row[row] for row in known.clustering.centers.tolist()])


def test_mixture_and_distance_are_their_formulas():
    known = evidence(pilot=cs.pilots.Centers())
    clustering = known.clustering
    levels = known.cluster_losses()[clustering.labels]
    v = clustering.powers
    expected = 0.25 * levels / levels.sum() + 0.25 * v / v.sum() + 0.5 / clustering.n
    np.testing.assert_allclose(cs.scores.Mixture().scores(known).sizes, expected)
    np.testing.assert_allclose(cs.scores.Distance().scores(known).sizes, 0.5 * v / v.sum() + 0.5 / clustering.n)
    np.testing.assert_allclose(cs.scores.Distance(floor=0).scores(known).sizes, v / v.sum())
    holder = np.arange(1.0, clustering.k + 1)
    scaled = holder[clustering.labels] * v
    found = cs.scores.Distance(floor=0.1, holder=holder).scores(known)
    np.testing.assert_allclose(found.sizes, 0.9 * scaled / scaled.sum() + 0.1 / clustering.n)
    np.testing.assert_array_equal(found.holder, holder)


def test_proxy_is_its_formula_and_is_walked_by_the_proxy():
    known = evidence()
    cheap = np.random.default_rng(1).exponential(size=known.clustering.n)
    scores = cs.scores.Proxy(cheap, floor=0.1).scores(known)
    np.testing.assert_allclose(scores.sizes, 0.9 * cheap / cheap.sum() + 0.1 / cheap.size)
    assert np.all(np.diff(cheap[scores.order]) >= 0)


def test_learned_equals_a_plain_fit():
    known = evidence(seed=5)
    clustering, pilot, losses = known.clustering, known.pilot, known.losses
    n, k = clustering.n, clustering.k
    w = 1 / pilot.inclusion
    overall = (w * losses).sum() / w.sum()
    members = {j: [i for i, row in enumerate(pilot.ids) if clustering.labels[row] == j] for j in range(k)}
    v = clustering.powers
    lines, targets = [], []
    for i, row in enumerate(pilot.ids):
        same = [losses[m] for m in members[clustering.labels[row]] if m != i]
        lines.append([overall, (sum(same) + 0.5 * overall) / (len(same) + 0.5), overall * v[row] / v.mean()])
        targets.append(losses[i])
    root = np.sqrt(w)
    factors, _ = nnls(np.array(lines) * root[:, None], np.array(targets) * root)
    mean = [(sum(losses[i] for i in members[j]) + 0.5 * overall) / (len(members[j]) + 0.5) for j in range(k)]
    by_row = [
        factors[0] * overall + factors[1] * mean[clustering.labels[e]] + factors[2] * overall * v[e] / v.mean()
        for e in range(n)
    ]
    expected = 0.5 * np.array(by_row) / sum(by_row) + 0.5 * (0.4 * v / v.sum() + 0.6 / n)
    np.testing.assert_allclose(cs.scores.Learned().scores(known).sizes, expected, rtol=1e-6)


@pytest.mark.parametrize("losses", [0.0, 1e-300, 1e300])
def test_learned_has_a_floor_whatever_the_losses(losses):
    known = evidence(losses=losses)
    sizes = cs.scores.Learned().scores(known).sizes
    assert np.all(np.isfinite(sizes))
    assert sizes.min() >= 0.29 / known.clustering.n


def test_learned_finds_a_cluster_of_high_losses():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(950, 2)), rng.normal(size=(50, 2)) + 30]).astype(np.float32)
    losses = np.where(np.arange(1000) < 950, 0.01, 5.0)
    picked = cs.select(rows, losses, 100, clusters=10)
    assert (picked.ids >= 950).sum() > 25


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: cs.scores.Sensitivity(holder=-1), "holder"),
        (lambda: cs.scores.Sensitivity(holder=[0.1, np.nan]), "holder"),
        (lambda: cs.scores.Mixture(loss=0.6, distance=0.4), "floor"),
        (lambda: cs.scores.Distance(floor=1.5), "floor"),
        (
            lambda: cs.scores.Distance(holder=0.5),
            "holder must be finite numbers of at least 0, one per cluster, or None",
        ),
        (lambda: cs.scores.Distance(holder=[1.0, -1.0]), "holder must be finite numbers of at least 0"),
        (lambda: cs.scores.Proxy([1.0, -1.0]), "row 1"),
        (lambda: cs.scores.Proxy([1.0, 1.0], floor=0.0), "floor"),
        (lambda: cs.scores.Learned(floor=0.0), "floor"),
    ],
)
def test_options_are_checked(make, sentence):
    with pytest.raises(cs.CoresiftError, match=sentence):
        make()


def test_sizes_that_do_not_fit_the_data_are_refused():
    known = evidence()
    with pytest.raises(cs.InputError, match="one for each of 8 clusters; got 3"):
        cs.scores.Sensitivity(holder=[1.0, 2.0, 3.0]).scores(known)
    with pytest.raises(cs.InputError, match="each of 200 rows; got 5"):
        cs.scores.Proxy(np.ones(5)).scores(known)
