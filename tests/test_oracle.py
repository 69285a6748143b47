"""The oracle: the same answers whatever their source, batch or interruption; nothing answered is asked again."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import write

from coresift.checks import AnswerError, InputError
from coresift.oracle import Oracle, as_oracle
from coresift.oracle.journal import Journal
from coresift.oracle.questions import LARGEST
from coresift.progress import Progress

FINGERPRINT = {"rows": "a1b2", "arguments": "seed=0"}
LOSSES = np.random.default_rng(0).exponential(size=60)
ROWS = np.array([5, 41, 2, 17, 8, 30, 9])


class Model:
    """A callable that knows every loss and remembers which batches it was asked."""

    def __init__(self, losses=LOSSES):
        self.losses, self.batches = losses, []

    def __call__(self, rows):
        self.batches.append(rows.tolist())
        return self.losses[rows]

    @property
    def asked(self):
        return [row for batch in self.batches for row in batch]


@contextmanager
def opened(source, *, n=60, limit=60, names=None, progress=None, fingerprint=FINGERPRINT, **options):
    oracle = source if isinstance(source, Oracle) else Oracle(source, **options)
    with oracle.session(n, fingerprint, limit, progress or Progress(), names) as session:
        yield session


def ask(source, ids=ROWS, **options):
    with opened(source, **options) as session:
        return session.ask(np.asarray(ids), round=1, reason="pilot")


# Answers, counts and batches


@given(ids=st.lists(st.integers(0, 59), max_size=80), batch=st.integers(1, 70), more=st.lists(st.integers(0, 59)))
def test_any_order_repeats_and_batch_size_give_the_losses_and_ask_each_row_once(ids, batch, more):
    model = Model()
    ids, more = np.array(ids, np.int64), np.array(more, np.int64)
    with opened(model, batch=batch) as session:
        assert np.array_equal(session.ask(ids, round=1, reason="pilot"), LOSSES[ids])
        assert np.array_equal(session.ask(more, round=2, reason="more"), LOSSES[more])
    assert model.asked == list(dict.fromkeys([*ids.tolist(), *more.tolist()]))
    assert all(len(rows) <= batch for rows in model.batches)
    assert session.ledger.asked == len(set(model.asked))


def test_batches_follow_the_order_asked():
    model = Model()
    ask(model, batch=3)
    assert model.batches == [[5, 41, 2], [17, 8, 30], [9]]
    assert ask(model, np.zeros(0, np.int64)).shape == (0,)


def test_ledger_says_when_and_why_and_does_not_depend_on_who_answered(tmp_path):
    pa.parquet.write_table(pa.table({"id": np.arange(60), "loss": LOSSES}), tmp_path / "answers.parquet")
    cached = Oracle(Model())
    ask(cached)
    ask(Model(), journal=tmp_path / "journal")
    journalled = Oracle(Model(), journal=tmp_path / "journal")
    ledgers = []
    for source in (Oracle(Model()), cached, journalled, Oracle(LOSSES), Oracle(tmp_path / "answers.parquet")):
        with opened(source) as session:
            session.ask(ROWS, round=1, reason="pilot")
            session.ask(ROWS[:2], round=1, reason="pilot")
            session.ask(np.array([5, 59, 58]), round=2, reason="check")
        ledgers.append(session.ledger.entries)
    assert ledgers == [((1, "pilot", 7), (2, "check", 2))] * 5
    assert cached.answered == 9
    assert journalled.answered == 2


def test_an_oracle_remembers_within_the_same_rows_only():
    model = Model()
    oracle = Oracle(model, batch=4)
    ask(oracle)
    ask(oracle, fingerprint={"rows": "a1b2", "arguments": "seed=1"})
    assert (len(model.asked), oracle.calls, oracle.answered) == (7, 2, 7)
    ask(oracle, fingerprint={"rows": "other"})
    assert (len(model.asked), oracle.calls, oracle.answered) == (14, 4, 14)


def test_more_rows_than_the_limit_is_an_error_before_anything_is_asked():
    model = Model()
    with opened(model, limit=8) as session:
        session.ask(ROWS, round=1, reason="pilot")
        session.ask(ROWS[::-1], round=2, reason="again")
        with pytest.raises(AnswerError, match=r"^The losses of 9 rows were asked, but the limit is 8; .* report it\.$"):
            session.ask(np.array([0, 1]), round=2, reason="more")
    assert len(model.asked) == 7


@pytest.mark.parametrize("bad", [-1, 60])
def test_row_numbers_outside_the_table_are_refused(bad):
    with pytest.raises(InputError, match=f"^ids must be row numbers from 0 to 59; got {bad}"):
        ask(Model(), [3, bad])


def test_a_callable_may_change_the_array_it_is_given():
    def spoil(rows):
        losses = LOSSES[rows]
        rows[:] = 0
        return losses

    assert np.array_equal(ask(spoil, batch=3), LOSSES[ROWS])


def test_progress_counts_what_is_really_asked():
    class Record(Progress):
        def __init__(self):
            self.events = []

        def start(self, stage, total):
            self.events.append((stage, total))

        def advance(self, amount):
            self.events.append(amount)

        def finish(self):
            self.events.append("end")

    record = Record()
    with opened(Model(), progress=record, batch=2) as session:
        session.ask(ROWS[:3], round=1, reason="pilot")
        session.ask(ROWS[:4], round=1, reason="pilot")
    title = "asking for losses"
    assert record.events == [(title, 3), 2, 1, "end", (title, 1), 1, "end"]


def test_as_oracle():
    oracle = Oracle(LOSSES)
    assert as_oracle(None) is None
    assert as_oracle(oracle) is oracle
    assert np.array_equal(ask(as_oracle(LOSSES)), LOSSES[ROWS])
    assert "callable Model, name='loss'" in repr(as_oracle(Model()))


# What is not a loss, and callables that fail


class Stubborn:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("it requires grad.")


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        ([0.5, 1, 1], r"losses must be one number for each of 4 rows; got shape (3,)."),
        ([[0.5, 1, 1, 2]], r"losses must be one number for each of 4 rows; got shape (1, 4)."),
        (None, r"losses must be one number for each of 4 rows; got shape ()."),
        (["a", "b", "c", "d"], r"losses must be numbers, one per row; got list."),
        (
            Stubborn(),
            "losses must be numbers, one per row; got Stubborn, which raised RuntimeError: it requires grad.",
        ),
    ],
)
def test_a_reply_that_is_not_one_number_per_row_is_named_not_retried_and_not_kept(tmp_path, reply, sentence):
    journal = tmp_path / "journal"
    oracle = Oracle(lambda rows: reply, journal=journal, batch=4)
    with pytest.raises(AnswerError) as error:
        ask(oracle)
    assert str(error.value) == sentence
    assert (oracle.calls, oracle.answered) == (1, 0)
    assert len(journal.read_text().splitlines()) == 1


class Shaky(Model):
    """Fails the first `failures` times it is asked for row 8."""

    def __init__(self, failures):
        super().__init__()
        self.failures = failures

    def __call__(self, rows):
        answers = super().__call__(rows)
        if 8 in rows and self.failures > 0:
            self.failures -= 1
            raise ConnectionError("the model\nis away.")
        return answers


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_callable_that_fails_is_tried_again_as_often_as_stated(retries):
    model = Shaky(retries)
    oracle = Oracle(model, batch=3, retries=retries)
    assert np.array_equal(ask(oracle), LOSSES[ROWS])
    assert model.batches == [[5, 41, 2], *[[17, 8, 30]] * (1 + retries), [9]]
    assert (oracle.calls, oracle.answered) == (3 + retries, 7)


def test_after_the_last_retry_the_error_tells_what_is_safe_and_the_same_call_goes_on(tmp_path):
    journal, model = tmp_path / "journal", Shaky(3)
    with pytest.raises(AnswerError) as error:
        ask(model, batch=3, journal=journal)
    assert str(error.value) == (
        "The callable for losses failed 3 times on 3 rows, the first of them row 17: ConnectionError: the model is "
        f"away. 3 answers are safe in the state file {journal}; the same call continues from there."
    )
    assert isinstance(error.value.__cause__, ConnectionError)
    again = Model()
    assert np.array_equal(ask(again, batch=3, journal=journal), LOSSES[ROWS])
    assert again.batches == [[17, 8, 30], [9]]


def test_without_a_journal_the_error_recommends_one_and_the_oracle_itself_goes_on():
    model = Shaky(1)
    oracle = Oracle(model, batch=1, retries=0)
    with pytest.raises(AnswerError, match=r"failed once on row 8: ConnectionError: .* with a state file, a later run"):
        ask(oracle)
    assert np.array_equal(ask(oracle), LOSSES[ROWS])
    assert model.asked == [5, 41, 2, 17, 8, 8, 30, 9]


def test_an_interrupt_is_not_retried():
    def interrupted(rows):
        calls.append(rows)
        raise KeyboardInterrupt

    calls = []
    with pytest.raises(KeyboardInterrupt):
        ask(interrupted, retries=5)
    assert len(calls) == 1


def test_pause_comes_before_each_retry():
    begun = time.monotonic()
    ask(Shaky(2), batch=3, pause=0.05)
    assert time.monotonic() - begun >= 0.1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"batch": 0}, "batch must be a whole number of at least 1; got 0."),
        ({"retries": -1}, "retries must be a whole number of at least 0; got -1."),
        ({"pause": np.nan}, "pause must be a finite number of at least 0; got nan."),
        ({"name": 3}, "name must be a text; got 3."),
        ({"journal": 3}, "journal must be the path of a file; got 3."),
    ],
)
def test_bad_options_are_refused(options, sentence):
    with pytest.raises(InputError) as error:
        Oracle(Model(), **options)
    assert str(error.value) == sentence


# Arrays


@pytest.mark.parametrize("form", [list, tuple, np.float32, pa.array, lambda x: x.astype(object)])
def test_arrays_of_many_kinds(form):
    values = np.arange(60) / 4
    assert np.array_equal(ask(form(values)), values[ROWS])


def test_only_the_asked_entries_of_an_array_need_be_valid():
    values = np.full(60, np.nan)
    values[ROWS] = LOSSES[ROWS]
    assert np.array_equal(ask(values), LOSSES[ROWS])
    with pytest.raises(AnswerError, match="row 7 has nan"):
        ask(values, [5, 7])
    with pytest.raises(AnswerError, match="row 1 has nan"):
        ask([0.5, None], [0, 1], n=2)


def test_an_array_of_the_wrong_length_is_refused_before_anything_is_asked():
    with (
        pytest.raises(InputError, match=r"^losses must be one number for each of 61 rows; got 60 numbers\.$"),
        opened(LOSSES, n=61),
    ):
        pass


@pytest.mark.parametrize("bad", [None, 3.0, {"id": 1}, np.zeros((2, 3)), [[1], [1, 2]], Stubborn()])
def test_what_is_no_source_is_refused(bad):
    with pytest.raises(InputError, match=r"^losses must be a callable of row numbers, an array of losses, or a \.parq"):
        Oracle(bad)


# Files


SUFFIXES = [".parquet", ".csv", ".jsonl"]
OWN_IDS = {
    "numbers": [1000 + 7 * row for row in range(60)],
    "texts": [f"q/{row}, ü" for row in range(60)],
    "zeros in front": [f"{row:04}" for row in range(60)],
    "none": None,
}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", OWN_IDS)
def test_a_file_answers_by_the_ids_of_the_table_and_ignores_what_else_it_has(tmp_path, suffix, kind):
    own = OWN_IDS[kind]
    ids = list(range(60)) if own is None else own
    order = [30, *range(59, 4, -1), 2, 2]
    extra = 99999 if isinstance(ids[0], int) else "extra"
    columns = {
        "note": [f"text {row}" for row in order] + ["x"],
        "loss": [*LOSSES[order].tolist(), -1.0],
        "id": [ids[row] for row in order] + [extra],
    }
    path = write(tmp_path / f"answers{suffix}", columns)
    names = None if own is None else lambda rows: [own[row] for row in rows]
    assert np.array_equal(ask(str(path), names=names), LOSSES[ROWS])
    assert np.array_equal(ask(path, [2, 30, 2], names=names), LOSSES[[2, 30, 2]])
    with pytest.raises(InputError) as error:
        ask(path, [30, 4, 5, 1], names=names)
    assert str(error.value) == (
        f"{path} must have every row that is asked; 2 of 4 are missing, the first of them {ids[4]} "
        f"(its ids look like {ids[30]})."
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_row_numbers_and_ids_must_agree_and_names_without_ids_mean_row_numbers(tmp_path, suffix):
    columns = {"id": [f"own {row}" for row in range(60)], "row": list(range(60)), "loss": LOSSES.tolist()}
    path = write(tmp_path / f"answers{suffix}", columns)
    assert np.array_equal(ask(path, names=lambda rows: [f"own {row}" for row in rows]), LOSSES[ROWS])
    with pytest.raises(InputError, match="must have the id of each row next to its number; row 2 has the id own 57"):
        ask(path, names=lambda rows: [f"own {59 - row}" for row in rows])
    path = write(tmp_path / f"numbers{suffix}", {"id": list(range(60)), "loss": LOSSES.tolist()})
    assert np.array_equal(ask(path, names=lambda rows: None), LOSSES[ROWS])


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([float(row) for row in range(60)]),
        pa.array([*range(59), None], pa.float32()),
        pa.array([str(row) for row in range(60)]),
        pa.array([str(row) for row in range(60)]).dictionary_encode(),
        pa.array(range(60), pa.uint8()),
    ],
    ids=lambda ids: str(ids.type)[:10],
)
def test_numbers_and_their_texts_are_the_same_id_in_either_place(tmp_path, ids):
    path = write(tmp_path / "answers.parquet", {"id": ids, "loss": LOSSES})
    assert np.array_equal(ask(path), LOSSES[ROWS])
    assert np.array_equal(ask(path, names=lambda rows: [str(row) for row in rows]), LOSSES[ROWS])
    assert np.array_equal(ask(path, names=lambda rows: rows.tolist()), LOSSES[ROWS])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_id_with_two_losses_is_refused_and_a_repeated_line_is_not(tmp_path, suffix):
    path = write(tmp_path / f"same{suffix}", {"id": [0, 1, 0], "loss": [0.5, 1.5, 0.5]})
    assert ask(path, [1, 0], n=2).tolist() == [1.5, 0.5]
    path = write(tmp_path / f"two{suffix}", {"id": [0, 1, 0], "loss": [0.5, 1.5, 0.75]})
    with pytest.raises(InputError) as error:
        ask(path, [1], n=2)
    assert str(error.value) == f"{path} must have one loss for each id; id 0 has 0.5 and 0.75."


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_columns_are_named_with_those_that_are_there(tmp_path, suffix):
    path = write(tmp_path / f"answers{suffix}", {"key": [1], "loss": [0.5], "text": ["a"]})
    with pytest.raises(InputError) as error:
        ask(path)
    assert str(error.value) == (f"{path} must have the column id (or row); it has key, loss, text.")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_bad_loss_in_a_file_is_named_by_the_own_id_and_counts_only_when_asked(tmp_path, suffix):
    path = write(tmp_path / f"answers{suffix}", {"id": ["a", "b", "c", "c"], "loss": [0.5, -2.0, None, None]})

    def names(rows):
        return ["abc"[row] for row in rows]

    assert ask(path, [0], n=3, names=names).tolist() == [0.5]
    with pytest.raises(
        AnswerError, match=r"answers\.\w+ must be finite and at least 0; row b has -2\.0 \(unusable in 1 of 2"
    ):
        ask(path, [0, 1], n=3, names=names)
    with pytest.raises(AnswerError, match="row c has nan"):
        ask(path, [0, 2], n=3, names=names)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.parquet", b"not a table"),
        ("a.csv", b""),
        ("a.csv", b"id,loss\n1,high\n"),
        ("a.csv", b"id,loss\n1,0.5,3\n"),
        ("a.jsonl", b"{"),
        ("a.jsonl", b'{"id": 1, "loss": 0.5}\n{"id": 2, "loss": "high"}\n'),
    ],
)
def test_an_unreadable_file_is_one_sentence(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"^The file .*{name} cannot be read: [^\n]*[^.]\.$"):
        ask(tmp_path / name)


def test_losses_of_a_type_that_is_no_number_are_one_sentence(tmp_path):
    path = write(tmp_path / "a.parquet", {"id": [1], "loss": [[0.5]]})
    with pytest.raises(InputError, match="cannot be read: "):
        ask(path)


@pytest.mark.parametrize(("content", "there"), [(b"", "it has none"), (b"[1, 2]\n", "something else")])
def test_json_lines_without_columns(tmp_path, content, there):
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=there):
        ask(tmp_path / "a.jsonl")


def test_an_empty_file_with_columns_has_no_ids(tmp_path):
    (tmp_path / "a.csv").write_text("id,loss\n")
    with pytest.raises(InputError, match=r"7 of 7 are missing, the first of them 5 \(it has no ids at all\)\.$"):
        ask(tmp_path / "a.csv")


def test_a_path_that_is_no_table_is_refused_at_once(tmp_path):
    with pytest.raises(InputError, match=r"got '.*missing\.csv', which is not a file\.$"):
        Oracle(tmp_path / "missing.csv")
    with pytest.raises(InputError, match="which is not a file"):
        Oracle(str(tmp_path))
    (tmp_path / "answers.txt").write_text("1 2")
    with pytest.raises(InputError, match=r"must be a \.parquet, .* file; got .*answers\.txt\."):
        Oracle(tmp_path / "answers.txt")


# The journal


@pytest.mark.slow
@given(st.lists(st.floats(0, LARGEST), min_size=1, max_size=20))
def test_losses_come_back_from_the_journal_to_the_last_bit(tmp_path_factory, values):
    path, values = tmp_path_factory.mktemp("journal") / "journal", np.array(values)
    rows = np.arange(values.size)
    first = ask(values, rows, n=values.size, journal=path)
    again = ask(Model(), rows, n=values.size, journal=path)
    assert first.tobytes() == again.tobytes() == values.tobytes()


def test_a_journal_is_plain_lines_and_is_read_back_instead_of_asking(tmp_path):
    path, model = tmp_path / "journal", Model()
    ask(Model(), batch=4, journal=path)
    header, *batches = [json.loads(line) for line in path.read_text().splitlines()]
    sums = [line.pop("sum") for line in (header, *batches)]
    assert header == {"format": 2, "name": "loss", "fingerprint": FINGERPRINT}
    assert batches == [{"ids": rows, "answers": LOSSES[rows].tolist()} for rows in ([5, 41, 2, 17], [8, 30, 9])]
    assert sums == [checksum for checksum, _ in chain(path.read_bytes())]
    assert np.array_equal(ask(model, [9, 0, 5], batch=4, journal=path), LOSSES[[9, 0, 5]])
    assert model.batches == [[0]]


def test_answers_are_in_the_journal_before_the_next_batch_is_asked(tmp_path):
    path, seen = tmp_path / "journal", []

    def look(rows):
        seen.append(path.read_text().count("\n"))
        return LOSSES[rows]

    ask(look, batch=3, journal=path)
    assert seen == [1, 2, 3]


@pytest.mark.slow
def test_a_journal_cut_at_any_byte_goes_on_to_the_same_answers_and_the_same_bytes(tmp_path):
    path = tmp_path / "journal"
    ask(Model(), batch=4, journal=path)
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        kept = whole[: cut + 1].count(b"\n")  # a line that only lacks its end is whole
        model = Model()
        assert np.array_equal(ask(model, batch=4, journal=path), LOSSES[ROWS])
        assert model.asked == ROWS[4 * max(kept - 1, 0) :].tolist()
        assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"fingerprint": {**FINGERPRINT, "rows": "c3"}}, "rows: other embeddings now"),
        ({"fingerprint": {"rows": "c3", "arguments": "seed=1"}}, "rows: .*; arguments: 'seed=0' then, 'seed=1' now"),
        ({"fingerprint": {**FINGERPRINT, "code": "1"}}, "code: nothing then, '1' now"),
        ({"fingerprint": {"rows": "a1b2"}}, "arguments: 'seed=0' then, nothing now"),
        ({"name": "new model"}, "name of the loss: 'loss' then, 'new model' now"),
    ],
)
def test_a_journal_of_another_run_is_refused_and_left_alone(tmp_path, change, told):
    path, model = tmp_path / "journal", Model()
    ask(Model(), journal=path)
    with path.open("ab") as file:
        file.write(b'{"ids": [')
    content = path.read_bytes()
    sentence = rf"belongs to another run \({told}\); use another file, or the arguments of that run\.$"
    with pytest.raises(InputError, match=sentence):
        ask(model, journal=path, **change)
    assert (path.read_bytes(), model.batches) == (content, [])


@pytest.mark.parametrize(
    "content",
    [
        b"my notes",
        b"my notes\n",
        b"id,loss\n1,2\n3,4\n",
        b"\x89PNG\xff",
        b"[]\n[]\n",
        b'{"formal": 2}\n{}\n',
        b"[" * 99999,
    ],
)
def test_a_file_that_is_no_journal_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "journal"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is not a state file of coresift; use another file"):
        ask(Model(), journal=path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("other", [1, 3])
def test_a_journal_of_another_format_is_refused(tmp_path, other):
    (tmp_path / "journal").write_text(f'{{"format": {other}, "name": "loss", "fingerprint": {{}}}}\n')
    with pytest.raises(InputError, match=f"has format {other}, but this version of coresift reads 2; use another file"):
        ask(Model(), journal=tmp_path / "journal")


def chain(content):
    """The checksums of whole lines as they should be, and the lines; computed without the code under test."""
    before, found = "", []
    for line in content.split(b"\n")[:-1]:
        body = line[: line.rindex(b', "sum": ')]
        before = hashlib.blake2b(before.encode() + body, digest_size=8).hexdigest()
        found.append((before, line))
    return found


def seal(lines):
    """Write lines with the checksums that they should have, as a forger would."""
    before, content = "", b""
    for line in lines:
        body = line.encode()[:-1]
        before = hashlib.blake2b(before.encode() + body, digest_size=8).hexdigest()
        content += body + f', "sum": "{before}"}}\n'.encode()
    return content


HEADER = json.dumps({"format": 2, "name": "loss", "fingerprint": FINGERPRINT})


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"ids": [5]}', "it is not a batch of answers."),
        ('{"ids": null, "answers": []}', "it is not a batch of answers."),
        ('{"ids": [5], "answers": [NaN]}', "losses must be finite and at least 0; row 5 has nan"),
        ('{"ids": [5], "answers": [-1]}', "losses must be finite and at least 0; row 5 has -1.0"),
        ('{"ids": [5, 6], "answers": [1]}', "losses must be one number for each of 2 rows"),
        ('{"ids": [5.5], "answers": [1]}', "ids must be a list of row numbers"),
        ('{"ids": [60], "answers": [1]}', "ids must be row numbers from 0 to 59"),
        ('{"ids": [-1], "answers": [1]}', "ids must be row numbers from 0 to 59"),
        ('{"ids": [1e300], "answers": [1]}', "ids must be a list of row numbers"),
        ('{"ids": [1' + "0" * 40 + '], "answers": [1]}', "ids must be a list of row numbers"),
        ('{"ids": [0], "answers": [0.25]}', "row 0 has 0.25, and an earlier line has 0.5."),
        ('{"ids": [0], "answers": [0.25], "correct": 1}', "row 0 has 0.25, and an earlier line has 0.5."),
    ],
)
def test_a_sealed_line_that_is_no_batch_of_answers_is_named_and_the_file_left_alone(tmp_path, line, why):
    path = tmp_path / "journal"
    first, last = '{"ids": [0], "answers": [0.5]}', '{"ids": [7], "answers": [1.0]}'
    content = seal([HEADER, first, line, last]) + b'{"ids": '
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        ask(Model(), journal=path)
    assert str(error.value).startswith(f"Line 3 of the state file {path} cannot be used: {why}")
    assert path.read_bytes() == content


def test_a_correction_and_a_repetition_in_a_journal_are_read(tmp_path):
    path = tmp_path / "journal"
    again, other = '{"ids": [0], "answers": [0.5]}', '{"ids": [0], "answers": [0.25], "correct": true}'
    path.write_bytes(seal([HEADER, again, again, other]))
    assert ask(Model(), [0], journal=path).tolist() == [0.25]


def small_journal(path):
    ask(Model(), batch=3, journal=path, cost=0.5)
    return path.read_bytes()


def outcome(path, content):
    """What a run with this journal comes to: refused in one sentence, or the answers."""
    path.write_bytes(content)
    try:
        answers = ask(Model(), batch=3, journal=path, cost=0.5)
    except InputError as error:
        assert path.read_bytes() == content, "a file that is refused is left alone"
        return str(error)
    return answers.tolist()


@pytest.mark.slow
def test_every_single_bit_flip_is_refused_and_the_file_left_alone(tmp_path):
    path = tmp_path / "journal"
    content = small_journal(path)
    for place in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        assert isinstance(outcome(path, bytes(flipped)), str), place


def test_lines_that_are_removed_doubled_or_shuffled_are_refused_by_number(tmp_path):
    path = tmp_path / "journal"
    lines = small_journal(path).splitlines(keepends=True)
    assert len(lines) == 7
    for place in range(1, len(lines) - 1):
        assert f"Line {place + 1} of" in outcome(path, b"".join(lines[:place] + lines[place + 1 :]))
    for place in range(1, len(lines)):
        assert f"Line {place + 2} of" in outcome(path, b"".join(lines[: place + 1] + lines[place:]))
    chance = random.Random(0)
    for _ in range(50):
        mixed = [lines[0], *chance.sample(lines[1:], 6)]
        if mixed != lines:
            assert "cannot be used: it is damaged" in outcome(path, b"".join(mixed))
    for stretch in range(1, len(lines)):  # a stretch at the end is a run that was stopped there
        assert outcome(path, b"".join(lines[:stretch])) == LOSSES[ROWS].tolist()
    for noise in (b"\n", b"{}\n", b"\0" * 9 + b"\n", b"3\n", b"[" * 9999 + b"\n"):
        assert "Line 4 of" in outcome(path, b"".join([*lines[:3], noise, *lines[3:]]))


def test_a_journal_in_use_is_refused_and_free_again_afterwards(tmp_path):
    path = tmp_path / "journal"
    with opened(Model(), journal=path) as session:
        with pytest.raises(InputError, match=r"journal is in use by another run; wait until it ends, close"):
            ask(Model(), journal=path)
        session.ask(ROWS, round=1, reason="pilot")
    model = Model()
    ask(model, journal=path)
    assert model.batches == []


def test_places_where_no_journal_can_be(tmp_path):
    with pytest.raises(InputError, match=r"The state file .* must be a file; it is something else\."):
        ask(Model(), journal=tmp_path)
    with pytest.raises(InputError, match=r"The state file .* cannot be opened: No such file or directory\."):
        ask(Model(), journal=tmp_path / "nowhere" / "journal")


def test_a_removed_journal_gets_the_answers_that_the_oracle_still_has(tmp_path):
    path, model = tmp_path / "journal", Model()
    oracle = Oracle(model, journal=path)
    ask(oracle)
    path.unlink()
    ask(oracle, [0, *ROWS])
    again = Model()
    assert np.array_equal(ask(again, [0, *ROWS], journal=path), LOSSES[[0, *ROWS]])
    assert (again.batches, len(model.asked)) == ([], 8)


def ask_with_room_for(size, *arguments, **options):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        ask(*arguments, **options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_is_one_sentence_and_the_next_run_goes_on(tmp_path):
    path = tmp_path / "journal"
    with pytest.raises(AnswerError, match=r"written: File too large\. 2 answers are safe in it; the same call"):
        ask_with_room_for(260, Model(), batch=2, journal=path)  # the second batch fits in part only
    assert [len(json.loads(line).get("ids", ())) for line in path.read_text().splitlines()] == [0, 2]
    model = Model()
    assert np.array_equal(ask(model, batch=2, journal=path), LOSSES[ROWS])
    assert model.asked == ROWS[2:].tolist()


# Kills

N, STEP = 4_000, 8
RUN = """
import json, os, sys, time
import numpy as np
from coresift.oracle import Oracle
from coresift.progress import Progress

folder, n, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
side = os.open(f"{folder}/asked", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def slow(rows):
    os.write(side, json.dumps(rows.tolist()).encode() + b"\\n")
    time.sleep(0.004)
    return np.sqrt(rows) / 3

oracle = Oracle(slow, journal=f"{folder}/journal", batch=batch)
with oracle.session(n, {"rows": "r"}, n, Progress()) as session:
    print("open", flush=True)
    first = np.random.default_rng(0).permutation(n)[: n // 3]
    losses = session.ask(first, round=1, reason="pilot")
    second = np.concatenate([first[:50], np.argsort(losses), first[losses > np.median(losses)] // 2])
    more = session.ask(second, round=2, reason="more")
with open(f"{folder}/end", "w") as file:
    json.dump([losses.tolist(), more.tolist(), session.ledger.entries], file)
"""


def start(folder):
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(folder), str(N), str(STEP)], stdout=subprocess.PIPE, text=True
    )


def answered(journal):
    """The ids of the whole lines of a journal, read without the code under test."""
    whole_lines = journal.read_bytes().split(b"\n")[1:-1] if journal.exists() else []
    return {row for line in whole_lines for row in json.loads(line)["ids"]}


def batches(folder):
    return [json.loads(line) for line in (folder / "asked").read_text().splitlines()]


@pytest.mark.slow
def test_killed_at_random_moments_a_run_goes_on_and_asks_nothing_answered_again(tmp_path):
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    for folder in (undisturbed, killed):
        folder.mkdir()
        (folder / "asked").touch()
    calm = start(undisturbed)
    moments, kills, checkpoints = random.Random(1), 0, []
    for turn in range(8):
        run = start(killed)
        if turn:  # the first kill comes anywhere in the start of the process
            goal = len(batches(killed)) + moments.randint(1, 25)
            while len(batches(killed)) < goal and run.poll() is None:
                time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.008 if turn else 0.15))
        os.kill(run.pid, signal.SIGKILL)
        kills += run.wait() == -signal.SIGKILL
        run.stdout.close()
        checkpoints.append((len(batches(killed)), answered(killed / "journal")))
    run = start(killed)
    for process in (run, calm):
        process.communicate(timeout=30)
        assert process.returncode == 0

    assert kills >= 4
    assert len(checkpoints[-1][1]) > 0
    assert (killed / "end").read_bytes() == (undisturbed / "end").read_bytes()
    assert (killed / "journal").read_bytes() == (undisturbed / "journal").read_bytes()
    for place, safe in checkpoints:
        assert safe.isdisjoint(row for batch in batches(killed)[place:] for row in batch)
    repeats = Counter(tuple(batch) for batch in batches(killed)) - Counter(map(tuple, batches(undisturbed)))
    assert sum(repeats.values()) <= kills
    assert {tuple(batch) for batch in batches(killed)} == {tuple(batch) for batch in batches(undisturbed)}


def test_a_closed_journal_holds_no_lock_after_a_failed_opening(tmp_path):
    path = tmp_path / "journal"
    ask(Model(), journal=path)
    with pytest.raises(InputError):
        Journal(path, "other", FINGERPRINT, 60)
    Journal(path, "loss", FINGERPRINT, 60).close()


def test_an_interrupt_after_the_line_is_written_takes_it_back(tmp_path):
    class Interrupted(dict):
        def update(self, *pairs):
            if pairs and not isinstance(pairs[0], dict):
                raise KeyboardInterrupt

    path = tmp_path / "journal"
    journal = Journal(path, "loss", FINGERPRINT, 60)
    content, values = path.read_bytes(), journal.values
    journal.values = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        journal.append([5], [0.5])
    assert path.read_bytes() == content
    journal.values = values
    journal.append([5], [0.25])
    journal.close()
    assert ask(Model(), [5], journal=path).tolist() == [0.25]
