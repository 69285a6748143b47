"""Files: what is saved loads back equal, holds nothing about the run, and is there whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import coresift as cs
from coresift.checks import CoresiftError, InputError
from coresift.tables.writing import check_target, open_noted, write_table
from coresift.types import ORIGINS, Opaque, Provenance

SUFFIXES = (".parquet", ".csv", ".jsonl")
ROWS = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
LOSSES = np.random.default_rng(1).exponential(size=300)
PICKED = cs.select(ROWS, LOSSES, budget=30, given=[4, 8], exclude=[5])
CLUSTERING = cs.cluster(ROWS, 6)

FINITE = st.floats(allow_nan=False, allow_infinity=False)
ABOVE_ZERO = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
SHARES = st.floats(0, 1)
SINGLES = st.floats(0, allow_infinity=False, width=32)
# Everything that UTF-8 can hold; halves of a character it cannot.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9) | st.sampled_from(
    ["", "NA", "null", "nan", '"', 'a "b", c', "two\nlines", "\r\n", " 7 ", "007", "-", "\t", "ünïcödé \u2028", "\x00"]
)


@st.composite
def selections(draw):
    """Any selection that the type allows, sensible or not."""
    n = draw(st.integers(1, 40))
    ids = sorted(draw(st.sets(st.integers(0, n - 1), max_size=12)))
    size = len(ids)

    def column(elements, dtype=np.float64):
        return np.array(draw(st.lists(elements, min_size=size, max_size=size)), dtype)

    whole = st.integers(0, 2**63 - 1)
    names = draw(st.sampled_from([None, TEXTS, TEXTS | st.none(), st.integers(-(2**63), 2**63 - 1), whole | st.none()]))
    shared = {
        "ids": np.array(ids, np.int64),
        "clusters": column(st.integers(0, 2**31 - 1), np.int32),
        "distances": column(SINGLES, np.float32),
        "origin": column(st.integers(0, len(ORIGINS) - 1), np.uint8),
        "order": column(whole, np.int64),
        "losses": column(st.floats(0, allow_infinity=False) | st.just(np.nan)),
        "n": n,
        "population": draw(st.integers(size, n)),
        "seed": draw(st.integers(0, 2**80)),
        "provenance": draw(provenances()),
        "ledger": cs.types.Ledger(((1, draw(TEXTS), draw(st.integers(0, n))),)),
        "names": None if names is None else tuple(draw(st.lists(names, min_size=size, max_size=size))),
    }
    if draw(st.booleans()):
        return cs.Selection(**shared)
    return cs.WeightedSelection(
        **shared,
        weights=column(ABOVE_ZERO),
        inclusion=column(ABOVE_ZERO),
        share=column(SHARES),
        phase=column(st.integers(0, 2), np.uint8),
        multiplicity=column(whole, np.int64),
        z=draw(ABOVE_ZERO),
        phases=(
            None,
            draw(st.sampled_from([cs.designs.Pivotal(), cs.designs.Poisson(), cs.designs.Independent(), None])),
        ),
        holder=draw(arrays.arrays(np.float64, st.integers(0, 3), elements=FINITE)),
    )


@st.composite
def provenances(draw):
    """Any provenance: a job of ours or a foreign name, with or without a recipe, with strategies that hold arrays."""
    scores = [
        cs.scores.Learned(),
        cs.scores.Sensitivity(np.inf),
        cs.scores.Sensitivity([0.5, 2.0]),
        cs.scores.Proxy([1.0, 0.0]),
        Opaque("score", "Z"),
    ]
    recipe = cs.recipes.Recipe(draw(st.integers(1, 9)), 2.0, draw(st.booleans()), score=draw(st.sampled_from(scores)))
    options = draw(st.dictionaries(TEXTS, TEXTS, max_size=3))
    frame = {"rows": draw(st.integers(1, 99)), "given": {"count": 2, "digest": draw(TEXTS)}}
    return Provenance(
        draw(TEXTS), draw(st.integers(1, 2**70)), draw(st.sampled_from([None, recipe])), frame, 3, options
    )


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(selection=selections())
def test_any_selection_loads_back_equal(tmp_path, suffix, selection):
    path = tmp_path / f"any{suffix}"
    assert cs.save(selection, str(path)) == path
    loaded = cs.load(path)
    assert loaded == selection
    for name in ("ids", "weights", *selection.COLUMNS):
        one, other = getattr(selection, name, None), getattr(loaded, name, None)
        assert (one is None and other is None) or one.tobytes() == other.tobytes() or name == "losses"
    assert [type(name) for name in loaded.names or ()] == [type(name) for name in selection.names or ()]


DESIGNS = {
    "default": {},
    "paper": {
        "pilot": cs.pilots.Centers(),
        "score": cs.scores.Sensitivity(holder=0.3),
        "design": cs.designs.Independent(),
    },
    "poisson": {"design": cs.designs.Poisson(), "given": [1, 2]},
    "everything": {"budget": 300},
    "one row": {"budget": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("design", DESIGNS)
def test_a_loaded_selection_gives_the_same_intervals(tmp_path, suffix, design):
    options = {"budget": 40, "clusters": 1, **DESIGNS[design]}
    picked = cs.select(ROWS, None if options["budget"] == 1 else LOSSES, **options)
    loaded = cs.load(cs.save(picked, tmp_path / f"picked{suffix}"))
    assert loaded == picked
    values = {"loss": LOSSES[picked.ids], "first": ROWS[picked.ids, 0]}
    groups = picked.ids % 3
    assert cs.estimate(loaded, values) == cs.estimate(picked, values)
    assert cs.estimate(loaded, values, groups=groups) == cs.estimate(picked, values, groups=groups)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_empty_selection_is_a_selection(tmp_path, suffix):
    seed = next(
        seed for seed in range(99) if not len(cs.select(ROWS, budget=1, seed=seed, design=cs.designs.Poisson()))
    )
    empty = cs.select(ROWS, budget=1, seed=seed, design=cs.designs.Poisson())
    for selection in (empty, dataclasses.replace(empty, names=())):
        assert cs.load(cs.save(selection, tmp_path / f"empty{suffix}")) == selection


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "column",
    [
        pa.array(np.arange(300, dtype=np.uint64) + np.uint64(2**64 - 400)),
        pa.array([f"row {row}" if row % 2 else None for row in range(300)]),
        pa.array(np.arange(300) / 7),
        pa.array(np.arange(300) * 86_400, pa.timestamp("s")),
        pa.array([str(row % 5) for row in range(300)]).dictionary_encode(),
        pa.array([bool(row % 2) for row in range(300)]),
    ],
    ids=lambda column: str(column.type)[:12],
)
def test_own_ids_of_any_type_come_back(tmp_path, suffix, column):
    picked = cs.select(pa.table({"id": column, "embedding": ROWS.tolist()}), budget=20)
    assert picked.names is not None
    assert cs.load(cs.save(picked, tmp_path / f"picked{suffix}")) == picked


# The form of the files


def test_a_selection_is_a_table_that_any_tool_reads(tmp_path):
    for suffix in SUFFIXES:
        cs.save(PICKED, tmp_path / f"picked{suffix}")
    table = pa.parquet.read_table(tmp_path / "picked.parquet")
    assert table.column_names[:3] == ["row", "weight", "inclusion"]
    assert table["row"].to_pylist() == PICKED.ids.tolist()
    assert table["weight"].to_pylist() == PICKED.weights.tolist()
    assert set(table["origin"].to_pylist()) <= set(ORIGINS)
    assert pa.csv.read_csv(tmp_path / "picked.csv")["weight"].to_pylist() == PICKED.weights.tolist()
    lines = [json.loads(line) for line in (tmp_path / "picked.jsonl").read_text().splitlines()]
    assert [line["weight"] for line in lines] == PICKED.weights.tolist()
    # No loss is a gap, not a NaN, which JSON does not know.
    assert [line["loss"] is None for line in lines] == np.isnan(PICKED.losses).tolist()


def test_the_manifest_tells_how_the_selection_was_made(tmp_path):
    cs.save(PICKED, tmp_path / "picked.csv")
    cs.save(PICKED, tmp_path / "picked.parquet")
    manifest = json.loads(pa.csv.read_csv(tmp_path / "picked.csv")["coresift"][0].as_py())
    assert manifest == json.loads(pa.parquet.read_schema(tmp_path / "picked.parquet").metadata[b"coresift"])
    assert (manifest["format"], manifest["version"]) == (3, cs.__version__)
    assert (manifest["rows"], manifest["population"], manifest["seed"], manifest["z"]) == (300, 299, 0, 2.0)
    assert manifest["ledger"] == [[1, "pilot", PICKED.ledger.asked]]
    assert manifest["provenance"]["recipe"]["score"] == cs.scores.Portfolio().record()
    assert manifest["provenance"]["frame"]["given"]["count"] == 2
    assert manifest["phases"][1] == {"kind": "design", "name": "Systematic", "options": {}}


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".npz"])
def test_a_file_holds_nothing_about_time_or_place(tmp_path, suffix):
    value = CLUSTERING if suffix == ".npz" else PICKED
    first = cs.save(value, tmp_path / f"first{suffix}")
    (tmp_path / "elsewhere").mkdir()
    time.sleep(1.1)  # file formats keep time in seconds
    second = cs.save(cs.load(first), tmp_path / "elsewhere" / f"second{suffix}")
    assert first.read_bytes() == second.read_bytes()


def test_a_clustering_loads_back_equal(tmp_path):
    for clustering in (CLUSTERING, cs.cluster(ROWS, 1, z=1.5, seed=2**70, normalize=True)):
        assert cs.load(cs.save(clustering, tmp_path / "clusters.npz")) == clustering


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), n=st.integers(1, 12), d=st.integers(1, 3), z=ABOVE_ZERO)
def test_any_clustering_loads_back_equal(tmp_path, data, n, d, z):
    k = data.draw(st.integers(1, n))
    centers = data.draw(st.permutations(range(n)))[:k]
    labels = np.array(data.draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)), np.int32)
    labels[centers] = np.arange(k)
    clustering = cs.Clustering(
        centers=np.array(centers, np.int64),
        labels=labels,
        distances=data.draw(arrays.arrays(np.float32, n, elements=SINGLES)),
        free_centers=data.draw(arrays.arrays(np.float32, (k, d), elements=SINGLES)),
        z=z,
        free_cost=data.draw(st.floats(0)),
        snapped_cost=data.draw(st.floats(0)),
        seed=data.draw(st.integers(0, 2**80)),
        normalized=data.draw(st.booleans()),
        fingerprint=data.draw(st.text("0123456789abcdef", max_size=24)),
    )
    assert cs.load(cs.save(clustering, tmp_path / "any.npz")) == clustering


# Whole or not at all


def test_permissions_follow_the_umask_or_stay_stricter_and_nothing_else_is_left(tmp_path):
    for mask, expected in ((0o002, 0o664), (0o022, 0o644), (0o077, 0o600), (0o002, 0o600)):
        before = os.umask(mask)
        try:
            for name in ("picked.parquet", "picked.csv", "picked.jsonl"):
                cs.save(PICKED, tmp_path / name)
            cs.save(CLUSTERING, tmp_path / "clusters.npz")
        finally:
            os.umask(before)
        names = {"picked.parquet", "picked.csv", "picked.jsonl", "clusters.npz"}
        assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == dict.fromkeys(names, expected)


LIMITED = """
import resource, signal, sys
import numpy as np
import coresift as cs

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
value = cs.load(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    cs.save(value, sys.argv[2])
except cs.CoresiftError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [*SUFFIXES, ".npz"])
def test_a_disk_that_is_full_leaves_the_old_file_and_says_so(tmp_path, suffix):
    large = cs.cluster(ROWS, 50) if suffix == ".npz" else cs.select(ROWS, LOSSES, budget=300)
    source = cs.save(large, tmp_path / f"source{suffix}")
    target = cs.save(CLUSTERING if suffix == ".npz" else PICKED, tmp_path / f"target{suffix}")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    words = [sys.executable, "-c", LIMITED, str(source), str(target), "2500"]  # more than a manifest, less than a table
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert said == f"{target} cannot be written: File too large.\n"
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert cs.load(target) == (CLUSTERING if suffix == ".npz" else PICKED)


def test_a_writer_that_fails_leaves_the_old_file(tmp_path):
    path = cs.save(PICKED, tmp_path / "picked.csv")
    before = path.read_bytes()
    parquet = cs.save(PICKED, tmp_path / "picked.parquet")
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    with pytest.raises(InputError, match=r"A \.parquet file cannot hold the column either: it has values of type"):
        write_table(pa.table({"either": union}), parquet)
    assert cs.load(parquet) == PICKED
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "real").mkdir()
    cs.save(CLUSTERING, tmp_path / "real" / "target.npz")
    (tmp_path / "link.npz").symlink_to(tmp_path / "real" / "target.npz")
    other = cs.cluster(ROWS, 3)
    cs.save(other, tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink()
    assert cs.load(tmp_path / "real" / "target.npz") == other


@pytest.mark.parametrize(
    ("value", "name", "sentence"),
    [
        (PICKED, "x.txt", "A selection must be a file with the extension .parquet, .csv or .jsonl; got x.txt."),
        (PICKED, "x.npz", "A selection must be a file with the extension .parquet, .csv or .jsonl; got x.npz."),
        (CLUSTERING, "x.csv", "A clustering must be a file with the extension .npz; got x.csv."),
        (ROWS, "x.csv", "value must be a Selection or a Clustering; got ndarray."),
        (PICKED, "none/x.csv", "There is no folder {}/none to write x.csv in."),
        (PICKED, "none/x.parquet", "There is no folder {}/none to write x.parquet in."),
        (PICKED, "folder.csv", "{}/folder.csv must be a file to write to; it is a folder."),
        (PICKED, "x" * 300 + ".csv", "{}/" + "x" * 300 + ".csv cannot be written: File name too long."),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_one_sentence(tmp_path, value, name, sentence):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(CoresiftError) as error:
        cs.save(value, tmp_path / name)
    assert str(error.value) == sentence.format(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []


def test_check_target_accepts_what_save_can_write(tmp_path):
    check_target(tmp_path / "x.csv", (".csv",), "a table")
    cs.save(PICKED, tmp_path / "x.csv")
    check_target(tmp_path / "x.csv", (".csv",), "a table")


# Damage


def refusal(path):
    with pytest.raises(InputError) as error:
        cs.load(path)
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")
    return str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [*SUFFIXES, ".npz"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_one_sentence_or_still_reads_as_it_was(tmp_path, suffix, data):
    value = CLUSTERING if suffix == ".npz" else PICKED
    path = cs.save(value, tmp_path / f"damaged{suffix}")
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:place]
    else:
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    try:
        loaded = cs.load(path)
    except InputError:
        refusal(path)
    else:
        assert loaded == value


def test_what_was_never_ours_is_refused(tmp_path):
    pa.parquet.write_table(pa.table({"row": [1]}), tmp_path / "plain.parquet")
    assert "is a .parquet file, but not a selection of coresift" in refusal(tmp_path / "plain.parquet")
    (tmp_path / "plain.csv").write_text("row,weight\n1,2\n")
    assert "is a .csv file, but not a selection of coresift" in refusal(tmp_path / "plain.csv")
    np.savez(tmp_path / "plain.npz", a=np.zeros(3))
    assert "is not a file that coresift wrote, or it is damaged" in refusal(tmp_path / "plain.npz")
    np.save(tmp_path / "array", np.zeros(3))
    (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    assert "is not a file that coresift wrote" in refusal(tmp_path / "array.npz")
    for suffix in (".parquet", ".npz"):
        (tmp_path / f"empty{suffix}").touch()
        assert "is not a file that coresift wrote" in refusal(tmp_path / f"empty{suffix}")
    assert refusal(tmp_path / "missing.csv") == f"There is no file {tmp_path / 'missing.csv'}."
    (tmp_path / "folder.parquet").mkdir()
    assert refusal(tmp_path / "folder.parquet") == f"There is no file {tmp_path / 'folder.parquet'}."
    assert "must be a file with the extension" in refusal(tmp_path / "x.pickle")


class Trap:
    """Pickles into a call that leaves a trace."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_nothing_in_a_file_is_ever_run(tmp_path):
    trap = np.array([Trap(tmp_path / "sprung")], object)
    arrays = {name: getattr(CLUSTERING, name) for name in ("labels", "distances", "free_centers")}
    cs.save(CLUSTERING, tmp_path / "good.npz")
    with np.load(tmp_path / "good.npz") as good:
        manifest = good["manifest"]
    np.savez(tmp_path / "pickled.npz", manifest=manifest, centers=trap, **arrays)
    assert "it has Python objects" in refusal(tmp_path / "pickled.npz")
    trap.dump(tmp_path / "bare.npz")
    assert "is not a file that coresift wrote" in refusal(tmp_path / "bare.npz")
    assert not (tmp_path / "sprung").exists()


def test_a_later_format_is_named(tmp_path):
    cs.save(PICKED, tmp_path / "picked.jsonl")
    path = tmp_path / "picked.jsonl"
    path.write_text(path.read_text().replace('\\"format\\": 3', '\\"format\\": 4'))
    assert refusal(tmp_path / "picked.jsonl") == (
        f"{tmp_path / 'picked.jsonl'} has format 4; this version of coresift reads format 3."
    )
    cs.save(CLUSTERING, tmp_path / "clusters.npz")
    with np.load(tmp_path / "clusters.npz") as file:
        content = dict(file)
    facts = json.loads(content["manifest"].tobytes()) | {"format": 4}
    content["manifest"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    np.savez(tmp_path / "clusters.npz", **content)
    assert "has format 4; this version of coresift reads format 3" in refusal(tmp_path / "clusters.npz")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_table_with_the_manifest_of_another_is_refused(tmp_path, suffix):
    one = cs.save(PICKED, tmp_path / f"one{suffix}")
    other = cs.save(cs.select(ROWS, LOSSES, budget=30, seed=1), tmp_path / f"other{suffix}")
    with open_noted(other) as (note, _):
        manifest = note
    with open_noted(one) as (_, read):
        schema = pa.schema([("row", pa.int64()), ("weight", pa.float64())])
        schema = pa.schema([*schema, *[(name, pa.type_for_alias(kind)) for name, kind in PICKED.columns.values()]])
        write_table(read(schema), one, note=manifest)
    assert refusal(one) == f"{one} does not match its manifest: it has changed since coresift wrote it."


def test_a_table_that_went_through_a_spreadsheet_still_loads(tmp_path):
    path = cs.save(PICKED, tmp_path / "picked.csv")
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(path)
    frame.insert(0, "note", "seen")
    frame.to_csv(path, index=False)
    assert cs.load(path) == PICKED
