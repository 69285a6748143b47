"""The selected rows of a table come out by their ids, whatever the table's order; values are never silently others'."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import coresift as cs
from coresift.checks import InputError

RNG = np.random.default_rng(8)
N = 90
FRAME = pd.DataFrame({"id": RNG.permutation(N) + 1000, "x": RNG.normal(size=N), "y": RNG.normal(size=N)})
FRAME["text"] = [f"text of {name}" for name in FRAME["id"]]
PICKED = cs.select(FRAME, budget=9)
SHUFFLED = FRAME.sample(frac=1, random_state=1)
KINDS = {
    "pandas": lambda frame: frame,
    "pandas, ids in the index": lambda frame: frame.set_index("id"),
    "polars": pl.from_pandas,
    "Arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "rows": cs.open_rows,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("frame", [FRAME, SHUFFLED, SHUFFLED[SHUFFLED["id"].isin(PICKED.names)]], ids=len)
def test_rows_are_found_by_their_ids(kind, frame):
    taken = PICKED.take(KINDS[kind](frame))
    expected = FRAME.iloc[PICKED.ids]
    if kind == "rows":
        np.testing.assert_allclose(taken, expected[["x", "y"]], rtol=1e-6)
    else:
        assert list(taken["text"].to_pylist() if kind == "Arrow" else taken["text"]) == expected["text"].tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("frame", [FRAME, SHUFFLED, SHUFFLED[SHUFFLED["id"].isin(PICKED.names)]], ids=len)
def test_rows_are_saved_by_their_ids(kind, frame, tmp_path):
    cs.save(PICKED, tmp_path / "picked.csv", table=KINDS[kind](frame))
    saved = pd.read_csv(tmp_path / "picked.csv")
    assert saved["text"].tolist() == [f"text of {name}" for name in saved["id"]]
    assert cs.load(tmp_path / "picked.csv") == PICKED


def test_another_name_of_the_id_column_is_remembered(tmp_path):
    renamed = FRAME.rename(columns={"id": "key"})
    picked = cs.select(cs.open_rows(renamed, id_column="key"), budget=9)
    loaded = cs.load(cs.save(picked, tmp_path / "picked.parquet", table=SHUFFLED.rename(columns={"id": "key"})))
    assert loaded.provenance.id_column == "key"
    saved = pd.read_parquet(tmp_path / "picked.parquet")
    assert saved["text"].tolist() == [f"text of {name}" for name in saved["key"]]
    assert loaded.take(SHUFFLED.rename(columns={"id": "key"}))["text"].tolist() == saved["text"].tolist()


def test_a_table_without_the_rows_is_refused(tmp_path):
    other = FRAME.assign(id=FRAME["id"] + 5000)
    with pytest.raises(InputError, match=r"table must have the selected rows; there is none with the id \d+\."):
        PICKED.take(other)
    with pytest.raises(InputError, match=r"The ids of the selected rows must be ids that column 'id' has; got '\d+'\."):
        cs.save(PICKED, tmp_path / "picked.csv", table=other)
    double = pd.concat([SHUFFLED, SHUFFLED])
    with pytest.raises(InputError, match=r"table must have one row for each id; several have the id \d+\."):
        PICKED.take(double)
    with pytest.raises(InputError, match="ids that only one row has"):
        cs.save(PICKED, tmp_path / "picked.csv", table=double)
    assert not (tmp_path / "picked.csv").exists()


def test_without_ids_rows_are_where_they_were(tmp_path):
    plain = FRAME.drop(columns="id")
    assert PICKED.take(plain)["text"].tolist() == [f"text of {name}" for name in PICKED.names]
    with pytest.raises(InputError, match=f"table must have all {N} rows that were selected from; got 5 rows"):
        PICKED.take(plain[:5])
    with pytest.raises(InputError, match=f"table must be one of all {N} rows, or of the 9 selected ones; got 5 rows"):
        cs.save(PICKED, tmp_path / "picked.csv", table=plain[:5])


def test_an_index_without_a_name_is_not_saved(tmp_path):
    odd = FRAME.set_index(pd.Index(RNG.permutation(N)))
    cs.save(cs.select(odd, budget=5), tmp_path / "picked.parquet", table=odd)
    assert "__index_level_0__" not in pd.read_parquet(tmp_path / "picked.parquet").columns
    odd.to_parquet(tmp_path / "rows.parquet")
    cs.save(cs.select(tmp_path / "rows.parquet", budget=5), tmp_path / "p.parquet", table=tmp_path / "rows.parquet")
    assert "__index_level_0__" not in pd.read_parquet(tmp_path / "p.parquet").columns
    named = FRAME.set_index(pd.Index(RNG.permutation(N), name="visit"))
    cs.save(cs.select(named, budget=5), tmp_path / "picked.parquet", table=named)
    assert "visit" in pd.read_parquet(tmp_path / "picked.parquet").columns


def test_a_selection_says_which_columns_it_used(tmp_path):
    assert repr(PICKED) == "WeightedSelection(9 of 90 rows, 0 losses asked, seed=0, columns x, y)"
    assert PICKED.provenance.columns == ("x", "y")
    assert "columns used" in PICKED._repr_html_()
    loaded = cs.load(cs.save(PICKED, tmp_path / "picked.jsonl"))
    assert loaded.provenance.columns == ("x", "y")
    assert cs.select(FRAME[["x", "y"]].to_numpy(), budget=9).provenance.columns is None
    wide = cs.cover(pd.DataFrame(RNG.normal(size=(40, 7)), columns=list("abcdefg")), 3)
    assert repr(wide).endswith("columns a, b, c, d and 3 more)")
    fit = cs.regression.select(FRAME.assign(price=1.0), lambda ids: ids * 1.0, 9)
    assert "columns x, y, price" in repr(fit)
    assert "columns used" in fit._repr_html_()
    assert "labels asked" in fit._repr_html_()


def test_results_without_weights_have_only_columns_that_mean_something(tmp_path):
    run = cs.active_learning(FRAME, 6, rounds=1, labels=np.where(FRAME["x"] > 0, "right", "left"))
    labeled, covering = run.complete(), cs.cover(FRAME, 6)
    assert labeled.to_arrow().column_names == ["row", "id", "label", "origin", "order", "round"]
    assert covering.to_arrow().column_names == ["row", "id", "origin", "order", "represents"]
    for made in (labeled, covering):
        assert cs.load(cs.save(made, tmp_path / "made.parquet")) == made
        assert set(pd.read_parquet(tmp_path / "made.parquet").columns) == set(made.to_arrow().column_names)
