"""select(): its defaults, its corners, and what it refuses."""

import numpy as np
import pytest

import coresift as cs

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(300, 3)).astype(np.float32)
LOSSES = RNG.exponential(size=300)


def test_defaults_with_and_without_losses():
    picked = cs.select(ROWS, LOSSES, 50)
    assert picked.recipe == cs.recipes.Recipe(
        5, 2.0, False, cs.pilots.Representatives(), cs.scores.Portfolio(), cs.designs.Systematic()
    )
    assert picked.provenance.lines()["clusters"] == "5, seed 0"
    assert picked.ledger.asked == 10
    silent = cs.select(ROWS, None, 50)
    assert silent.provenance.lines()["score"] == repr(cs.scores.Distance())
    assert silent.provenance.lines()["design"] == "Pivotal()"
    assert silent.ledger.asked == 0


def test_nobody_is_asked_when_the_score_does_not_need_it():
    def never(ids):
        raise AssertionError("asked")

    picked = cs.select(ROWS, never, 50, score=cs.scores.Proxy(LOSSES))
    assert picked.ledger.asked == 0


def test_a_budget_for_all_rows_takes_them_all_with_weight_one():
    exactly = cs.select(ROWS, LOSSES, 300)
    with pytest.warns(cs.CoresiftWarning, match="budget is 301, but there are only 300 rows"):
        more = cs.select(ROWS, LOSSES, 301)
    for picked in (exactly, more):
        assert picked.ids.tolist() == list(range(300))
        assert np.all(picked.weights == 1)
        assert picked.ledger.asked == 0


def test_all_but_the_excluded_rows_when_the_budget_allows_it():
    picked = cs.select(ROWS, LOSSES, 290, exclude=np.arange(10))
    assert picked.ids.tolist() == list(range(10, 300))
    assert np.all(picked.weights == 1)


def test_given_rows_alone_when_they_are_everything():
    picked = cs.select(ROWS[:4], LOSSES[:4], 4, given=[0, 1, 2, 3])
    assert picked.ids.tolist() == [0, 1, 2, 3]
    assert cs.estimate(picked, LOSSES[:4]).total.standard_error == 0


@pytest.mark.parametrize("budget", [1, 2, 3])
def test_tiny_budgets_work(budget):
    picked = cs.select(ROWS, LOSSES, budget)
    assert len(picked) == budget
    warned = cs.estimate(picked, LOSSES[picked.ids]).warnings
    assert warned == ("Too few rows were drawn for an interval.",)


def test_one_row():
    picked = cs.select(np.ones((1, 2)), [0.5], 1)
    assert picked.ids.tolist() == [0]
    assert picked.weights.tolist() == [1.0]


def test_a_clustering_made_before_gives_the_same_selection():
    assert cs.select(ROWS, LOSSES, 50, 7, clusters=6) == cs.select(
        ROWS, LOSSES, 50, 7, clusters=cs.cluster(ROWS, 6, seed=7)
    )


def test_ask_names_the_rows_that_select_asks():
    asked = []

    def loss_of(ids):
        asked.extend(ids.tolist())
        return LOSSES[ids]

    cs.select(ROWS, loss_of, 50, 3)
    assert cs.start(cs.select, ROWS, 50, 3).ask().tolist() == asked


def test_normalized_rows_are_clustered_by_direction():
    rows = np.concatenate([ROWS, 50 * ROWS])
    clustering = cs.cluster(rows, 8, normalize=True)
    np.testing.assert_array_equal(clustering.labels[:300], clustering.labels[300:])
    picked = cs.select(rows, np.tile(LOSSES, 2), 40, clusters=clustering, normalize=True)
    assert picked.provenance.lines()["normalize"] == "True"


def paper(**changes):
    return {
        "pilot": cs.pilots.Centers(),
        "score": cs.scores.Sensitivity(holder=1.0),
        "design": cs.designs.Independent(),
    } | changes


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"budget": None}, "budget must say how many rows"),
        ({"budget": 0}, "budget must be a whole number of at least 1; got 0"),
        ({"budget": 2.5}, "budget must be a whole number"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"clusters": 0}, "clusters must be a whole number"),
        ({"z": 0}, "z must be a finite number above 0"),
        ({"given": [1, 1]}, "given must be distinct row numbers; got row 1 twice"),
        ({"given": [300]}, "given must be row numbers from 0 to 299; got 300"),
        ({"exclude": [-1]}, "exclude must be row numbers"),
        ({"given": [4], "exclude": [4]}, "Row 4 is both given and excluded"),
        ({"given": list(range(50))}, "budget must be more than the 50 given rows"),
        ({"exclude": list(range(300))}, "leaves no row"),
        ({"epsilon": 0.1}, "epsilon replaces the budget in paper mode only"),
        ({"delta": 0.1}, "delta goes with epsilon"),
        ({"budget": None, "epsilon": 0.1}, "paper mode only"),
        ({"budget": None, "epsilon": 0.1, **paper(design=cs.designs.Pivotal())}, "paper mode only"),
        ({"budget": None, "epsilon": 0.1, "delta": 2, **paper()}, "delta must be"),
        ({"clusters": 60, **paper()}, "asks 60 rows, which is more than the budget of 50 allows"),
        ({"losses": None, "pilot": cs.pilots.Centers()}, "asks for losses, and there are none"),
        ({"losses": None, "score": cs.scores.Learned()}, "asks for losses, and there are none"),
        (
            {"pilot": cs.scores.Mixture()},
            r"pilot must be one of coresift's pilots, such as Representatives\(.*; got Mixture",
        ),
        ({"score": "Mixture"}, "score must be one of coresift's scores"),
        ({"design": cs.designs.Poisson}, "design must be one of coresift's designs"),
        ({"losses": -LOSSES}, "finite and at least 0"),
        ({"losses": LOSSES[:9]}, "one number for each of 300 rows"),
        ({"clusters": cs.cluster(ROWS[:200], 5)}, "clustering is of other rows"),
        ({"clusters": cs.cluster(ROWS + 1, 5)}, "clustering is of other rows"),
        ({"clusters": cs.cluster(ROWS, 5), "z": 1.0}, "z must be that of the clustering"),
        ({"clusters": cs.cluster(ROWS, 5), "normalize": True}, "normalized rows"),
    ],
)
def test_bad_arguments_are_one_sentence(options, sentence):
    arguments = {"losses": LOSSES, "budget": 50} | options
    with pytest.raises(cs.CoresiftError, match=sentence) as error:
        cs.select(ROWS, **arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("function", [cs.select, cs.rounds, cs.diagnose, cs.plan, cs.regression.select])
def test_a_misspelled_option_gets_one_sentence_with_the_nearest_one(function):
    with pytest.raises(cs.InputError, match=r"has no option clusterz; did you mean clusters\?$"):
        function(ROWS, LOSSES, budget=50, clusterz=5) if function is not cs.plan else function(ROWS, 50, clusterz=5)
    with pytest.raises(cs.InputError, match="has no option bugdet; did you mean budget"):
        function(ROWS, bugdet=10) if function is not cs.diagnose else function(ROWS, LOSSES, bugdet=10)


@pytest.mark.parametrize(
    ("function", "wrong", "right"),
    [
        (cs.active_learning, "bugdet", "budget"),
        (cs.certify, "delt", "delta"),
        (cs.cluster, "sede", "seed"),
        (cs.compare_methods, "budgts", "budgets"),
        (cs.cover, "bugdet", "budget"),
        (cs.estimate, "group", "groups"),
        (cs.grow, "bugdet", "budget"),
        (cs.report, "titel", "title"),
    ],
)
def test_other_functions_name_the_nearest_option_too(function, wrong, right):
    sentence = rf"^{function.__name__} has no option {wrong}; did you mean {right}\?$"
    with pytest.raises(cs.InputError, match=sentence):
        function(ROWS, **{wrong: 3})


def test_plan_counts_what_the_paper_needs():
    plan = cs.plan(ROWS, 50, clusters=8, **paper())
    assert (plan.losses_asked, plan.losses_for_estimate) == (8, 58)
    assert cs.plan(ROWS, 50).losses_for_estimate == 50
    # Components of the rows take one reading even if the clusters are there.
    assert cs.plan(ROWS, 50, clusters=cs.cluster(ROWS, 8)).passes == 1
    assert cs.plan(ROWS, 50, clusters=cs.cluster(ROWS, 8), score=cs.scores.Learned()).passes == 0
