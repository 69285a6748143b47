"""The selected rows of a table come out by their ids, whatever the table's order; values are never silently others'."""

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import coresift as cs
from coresift.checks import InputError
from coresift.types import content_of, looked_at
from coresift.types.places import length_of

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
    with pytest.raises(InputError, match=f"a table with all {N} rows, or one with the 9 selected rows; got 5 rows"):
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


PLAIN = FRAME.drop(columns="id")
MIXED = PLAIN.sample(frac=1, random_state=1)
OTHER_ORDER = (
    r"table must be in the order of the rows that were selected from; judging by the columns used \(x, y\), they"
)
FORMS = {
    "pandas": lambda frame: frame,
    "single precision": lambda frame: frame.astype({"x": np.float32, "y": np.float32}),
    "texts for numbers": lambda frame: frame.astype({"x": str}),
    "polars": pl.from_pandas,
    "Arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "chunks": lambda frame: pa.concat_tables([pa.Table.from_pandas(frame[:40]), pa.Table.from_pandas(frame[40:])]),
    "dict": lambda frame: frame.to_dict("list"),
    "rows": cs.open_rows,
    "standardized rows": lambda frame: cs.open_rows(frame, standardize=True),
}
JOBS = {
    "select": lambda rows: cs.select(rows, budget=9, given=[3], exclude=[5]),
    "normalized": lambda rows: cs.select(rows, budget=9, normalize=True),
    "standardized": lambda rows: cs.select(cs.open_rows(rows, standardize=True), budget=9),
    "grow": lambda rows: cs.grow(cs.select(rows, budget=9), budget=15, rows=rows),
    "cover": lambda rows: cs.cover(rows, 9, given=[3]),
    "uniform": lambda rows: cs.baselines.uniform(rows, 9),
    "regression": lambda rows: cs.regression.select(rows, lambda ids: ids * 1.0, 12).selection,
    "rounds": lambda rows: list(cs.rounds(rows, lambda ids: ids + 1.0, 9, 3, 2))[-1],
    "active learning": lambda rows: cs.active_learning(rows, 6, rounds=1, labels=["a", "b"] * (N // 2)).complete(),
}


@pytest.mark.parametrize("form", FORMS)
def test_another_order_is_noticed_without_ids(form, tmp_path):
    picked = cs.select(PLAIN, budget=9)
    picked.take(FORMS[form](PLAIN))
    cs.save(picked, tmp_path / "picked.parquet", table=FORMS[form](PLAIN))
    loaded = cs.load(tmp_path / "picked.parquet")
    for made in (picked, loaded):
        with pytest.raises(InputError, match=OTHER_ORDER):
            made.take(FORMS[form](MIXED))
        with pytest.raises(InputError, match=OTHER_ORDER):
            cs.save(made, tmp_path / "other.csv", table=FORMS[form](MIXED))
    assert not (tmp_path / "other.csv").exists()


@pytest.mark.parametrize("job", JOBS)
def test_every_job_notices_another_order(job, tmp_path):
    made = JOBS[job](PLAIN)
    assert made.take(PLAIN)["text"].tolist() == PLAIN["text"].iloc[made.ids].tolist()
    cs.save(made, tmp_path / "made.csv", table=PLAIN.iloc[made.ids])
    with pytest.raises(InputError, match=OTHER_ORDER):
        made.take(MIXED)
    with pytest.raises(InputError, match=OTHER_ORDER):
        cs.save(made, tmp_path / "made.csv", table=PLAIN.iloc[made.ids[::-1]])


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_another_order_of_a_file_is_noticed(suffix, tmp_path):
    writers = {
        "csv": lambda frame, path: frame.to_csv(path, index=False),
        "parquet": lambda frame, path: frame.to_parquet(path, row_group_size=7),
        "jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True, double_precision=15),
    }
    for name, frame in (("right", PLAIN), ("mixed", MIXED)):
        writers[suffix](frame, tmp_path / f"{name}.{suffix}")
    picked = cs.select(tmp_path / f"right.{suffix}", budget=9)
    cs.save(picked, tmp_path / "picked.parquet", table=tmp_path / f"right.{suffix}")
    with pytest.raises(InputError, match=OTHER_ORDER):
        cs.save(picked, tmp_path / "picked.parquet", table=tmp_path / f"mixed.{suffix}")


def test_lists_of_numbers_are_compared_too(tmp_path):
    lists = pa.table({"vector": list(RNG.normal(size=(N, 3))), "text": PLAIN["text"]})
    picked = cs.select(lists, budget=9)
    assert picked.provenance.columns == ("vector",)
    for table in (lists, lists.to_pandas(), pl.from_arrow(lists)):
        picked.take(table)
        with pytest.raises(InputError, match=r"by the columns used \(vector\), they have moved"):
            picked.take(table[::-1] if not isinstance(table, pa.Table) else table.take(np.arange(N)[::-1]))


def test_a_table_without_the_columns_is_taken_by_position(tmp_path):
    picked = cs.select(PLAIN, budget=9)
    texts = MIXED[["text"]]
    assert picked.take(texts)["text"].tolist() == texts["text"].iloc[picked.ids].tolist()
    cs.save(picked, tmp_path / "picked.csv", table=texts)
    np.testing.assert_array_equal(picked.take(MIXED[["x", "y"]].to_numpy()), MIXED[["x", "y"]].to_numpy()[picked.ids])
    by_array = cs.select(PLAIN[["x", "y"]].to_numpy(), budget=9)
    by_array.take(MIXED)


@pytest.mark.parametrize("form", FORMS)
def test_other_numbers_in_the_same_order_are_told_and_taken(form, tmp_path):
    scaled = PLAIN.assign(x=PLAIN["x"] * 100, y=PLAIN["y"] - 7)
    picked = cs.select(scaled, budget=9)
    told = r"In table, the columns used \(x, y\) differ from the rows that .*; rows are taken by position\."
    with pytest.warns(cs.CoresiftWarning, match=told):
        assert length_of(picked.take(FORMS[form](PLAIN))) == 9
    with pytest.warns(cs.CoresiftWarning, match=told):
        cs.save(picked, tmp_path / "picked.csv", table=FORMS[form](PLAIN))
    assert pd.read_csv(tmp_path / "picked.csv")["text"].tolist() == PLAIN["text"].iloc[picked.ids].tolist()


def test_some_changed_rows_are_not_another_order():
    picked = cs.select(PLAIN, budget=9)
    for row in picked.ids:
        changed = PLAIN.copy()
        changed.loc[row, "x"] = 5.0
        with pytest.warns(cs.CoresiftWarning, match="differ from the rows that"):
            picked.take(changed)


def test_a_table_with_some_of_the_columns_is_compared_by_those():
    three = PLAIN.assign(year=np.arange(N) % 7, level=1.5)
    picked = cs.select(three, budget=9)
    assert picked.provenance.columns == ("x", "y", "year", "level")
    mixed = three.sample(frac=1, random_state=1)
    for some in (["x"], ["year", "text"], ["text", "level", "y"], ["year", "x"]):
        assert len(picked.take(three[some])) == 9
        with pytest.raises(InputError, match=r"by the columns used \([a-z, ]+\), they have moved"):
            picked.take(mixed[some])
        with pytest.raises(InputError, match="they have moved"):
            picked.take(pl.from_pandas(mixed[some]))
    assert len(picked.take(mixed[["level", "text"]])) == 9  # nothing varies, so nothing can be told


def test_an_edited_column_is_named_and_is_not_another_order():
    three = PLAIN.assign(year=np.arange(N) % 7)
    picked = cs.select(three, budget=9)
    with pytest.warns(cs.CoresiftWarning, match=r"In table, the columns used \(year\) differ from"):
        assert len(picked.take(three.assign(year=(three["year"] + 1) % 7))) == 9


def test_rows_that_no_method_reads_need_no_numbers():
    holes = PLAIN.assign(x=np.nan)
    picked = cs.baselines.uniform(holes, 9)
    assert picked.provenance.content is None
    assert len(picked.take(holes)) == 9


def test_the_digest_is_that_of_the_selected_rows_alone_and_of_any_layout(tmp_path):
    values = RNG.normal(size=(4000, 2)).astype(np.float32)
    np.save(tmp_path / "rows.npy", values)
    half = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for path, part in zip(half, np.array_split(values, 2), strict=True):
        np.save(path, part)
    ids = np.arange(3, 4000, 3)
    expected = content_of([np.stack([values[row] for row in looked_at(ids)])], 1024)
    for source in (values, values.astype(np.float64), tmp_path / "rows.npy", half, values.tolist()):
        assert cs.open_rows(source).content(ids) == expected
    for view in (cs.open_rows(values).standardized(), cs.open_rows(values).normalized()):
        assert view.content(ids) == expected
    assert cs.open_rows(values).subset(ids).content(np.arange(ids.size)) == expected
    changed = values.copy()
    changed[np.setdiff1d(np.arange(4000), ids)] += 1
    assert cs.open_rows(changed).content(ids) == expected
    for row in looked_at(ids)[::100]:
        changed = values.copy()
        changed[row] += 1e-3
        assert cs.open_rows(changed).content(ids) != expected


def test_an_older_file_has_no_digest_and_is_taken_by_position():
    picked = cs.select(PLAIN, budget=9)
    older = dataclasses.replace(picked, provenance=dataclasses.replace(picked.provenance, content=None))
    assert older == picked
    assert len(older.take(MIXED)) == 9


@pytest.mark.slow
def test_a_report_notices_another_order(tmp_path):
    picked = cs.select(PLAIN, budget=9)
    page = tmp_path / "page.html"
    with pytest.raises(InputError, match="rows must be the rows that were selected from, in their order; got other"):
        cs.report(picked, page, rows=MIXED)
    with pytest.raises(InputError, match=OTHER_ORDER):
        cs.report(picked, page, rows=PLAIN, table=MIXED, text="text")
    assert not page.exists()
    cs.report(picked, page, rows=PLAIN.assign(loss=1.0), table=PLAIN, text="text")
    assert page.exists()


def test_a_lazy_frame_is_collected_first():
    with pytest.raises(InputError, match=r"table must be .* in memory; got a LazyFrame; collect\(\) it first\."):
        cs.select(PLAIN, budget=9).take(pl.from_pandas(PLAIN).lazy())


def test_a_dict_of_splits_names_one_of_them():
    class Split(list):
        column_names = ("text",)

    chosen = cs.cover(np.arange(20.0).reshape(10, 2), 2)
    with pytest.raises(InputError, match=r"^table must be one table; got a dict; pass .* as dataset\['train'\]\.$"):
        chosen.take({"train": Split("abcdefghij")})


def test_a_selection_without_weights_says_so():
    chosen = cs.cover(np.arange(20.0).reshape(10, 2), 2)
    assert repr(chosen) == "CoverSelection(2 of 10 rows, seed=0)"
    assert not hasattr(chosen, "weights")
    with pytest.raises(AttributeError, match=r"^A CoverSelection has no weights; use its rows as they are\.$"):
        _ = chosen.weights
    with pytest.raises(AttributeError, match=r"^'CoverSelection' object has no attribute 'wights'$"):
        _ = chosen.wights
