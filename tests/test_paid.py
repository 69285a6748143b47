"""Paid services: never above the price, nothing asked twice, nothing lost, no secret told, whatever fails meanwhile."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
import traceback
from collections import Counter

import numpy as np
import pytest
from forking import forks
from hypothesis import given, settings
from hypothesis import strategies as st

import coresift as cs
from coresift.checks import AnswerError, InputError
from coresift.oracle import CLASS, TABLES, MaxCostError, Oracle, Request
from coresift.oracle.asking import Meter, Pace
from coresift.oracle.run import Run
from coresift.progress import Progress
from coresift.redaction import redact

LOSSES = np.random.default_rng(0).exponential(size=200)


def ask(oracle, ids, n=200, rows="a1", question=None):
    options = {} if question is None else {"question": question}
    with oracle.session(n, {"rows": rows}, n, Progress(), **options) as session:
        return session.ask(np.asarray(ids), round=1, reason="pilot")


class Service:
    """Knows every loss, counts what it is asked, and fails as it is told to."""

    def __init__(self, *, errors=0.0, bad=0.0, seconds=0.0, seed=0):
        self.errors, self.bad, self.seconds = errors, bad, seconds
        self.chance, self.lock = random.Random(seed), threading.Lock()
        self.batches, self.under_way, self.most = [], 0, 0

    def __call__(self, rows):
        with self.lock:
            self.batches.append(rows.tolist())
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            fails, spoiled = self.chance.random() < self.errors, [self.chance.random() < self.bad for _ in rows]
        time.sleep(self.seconds)
        with self.lock:
            self.under_way -= 1
        if fails:
            raise ConnectionError("away")
        return np.where(spoiled, np.nan, LOSSES[rows])

    @property
    def asked(self):
        return Counter(row for batch in self.batches for row in batch)


# Replies of which a part is bad


def test_one_bad_answer_of_fifty_costs_the_others_nothing(tmp_path):
    calls = []

    def once_bad(rows):
        calls.append(rows.tolist())
        return np.where((rows == 17) & (len(calls) == 1), np.nan, LOSSES[rows])

    assert np.array_equal(ask(Oracle(once_bad, journal=tmp_path / "journal"), range(50)), LOSSES[:50])
    assert calls == [list(range(50)), [17]]


@pytest.mark.parametrize(
    ("bad", "shown"), [(np.nan, "nan"), (-1.0, "-1.0"), (np.inf, "inf"), (None, "nan"), ("x", "nan")]
)
def test_a_row_that_stays_bad_is_named_and_the_others_are_safe(tmp_path, bad, shown):
    calls = []

    def always_bad(rows):
        calls.append(rows.tolist())
        return [bad if row == 17 else float(LOSSES[row]) for row in rows]

    journal = tmp_path / "journal"
    with pytest.raises(AnswerError) as error:
        ask(Oracle(always_bad, journal=journal, retries=2), range(50))
    if bad == "x":  # a reply without any number is no reply
        assert calls == [list(range(50)), [17]]
        return
    assert str(error.value) == (
        f"losses must be finite and at least 0; row 17 has {shown} (unusable in 1 of 1 rows, even when asked 3 "
        f"times). 49 answers are safe in the state file {journal}; the same call continues from there."
    )
    assert calls == [list(range(50)), [17], [17]]
    service = Service()
    assert np.array_equal(ask(Oracle(service, journal=journal), range(50)), LOSSES[:50])
    assert service.batches == [[17]]


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    batch=st.integers(1, 30),
    concurrency=st.integers(1, 5),
    ids=st.lists(st.integers(0, 199), max_size=120),
)
def test_errors_and_bad_answers_under_any_concurrency_give_the_same_answers(seed, batch, concurrency, ids):
    service = Service(errors=0.1, bad=0.1, seed=seed)
    oracle = Oracle(service, batch=batch, concurrency=concurrency, retries=50, cost=1)
    assert np.array_equal(ask(oracle, np.array(ids, np.int64)), LOSSES[np.array(ids, np.int64)])
    assert (oracle.calls, oracle.answered) == (len(service.batches), len(set(ids)))
    assert oracle.spent == sum(service.asked.values())
    assert service.most <= concurrency
    assert all(len(rows) <= batch for rows in service.batches)


def test_labels_may_be_none_and_what_is_no_label_is_asked_again():
    replies = iter([["cat", None, {}, 3], ["dog"]])
    oracle = Oracle(lambda rows: next(replies))
    assert ask(oracle, [4, 5, 6, 7], question=CLASS).tolist() == ["cat", None, "dog", 3]


def test_masked_losses_are_missing_and_complex_ones_refused():
    masked = np.ma.masked_array(LOSSES, mask=np.arange(200) == 7)
    with pytest.raises(InputError, match="got a masked array"):
        Oracle(masked)
    with pytest.raises(AnswerError, match="row 7 has nan"):
        ask(Oracle(lambda rows: masked[rows], retries=0), [6, 7])
    with pytest.raises(AnswerError, match="got complex numbers"):
        ask(Oracle(lambda rows: rows * 1j), [6])


# At the same time


def test_calls_run_at_the_same_time_and_what_is_under_way_when_one_fails_is_kept(tmp_path):
    arrived = threading.Barrier(4, timeout=20)

    def together(rows):
        arrived.wait()  # returns only if four calls are under way
        if 5 in rows:
            raise ConnectionError("away")
        return LOSSES[rows]

    journal = tmp_path / "journal"
    with pytest.raises(AnswerError, match=r"failed once on 5 rows, the first of them row 5: .* 15 answers are safe"):
        ask(Oracle(together, batch=5, concurrency=4, retries=0, journal=journal), range(20))
    service = Service()
    assert np.array_equal(ask(Oracle(service, batch=5, journal=journal), range(20)), LOSSES[:20])
    assert service.batches == [[5, 6, 7, 8, 9]]


@pytest.mark.slow
@pytest.mark.parametrize("journal", [False, True])
def test_four_threads_share_one_oracle_and_ask_nothing_twice(tmp_path, journal):
    rows = np.random.default_rng(1).normal(size=(200, 3)).astype(np.float32)
    service = Service(seconds=0.002)
    oracle = Oracle(service, batch=3, concurrency=2, journal=tmp_path / "journal" if journal else None)
    expected = cs.select(rows, LOSSES, budget=60, clusters=40, seed=5)
    found, failures = [], []

    def select():
        try:
            found.append(cs.select(rows, oracle, budget=60, clusters=40, seed=5, progress=False))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=select) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert max(service.asked.values()) == 1
    assert service.asked.total() == expected.ledger.asked == oracle.answered
    saved = [cs.save(one, tmp_path / "one.parquet").read_bytes() for one in (expected, *found)]
    assert len(saved) == 5
    assert len(set(saved)) == 1


def test_a_thread_whose_neighbor_fails_asks_itself():
    first = threading.Event()

    def shaky(rows):
        if not first.is_set():
            first.set()
            time.sleep(0.05)
            raise ConnectionError("away")
        return LOSSES[rows]

    oracle, outcomes = Oracle(shaky, retries=0), []

    def run():
        try:
            outcomes.append(ask(oracle, range(9)).tolist())
        except AnswerError as error:
            outcomes.append(type(error))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
        first.wait(5)
    for thread in threads:
        thread.join(20)
    assert sorted(map(str, outcomes)) == sorted(map(str, [AnswerError, LOSSES[:9].tolist(), LOSSES[:9].tolist()]))


def test_two_runs_of_one_oracle_do_not_share_a_journal(tmp_path):
    oracle = Oracle(LOSSES, journal=tmp_path / "journal")
    with oracle.session(200, {"rows": "a"}, 9, Progress()), pytest.raises(InputError, match="of the same oracle; wait"):
        ask(oracle, [1], rows="b")


def test_an_async_callable_runs_in_one_loop_also_inside_another():
    loops = set()

    async def service(rows):
        loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0.001)
        return LOSSES[rows]

    class Client:
        async def __call__(self, rows):
            return await service(rows)

    async def notebook():
        return ask(Oracle(lambda rows: service(rows + 0), batch=2), range(7))

    for source in (service, Client()):
        assert np.array_equal(ask(Oracle(source, batch=2, concurrency=3), range(9)), LOSSES[:9])
    assert np.array_equal(asyncio.run(notebook()), LOSSES[:7])
    assert len(loops) == 1


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_call_that_takes_too_long_is_tried_again_and_then_told(kind):
    slow = [True]

    def hang(rows):
        if slow:
            slow.pop()
            time.sleep(5)
        return LOSSES[rows]

    async def hang_async(rows):
        if slow:
            slow.pop()
            await asyncio.sleep(5)
        return LOSSES[rows]

    source = hang if kind == "plain" else hang_async
    oracle, begun = Oracle(source, timeout=0.2, cost=1), time.monotonic()
    assert np.array_equal(ask(oracle, range(3)), LOSSES[:3])
    assert (oracle.calls, oracle.spent) == (2, 6)
    slow.append(True)
    with pytest.raises(AnswerError, match=r"failed once on 3 rows.*TimeoutError: no reply within 0\.2 seconds"):
        ask(Oracle(source, timeout=0.2, retries=0), range(3))
    assert time.monotonic() - begun < 4


def test_calls_keep_the_pace_from_the_first_on():
    times = []

    def note(rows):
        times.append(time.monotonic())
        return LOSSES[rows]

    ask(Oracle(note, batch=1, per_minute=3_000, concurrency=3), range(15))
    gap = 60 / 3_000
    assert times[-1] - times[0] >= 13 * gap
    pace, stop = Pace(1), threading.Event()
    pace.wait(stop)
    stop.set()
    begun = time.monotonic()
    pace.wait(stop)  # nobody waits a minute after a stop
    assert time.monotonic() - begun < 5


def test_an_interrupt_reaches_the_user_while_calls_are_under_way():
    def interrupt(rows):
        if 0 in rows:
            raise KeyboardInterrupt
        return LOSSES[rows]

    with pytest.raises(KeyboardInterrupt):
        ask(Oracle(interrupt, batch=1, concurrency=2), range(9))


# The price


def take(meter):
    try:
        return meter.take(7, None)
    except MaxCostError:
        return None


@given(price=st.sampled_from([0.1, 0.07, 0.01, 1 / 3, 2.5, 1e-6]), rows=st.integers(0, 300))
def test_the_price_of_so_many_rows_buys_so_many_rows(price, rows):
    meter, bought = Meter(price, float(f"{price * rows:.12g}")), 0
    while (taken := take(meter)) is not None:
        bought += taken
    assert rows - 1 <= bought <= rows + 1
    assert meter.spent <= float(f"{price * rows:.12g}") * (1 + 1e-12)
    assert Meter(0.1, 0.3).take(9, None) == 3


def test_more_is_never_spent_than_allowed_and_what_was_paid_is_kept(tmp_path):
    service = Service(bad=0.2, errors=0.2)
    for money in (1.0, 1.0, 2.5, 4.0):
        oracle = Oracle(service, batch=4, concurrency=3, retries=9, cost=0.1, max_cost=money, journal=tmp_path / "j")
        with pytest.raises(MaxCostError, match="more than max_cost"):
            ask(oracle, range(60))
        assert service.asked.total() == oracle.spent * 10 == money * 10
    oracle = Oracle(service, retries=9, cost=0.1, max_cost=40, journal=tmp_path / "j")
    assert np.array_equal(ask(oracle, range(60)), LOSSES[:60])
    assert service.asked.total() == pytest.approx(oracle.spent * 10)


def test_files_and_arrays_cost_nothing():
    oracle = Oracle(LOSSES, cost=1, max_cost=0)
    assert ask(oracle, [3]) == LOSSES[3]
    assert oracle.spent == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_cost": 3}, "max_cost needs cost, the price per row."),
        ({"cost": -1}, "cost must be a finite number of at least 0; got -1."),
        ({"cost": 1, "max_cost": np.nan}, "max_cost must be a finite number of at least 0; got nan."),
        ({"concurrency": 0}, "concurrency must be a whole number of at least 1; got 0."),
        ({"per_minute": 0}, "per_minute must be a finite number above 0; got 0."),
        ({"timeout": "long"}, "timeout must be a finite number above 0; got 'long'."),
    ],
)
def test_bad_options_are_refused(options, sentence):
    with pytest.raises(InputError) as error:
        Oracle(LOSSES, **options)
    assert str(error.value) == sentence


def test_an_oracle_forgets_tables_that_were_used_longest_ago():
    service = Service()
    oracle = Oracle(service)
    with oracle.session(200, {"rows": "in use"}, 9, Progress()) as session:
        session.ask(np.array([1]), round=1, reason="pilot")
        for table in range(3 * TABLES):
            ask(oracle, [1], rows=f"table {table}")
        assert len(oracle._caches) <= TABLES + 1
        ask(oracle, [1], rows="in use")
    before = len(service.batches)
    ask(oracle, [1], rows=f"table {3 * TABLES - 1}")
    assert len(service.batches) == before == 1 + 3 * TABLES
    ask(oracle, [1], rows="table 0")
    assert len(service.batches) == before + 1


# Secrets

SECRETS = {
    "sk-proj-abcdef1234567890": "bad key {}",
    "abc123def456": "401 for https://api.example.com/v1?api_key={}&page=2",
    "hunter2": "cannot reach https://me:{}@example.com/v1",
    "swordfish": "login of me:{}@example.com failed",
    "eyJhbGciOi.eyJzdWIi.c2ln": "header Authorization: Bearer {}",
    "s3cr3t!": 'request {{"password": "{}", "model": "m"}}',
    "AKIAIOSFODNN7EXAMPLE": "credentials {} expired",
    "hf_abcdefghijklmnop": "token {} has no access",
}


@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_reaches_an_error_a_traceback_or_a_state_file(tmp_path, secret):
    def leak(rows):
        try:
            raise ValueError(SECRETS[secret].format(secret))
        except ValueError as error:
            raise ConnectionError("away") from error

    text = SECRETS[secret].format(secret)
    journal = tmp_path / "journal"
    oracle = Oracle(leak, name=text, journal=journal)
    with pytest.raises(AnswerError) as error:
        ask(oracle, [1])
    shown = "".join(traceback.format_exception(error.value))
    shown = "\n".join(line for line in shown.splitlines() if "raise ValueError" not in line)
    assert secret not in shown + str(error.value) + repr(oracle) + journal.read_text()
    with pytest.raises(AnswerError) as error:
        ask(Oracle(lambda rows: 1 / 0), [1])
    assert isinstance(error.value.__cause__, ZeroDivisionError), "an error without secrets keeps its cause"


@pytest.mark.parametrize(
    "text",
    ["KeyError: 'row'", "max_tokens=100 is too few", "10:30 at the office", "a risk-free task", "row 7: no such id"],
)
def test_plain_words_stay(text):
    assert redact(text) == text


# Kills: a paid service, scaled down a hundred times

SERVICE = """
import json, os, random, time
import numpy as np
from coresift.oracle import MaxCostError, Oracle, Request
from coresift.oracle.run import Run

def service(rows):
    time.sleep(chance.uniform(0.001, 0.02))
    if chance.random() < 0.025:
        raise ConnectionError("away")
    os.write(bill, json.dumps(rows.tolist()).encode() + b"\\n")  # from here on it is paid
    if chance.random() < 0.025:
        raise ValueError("an answer that cannot be read")
    return np.where(np.array([chance.random() < 0.01 for _ in rows]), np.nan, np.sqrt(rows) / 3)

def job():
    total, trace = 0, []
    for number in range(1, 1 + ROUNDS):
        answers = yield Request([(total + 13 * step * number) % 4999 for step in range(40)], "step", number)
        total += int((answers * 1000).sum())
        trace.append(total)
    return trace

def main(money, rounds):
    global bill, chance, ROUNDS
    bill, chance, ROUNDS = os.open("bill", os.O_WRONLY | os.O_APPEND | os.O_CREAT), random.Random(), rounds
    price = {"cost": 0.01, "max_cost": money, "per_minute": 24_000, "timeout": 5}
    oracle = Oracle(service, batch=4, retries=20, concurrency=4, **price)
    with Run(job, 4999, fingerprint={"rows": "r"}, oracle=oracle, state="state") as run:
        try:
            result = run.complete()
        except MaxCostError as error:
            with open("said", "w") as file:
                file.write(str(error))
            return 3
    with open("end.tmp", "w") as file:
        json.dump(result, file)
    os.replace("end.tmp", "end")
"""
IN_FLIGHT = 16


def billed(folder):
    lines = (folder / "bill").read_text().splitlines() if (folder / "bill").exists() else []
    return [row for line in lines for row in json.loads(line)]


def kept(folder):
    """The rows with an answer in the state file, read without the code under test."""
    lines = (folder / "state").read_bytes().split(b"\n")[1:-1] if (folder / "state").exists() else []
    return {row for line in lines for row in json.loads(line).get("ids", ())}


def run_until_it_has_asked(processes, folder, money, rounds, moments):
    goal = len(billed(folder)) + moments.randint(0, 45)
    processes.start(folder, money, rounds)
    begun = time.monotonic()
    while len(billed(folder)) < goal and time.monotonic() - begun < 5:
        time.sleep(0.002)
    time.sleep(moments.uniform(0, 0.02))


# The rows asked are enough for that many kills.
@pytest.mark.parametrize(("kills", "rounds", "seed"), [(6, 12, 0), pytest.param(50, 80, 1, marks=pytest.mark.slow)])
def test_a_paid_service_killed_at_random_moments_is_never_above_the_price_and_ends_in_the_same_bytes(
    tmp_path, kills, rounds, seed
):
    calm, killed, poor = tmp_path / "calm", tmp_path / "killed", tmp_path / "poor"
    moments, done, checkpoints = random.Random(seed), 0, []
    with forks(SERVICE) as processes:
        processes.start(calm, 100, rounds)
        assert processes.wait() == 0
        money = round(1.2 * 0.01 * (len(billed(calm)) + kills * IN_FLIGHT), 2)
        for turn in range(kills):
            allowed = money / 2 if turn < kills / 2 else money
            run_until_it_has_asked(processes, killed, allowed, rounds, moments)
            done += processes.kill()
            assert len(billed(killed)) * 0.01 <= allowed + 1e-9
            checkpoints.append((len(billed(killed)), kept(killed)))
        processes.start(killed, money, rounds)
        assert processes.wait() == 0
        processes.start(poor, 1.0, rounds)
        assert processes.wait() == 3
    assert done >= 0.8 * kills
    assert len(billed(killed)) * 0.01 <= money + 1e-9
    assert (killed / "end").read_bytes() == (calm / "end").read_bytes()
    for place, safe in checkpoints:
        assert safe.isdisjoint(billed(killed)[place:])
    assert kept(killed) == kept(calm) == set(billed(calm)) == set(billed(killed))
    assert "The next answer would cost more than max_cost=1; 1 is spent." in (poor / "said").read_text()
    assert len(billed(poor)) <= 100


def test_the_price_counts_what_was_under_way_when_a_process_was_killed(tmp_path):
    """A row that was sent and never answered may have been billed."""
    journal = tmp_path / "journal"

    class Killed(BaseException):
        pass

    def die(rows):
        raise Killed

    with pytest.raises(Killed):
        ask(Oracle(die, cost=1, max_cost=10, journal=journal), range(6))
    service = Service()
    with pytest.raises(MaxCostError):
        ask(Oracle(service, cost=1, max_cost=10, journal=journal), range(6))
    assert service.asked.total() == 4


def test_a_run_and_its_oracle_agree_on_the_price(tmp_path):
    def job():
        return (yield Request(range(5), "pilot")).tolist()

    oracle = Oracle(LOSSES.take, cost=0.5)
    with Run(job, 200, oracle=oracle, state=tmp_path / "state") as run:
        run.tell([0, 1], LOSSES[:2])
        assert run.status().cost == 0.0
        assert run.complete() == LOSSES[:5].tolist()
        assert run.status().cost == 1.5
