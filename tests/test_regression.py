"""Regression: Algorithm 2 to the letter, unbiased in our mode, and a fit that is least squares."""

import json
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from enumeration import Scripted, samples
from hypothesis import given, settings
from hypothesis import strategies as st
from parts import DESIGNS
from reference import algorithm_two
from tables import write

import coresift as cs
from coresift import regression
from coresift.engine import SINGLE_THREADED
from coresift.regression import least_squares


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Hold linear algebra to one thread for all tests at once; to change that takes longer than a small fit."""
    with SINGLE_THREADED:
        yield


def paper(holder, **changes):
    parts = {
        "pilot": cs.pilots.Centers(keep=False),
        "score": cs.scores.Sensitivity(holder=holder),
        "design": cs.designs.Independent(),
    }
    return {**parts, "intercept": False, **changes}


def problem(seed, n, d):
    rng = np.random.default_rng(seed)
    A = (rng.normal(size=(n, d)) + rng.integers(0, 3, size=(n, 1)) * 4).astype(np.float32)
    return A, A @ rng.normal(size=d) - 3 + rng.normal(size=n)


class Labels:
    """A callable of labels that remembers whom it was asked about."""

    def __init__(self, b):
        self.b, self.asked = b, []

    def __call__(self, ids):
        self.asked.extend(ids.tolist())
        return self.b[ids]


# The paper's algorithm


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 9999),
    n=st.integers(30, 80),
    d=st.integers(1, 3),
    k=st.integers(5, 9),
    form=st.sampled_from(["one", "each", "infinite"]),
)
def test_paper_mode_equals_the_plain_loops(seed, n, d, k, form):
    A, b = problem(seed, n, d)
    clustering = cs.cluster(A, k, z=1.0, seed=seed)
    each = np.random.default_rng(seed).exponential(size=clustering.k) + 0.01
    holder = {"one": 0.7, "each": each, "infinite": np.inf}[form]
    draws, labels = 300, Labels(b)
    x0, p, w = algorithm_two(A, clustering.labels, clustering.centers, b[clustering.centers], holder, draws)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if form == "infinite" else "error")
        found = cs.regression.select(A, labels, draws, seed, clusters=clustering, **paper(holder))
    picked = found.selection
    np.testing.assert_allclose(found.x0.coefficients, x0, rtol=1e-6, atol=1e-9)
    assert found.x0.intercept == 0
    np.testing.assert_allclose(picked.inclusion / draws, p[picked.ids], rtol=1e-6)
    np.testing.assert_allclose(picked.weights / picked.multiplicity, w[picked.ids], rtol=1e-6)
    assert picked.multiplicity.sum() == draws
    # k + s labels, the distinct ones among them.
    drawn = np.setdiff1d(picked.ids, clustering.centers).size
    expected = ((1, "medoids", clustering.k), *([(2, "draws", drawn)] if drawn else []))
    if form == "infinite":  # residuals do not decide, so all labels are asked at once
        expected = ((1, "labels", clustering.k + drawn),)
    assert picked.ledger.entries == expected
    assert sorted(labels.asked) == found.asked.tolist()
    np.testing.assert_array_equal(found.labels, b[found.asked])


def test_paper_mode_has_a_tenth_of_the_rows_as_medoids_however_few_are_drawn():
    A, b = problem(1, 400, 3)
    with pytest.warns(cs.CoresiftWarning, match=r"40 of 400 rows have probability 0 under Sensitivity\(holder=inf\)"):
        found = cs.regression.select(A, b, 15, **paper(np.inf))
    assert found.selection.ledger.entries == ((1, "labels", 40 + len(found.selection)),)
    assert found.asked.size == 40 + len(found.selection)
    assert not set(found.selection.origin.tolist()) - {3}


@pytest.mark.slow
def test_without_the_medoids_in_it_the_infinite_limit_never_draws_them_and_with_them_it_is_unbiased():
    A, b = problem(2, 120, 2)
    clustering = cs.cluster(A, 12, z=1.0)
    totals = np.empty(800)
    for seed in range(totals.size):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            options = paper(np.inf, pilot=cs.pilots.Centers(keep=True), clusters=clustering)
            picked = cs.regression.select(A, b, 40, seed, **options).selection
        assert set(clustering.centers.tolist()) <= set(picked.ids.tolist())
        assert np.all(picked.weights[np.isin(picked.ids, clustering.centers)] == 1)
        totals[seed] = picked.weights @ b[picked.ids]
    assert abs(totals.mean() - b.sum()) < 4 * totals.std() / np.sqrt(totals.size)
    with pytest.warns(cs.CoresiftWarning, match="12 of 120 rows have probability 0"):
        bare = cs.regression.select(A, b, 1000, clusters=clustering, **paper(np.inf))
    assert not set(clustering.centers.tolist()) & set(bare.selection.ids.tolist())


# Unbiased

TINY = np.array([[0.0, 0.0], [0.3, 0.1], [0.1, 0.5], [4.0, 4.0], [4.2, 4.5], [3.5, 4.4], [9.0, 0.0]], np.float32)
TINY_LABELS = np.array([0.5, -1.0, 0.2, 3.0, -2.0, 2.5, 7.0])
SCORES = [
    None,
    cs.scores.LeverageMixture(),
    cs.scores.Sensitivity(holder=0.4),
    cs.scores.Mixture(),
    cs.scores.Distance(floor=0.5),
]
PILOTS = [None, cs.pilots.Centers(keep=True)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:x0 fits the labels")
@pytest.mark.parametrize("pilot", PILOTS, ids=["by default", "medoids"])
@pytest.mark.parametrize("score", SCORES, ids=str)
@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: type(design).__name__)
def test_the_squared_residuals_are_unbiased_by_enumeration(design, score, pilot):
    scripted = Scripted(design)
    options = {"clusters": cs.cluster(TINY, 2, z=1.0, seed=1), "design": scripted, "score": score, "pilot": pilot}

    def run():
        return cs.regression.select(TINY, TINY_LABELS, 3, **options).selection

    run()
    outcomes = samples(design, scripted.seen)
    weights, mass = np.zeros(len(TINY)), 0.0
    for script, chance in outcomes:
        scripted.script = script
        picked = run()
        weights[picked.ids] += chance * picked.weights
        mass += chance
    assert mass == pytest.approx(1)
    np.testing.assert_allclose(weights, 1, atol=1e-7)
    for x in ([0.0, 0.0], [1.0, -2.0], [0.3, 0.7]):
        squares = (TINY @ x - TINY_LABELS) ** 2
        assert weights @ squares == pytest.approx(squares.sum(), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("score", SCORES[:4], ids=str)
def test_the_squared_residuals_are_unbiased_in_simulation(score):
    """|z| < 4 at four fixed x over 150 seeds; each check raises a false alarm 6 times in 100,000."""
    A, b = problem(5, 500, 3)
    clustering, rows = cs.cluster(A, 8, z=1.0), cs.open_rows(A)
    rng = np.random.default_rng(6)
    points = np.column_stack([np.linalg.lstsq(A, b, rcond=None)[0], np.zeros(3), rng.normal(size=(3, 2)) * 3])
    squares = ((A @ points) - b[:, None]) ** 2
    found = np.empty((150, 4))
    for seed in range(len(found)):
        picked = cs.regression.select(rows, b, 40, seed, clusters=clustering, score=score).selection
        assert len(picked) == picked.ledger.asked == 40
        found[seed] = picked.weights @ squares[picked.ids]
    errors = found.mean(axis=0) - squares.sum(axis=0)
    assert np.all(np.abs(errors) < 4 * found.std(axis=0) / np.sqrt(len(found)))


# Our mode


@pytest.mark.slow
def test_the_budget_counts_medoids_and_draws_and_only_they_are_asked():
    A, b = problem(7, 1000, 4)
    labels = Labels(b)
    found = cs.regression.select(A, labels, 60, 3, pilot=cs.pilots.Centers(keep=True))
    picked = found.selection
    assert picked.ledger.entries == ((1, "labels", 60),)
    assert sorted(labels.asked) == found.asked.tolist() == picked.ids.tolist()
    medoids = cs.cluster(A, 6, z=1.0, seed=3).centers
    np.testing.assert_array_equal(picked.ids[picked.phase == 1], np.sort(medoids))
    assert np.all(picked.weights[picked.phase == 1] == 1)
    assert picked.z == 1
    sizes = np.bincount(cs.cluster(A, 6, z=1.0, seed=3).labels)
    expected = least_squares(A[medoids], b[medoids], sizes.astype(float), 0.0, intercept=True)
    np.testing.assert_allclose(found.x0.coefficients, expected.coefficients, rtol=1e-9)
    residuals = (A[picked.ids] @ found.x0.coefficients + found.x0.intercept - b[picked.ids]) ** 2
    np.testing.assert_allclose(picked.losses, residuals, rtol=1e-6)


def test_never_more_medoids_than_a_tenth_of_the_rows():
    A, b = problem(8, 100, 2)
    for budget, medoids in ((90, 9), (5, 1)):
        picked = cs.regression.select(A, b, budget, pilot=cs.pilots.Centers(keep=True)).selection
        assert picked.ledger.entries == ((1, "labels", budget),)
        assert np.count_nonzero(picked.phase == 1) == medoids


def test_wide_rows_and_pilots_are_drawn_by_distance():
    wide = np.random.default_rng(7).normal(size=(60, 2001)).astype(np.float32)
    for options in ({"A": wide}, {"A": wide[:, :3], "pilot": cs.pilots.Centers(keep=True)}):
        found = cs.regression.select(b=wide[:, 0], budget=30, **options)
        assert found.selection.recipe.score == cs.scores.Distance(floor=0.3, power=2.0)


def test_by_default_nobody_is_asked_first_and_the_fit_is_that_of_the_draw():
    A, b = problem(9, 1000, 4)
    found = cs.regression.select(A, b, 60)
    assert found.selection.ledger.entries == ((1, "labels", 60),)
    assert found.x0 == found.fit()
    assert "LeverageMixture(leverage=0.7, floor=0.15, ridge=0.0)" in found.selection.provenance.lines()["score"]


def test_the_mixture_has_the_sizes_that_it_says():
    A, b = problem(10, 200, 3)
    clustering = cs.cluster(A, 10, z=1.0)
    score = cs.scores.LeverageMixture(leverage=0.5, floor=0.2, ridge=3.0)
    design = cs.designs.Independent()
    picked = cs.regression.select(A, b, 500, clusters=clustering, score=score, design=design).selection
    h, v = cs.theory.leverage_scores(A, 3.0, intercept=True), clustering.distances.astype(float)
    expected = 0.5 * h / h.sum() + 0.3 * v / v.sum() + 0.2 / 200
    np.testing.assert_allclose(picked.inclusion / 500, expected[picked.ids], rtol=1e-9)


def test_the_mixture_needs_a_regression():
    with pytest.raises(cs.InputError, match="needs leverage scores, which only a regression has"):
        cs.select(TINY, None, 3, score=cs.scores.LeverageMixture())


@pytest.mark.slow
def test_the_seed_decides_and_nothing_else():
    A, b = problem(11, 300, 3)
    for options in ({}, {"score": cs.scores.LeverageMixture()}, {"score": cs.scores.Sensitivity(holder=1.0)}):
        first, again, threads = (
            cs.regression.select(A, b, 50, 1, engine=cs.engines.Local(count), **options) for count in (2, 2, 1)
        )
        assert first == again == threads
        assert first != cs.regression.select(A, b, 50, 2, **options)
        assert first.fit() == threads.fit()


def test_every_row_within_the_budget_is_all_rows():
    A, b = problem(12, 40, 2)
    found = cs.regression.select(A, b, 40)
    np.testing.assert_array_equal(found.selection.weights, 1)
    expected = np.linalg.lstsq(np.column_stack([A, np.ones(40)]), b, rcond=None)[0]
    np.testing.assert_allclose([*found.fit().coefficients, found.fit().intercept], expected, rtol=1e-6)


def test_given_and_excluded_rows():
    A, b = problem(13, 300, 2)
    center = int(cs.cluster(A, 4, z=1.0).centers[0])
    labels = Labels(np.where(np.isin(np.arange(300), [5, center]), np.nan, b))
    found = cs.regression.select(A, labels, 40, given=[7, 8], exclude=[5, center], clusters=4)
    assert len(found.selection) == 40
    assert {7, 8} <= set(found.selection.ids.tolist())
    assert not {5, center} & set(labels.asked)
    assert found.selection.population == 298


def test_estimate_of_its_losses_estimates_the_squared_residuals_at_x0():
    A, b = problem(14, 2000, 3)
    found = cs.regression.select(A, b, 300, pilot=cs.pilots.Centers(keep=True))  # x₀ is from the medoids alone
    truth = ((found.x0.predict(A) - b) ** 2).sum()
    total = cs.estimate(found.selection, found.selection.losses).total
    assert total.low <= truth <= total.high


@pytest.mark.slow
def test_a_saved_selection_is_equal(tmp_path):
    A, b = problem(15, 300, 3)
    for options in ({}, paper(0.5, clusters=9)):
        picked = cs.regression.select(A, b, 50, **options).selection
        assert cs.load(cs.save(picked, tmp_path / "picked.parquet")) == picked


# Labels in every form


@pytest.mark.slow
def test_every_form_of_labels_gives_the_same(tmp_path):
    A, b = problem(16, 200, 3)
    lines = write(tmp_path / "labels.csv", {"row": np.arange(200), "label": b})
    columns = {**{f"x{place}": A[:, place] for place in range(3)}, "price": b}
    pa.parquet.write_table(pa.table(columns), tmp_path / "table.parquet")
    table = cs.open_rows(tmp_path / "table.parquet", target="price")
    assert (table.d, table.columns) == (3, ("x0", "x1", "x2"))
    expected = cs.regression.select(A, b, 40)
    assert (b[expected.selection.ids] < 0).any()
    for labels in (b.tolist(), Labels(b), lines, cs.Oracle(Labels(b)), cs.Oracle(lines)):
        assert cs.regression.select(A, labels, 40) == expected
    assert cs.regression.select(table, budget=40) == expected


def test_the_target_is_read_row_by_row_also_with_nulls_and_own_ids(tmp_path):
    b = [1.5, None, -2.0, 4.0]
    table = pa.table({"id": ["a", "b", "c", "d"], "x": [[1.0, 2.0]] * 4, "price": b})
    rows = cs.open_rows(table, target="price")
    np.testing.assert_array_equal(rows.targets([3, 0, 1, 3]), [4.0, 1.5, np.nan, 4.0])
    np.testing.assert_array_equal(rows.normalized().targets([2]), [-2.0])
    assert rows.columns == ("x",)
    with pytest.raises(cs.checks.AnswerError, match=r"^b must be finite; row 1 has nan"):
        cs.regression.select(rows, budget=4)


@pytest.mark.slow
def test_a_journal_keeps_labels_and_a_stopped_run_goes_on(tmp_path):
    A, b = problem(17, 300, 3)
    first = Labels(b)

    def failing(ids):
        if len(first.asked) >= 20:
            raise ConnectionError("gone")
        return first(ids)

    journal = tmp_path / "journal"
    with pytest.raises(
        cs.checks.AnswerError, match=r"The callable for labels failed .* answers are safe in the state file"
    ):
        cs.regression.select(A, cs.Oracle(failing, journal=journal, batch=7, retries=0), 40)
    assert any(loss < 0 for line in journal.read_text().splitlines()[1:] for loss in json.loads(line)["answers"])
    second = Labels(b)
    found = cs.regression.select(A, cs.Oracle(second, journal=journal, batch=7), 40)
    assert found == cs.regression.select(A, b, 40)
    assert sorted(first.asked + second.asked) == found.asked.tolist()
    with pytest.raises(cs.InputError, match="belongs to another run"):
        cs.regression.select(A, cs.Oracle(second, journal=journal), 40, intercept=False)


@pytest.mark.slow
def test_without_labels_there_is_a_selection_to_label():
    A, b = problem(18, 300, 3)
    bare, found = cs.regression.select(A, None, 40), cs.regression.select(A, b, 40)
    np.testing.assert_array_equal(bare.selection.ids, found.selection.ids)
    np.testing.assert_array_equal(bare.selection.weights, found.selection.weights)
    assert bare.x0 is None
    assert bare.fit(labels=b[bare.selection.ids]) == found.fit()
    with pytest.raises(cs.InputError, match="none were asked"):
        bare.fit()
    with pytest.raises(cs.InputError, match=r"asks for labels, and there are none; give b"):
        cs.regression.select(A, None, 40, score=cs.scores.Sensitivity(holder=1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bare, found = (cs.regression.select(A, some, 40, **paper(np.inf)) for some in (None, b))
    np.testing.assert_array_equal(bare.selection.ids, found.selection.ids)


def test_bad_labels_are_told_before_the_work_begins(monkeypatch):
    monkeypatch.setattr(regression, "prepare", lambda *_, **__: pytest.fail("the work has begun"))
    with pytest.raises(cs.InputError, match=r"^b must be a callable"):
        cs.regression.select(TINY, 3.0, 4)
    with pytest.raises(cs.InputError, match="asks for labels, and there are none"):
        cs.regression.select(TINY, None, 4, score=cs.scores.Mixture())


ASKING = [{}, {"score": cs.scores.LeverageMixture()}, {"score": cs.scores.Mixture()}, paper(np.inf)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*have probability 0")
@pytest.mark.parametrize("options", ASKING, ids=["distance", "leverage", "mixture", "paper"])
def test_ask_tells_which_labels_are_needed(options):
    A, b = problem(19, 300, 3)
    found = cs.regression.select(A, b, 60, **options)
    run = cs.start(cs.regression.select, A, 60, **options)
    first = run.ask()
    run.tell(first, b[first])
    if options.get("score") == cs.scores.Mixture():  # the medoids' residuals decide about the draw
        np.testing.assert_array_equal(np.sort(first), found.selection.ids[found.selection.phase == 1])
        run.tell(run.ask(), b[run.ask()])
    np.testing.assert_array_equal(np.sort(run.asked), found.asked)
    assert run.result == found


# The fit


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 9999), ridge=st.sampled_from([0.0, 0.5, 50.0]), intercept=st.booleans())
def test_the_fit_is_weighted_least_squares(seed, ridge, intercept):
    rng = np.random.default_rng(seed)
    A, b = problem(seed, 30, 3)
    w = rng.exponential(size=30) + 0.1
    found = least_squares(A, b, w, ridge, intercept)
    wide = np.column_stack([A.astype(float), np.ones(30)]) if intercept else A.astype(float)
    penalty = np.diag([ridge] * 3 + [0.0] * intercept)
    expected = np.linalg.solve(wide.T @ (wide * w[:, None]) + penalty, wide.T @ (w * b))
    np.testing.assert_allclose(found.coefficients, expected[:3], rtol=1e-7, atol=1e-9)
    assert found.intercept == pytest.approx(expected[3] if intercept else 0.0, rel=1e-7, abs=1e-9)
    assert found.rank == 3


@pytest.mark.slow
def test_columns_that_repeat_others_share_and_constant_ones_have_no_coefficient():
    rng = np.random.default_rng(20)
    core = rng.normal(size=(400, 2)).astype(np.float32)
    A = np.column_stack([core, core[:, 0], core[:, 0] + core[:, 1], np.full(400, 7.0)])
    b = core @ [2.0, -1.0] + 3
    for options in ({}, {"score": cs.scores.LeverageMixture()}):
        found = cs.regression.select(A, b, 60, **options)
        with pytest.warns(cs.CoresiftWarning, match=r"^The 60 selected rows determine 2 of 5 coefficients; "):
            fit = found.fit()
        np.testing.assert_allclose(fit.predict(A), b, atol=1e-5)
        assert fit.coefficients[0] == pytest.approx(fit.coefficients[2])
        assert fit.coefficients[4] == 0
        assert fit.rank == 2
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert found.fit(ridge=1e-3).predict(A) == pytest.approx(b, abs=0.01)


@pytest.mark.parametrize("score", [None, cs.scores.LeverageMixture(), cs.scores.Sensitivity(holder=1.0)], ids=str)
def test_fewer_rows_than_columns_are_fitted_exactly_and_said_to_be(score):
    A, b = problem(21, 12, 40)
    remarks = ["x0 fits the labels of the medoids (1) exactly"] if isinstance(score, cs.scores.Sensitivity) else []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = cs.regression.select(A, b, 10, score=score)
        fit = found.fit()
    assert [str(one.message).split(", since")[0] for one in said[:-1]] == remarks
    assert "The 10 selected rows determine 9 of 40 coefficients" in str(said[-1].message)
    np.testing.assert_allclose(fit.predict(found.features), b[found.selection.ids], atol=1e-6)


def test_all_rows_equal_predict_their_mean():
    with pytest.warns(cs.CoresiftWarning):
        found = cs.regression.select(np.ones((30, 2)), np.arange(30.0), 10, clusters=2)
    with pytest.warns(cs.CoresiftWarning, match="determine 0 of 2"):
        fit = found.fit()
    assert fit.coefficients.tolist() == [0, 0]
    assert fit.intercept == pytest.approx(np.average(found.labels, weights=found.selection.weights))


def test_determination_is_r_squared_of_the_weighted_rows():
    A, b = problem(22, 300, 2)
    found = cs.regression.select(A, b, 60)
    w, y = found.selection.weights, b[found.selection.ids]
    left = w @ (found.fit().predict(found.features) - y) ** 2
    assert found.determination(found.fit()) == pytest.approx(1 - left / (w @ (y - (w @ y) / w.sum()) ** 2))


# Refusals


@pytest.mark.filterwarnings("ignore::coresift.CoresiftWarning")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"budget": None}, "budget must say how many rows to select; got none."),
        ({"budget": 0}, "budget must be a whole number of at least 1; got 0."),
        ({"b": np.ones(3)}, "b must be one number for each of 50 rows; got 3 numbers."),
        ({"b": "none.csv"}, "b must be a callable of row numbers, an array of labels, or a .parquet, "),
        ({"b": np.ones((50, 2))}, "b must be a callable of row numbers, "),
        ({"b": np.full(50, np.inf)}, "b must be finite; row "),
        ({"b": lambda ids: ids[:-1]}, "b must be one number for each of 10 rows; got shape (9,)."),
        ({"A": np.full((50, 2), np.nan)}, "rows must be finite numbers; row 0 has NaN at position 0."),
        ({"intercept": 1}, "intercept must be True or False; got 1."),
        (
            {"clusters": 20, "pilot": cs.pilots.Centers(keep=True)},
            "Centers(keep=True) asks 20 rows, which is more than the budget of 10 allows; ",
        ),
        ({"score": "Distance"}, "score must be one of coresift's scores, such as "),
        (
            {"score": cs.scores.Sensitivity(holder=[1.0, 2.0])},
            "holder must be one number, or one for each of 1 clusters; ",
        ),
    ],
)
def test_bad_input_is_one_sentence(options, says):
    A, b = problem(23, 50, 2)
    arguments = {"A": A, "b": b, "budget": 10, **options}
    with pytest.raises(cs.CoresiftError) as error:
        cs.regression.select(arguments.pop("A"), arguments.pop("b"), arguments.pop("budget"), **arguments)
    assert str(error.value).startswith(says), str(error.value)


def test_more_bad_input():
    A, b = problem(24, 50, 2)
    with pytest.raises(cs.InputError, match=r"^z must be that of the clustering, 2; got 1\.0\.$"):
        cs.regression.select(A, b, 10, clusters=cs.cluster(A, 3))
    found = cs.regression.select(A, b, 10)
    with pytest.raises(cs.InputError, match=r"^ridge must be a finite number of at least 0; got -1\.$"):
        found.fit(-1)
    with pytest.raises(cs.InputError, match=r"^labels must be 10 numbers, one per row; got shape \(3,\)\.$"):
        found.fit(labels=[1, 2, 3])
    with pytest.raises(cs.InputError, match=r"^A must be a matrix with 2 columns; got shape \(3,\)\.$"):
        found.fit().predict([1, 2, 3])
    with pytest.raises(cs.InputError, match="target must be a column of numbers that is not the id"):
        cs.open_rows(pa.table({"id": [1], "x": [2.0]}), target="id")
    with pytest.raises(cs.InputError, match=r"^target must be one of the columns 'x'; got 'y'\.$"):
        cs.open_rows(pa.table({"x": [2.0]}), target="y")
    with pytest.raises(cs.InputError, match="target must be left out if there are no columns"):
        cs.open_rows(A, target="y")
    with pytest.raises(cs.InputError, match="target must be named when the rows are opened"):
        cs.open_rows(A).targets([1])


@pytest.mark.parametrize("options", [{"leverage": 0.9, "floor": 0.2}, {"floor": 0}, {"ridge": -1}, {"leverage": 2}])
def test_bad_options_of_the_mixture(options):
    with pytest.raises(cs.InputError):
        cs.scores.LeverageMixture(**options)
