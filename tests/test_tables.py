"""Tables: every Arrow type in every role, one set of rules for text files, and damage told in one sentence."""

from __future__ import annotations

import csv
import datetime
import decimal
import json
import os
import uuid
import zipfile
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import feather

import coresift as cs
from coresift.answers import AnswerFile
from coresift.checks import InputError
from coresift.rows import open_rows
from coresift.tables import open_table, parts
from coresift.tables.places import hide_secrets
from coresift.tables.textual import read_csv
from coresift.tables.values import numbers_in, text_of
from coresift.tables.writing import check_writable, write_table

N = 40
ROWS = np.random.default_rng(0).normal(size=(N, 2)).astype(np.float32)
PICKED = cs.select(ROWS, budget=10)
SUFFIXES = (".parquet", ".csv", ".jsonl")
LISTS = pa.array(ROWS.tolist(), pa.list_(pa.float32()))
NUMBERS = np.arange(N)
WHOLE = [int(number) for number in NUMBERS]

TYPES = {
    "int8": pa.array(NUMBERS, pa.int8()),
    "uint64": pa.array([2**64 - 1 - number for number in WHOLE], pa.uint64()),
    "half": pa.array(NUMBERS.astype(np.float16)),
    "double": pa.array(NUMBERS / 4),
    "whole double": pa.array(NUMBERS.astype(float)),
    "decimal128": pa.array([decimal.Decimal(number) / 4 for number in WHOLE], pa.decimal128(20, 2)),
    "decimal256": pa.array([decimal.Decimal(number) for number in WHOLE], pa.decimal256(50, 0)),
    "bool": pa.array(NUMBERS % 2 == 0),
    "null": pa.nulls(N),
    "string": pa.array([f"s{number}" for number in WHOLE]),
    "string with nulls": pa.array([f"s{number}" if number % 3 else None for number in WHOLE]),
    "large_string": pa.array([f"s{number}" for number in WHOLE], pa.large_string()),
    "string_view": pa.array([f"s{number} and so on and on" for number in WHOLE], pa.string_view()),
    "binary": pa.array([bytes([200, number]) for number in WHOLE]),
    "binary(3)": pa.array([bytes([255, 0, number]) for number in WHOLE], pa.binary(3)),
    "binary_view": pa.array([bytes([200, number]) for number in WHOLE], pa.binary_view()),
    "uuid": pa.array([uuid.UUID(int=number).bytes for number in WHOLE], pa.uuid()),
    "date32": pa.array([datetime.date(2020, 1, 1) + datetime.timedelta(number) for number in WHOLE]),
    "date64": pa.array([86_400_000 * number for number in WHOLE], pa.date64()),
    "time32": pa.array(WHOLE, pa.time32("s")),
    "time64": pa.array(WHOLE, pa.time64("ns")),
    "timestamp": pa.array(WHOLE, pa.timestamp("ns")),
    "timestamp with zone": pa.array(WHOLE, pa.timestamp("us", "Europe/Berlin")),
    "duration": pa.array(WHOLE, pa.duration("ms")),
    "interval": pa.array([pa.MonthDayNano([number, 2, 3]) for number in WHOLE]),
    "dictionary": pa.array([f"s{number}" for number in WHOLE]).dictionary_encode(),
    "dictionary of views": pa.array([f"s{number}" for number in WHOLE], pa.string_view()).dictionary_encode(),
    "dictionary of numbers": pa.array(NUMBERS).dictionary_encode(),
    "run ends": pc.run_end_encode(pa.array(NUMBERS)),
    "bool8": pa.array(NUMBERS % 2, pa.bool8()),
    "json": pa.array([str(number) for number in WHOLE], pa.json_(pa.string())),
    "list": pa.array([[number, None] for number in WHOLE]),
    "list of texts": pa.array([[str(number)] for number in WHOLE]),
    "list_view": pa.array([[number / 4] if number != 3 else None for number in WHOLE], pa.list_view(pa.float32())),
    "list of views": pa.array([[str(number)] for number in WHOLE], pa.list_(pa.string_view())),
    "fixed list": pa.array([[number, number] for number in WHOLE], pa.list_(pa.int32(), 2)),
    "struct": pa.array([{"a": number, "b": b"\xff", "c": [1.5, float("nan")]} for number in WHOLE]),
    "struct of views": pa.array([{"a": str(number)} for number in WHOLE], pa.struct([("a", pa.string_view())])),
    "map": pa.array([[("a", number)] for number in WHOLE], pa.map_(pa.string(), pa.int64())),
    "union": pa.UnionArray.from_sparse(
        pa.array(NUMBERS % 2, pa.int8()), [pa.array(NUMBERS), pa.array([str(number) for number in WHOLE])]
    ),
}
NESTED = {
    "list",
    "list of texts",
    "list_view",
    "list of views",
    "fixed list",
    "struct",
    "struct of views",
    "map",
    "union",
}
MANY_ALIKE = {"bool", "null", "bool8"}


def refusal(work, *arguments, **options):
    with pytest.raises(InputError) as error:
        work(*arguments, **options)
    sentence = str(error.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def test_the_list_of_types_is_complete():
    known = {str(array.type).split("<")[0].split("[")[0].split("(")[0] for array in TYPES.values()}
    missing = {"large_binary", "large_list", "large_list_view", "float", "int16", "int32", "int64", "halffloat"}
    assert len(known - missing) >= 28


@pytest.mark.slow
@pytest.mark.parametrize("kind", TYPES)
def test_every_type_as_id(kind, tmp_path):
    table = pa.table({"id": TYPES[kind], "e": LISTS})
    if kind in NESTED:
        assert "id_column must be a column of whole numbers or texts" in refusal(
            open_rows, table, column="e", id_column="id"
        )
        return
    rows = open_rows(table, column="e")
    picked = cs.select(rows, budget=10)
    assert picked.ids.tolist() == PICKED.ids.tolist()
    assert all(name is None or isinstance(name, int | str) for name in picked.names)
    for suffix in SUFFIXES:
        assert cs.load(cs.save(picked, tmp_path / f"picked{suffix}")) == picked
    distinct = [name for name in picked.names if name is not None]
    if kind not in MANY_ALIKE:
        assert rows.numbers_of(distinct).tolist() == [
            row for row, name in zip(picked.ids, picked.names, strict=True) if name is not None
        ]
        answers = pa.table({"id": TYPES[kind], "loss": NUMBERS / 2})
        for suffix in SUFFIXES:
            write_table(answers, tmp_path / f"answers{suffix}")
            found = AnswerFile(tmp_path / f"answers{suffix}").numbers("loss")(rows.numbers_of(distinct), distinct)
            assert found.tolist() == (rows.numbers_of(distinct) / 2).tolist()


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_as_id_in_files_as_in_memory(kind, tmp_path):
    if kind in NESTED:
        return
    table = pa.table({"id": TYPES[kind], "e": LISTS})
    expected = open_rows(table, column="e").names(NUMBERS)
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    assert open_rows(tmp_path / "t.arrow", column="e").names(NUMBERS) == expected
    assert open_rows(tmp_path / "t.arrow", column="e").names([39, 3]) == [expected[39], expected[3]]
    if kind not in ("interval", "run ends", "dictionary of views"):  # what Parquet has no type for
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=9)
        assert open_rows(tmp_path / "t.parquet", column="e").names(NUMBERS) == expected


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_as_feature(kind):
    table = pa.table({"x": TYPES[kind], "y": NUMBERS})
    rows = open_rows(table, exclude_columns=["x"])
    assert rows.columns == ("y",)
    if kind in {"list_view", "list"}:
        assert "null" in refusal(lambda: open_rows(table).take(NUMBERS))
        return
    rows = open_rows(table)
    if "x" in rows.columns and kind != "fixed list":
        np.testing.assert_array_equal(rows.take(NUMBERS)[:, 0], numbers_in(TYPES[kind]).astype(np.float32))
    numeric = {"int8", "uint64", "half", "double", "whole double", "decimal128", "decimal256", "fixed list", "run ends"}
    assert ("x" in rows.columns) == (kind in numeric)


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_as_label(kind):
    table = open_table(pa.table({"x": TYPES[kind], "e": LISTS}))
    if kind in NESTED:
        assert "strata must be a column of texts or whole numbers" in refusal(table.labels, "x")
        assert "label must be a column of texts or whole numbers" in refusal(table.classes, "x")
    else:
        names, codes = table.classes("x")
        expected = text_of(TYPES[kind]).to_pylist()
        assert [None if code < 0 else names[code] for code in codes] == expected
        assert len(set(table.labels("x").tolist())) == len(set(expected))


@pytest.mark.models
@pytest.mark.parametrize("kind", TYPES)
def test_every_type_as_text(kind):
    from coresift.models.corpus import open_corpus

    corpus = open_corpus(pa.table({"x": TYPES[kind]}))
    texts = {"string", "large_string", "string_view", "dictionary", "dictionary of views"}
    if kind in texts:
        corpus.require_texts("text", "x")
        assert corpus.texts("x", np.array([7, 3])) == [str(TYPES[kind][7]), str(TYPES[kind][3])]
    elif kind == "string with nulls":
        assert "row 0 has none" in refusal(lambda: list(corpus.windows("x", 9)))
    else:
        assert "text must be a column of texts" in refusal(corpus.require_texts, "text", "x")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", TYPES)
def test_every_type_as_a_column_of_the_table(kind, suffix, tmp_path):
    table = pa.table({"x": TYPES[kind]})
    if kind == "union" and suffix == ".parquet":
        assert "A .parquet file cannot hold the column x" in refusal(check_writable, table.schema, "picked.parquet")
        assert "A .parquet file cannot hold the column x" in refusal(
            cs.save, PICKED, tmp_path / "picked.parquet", table=table
        )
        assert not list(tmp_path.iterdir())
        return
    check_writable(table.schema, f"picked{suffix}")
    path = cs.save(PICKED, tmp_path / f"picked{suffix}", table=table)
    assert cs.load(path) == PICKED
    assert open_table(path).columns[-1] == "x"
    expected = [TYPES[kind][int(row)] for row in PICKED.ids]
    found = open_table(path).whole("x")
    if kind not in NESTED:
        written = text_of(found).to_pylist()
        assert written == text_of(TYPES[kind]).take(pa.array(PICKED.ids)).to_pylist()
    assert (found.null_count == len(PICKED)) == (kind == "null")
    assert found.null_count == sum(not value.is_valid for value in expected) or kind == "null"


# Text files


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=9)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(CELLS | st.sampled_from(["007", "1e5", "NA", "-1.5", ".5", "+1", "inf", "12"]), CELLS), min_size=1
    )
)
def test_cells_are_those_that_python_reads(tmp_path, rows):
    path = tmp_path / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    with path.open(newline="", encoding="utf-8") as file:
        twin = list(csv.reader(file))[1:]
    table = read_csv(path)
    for place, name in enumerate("ab"):
        plain = [cell[place] for cell in twin]
        # The one difference: an apostrophe before what a spreadsheet would run is taken off.
        plain = [
            cell[1:] if cell.startswith("'") and cell.lstrip("'")[:1] in set("=+-@\t\r") else cell for cell in plain
        ]
        assert table[name].to_pylist() == plain
    _same_numbers(read_csv(path, texts=["b"])["a"], [cell[0] for cell in twin])


def _same_numbers(column, cells):
    """A slow twin of the rule for columns of numbers."""
    numbers = []
    for cell in (cell.strip() for cell in cells):
        if cell in ("", "NA", "N/A", "#N/A", "null", "NULL", "None", "nan", "NaN"):
            numbers.append(None)
            continue
        digits = cell.removeprefix("-")
        plain = digits[:1].isascii() and (digits[:1].isdigit() or digits[:1] == ".") and "_" not in digits
        leading = digits[:1] == "0" and digits[1:2].isdigit()
        infinite = digits in ("inf", "Inf", "infinity", "Infinity")
        try:
            numbers.append(float(cell) if (plain and not leading and cell.isascii()) or infinite else "text")
        except ValueError:
            numbers.append("text")
    if "text" in numbers or all(number is None for number in numbers):
        assert pa.types.is_string(column.type)
    else:
        assert column.to_pylist() == numbers


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a,b\n1,x\n,y\n", {"a": [1, None], "b": ["x", "y"]}),
        ('a,b\n"",x\nz,y\n', {"a": ["", "z"], "b": ["x", "y"]}),
        ("a,b\n007,1.50\n8,2\n", {"a": ["007", "8"], "b": [1.5, 2.0]}),
        ("a,b\nNA,nan\n8,2.5\n", {"a": [None, 8], "b": [None, 2.5]}),
        ("a\n99999999999999999999\n", {"a": [1e20]}),
        ("a,b\n'=1+1,'x\n''=2,''\n", {"a": ["=1+1", "'=2"], "b": ["'x", "''"]}),
        ("'=a\n1\n", {"=a": [1]}),
        ("\ufeffa\r\n1\r\n", {"a": [1]}),
        ("a\ntrue\nfalse\n", {"a": ["true", "false"]}),
        ("a\n2024-01-31\n", {"a": ["2024-01-31"]}),
        ("a\n1", {"a": [1]}),
    ],
)
def test_the_rules_for_csv(content, expected, tmp_path):
    (tmp_path / "t.csv").write_text(content, encoding="utf-8", newline="")
    assert read_csv(tmp_path / "t.csv", texts=()).to_pydict() == expected


@pytest.mark.slow
def test_a_cell_of_many_megabytes_is_read_and_written(tmp_path):
    large = ["y" * 20_000_000, *["x"] * (len(PICKED) - 1)]
    for suffix in SUFFIXES:
        path = cs.save(PICKED, tmp_path / f"picked{suffix}", table={"text": large})
        assert cs.load(path) == PICKED
        assert open_table(path).cells("text", [0]) == large[:1]
    (tmp_path / "losses.csv").write_text(
        "row,note,loss\n" + "".join(f'{row},"{"z" * 3_000_000}",1\n' for row in (0, 1))
    )
    assert AnswerFile(tmp_path / "losses.csv").numbers("loss")(np.array([1, 0]), None).tolist() == [1.0, 1.0]


def test_the_rules_for_json_lines(tmp_path):
    lines = ['{"a": 1, "b": "x", "e": [1.5]}', "", '{"a": 2.5, "b": 7, "e": null, "c": true}', '{"b": null}']
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    table = open_table(tmp_path / "t.jsonl")
    assert table.take([0, 1, 2]).to_pydict() == {
        "a": [1.0, 2.5, None],
        "b": ["x", "7", None],
        "e": [[1.5], None, None],
        "c": [None, True, None],
    }


def test_json_lines_of_many_pieces_agree_on_types(tmp_path, monkeypatch):
    monkeypatch.setattr("coresift.tables.textual.LINES_AT_ONCE", 2)
    entries = [{"a": 1, "b": 1}, {"a": 2, "b": 2}, {"a": 2.5, "b": "x"}, {"b": None}, {"c": [1]}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert open_table(tmp_path / "t.jsonl").take(range(5)).to_pydict() == {
        "a": [1.0, 2.0, 2.5, None, None],
        "b": ["1", "2", "x", None, None],
        "c": [None, None, None, None, [1]],
    }


FORMULAS = ["=1+1", "+1", "-1", "@x", "\t=", "\r", "'=1", "''@", "'", "-", "a=b", "=", '="a,b"', "", "\n=1"]


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cells=st.lists(
        st.sampled_from(FORMULAS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.none(),
        min_size=1,
    )
)
def test_no_cell_is_a_formula_and_all_come_back(tmp_path, cells):
    path = tmp_path / "t.csv"
    write_table(pa.table({"=a": pa.array(cells, pa.string()), "x": range(len(cells))}), path)
    with path.open(newline="", encoding="utf-8") as file:
        for line in csv.reader(file):
            assert not line[0].startswith(("=", "+", "-", "@", "\t", "\r"))
    assert open_table(path).cells("=a", np.arange(len(cells))) == cells


def not_utf8(suffix, tmp_path):
    """Write a table with texts that are none."""
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 3], np.int32).tobytes()), pa.py_buffer(b"a\xff\xfe")]
    )
    table, path = pa.table({"id": bad, "text": bad, "x": [1.0, 2.0]}), tmp_path / f"t{suffix}"
    if suffix == ".csv":
        path.write_bytes(b"id,text,x\na,a,1\n\xff\xfe,\xff\xfe,2\n")
    elif suffix == ".jsonl":
        path.write_bytes(b'{"id": "a", "text": "a", "x": 1}\n{"id": "\xff\xfe", "text": "\xff\xfe", "x": 2}\n')
    elif suffix == ".parquet":
        pq.write_table(table, path)
    elif suffix == ".arrow":
        feather.write_feather(table, path, compression="uncompressed")
    return table if suffix == "memory" else path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".arrow", "memory"])
def test_texts_that_are_not_utf8_are_one_sentence(suffix, tmp_path):
    source = not_utf8(suffix, tmp_path)
    uses = (
        lambda: open_rows(source).names([0, 1]),
        lambda: open_rows(source).numbers_of(["a"]),
        lambda: open_table(source).cells("text", [0, 1]),
        lambda: open_table(source).classes("text"),
        lambda: open_table(source).take([1]),
    )
    for use in uses:
        assert "cannot be read" in refusal(use)


@pytest.mark.models
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".arrow", "memory"])
def test_texts_of_a_corpus_that_are_not_utf8_are_one_sentence(suffix, tmp_path):
    from coresift.models.corpus import open_corpus

    source = not_utf8(suffix, tmp_path)
    assert "cannot be read" in refusal(lambda: list(open_corpus(source).windows("text", 5)))


def named_twice(suffix, tmp_path):
    """Write a table with two columns of one name."""
    table, path = pa.table([[1], [0.5], [0.7]], names=["row", "loss", "loss"]), tmp_path / f"t{suffix}"
    if suffix == ".csv":
        path.write_text("row,loss,loss\n1,0.5,0.7\n")
    elif suffix == ".jsonl":
        path.write_text('{"row": 1, "loss": 0.5, "loss": 0.7}\n')
    elif suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".arrow"])
def test_a_name_that_two_columns_have_is_told(suffix, tmp_path):
    for use in (open_table, open_rows, AnswerFile):
        assert "twice" in refusal(use, named_twice(suffix, tmp_path))


@pytest.mark.models
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".arrow"])
def test_a_name_that_two_columns_of_a_corpus_have_is_told(suffix, tmp_path):
    from coresift.models.corpus import open_corpus

    assert "twice" in refusal(open_corpus, named_twice(suffix, tmp_path))


# Damage


def test_an_offset_outside_of_its_buffer_is_one_sentence(tmp_path):
    table = pa.table({"id": [f"k{row:03}" for row in range(N)], "emb": LISTS})
    path = tmp_path / "bad.arrow"
    feather.write_feather(table, path, compression="uncompressed")
    content = bytearray(path.read_bytes())
    at = bytes(content).find(np.arange(0, (N + 1) * 4, 4, dtype="i4").tobytes())
    assert at > 0
    content[at + 4 * 30 + 3] = 0x7F
    path.write_bytes(content)
    assert "cannot be read" in refusal(open_rows, path)  # the ids are what rows are counted by


HEADER = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }"


@pytest.mark.parametrize(
    "header",
    [
        HEADER.replace("}", ""),
        HEADER.replace("(3, 2)", "(-3, 2)"),
        HEADER.replace("(3, 2)", "(3, 200000000000000)"),
        HEADER.replace("(3, 2)", "3"),
        HEADER.replace("(3, 2)", "(3.0, 2)"),
        HEADER.replace("'<f8'", "'<f3'"),
        HEADER.replace("'<f8'", "'|O'"),
        HEADER.replace("'<f8'", "7"),
        HEADER.replace("'<f8'", "[]"),
        HEADER.replace("False", "'no'"),
        "[" * 3000,
        "(" * 300 + ")" * 300,
        "\\",
        "'",
        "",
        "\x00",
        "{}",
        "1",
        HEADER + "]",
    ],
)
def test_damaged_headers_are_one_sentence(header, tmp_path):
    path = tmp_path / "a.npy"
    coded = header.encode() + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(coded).to_bytes(2, "little") + coded + np.zeros(6).tobytes())
    for use in (open_rows, lambda path: open_rows(path.as_uri())):
        refusal(use, path)


def test_another_version_of_npy_is_not_guessed(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(2))
    content = bytearray((tmp_path / "a.npy").read_bytes())
    content[6] = 9
    (tmp_path / "a.npy").write_bytes(content)
    for source in (tmp_path / "a.npy", (tmp_path / "a.npy").as_uri()):
        assert "it has the unknown format 9.0" in refusal(open_rows, source)


@pytest.mark.slow
def test_an_archive_that_would_grow_is_refused_before_it_does(tmp_path):
    path = cs.save(cs.cluster(ROWS, 3), tmp_path / "c.npz")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["labels.npy"] = members["labels.npy"][:128] + bytes(50_000_000)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    assert path.stat().st_size < 1_000_000
    assert "its arrays are larger than the file" in refusal(cs.load, path)


# Names of places


def test_keys_in_a_uri_are_never_said():
    uri = "s3://KEY:SECRET@bucket/rows?secret_key=HIDDEN&x=1"
    assert hide_secrets(f"{uri} and {uri}") == "s3://…@bucket/rows?… and s3://…@bucket/rows?…"
    assert hide_secrets("is it a@b? yes=no, file:///a/b.npy") == "is it a@b? yes=no, file:///a/b.npy"
    said = refusal(open_rows, "gopher://KEY:SECRET@bucket/rows?secret_key=HIDDEN")
    assert not any(word in said for word in ("KEY", "SECRET", "HIDDEN"))


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".npz", ".npy", ".arrow"])
def test_a_name_need_not_be_utf8(suffix, tmp_path):
    path = tmp_path / (os.fsdecode(b"\xff\xfe") + suffix)
    if suffix == ".npy":
        with open(path, "wb") as file:
            np.save(file, ROWS)
        assert open_rows(path).n == N
    elif suffix == ".arrow":
        with open(path, "wb") as file, pa.ipc.new_file(file, pa.schema([("x", pa.float64())])) as writer:
            writer.write_table(pa.table({"x": [1.0]}))
        assert open_rows(path).n == 1
    else:
        value = cs.cluster(ROWS, 3) if suffix == ".npz" else PICKED
        assert cs.load(cs.save(value, path)) == value


def test_a_folder_of_datasets_is_read_without_the_library(tmp_path):
    import datasets

    frame = datasets.Dataset.from_dict({"id": [f"k{row}" for row in range(N)], "e": ROWS.tolist()})
    frame.select(range(N - 1, -1, -1)).save_to_disk(str(tmp_path / "set"), num_shards=3)
    rows = open_rows(tmp_path / "set")
    assert rows.names([0, N - 1]) == [f"k{N - 1}", "k0"]
    np.testing.assert_array_equal(rows.take(NUMBERS), ROWS[::-1])
    (tmp_path / "set" / "state.json").write_text("{")
    assert "state.json is damaged" in refusal(open_rows, tmp_path / "set")
    (tmp_path / "set" / "state.json").write_text("[" * 100_000)
    assert "state.json is damaged" in refusal(open_rows, tmp_path / "set")


def test_names_of_many_columns_are_looked_at_once(tmp_path):
    """Each was compared with all before it, so that 100,000 columns took hours."""
    compared = 0

    class Name(str):
        __slots__ = ()

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [Name(f"c{number}") for number in range(1000)]
    parts._check_names("wide.arrow", SimpleNamespace(names=names))
    assert compared < 10 * len(names)
    with pytest.raises(InputError, match=r"^The file wide.arrow must have distinct column names; it has 'c7' twice"):
        parts._check_names("wide.arrow", SimpleNamespace(names=[*names, Name("c7")]))


def test_a_text_file_that_would_fill_the_memory_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("x" * 200_000 + ",b\n1,2\n")
    assert "field larger than field limit" in refusal(open_rows, tmp_path / "a.csv")
    lines = (json.dumps({f"n{row}": 1, "x": row}) + "\n" for row in range(1500))
    (tmp_path / "a.jsonl").write_text("".join(lines))
    sentence = "its lines have little in common, 3,000 values in 1,501 columns."
    assert refusal(open_rows, tmp_path / "a.jsonl").endswith(sentence)


def test_the_note_of_a_frame_may_be_anything(tmp_path):
    for note in ("[" * 100_000, "5", '{"index_columns": 5}', "{"):
        pq.write_table(pa.table({"x": [1.0]}).replace_schema_metadata({"pandas": note}), tmp_path / "a.parquet")
        assert open_rows(tmp_path / "a.parquet").columns == ("x",)
