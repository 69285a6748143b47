"""Rows from anything: the same numbers give the same selection with the same ids, whatever they come in."""

from __future__ import annotations

import itertools

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather

import coresift as cs
from coresift.checks import InputError
from coresift.rows import open_rows
from coresift.rows.taking import take

N, D = 300, 3
# Every value is a float16 with few digits, so that no form of them loses any.
ROWS = (np.random.default_rng(0).integers(-64, 64, (N, D)) / 8).astype(np.float32)
LOSSES = np.random.default_rng(1).exponential(size=N)
KEYS = [f"k{row:03}" for row in range(N)]
NAMES = [f"x{place}" for place in range(D)]
COLUMNS = {name: ROWS[:, place].astype(np.float64) for place, name in enumerate(NAMES)}
PLAIN = cs.select(ROWS, LOSSES, budget=30, seed=4)
FRAME = pd.DataFrame({"id": KEYS, **COLUMNS})


def written(folder, suffix):
    table = pa.table({"id": KEYS, **COLUMNS})
    path = folder / f"rows{suffix}"
    if suffix == ".csv":
        FRAME.to_csv(path, index=False)
    elif suffix == ".jsonl":
        FRAME.to_json(path, orient="records", lines=True)
    elif suffix == ".parquet":
        FRAME.set_index(np.arange(N)[::-1]).to_parquet(path)  # its index becomes a column of the file
    else:
        feather.write_feather(table, path)
    return path


def polars_frame(_):
    return pl.DataFrame({"id": KEYS, **COLUMNS})


TABLES = {
    "pandas": lambda _: FRAME,
    "pandas, index of texts": lambda _: FRAME.set_index(np.array([f"i{row}" for row in range(N)])),
    "pandas, index of numbers": lambda _: FRAME.set_index(np.random.default_rng(2).permutation(N) * 1000),
    "pandas, ids as index": lambda _: FRAME.set_index("id"),
    "pandas, two indexes": lambda _: FRAME.set_index([np.arange(N) % 7, np.arange(N)]),
    "pandas, arrow types": lambda _: FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "polars": polars_frame,
    "polars, lists": lambda _: pl.DataFrame({"id": KEYS, "e": ROWS.tolist()}),
    "polars, arrays": lambda _: pl.DataFrame({"id": KEYS, "e": pl.Series(ROWS, dtype=pl.Array(pl.Float32, D))}),
    "polars, pieces": lambda _: pl.concat([polars_frame(None)[:7], polars_frame(None)[7:]], rechunk=False),
    "duckdb": lambda _: duckdb.sql("select * from FRAME"),
    "duckdb, decimals": lambda _: duckdb.sql(
        "select id, x0::decimal(18, 4) x0, x1::decimal(18, 4) x1, x2::float x2 from FRAME"
    ),
    "Arrow": lambda _: pa.table({"id": KEYS, **COLUMNS}),
    "Arrow reader": lambda _: pa.table({"id": KEYS, **COLUMNS}).to_reader(50),
    "Arrow, views": lambda _: pa.table(
        {"id": pa.array(KEYS, pa.string_view()), "e": pa.array(ROWS.tolist(), pa.list_view(pa.float32()))}
    ),
    "Arrow, tensors": lambda _: pa.table({"id": KEYS, "e": pa.FixedShapeTensorArray.from_numpy_ndarray(ROWS.copy())}),
    "dict": lambda _: {"id": KEYS, **COLUMNS},
    "datasets": lambda _: Dataset.from_dict({"id": KEYS, "e": ROWS.tolist()}),
    "csv": lambda folder: written(folder, ".csv"),
    "jsonl": lambda folder: written(folder, ".jsonl"),
    "parquet": lambda folder: written(folder, ".parquet"),
    "feather": lambda folder: written(folder, ".feather"),
    "folder of csv": lambda folder: written(folder, ".csv").parent,
}
MATRICES = {
    "array": lambda: ROWS,
    "torch": lambda: torch.tensor(ROWS),
    "torch, gradient": lambda: torch.tensor(ROWS, requires_grad=True),
    "torch, transposed": lambda: torch.tensor(ROWS.T.copy()).T,
    "torch, bfloat16": lambda: torch.tensor(ROWS).bfloat16(),
    "lists": ROWS.tolist,
    "tuple of arrays": lambda: tuple(ROWS),
    "csr": lambda: scipy.sparse.csr_matrix(ROWS),
    "csc": lambda: scipy.sparse.csc_matrix(ROWS),
    "coo array": lambda: scipy.sparse.coo_array(ROWS),
    "lil": lambda: scipy.sparse.lil_matrix(ROWS),
}


def same(picked, plain=PLAIN):
    assert picked.ids.tolist() == plain.ids.tolist()
    assert picked.weights.tobytes() == plain.weights.tobytes()
    assert picked.distances.tobytes() == plain.distances.tobytes()


@pytest.mark.parametrize("form", TABLES)
def test_every_table_gives_the_selection_of_the_array_and_its_ids(form, tmp_path):
    rows = open_rows(TABLES[form](tmp_path))
    assert rows.columns in (("e",), tuple(NAMES))
    picked = cs.select(rows, LOSSES, budget=30, seed=4)
    same(picked)
    assert picked.names == tuple(KEYS[row] for row in PLAIN.ids)
    asked = [KEYS[row] for row in (7, 299, 0)]
    assert rows.numbers_of(asked).tolist() == [7, 299, 0]
    assert rows.normalized().numbers_of(asked).tolist() == [7, 299, 0]
    assert rows.table is not None
    assert rows.table.take([7, 0]).column("id").to_pylist() == [KEYS[7], KEYS[0]]


@pytest.mark.parametrize("form", MATRICES)
def test_every_matrix_gives_the_selection_of_the_array_with_ids_beside_it(form):
    same(cs.select(MATRICES[form](), LOSSES, budget=30, seed=4))
    rows = open_rows(MATRICES[form](), ids=KEYS)
    picked = cs.select(rows, LOSSES, budget=30, seed=4)
    same(picked)
    assert picked.names == tuple(KEYS[row] for row in PLAIN.ids)
    assert rows.numbers_of([KEYS[5]]).tolist() == [5]
    assert rows.columns is None
    assert rows.fingerprint() == open_rows(ROWS).fingerprint()


def test_given_names_of_a_part_are_numbered_in_the_part():
    rows = open_rows(ROWS, ids=range(1000, 1000 + N))
    assert rows.numbers_of([1007, "1008"]).tolist() == [7, 8]
    part = rows.subset([5, 7, 9])
    assert part.numbers_of([1009, 1005]).tolist() == [2, 0]
    assert part.names([1]) == [1007]
    with pytest.raises(InputError, match="ids of these rows; got 1006"):
        part.numbers_of([1006])


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["a", "z"], "given must be ids that column 'id' has; got 'z'."),
        (["a", "a"], "given must be distinct ids; got 'a' twice."),
        (["b"], "given must be ids that only one row has; got 'b', which several rows have."),
        ([None], "given must be ids; got None."),
        (["a", 1.5j], "given must be a list of ids, whole numbers or texts; got something else."),
    ],
)
def test_ids_that_cannot_be_found_are_told(names, says):
    rows = open_rows({"id": ["a", "b", "b", None], "x": [1, 2, 3, 4]})
    with pytest.raises(InputError) as error:
        rows.numbers_of(names, "given")
    assert str(error.value) == says
    with pytest.raises(InputError, match="given must be row numbers, because the rows have no ids; got ids"):
        open_rows(ROWS).numbers_of(["a"], "given")


# Which columns


def test_columns_can_be_chosen_and_left_out():
    table = {"id": [1, 2], "a": [1.0, 2.0], "b": [3, 4], "label": [0, 1], "flag": [True, False]}
    assert open_rows(table).columns == ("a", "b", "label")
    assert open_rows(table, exclude_columns=["label"]).columns == ("a", "b")
    assert open_rows(table, columns=["b", "a"]).take([0]).tolist() == [[3.0, 1.0]]
    assert open_rows(table, target="label").columns == ("a", "b")
    listed = {**table, "e": [[1.0], [2.0]]}
    assert open_rows(listed).columns == ("e",)
    assert open_rows(listed, exclude_columns=["e", "label"]).columns == ("a", "b")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"columns": ["nothing"]}, "columns must be one of the columns 'id', 'a', 't'; got 'nothing'."),
        (
            {"columns": ["t"]},
            "columns must be columns of numbers; got 't' of type string; turn "
            "categories into numbers, for example with pandas.get_dummies.",
        ),
        ({"columns": ["id"]}, "columns must be columns other than the id, the target and the excluded ones; got 'id'."),
        ({"columns": "a"}, "columns must be a list of names; got 'a'."),
        ({"columns": []}, "columns must be at least one name, and none twice; got []."),
        ({"columns": ["a", "a"]}, "columns must be at least one name, and none twice; got ['a', 'a']."),
        ({"exclude_columns": ["z"]}, "exclude_columns must be one of the columns 'id', 'a', 't'; got 'z'."),
        ({"ids": [1, 2]}, "ids must be left out if the rows have ids (in column 'id'); got 2 ids."),
    ],
)
def test_columns_that_cannot_be_chosen_are_told(options, says):
    with pytest.raises(InputError) as error:
        open_rows({"id": [1, 2], "a": [1.0, 2.0], "t": ["x", "y"]}, **options)
    assert str(error.value) == says


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (pl.DataFrame({"x": [1.0]}).lazy(), "rows must be a 2-D array or tensor, .*; got a LazyFrame; collect"),
        (pd.Series([1.0, 2.0]), "rows must be a path, .*; got a Series, a single column"),
        (pd.DataFrame([[1.0, 2.0]], columns=["x", "x"]), "rows must be columns of one type .*: Duplicate column names"),
        (pd.DataFrame({"x": [1.0, "a"]}), "rows must be columns of one type .*"),
        (torch.eye(3).to_sparse(), "rows must be a dense tensor, or a sparse matrix of scipy; got a tensor of layout"),
        (torch.zeros(2, 2, dtype=torch.complex64), "rows must be real numbers; got an array of complex64"),
        (scipy.sparse.csr_matrix(np.eye(2) * 1j), "rows must be real numbers; got a sparse matrix of complex128"),
        (scipy.sparse.coo_array(np.ones(3)), "rows must be a 2-D array, one item per row; got a sparse array with 1"),
        ([[1.0], [2.0, 3.0]], "rows must be lists of numbers, all of the same length; got a list of 2 items"),
        ([["a"]], "rows must be real numbers; got an array of <U1"),
        ({"x": [1, 2], "y": [1]}, "rows must be columns of one type and the same length: "),
        (pd.DataFrame({"x": [1.0, np.nan]}), "rows must be numbers without nulls; got a null in row 1, column 'x'"),
    ],
)
def test_what_cannot_be_rows_is_one_sentence(source, says):
    with pytest.raises(InputError, match=says) as error:
        open_rows(source).fingerprint()
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")


# Scale


UNEVEN = {"id": KEYS, "age": ROWS[:, 0], "income": ROWS[:, 1] * 5000 + 1e5, "same": np.full(N, 7.0)}


def test_columns_of_very_different_scale_get_a_hint():
    hint = open_rows(UNEVEN).scale_hint()
    assert hint is not None
    assert hint.startswith("The values of column 'income' vary ")
    assert "'age'" in hint
    assert "standardize=True" in hint
    assert open_rows(UNEVEN, standardize=True).scale_hint() is None
    for quiet in (COLUMNS, {"x": [1.0, 2.0]}, {"e": [[1.0, 1e9], [2.0, 2e9]]}, {"x": [1.0], "y": [1e9]}):
        assert open_rows(quiet).scale_hint() is None
    assert open_rows(ROWS * [1, 1, 1e6]).scale_hint() is None


def test_standardized_columns_have_mean_0_and_deviation_1():
    rows = open_rows(UNEVEN, standardize=True)
    wide = np.stack([np.float32(UNEVEN[name]) for name in ("age", "income", "same")], axis=1).astype(np.float64)
    deviation = wide.std(axis=0)
    expected = (wide - wide.mean(axis=0)) / np.where(deviation > 0, deviation, np.inf)
    np.testing.assert_allclose(rows.take(np.arange(N)), expected, rtol=2e-6, atol=1e-6)
    assert (rows.take(np.arange(N))[:, 2] == 0).all()
    assert rows.columns == ("age", "income", "same")
    assert rows.names([3]) == [KEYS[3]]
    assert rows.fingerprint() != open_rows(UNEVEN).fingerprint()
    whole = np.concatenate([block() for _, block in rows.blocks()])
    np.testing.assert_array_equal(whole, rows.take(np.arange(N)))
    np.testing.assert_array_equal(np.concatenate(list(rows.stretch(0, N)(rows.base))), whole)
    np.testing.assert_array_equal(np.concatenate(list(rows.picking(np.array([3, 9]))(rows.base))), whole[[3, 9]])
    np.testing.assert_array_equal(rows.subset([4, 8]).take([1]), whole[[8]])


@settings(deadline=None, max_examples=30)
@given(cuts=st.lists(st.integers(0, 40_000), max_size=4))
def test_standardized_rows_do_not_depend_on_where_files_end(cuts):
    array = np.random.default_rng(0).normal(size=(40_000, 3)) * [1, 100, 1e4] + [0, 1e5, -1e6]
    whole = open_rows({name: array[:, place] for place, name in enumerate("abc")}, standardize=True)
    table = pa.table({name: array[:, place] for place, name in enumerate("abc")})
    bounds = [0, *sorted(cuts), 40_000]
    pieces = [table.slice(start, stop - start) for start, stop in itertools.pairwise(bounds)]
    rows = open_rows(pa.concat_tables(pieces), standardize=True)
    assert rows.fingerprint() == whole.fingerprint()


def test_a_value_that_is_no_number_is_named_when_columns_are_standardized():
    bad = ROWS.astype(np.float64)
    bad[7, 1] = np.nan
    with pytest.raises(InputError, match="rows must be finite numbers; row 7 has NaN at position 1"):
        open_rows(bad, standardize=True)


# A sparse matrix is never filled as a whole


def test_a_sparse_matrix_is_filled_a_block_at_a_time():
    rng = np.random.default_rng(0)
    rows, columns = np.repeat(np.arange(3000), 4), rng.integers(0, 5000, 12_000)
    matrix = scipy.sparse.coo_array((rng.normal(size=12_000), (rows, columns)), (3000, 5000))
    opened = open_rows(matrix)
    dense = matrix.toarray().astype(np.float32)  # entries that are there twice are summed
    sizes = []
    for start, block in opened.blocks():
        values = block()
        sizes.append(values.nbytes)
        np.testing.assert_array_equal(values, dense[start : start + len(values)])
    assert max(sizes) * 5 < dense.nbytes
    np.testing.assert_array_equal(opened.take([2999, 0, 2999]), dense[[2999, 0, 2999]])
    np.testing.assert_array_equal(np.concatenate(list(opened.stretch(256, 700)(opened))), dense[256:700])


# The table's own columns


@pytest.mark.parametrize("form", TABLES)
def test_selected_rows_of_any_table_come_out_whole_or_already_cut(form, tmp_path):
    table = take(TABLES[form](tmp_path), PLAIN.ids, N)
    assert table.column("id").to_pylist() == [KEYS[row] for row in PLAIN.ids]
    assert take(table, PLAIN.ids, N).equals(table)
    path = cs.save(PLAIN, tmp_path / "picked.parquet", table=TABLES[form](tmp_path))
    assert cs.load(path) == PLAIN
    saved = pa.parquet.read_table(path)
    assert saved["row"].to_pylist() == PLAIN.ids.tolist()
    assert saved["id"].to_pylist() == [KEYS[row] for row in PLAIN.ids]
    with pytest.raises(InputError, match=f"a table with all {N} rows, or one with the 30 selected rows; got 29 rows"):
        take(table.slice(1), PLAIN.ids, N)


@pytest.mark.parametrize("form", MATRICES)
def test_selected_rows_of_a_matrix_come_out_as_features(form):
    table = take(MATRICES[form](), PLAIN.ids, N)
    np.testing.assert_array_equal(np.array(table["features"].to_pylist()), ROWS[PLAIN.ids])
    assert take(open_rows(ROWS, ids=KEYS), PLAIN.ids, N).column("id").to_pylist() == [KEYS[row] for row in PLAIN.ids]


def test_masked_and_complex_losses_are_refused():
    masked = np.ma.masked_array(LOSSES, mask=LOSSES > 1)
    for bad, says in ((masked, "a masked array"), (LOSSES + 1j, "complex numbers")):
        with pytest.raises(InputError, match=f"losses must be .*; got {says}"):
            cs.select(ROWS, bad, 30)
        with pytest.raises(cs.checks.AnswerError):  # what is masked is no answer
            cs.select(ROWS, lambda ids, bad=bad: bad[ids], 30)
        with pytest.raises(InputError, match=f"got {says}"):
            cs.estimate(PLAIN, bad[PLAIN.ids])
