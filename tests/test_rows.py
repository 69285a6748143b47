"""Rows: whatever form the same numbers come in, the same blocks, rows, names and fingerprint come out."""

from __future__ import annotations

import itertools
import json
import pickle
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pyarrow import feather

from coresift.checks import InputError
from coresift.rows import Rows, first_bad_row, open_rows, refuse_bad_row

WIDE = 4200  # so wide that a block has 256 rows only
COUNT = 600  # two full blocks and a piece
HALF = np.random.default_rng(0).standard_normal((COUNT, WIDE)).astype(np.float16)
KEYS = [f"row-{number}" for number in range(COUNT)]


def lists(array: np.ndarray, kind: Callable[[Any], Any] = pa.large_list) -> pa.Array:
    """A column whose cells are the rows of an array."""
    values = pa.array(array.ravel())
    if kind is pa.list_ or kind is pa.large_list:
        steps = np.arange(0, array.size + 1, array.shape[1])
        form, offset = (pa.ListArray, pa.int32()) if kind is pa.list_ else (pa.LargeListArray, pa.int64())
        return form.from_arrays(pa.array(steps, offset), values)
    return pa.FixedSizeListArray.from_arrays(values, array.shape[1])


def fixed(_: Any) -> None:
    """Stands for a list type of fixed size."""


def table_of(array: np.ndarray, kind: Callable[[Any], Any] = fixed) -> pa.Table:
    return pa.table({"id": KEYS[: len(array)], "embedding": lists(array, kind), "text": ["x"] * len(array)})


def write_ipc(table: pa.Table, path: Path, *, stream: bool = False, rows: int = 100) -> Path:
    opened = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as sink, opened(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path


def write_shards(array: np.ndarray, folder: Path, cuts: list[int]) -> Path:
    folder.mkdir(exist_ok=True)
    for number, (start, stop) in enumerate(itertools.pairwise([0, *cuts, len(array)])):
        np.save(folder / f"part-{number:03}.npy", array[start:stop])
    return folder


def _parquet(array: np.ndarray, folder: Path, kind: Callable[[Any], Any] = fixed, **options: Any) -> Path:
    pq.write_table(table_of(array, kind), folder / "rows.parquet", **options)
    return folder / "rows.parquet"


def _parquet_files(array: np.ndarray, folder: Path) -> str:
    table = table_of(array, pa.list_)
    for number, (start, stop) in enumerate([(0, 7), (7, 7), (7, 300), (300, COUNT)]):
        pq.write_table(table.slice(start, stop - start), folder / f"{number}.parquet", row_group_size=90)
    return str(folder / "*.parquet")


def _feather(array: np.ndarray, folder: Path) -> Path:
    feather.write_feather(table_of(array), folder / "rows.feather", compression="zstd", chunksize=130)
    return folder / "rows.feather"


def _mixed_shards(array: np.ndarray, folder: Path) -> list[Path]:
    """Shards whose types differ; every value is a float16, so nothing is lost."""
    pieces = array[:1].astype(np.float64), array[1:259].astype(">f4"), np.asfortranarray(array[259:])
    for number, piece in enumerate(pieces):
        np.save(folder / f"{number}.npy", piece)
    return [folder / f"{number}.npy" for number in range(3)]


def _dataset(array: np.ndarray) -> Any:
    import datasets

    return datasets.Dataset(table_of(array, pa.list_))


def _selected(array: np.ndarray) -> Any:
    import datasets

    order = np.random.default_rng(1).permutation(COUNT)
    return datasets.Dataset(table_of(array, pa.list_).take(order)).select(np.argsort(order))


def _memmap(array: np.ndarray, folder: Path) -> np.ndarray:
    np.save(folder / "rows.npy", array)
    return np.load(folder / "rows.npy", mmap_mode="r")


def _npy(array: np.ndarray, folder: Path) -> str:
    np.save(folder / "rows.npy", array)
    return str(folder / "rows.npy")


FORMS: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "array": lambda array, _: array,
    "Fortran array": lambda array, _: np.asfortranarray(array),
    "rows": lambda array, _: open_rows(array),
    "memmap": _memmap,
    "npy": _npy,
    "folder of shards": lambda array, folder: write_shards(array, folder / "shards", [10, 10, 400]),
    "list of mixed shards": _mixed_shards,
    "Parquet, fixed lists": _parquet,
    "Parquet, lists": lambda array, folder: _parquet(array, folder, pa.list_, row_group_size=100),
    "Parquet, large lists": lambda array, folder: _parquet(array, folder, pa.large_list, row_group_size=299),
    "Parquet, tiny row groups": lambda array, folder: _parquet(array, folder, row_group_size=7),
    "Parquet files": _parquet_files,
    "Arrow file": lambda array, folder: write_ipc(table_of(array), folder / "rows.arrow"),
    "Arrow stream": lambda array, folder: write_ipc(table_of(array, pa.list_), folder / "rows.arrow", stream=True),
    "Feather, compressed": _feather,
    "table": lambda array, _: pa.concat_tables([table_of(array).slice(0, 33), table_of(array).slice(33)]),
    "record batch": lambda array, _: table_of(array).to_batches()[0],
    "dataset": lambda array, _: _dataset(array),
    "dataset, selected": lambda array, _: _selected(array),
}
NAMED = [form for form in FORMS if form.startswith(("Parquet", "Arrow", "Feather", "table", "record", "dataset"))]


def join(rows: Rows) -> np.ndarray:
    """All blocks, after checking what each of them promises; computed by several threads as an engine does."""
    with ThreadPoolExecutor(4) as pool:
        futures = [(start, pool.submit(block)) for start, block in rows.blocks()]
        blocks = [(start, future.result()) for start, future in futures]
    assert [start for start, _ in blocks] == list(range(0, rows.n, rows.block_rows))
    for start, block in blocks:
        assert block.shape == (min(rows.block_rows, rows.n - start), rows.d)
        assert block.dtype == np.float32
        assert block.flags.c_contiguous
    return np.concatenate([block for _, block in blocks])


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_blocks_rows_and_fingerprint(form: str, tmp_path: Path) -> None:
    rows = open_rows(FORMS[form](HALF.astype(np.float32), tmp_path))
    expected = HALF.astype(np.float32)
    assert (rows.n, rows.d, rows.block_rows) == (COUNT, WIDE, 256)
    np.testing.assert_array_equal(join(rows), expected)
    np.testing.assert_array_equal(join(rows), expected)  # a second pass sees the same
    ids = [599, 0, 300, 0, 7, 6, 300, 258]
    np.testing.assert_array_equal(rows.take(ids), expected[ids])
    assert rows.take([]).shape == (0, WIDE)
    assert rows.fingerprint() == open_rows(expected).fingerprint()
    named = form in NAMED
    assert rows.id_name == ("id" if named else None)
    assert rows.names(ids) == ([KEYS[number] for number in ids] if named else None)
    unit = rows.normalized()
    assert unit.names([3]) == rows.names([3])
    np.testing.assert_array_equal(unit.take(ids), join(unit)[ids])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("form", ["array", "npy", "Parquet, fixed lists", "Parquet, lists", "Arrow file", "dataset"])
def test_floats_of_any_width_are_read(form: str, dtype: Any, tmp_path: Path) -> None:
    array = HALF[:300].astype(dtype)
    rows = open_rows(FORMS[form](array, tmp_path))
    np.testing.assert_array_equal(join(rows), HALF[:300])
    np.testing.assert_array_equal(rows.take([299, 299, 1]), HALF[[299, 299, 1]])


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.bool_])
def test_whole_numbers_are_read(dtype: Any, tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 2, (50, 3)).astype(dtype)
    np.save(tmp_path / "rows.npy", array)
    for source in (array, tmp_path / "rows.npy"):
        np.testing.assert_array_equal(join(open_rows(source)), array.astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("group", [10_000, 45_000])
def test_many_columns_of_numbers_are_the_rows(group: int, tmp_path: Path) -> None:
    array = np.random.default_rng(0).standard_normal((70_000, 64)).astype(np.float32)
    columns = {f"x{place}": array[:, place] for place in range(64)}
    table = pa.table({"id": np.arange(70_000) + 5, **columns, "flag": np.ones(70_000, bool), "text": ["a"] * 70_000})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=group)
    rows = open_rows(tmp_path / "rows.parquet")
    assert (rows.d, rows.block_rows, rows.id_name) == (64, 32_768, "id")
    np.testing.assert_array_equal(join(rows), array)
    assert rows.names([69_999, 0]) == [70_004, 5]
    assert rows.fingerprint() == open_rows(array).fingerprint()


def test_a_shuffled_dataset_keeps_its_order() -> None:
    dataset = _dataset(HALF.astype(np.float32)).shuffle(seed=3)
    order = [KEYS.index(key) for key in dataset["id"]]
    assert order != sorted(order)
    rows = open_rows(dataset)
    np.testing.assert_array_equal(join(rows), HALF[order])
    np.testing.assert_array_equal(rows.take([5, 2]), HALF[order][[5, 2]])
    assert rows.names([5, 2]) == [KEYS[order[5]], KEYS[order[2]]]


@given(d=st.integers(1, 10**7))
def test_the_length_of_a_block_depends_on_the_width_only(d: int) -> None:
    length = open_rows(np.broadcast_to(np.float32(0), (1, d))).block_rows
    assert length & (length - 1) == 0
    assert 256 <= length <= 32_768
    if 64 < d <= 8192:
        assert length <= 2**21 / d < 2 * length


@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_take_is_plain_indexing_whatever_the_boundaries(data: st.DataObject, tmp_path_factory: Any) -> None:
    n, d = data.draw(st.integers(1, 40), label="n"), data.draw(st.integers(1, 5), label="d")
    dtype = data.draw(st.sampled_from([np.float16, np.float32, np.float64]))
    array = data.draw(hnp.arrays(dtype, (n, d), elements=st.integers(-8, 8)))
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=4), label="cuts"))
    ids = data.draw(st.lists(st.integers(0, n - 1), max_size=60), label="ids")
    folder = tmp_path_factory.mktemp("rows")
    table = pa.table({"e": lists(array, data.draw(st.sampled_from([fixed, pa.list_, pa.large_list])))})
    pq.write_table(table, folder / "rows.parquet", row_group_size=data.draw(st.integers(1, n), label="group"))
    stream = data.draw(st.booleans(), label="stream")
    sources = [
        write_shards(array, folder / "shards", cuts),
        folder / "rows.parquet",
        write_ipc(table, folder / "rows.arrow", stream=stream, rows=data.draw(st.integers(1, n), label="batch")),
    ]
    for source in sources:
        rows = open_rows(source)
        np.testing.assert_array_equal(join(rows), array)
        np.testing.assert_array_equal(rows.take(ids), array[ids])


def test_rows_become_an_array() -> None:
    array = np.arange(6.0).reshape(3, 2)
    found = np.asarray(open_rows(array))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, array)
    assert np.asarray(open_rows(array), dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="always a copy"):
        np.array(open_rows(array), copy=False)


def test_take_takes_any_kind_of_numbers() -> None:
    rows = open_rows(HALF)
    for ids in ([3, 1], (3, 1), np.array([3, 1], np.uint8), np.array([3, 1], np.uint64), range(3, 0, -2)):
        np.testing.assert_array_equal(rows.take(ids), HALF[[3, 1]])


def test_the_data_cannot_be_written_through_a_block() -> None:
    array = HALF[:5].astype(np.float32)
    block = next(open_rows(array).blocks())[1]()
    assert np.shares_memory(block, array)
    with pytest.raises(ValueError, match="read-only"):
        block[0, 0] = 1
    array[0, 0] = 1  # the owner still can


@pytest.mark.slow
@settings(deadline=None)
@given(
    array=hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 30), st.integers(1, 9)),
        elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
    )
)
def test_normalized_rows_have_length_one_or_zero(array: np.ndarray) -> None:
    view = open_rows(array).normalized()
    wide = array.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1)
    expected = wide / np.where(lengths == 0, 1, lengths)[:, None]
    np.testing.assert_allclose(join(view), expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(view.take(np.arange(len(array))[::-1]), join(view)[::-1])
    assert view.normalized() is view
    assert view.fingerprint() == open_rows(array).fingerprint()


def test_the_fingerprint_changes_with_the_data() -> None:
    array = np.random.default_rng(0).standard_normal((2000, 3)).astype(np.float32)
    print_of = {open_rows(array).fingerprint()}
    for row in (0, 1999):
        other = array.copy()
        other[row, 2] += 1
        print_of.add(open_rows(other).fingerprint())
    print_of |= {open_rows(array[:-1]).fingerprint(), open_rows(array.reshape(-1, 6)).fingerprint()}
    print_of.add(open_rows(array[::-1]).fingerprint())
    assert len(print_of) == 6


def test_the_column_and_the_id_can_be_chosen() -> None:
    table = pa.table({"id": [1, 2], "a": [[1.0], [2.0]], "b": [[3], [4]], "key": ["x", None], "number": [5, 6]})
    assert open_rows(table, column="b").take([1, 0]).tolist() == [[4], [3]]
    rows = open_rows(table.select(["id", "key", "number"]), id_column="key")
    assert rows.take([1]).tolist() == [[2, 6]]  # "id" is a column of numbers like others now
    assert (rows.id_name, rows.names([1, 0, 1])) == ("key", [None, "x", None])
    alone = open_rows(pa.table({"id": [[1.0, 2.0]]}))
    assert (alone.id_name, alone.d) == (None, 2)


@pytest.mark.parametrize("ids", ["message", None])
def test_the_ids_of_embeddings_may_be_named_and_others_are_refused(ids: str | None, tmp_path: Path) -> None:
    np.save(tmp_path / "shard.npy", HALF[:3])
    pq.write_table(pa.table({"id": KEYS[:3]}), tmp_path / "ids.parquet")
    manifest = {"format": 1, "shards": ["shard.npy"], "rows": 3, "dimension": WIDE, "ids": ids}
    (tmp_path / "embeddings.json").write_text(json.dumps(manifest))
    assert open_rows(tmp_path, id_column=ids).names([1]) == (None if ids is None else [KEYS[1]])
    known = "no columns and no ids" if ids is None else "the ids of the column 'message' already"
    with pytest.raises(InputError, match=rf"^id_column must be left out, since the rows have {known}; got 'other'\.$"):
        open_rows(tmp_path, id_column="other")


def test_shards_are_read_in_the_order_of_their_names_and_notes_are_left_alone(tmp_path: Path) -> None:
    for number in (2, 0, 1):
        np.save(tmp_path / f"{number}.npy", np.full((1, 1), number))
    (tmp_path / "_SUCCESS").touch()
    assert join(open_rows(tmp_path)).tolist() == [[0], [1], [2]]
    assert join(open_rows(str(tmp_path / "[02].npy"))).tolist() == [[0], [2]]
    assert join(open_rows([tmp_path / "2.npy", str(tmp_path / "0.npy")])).tolist() == [[2], [0]]
    np.save(tmp_path / "odd[1].npy", np.full((1, 1), 7))
    assert join(open_rows(tmp_path / "odd[1].npy")).tolist() == [[7]]  # a name is not a pattern if it exists


def test_thousands_of_shards_need_no_open_files(tmp_path: Path) -> None:
    import resource

    array = np.arange(400, dtype=np.float32).reshape(200, 2)
    write_shards(array, tmp_path / "shards", list(range(1, 200)))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        rows = open_rows(tmp_path / "shards")
        first = rows.take([0, 199])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    np.testing.assert_array_equal(first, array[[0, 199]])


class Meter:
    """The most that Arrow and Python held at once, beyond what they held before."""

    def __init__(self) -> None:
        self.base, self.peak = pa.total_allocated_bytes(), 0
        tracemalloc.start()

    def read(self) -> None:
        self.peak = max(self.peak, pa.total_allocated_bytes() - self.base + tracemalloc.get_traced_memory()[0])

    def stop(self) -> int:
        python = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return max(self.peak, python)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["Parquet", "Feather"])
def test_a_huge_row_group_is_streamed_in_bounded_memory(form: str, tmp_path: Path) -> None:
    n, d = 400_000, 64
    array = np.random.default_rng(0).random((n, d), dtype=np.float32)
    table = pa.table({"e": lists(array, fixed)})
    path = tmp_path / ("rows.feather" if form == "Feather" else "rows.parquet")
    if form == "Feather":
        feather.write_feather(table, path, compression="lz4", chunksize=20_000)
    else:
        pq.write_table(table, path, row_group_size=n, use_dictionary=False, write_statistics=False)
        assert pq.read_metadata(path).num_row_groups == 1
    full, first = array.nbytes, array[0].copy()
    del array, table

    meter = Meter()
    rows = open_rows(path)
    for _, block in rows.blocks():
        values = block()
        meter.read()
    del values
    np.testing.assert_array_equal(rows.take([0, n - 1])[0], first)
    meter.read()
    streamed = meter.stop()

    meter = Meter()
    whole = pq.read_table(path) if form != "Feather" else feather.read_table(path, memory_map=True)
    meter.read()
    assert whole.num_rows == n
    assert meter.stop() >= full  # the meter does see a matrix that is loaded
    assert streamed < full / 3


@pytest.mark.slow
def test_many_threads_may_open_a_file_at_once(tmp_path):
    np.save(tmp_path / "rows.npy", np.ones((4096, 64), np.float16))
    rows = open_rows(tmp_path / "rows.npy")
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda some: float(rows.take(some)[0, 0]), [[i] for i in range(3000)]))
    assert set(found) == {1.0}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the resident memory from /proc")
def test_a_file_leaves_no_more_than_a_stretch_in_resident_memory(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    mapped = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(100_000, 512))
    mapped[:] = np.arange(100_000)[:, None]
    mapped.flush()
    full = mapped.nbytes
    del mapped
    code = """if True:
        import sys
        from coresift.rows import open_rows
        def peak():
            lines = open("/proc/self/status").read().splitlines()
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
        before, rows = peak(), open_rows(sys.argv[1])
        assert sum(float(block().sum()) for _, block in rows.blocks()) > 0
        assert rows.take(range(0, rows.n, 97))[-1, 0] == 99_910
        print(peak() - before)
    """
    run = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert int(run.stdout) < full / 2


@pytest.mark.slow
def test_importing_rows_is_light() -> None:
    code = "import sys, coresift.rows; print([m for m in ('pyarrow', 'datasets') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# --- what is refused ---------------------------------------------------------------------------------------------


def refused(source: Any, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        join(open_rows(source, **options))
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros(3), "a 2-D array, one item per row; got an array with 1 dimension(s), shape (3,)"),
        (np.zeros((2, 2, 2)), "2-D array"),
        (np.zeros((0, 4)), "at least one row of at least one number; got 0 rows of 4 numbers"),
        (np.zeros((4, 0)), "got 4 rows of 0 numbers"),
        (np.zeros((2, 2), complex), "real numbers; got an array of complex128"),
        (np.array([["a", "b"]]), "real numbers; got an array of <U1"),
        (np.array([[1, None]]), "real numbers; got an array of object"),
        (np.ma.masked_array(np.zeros((2, 2)), mask=[[1, 0], [0, 0]]), "without a mask"),
        ("nowhere.npy", "There is no file nowhere.npy"),
        ("no*where.npy", "a pattern that matches files; got 'no*where.npy'"),
        ([], "a list of paths; got []"),
        ([[1.0, 2.0], [3.0]], "lists of numbers, all of the same length; got a list of 2 items that are not"),
        ([1.0, 2.0], "2-D array"),
        ([["a"]], "real numbers; got an array of <U1"),
        (7, "got int"),
        (None, "got NoneType"),
    ],
)
def test_what_is_not_a_matrix_is_refused(array: Any, says: str) -> None:
    assert says in refused(array)


def test_unusable_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    for content in (b"", b"not numpy at all", b"\x93NUMPY\x01\x00", b"PK\x03\x04 an archive"):
        path.write_bytes(content)
        assert f"The file {path} cannot be read: " in refused(path)
    np.save(path, np.zeros((100, 100)))
    path.write_bytes(path.read_bytes()[:5000])
    assert "it is shorter than its shape (100, 100) of float64 says" in refused(path)
    np.save(path, np.array([[1, None]]), allow_pickle=True)
    assert "Python objects" in refused(path)
    np.save(path, np.zeros(5))
    assert f"got {path} with 1 dimension(s)" in refused(path)
    np.save(path, np.zeros((0, 5)))
    assert "got 0 rows of 5 numbers" in refused(path)
    for suffix in (".parquet", ".arrow", ".feather"):
        for content in (b"", b"PAR1 no, it is not", b"ARROW1\0\0 neither"):
            (tmp_path / f"rows{suffix}").write_bytes(content)
            assert f"The file {tmp_path / f'rows{suffix}'} cannot be read: " in refused(tmp_path / f"rows{suffix}")
    (tmp_path / "rows.txt").write_text("1,2")
    assert "a .npy, .parquet, .arrow, .feather, .csv or .jsonl file; got" in refused(tmp_path / "rows.txt")
    (tmp_path / "empty").mkdir()
    assert "a folder with files of type" in refused(tmp_path / "empty")
    assert "either .npy files or tables" in refused([tmp_path / "rows.npy", tmp_path / "rows.parquet"])


@pytest.mark.slow
def test_a_damaged_parquet_file_is_refused_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"e": lists(HALF, fixed)}), path)
    content = bytearray(path.read_bytes())
    content[4:50_000] = b"\xff" * 49_996
    path.write_bytes(content)
    assert f"The file {path} cannot be read: " in refused(path)


def test_files_that_change_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    table = pa.table({"e": lists(HALF[:9], fixed)})
    rows = open_rows(write_ipc(table, path, stream=True))
    path.unlink()
    write_ipc(table.slice(0, 4), path, stream=True)
    with pytest.raises(InputError, match="must not change while"):
        join(rows)
    with pytest.raises(InputError, match="must not change while"):
        rows.take([8])


def test_shards_that_do_not_fit_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 3)))
    np.save(tmp_path / "b.npy", np.zeros((2, 4)))
    assert f"shards of the same width (3 as in the first); got 4 in {tmp_path / 'b.npy'}" in refused(tmp_path)
    for kind in (fixed, pa.list_):
        files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
        for file, d in zip(files, (3, 4), strict=True):
            pq.write_table(pa.table({"e": lists(np.zeros((2, d)), kind)}), file)
        assert f"got 4 in {files[1]}" in refused(files)
    pq.write_table(pa.table({"f": lists(np.zeros((2, 3)), fixed)}), files[1])
    assert f"files with the same columns ('e'); got {files[1]} with 'f'" in refused(files)


@pytest.mark.parametrize(
    ("table", "options", "says"),
    [
        ({"e": [[1.0]]}, {"column": "x"}, "column must be one of the columns 'e'; got 'x'"),
        ({"e": [[1.0]]}, {"id_column": "x"}, "id_column must be one of the columns 'e'; got 'x'"),
        ({"e": [[1.0]]}, {"column": "e", "id_column": "e"}, "id_column must be a column of whole numbers or texts"),
        ({"e": [[1.0]], "t": ["a"]}, {"column": "t"}, "a column of lists of numbers; got 't' of type string"),
        ({"e": [["a"]], "t": [1]}, {"column": "e"}, "a column of lists of numbers; got 'e' of type list"),
        ({"e": [[1.0]], "f": [[1.0]]}, {}, "one of 'e', 'f'"),
        ({"t": ["a"], "flag": [True]}, {}, "got columns 't' (string), 'flag' (bool)"),
        ({"e": [[1.0], [2.0, 3.0]]}, {}, "lists of 1 numbers, like the first one; got 2 numbers in row 1"),
        ({"e": [[1.0], None]}, {}, "got a null in row 1"),
        ({"e": [None, [1.0]]}, {}, "got a null in row 0"),
        ({"e": [[1.0, 2.0], [1.0, None], [1.0]]}, {}, "numbers without nulls; got a null in the list of row 1"),
        ({"x": [1, 2, 3, None], "y": [1.0, 2.0, None, 4.0]}, {}, "got a null in row 2, column 'y'"),
        ({"e": pa.array([], pa.list_(pa.float32(), 3))}, {}, "got 0 rows of 0 numbers"),
        ({"e": pa.array([], pa.list_(pa.float32()))}, {}, "got 0 rows of 0 numbers"),
        ({"e": [[], []], "t": pa.array([[1.0], [2.0]])}, {"column": "e"}, "a column of lists of numbers; got 'e'"),
        ({"e": pa.array([[], []], pa.list_(pa.float32()))}, {}, "got 2 rows of 0 numbers"),
        ({"e": pa.array([[1, 2], None], pa.list_(pa.float32(), 2))}, {}, "got a null in row 1"),
        ({"e": pa.array([[1, 2], [1, None]], pa.list_(pa.float32(), 2))}, {}, "got a null in the list of row 1"),
    ],
)
def test_tables_that_hold_no_matrix_are_refused(table: Any, options: Any, says: str) -> None:
    assert says in refused(pa.table(table), **options)


def test_columns_with_one_name_are_refused() -> None:
    twice = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["x", "x"])
    assert "The table must have distinct column names; it has 'x' twice" in refused(twice)


@pytest.mark.parametrize("group", [100, 1000])
@pytest.mark.parametrize(
    ("bad", "says"),
    [([1.0], "1 numbers in row 530"), (None, "a null in row 530"), ([1.0, None, 2.0], "a null in the list of row 530")],
)
def test_a_bad_list_deep_in_a_file_is_named_by_its_row_number(bad: Any, says: str, group: int, tmp_path: Path) -> None:
    cells = HALF[:, :3].tolist()
    cells[521] = bad
    table = pa.table({"e": cells})
    pq.write_table(table, tmp_path / "1.parquet", row_group_size=group)
    pq.write_table(table.slice(0, 9), tmp_path / "0.parquet")
    assert f"got {says}." in refused(tmp_path)
    rows = open_rows(tmp_path)
    np.testing.assert_array_equal(rows.take([529, 0]), HALF[[520, 0], :3])
    with pytest.raises(InputError, match=says):
        rows.take([531, 530, 2])


def test_a_column_cannot_be_named_where_there_are_none(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", HALF[:2])
    for source in (HALF[:2], tmp_path / "rows.npy", open_rows(HALF[:2])):
        assert "column must be left out" in refused(source, column="e")


def test_row_numbers_that_do_not_exist_are_refused() -> None:
    tabular = open_rows(table_of(HALF[:10].astype(np.float32)))
    for rows in (open_rows(HALF[:10]), open_rows(HALF[:10]).normalized(), tabular):
        for ask in (rows.take, rows.names):
            for ids, came in (([0, 10], "10"), ([-1, 3], "-1")):
                with pytest.raises(InputError, match=f"ids must be row numbers from 0 to 9; got {came}."):
                    ask(ids)
            for odd in ([0.5], [[0, 1]], [True, False], "a"):
                with pytest.raises(InputError, match="ids must be a list of row numbers"):
                    ask(odd)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.nan, "rows must be finite numbers; row 577 has NaN at position 2."),
        (np.inf, "row 577 has a number that is infinite or too large for float32 at position 2."),
        (1e300, "row 577 has a number that is infinite or too large for float32 at position 2."),
        (-3e18, "rows must have a length of at most 1e+18; row 577 is longer."),
        (1e38, "row 577 is longer."),
    ],
)
def test_the_first_bad_row_is_named(value: float, says: str, tmp_path: Path) -> None:
    array = HALF.astype(np.float64)
    array[577, 2] = array[590, 0] = value
    pq.write_table(pa.table({"e": lists(array)}), tmp_path / "rows.parquet")
    for source in (array, tmp_path / "rows.parquet"):
        rows = open_rows(source)
        assert first_bad_row(rows) == 577
        with pytest.raises(InputError) as caught:
            refuse_bad_row(rows)
        assert says in str(caught.value)
    long_but_finite = np.isfinite(np.float32(value)) if abs(value) < 1e300 else False
    assert first_bad_row(open_rows(array).normalized()) == (None if long_but_finite else 577)


def test_good_rows_have_no_bad_row() -> None:
    assert first_bad_row(open_rows(HALF)) is None
    with pytest.raises(InputError, match="all of them are"):
        refuse_bad_row(open_rows(HALF))


# ------------------------------------------------------------------ in other processes, and in other places


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_stretch_of_rows_can_be_read_elsewhere(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = FORMS[form](HALF.astype(np.float32), tmp_path)
    if isinstance(source, Path):
        source = source.relative_to(tmp_path)
    rows, expected = open_rows(source), HALF.astype(np.float32)
    some = np.array([3, 7, 7, 255, 256, 300, 598])
    views = {
        "themselves": (rows, expected),
        "normalized": (rows.normalized(), join(rows.normalized())),
        "a part": (rows.subset(np.arange(0, COUNT, 2)), expected[::2]),
        "a part, normalized": (rows.subset(np.arange(100, COUNT)).normalized(), join(rows.normalized())[100:]),
        "a normalized part": (rows.normalized().subset(np.arange(100, COUNT)), join(rows.normalized())[100:]),
    }
    sent = pickle.dumps(rows)
    monkeypatch.chdir("/")  # whoever reads them lives elsewhere
    there = pickle.loads(sent)
    if isinstance(source, Path):
        assert len(sent) < HALF.nbytes / 20  # paths and what files say of themselves, not numbers
    for view, values in views.values():
        assert view.base is rows
        for start, stop in ((0, 256), (256, view.n), (0, view.n)):
            found = list(pickle.loads(pickle.dumps(view.stretch(start, stop)))(there))
            assert [len(block) for block in found[:-1]] == [256] * (len(found) - 1)
            np.testing.assert_array_equal(np.concatenate(found), values[start:stop])
        ids = some[some < view.n]
        picked = list(pickle.loads(pickle.dumps(view.picking(ids)))(there))
        np.testing.assert_array_equal(np.concatenate(picked), values[ids])


def test_how_many_rows_a_table_reads_at_once(tmp_path: Path) -> None:
    array = HALF.astype(np.float32)
    assert open_rows(_parquet(array, tmp_path, row_group_size=70)).normalized().read_at_once == 70
    assert open_rows(array).read_at_once == 1


@pytest.mark.slow
@pytest.mark.parametrize("form", ["npy", "folder of shards", "Parquet, lists", "Arrow file", "Feather, compressed"])
def test_rows_in_other_places_are_those_of_local_files(form: str, tmp_path: Path) -> None:
    """By URI, and on a filesystem of one's own."""
    from pyarrow import fs

    path = Path(FORMS[form](HALF.astype(np.float32), tmp_path))
    name, there = path.name, fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    ids = [599, 0, 300, 0, 7, 6, 300, 258]
    for rows in (open_rows(path.as_uri()), open_rows(name, filesystem=there)):
        np.testing.assert_array_equal(join(rows), HALF)
        np.testing.assert_array_equal(rows.take(ids), HALF[ids])
        np.testing.assert_array_equal(np.concatenate(list(rows.stretch(256, 600)(rows))), HALF[256:])
        assert rows.fingerprint() == open_rows(HALF).fingerprint()


def test_sparse_rows_of_a_distant_array_are_read_one_by_one(tmp_path: Path) -> None:
    array = np.random.default_rng(0).normal(size=(50_000, 3))
    np.save(tmp_path / "rows.npy", array)
    rows = open_rows((tmp_path / "rows.npy").as_uri())
    np.testing.assert_array_equal(rows.take([49_999, 2, 30_000]), array[[49_999, 2, 30_000]].astype(np.float32))


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (
            lambda path: None,
            "rows must be a folder with files of type .npy, .parquet, .arrow, .feather, .csv, .jsonl; got file://",
        ),
        (lambda path: (path / "x.npy").write_bytes(b"no"), "The file file://"),
        (
            lambda path: np.save(path / "x.npy", np.asfortranarray(np.ones((3, 2)))),
            "rows must be in C order (row by row) in a remote .npy file; got file://",
        ),
    ],
)
def test_what_is_wrong_in_another_place_is_said(write: Callable[[Path], Any], sentence: str, tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(InputError) as caught:
        open_rows(tmp_path.as_uri())
    assert str(caught.value).startswith(sentence)


def test_a_place_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    for source in ("gopher://x/rows", (tmp_path / "none.npy").as_uri()):
        with pytest.raises(InputError, match=r"^(rows must be .*; got .*|The file .* cannot be read: .*)\."):
            open_rows(source)


@pytest.mark.parametrize("value", [float("inf"), 10**400, -1, None, "x", [], [5], ["../a.npy"], "[" * 100_000])
def test_a_manifest_of_embeddings_may_say_anything(value: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((3, 2), np.float32))
    sound = {"format": 1, "shards": ["a.npy"], "rows": 3, "dimension": 2, "ids": None}
    (tmp_path / "embeddings.json").write_text(json.dumps(sound))
    assert open_rows(tmp_path).n == 3
    for name in ("format", "shards", "rows", "dimension"):
        deep = isinstance(value, str) and len(value) > 1
        (tmp_path / "embeddings.json").write_text(value if deep else json.dumps({**sound, name: value}))
        with pytest.raises(InputError):
            open_rows(tmp_path)
