"""Signals: every accepted form becomes complete columns, and nothing else is accepted."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coresift.checks import CoresiftWarning, InputError
from coresift.signal_table import disagreement, from_probabilities, signal_table
from coresift.types import SignalTable


def test_a_table_shows_its_size_and_first_names():
    shown = [repr(signal_table(np.zeros((1_200, columns)), 1_200)) for columns in (0, 2, 6)]
    assert shown == [
        "SignalTable(1,200 rows: no signals)",
        "SignalTable(1,200 rows: signal 0, signal 1)",
        "SignalTable(1,200 rows: signal 0, signal 1, signal 2, signal 3 and 2 more)",
    ]


def test_calibrated_signals_are_probabilities():
    sizes, calibrated = np.array([True]), np.array([True])
    assert SignalTable(("p",), np.array([[0.0], [1.0]]), sizes, calibrated=calibrated).calibrated.all()
    with pytest.raises(InputError, match="must be numbers from 0 to 1"):
        SignalTable(("p",), np.array([[0.5], [1.5]]), sizes, calibrated=calibrated)


def test_all_forms_of_one_column_are_the_same():
    values = np.array([1.0, 4.0, 2.0])
    plain = signal_table(values, 3)
    assert plain.names == ("signal",)
    for form in ([1, 4, 2], np.float32([1, 4, 2]), {"signal": values}, pd.DataFrame({"signal": values}), plain):
        assert signal_table(form, 3) == plain
    assert signal_table(pa.table({"signal": values}), 3) == plain
    assert signal_table(None, 3).columns.shape == (3, 0)


def test_matrices_and_classes_become_columns_of_their_own():
    table = signal_table({"x": np.array([[1.0, -2.0], [3.0, 4.0]]), "kind": ["b", "a"]}, 2)
    assert table.names == ("x 0", "x 1", "kind=a", "kind=b")
    assert table.columns.tolist() == [[1, -2, 0, 1], [3, 4, 1, 0]]
    assert table.sizes.tolist() == [True, False, False, False]


def test_a_constant_or_negative_column_is_no_size():
    table = signal_table({"same": [2.0, 2.0], "negative": [-1.0, 3.0], "zero": [0.0, 3.0], "flag": [True, False]}, 2)
    assert table.sizes.tolist() == [False, False, True, True]


@pytest.mark.parametrize("hole", [None, np.nan, pd.NA])
def test_missing_numbers_become_the_median_and_are_marked(hole):
    table = signal_table({"x": np.array([1.0, hole, 5.0, 9.0], object)}, 4)
    assert table.names == ("x", "x is missing")
    assert table.columns[:, 0].tolist() == [1, 5, 5, 9]
    assert table.columns[:, 1].tolist() == [0, 1, 0, 0]
    assert table.sizes.tolist() == [True, False]


def test_missing_classes_are_a_name_and_rare_ones_share_a_column():
    assert signal_table({"x": ["a", None, "a"]}, 3).names == ("x=a", "x=missing")
    many = [f"{number:03d}" for number in range(40)] + ["000"] * 5
    table = signal_table({"x": many}, 45)
    assert len(table.names) == 31
    assert table.names[0] == "x=000"
    assert table.names[-1] == "x: others"
    np.testing.assert_array_equal(table.columns.sum(axis=1), 1)
    assert table.columns[:, -1].sum() == 10


@pytest.mark.slow
@given(st.lists(st.one_of(st.floats(-1e9, 1e9), st.none(), st.text(max_size=3)), min_size=1, max_size=30))
def test_tables_are_always_complete(values):
    try:
        table = signal_table({"x": np.array(values, object)}, len(values))
    except InputError:
        assert all(value is None for value in values)
        return
    assert np.isfinite(table.columns).all()
    assert table.columns.shape == (len(values), len(table.names))


@pytest.mark.parametrize(
    ("signals", "message"),
    [
        ([1.0, 2.0], "one number or name for each of 3 rows in 'signal'"),
        ({"x": [1, 2, np.inf]}, "finite numbers, or NaN if missing, in 'x'"),
        ({"x": [np.nan] * 3}, "at least one number in 'x'"),
        ({"x": [1, None, 2], "x is missing": [0, 1, 0]}, "'x is missing' twice"),
        (signal_table([1.0], 1), "one line for each of 3 rows"),
    ],
)
def test_refusals(signals, message):
    with pytest.raises(InputError, match=message):
        signal_table(signals, 3)


def test_probabilities_say_what_a_loop_says():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.full(5, 0.3), size=40)
    found = from_probabilities(probabilities, log_loss=True)
    assert set(found) - set(from_probabilities(probabilities)) == {"loss_deviation"}
    for place, line in enumerate(probabilities):
        ordered = sorted(line, reverse=True)
        assert found["expected_error"][place] == pytest.approx(1 - ordered[0])
        assert found["deviation"][place] == pytest.approx((ordered[0] * (1 - ordered[0])) ** 0.5)
        assert found["entropy"][place] == pytest.approx(-sum(p * np.log(p) for p in line if p > 0))
        squares = [p * (-np.log(p) - found["entropy"][place]) ** 2 for p in line if p > 0]
        assert found["loss_deviation"][place] == pytest.approx(sum(squares) ** 0.5)
        assert found["margin"][place] == pytest.approx(1 - ordered[0] + ordered[1])


def test_two_classes_may_be_one_number():
    positive = np.array([0.1, 0.5, 1.0])
    both = np.column_stack([1 - positive, positive])
    for name, values in from_probabilities(positive).items():
        np.testing.assert_allclose(values, from_probabilities(both)[name])


@pytest.mark.parametrize("bad", [[[0.5, 0.4]], [[-0.1, 1.1]], [["a", "b"]], [[np.nan, 1.0]]])
def test_what_is_no_probability_is_refused(bad):
    with pytest.raises(InputError, match="probabilities must be"):
        from_probabilities(bad)


def test_disagreement():
    rng = np.random.default_rng(1)
    one, other = rng.dirichlet(np.ones(4), 20), rng.dirichlet(np.ones(4), 20)
    slow = [max(sum(p[list(s)]) - sum(q[list(s)]) for s in subsets(4)) for p, q in zip(one, other, strict=True)]
    np.testing.assert_allclose(disagreement(one, other), slow)
    assert disagreement([1, 2, 3], [1, 0, 3]).tolist() == [0, 1, 0]
    with pytest.raises(InputError, match="of the same shape as first"):
        disagreement([1, 2], [1, 2, 3])


def subsets(size):
    return [[place for place in range(size) if number >> place & 1] for number in range(2**size)]


def test_a_column_of_numbers_with_a_typo_is_reported():
    cells = [f"{number / 100:.2f}" for number in range(60)]
    with pytest.warns(CoresiftWarning, match="'doubt' is read as 60 categories and tells little, because 'O.5' is not"):
        signal_table({"doubt": ["O.5", *cells[1:]]}, 60)
    with pytest.warns(CoresiftWarning, match="because its numbers are texts"):
        signal_table({"doubt": cells}, 60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        signal_table({"word": [f"w{number}" for number in range(60)], "zip": ["10", "11"] * 30}, 60)
