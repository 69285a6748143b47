"""The resumable run: whatever is told, corrected, interrupted or resumed, it does what an obvious twin does."""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from forking import forks
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import coresift as cs
from coresift.checks import AnswerError, InputError
from coresift.oracle import CLASS, LABEL, LOSS, MaxCostError, Oracle, Request
from coresift.oracle.run import Run
from coresift.progress import Progress
from coresift.recipes.arguments import settle
from coresift.selection import prepare, steps
from coresift.types import Ledger

N = 15
FINGERPRINT = {"rows": "a1", "seed": "0"}


def worth(answer):
    """A number that depends on an answer of any kind."""
    return sum(str(answer).encode())


def job():
    """Three rounds; what each asks depends on every answer before it."""
    total, requests = 0, []
    for number in range(1, 4):
        ids = [(total + step * number) % N for step in range(4)]
        requests.append(Request(np.array(ids), f"step {number}", number))
        answers = yield requests[-1]
        total += sum(worth(answer) * place for place, answer in enumerate(answers.tolist(), start=1))
    return total, Ledger.of(requests)


def twin(job, known):
    """Drive a job with answers in a dictionary: what it waits for, what it asked, and its result."""
    generator, asked = job(), []
    request = next(generator)
    while True:
        request = Request(np.asarray(request.ids), request.reason, request.round)
        asked += [row for row in request.ids.tolist() if row not in asked]
        waiting = [row for row in dict.fromkeys(request.ids.tolist()) if row not in known]
        if waiting:
            return waiting, asked, None
        values = [known[row] for row in request.ids.tolist()]
        array = np.array(values, float) if all(isinstance(value, float) for value in values) else np.array(values, "O")
        try:
            request = generator.send(array)
        except StopIteration as end:
            return [], asked, end.value


KINDS = {
    "losses": (LOSS, st.floats(0, 10), [float("nan"), -1.0, float("inf"), "high"]),
    "labels": (LABEL, st.floats(-10, 10), [float("nan"), float("-inf"), "high"]),
    "classes": (CLASS, st.one_of(st.none(), st.text(max_size=3), st.integers(-3, 3)), [float("inf"), [1], {}, b"x"]),
}


class Sessions(RuleBasedStateMachine):
    """A user who tells, mistells, corrects and comes back, against a dictionary."""

    @initialize(kind=st.sampled_from(list(KINDS)))
    def begin(self, kind):
        self.question, self.good, self.bad = KINDS[kind]
        self.folder = Path(tempfile.mkdtemp())
        self.state, self.known, self.kills = self.folder / "state0", {}, 0
        self.open()

    def open(self):
        self.run = Run(job, N, question=self.question, fingerprint=FINGERPRINT, state=self.state)

    def teardown(self):
        if hasattr(self, "run"):
            self.run.close()
            shutil.rmtree(self.folder)

    def answer(self, data):
        return data.draw(self.good)

    @rule(data=st.data())
    def tell_some(self, data):
        pending = self.run.ask().tolist()
        if pending:
            rows = data.draw(st.lists(st.sampled_from(pending), unique=True, min_size=1))
            answers = [self.answer(data) for _ in rows]
            self.run.tell(rows, answers)
            self.known.update(zip(rows, answers, strict=True))

    @rule(data=st.data())
    def tell_something_that_is_no_answer(self, data):
        pending = self.run.ask().tolist()
        if pending:
            answers = [self.answer(data) for _ in pending]
            answers[data.draw(st.integers(0, len(pending) - 1))] = data.draw(st.sampled_from(self.bad))
            with pytest.raises(AnswerError):
                self.run.tell(pending, answers)

    @rule(data=st.data(), row=st.integers(-2, N + 2))
    def tell_a_row_that_was_not_asked(self, data, row):
        pending = self.run.ask().tolist()
        if row not in self.known and row not in pending:
            with pytest.raises(InputError, match=f"row {row} is not"):
                self.run.tell([*pending, row], [self.answer(data) for _ in (*pending, row)])

    @precondition(lambda self: getattr(self, "known", None))
    @rule(data=st.data())
    def tell_again(self, data):
        row = data.draw(st.sampled_from(sorted(self.known)))
        answer = self.answer(data)
        if self.question.same(answer, self.known[row]):
            self.run.tell([row], [answer])
            return
        with pytest.raises(InputError, match=r"already ha(s|ve) (the|another) answer"):
            self.run.tell([row], [answer])

    @precondition(lambda self: getattr(self, "known", None))
    @rule(data=st.data())
    def correct(self, data):
        rows = data.draw(st.lists(st.sampled_from(sorted(self.known)), unique=True))
        rows += self.run.ask().tolist()[:1]
        answers = [self.answer(data) for _ in rows]
        self.run.tell(rows, answers, correct=True)
        self.known.update(zip(rows, answers, strict=True))

    @rule(torn=st.binary(max_size=9).filter(lambda torn: b"\n" not in torn))
    def kill_and_resume(self, torn):
        """A kill leaves the bytes that there are, and perhaps a part of a line."""
        self.kills += 1
        content = self.state.read_bytes()
        self.state = self.folder / f"state{self.kills}"
        self.state.write_bytes(content + torn)
        self.run.close()
        self.open()

    @invariant()
    def is_where_the_twin_is(self):
        if not hasattr(self, "run"):
            return
        waiting, asked, result = twin(job, self.known)
        assert self.run.ask().tolist() == waiting
        assert self.run.asked.tolist() == asked
        status = self.run.status()
        assert (status.asked, status.pending, status.finished) == (len(asked), len(waiting), result is not None)
        if result is None:
            with pytest.raises(AnswerError, match=f"no result yet: {len(waiting)} answer"):
                _ = self.run.result
        else:
            assert self.run.result == result
            assert self.run.ledger == result[1]


Sessions.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestSessions = pytest.mark.slow(Sessions.TestCase)


# By hand, and with an oracle


def loss(rows):
    return np.sqrt(rows % 97) / 3


def test_all_ways_of_answering_give_the_same_result(tmp_path):
    known = {row: float(value) for row, value in enumerate(loss(np.arange(N)))}
    _, _, expected = twin(job, known)
    sources = [loss, loss(np.arange(N)), Oracle(loss, batch=1), Oracle(loss, concurrency=3, batch=1)]
    for source in sources:
        assert Run(job, N, oracle=source).complete() == expected
        assert Run(job, N).complete(source) == expected
    with Run(job, N, state=tmp_path / "state") as run:
        for row in run.ask()[::-1].tolist():
            run.tell([row], [known[row]])
        assert run.complete(loss) == expected
    asked = []
    with Run(job, N, state=tmp_path / "state") as run:
        assert run.complete(asked.append) == expected
    assert asked == []


def test_a_run_takes_the_journal_of_its_oracle_as_its_state(tmp_path):
    oracle = Oracle(loss, journal=tmp_path / "journal")
    with Run(job, N, fingerprint=FINGERPRINT, oracle=oracle) as run:
        expected = run.complete()
    with Run(job, N, fingerprint=FINGERPRINT, state=tmp_path / "journal") as run:
        assert run.result == expected
    with pytest.raises(InputError, match="two files for the same answers"):
        Run(job, N, oracle=oracle, state=tmp_path / "state")
    with pytest.raises(InputError, match=r"^complete needs a callable of row numbers"):
        Run(job, N).complete()


def test_rows_by_the_ids_of_the_table():
    run = Run(job, N, names=lambda rows: [f"q{row}" for row in rows])
    first = run.ask(as_ids=True)
    assert first == [f"q{row}" for row in run.ask()]
    run.tell(first, [0.5] * len(first), as_ids=True)
    with pytest.raises(InputError, match=r"^ids must be rows that were asked; got 'q99'\.$"):
        run.tell(["q99"], [0.5], as_ids=True)
    with pytest.raises(AnswerError, match=r"answers must be finite and at least 0; row q.* has nan"):
        run.tell(run.ask(as_ids=True)[:1], [np.nan], as_ids=True)
    with pytest.raises(InputError, match="row numbers, because the rows have no ids"):
        Run(job, N).ask(as_ids=True)
    with pytest.raises(InputError, match="The id x belongs to several rows"):
        Run(job, N, names=lambda rows: ["x" for _ in rows]).tell(["x"], [0.5], as_ids=True)


@pytest.mark.parametrize("ids", [[0.5], [None], [[0], [1]], 3, [[0], [1, 2]]])
def test_what_is_no_list_of_row_numbers_is_refused(ids):
    with pytest.raises(InputError, match=r"^ids must be a list of row numbers"):
        Run(job, N).tell(ids, [0.5])


def test_one_row_with_two_answers_in_a_call_is_refused():
    run = Run(job, N)
    row = int(run.ask()[0])
    run.tell([row, row], [0.5, 0.5])
    other = int(run.ask()[0])
    with pytest.raises(InputError, match=f"^answers must be one per row; row {other} has 0.5 and 0.25"):
        run.tell([other, other], [0.5, 0.25])


def test_labels_come_back_as_they_were_told(tmp_path):
    labels = ["cat", None, 7, -2.5, True, "7", "ü\n\u2028", ""]
    told = [*labels[:3], np.float64(-2.5), np.bool_(True), *labels[5:]]

    def one():
        return (yield Request(range(len(labels)), "labels")).tolist()

    with Run(one, N, question=CLASS, state=tmp_path / "state") as run:
        run.tell(range(len(labels)), told)
    with Run(one, N, question=CLASS, state=tmp_path / "state") as run:
        found = run.result
    assert [(type(value), value) for value in found] == [(type(value), value) for value in labels]


def test_a_job_that_fails_loses_nothing_and_is_run_again():
    fails = [True]

    def shaky():
        answers = yield Request([1, 2], "pilot")
        if fails:
            raise RuntimeError(fails.pop())
        return answers.tolist()

    run = Run(shaky, N)
    with pytest.raises(RuntimeError):
        run.tell([1, 2], [0.5, 1.5])
    assert run.result == [0.5, 1.5]


def test_a_job_that_asks_too_much_or_outside_is_a_defect_in_one_sentence():
    with pytest.raises(AnswerError, match="asks for more rows than its limit of 3"):
        Run(job, N, limit=3).ask()
    with pytest.raises(InputError, match="row numbers from 0 to 1"):
        Run(job, 2).ask()


def test_a_state_file_of_another_run_or_in_use_is_refused(tmp_path):
    options = {"fingerprint": FINGERPRINT, "state": tmp_path / "state"}
    with Run(job, N, **options), pytest.raises(InputError, match="is in use by another run"):
        Run(job, N, **options)
    with pytest.raises(InputError, match=r"belongs to another run \(seed: '0' then, '1' now\)"):
        Run(job, N, fingerprint={**FINGERPRINT, "seed": "1"}, state=tmp_path / "state")
    with pytest.raises(InputError, match=r"^state must be the path of a file; got 3"):
        Run(job, N, state=3)


def test_a_forgotten_run_gives_its_file_back(tmp_path):
    run = Run(job, N, state=tmp_path / "state")
    run.tell(run.ask()[:1], [0.5])
    del run
    with Run(job, N, state=tmp_path / "state") as run:
        assert run.status().answered == 1


def test_a_run_that_failed_or_finished_gives_its_file_back(tmp_path):
    """In a notebook the first run still exists when its cell is run again."""

    def fails(ids):
        raise ConnectionError("the line is down")

    options = {"fingerprint": FINGERPRINT, "state": tmp_path / "state"}
    failed = Run(job, N, **options)
    failed.tell(failed.ask()[:1], [0.5])
    with pytest.raises(AnswerError, match="the same call continues"):
        failed.complete(Oracle(fails, retries=0))
    finished = Run(job, N, **options)
    assert finished.status().answered == 1
    result = finished.complete(lambda ids: ids / 10 + 0.5)
    again = Run(job, N, **options)
    assert again.finished
    assert again.result == finished.result == result
    again.close()
    # The first run goes on with the answers that came in the meantime.
    assert failed.complete(lambda ids: ids * 0.0) == result
    told = Run(job, N, **options)
    assert not told.ask().size
    Run(job, N, **options).close()
    assert told.answers == finished.answers
    told.close()


# The price


def careful():
    """A job that gives the sum so far when the money is gone."""
    total = 0.0
    for number in range(1, 5):
        try:
            answers = yield Request([3 * number - step for step in range(3)], "sum", number)
        except MaxCostError as error:
            return total, error.ids.tolist(), error.answers.tolist()
        total += float(answers.sum())
    return total


def test_max_cost_gives_the_result_so_far_and_more_money_goes_on(tmp_path):
    asked = []

    def dear(rows):
        asked.extend(rows.tolist())
        return rows / 4

    with Run(careful, N, oracle=Oracle(dear, cost=0.1, max_cost=0.7), state=tmp_path / "state") as run:
        assert run.complete() == (21 / 4, [9], [9 / 4])
        assert run.result == (21 / 4, [9], [9 / 4])
        status = run.status()
        assert (status.asked, status.pending, status.cost, status.finished) == (9, 2, 0.7, False)
        assert run.result == (21 / 4, [9], [9 / 4])
    assert len(asked) == 7
    with Run(careful, N, oracle=Oracle(dear, cost=0.1, max_cost=0.7), state=tmp_path / "state") as run:
        assert run.status().cost == 0.7
        assert run.complete() == (21 / 4, [9], [9 / 4])
    with Run(careful, N, oracle=Oracle(dear, cost=0.1, max_cost=1.2), state=tmp_path / "state") as run:
        assert run.complete() == sum(range(1, 13)) / 4
        assert (run.status().cost, run.finished) == (1.2, True)
    assert sorted(asked) == list(range(1, 13))


def test_a_job_without_a_result_so_far_is_one_sentence_and_can_go_on():
    run = Run(job, N, oracle=Oracle(loss, cost=1, max_cost=2))
    sentence = (
        r"^The next answer would cost more than max_cost=2; 2 is spent\. To continue, repeat the call with a larger"
    )
    with pytest.raises(MaxCostError, match=sentence):
        run.complete()
    with pytest.raises(MaxCostError, match=sentence):
        run.complete()
    expected = Run(job, N).complete(loss)
    assert run.complete(loss) == expected


# A real job


def selecting(rows, **options):
    """The flow of `select` as a job, the clustering included."""
    job = settle(rows, 40, 3, asking=True, **options)
    return lambda: steps(prepare(job, None, Progress())), job.rows


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"score": cs.scores.Sensitivity(holder="robust"), "pilot": cs.pilots.Centers(keep=False)}]
)
def test_select_in_steps_gives_the_bytes_of_select_at_once(tmp_path, options):
    rows = np.random.default_rng(0).normal(size=(600, 4)).astype(np.float32)
    expected = cs.save(cs.select(rows, loss, 40, 3, **options), tmp_path / "once.parquet").read_bytes()
    flow, opened = selecting(rows, **options)
    fingerprint = {"rows": opened.fingerprint()}
    chance = random.Random(0)
    for _ in range(200):
        with Run(flow, opened.n, fingerprint=fingerprint, state=tmp_path / "state") as run:
            if run.finished:
                break
            some = chance.sample(run.ask().tolist(), chance.randint(1, len(run.ask())))
            run.tell(some, loss(np.array(some)))
    assert cs.save(run_result(flow, opened, fingerprint, tmp_path), tmp_path / "steps.parquet").read_bytes() == expected


def run_result(flow, opened, fingerprint, folder):
    with Run(flow, opened.n, fingerprint=fingerprint, state=folder / "state") as run:
        return run.result


# Kills

TELLING = """
import json, os
import numpy as np
from coresift.oracle import Request
from coresift.oracle.run import Run

def job():
    total = 0
    for number in range(1, 41):
        answers = yield Request([(total + 7 * step * number) % 997 for step in range(5)], "step", number)
        total += int((answers * 1000).sum())
    return total

def main():
    told = os.open("told", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with Run(job, 997, fingerprint={"rows": "r"}, state="state") as run:
        while (pending := run.ask()).size:
            row = int(pending[-1])
            run.tell([row], [np.sqrt(row) / 3])
            os.write(told, f"{row}\\n".encode())
        result = run.result
    with open("end.tmp", "w") as file:
        json.dump(result, file)
    os.replace("end.tmp", "end")
"""


def lines_of(path):
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


@pytest.mark.parametrize(
    ("kills", "seed"),
    [(10, 0), pytest.param(60, 1, marks=pytest.mark.slow)],
)
def test_killed_at_random_moments_nothing_told_is_lost_and_nothing_is_told_twice(tmp_path, kills, seed):
    calm, moments, done, sessions = tmp_path / "calm", random.Random(seed), 0, 0
    with forks(TELLING) as processes:
        processes.start(calm)
        assert processes.wait() == 0
        while done < kills:
            killed = tmp_path / f"killed-{sessions}"
            goal = len(lines_of(killed / "told")) + moments.randint(0, 5)
            processes.start(killed)
            while len(lines_of(killed / "told")) < goal and not (killed / "end").exists():
                time.sleep(0.001)
            time.sleep(moments.uniform(0, 0.005))
            done += processes.kill()
            safe = {row for line in lines_of(killed / "state")[1:] for row in json.loads(line)["ids"]}
            assert set(map(int, lines_of(killed / "told"))) <= safe
            if (killed / "end").exists():  # it came to its end before the signal: the next one is killed from its start
                same_end(killed, calm)
                sessions += 1
        processes.start(killed)
        assert processes.wait() == 0
    same_end(killed, calm)


def same_end(killed, calm):
    for name in ("end", "state"):
        assert (killed / name).read_bytes() == (calm / name).read_bytes()


def test_an_interrupt_between_file_and_memory_keeps_both_in_step(tmp_path, monkeypatch):
    """Ctrl-C may come right after the line is on the disk."""
    with Run(job, N, state=tmp_path / "state") as run:
        row = int(run.ask()[0])
        sync = os.fsync

        def interrupted(descriptor):
            sync(descriptor)
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.tell([row], [0.5])
        monkeypatch.undo()
        assert row in run.ask()
        run.tell([row], [0.25])
    with Run(job, N, state=tmp_path / "state") as run:
        assert row not in run.ask()
        run.tell([row], [0.25])
