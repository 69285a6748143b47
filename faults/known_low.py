"""The faults of low severity of the first campaign, as in `known`."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import resource
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import coresift as cs
from faults.known import N, cli, process, refused, reproduces, rows_of


@reproduces("L1")
def endless_seeds() -> None:
    """A huge number of seeds filled the memory."""
    cli(
        "compare-methods", "rows.npy", "--losses", "loss.csv", "--budget", 50, "--seeds", 99999999999999999999, status=2
    )


@reproduces("L2")
def bomb() -> None:
    """A small .npz file could take gigabytes."""
    with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("labels.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (4 * 10**7,)})
        for _ in range(40):
            file.write(bytes(8 * 10**6))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cli("select", "rows.npy", "--budget", 50, "--clusters", "bomb.npz", status=2)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 * 1024, "it was inflated"


@reproduces("L3")
def masked_and_complex() -> None:
    """Masked losses were used, and imaginary parts lost."""
    values = np.abs(rows_of()[:, 0])
    refused(lambda: cs.select(rows_of(), np.ma.masked_array(values, mask=values > 1), 50))
    refused(lambda: cs.select(rows_of(), values + 1j, 50))


@reproduces("L4")
def terminal_escapes() -> None:
    """Escape sequences in ids, labels and names of columns reached the terminal."""
    evil = "\x1b]0;owned\x07"
    emb = pa.array(list(rows_of()), pa.list_(pa.float32()))
    table = {"id": [f"{evil}{row}" for row in range(N)], "emb": emb, evil: np.ones(N)}
    pq.write_table(pa.table(table), "e.parquet")
    cli("select", "e.parquet", "--budget", 20, "--out", "p.parquet", status=0)
    picked = cs.load("p.parquet")
    labels = pa.table({"id": picked.names, "loss": np.ones(20), "group": [f"{evil}{row % 2}" for row in range(20)]})
    pq.write_table(labels, "g.parquet")
    cli("estimate", "p.parquet", "--values", "g.parquet", "--group", "group", status=0)
    pq.write_table(pa.table({"id": table["id"], "loss": -np.ones(N)}), "bad.parquet")
    cli("select", "e.parquet", "--losses", "bad.parquet", "--budget", 20, status=2)


@reproduces("L5")
def secrets_in_uris() -> None:
    """Keys in a URI stood in error sentences."""
    outcome = cli(
        "select", "s3://KEYKEY:SECRETSECRET@bucket.invalid/x.npy?endpoint_override=127.0.0.1:9", "--budget", 5
    )
    assert "SECRETSECRET" not in outcome.err, outcome.err
    assert "KEYKEY" not in outcome.err, outcome.err


@reproduces("L6")
def two_columns_of_one_name() -> None:
    """Two columns `loss` were a traceback, or the first was taken silently."""
    lines = Path("loss.csv").read_text().splitlines()
    Path("two.csv").write_text("\n".join(["row,loss,loss", *(f"{line},1" for line in lines[1:])]) + "\n")
    cli("select", "rows.npy", "--losses", "two.csv", "--budget", 20, status=2)
    two = pa.table([np.arange(N), np.ones(N), np.zeros(N)], names=["row", "loss", "loss"])
    pq.write_table(two, "two.parquet")
    cli("select", "rows.npy", "--losses", "two.parquet", "--budget", 20, status=2)


@reproduces("L7")
def poor_stdout() -> None:
    """A closed stdout, or one without Greek letters, was a traceback."""
    code = "import sys, os; from coresift.cli import main; main()"
    words = ["select", "rows.npy", "--losses", "loss.csv", "--budget", "20"]
    closed = [sys.executable, "-P", "-c", code, *words]
    ended = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *closed], stderr=subprocess.PIPE, check=False)
    assert ended.returncode == 0, ended.stderr
    assert b"Traceback" not in ended.stderr, ended.stderr
    for words in (
        ["diagnose", "rows.npy", "--losses", "loss.csv", "--budget", "50", "--holder", "1"],
        ["select", "--help"],
    ):
        outcome = process(*words, env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"})
        assert outcome.status == 0, outcome.err


@reproduces("L8")
def odd_arguments() -> None:
    """Huge numbers, empty verdicts and odd labels were tracebacks."""
    cli("select", "rows.npy", "--budget", 20, "--clusters", "9" * 5_000, status=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cs.cluster(rows_of(), 2**64, strata=np.arange(N) % 3).k == N
        cs.select(rows_of(), None, 20, strata=np.arange(N) % 3, clusters=2**64)
    selection = cs.select(rows_of(), None, 30)
    values = np.ones(30)
    for groups in ([np.nan] * 30, [1j] * 30, [{"a": 1}] * 30, [[1, 2]] * 30, [None] * 30, [()] * 30, 5, "x"):
        try:
            cs.estimate(selection, values, groups=groups)
        except cs.CoresiftError:
            pass
    diagnosis = cs.diagnose(rows_of(), np.abs(rows_of()[:, 0]), 50)
    for verdict in ("", 5, None):
        try:
            repr(dataclasses.replace(diagnosis, verdict=verdict))
            cs.report(selection, "x.html", diagnosis=dataclasses.replace(diagnosis, verdict=verdict))
        except cs.CoresiftError:
            pass
    cli("diagnose", "rows.npy", "--losses", "loss.csv", "--budget", 40, "--json", status=0)
    facts = json.loads(cli("diagnose", "rows.npy", "--losses", "loss.csv", "--budget", 40, "--json").out)
    cs.save(selection, "p.csv")
    for verdict in ("", 5, None, []):
        Path("d.json").write_text(json.dumps({**facts, "verdict": verdict}))
        cli("report", "p.csv", "--diagnosis", "d.json", "--out", "d.html")


@reproduces("L9")
def warnings_as_errors() -> None:
    """With PYTHONWARNINGS=error a warning was a traceback."""
    np.save("few.npy", np.zeros((50, 2)))
    words = ["select", "few.npy", "--budget", "20", "--clusters", "60"]
    outcome = process(*words, env={**os.environ, "PYTHONWARNINGS": "error"})
    assert "Traceback" not in outcome.err, outcome.err
    assert outcome.status in (0, 2)


@reproduces("L10")
def symlink_in_out() -> None:
    """A comparison wrote its losses through a link in its folder."""
    Path("other").write_text("untouched")
    Path("out").mkdir()
    for name in (".losses.npy", "runs.jsonl", "losses.npy"):
        Path("out", name).symlink_to(Path("other").absolute())
    process(
        "compare-methods",
        "rows.npy",
        "--losses",
        "loss.csv",
        "--budget",
        30,
        "--seeds",
        1,
        "--method",
        "uniform",
        "--no-plot",
        "--out",
        "out",
    )
    assert Path("other").read_text() == "untouched"


@reproduces("L11")
def private_file() -> None:
    """Overwriting a private file made it readable for all."""
    selection = cs.select(rows_of(), None, 10)
    for suffix in (".csv", ".parquet", ".jsonl"):
        Path(f"x{suffix}").touch(0o600)
        cs.save(selection, f"x{suffix}")
        assert Path(f"x{suffix}").stat().st_mode & 0o777 == 0o600


@reproduces("L12")
def leftovers() -> None:
    """Files of killed runs were never removed."""
    left = Path(".coresift-0123456789abcdef.tmp")
    left.write_text("half")
    os.utime(left, (0, 0))
    cs.save(cs.select(rows_of(), None, 10), "x.csv")
    assert not left.exists()


@reproduces("L13")
def changed_rows() -> None:
    """A clustering of other rows was accepted if 1,024 of them were the same."""
    rows = np.random.default_rng(1).normal(size=(5_000, 3)).astype(np.float32)
    clustering = cs.cluster(rows, 10)
    for row in (1, 777, 4_998):
        changed = rows.copy()
        changed[row] += 1
        refused(lambda changed=changed: cs.select(changed, None, 50, clusters=clustering))


@reproduces("L14")
def name_that_is_not_utf8() -> None:
    """A file under a name that is not UTF-8 could not be loaded."""
    selection = cs.select(rows_of(), None, 10)
    for suffix in (".csv", ".jsonl", ".parquet"):
        name = os.fsdecode(b"x\xff" + suffix.encode())
        cs.save(selection, name)
        assert cs.load(name) == selection


@reproduces("L15")
def cache_of_tables() -> None:
    """An oracle kept the answers about every table it had ever seen."""
    values = np.abs(rows_of()[:, 0])
    oracle = cs.Oracle(lambda ids: values[ids])
    for seed in range(40):
        cs.select(np.random.default_rng(seed).normal(size=(60, 2)), oracle, 10)
    held = sum(isinstance(one, np.ndarray) or hasattr(one, "known") for one in _reachable(oracle))
    assert held < 30, f"{held} caches"


def _reachable(thing: object) -> list[object]:
    """Return what hangs on an oracle: the values of its containers, two levels deep."""
    found: list[object] = []
    for value in vars(thing).values():
        inner = list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []
        found += [value, *inner]
        for one in inner:
            found += list(one) if isinstance(one, (tuple, list)) else []
    return found


@reproduces("L16")
def formulas() -> None:
    """Cells that begin with = ran as formulas in a spreadsheet."""
    selection = cs.select(rows_of(), None, 10)
    cs.save(
        selection, "x.csv", table=pa.table({"text": ['=HYPERLINK("http://x")', "+1", "-2", "@SUM(A1)"] + ["x"] * 6})
    )
    with open("x.csv", newline="") as file:
        cells = [line["text"] for line in csv.DictReader(file)]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))], cells
    assert cs.load("x.csv") == selection
