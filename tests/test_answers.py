"""Files of answers: the same answers by row number or own id from every kind of file, and never a wrong one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tables import write

from coresift.answers import AnswerFile
from coresift.checks import InputError

SUFFIXES = (".parquet", ".csv", ".jsonl")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    [
        "",
        "NA",
        "null",
        "nan",
        '"',
        'a "b", c',
        "two\nlines",
        "\r\n",
        " 7 ",
        "007",
        "2024-01-31",
        "2024-01-31T12:00",
        "7.0",
    ]
)


def refusal(work):
    with pytest.raises(InputError) as error:
        work()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    answers=st.dictionaries(
        TEXTS, st.tuples(st.floats(allow_nan=False, allow_infinity=False), TEXTS), min_size=1, max_size=9
    ),
    data=st.data(),
)
def test_any_ids_and_labels_are_found_as_they_are_without_white_space_around_labels(tmp_path, suffix, answers, data):
    ids = list(answers)
    columns = {
        "id": ids,
        "loss": [loss for loss, _ in answers.values()],
        "kind": [kind for _, kind in answers.values()],
    }
    file = AnswerFile(write(tmp_path / f"answers{suffix}", columns))
    asked = data.draw(st.lists(st.sampled_from(ids), max_size=12))
    rows = np.arange(len(asked))
    assert file.numbers("loss")(rows, asked).tolist() == [answers[name][0] for name in asked]
    # Arrays of texts cannot end in NUL, and Arrow and Python know other controls as white space.
    labels = [label.rstrip("\x00").strip() for label in file.labels("kind")(rows, asked).tolist()]
    assert labels == [answers[name][1].strip().rstrip("\x00").strip() for name in asked]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", [int, float, str])
def test_row_numbers_may_be_whole_numbers_floats_or_texts(tmp_path, suffix, kind):
    columns = {"row": [kind(row) for row in (12, 0, 7)], "loss": [1.5, 2.5, 3.5]}
    file = AnswerFile(write(tmp_path / f"answers{suffix}", columns))
    assert file.numbers("loss")(np.array([7, 12]), None).tolist() == [3.5, 1.5]
    assert file.rows().tolist() == [12, 0, 7]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_row_numbers_that_are_none_are_told(tmp_path, suffix):
    for bad in ("seven", "7.5"):
        file = AnswerFile(write(tmp_path / f"answers{suffix}", {"row": ["1", bad], "loss": [1.0, 2.0]}))
        assert "cannot be read: " in refusal(file.rows)
        assert "cannot be read: " in refusal(lambda file=file: file.numbers("loss"))
    file = AnswerFile(write(tmp_path / f"answers{suffix}", {"id": [1], "loss": [1.0]}))
    assert refusal(file.rows).endswith("must have the column row; it has id, loss.")


def test_labels_in_a_csv_keep_their_zeros_and_no_label_is_an_empty_one(tmp_path):
    (tmp_path / "a.csv").write_text("row,kind\n0,007\n1,\n2,NA\n3,7\n")
    assert AnswerFile(tmp_path / "a.csv").labels("kind")(np.arange(4), None).tolist() == ["007", "", "NA", "7"]
    write(tmp_path / "a.parquet", {"row": [0, 1, 2], "kind": ["x", None, "y"]})
    assert AnswerFile(tmp_path / "a.parquet").labels("kind")(np.arange(3), None).tolist() == ["x", "", "y"]
    write(tmp_path / "b.parquet", {"row": [0, 1, 2], "kind": [1, None, 3]})
    assert AnswerFile(tmp_path / "b.parquet").labels("kind")(np.arange(3), None).tolist() == ["1", "", "3"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_number_may_be_missing_and_a_label_may_be_the_key(tmp_path, suffix):
    path = write(tmp_path / f"answers{suffix}", {"row": [0, 1], "loss": [None, 2.0]})
    assert np.array_equal(AnswerFile(path).numbers("loss")(np.array([0, 1]), None), [np.nan, 2.0], equal_nan=True)
    assert AnswerFile(path).labels("row")(np.array([1, 0]), None).tolist() == ["1", "0"]


def test_ids_with_line_breaks_are_found_in_a_large_csv(tmp_path):
    ids = [f'question {row}\nand more, ”quoted” "twice"' + "x" * 40 for row in range(30_000)]
    path = write(tmp_path / "large.csv", {"id": ids, "loss": np.arange(30_000) / 4})
    assert path.stat().st_size > 2**20  # more than the reader takes at once
    asked = [ids[29_999], ids[12_345], ids[0]]
    assert AnswerFile(path).numbers("loss")(np.arange(3), asked).tolist() == [29_999 / 4, 12_345 / 4, 0.0]


def test_a_csv_from_a_spreadsheet_is_read(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfrow,loss\r\n3,0.5\r\n4,1\r\n")  # a byte order mark and CRLF
    assert AnswerFile(tmp_path / "a.csv").numbers("loss")(np.array([4, 3]), None).tolist() == [1.0, 0.5]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_csv_with_semicolons_or_tabs_is_read(tmp_path, separator):
    path = tmp_path / "a.csv"
    path.write_text("id;text;label\nq3;one, two, three;red\nq4;four;blue\n".replace(";", separator))
    assert AnswerFile(path).labels("label")(np.arange(2), ["q4", "q3"]).tolist() == ["blue", "red"]
    path.write_text("item;label\nq3;red\n".replace(";", separator))
    assert refusal(lambda: AnswerFile(path)).endswith("the column id (or row); it has item, label.")
    path.write_text('"a;id"\n1\n2\n'.replace(";", separator))  # one column, whose quoted name has the separator
    shown = separator.encode("unicode_escape").decode()  # in one line, whatever it is
    assert f"it has a{shown}id" in refusal(lambda: AnswerFile(path))
    path.write_text("row;loss\n3;0,5\n".replace(";", separator))
    assert "cannot be read: " in refusal(lambda: AnswerFile(path).numbers("loss"))


def test_columns_are_found_in_any_case_and_labels_have_no_white_space_around_them(tmp_path):
    path = write(tmp_path / "a.csv", {"Row": [3, 4, 5], " Label ": [" psychology ", "\u00a0law\t", "  "]})
    file = AnswerFile(path)
    assert (file.key, file.has("label"), file.has("loss")) == ("row", True, False)
    assert file.labels("label")(np.array([5, 4, 3]), None).tolist() == ["", "law", "psychology"]
    assert file.answered("label", numeric=False)[0] == ["3", "4"]
    path = write(tmp_path / "b.csv", {"ID": ["a"], "Label": ["x"], "LABEL": ["y"]})
    assert refusal(lambda: AnswerFile(path).labels("label")).endswith("the column label; it has ID, Label, LABEL.")
    assert AnswerFile(path).labels("LABEL")(np.array([0]), ["a"]).tolist() == ["y"]


def test_suffixes_in_capitals_are_known(tmp_path):
    (tmp_path / "a.CSV").write_text("row,loss\n3,0.5\n")
    assert AnswerFile(tmp_path / "a.CSV").numbers("loss")(np.array([3]), None).tolist() == [0.5]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b'{"row": 1, "loss": 0.5}\n[1]\n'),
        ("a.jsonl", b'{"row": 1, "loss": 0.5}\n{"row": 100000000000000000000000, "loss": 0.5}\n'),
        ("a.jsonl", b'{"row": 1, "loss": 0.5}\n{"row": 2, "loss": {"x": 1}}\n'),
        ("a.jsonl", b'{"row": 1, "loss": 0.5}\n{"row": \n'),
        ("a.jsonl", b'{"row": 1, "loss": ' + b"[" * 99_999 + b"\n"),
        ("a.csv", b"row,loss\n1,0.5\n2\n"),
        ("a.csv", b"row,loss\n\xff\xfe,0.5\n"),
        ("a.parquet", b"PAR1 and so on PAR1"),
    ],
)
def test_a_broken_file_is_one_sentence(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    said = refusal(lambda: AnswerFile(tmp_path / name).numbers("loss"))
    assert said.startswith((f"The file {tmp_path / name} cannot be read: ", f"{tmp_path / name} must have one JSON"))
    assert said.endswith(".")


def test_no_file_is_one_sentence(tmp_path):
    assert refusal(lambda: AnswerFile(tmp_path / "a.csv")) == f"There is no file {tmp_path / 'a.csv'}."
    (tmp_path / "a.txt").touch()
    assert refusal(lambda: AnswerFile(tmp_path / "a.txt")) == (
        f"A file of answers must be a .parquet, .arrow, .feather, .csv or .jsonl file; got {tmp_path / 'a.txt'}."
    )
    assert refusal(lambda: AnswerFile(tmp_path / "a.xlsx")).endswith("a.xlsx; save the sheet as CSV.")


def test_a_long_label_takes_its_own_room_and_labels_keep_zeros_at_their_end(tmp_path):
    labels = ["x" * 200_000, "a\x00", *["a"] * 20_000]  # as an array of texts, 16 GB
    answers = AnswerFile(write(tmp_path / "a.parquet", {"row": np.arange(len(labels)), "label": labels}))
    assert answers.labels("label")(np.arange(3), None).tolist() == labels[:3]
