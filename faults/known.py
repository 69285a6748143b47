"""The 32 faults of the first campaign: each function reproduces one, and ends quietly only if it is fixed.

They run in a child, in a folder with `rows.npy` (400 × 4, float32) and `loss.csv` (row, loss).
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

import coresift as cs
from faults.judging import misbehaved
from faults.processes import Outcome

N = 400
REPRODUCTIONS: dict[str, Callable[[], None]] = {}


def reproduces(fault: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Return what registers the reproduction of a fault."""

    def register(function: Callable[[], None]) -> Callable[[], None]:
        REPRODUCTIONS[fault] = function
        return function

    return register


def make_files() -> None:
    """Write the two files that all reproductions have."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(N, 4)).astype(np.float32)
    np.save("rows.npy", rows)
    lines = [f"{row},{loss}" for row, loss in enumerate(np.abs(rows[:, 0]) + rng.exponential(size=N))]
    Path("loss.csv").write_text("\n".join(["row,loss", *lines]) + "\n")


def rows_of() -> Any:
    """Return the rows in memory."""
    return np.load("rows.npy")


def cli(*words: object, status: int | None = None) -> Outcome:
    """Run a command in this process; it must behave, and end with this status, if one is given."""
    from coresift.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    sys.argv, code = ["coresift", *map(str, words)], 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
    for stream in (out, err):
        stream.flush()
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    outcome = Outcome(code, *texts, 0, False)
    problem = misbehaved(outcome)
    assert problem is None, f"{' '.join(map(str, words))}: {problem}"
    assert status in (None, code), f"{' '.join(map(str, words))}: exit {code}: {texts[1]}"
    return outcome


def process(*words: object, **options: Any) -> Outcome:
    """Run a command as a user does, in a process of its own."""
    code = "from coresift.cli import main; main()"
    options = {"capture_output": True, **options}
    ended = subprocess.run([sys.executable, "-P", "-c", code, *map(str, words)], check=False, **options)
    texts = [(text or b"").decode("utf-8", "backslashreplace") for text in (ended.stdout, ended.stderr)]
    return Outcome(ended.returncode, *texts, 0, False)


def refused(function: Callable[[], object]) -> str:
    """Return the one sentence with which a call is refused."""
    try:
        function()
    except cs.CoresiftError as error:
        assert "\n" not in str(error), str(error)
        assert str(error).endswith((".", "?")), str(error)
        return str(error)
    raise AssertionError("It was not refused.")


@reproduces("H1")
def given_leaves_no_row_to_chance() -> None:
    """`given` and `exclude` that leave nothing ended in an endless loop."""
    Path("all.txt").write_text("\n".join(map(str, range(N))))
    cli("select", "rows.npy", "--losses", "loss.csv", "--given", "all.txt", "--budget", 100, status=2)
    cli("plan", "rows.npy", "--given", "all.txt", "--budget", 100, status=2)
    refused(lambda: cs.select(rows_of()[:40], np.ones(40), 5, given=range(20), exclude=range(20, 40)))


@reproduces("H2")
def damaged_arrow_file() -> None:
    """An offset outside of its buffer was a segmentation fault."""
    table = {"id": [f"k{i:03}" for i in range(60)], "emb": pa.array(list(rows_of()[:60, :3]), pa.list_(pa.float32()))}
    feather.write_feather(pa.table(table), "bad.arrow", compression="uncompressed")
    content = bytearray(Path("bad.arrow").read_bytes())
    at = bytes(content).find(np.arange(0, 61 * 4, 4, dtype="i4").tobytes())
    content[at + 4 * 30 + 3] = 0x7F
    Path("bad.arrow").write_bytes(content)
    cli("select", "bad.arrow", "--budget", 50, status=2)


@reproduces("H3")
def planted_module() -> None:
    """A comparison ran modules from the current folder."""
    Path("json.py").write_text("open('PWNED', 'w')\nraise SystemExit")
    process(
        "compare-methods",
        "rows.npy",
        "--losses",
        "loss.csv",
        "--budget",
        50,
        "--seeds",
        2,
        "--no-plot",
        "--method",
        "uniform",
        "--out",
        "compared",
    )
    assert not Path("PWNED").exists()


@reproduces("H4")
def kill_between_renames() -> None:
    """A kill between two renames lost the old selection and the new one."""
    old, new = (cs.select(rows_of(), None, 30, seed) for seed in (0, 1))
    for suffix in (".csv", ".jsonl", ".parquet"):
        path = cs.save(old, f"x{suffix}")
        child = os.fork()
        if child == 0:
            os.replace = partial(_rename_and_die, os.replace)  # type: ignore[assignment]
            cs.save(new, path)
            os._exit(0)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        assert cs.load(path) == new


def _rename_and_die(rename: Callable[..., None], *paths: Any, **options: Any) -> None:
    rename(*paths, **options)
    os.kill(os.getpid(), signal.SIGKILL)


@reproduces("M1")
def zero_width() -> None:
    """Values that are all 0 gave the interval [0, 0] without a warning."""
    selection = cs.select(rows_of(), None, 100)
    estimate = cs.estimate(selection, np.zeros(len(selection)))
    assert estimate.warnings, estimate


@reproduces("M2")
def forged_selection() -> None:
    """Markup in a forged manifest stood in the page; values of wrong types were tracebacks."""
    from faults.forging import forge

    cs.save(cs.select(rows_of(), rows_of()[:, 0] ** 2, 50), "x.jsonl")
    for changes in (
        {"seed": "<meta http-equiv=refresh content=0>"},
        {"population": 0},
        {"population": 10**400},
        {"z": "<b>"},
        {"recipe": {"score": {"name": "x\nimport os"}}},
    ):
        forge(Path("x.jsonl"), Path("forged.jsonl"), changes)
        ended = cli("report", "forged.jsonl", "--out", "page.html", status=None)
        assert ended.status == 2 or b"<meta http-equiv=refresh" not in Path("page.html").read_bytes()
        cli("estimate", "forged.jsonl", "--values", "loss.csv")
        cli("certify", "forged.jsonl", "--losses", "loss.csv")


@reproduces("M3")
def uuid_ids() -> None:
    """Ids of type UUID, intervals and views were tracebacks or refused."""
    n = 100
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([uuid.uuid4().bytes for _ in range(n)], pa.binary(16)))
    emb = pa.array(list(rows_of()[:n]), pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": ids, "emb": emb}), "u.parquet")
    cli("select", "u.parquet", "--budget", 20, status=0)
    views = pa.array([f"a long id of row {row}" for row in range(n)], pa.string_view())
    spans = pa.array([(1, row, 0) for row in range(n)], pa.month_day_nano_interval())
    for name, ids in (("v.arrow", views), ("w.arrow", spans)):
        table = pa.table({"id": ids, "emb": emb})
        with pa.OSFile(name, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        cli("select", name, "--budget", 20, status=0)


@reproduces("M4")
def large_numbers() -> None:
    """Finite values from 1e76 on were tracebacks, or infinite intervals."""
    values = np.abs(rows_of()[:, 0])
    selection = cs.select(rows_of(), values, 100)
    for factor in (1e76, 1e150, 1e300):
        for use in (cs.estimate, cs.certify):
            try:
                result = use(selection, values[selection.ids] * factor)
                total = getattr(result, "estimate", result).total
                assert np.all(np.isfinite([total.value, total.low, total.high])), total
            except cs.CoresiftError:
                pass
    for factor in (1e300, 1e305, 1e307):
        try:
            cs.select(rows_of(), values * factor, 300)
        except cs.CoresiftError:
            pass


@reproduces("M5")
def flipped_bits() -> None:
    """A flipped bit in the journal silently gave another selection."""
    losses = np.abs(rows_of()[:40, 0])
    select = lambda: cs.select(rows_of()[:40], cs.Oracle(lambda ids: losses[ids], journal="j", batch=4), 8)  # noqa: E731
    expected = select()
    whole = Path("j").read_bytes()
    for bit in range(0, len(whole) * 8, 61):
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        Path("j").write_bytes(content)
        try:
            assert select() == expected, f"bit {bit}"
        except cs.CoresiftError:
            pass


@reproduces("M6")
def one_bad_answer() -> None:
    """One NaN threw 49 answers away; threads with one oracle asked rows twice."""
    asked: list[int] = []
    values = np.abs(rows_of()[:, 0])

    def flaky(ids: Any) -> Any:
        asked.extend(ids.tolist())
        return np.where((ids == ids[0]) & (len(asked) == len(ids)), np.nan, values[ids])

    cs.select(rows_of(), cs.Oracle(flaky, batch=50, retries=5), 100)
    assert len(asked) <= len(set(asked)) + 1, f"{len(asked)} asked for {len(set(asked))} rows"
    asked.clear()

    def slow(ids: Any) -> Any:
        asked.extend(ids.tolist())
        time.sleep(0.002)
        return values[ids]

    rows, oracle = cs.open_rows(rows_of()), cs.Oracle(slow, batch=20)
    threads = [threading.Thread(target=cs.select, args=(rows, oracle, 100)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asked) == len(set(asked)), f"{len(asked)} asked for {len(set(asked))} rows"


@reproduces("M7")
def damaged_header() -> None:
    """Damaged headers of .npy files were tracebacks."""
    whole = Path("rows.npy").read_bytes()
    changes = [
        (b"}", b" "),
        (b"(400, 4)", b"(-40, 4)"),
        (b"\x93NUMPY\x01", b"\x93NUMPY\x09"),
        (b"(400", b"(((("),
        (b"'shape'", b"'shap''"),
        (b"'<f4'", b"'<f4 "),
        (b"{", b"["),
    ]
    np.save("values.npy", np.ones(N))
    cs.save(cs.select(rows_of(), None, 20), "picked.csv")
    for old, new in changes:
        Path("bad.npy").write_bytes(whole.replace(old, new, 1))
        cli("select", "bad.npy", "--budget", 20, status=2)
        cli("select", Path("bad.npy").absolute().as_uri(), "--budget", 20, status=2)
        cli("estimate", "picked.csv", "--values", "loss.csv", "--predictions", "bad.npy", status=2)


@reproduces("M8")
def invalid_utf8() -> None:
    """Ids and texts that are not UTF-8 were tracebacks."""
    bad = pa.Array.from_buffers(pa.string(), N, pa.array([b"\xff\xfe%03d" % row for row in range(N)]).buffers())
    emb = pa.array(list(rows_of()), pa.list_(pa.float32()))
    for name, column in (("ids.parquet", "id"), ("texts.parquet", "text")):
        pq.write_table(pa.table({"emb": emb, column: bad}), name)
        cli("select", name, "--budget", 20)
    cli("select", "rows.npy", "--budget", 20, "--out", "p.csv", status=0)
    cli("report", "p.csv", "--rows", "rows.npy", "--table", "texts.parquet", "--text", "text", "--out", "p.html")


@reproduces("M9")
def columns_of_any_type() -> None:
    """Timestamps, decimals and bytes beside a selection failed at the very end."""
    from datetime import datetime, timedelta
    from decimal import Decimal

    selection = cs.select(rows_of(), None, 20)
    columns = {
        "when": [datetime(2020, 1, 1)] * 20,
        "price": [Decimal("1.5")] * 20,
        "span": [timedelta(1)] * 20,
        "bytes": [b"\x00\xff"] * 20,
    }
    for suffix in (".jsonl", ".csv", ".parquet"):
        assert cs.load(cs.save(selection, f"x{suffix}", table=pa.table(columns))) == selection
        refused(lambda suffix=suffix: cs.save(selection, f"x{suffix}", table=object()))


@reproduces("M10")
def large_cell() -> None:
    """A CSV file with a cell over 2 MiB was written and could not be loaded."""
    selection = cs.select(rows_of(), None, 10)
    cs.save(selection, "x.csv", table=pa.table({"text": ["y" * 2_200_000] + ["x"] * (len(selection) - 1)}))
    assert cs.load("x.csv") == selection


@reproduces("M11")
def cluster_without_a_password() -> None:
    """A Ray cluster of our own obeyed anyone in the network."""
    from coresift.remote import connection

    seen = {}

    class Raylet:
        get_authentication_mode = None

        class Config:
            initialize = staticmethod(lambda text: None)

    class Ray:
        _raylet = Raylet
        __version__ = "2.60"
        init = staticmethod(lambda **options: seen.update(os.environ))

    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        os.environ.pop(name, None)
    connection._initialize(Ray, None)
    assert seen.get("RAY_AUTH_MODE") == "token"
    assert len(seen.get("RAY_AUTH_TOKEN", "")) >= 32


@reproduces("M12")
def budget_of_one() -> None:
    """A budget of 1 with Sensitivity was a traceback."""
    for holder in ("robust", "estimate"):
        cli("select", "rows.npy", "--losses", "loss.csv", "--budget", 1, "--score", f'Sensitivity(holder="{holder}")')
