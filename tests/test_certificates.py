"""Certificates: intervals that hold for any number of draws, and bounds that hold if the loss is well-behaved."""

import dataclasses
import math

import numpy as np
import pytest

import coresift as cs
from coresift.bounds import difference_error, paper_error
from coresift.notebook import interval_texts

PAPER = {"pilot": cs.pilots.Centers(), "design": cs.designs.Independent()}


@dataclasses.dataclass
class World:
    """Rows whose losses are as far from their centers' as Λ allows, up or down at random: the worst case."""

    rows: cs.rows.Rows
    clustering: cs.Clustering
    holder: np.ndarray
    losses: np.ndarray

    @property
    def cost(self):
        return sum(
            self.holder[label] * float(distance) ** self.clustering.z
            for label, distance in zip(self.clustering.labels, self.clustering.distances, strict=True)
        )


def world(width, level, seed=0, n=1500, k=12, z=2.0):
    rng = np.random.default_rng(seed)
    middles = rng.normal(size=(k, 3)) * 10
    rows = (middles[rng.integers(k, size=n)] + width * rng.normal(size=(n, 3))).astype(np.float32)
    clustering = cs.cluster(rows, k, z=z, seed=seed)
    holder = rng.uniform(0.2, 2.0, size=clustering.k)
    away = holder[clustering.labels] * clustering.powers
    losses = level * rng.uniform(1, 2, size=clustering.k)[clustering.labels] + rng.choice([-1, 1], size=n) * away
    assert losses.min() >= 0
    return World(cs.open_rows(rows), clustering, holder, losses)


LOOSE, TIGHT = world(width=1.0, level=60.0), world(width=0.02, level=60.0)


def sensitivity(at, budget, seed):
    return cs.select(
        at.rows, at.losses, budget, seed, clusters=at.clustering, score=cs.scores.Sensitivity(at.holder), **PAPER
    )


def by_distance(at, draws, seed):
    parts = {"pilot": cs.pilots.Centers(keep=True), "score": cs.scores.Distance(floor=0, holder=at.holder)}
    budget = draws + at.clustering.k
    return cs.select(at.rows, at.losses, budget, seed, clusters=at.clustering, design=cs.designs.Independent(), **parts)


def from_centers(at):
    return cs.estimators.Difference(cs.theory.center_predictions(at.clustering, at.losses[at.clustering.centers]))


# What the theory promises


@pytest.mark.slow
@pytest.mark.parametrize("at", [LOOSE, TIGHT], ids=["loose clusters", "tight clusters"])
def test_the_difference_is_within_epsilon_of_the_cost_alone(at):
    """400 seeds, ε = 0.2, δ = 0.1: the bound must not fail in more than δ of them; it does in 5 to 15 of 1,000.

    A draw brings ±Φ^Λ, so the mean square of the error is Φ²/s; that of 400 seeds is within 25 % of it.
    """
    epsilon, delta, errors, plain = 0.2, 0.1, [], []
    draws, method = cs.theory.difference_size(epsilon, delta), from_centers(at)
    predicted, truth = at.losses[at.clustering.centers][at.clustering.labels].sum(), at.losses.sum()
    for seed in range(400):
        picked = by_distance(at, draws, seed)
        errors.append(method.adjust(picked, at.losses[picked.ids]).total(picked) - truth)
        plain.append(abs(picked.weights @ at.losses[picked.ids] - truth))
    assert np.mean(np.abs(errors) > epsilon * at.cost) <= delta / 3
    assert np.mean(np.square(errors)) == pytest.approx(at.cost**2 / draws, rel=0.25)
    if at is TIGHT:
        assert predicted > 500 * at.cost
        assert np.median(plain) > 10 * epsilon * at.cost  # the same draws without the difference


@pytest.mark.slow
@pytest.mark.parametrize("at", [LOOSE, TIGHT], ids=["loose clusters", "tight clusters"])
def test_the_paper_s_bound_holds_as_often_as_it_says(at):
    """200 seeds at δ = 0.2: none fails, as errors are far smaller, and as large as those of 80 such draws are."""
    truth, errors = at.losses.sum(), []
    for seed in range(200):
        picked = sensitivity(at, 80, seed)
        certificate = cs.certify(picked, at.losses[picked.ids], clustering=at.clustering, delta=0.2)
        bound, total = certificate.conditional.two_sided, certificate.statistical.estimate.total.value
        off = abs(total - truth) > bound.epsilon * (truth + 2 * at.cost)
        assert off == (not bound.low <= truth <= bound.high)
        assert not off
        errors.append(total - truth)
    levels = at.losses[at.clustering.centers][at.clustering.labels]
    sizes = levels + at.holder[at.clustering.labels] * at.clustering.powers
    one_draw = (at.losses**2 / sizes).sum() * sizes.sum() - truth**2
    assert np.mean(np.square(errors)) == pytest.approx(one_draw / 80, rel=0.4)


@pytest.mark.slow
@pytest.mark.parametrize("keep", [False, True])
def test_finite_sample_intervals_cover_as_often_as_they_say(keep):
    """60 seeds at 80 %: such bounds are wide, and all cover; the next test has their exact width."""
    at, upper = LOOSE, LOOSE.losses.max()
    for seed in range(60):
        parts = {
            "pilot": cs.pilots.Centers(keep=keep),
            "score": cs.scores.Distance(),
            "design": cs.designs.Independent(),
        }
        picked = cs.select(at.rows, at.losses, 300, seed, clusters=at.clustering, **parts)
        values = at.losses[picked.ids]
        for method in (None, from_centers(at)):
            part = cs.certify(picked, values, upper=upper, confidence=0.8, method=method).statistical
            assert part.kind == "finite-sample"
            assert part.estimate.total.low <= at.losses.sum() <= part.estimate.total.high


# The arithmetic


@pytest.mark.parametrize("keep", [False, True])
def test_the_finite_sample_interval_is_the_textbook_one(keep):
    at = LOOSE
    parts = {
        "pilot": cs.pilots.Centers(keep=keep),
        "score": cs.scores.Distance(floor=0.9),
        "design": cs.designs.Independent(),
    }
    picked = cs.select(at.rows, at.losses, 1400, clusters=at.clustering, **parts)
    values, upper = at.losses[picked.ids], 130.0
    total = cs.certify(picked, values, upper=upper, confidence=0.9).statistical.estimate.total
    drawn = picked.phase == 2
    draws = []
    for value, inclusion, times in zip(values[drawn], picked.inclusion[drawn], picked.multiplicity[drawn], strict=True):
        draws += [value / inclusion] * times
    s, mean = len(draws), sum(draws) / len(draws)
    variance = sum((one - mean) ** 2 for one in draws) / (s - 1)
    sizes = 0.1 * at.clustering.powers / at.clustering.powers.sum() + 0.9 / at.rows.n
    left = np.setdiff1d(np.arange(at.rows.n), picked.ids[picked.phase == 1])
    assert s == 1400 - keep * at.clustering.k
    longest = upper * sizes[left].sum() / (s * sizes[left].min())
    doubt = math.log(4 / 0.1)
    away = s * (math.sqrt(2 * variance * doubt / s) + 7 * longest * doubt / (3 * (s - 1)))
    assert total.value == pytest.approx(picked.weights @ values)
    assert total.high == pytest.approx(total.value + away)
    assert total.low == pytest.approx(max(total.value - away, values.sum()))


def test_known_losses_limit_the_interval():
    at = LOOSE
    picked = sensitivity(at, 14, 0)
    values, upper = at.losses[picked.ids], 200.0
    total = cs.certify(picked, values, upper=upper).statistical.estimate.total
    assert (total.low, total.high) == pytest.approx((values.sum(), values.sum() + upper * (1500 - len(picked))))


@pytest.mark.parametrize("z", [1.0, 2.0])
def test_the_conditional_part_is_the_paper_s_arithmetic(z):
    at = world(width=0.5, level=30.0, seed=4, z=z)
    picked = sensitivity(at, 500, 1)
    values = at.losses[picked.ids]
    certificate = cs.certify(picked, values, clustering=at.clustering, epsilon=0.3, delta=0.01)
    part, total = certificate.conditional, certificate.statistical.estimate.total.value
    assert part.theorem == "sampling"
    assert part.cost == pytest.approx(at.cost)
    assert part.draws == 500
    assert part.one_sided.epsilon**-2 * (2 + 2 * part.one_sided.epsilon / 3) == pytest.approx(500)
    assert part.two_sided.epsilon**-2 * (2 + 2 * part.two_sided.epsilon / 3) * math.log(2 / 0.01) == pytest.approx(500)
    for bound in (part.one_sided, part.two_sided):
        assert bound.error == pytest.approx(bound.epsilon * (total + 2 * at.cost))
        assert total - bound.low == pytest.approx(bound.epsilon * (bound.low + 2 * at.cost))
        assert bound.high - total == pytest.approx(bound.epsilon * (bound.high + 2 * at.cost))
    assert (part.one_sided.failure, part.two_sided.failure) == (1 / math.e, 0.01)
    assert (part.draws_one_sided, part.draws_two_sided) == (cs.theory.paper_size(0.3), cs.theory.paper_size(0.3, 0.01))


def test_kept_centers_are_known_and_not_part_of_the_bound():
    at = LOOSE
    parts = {
        "pilot": cs.pilots.Centers(keep=True),
        "score": cs.scores.Sensitivity(at.holder),
        "design": cs.designs.Independent(),
    }
    picked = cs.select(at.rows, at.losses, 400, clusters=at.clustering, **parts)
    values = at.losses[picked.ids]
    bound = cs.certify(picked, values, clustering=at.clustering).conditional.two_sided
    certain = at.losses[at.clustering.centers].sum()
    rest = picked.weights @ values - certain
    assert bound.epsilon == pytest.approx(paper_error(400 - at.clustering.k, 0.05))
    assert bound.error == pytest.approx(bound.epsilon * (rest + 2 * at.cost))


def test_errors_and_sizes_are_inverse():
    for epsilon in (0.03, 0.2, 0.7):
        assert paper_error(cs.theory.paper_size(epsilon)) <= epsilon < paper_error(cs.theory.paper_size(epsilon) - 1)
        assert paper_error(cs.theory.paper_size(epsilon, 0.1), 0.1) <= epsilon
        assert difference_error(cs.theory.difference_size(epsilon, 0.1), 0.1) <= epsilon
        assert difference_error(cs.theory.difference_size(epsilon, 0.1) - 1, 0.1) > epsilon


# What is said, and when


def unbiased(selection):
    """Return the estimator of a certificate; `estimate` may take a biased one with a smaller variance."""
    predicts = selection.predicted.size > 0
    return cs.estimators.LearnedDifference() if predicts else cs.estimators.HorvitzThompson()


def test_without_a_bound_the_interval_is_that_of_estimate_and_says_so():
    at = LOOSE
    picked = cs.select(at.rows, at.losses, 200, clusters=at.clustering)
    values = at.losses[picked.ids]
    certificate = cs.certify(picked, values, confidence=0.9)
    assert certificate.statistical.kind == "asymptotic"
    assert certificate.statistical.estimate == cs.estimate(picked, values, confidence=0.9, method=unbiased(picked))
    assert certificate.conditional is None
    assert certificate.statistical.largest_weight == picked.weights.max()
    assert certificate.statistical.effective_size == pytest.approx(
        picked.weights.sum() ** 2 / (picked.weights**2).sum()
    )
    assert "Conditional" not in str(certificate)


NEEDS = {
    "independent draws": ({}, None),
    "a pilot that is not random": ({"design": cs.designs.Independent()}, None),
    "every row to have a probability above 0": (
        {"pilot": cs.pilots.Centers(), "score": cs.scores.Distance(floor=0), "design": cs.designs.Independent()},
        None,
    ),
    "an unbiased method": (
        {"score": cs.scores.Distance(), "design": cs.designs.Independent()},
        cs.estimators.GeneralizedRegression(np.arange(1500.0)),
    ),
}


@pytest.mark.parametrize("need", NEEDS)
@pytest.mark.filterwarnings("ignore::coresift.CoresiftWarning")
def test_a_bound_is_of_no_use_where_the_inequality_does_not_apply(need):
    at, (options, method) = LOOSE, NEEDS[need]
    picked = cs.select(at.rows, at.losses, 200, clusters=at.clustering, **options)
    part = cs.certify(picked, at.losses[picked.ids], upper=1e6, method=method).statistical
    assert part.kind == "asymptotic"
    assert f"a finite-sample interval needs {need}" in part.why
    assert part.estimate == cs.estimate(picked, at.losses[picked.ids], method=method or unbiased(picked))


def test_all_rows_are_exact():
    at = LOOSE
    picked = cs.select(at.rows, at.losses, at.rows.n)
    part = cs.certify(picked, at.losses, upper=1e6).statistical
    assert part.kind == "exact"
    assert part.estimate.total.low == part.estimate.total.high == pytest.approx(at.losses.sum())


def test_theorems_speak_only_of_what_they_are_about():
    at, k = LOOSE, LOOSE.clustering.k
    paper = sensitivity(at, 200, 0)

    def part(picked, **options):
        return cs.certify(picked, at.losses[picked.ids], clustering=at.clustering, **options).conditional

    silent = [
        part(cs.select(at.rows, at.losses, 200, clusters=at.clustering), holder=1.0),
        part(paper, holder=1.0),
        part(paper, method=cs.estimators.GeneralizedRegression(np.arange(1500.0))),
        part(paper, method=from_centers(at)),
        part(by_distance(at, 200, 0)),
        part(by_distance(at, 200, 0), method=cs.estimators.Difference(np.zeros(1500))),
        part(by_distance(at, 200, 0), method=from_centers(at), holder=np.arange(1.0, k + 1)),
    ]
    for one in silent:
        assert (one.theorem, one.one_sided, one.two_sided) == ("", None, None)
        assert "no theorem covers this" in str(one)
    told = part(by_distance(at, 200, 0), method=from_centers(at), delta=0.1, epsilon=0.2)
    assert told.theorem == "difference"
    assert told.two_sided.error == pytest.approx(difference_error(200, 0.1) * at.cost)
    assert (told.draws_one_sided, told.draws_two_sided) == (None, cs.theory.difference_size(0.2, 0.1))


def test_both_parts_are_told_apart_in_words(tmp_path):
    at = LOOSE
    picked = sensitivity(at, 300, 0)
    certificate = cs.certify(picked, at.losses[picked.ids], upper=150.0, clustering=at.clustering)
    first, second = str(certificate).split("\n\n")
    assert first.startswith("Statistical, finite-sample: ")
    assert second.startswith("Conditional: if every loss is within Λ·distance^2 of its center's")
    total, bound = certificate.statistical.estimate.total, certificate.conditional.two_sided
    value, low, high = interval_texts(total.value, total.low, total.high)
    assert f"{value}, 95% interval {low} to {high}" in first
    assert f"largest weight {picked.weights.max():,.6g}" in first
    assert f"Φ^Λ = {at.cost:,.6g}" in second
    assert f"from {bound.low:,.6g} to {bound.high:,.6g}" in second
    for suffix in ("parquet", "csv"):
        loaded = cs.load(cs.save(picked, tmp_path / f"picked.{suffix}"))
        assert cs.certify(loaded, at.losses[picked.ids], upper=150.0, clustering=at.clustering) == certificate


def test_it_warns_when_the_loss_sits_in_a_hundredth_of_the_rows():
    at = LOOSE
    losses = np.where(np.arange(1500) < 10, 1000.0, 0.1)
    picked = cs.select(at.rows, at.losses, 400, clusters=at.clustering, given=np.arange(10))
    assert cs.certify(picked, losses[picked.ids]).warnings
    assert not cs.certify(picked, at.losses[picked.ids]).warnings
    assert "warning" in str(cs.certify(picked, losses[picked.ids]))


def test_what_cannot_be_used_is_refused():
    at = LOOSE
    picked = cs.select(at.rows, at.losses, 100, clusters=at.clustering)
    values = at.losses[picked.ids]
    for options, sentence in [
        ({"upper": 1.0}, "upper must be at least the largest observed loss"),
        ({"upper": -1.0}, "upper must be a finite number above 0"),
        ({"holder": 1.0}, "holder needs the clustering too"),
        ({"clustering": at.clustering}, "holder must say which Λ to use"),
        ({"clustering": at.clustering, "holder": [1.0, 2.0]}, "holder must be a finite number .* or 12 such"),
        ({"clustering": at.clustering, "holder": -1.0}, "holder must be a finite number of at least 0"),
        ({"clustering": at.clustering, "holder": "high"}, "holder must be a number, or one per cluster; got str"),
        ({"clustering": TIGHT.clustering, "holder": 1.0}, "not the one that the selection was made with"),
        ({"epsilon": 0}, "epsilon must be"),
        ({"delta": 2}, "delta must be"),
        ({"confidence": 95}, "confidence must be"),
    ]:
        with pytest.raises(cs.InputError, match=sentence):
            cs.certify(picked, values, **options)
    with pytest.raises(cs.checks.AnswerError, match="losses must be finite and at least 0; row"):
        cs.certify(picked, -values)
    with pytest.raises(cs.InputError, match="no weights"):
        cs.certify(cs.baselines.k_center(at.rows, 5), values[:5])
