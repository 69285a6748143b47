"""Where rows say little about their labels, batches are random: how that is measured, and that runs stay repeatable."""

import numpy as np
import pytest

import coresift as cs
from coresift.cli.labeling import progress_of
from coresift.engine import Local
from coresift.learning import complete, steps
from coresift.learning.skill import ENOUGH, IMAGINED, LITTLE, random_share, skill


def unrelated(n=1500, seed=0):
    """Rows that say nothing about their labels."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 6)).astype(np.float32), rng.choice(["a", "b", "c"], n).astype(object)


def related(n=1500, seed=0):
    """Rows that say almost everything about their labels."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(3, size=n)
    return (4 * rng.normal(size=(3, 6))[codes] + rng.normal(size=(n, 6))).astype(np.float32), np.array(list("abc"))[
        codes
    ].astype(object)


def requests_of(x, y, **options):
    """Return every request of a run, and what was learned."""
    run = steps(x, 800, rounds=5, progress=False, **options)
    requests = [next(run)]
    try:
        while True:
            requests.append(run.send(y[requests[-1].ids]))
    except StopIteration as stop:
        return requests, stop.value


def test_the_ends_of_the_ramp():
    assert random_share(1.0) == random_share(ENOUGH) == 0
    assert random_share(LITTLE) == random_share(-3.0) == 1
    shares = [random_share(value) for value in np.linspace(LITTLE, ENOUGH, 30)]
    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) == 30


@pytest.mark.parametrize("seed", range(5))
def test_skill_counts_labels_one_by_one(seed):
    rng = np.random.default_rng(seed)
    right = rng.choice([0.0, 1.0, np.nan], 80)
    labels = rng.choice(["a", "b", "c"], 80, p=[0.6, 0.3, 0.1])
    tested = [(value, label) for value, label in zip(right, labels, strict=True) if value in (0, 1)]
    counts = [sum(label == name for _, label in tested) for name in "abc"]
    accuracy, chance = sum(value for value, _ in tested) / len(tested), max(counts) / len(tested)
    plain = (accuracy - chance) / (1 - chance)
    expected = (len(tested) * plain + IMAGINED) / (len(tested) + IMAGINED)
    assert skill(right, labels) == pytest.approx(expected)


def test_without_evidence_rows_are_trusted():
    assert skill(np.full(9, np.nan), np.array(["a"] * 9)) == 1
    assert skill(np.ones(9), np.array(["a"] * 9)) == 1
    assert skill(np.zeros(0), np.zeros(0, object)) == 1


def test_batches_become_random_where_rows_say_nothing():
    x, y = unrelated()
    requests, learned = requests_of(x, y)
    batches = [request for request in requests if request.reason != "audit"]
    assert [request.reason for request in batches] == ["coverage", "mixed", "random", "random", "random"]
    reasons = np.array(learned.reasons)
    shares = [float((reasons[learned.rounds == number] == "random").mean()) for number in (1, 2, 3)]
    assert 0 == shares[0] < shares[1] < shares[2]
    assert len(set(learned.ids.tolist())) == 800
    assert learned.labels.tolist() == y[learned.ids].tolist()


def test_no_row_is_random_where_rows_say_much():
    x, y = related()
    assert {request.reason for request in requests_of(x, y)[0]} == {"coverage", "uncertainty", "audit"}


def test_numbers_have_no_random_rows():
    x, _ = unrelated()
    y = np.random.default_rng(1).normal(size=len(x))
    assert {request.reason for request in requests_of(x, y, numeric=True)[0]} == {"coverage", "uncertainty", "audit"}


def test_own_probabilities_and_own_heads_are_judged_by_the_rows():
    x, y = unrelated()
    codes = np.searchsorted(["a", "b", "c"], y.astype(str))
    called = []

    def perfect(number, ids, labels):
        called.append(number)
        return np.eye(3)[codes]

    requests, learned = requests_of(x, y, probabilities=perfect, classes=["a", "b", "c"])
    assert [request.reason for request in requests if request.reason != "audit"][1:] == ["mixed"] + ["random"] * 3
    assert called == [2, 5]  # random batches need no model, but the audit of round 5 does
    reasons = requests_of(x, y)[1].reasons
    assert learned.reasons == reasons
    by_head = requests_of(x, y, head=cs.heads.LogisticHead(penalty=1.0))[1]
    assert by_head.reasons == reasons


def test_random_rows_depend_on_the_seed_and_not_on_the_threads():
    x, y = unrelated()
    one, other, third = (
        complete(steps(x, 800, rounds=5, engine=Local(threads=threads), seed=seed, progress=False), y.__getitem__)
        for threads, seed in ((1, 3), (3, 3), (1, 4))
    )
    assert one.reasons == other.reasons
    np.testing.assert_array_equal(one.ids, other.ids)
    assert set(one.ids[one.rounds == 5].tolist()) != set(third.ids[third.rounds == 5].tolist())


def test_a_run_that_is_opened_again_in_every_round_comes_to_the_same_batches(tmp_path):
    x, y = unrelated()
    whole = requests_of(x, y)[0]
    for request in whole:
        with cs.active_learning(x, 800, rounds=5, state=tmp_path / "run.state", progress=False) as run:
            assert sorted(run.ask().tolist()) == sorted(request.ids.tolist())
            ids = request.ids[::-1]
            run.tell(ids[: ids.size // 2], y[ids[: ids.size // 2]])
        with cs.active_learning(x, 800, rounds=5, state=tmp_path / "run.state", progress=False) as run:
            if request.reason == "mixed":
                assert 0 < run.random_share < 1
            run.tell(ids[ids.size // 2 :], y[ids[ids.size // 2 :]])
    assert run.finished


def test_the_status_and_the_page_say_that_rows_are_random(tmp_path):
    x, y = unrelated()
    run = cs.active_learning(x, 800, rounds=5, progress=False)
    assert run.random_share == 0
    run.tell(ids := run.ask(), y[ids])
    assert run.random_share > 0
    said = dict(progress_of(run))["random"]
    assert said == f"{run.random_share:.0%} of this round's batch, since the rows say little about the labels so far"
    page = cs.report(run, tmp_path / "run.html").read_text()
    assert "partly by uncertainty and partly at random, since the rows say little about the labels" in page
