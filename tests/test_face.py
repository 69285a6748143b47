"""The public face: a short list of names, one way to say things, and every option where it makes sense."""

import inspect

import numpy as np
import pytest

import coresift as cs

NAMESPACES = {
    *("baselines", "designs", "engines", "estimators", "evaluation", "models", "pilots"),
    *("recipes", "regression", "scores", "signals", "testing", "theory"),
}
FUNCTIONS = {
    *("active_learning", "certify", "cluster", "compare_methods", "cover", "diagnose", "estimate", "evaluate", "grow"),
    *("load", "open_rows", "plan", "report", "rounds", "save", "select", "start"),
}
CLASSES = {
    *("Clustering", "CoresiftError", "CoresiftWarning", "InputError", "Oracle"),
    *("Selection", "WeightedSelection"),
}
RNG = np.random.default_rng(0)
CLASS = RNG.integers(4, size=600)
ROWS = (RNG.normal(size=(4, 3))[CLASS] * 3 + RNG.normal(size=(600, 3))).astype(np.float32)
LOSSES = RNG.exponential(size=4)[CLASS] + 0.1 * RNG.exponential(size=600)


def test_the_names_are_these_and_no_others():
    assert set(cs.__all__) == NAMESPACES | FUNCTIONS | CLASSES
    assert len(FUNCTIONS | CLASSES) <= 25
    assert len(cs.__all__) <= 37
    assert all(hasattr(cs, name) for name in set(cs.__all__) - {"models"})


@pytest.mark.parametrize("name", ["Centers", "Learned", "Poisson", "ask", "compare", "select_regression", "Ray"])
def test_older_names_are_gone(name):
    with pytest.raises(AttributeError):
        getattr(cs, name)


@pytest.mark.slow
def test_a_recipe_sets_defaults_and_arguments_override_it():
    recipe = cs.recipes.paper(holder=0.5)
    by_recipe = cs.select(ROWS, LOSSES, 60, 1, recipe=recipe)
    by_parts = cs.select(
        ROWS,
        LOSSES,
        60,
        1,
        pilot=cs.pilots.Centers(),
        score=cs.scores.Sensitivity(0.5),
        design=cs.designs.Independent(),
    )
    assert by_recipe == by_parts
    other = cs.select(ROWS, LOSSES, 60, 1, recipe=recipe, design=cs.designs.Pivotal())
    assert other.recipe.design == cs.designs.Pivotal()
    assert other.recipe.score == recipe.score
    with pytest.raises(cs.InputError, match=r"recipe must be a Recipe, such as cs\.recipes\.paper"):
        cs.select(ROWS, LOSSES, 60, recipe="paper")


def test_a_saved_recipe_makes_the_same_selection_again(tmp_path):
    picked = cs.select(ROWS, LOSSES, 60, 3, recipe=cs.recipes.mixture(0.3, 0.3))
    loaded = cs.load(cs.save(picked, tmp_path / "picked.parquet"))
    assert cs.select(ROWS, LOSSES, 60, 3, recipe=loaded.recipe) == picked


@pytest.mark.slow
def test_diagnose_knows_classes():
    plain = cs.diagnose(ROWS, LOSSES, 60, 0, clusters=4)
    within = cs.diagnose(ROWS, LOSSES, 60, 0, clusters=4, strata=CLASS)
    assert within.clusters == 4
    assert within.ratio.value < plain.ratio.value + 0.05
    assert within.explained.value > 0.5
    assert cs.diagnose(ROWS, LOSSES, 60, exclude=range(50), given=[60]).n == 600


@pytest.mark.parametrize("order", ["sampling", "mettu-plaxton"])
def test_rounds_know_classes(order):
    run = cs.rounds(ROWS, LOSSES, 60, clusters=8, rounds=3, strata=CLASS, order=order, exclude=[1, 2])
    earlier = np.zeros(0, int)
    for number, picked in enumerate(run, start=1):
        clustering = run.clustering
        assert clustering.k == 8 * number
        np.testing.assert_array_equal(clustering.classes(), cs.clustering.strata.encode(CLASS, cs.open_rows(ROWS)))
        np.testing.assert_array_equal(clustering.centers[: earlier.size], earlier)
        distances = np.linalg.norm(ROWS[:, None] - ROWS[clustering.centers], axis=2)
        distances[clustering.strata[None, :] != clustering.classes()[:, None]] = np.inf
        np.testing.assert_allclose(clustering.distances, distances.min(axis=1), rtol=1e-4, atol=1e-5)
        assert picked.ledger.asked == 8 * number
        assert "strata" in picked.provenance.frame
        earlier = clustering.centers


@pytest.mark.slow
def test_rounds_within_classes_are_unbiased():
    """|z| < 4 over 100 seeds: a false alarm in 6 of 100,000 runs."""
    totals = [list(cs.rounds(ROWS, LOSSES, 40, 8, 2, seed, strata=CLASS))[-1] for seed in range(100)]
    found = np.array([picked.weights @ LOSSES[picked.ids] for picked in totals])
    assert abs(found.mean() - LOSSES.sum()) < 4 * found.std() / np.sqrt(100)


def test_a_class_that_is_excluded_whole_is_refused():
    with pytest.raises(cs.InputError, match="exclude must leave at least one row of every class in strata"):
        cs.rounds(ROWS, LOSSES, 40, 8, 2, strata=CLASS, exclude=np.flatnonzero(CLASS == 2)).next()
    with pytest.raises(cs.InputError, match="clusters must be at least 4, one for each class in strata"):
        cs.rounds(ROWS, LOSSES, 40, 3, 2, strata=CLASS)


def test_a_start_is_a_run_and_ends_in_what_the_function_returns(tmp_path):
    run = cs.start(cs.rounds, ROWS, 40, 5, clusters=8, rounds=2, state=tmp_path / "rounds.state")
    while (pending := run.ask()).size:
        run.tell(pending, LOSSES[pending])
    expected = list(cs.rounds(ROWS, LOSSES, 40, 8, 2, 5))
    assert run.result == expected
    run.close()
    with cs.start(cs.rounds, ROWS, 40, 5, clusters=8, rounds=2, state=tmp_path / "rounds.state") as again:
        assert not again.ask().size
        assert again.result == expected
    with pytest.raises(cs.InputError, match=r"function must be one of selection\.select"):
        cs.start(cs.estimate, ROWS)


def test_given_and_excluded_rows_may_be_ids():
    import pyarrow as pa

    table = pa.table({"id": [f"q{row}" for row in range(600)], "x": ROWS[:, 0], "y": ROWS[:, 1]})
    named = cs.select(table, budget=20, given=["q7", "q9"], exclude=["q3"])
    numbered = cs.select(table, budget=20, given=[7, 9], exclude=[3])
    assert named == numbered
    with pytest.raises(cs.InputError, match=r"given must be .*q777"):
        cs.select(table, budget=20, given=["q777"])


def test_the_selected_rows_of_any_table():
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    picked = cs.select(ROWS, budget=5)
    frame = pd.DataFrame({"x": ROWS[:, 0]}, index=np.arange(600)[::-1])
    np.testing.assert_array_equal(picked.take(frame)["x"], ROWS[picked.ids, 0])
    np.testing.assert_array_equal(picked.take(pl.DataFrame({"x": ROWS[:, 0]}))["x"], ROWS[picked.ids, 0])
    np.testing.assert_array_equal(picked.take(pa.table({"x": ROWS[:, 0]}))["x"], ROWS[picked.ids, 0])
    np.testing.assert_array_equal(picked.take(ROWS), ROWS[picked.ids])
    assert picked.take(list(range(600))) == picked.ids.tolist()
    with pytest.raises(cs.InputError, match="table must have all 600 rows"):
        picked.take(ROWS[:9])
    arrow = picked.to_arrow()
    assert arrow.column_names[:3] == ["row", "weight", "inclusion"]
    np.testing.assert_array_equal(picked.to_pandas()["weight"], picked.weights)


@pytest.mark.parametrize(
    "name", ["select", "cluster", "cover", "rounds", "active_learning", "diagnose", "plan", "evaluate"]
)
def test_signatures_say_what_rows_and_losses_may_be(name):
    parameters = inspect.signature(getattr(cs, name)).parameters
    assert parameters["rows"].annotation.startswith("RowsLike")
    assert "losses" not in parameters or parameters["losses"].annotation.startswith("LossesLike")


# What has no type to name: a model of any library, a table of any kind, and whatever a method makes of its arguments.
UNTYPED = {
    *(("active_learning", "head"), ("certify", "losses"), ("certify", "holder"), ("compare_methods", "methods")),
    *(("diagnose", "proxy"), ("open_rows", "filesystem"), ("report", "losses"), ("report", "table")),
    *(("report", "image"), ("save", "table"), ("start", "options")),
}


def test_parameters_have_types():
    found = {
        (name, part.name)
        for name in FUNCTIONS
        for part in inspect.signature(getattr(cs, name)).parameters.values()
        if part.annotation == "Any"
    }
    assert found == UNTYPED


@pytest.mark.parametrize("name", sorted(FUNCTIONS - {"start"}))
def test_every_function_says_what_is_misspelled_missing_or_too_much(name):
    function = getattr(cs, name)
    parameters = inspect.signature(function).parameters.values()
    by_place = [part for part in parameters if part.kind is part.POSITIONAL_OR_KEYWORD]
    required = [part.name for part in by_place if part.default is part.empty]
    with pytest.raises(cs.InputError, match=f"^{name} has no option nonsense; it takes .*"):
        function(nonsense=1)
    with pytest.raises(cs.InputError, match=f"^{name} takes .* by position; give every other argument by"):
        function(*range(len(by_place) + 1))
    with pytest.raises(cs.InputError, match=f"^{name} takes {by_place[0].name} once; it was given twice"):
        function(1, **{by_place[0].name: 1})
    if required:
        with pytest.raises(cs.InputError, match=f"^{name} needs {' and '.join(required)}\\.$"):
            function()


def test_a_start_says_what_is_misspelled_or_missing():
    with pytest.raises(cs.InputError, match=r"^start needs function\.$"):
        cs.start()
    with pytest.raises(cs.InputError, match=r"^select has no option clustrs; did you mean clusters\?"):
        cs.start(cs.select, ROWS, 5, clustrs=3)
    with pytest.raises(cs.InputError, match=r"^diagnose has no option lossess; did you mean losses\?"):
        cs.diagnose(ROWS, lossess=LOSSES)


def test_no_function_returns_anything_at_all():
    functions = [getattr(cs, name) for name in FUNCTIONS]
    assert not [function for function in functions if inspect.signature(function).return_annotation == "Any"]
