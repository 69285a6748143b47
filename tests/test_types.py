"""What flows: immutable, equal by content, shown in short, and refused when it cannot be true."""

from dataclasses import FrozenInstanceError, dataclass, fields, replace

import numpy as np
import pytest

import coresift as cs
from coresift.checks import InputError
from coresift.types import (
    ORIGINS,
    Clustering,
    Estimate,
    Evidence,
    Frame,
    Interval,
    Ledger,
    PilotPlan,
    PilotSample,
    Provenance,
    Scores,
    Selection,
    Strategy,
    WeightedSelection,
    digest,
)


def make_clustering(**changes):
    facts = {
        "centers": np.array([0, 3]),
        "labels": np.array([0, 0, 1, 1, 1]),
        "distances": np.array([0.0, 1.0, 2.0, 0.0, 0.5]),
        "free_centers": np.ones((2, 3)),
        "z": 2.0,
        "free_cost": 4.0,
        "snapped_cost": 5.25,
        "seed": 0,
        "normalized": False,
        "fingerprint": "abc",
    }
    return Clustering(**{**facts, **changes})


def make_frame(**changes):
    return Frame(**{"n": 5, "given": np.array([4]), "excluded": np.array([1]), **changes})


def make_plan(**changes):
    facts = {
        "inclusion": np.array([1.0, 0.0, 0.5, 0.5, 0.0]),
        "share": np.array([0.0, 0.0, 0.5, 0.5, 1.0]),
        "order": np.array([4, 3, 2, 1, 0]),
        "keep": True,
        "origin": "pilot",
    }
    return PilotPlan(**{**facts, **changes})


def make_pilot(**changes):
    return PilotSample(**{"ids": np.array([3, 0]), "plan": make_plan(), **changes})


def make_evidence(**changes):
    facts = {"clustering": make_clustering(), "frame": make_frame(), "pilot": make_pilot(), "losses": [1.0, 2.0]}
    return Evidence(**{**facts, **changes})


def make_scores(**changes):
    return Scores(**{"sizes": np.array([1.0, 0.0, 3.0]), "order": np.array([2, 0, 1]), **changes})


def make_selection(**changes):
    facts = {
        "ids": np.array([0, 3]),
        "weights": np.array([1.0, 4.0]),
        "inclusion": np.array([1.0, 0.25]),
        "share": np.array([0.0, 0.0]),
        "clusters": np.array([0, 1]),
        "distances": np.array([0.0, 0.0]),
        "origin": np.array([1, 3]),
        "phase": np.array([0, 2]),
        "order": np.array([0, 0]),
        "multiplicity": np.array([1, 1]),
        "losses": np.array([0.5, np.nan]),
        "n": 5,
        "population": 4,
        "seed": 7,
        "z": 2.0,
        "phases": (None, cs.designs.Pivotal()),
        "provenance": Provenance(
            "select", 2, cs.recipes.Recipe(2, 2.0, False, score=cs.scores.Learned()), {"rows": 5}, 7
        ),
        "ledger": Ledger(((1, "pilot", 1),)),
        "names": ("a", "d"),
    }
    return WeightedSelection(**{**facts, **changes})


MAKERS = [make_clustering, make_frame, make_plan, make_pilot, make_evidence, make_scores, make_selection]


@pytest.mark.parametrize("make", MAKERS)
def test_values_cannot_be_changed(make):
    value = make()
    for field in fields(value):
        with pytest.raises(FrozenInstanceError):
            setattr(value, field.name, None)
        held = getattr(value, field.name)
        if isinstance(held, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                held[...] = 0


@pytest.mark.parametrize("make", MAKERS)
def test_values_do_not_follow_the_arrays_that_they_were_made_from(make):
    value = make()
    arrays = {field.name: getattr(value, field.name) for field in fields(value)}
    sources = {name: array.copy() for name, array in arrays.items() if isinstance(array, np.ndarray)}
    copy = make(**sources)
    for source in sources.values():
        source[...] = 0
    assert copy == value


def other_than(value):
    if isinstance(value, np.ndarray):
        return None
    if type(value) is int and value < 5:
        return value + 1  # a population has at most n rows
    return {bool: not value, int: 9, float: 7.5, str: "center", tuple: ("x", "y")}.get(type(value))


@pytest.mark.parametrize("make", MAKERS)
def test_values_are_equal_if_all_their_contents_are(make):
    assert make() == make()
    assert make() != "something else"
    with pytest.raises(TypeError, match="unhashable"):
        hash(make())
    changed = 0
    for field in fields(make()):
        other = other_than(getattr(make(), field.name))
        if other is not None:
            assert make(**{field.name: other}) != make()
            changed += 1
    assert changed > 0 or make in (make_evidence, make_scores, make_pilot)


@pytest.mark.parametrize(
    ("make", "name", "other"),
    [
        (make_clustering, "centers", [1, 3]),
        (make_clustering, "labels", [0, 1, 1, 1, 1]),
        (make_clustering, "distances", [0, 1, 2, 0, 0.25]),
        (make_clustering, "free_centers", np.zeros((2, 3))),
        (make_frame, "given", [3]),
        (make_frame, "excluded", []),
        (make_plan, "inclusion", np.ones(5)),
        (make_plan, "order", [0, 1, 2, 3, 4]),
        (make_pilot, "ids", [0, 3]),
        (make_pilot, "plan", make_plan(keep=False)),
        (make_evidence, "losses", []),
        (make_evidence, "frame", make_frame(n=6)),
        (make_scores, "sizes", [1, 0, 4]),
        (make_scores, "holder", [0.5]),
        (make_selection, "weights", [1.0, 4.5]),
        (make_selection, "losses", [np.nan, np.nan]),
        (make_selection, "provenance", Provenance("rounds", 2, None, {"rows": 5})),
        (make_selection, "ledger", Ledger()),
        (make_selection, "names", None),
    ],
)
def test_another_content_is_another_value(make, name, other):
    assert make(**{name: other}) != make()
    assert make(**{name: other}) == make(**{name: other})


def test_kinds_are_never_equal():
    assert make_frame() != make_scores()

    @dataclass(frozen=True, eq=False)
    class Framed(Frame):
        pass

    assert Framed(5, np.array([4]), np.array([1])) != make_frame()


# --- strategies --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Sample(Strategy):
    losses: np.ndarray
    floor: float = 0.5
    name: str = "x"


def test_a_strategy_shows_its_options_and_arrays_by_shape_and_digest():
    values = np.array([1.0, 2.0])
    shown = repr(Sample(values))
    assert shown == f"Sample(losses=array(shape=(2,), digest='{digest(values)}'), floor=0.5, name='x')"
    assert repr(Sample(np.array([1.0, 3.0]))) != shown
    assert repr(Sample(np.array([[1.0, 2.0]]))) != shown


def test_strategies_are_equal_by_their_options():
    assert Sample(np.array([1.0, np.nan])) == Sample(np.array([1.0, np.nan]))
    assert Sample(np.array([1.0])) != Sample(np.array([1.0], np.float32))
    assert Sample(np.array([1.0])) != Sample(np.array([1.0]), floor=0.25)
    with pytest.raises(FrozenInstanceError):
        Sample(np.zeros(1)).floor = 1  # type: ignore[misc]


# --- digests -----------------------------------------------------------------------------------------------------


def test_a_digest_tells_content_shape_type_and_order_apart():
    a, b = np.arange(6.0), np.arange(4)
    prints = [
        digest(a),
        digest(a + 1),
        digest(a.reshape(2, 3)),
        digest(a.reshape(3, 2)),
        digest(a.reshape(2, 3).T),
        digest(a.astype(np.float32)),
        digest(a.astype(np.int64)),
        digest(a[:5]),
        digest(np.zeros(0)),
        digest(a, b),
        digest(b, a),
        digest(),
    ]
    assert len(set(prints)) == len(prints)
    assert all(len(text) == 24 for text in prints)


def test_a_digest_does_not_depend_on_the_layout_in_memory():
    a = np.arange(12.0).reshape(3, 4)
    assert digest(a) == digest(np.asfortranarray(a)) == digest(np.repeat(a, 2, axis=0)[::2])


def test_a_clustering_s_digest_follows_what_later_steps_use():
    plain = make_clustering().digest()
    assert plain == make_clustering().digest()
    for changes in (
        {"centers": [1, 3]},
        {"labels": [0, 1, 1, 1, 1]},
        {"distances": [0, 1, 2, 0, 0.25]},
        {"z": 1.0},
    ):
        assert make_clustering(**changes).digest() != plain


# --- what each can tell ------------------------------------------------------------------------------------------


def test_a_clustering_tells_its_sizes_and_powers():
    found = make_clustering(z=3.0)
    assert (found.k, found.n) == (2, 5)
    assert found.sizes.tolist() == [2, 3]
    assert found.powers.tolist() == [0, 1, 8, 0, 0.125]
    assert repr(found) == "Clustering(rows=5, clusters=2, z=3, cost=5.25)"


def test_a_frame_tells_which_rows_are_left_to_chance():
    frame = make_frame()
    assert frame.open().tolist() == [True, False, True, True, False]
    assert frame.population == 4


def test_a_pilot_tells_its_inclusion():
    assert make_pilot().inclusion.tolist() == [0.5, 1.0]


def test_a_ledger_adds_up():
    assert Ledger(((1, "pilot", 3), (2, "drawn", 4))).asked == 7
    assert Ledger().asked == 0


def test_a_selection_shows_what_it_is():
    assert len(make_selection()) == 2
    assert repr(make_selection()) == "WeightedSelection(2 of 5 rows, 1 loss asked, seed=7)"
    for kind in (Selection, WeightedSelection):
        assert set(kind.COLUMNS) <= {field.name for field in fields(kind)}


def test_a_provenance_keeps_its_contents_when_the_caller_s_change():
    frame, options = {"rows": 5}, {"round": "1 of 2"}
    made = Provenance("rounds", 2, None, frame, 7, options)
    frame["rows"], options["round"] = 9, "2 of 2"
    assert made == Provenance("rounds", 2, None, {"rows": 5}, 7, {"round": "1 of 2"})


def test_an_empty_selection_is_one():
    nothing = {name: [] for name in WeightedSelection.COLUMNS}
    assert len(make_selection(**nothing, ids=[], weights=[], names=())) == 0


def test_intervals_and_estimates_are_plain_values():
    interval = Interval(1234.5, 1000.0, 1500.25, 100.0)
    assert str(interval) == "1,234 [1,000, 1,500]"
    estimate = Estimate(interval, interval, 0.95, 10.0, "expansion", "none")
    assert estimate == replace(estimate)
    assert estimate.warnings == ()
    with pytest.raises(FrozenInstanceError):
        estimate.confidence = 0.9  # type: ignore[misc]


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "changes", "says"),
    [
        (make_clustering, {"distances": [0.0]}, "one label and one distance per row"),
        (make_clustering, {"labels": [[0, 0, 1, 1, 1]], "distances": [[0.0] * 5]}, "label and one distance per row"),
        (make_clustering, {"free_centers": np.ones((3, 3))}, "one free center per center"),
        (make_clustering, {"centers": [], "free_centers": np.ones((0, 3))}, "distinct rows, at least one"),
        (make_clustering, {"centers": [3, 3]}, "distinct rows, at least one"),
        (make_clustering, {"centers": [-1, 3]}, "distinct rows, at least one"),
        (make_clustering, {"centers": [0, 5]}, "distinct rows, at least one"),
        (make_clustering, {"centers": [3, 0]}, "must be a row of its own cluster"),
        (make_clustering, {"labels": [0, 2, 1, 1, 1]}, "labels must be numbers of its centers"),
        (make_clustering, {"labels": [0, -1, 1, 1, 1]}, "labels must be numbers of its centers"),
        (make_clustering, {"distances": [0, 1, np.nan, 0, 1]}, "distances must be finite and at least 0"),
        (make_clustering, {"distances": [0, 1, -1, 0, 1]}, "distances must be finite and at least 0"),
        (make_clustering, {"z": 0.0}, "z must be a finite number above 0; got 0.0"),
        (make_clustering, {"z": np.inf}, "z must be a finite number above 0; got inf"),
        (make_frame, {"given": [1, 3]}, "Row 1 is both given and excluded"),
        (make_frame, {"given": [5]}, "given rows must be distinct and from 0 to 4"),
        (make_frame, {"excluded": [-1]}, "excluded rows must be distinct and from 0 to 4"),
        (make_frame, {"excluded": [1, 1]}, "excluded rows must be distinct and from 0 to 4"),
        (make_plan, {"share": [0.5]}, "an inclusion probability, a share and a position for every row"),
        (make_plan, {"order": [0, 1]}, "an inclusion probability, a share and a position for every row"),
        (make_plan, {"order": [0, 1, 2, 3, 3]}, "order must have every row number once"),
        (make_plan, {"order": [1, 2, 3, 4, 5]}, "order must have every row number once"),
        (make_plan, {"inclusion": [0, 0, 0, 0, 1.5]}, "must be from 0 to 1"),
        (make_plan, {"share": [0, 0, 0, 0, -0.5]}, "must be from 0 to 1"),
        (make_plan, {"share": [0, 0, 0, 0, np.nan]}, "must be from 0 to 1"),
        (make_plan, {"origin": "nowhere"}, "must be one of given, center, pilot, drawn; got nowhere"),
        (make_pilot, {"ids": [0, 0]}, "distinct rows of its plan"),
        (make_pilot, {"ids": [5]}, "distinct rows of its plan"),
        (make_evidence, {"losses": [1.0]}, "one loss per pilot row, or none at all"),
        (make_scores, {"sizes": [1.0, np.nan, 2.0]}, "Scores must be finite and at least 0"),
        (make_scores, {"sizes": [1.0, -1.0, 2.0]}, "Scores must be finite and at least 0"),
        (make_scores, {"sizes": [1.0]}, "one size and one position per row"),
        (make_scores, {"order": [0, 0, 1]}, "every row number once"),
        (make_selection, {"weights": [1.0, 0.0]}, "weights must be finite and above 0"),
        (make_selection, {"weights": [1.0, np.inf]}, "weights must be finite and above 0"),
        (make_selection, {"weights": [1.0]}, "one weight per row"),
        (make_selection, {"names": ("a",)}, "one entry per row in each of its columns"),
        (make_selection, {"ids": [3, 0]}, "distinct, sorted and below 5"),
        (make_selection, {"ids": [3, 3]}, "distinct, sorted and below 5"),
        (make_selection, {"ids": [-1, 3]}, "distinct, sorted and below 5"),
        (make_selection, {"ids": [0, 5]}, "distinct, sorted and below 5"),
        (make_selection, {"origin": [0, len(ORIGINS)]}, "origins must be indexes into given, center"),
        *[(make_selection, {name: [1]}, "one entry per row in each") for name in WeightedSelection.COLUMNS],
    ],
)
def test_what_cannot_be_true_is_refused(make, changes, says):
    with pytest.raises(InputError) as caught:
        make(**changes)
    assert says in str(caught.value)
    assert str(caught.value).endswith(".")
