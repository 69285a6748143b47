"""Columns of every Arrow type in every role: ids, classes, texts, rows, losses, and columns beside a selection."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import coresift as cs
from faults.judging import crashed, misbehaved
from faults.kind import Case, Kind
from faults.processes import command, run

N = 60
DAY = datetime.datetime(2020, 1, 1)


def columns() -> dict[str, Any]:
    """Return a column of N values of each type."""
    numbers, texts = list(range(N)), [f"value {row}" for row in range(N)]
    times = [DAY + datetime.timedelta(days=row) for row in range(N)]
    found = {
        str(kind): pa.array([row % 100 for row in numbers], kind)
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    }
    found |= {str(kind): pa.array([float(row) for row in numbers], kind) for kind in (pa.float32(), pa.float64())}
    found["halffloat"] = pa.array(np.arange(N, dtype=np.float16))
    found |= {str(kind): pa.array(texts, kind) for kind in (pa.string(), pa.large_string(), pa.string_view())}
    found |= {
        str(kind): pa.array([text.encode() for text in texts], kind)
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    }
    found["fixed binary"] = pa.array([b"%04d" % row for row in numbers], pa.binary(4))
    found["uuid"] = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([uuid.uuid5(uuid.NAMESPACE_DNS, str(row)).bytes for row in numbers], pa.binary(16))
    )
    found |= {
        str(kind): pa.array(times, kind)
        for kind in (pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.date32(), pa.date64())
    }
    found |= {
        str(kind): pa.array(numbers, kind)
        for kind in (pa.time32("s"), pa.time64("ns"), pa.duration("s"), pa.duration("ns"))
    }
    found["interval"] = pa.array([(1, row, 0) for row in numbers], pa.month_day_nano_interval())
    found |= {
        str(kind): pa.array([decimal.Decimal(row) for row in numbers], kind)
        for kind in (pa.decimal32(7, 2), pa.decimal64(12, 2), pa.decimal128(20, 3), pa.decimal256(50, 3))
    }
    found |= {"bool": pa.array([row % 2 == 0 for row in numbers]), "null": pa.nulls(N)}
    found["dictionary"] = pa.array(texts).dictionary_encode()
    found["dictionary of numbers"] = pa.array(numbers).dictionary_encode()
    found["run ends"] = pa.RunEndEncodedArray.from_arrays(pa.array([30, N], pa.int32()), pa.array(["a", "b"]))
    found["list"] = pa.array([[float(row), 1.0] for row in numbers])
    found["large list"] = pa.array([[float(row), 1.0] for row in numbers], pa.large_list(pa.float32()))
    found["list view"] = pa.array([[float(row), 1.0] for row in numbers], pa.list_view(pa.float32()))
    found["fixed list"] = pa.array([[float(row), 1.0] for row in numbers], pa.list_(pa.float64(), 2))
    found["list of texts"] = pa.array([["a", "b"] for _ in numbers])
    found["ragged"] = pa.array([[1.0] * (row % 3) for row in numbers])
    found["struct"] = pa.array([{"a": row, "b": "x"} for row in numbers])
    found["map"] = pa.array([[("a", row)] for row in numbers], pa.map_(pa.string(), pa.int64()))
    found["union"] = pa.UnionArray.from_sparse(pa.array([0] * N, pa.int8()), [pa.array(numbers)])
    found["some null"] = pa.array([None if row % 7 == 0 else f"t{row}" for row in numbers])
    found["not UTF-8"] = pa.Array.from_buffers(
        pa.string(), N, pa.array([b"\xff\xfe%02d" % row for row in numbers]).buffers()
    )
    found["controls"] = pa.array([f"\x1b]0;x\x07{row}" for row in numbers])
    found["formulas"] = pa.array([f"=1+{row}" for row in numbers])
    found["long"] = pa.array(["y" * 2_200_000] + ["x"] * (N - 1))
    return found


ROLES = {
    "id": "select t.SUFFIX --column emb --id-column c --budget 12 --clusters 3 --out new.OUT",
    "class": "select t.SUFFIX --column emb --strata c --budget 20 --out new.OUT",
    "beside": "select t.SUFFIX --column emb --budget 12 --clusters 3 --out new.OUT",
    "rows": "select t.SUFFIX --column c --budget 12 --clusters 3 --out new.OUT",
    "signal": "select t.SUFFIX --column emb --signals c --losses loss.csv --budget 20 --clusters 3 --out new.OUT",
    "text": "report picked.csv --rows rows.npy --table t.SUFFIX --text c --out new.html",
    "label": "report picked.csv --rows rows.npy --table t.SUFFIX --label c --out new.html",
    "answer": "select rows.npy --losses a.SUFFIX --budget 12 --clusters 3 --out new.OUT",
    "group": "estimate picked.csv --values a.SUFFIX --column row --group loss",
    "prediction": "evaluate run t.SUFFIX --predictions c --answers loss.csv --budget 12 --out new.json",
    "known group": "evaluate run t.SUFFIX --groups c --signals c --answers labels.csv --budget 12 --out new.json",
    "evaluated": "evaluate run rows.csv --answers a.SUFFIX --budget 12 --out new.json",
    "labeled": "tell active-learning.state a.SUFFIX --column loss",
    "history": "select rows.npy --signals a.SUFFIX --losses loss.csv --budget 20 --clusters 3 --out new.OUT",
    "importance": "cover t.SUFFIX --column emb --importance c --budget 6 --out new.OUT",
}


# Types that have been a problem come first; as ids and beside a selection, some must be taken.
FIRST = (
    "uuid",
    "interval",
    "string_view",
    "not UTF-8",
    "long",
    "timestamp[s]",
    "binary",
    "decimal128(20, 3)",
    "controls",
)
TAKEN = ("uuid", "interval", "string_view", "large_string", "timestamp[s]", "decimal128(20, 3)", "binary", "dictionary")


class ArrowTypes(Kind):
    """A column of any type in any role is used, or refused in one sentence; what was written can be loaded."""

    name: ClassVar[str] = "Arrow types in every role"

    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield all combinations of type, role, and formats: those of ids and columns beside first."""
        every = [
            {"type": kind, "role": role, "suffix": suffix, "out": out}
            for kind in columns()
            for role in ROLES
            for suffix in ("parquet", "arrow")
            for out in ("csv", "jsonl", "parquet")
        ]
        every = [case for case in every if "OUT" in ROLES[case["role"]] or case["out"] == "csv"]
        # Of each type and role one combination of formats at first.
        order = rng.permutation(len(every))
        seen: set[tuple[str, str]] = set()
        first = [n for n in order if (key := (every[n]["type"], every[n]["role"])) not in seen and not seen.add(key)]
        chosen = set(first)
        first.sort(key=lambda number: every[number]["type"] not in FIRST)
        yield from (every[number] for number in [*first, *(n for n in order if n not in chosen)])

    def problem(self, case: Case) -> str | None:
        """Write the table in a child, and use it in another."""
        with self.bench.folder() as folder:
            made = run(lambda: _make(case), folder)
            if made.status == 3:  # the format itself cannot hold the type
                return None
            if problem := crashed(made):
                return f"the table cannot be made: {problem}"
            words = ROLES[case["role"]].replace("SUFFIX", case["suffix"]).replace("OUT", case["out"]).split()
            outcome = run(command(words), folder)
            if problem := misbehaved(outcome):
                return problem
            if outcome.status and case["role"] in ("id", "beside") and case["type"] in TAKEN:
                return f"is refused: {outcome.err}"
            target = folder / f"new.{case['out']}"
            if outcome.status == 0 and target.exists():
                loaded = run(lambda: cs.load(target), folder)
                return f"cannot be loaded: {crashed(loaded)}" if loaded.status else None
        return None


def _make(case: Case) -> int:
    column = columns()[case["type"]]
    emb = pa.array(list(np.load("rows.npy")), pa.list_(pa.float32()))
    tables = {
        "t": pa.table({"emb": emb, "c": column}),
        "a": pa.table({"row": np.arange(N), "loss": column, "value": column}),
    }
    for name, table in tables.items():
        try:
            if case["suffix"] == "parquet":
                pq.write_table(table, f"{name}.parquet")
            else:
                with pa.OSFile(f"{name}.arrow", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                    writer.write_table(table)
        except (pa.ArrowException, NotImplementedError, TypeError):
            return 3
    return 0
