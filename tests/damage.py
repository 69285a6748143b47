"""Damaged files, each opened in a process of its own: run with the number of attempts and a seed.

Every attempt must end in a result or in one sentence; a signal, another exception or a hang is a failure. It prints
one line per failure and keeps the file.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

from coresift.checks import CoresiftError
from coresift.rows import open_rows
from coresift.tables import open_table

SECONDS = 60


def make(folder: Path) -> list[Path]:
    """Write one small file of each kind that is not text."""
    rng, n = np.random.default_rng(0), 60
    table = pa.table(
        {
            "id": [f"k{row:03}" for row in range(n)],
            "emb": pa.array(list(rng.normal(size=(n, 3))), pa.list_(pa.float32())),
            "text": ["words " * (row % 5) for row in range(n)],
            "kind": pa.array([f"c{row % 3}" for row in range(n)]).dictionary_encode(),
            "view": pa.array([f"view of {row} that is long" for row in range(n)], pa.string_view()),
            "fixed": pa.array(list(rng.normal(size=(n, 2))), pa.list_(pa.float64(), 2)),
            "struct": pa.array([{"a": [row], "b": str(row)} for row in range(n)]),
        }
    )
    feather.write_feather(table.drop_columns("view"), folder / "a.feather", compression="lz4", chunksize=25)
    for name, opened in (("a.arrow", pa.ipc.new_file), ("b.arrow", pa.ipc.new_stream)):
        with pa.OSFile(str(folder / name), "wb") as sink, opened(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=25)
    pq.write_table(table.drop_columns("view"), folder / "a.parquet", row_group_size=25)
    np.save(folder / "a.npy", rng.normal(size=(20, 3)))
    return sorted(folder.iterdir())


def damage(content: bytes, rng: np.random.Generator, head: bool) -> bytes:
    """Return the content with a few bytes changed, a stretch removed or the end cut off."""
    changed = bytearray(content)
    last = min(len(changed), 128) if head else len(changed)
    kind = rng.integers(6)
    place = int(rng.integers(last))
    if kind == 0:
        return bytes(changed[:place])
    if kind == 1:
        del changed[place : place + int(rng.integers(1, 20))]
        return bytes(changed)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(last))
        changed[place] = int(rng.choice([0, 0x7F, 0x80, 0xFF, changed[place] ^ (1 << int(rng.integers(8)))]))
    return bytes(changed)


def use(path: Path) -> None:
    """Do with a file what coresift does with files."""
    uri = path.stat().st_size % 3 == 0
    options = {} if path.suffix == ".npy" else {"column": "emb"}
    rows = open_rows(path.as_uri() if uri else path, **options)
    for _, block in rows.blocks():
        block()
    rows.take([0, rows.n - 1])
    rows.names(np.arange(min(rows.n, 100)))
    if path.suffix != ".npy":
        table = open_table(path)
        table.take(np.arange(0, min(table.n, 100), 7))
        table.classes("kind")
        table.labels("text")


def attempt(path: Path) -> str | None:
    """Use a file in a process of its own, and say what went wrong."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        code = 0
        try:
            use(path)
        except CoresiftError as error:
            code = 0 if "\n" not in str(error) and str(error).endswith(".") else 3
        except BaseException as error:
            print(repr(error)[:300], flush=True)
            code = 4
        os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return None if os.WEXITSTATUS(status) == 0 else f"exit {os.WEXITSTATUS(status)}"


def main(count: int, seed: int) -> int:
    """Damage files `count` times; return how many attempts failed."""
    folder = Path(tempfile.mkdtemp(prefix="damage-"))
    rng = np.random.default_rng(seed)
    failures = 0
    originals = make(folder)
    for path in originals:
        assert attempt(path) is None, path
    for number in range(count):
        path = originals[number % len(originals)]
        target = folder / f"bad{path.suffix}"
        target.write_bytes(damage(path.read_bytes(), rng, head=path.suffix == ".npy" and number % 2 == 0))
        began = time.monotonic()
        problem = attempt(target)
        if problem is not None or time.monotonic() - began > SECONDS / 2:
            failures += 1
            kept = shutil.copy(target, folder / f"kept-{number}{path.suffix}")
            print(f"attempt {number}: {path.name}: {problem} ({kept})", flush=True)
    if not failures:
        shutil.rmtree(folder)
    return failures


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]), int(sys.argv[2]))))
