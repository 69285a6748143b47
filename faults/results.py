"""What results must be, whatever the data: warnings where an interval cannot know, and stale files told from fresh."""

from __future__ import annotations

import csv
import gc
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

import coresift as cs
from faults.judging import crashed
from faults.kind import Case, Kind
from faults.processes import run

CHECKS = ("missed", "changed rows", "odd names", "formulas", "tables", "clusters of others")


class Results(Kind):
    """Results are right or come with a warning, files are read as they were written, and no stale one is used."""

    name: ClassVar[str] = "results and files"
    share: ClassVar[float] = 0.5

    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield each check in turn, with new data each time."""
        while True:
            yield from ({"check": check, "seed": int(rng.integers(2**31))} for check in CHECKS)

    def problem(self, case: Case) -> str | None:
        """Run the check in a child."""
        with self.bench.folder(files=False) as folder:
            check = globals()[f"_{case['check'].replace(' ', '_')}"]
            outcome = run(lambda: check(np.random.default_rng(case["seed"])), folder, cpu=60)
            return crashed(outcome)


def _missed(rng: np.random.Generator) -> None:
    """Rare losses: an interval that misses the truth has a warning or some width."""
    rows = rng.normal(size=(400, 3)).astype(np.float32)
    clustering = cs.cluster(rows, 5)
    for seed in range(6):
        losses = np.zeros(400)
        losses[rng.choice(400, int(rng.choice([1, 4])), replace=False)] = float(rng.choice([1.0, 1e6]))
        picked = cs.select(rows, None, 40, seed, clusters=clustering)
        found = cs.estimate(picked, losses[picked.ids])
        missed = not found.total.low <= losses.sum() <= found.total.high
        assert not missed or found.warnings, f"{found} misses {losses.sum()} without a warning"


def _changed_rows(rng: np.random.Generator) -> None:
    """One changed row of many is enough for a clustering, and a journal, to be another's."""
    rows = rng.normal(size=(3_000, 2)).astype(np.float32)
    clustering, row = cs.cluster(rows, 4), int(rng.integers(3_000))
    oracle = cs.Oracle(lambda ids: np.ones(len(ids)), journal="work.state")
    cs.select(rows, oracle, 20, clusters=clustering)
    changed = rows.copy()
    changed[row] += 1
    for options in ({"clusters": clustering}, {}):
        try:
            cs.select(changed, oracle if not options else None, 20, **options)
        except cs.CoresiftError:
            continue
        raise AssertionError(f"row {row} was changed, and what belongs to the old rows is used")


def _odd_names(rng: np.random.Generator) -> None:
    """Files are found again, whatever bytes their names have."""
    selection = cs.select(rng.normal(size=(30, 2)), None, 5, clusters=2)
    for suffix in (".csv", ".jsonl", ".parquet"):
        name = os.fsdecode(b"x\xff " + rng.bytes(3).replace(b"/", b"_").replace(b"\0", b"_") + suffix.encode())
        assert cs.load(cs.save(selection, name)) == selection


def _formulas(rng: np.random.Generator) -> None:
    """No cell of a CSV file begins as a formula does, and what was written is read."""
    selection = cs.select(rng.normal(size=(30, 2)), None, 6, clusters=2)
    texts = [str(rng.choice(list("=+-@\t\r"))) + "1+1" for _ in range(6)]
    cs.save(selection, "x.csv", table=pa.table({"text": texts}))
    with open("x.csv", newline="") as file:
        cells = [line["text"] for line in csv.DictReader(file)]
    assert not [cell for cell in cells if cell[:1] in "=+-@\t\r"], cells
    assert cs.open_rows("x.csv", columns=["weight"]).table.take(np.arange(6))["text"].to_pylist() == texts


def _tables(rng: np.random.Generator) -> None:
    """An oracle does not keep every table that it has seen."""
    oracle = cs.Oracle(lambda ids: np.ones(len(ids)))
    tables = [rng.normal(size=(200, 1)).astype(np.float32) for _ in range(40)]
    held = []
    tracemalloc.start()
    for number, table in enumerate(tables):
        cs.select(table, oracle, 150, clusters=2)
        if number % 20 == 19:
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    assert held[1] - held[0] < 100_000, f"{held[1] - held[0]} bytes more after 20 more tables"


def _clusters_of_others(rng: np.random.Generator) -> None:
    """A clustering that was saved for other rows is refused, from a file too."""
    rows = rng.normal(size=(200, 2)).astype(np.float32)
    cs.save(cs.cluster(rows, 3), "c.npz")
    rows[int(rng.integers(200)), 0] += 0.5
    np.save("rows.npy", rows)
    try:
        cs.select(np.load("rows.npy"), None, 10, clusters=cs.load("c.npz"))
    except cs.CoresiftError:
        assert not Path("picked.parquet").exists()
        return
    raise AssertionError("the clustering of other rows was used")
