"""The engine: results in row order, few blocks at a time, and nothing left behind however it ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import coresift as cs
from coresift.checks import InputError
from coresift.engine import Local, available_cores
from coresift.progress import Progress
from coresift.rows import Rows, open_rows


class Counted(Rows):
    """Rows whose blocks are counted while they are alive."""

    def __init__(self, blocks: int) -> None:
        super().__init__(blocks * 256 - 7, 10_000)
        assert self.block_rows == 256
        self.alive = self.most = self.read = 0
        self._lock = threading.Lock()

    def blocks(self) -> Iterator:
        for start in range(0, self.n, self.block_rows):
            yield start, lambda start=start: self._block(start)

    def _block(self, start: int) -> np.ndarray:
        with self._lock:
            self.read += 1
            self.alive += 1
            self.most = max(self.most, self.alive)
        block = np.full((min(256, self.n - start), 1), start, np.float32).view(Mortal)
        block.owner = self
        return block

    def _pick(self, ids: np.ndarray) -> Iterator:
        pytest.fail("the engine reads blocks only")


class Mortal(np.ndarray):
    owner = None

    def __del__(self) -> None:
        if self.owner is not None:
            with self.owner._lock:
                self.owner.alive -= 1


class Recorded(Progress):
    def __init__(self) -> None:
        self.said: list = []

    def start(self, stage: str, total: int) -> None:
        self.said.append((stage, total))

    def advance(self, amount: int) -> None:
        self.said.append(amount)

    def finish(self) -> None:
        self.said.append("finished")


def pool_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("coresift")]


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = blas_threads()
    yield
    assert pool_threads() == []
    assert blas_threads() == before


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_row_order_however_long_each_takes(threads):
    rows = Counted(24)

    def slow_at_first(start, block):
        time.sleep(0.02 if start // 256 % 5 == 0 else 0.0)
        return start, len(block), float(block[0, 0])

    with Local(threads).open(Progress()) as workers:
        found = list(workers.map(rows, slow_at_first))
    starts = list(range(0, rows.n, 256))
    assert found == [(start, 256 if start < starts[-1] else 249, start) for start in starts]


@pytest.mark.parametrize("threads", [1, 3])
def test_few_blocks_are_in_memory_at_once_even_if_results_are_taken_slowly(threads):
    rows = Counted(40)
    with Local(threads).open(Progress()) as workers:
        for done, _ in enumerate(workers.map(rows, lambda start, _: start)):
            time.sleep(0.002)
            assert rows.read <= done + 1 + 2 * threads + 1
    assert rows.read == 40
    assert rows.most <= threads + 1
    assert rows.alive == 0


def test_blocks_run_side_by_side():
    meeting = threading.Barrier(3, timeout=20)
    with Local(3).open(Progress()) as workers:
        assert len(list(workers.map(Counted(3), lambda start, _: meeting.wait()))) == 3


def test_a_single_block_runs_where_it_was_asked():
    with Local(2).open(Progress()) as workers:
        assert list(workers.map(Counted(1), lambda start, _: threading.current_thread())) == [threading.main_thread()]
        rows, one = open_rows(np.eye(3)), [np.array([0, 2])]
        assert list(workers.pick(rows, one, lambda _: threading.current_thread())) == [threading.main_thread()]


def test_an_error_in_a_block_comes_out_at_once():
    rows = Counted(200)

    def fails(start, _):
        if start == 512:
            raise ZeroDivisionError("block 2")
        time.sleep(0.01)
        return start

    recorded, taken = Recorded(), []
    with pytest.raises(ZeroDivisionError, match="block 2"), Local(2).open(recorded) as workers:
        taken.extend(workers.map(rows, fails, name="failing"))
    assert taken == [0, 256]
    assert rows.read < 12
    assert recorded.said[-1] == "finished"
    assert pool_threads() == []


def test_workers_go_on_after_an_error_that_was_caught_without_what_was_waiting():
    rows = Counted(50)
    with Local(1).open(Progress()) as workers:
        with pytest.raises(ZeroDivisionError):
            list(workers.map(rows, lambda start, _: 1 // start if start == 0 else time.sleep(0.3)))
        assert list(workers.map(Counted(3), lambda start, _: start)) == [0, 256, 512]
    assert rows.read <= 2


def loop(results, body):
    for result in results:
        body(result)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_an_error_in_the_loop_over_results_leaves_nothing(error):
    rows, recorded = Counted(500), Recorded()

    def stop_at(start):
        if start == 1024:
            raise error

    with pytest.raises(error) as caught, Local(3).open(recorded) as workers:
        loop(workers.map(rows, lambda start, _: time.sleep(0.005) or start, name="looping"), stop_at)
    assert recorded.said[-1] == "finished"
    assert rows.read < 30
    assert pool_threads() == []
    assert caught.value.__traceback__ is not None  # which keeps the loop's results alive until here


def test_progress_counts_every_row_of_a_named_map_and_no_other():
    recorded, rows = Recorded(), Counted(5)
    with Local(2).open(recorded) as workers:
        list(workers.map(rows, lambda start, _: None))
        assert recorded.said == []
        list(workers.map(rows, lambda start, _: None, name="reading"))
        assert recorded.said == [("reading", rows.n), 256, 256, 256, 256, 249, "finished"]


def test_linear_algebra_has_one_thread_inside_and_its_own_again_after():
    from threadpoolctl import threadpool_limits

    with threadpool_limits(2, user_api="blas"):
        assert set(blas_threads()) == {2}
        with Local(2).open(Progress()) as workers:
            inside = list(workers.map(Counted(4), lambda start, _: blas_threads()))
        assert {count for counts in inside for count in counts} == {1}
        assert set(blas_threads()) == {2}
        with pytest.raises(ValueError, match="inside"), Local(2).open(Progress()):
            raise ValueError("inside")
        assert set(blas_threads()) == {2}


def test_engines_that_overlap_keep_one_thread_until_the_last_has_ended():
    from threadpoolctl import threadpool_limits

    with threadpool_limits(2, user_api="blas"):
        first, second = Local(1).open(Progress()), Local(1).open(Progress())
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(blas_threads()) == {1}
        second.__exit__(None, None, None)
        assert set(blas_threads()) == {2}


def test_any_thread_holds_linear_algebra_to_one_thread():
    """A second thread in a product would wait for ever when another thread forks, as Ray does to start a node."""
    from threadpoolctl import threadpool_limits

    def inside() -> list[int]:
        with Local(2).open(Progress()):
            return blas_threads()

    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(1) as other, ExitStack() as stack:
        for _ in range(2):  # here and there in turn
            assert set(inside()) == set(other.submit(inside).result()) == {1}
            assert set(blas_threads()) == {2}
        stack.enter_context(Local(2).open(Progress()))
        there = Local(2).open(Progress())
        other.submit(there.__enter__).result()
        stack.close()  # the first one in is not the last one out
        assert set(blas_threads()) == {1}
        other.submit(there.__exit__, None, None, None).result()
        assert set(blas_threads()) == {2}


def test_how_many_threads():
    assert available_cores() >= 1
    assert repr(Local(3)) == "Local(threads=3)"
    assert Local(2) == Local(2) != Local(3)
    for bad in (0, -1, 1.5, True, "two"):
        with (
            pytest.raises(InputError, match="threads must be a whole number of at least 1; got"),
            Local(bad).open(Progress()),
        ):
            pass


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_control_c_ends_a_long_clustering_promptly_and_leaves_nothing(tmp_path):
    code = """if True:
        import numpy as np, signal, threading
        import coresift as cs
        from coresift.progress import Progress
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background begins without
        class Told(Progress):
            def start(self, stage, total):
                print(stage, flush=True)
        rows = np.random.default_rng(0).normal(size=(400_000, 64)).astype(np.float32)
        try:
            cs.cluster(rows, 5000, progress=Told())
        except KeyboardInterrupt:
            print("left", threading.active_count(), flush=True)
            raise
    """
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        assert "settling centers\n" in iter(run.stdout.readline, "")
        begun = time.monotonic()
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
        took = time.monotonic() - begun
    finally:
        run.kill()
    assert out.splitlines()[-1:] == ["left 1"], err
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert run.returncode == -signal.SIGINT
    assert took < 2.0 + 2.0 * os.getloadavg()[0] / available_cores()  # a busy machine is slower to let go
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.killpg(run.pid, 0)


def test_whatever_ray_raises_when_it_starts_is_one_sentence(monkeypatch):
    """Ray has an exception of no type for a node that takes too long to start."""
    from coresift.remote import connection

    class Late:
        @staticmethod
        def init(**options):
            raise Exception("The current node timed out during startup.\nMore.")

    monkeypatch.setattr(connection, "_require_token", lambda ray: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(cs.CoresiftError, match=r"^Ray could not start or find a cluster: The current node timed out"):
        connection._initialize(Late, None)
