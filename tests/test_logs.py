"""Logs of evaluation tools: golden/logs has files that lm-evaluation-harness 0.4.13 and inspect_ai 0.3.285 wrote."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

import coresift as cs

LOGS = Path(__file__).parent / "golden" / "logs"


def test_choices_of_the_harness():
    log = cs.signals.from_log(LOGS / "samples_choice.jsonl")
    lines = [json.loads(line) for line in (LOGS / "samples_choice.jsonl").read_text().splitlines()]
    assert log.items == ("0", "1", "2", "3", "4")
    np.testing.assert_array_equal(log.scores["acc"], [line["acc"] for line in lines])
    for row, line in enumerate(lines):
        odds = np.exp([float(answer[0]) for answer in line["filtered_resps"]])
        np.testing.assert_allclose(log.probabilities[row, : odds.size], odds / odds.sum())
        assert log.probabilities[row, odds.size :].sum() == 0
        right = log.probabilities[row, line["doc"]["gold"]]
        assert log.signals["target_probability"][row] == right
    # The dummy model is right where the right choice is the most probable.
    assert np.array_equal(log.scores["acc"] == 1, log.probabilities.argmax(axis=1) == log.targets)


def test_filters_of_the_harness_are_scores_of_their_own():
    log = cs.signals.from_log(LOGS / "samples_text.jsonl")
    assert set(log.scores) == {"exact_match, strict", "exact_match, loose"}
    assert log.probabilities is None
    assert len(log) == 5


@pytest.mark.parametrize("name", ["inspect.eval", "inspect.json"])
def test_epochs_of_inspect_are_averaged(name):
    log = cs.signals.from_log(LOGS / name)
    assert log.items == ("q0", "q1", "q2")
    assert {key: column.tolist() for key, column in log.scores.items()} == {
        "match": [1.0, 0.5, 0.5],
        "includes": [1.0, 0.5, 0.5],
    }


def repacked(path, leave_out=()):
    """Write the .eval log again with the compression of earlier versions, from entries as they are read here."""
    from coresift.logs import _entry

    with zipfile.ZipFile(LOGS / "inspect.eval") as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name in source.namelist():
            if name not in leave_out:
                out.writestr(name, _entry(LOGS / "inspect.eval", source, name))
    return path


@pytest.mark.parametrize("leave_out", [(), ("summaries.json", "header.json", "reductions.json")])
def test_deflated_and_stopped_runs_of_inspect_are_read(tmp_path, leave_out):
    log = cs.signals.from_log(repacked(tmp_path / "old.eval", leave_out))
    assert log.scores["match"].tolist() == [1.0, 0.5, 0.5]


def test_logs_are_aligned_by_item():
    log = cs.signals.from_log(LOGS / "samples_choice.jsonl")
    turned = log.align([4, 7, 0])
    assert turned.items == ("4", "7", "0")
    np.testing.assert_array_equal(turned.scores["acc"], [log.scores["acc"][4], np.nan, log.scores["acc"][0]])
    np.testing.assert_array_equal(turned.signals["entropy"][[0, 2]], log.signals["entropy"][[4, 0]])
    assert np.isnan(turned.signals["target_probability"][1])


def test_words_numbers_and_several_numbers_of_a_scorer(tmp_path):
    samples = [
        {"id": 1, "epoch": 1, "scores": {"judge": {"value": "P"}, "both": {"value": {"a": 0.25, "b": True}}}},
        {"id": 2, "epoch": 1, "scores": {"judge": {"value": "no idea"}, "both": {"value": {"a": 1, "b": "I"}}}},
        {"id": 3, "epoch": 1, "scores": None},
    ]
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"samples": samples}))
    log = cs.signals.from_log(path)
    np.testing.assert_array_equal(log.scores["judge"], [0.5, np.nan, np.nan])
    np.testing.assert_array_equal(log.scores["both a"], [0.25, 1.0, np.nan])
    np.testing.assert_array_equal(log.scores["both b"], [1.0, 0.0, np.nan])


def test_a_log_evaluates_a_larger_model():
    log = cs.signals.from_log(LOGS / "samples_choice.jsonl")
    wrong = 1 - log.scores["acc"]
    result = cs.evaluate(values=wrong, signals=log.signals, budget=5, metric="rate").complete()
    assert result.value == wrong.mean()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("log.csv", b"", r"path must be a log: samples_\*\.jsonl, \.eval or \.json; got log\.csv"),
        ("log.jsonl", b"", r"log\.jsonl has no samples\."),
        ("log.jsonl", b"{", r"log\.jsonl is not a readable log"),
        ("log.jsonl", b"[1]\n", r"log\.jsonl is not a readable log"),
        ("log.jsonl", b"\xff\xfe", r"log\.jsonl is not a readable log"),
        ("log.json", b"{}", r"log\.json is not a readable log: KeyError 'samples'"),
        ("log.json", b'{"samples": []}', r"log\.json has no samples\."),
        ("log.eval", b"no zip", r"log\.eval is not a readable log"),
        ("log.json", b"[" * 100_000, r"log\.json is not a readable log: RecursionError"),
        ("log.json", b'{"samples": ' + b"9" * 5_000 + b"}", r"log\.json is not a readable log: ValueError"),
        ("log.json", b'{"samples": [{"id": 1, "scores": {"a": 5}}]}', r"is not a readable log: TypeError"),
        ("log.jsonl", b'{"doc_id": "x", "metrics": []}', r"is not a readable log: ValueError invalid literal"),
        ("log.jsonl", b'{"doc_id": 1e999, "metrics": []}', r"log\.jsonl is not a readable log: OverflowError"),
    ],
)
def test_what_is_not_a_log_is_refused_in_one_sentence(tmp_path, name, content, sentence):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(cs.InputError, match=sentence):
        cs.signals.from_log(path)


def test_there_is_no_such_log(tmp_path):
    with pytest.raises(cs.InputError, match=r"There is no file .*none\.json\."):
        cs.signals.from_log(tmp_path / "none.json")


def test_numbers_that_are_none_are_missing(tmp_path):
    lines = [
        '{"doc_id": 0, "metrics": ["acc"], "acc": 1}',
        '{"doc_id": 1, "metrics": ["acc"], "acc": 1%s}' % ("0" * 400),
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    np.testing.assert_equal(cs.signals.from_log(tmp_path / "log.jsonl").scores["acc"], [1.0, np.nan])


def test_a_small_file_cannot_ask_for_much_memory(tmp_path):
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("summaries.json", b" " * 2**25)
    assert path.stat().st_size < 50_000
    with pytest.raises(
        cs.InputError, match=r"has summaries of 33,554,432 bytes; the limit for a file of its size is 1\d,\d+,\d+ bytes"
    ):
        cs.signals.from_log(path)
    line = '{"doc_id": %d, "metrics": ["m%d"], "m%d": 1}\n'
    (tmp_path / "log.jsonl").write_text("".join(line % (row, row, row) for row in range(1100)))
    with pytest.raises(cs.InputError, match=r"items have little in common, 1,100 values in a table of 1,210,000\."):
        cs.signals.from_log(tmp_path / "log.jsonl")


def test_a_damaged_entry_is_refused(tmp_path):
    path = Path(shutil.copy(LOGS / "inspect.eval", tmp_path / "log.eval"))
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("summaries.json")
    middle = entry.header_offset + 30 + len(entry.filename) + entry.compress_size // 2
    content[middle : middle + 8] = b"\0" * 8
    path.write_bytes(content)
    with pytest.raises(cs.InputError, match=r"log\.eval is damaged: its entry summaries\.json"):
        cs.signals.from_log(path)
