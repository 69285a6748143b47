"""The rows that a selection was made from are recognized, and opened as they were: same columns, same scaling."""

import re

import numpy as np
import pandas as pd
import pytest

import coresift as cs
from coresift.reporting import facts_of
from coresift.reporting.reproducing import as_code

RNG = np.random.default_rng(4)
N = 300
FRAME = pd.DataFrame(
    {
        "year": 1975 + RNG.integers(45, size=N),
        "lat": RNG.normal(20, 9, size=N),
        "pressure": RNG.normal(990, 15, size=N),
        "wind": RNG.exponential(30, size=N),
        "name": [f"storm {row}" for row in range(N)],
    }
)
USED = ["lat", "pressure", "year"]
WIND = FRAME["wind"].to_numpy()


@pytest.fixture(scope="module")
def rows():
    return cs.open_rows(FRAME, columns=USED, standardize=True)


@pytest.fixture(scope="module")
def picked(rows):
    return cs.select(rows, WIND, 30)


def test_a_selection_knows_whether_its_rows_were_standardized(picked, tmp_path):
    assert picked.provenance.standardized is True
    assert cs.load(cs.save(picked, tmp_path / "picked.csv")).provenance.standardized is True
    assert cs.select(FRAME[USED], WIND, 30).provenance.standardized is False
    named = cs.open_rows(FRAME[USED].to_numpy(), standardize=True).named(list(FRAME["name"]))
    assert cs.cover(named, 5).provenance.standardized is True


def test_a_selection_grows_from_the_frame_as_from_the_rows(rows, picked):
    assert cs.grow(picked, WIND, 40, rows=FRAME) == cs.grow(picked, WIND, 40, rows=rows)
    array = cs.select(cs.open_rows(FRAME[USED].to_numpy(), standardize=True), WIND, 30)
    assert np.array_equal(
        cs.grow(array, WIND, 40, rows=FRAME[USED].to_numpy()).ids, cs.grow(picked, WIND, 40, rows=rows).ids
    )


def test_a_report_maps_the_frame_as_the_rows(rows, picked):
    raw, opened = facts_of(picked, rows=FRAME), facts_of(picked, rows=rows)
    assert raw.map["captured"] == opened.map["captured"]
    assert np.array_equal(raw.map["x"], opened.map["x"])


def test_other_rows_are_refused_in_words(rows, picked):
    mixed = FRAME.sample(frac=1, random_state=0)
    with pytest.raises(cs.InputError, match="rows must be the rows that were selected from, in their order"):
        cs.grow(picked, WIND, 40, rows=mixed)
    with pytest.raises(cs.InputError, match="rows must be the 300 rows that were selected from; got 299 rows"):
        cs.grow(picked, WIND, 40, rows=FRAME[1:])
    plain = cs.select(FRAME[USED], WIND, 30)
    with pytest.raises(cs.InputError, match="rows must be opened without standardize=True, as they were"):
        cs.grow(plain, WIND, 40, rows=rows)
    changed = FRAME.assign(lat=np.where(np.isin(np.arange(N), picked.ids), FRAME["lat"], 90.0))
    with pytest.raises(cs.InputError, match=r"these give other clusters, because of .* scaling \(standardize=True\)"):
        cs.grow(picked, WIND, 40, rows=changed)


def test_grow_names_all_that_is_missing(picked):
    with pytest.raises(cs.InputError, match=r"^losses and rows must be given, as they were for the selection\.$"):
        cs.grow(picked, budget=40)
    with pytest.raises(cs.InputError, match=r"^rows must be given"):
        cs.grow(picked, WIND, budget=40)


def run(code, **names):
    exec(code, names)
    return names["selection"]


def test_the_code_of_a_report_repeats_the_selection_of_a_table(picked):
    found = facts_of(picked, rows=FRAME, losses=WIND)
    assert run(found.code, table=FRAME, losses=WIND) == picked
    grown = run("import coresift as cs\n" + found.growth, selection=picked, losses=WIND, rows=FRAME)
    assert len(grown) == 2 * len(picked)
    classes = (FRAME["year"] % 2).to_numpy()
    strata = cs.select(FRAME[USED], WIND, 30, strata=classes)
    growth = facts_of(strata, rows=FRAME).growth
    assert len(run("import coresift as cs\n" + growth, selection=strata, losses=WIND, rows=FRAME, strata=classes)) == 60


def test_a_column_of_lists_is_named_in_the_code():
    table = pd.DataFrame({"vector": list(FRAME[USED].to_numpy()), "wind": WIND})
    picked = cs.select(table, WIND, 30)
    assert "cs.open_rows(table, columns=['vector'])" in as_code(picked)
    assert run(as_code(picked), table=table, losses=WIND) == picked


def test_only_a_selection_that_can_grow_says_how(rows):
    assert facts_of(cs.baselines.uniform(rows, 30)).growth is None
    assert facts_of(cs.select(rows, WIND, 299)).growth is None
    assert facts_of(cs.select(rows, budget=30)).growth == "selection = cs.grow(selection, budget=60, rows=rows)"


def test_the_command_has_the_columns_and_the_scaling(picked, tmp_path):
    FRAME.to_csv(tmp_path / "storms.csv", index=False)
    loaded = cs.select(cs.open_rows(tmp_path / "storms.csv", exclude_columns=["wind"], standardize=True), WIND, 30)
    command = facts_of(loaded, rows=tmp_path / "storms.csv").command
    assert "--exclude-column wind --standardize --losses LOSSES" in command
    assert facts_of(picked, rows=FRAME).command is None  # columns in another order
    assert facts_of(loaded).command is None  # without the table, nobody knows which columns it has
    array = cs.select(cs.open_rows(FRAME[USED].to_numpy(), standardize=True), WIND, 30)
    assert re.search(r"--seed 0 --standardize --losses", facts_of(array).command)


def test_values_in_another_order_are_refused(picked):
    wind = FRAME["wind"].iloc[picked.ids]
    in_order = cs.estimate(picked, wind)
    mixed = wind.sample(frac=1, random_state=0)
    for argument, call in {
        "values": lambda: cs.estimate(picked, mixed),
        "groups": lambda: cs.estimate(picked, wind, groups=mixed > 20),
        "losses": lambda: facts_of(picked, losses=mixed),
    }.items():
        with pytest.raises(cs.InputError, match=rf"{argument} must be in the order of selection.ids; its index has"):
            call()
    assert cs.estimate(picked, mixed.loc[picked.ids]) == in_order
    assert cs.estimate(picked, wind.set_axis(FRAME["name"].iloc[picked.ids])) == in_order
    assert cs.estimate(picked, mixed.to_numpy()) != in_order


def test_values_by_id_in_another_order_are_refused():
    named = FRAME.rename(columns={"name": "id"})
    picked = cs.select(named, budget=30)
    wind = named.set_index("id")["wind"].loc[list(picked.names)]
    cs.estimate(picked, wind)
    with pytest.raises(cs.InputError, match=r"use values.loc\[list\(selection.names\)\]"):
        cs.estimate(picked, wind[::-1])


def test_a_frame_of_values_is_several_columns(picked):
    part = FRAME[["wind", "pressure"]].iloc[picked.ids]
    found = cs.estimate(picked, part)
    assert found == {"wind": cs.estimate(picked, part["wind"]), "pressure": cs.estimate(picked, part["pressure"])}
    with pytest.raises(cs.InputError, match=r"got shape \(30, 2\); give several columns as a frame or a dict\.$"):
        cs.estimate(picked, part.to_numpy())


def test_unusable_values_and_groups_say_what_to_give(picked):
    part = FRAME.iloc[picked.ids]
    with pytest.raises(cs.InputError, match=r"values must be 30 numbers; got text, such as 'storm \d+'\.$"):
        cs.estimate(picked, part["name"])
    with pytest.raises(cs.InputError, match=r"got text, such as '\d"):
        cs.estimate(picked, part["wind"].astype(str))
    with pytest.raises(
        cs.InputError, match=r"got the text 'year'; give the labels .*: selection.take\(table\)\['year'\]"
    ):
        cs.estimate(picked, part["wind"], groups="year")
    holes = part["wind"].where(part["wind"] > 20)
    with pytest.raises(cs.InputError, match=r"\(unusable in \d+ of 30\); values.fillna\(0\) with groups=values.notna"):
        cs.estimate(picked, holes)
    known = cs.estimate(picked, holes.fillna(0), groups=holes.notna())[True]
    assert known.mean.value > 20


@pytest.mark.parametrize("numeric", [False, True])
def test_the_model_of_a_run_reads_a_frame_as_the_run_did(rows, numeric):
    labels = FRAME["lat"] + 3.0 if numeric else np.where(FRAME["lat"] > 20, "north", "south")
    run = cs.active_learning(rows, 30, rounds=1, audit=None, numeric=numeric, labels=np.asarray(labels))
    run.complete()
    expected = run.model.predict(rows)
    assert np.array_equal(run.model.predict(rows.take(np.arange(N))), expected)
    for source in (FRAME, FRAME[[*USED[::-1], "name"]], cs.open_rows(FRAME, columns=USED)):
        np.testing.assert_array_equal(run.model.predict(source), expected)
    with pytest.warns(cs.CoresiftWarning, match="X looks like numbers that are not standardized"):
        run.model.predict(FRAME[USED].to_numpy())
    with pytest.raises(cs.InputError, match=r"X must be a matrix with 3 columns; got shape \(4, 2\)"):
        run.model.predict(np.zeros((4, 2)))
    with pytest.raises(cs.InputError, match="'lat'"):
        run.model.predict(FRAME[["year", "pressure"]])
    cautious = "LogisticHead(cautious=True, fit to 3 features and 2 classes)"
    fitted = "RidgeHead(fit to 3 features)" if numeric else cautious
    assert repr(run.model) == fitted


def test_a_fit_standardizes_opened_rows_that_are_not(rows):
    fit = cs.regression.select(rows, WIND, 40).fit()
    expected = fit.predict(rows)
    np.testing.assert_allclose(fit.predict(cs.open_rows(FRAME, columns=USED)), expected, rtol=1e-5)
    np.testing.assert_allclose(fit.predict(FRAME), expected, rtol=1e-5)
    with pytest.warns(cs.CoresiftWarning, match="A looks like numbers that are not standardized"):
        fit.predict(FRAME[USED].to_numpy())
