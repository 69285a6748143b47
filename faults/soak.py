"""A long run: select, active learning and evaluation in a loop, with a bad oracle, on a Ray cluster that loses nodes.

    python -m faults.soak --seconds 3600 --seed 0

Each turn runs one job with a state file in a child that is killed now and then, and begun again until it has finished.
The oracle is slow, raises errors, answers NaN, and takes too long. Rows are read on a cluster of three nodes on this
machine, of which one is killed and replaced now and then. A driver that is never killed does every job too. After each
turn: the results have the bytes of an undisturbed run, no kept answer was asked again (but for the batch in flight at a
kill), and the memory of the driver that lives stays flat.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from faults.record import add, add_option

ROOT = Path(__file__).resolve().parent.parent
BATCH = 8
N = 400
JOBS = ("select", "active learning", "evaluate")
# The memory of a driver may change in its first turns, and by so many MB later.
SETTLED, GROWTH = 6, 24


class BadOracle:
    """Answers rightly in the end; notes every row that it answered, in a file that outlives the process."""

    def __init__(self, log: Path, seed: int, labels: bool) -> None:
        self._log, self._labels = log, labels
        self._rng = np.random.default_rng([seed, os.getpid()])

    def __call__(self, ids: Any) -> Any:
        """Fail, be slow, or answer all or some of the rows."""
        luck = self._rng.random()
        if luck < 0.1:
            raise ConnectionError("the service is busy")
        time.sleep(float(self._rng.exponential(0.005)) + (0.4 if luck > 0.98 else 0.0))
        good = np.ones(len(ids), bool) if luck < 0.75 else self._rng.random(len(ids)) < 0.7
        with self._log.open("a") as log:
            log.write("".join(f"{row}\n" for row in ids[good].tolist()))
        if self._labels:
            answers = np.array([f"c{row % 3}" for row in ids.tolist()], object)
            answers[~good] = np.nan
            return answers
        return np.where(good, truth(ids), np.nan)


def truth(ids: Any) -> Any:
    """Return the right answers."""
    return ((ids * 7919) % 101) / 101.0


def job(name: str, rows: Any, seed: int, state: Path, oracle: Any, engine: Any) -> str:
    """Run one job to its end, and return its result as a text."""
    import coresift as cs

    ask = cs.Oracle(oracle, batch=BATCH, retries=40, pause=0.0, timeout=0.3)
    if name == "select":
        with cs.start(cs.select, rows, 60, seed, state=state, engine=engine, progress=False) as run:
            found = run.complete(ask)
        return json.dumps([found.ids.tolist(), found.weights.tolist()])
    if name == "active learning":
        learning = cs.active_learning(
            rows, 40, rounds=3, audit=0, seed=seed, state=state, engine=engine, progress=False
        )
        with learning as run:
            chosen = run.complete(ask)
        return json.dumps([chosen.ids.tolist(), list(chosen.labels)])
    with cs.evaluate(rows, budget=60, seed=seed, state=state, engine=engine, progress=False) as run:
        figure = run.complete(ask)
    return json.dumps([figure.value, figure.low, figure.high])


def perform(name: str, folder: Path, seed: int, address: str | None, bad: bool) -> None:
    """Do one job in this process and write its result: what a child of the soak does."""
    import coresift as cs

    rows = np.random.default_rng(seed).normal(size=(N, 4)).astype(np.float32)
    engine = cs.engines.Local() if address is None else cs.engines.Ray(address)
    oracle: Any = BadOracle(folder / "answered.log", seed, name == "active learning")
    if not bad:
        oracle = (lambda ids: np.array([f"c{row % 3}" for row in ids.tolist()])) if oracle._labels else truth
    text = job(name, rows, seed, folder / "work.state", oracle, engine)
    (folder / "result.json").write_text(text)


class Steady:
    """A driver that lives as long as the soak, whose memory must stay flat: it does one job after the other."""

    def __init__(self, said: Path) -> None:
        words = [sys.executable, "-m", "faults.soak", "--steady"]
        with said.open("wb") as errors:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT, text=True
            )

    def perform(self, name: str, folder: Path, seed: int, address: str | None, bad: bool) -> int:
        """Do a job; return the megabytes that the driver has then."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps([name, str(folder), seed, address, bad]), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the driver that was not killed has ended")
        return int(line)

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()


def serve() -> None:
    """Do the jobs that come in by lines, and answer each with the megabytes that this process has."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints what its nodes say, and that is no answer
    for line in sys.stdin:
        name, folder, seed, address, bad = json.loads(line)
        perform(name, Path(folder), seed, address, bad)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        print(pages * resource.getpagesize() // 2**20, file=answers, flush=True)


@dataclass
class Count:
    """What came of the long run so far; `memory` is that of the steady driver after each turn, in MB."""

    turns: int = 0
    kills: int = 0
    nodes: int = 0
    answered: int = 0
    again: int = 0
    failures: list[str] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)

    def fail(self, name: str, seed: int, what: str) -> None:
        """Note a failure."""
        self.failures.append(f"{name}, seed {seed}: {what}")
        print(self.failures[-1], flush=True)


def turn(
    name: str, seed: int, address: str | None, rng: np.random.Generator, count: Count, steady: Steady | None
) -> None:
    """Run one job with kills until it has finished, and by the steady driver; compare both with a quiet run."""
    with tempfile.TemporaryDirectory(prefix="soak-") as place:
        folders = {kind: Path(place) / kind for kind in ("killed", "steady", "quiet")}
        for folder in folders.values():
            folder.mkdir()
        own = _with_kills(name, folders["killed"], seed, address, rng, count)
        count.turns += 1
        if own is None:
            return
        count.kills += own
        if steady is not None:
            steady.perform(name, folders["steady"], seed, address, True)
            count.memory.append(steady.perform(name, folders["quiet"], seed, None, False))
        else:
            _begin(name, folders["quiet"], seed, None, bad=False).wait(600)
        expected = (folders["quiet"] / "result.json").read_text()
        for kind, kills in (("killed", own), ("steady", 0)):
            if kind == "killed" or steady is not None:
                _compare(name, seed, folders[kind], expected, kills, count)


def _with_kills(
    name: str, folder: Path, seed: int, address: str | None, rng: np.random.Generator, count: Count
) -> int | None:
    """Begin a job again and again until it has finished; return how often it was killed, None if it failed."""
    own = 0
    while True:
        child = _begin(name, folder, seed, address, bad=True)
        patience = float(rng.exponential(8.0)) if own < 3 else 600.0
        try:
            child.wait(patience)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
            own += 1
            continue
        if child.returncode:
            count.fail(name, seed, f"exit {child.returncode}: {_said(folder)}")
        return None if child.returncode else own


def _compare(name: str, seed: int, folder: Path, expected: str, kills: int, count: Count) -> None:
    """Check the result, and that no more rows were asked again than were in flight."""
    if (folder / "result.json").read_text() != expected:
        count.fail(name, seed, f"another result than undisturbed, after {kills} kills")
    answered = (folder / "answered.log").read_text().split()
    again = len(answered) - len(set(answered))
    count.answered, count.again = count.answered + len(answered), count.again + again
    # A call that took too long was answered for nobody, as was the one under way at a kill.
    late = (folder / "work.state").read_text().count("\n")
    if again > BATCH * (kills + 1) + late:
        count.fail(name, seed, f"{again} rows answered again after {kills} kills")


def _begin(name: str, folder: Path, seed: int, address: str | None, *, bad: bool) -> subprocess.Popen[bytes]:
    words = [
        sys.executable,
        "-m",
        "faults.soak",
        "--inside",
        name,
        str(folder),
        str(seed),
        address or "",
        str(int(bad)),
    ]
    with (folder / "said.txt").open("wb") as said:
        return subprocess.Popen(words, stdout=said, stderr=said, cwd=ROOT)


def _said(folder: Path) -> str:
    return (folder / "said.txt").read_text("utf-8", "replace").strip()[-300:]


def soak(seconds: float, seed: int, cluster: bool) -> Count:
    """Run turns until the seconds are over."""
    count, rng, end, nodes = Count(), np.random.default_rng(seed), time.monotonic() + seconds, None
    if cluster:
        sys.path.insert(0, str(ROOT / "tests"))
        from nodes import Nodes

        nodes = Nodes()
    place = Path(tempfile.mkdtemp(prefix="steady-"))
    steady = Steady(place / "said.txt")
    try:
        while time.monotonic() < end:
            if nodes is not None and count.turns and rng.random() < 0.4:
                count.nodes += _replace_one(nodes, rng)
            name = JOBS[count.turns % len(JOBS)]
            turn(name, int(rng.integers(2**31)), nodes.address if nodes else None, rng, count, steady)
        grown = count.memory[-1] - max(count.memory[:SETTLED]) if len(count.memory) > SETTLED else 0
        if grown > GROWTH:
            count.failures.append(f"the driver grew by {grown} MB after its first {SETTLED} turns")
    except RuntimeError as error:
        count.failures.append(f"{error}: {_said(place)}")
    finally:
        steady.close()
        shutil.rmtree(place)
        if nodes is not None:
            nodes.end()
    return count


def _replace_one(nodes: Any, rng: np.random.Generator) -> int:
    """Kill a node and begin another; return how many were killed."""
    killed = 0
    if nodes.others:
        nodes.kill(nodes.others[int(rng.integers(len(nodes.others)))])
        killed = 1
    try:
        nodes.add()
    except Exception as error:  # on a busy machine a node may not come up in time; the others go on
        print(f"no new node: {error!r}"[:200], flush=True)
    return killed


def main() -> int:
    """Run for some time and print what came of it."""
    if sys.argv[1:2] == ["--steady"]:
        serve()
        return 0
    if sys.argv[1:2] == ["--inside"]:
        name, folder, seed, address, bad = sys.argv[2:]
        perform(name, Path(folder), int(seed), address or None, bad == "1")
        return 0
    parser = argparse.ArgumentParser(prog="python -m faults.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    add_option(parser)
    parser.add_argument("--local", action="store_true", help="without a cluster")
    options = parser.parse_args()
    began = time.monotonic()
    count = soak(options.seconds, options.seed, not options.local)
    settled = max(count.memory[:SETTLED], default=0)
    memory = f"{settled:,} MB in its first {SETTLED} turns, {count.memory[-1]:,} MB at the end" if settled else "-"
    print(
        f"{time.monotonic() - began:,.0f} s by the clock, seed {options.seed}: {count.turns} jobs, {count.kills} kills"
    )
    print(
        f"of the driver, {count.nodes} nodes killed, {count.answered:,} answers, {count.again} of them again (in flight"
    )
    print(f"at a kill, or too late), {len(count.failures)} failures; the driver that lived: {memory}.")
    if options.record is not None:
        numbers = {name: value for name, value in vars(count).items() if name != "memory"}
        add(
            options.record,
            "soak",
            seed=options.seed,
            cluster=not options.local,
            memory=[settled, *count.memory[-1:]],
            seconds=round(time.monotonic() - began),
            **numbers,
        )
    return int(bool(count.failures))


if __name__ == "__main__":
    sys.exit(main())
