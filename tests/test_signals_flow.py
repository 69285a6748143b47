"""`signals=`: every form gives the same table, and the flow uses it wherever it is given."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import coresift as cs
from coresift.recipes.known import read_signals

N = 1_200


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(N, 5)).astype(np.float32)
    hard = rng.lognormal(sigma=1.2, size=N)
    return rows, hard * rng.exponential(size=N), hard


def test_every_form_is_the_same_table(problem, tmp_path):
    rows, _, hard = problem
    kinds = np.where(np.arange(N) % 3, "a", "b")
    table = pa.table({"id": [f"r{i}" for i in range(N)], "hard": hard, "kind": kinds, "x": rows[:, 0], "y": rows[:, 1]})
    opened = cs.open_rows(table, columns=["x", "y"])
    expected = read_signals({"hard": hard, "kind": kinds}, None)
    assert expected.names == ("hard", "kind=a", "kind=b")
    pq.write_table(table.select(["hard", "kind"]), tmp_path / "plain.parquet")
    shuffled = np.random.default_rng(1).permutation(N)
    pq.write_table(table.select(["id", "hard", "kind"]).take(shuffled), tmp_path / "by_id.parquet")
    numbered = table.select(["hard", "kind"]).append_column("row", pa.array(np.arange(N))).take(shuffled)
    pq.write_table(numbered, tmp_path / "by_row.parquet")
    forms = [
        "hard,kind",
        ["hard", "kind"],
        {"hard": "hard", "kind": kinds.tolist()},
        table.select(["hard", "kind"]),
        table.select(["hard", "kind"]).to_pandas(),
        *(tmp_path / f"{name}.parquet" for name in ("plain", "by_id", "by_row")),
        expected,
    ]
    for form in forms:
        assert read_signals(form, opened) == expected
    np.save(tmp_path / "hard.npy", hard)
    assert np.array_equal(read_signals(str(tmp_path / "hard.npy"), opened).columns[:, 0], hard)
    assert read_signals(None, opened) is None


def test_missing_values_and_classes_are_allowed(problem):
    rows, losses, hard = problem
    partly = np.where(np.arange(N) % 7, hard, np.nan)
    picked = cs.select(rows, losses, 100, signals={"hard": partly, "kind": [None, "a", "b"] * (N // 3)})
    assert picked.provenance.frame["signals"]["names"] == [
        "hard",
        "hard is missing",
        "kind=a",
        "kind=b",
        "kind=missing",
    ]
    assert (picked.recipe.pilot, picked.recipe.score) == (cs.pilots.Informed(), cs.scores.Portfolio())
    assert "hard is missing" in picked.provenance.lines()["signals"]


@pytest.mark.slow
def test_a_good_signal_makes_the_error_smaller(problem):
    rows, losses, hard = problem
    clustering = cs.cluster(rows, 15, seed=0)

    def error(**options):
        picked = [cs.select(rows, losses, 150, seed, clusters=clustering, **options) for seed in range(40)]
        return np.sqrt(np.mean([(one.weights @ losses[one.ids] - losses.sum()) ** 2 for one in picked]))

    assert error(signals=hard) < 0.8 * error()


@pytest.mark.slow
def test_rows_may_be_left_out(problem, tmp_path):
    _, losses, hard = problem
    pq.write_table(pa.table({"hard": hard}), tmp_path / "known.parquet")
    from_file, from_array = (
        cs.select(losses=losses, budget=100, signals=known) for known in (tmp_path / "known.parquet", {"hard": hard})
    )
    assert from_file == from_array
    assert cs.select(budget=50, signals=hard).n == N
    assert cs.plan(budget=100, signals=hard).rows == N
    assert cs.diagnose(None, losses, 200, signals=hard).ratio.value < 1
    run = cs.start(cs.select, budget=100, signals={"hard": hard})
    run.tell(ids := run.ask(), losses[ids])
    assert run.result == from_array
    with pytest.raises(cs.InputError, match="rows must be given, or signals"):
        cs.select(losses=losses, budget=100)


def test_what_would_do_nothing_is_refused(problem):
    rows, losses, hard = problem
    with pytest.raises(cs.InputError, match="signals need losses to confirm them"):
        cs.select(rows, budget=100, signals=hard)
    with pytest.raises(cs.InputError, match="does not use signals"):
        cs.select(rows, losses, 100, signals=hard, score=cs.scores.Learned())
    with pytest.raises(cs.InputError, match="one number or name for each of 1200 rows"):
        cs.select(rows, losses, 100, signals=hard[:7])
    with pytest.raises(cs.InputError, match="these rows have no table"):
        cs.select(rows, losses, 100, signals="hard")
    table = cs.open_rows(pa.table({"x": hard, "y": losses}))
    with pytest.raises(cs.InputError, match="columns of the rows' table"):
        cs.select(table, losses, 100, signals="hard")


def test_the_clustering_and_file_keep_the_signals(problem, tmp_path):
    rows, losses, hard = problem
    picked = cs.select(rows, losses, 100, signals=hard)
    cs.save(picked, tmp_path / "picked.parquet")
    assert cs.load(tmp_path / "picked.parquet") == picked


def test_columns_of_times_are_classes_and_odd_row_numbers_are_refused(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    pq.write_table(pa.table({"when": pa.array(range(60), pa.time64("ns"))}), tmp_path / "times.parquet")
    names = read_signals(tmp_path / "times.parquet", cs.open_rows(rows)).names
    assert "when=00:00:00.000000001" in names
    for odd in ([None, *range(59)], [f"row {row}" for row in range(60)]):
        pq.write_table(pa.table({"row": odd, "hard": np.arange(60.0)}), tmp_path / "odd.parquet")
        with pytest.raises(cs.InputError, match=r"every row once|The column row cannot be read"):
            read_signals(tmp_path / "odd.parquet", cs.open_rows(rows))
