"""Files that someone made to do harm: bombs, endless nesting, tables of many columns, files of another job."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import coresift as cs
from faults.judging import crashed
from faults.kind import Case, Kind
from faults.known import cli
from faults.processes import run

DEEP = "[" * 100_000
# Whoever opens a pipe that nobody writes to waits forever.
PIPED = (
    "report pipe.csv --out new.html",
    "report picked.csv --table pipe.csv --text a --out new.html",
    "report picked.csv --diagnosis pipe.json --out new.html",
    "tell active-learning.state pipe.json",
    "tell active-learning.state pipe.csv",
    "estimate picked.csv --values pipe.parquet",
    "estimate picked.csv --values loss.csv --predictions pipe.npy",
    "select pipe.npy --budget 3",
    "select rows.npy --budget 5 --clusters pipe.npz",
    "select rows.npy --losses loss.csv --budget 12 --given pipe.txt",
    "select rows.npy --losses loss.csv --budget 12 --signals pipe.npy",
    "select rows.npy --losses loss.csv --budget 12 --signals pipe.parquet",
    "start select rows.npy --budget 5 --state pipe.state",
    "status pipe.state",
)
FILES: dict[str, Callable[[], None]] = {}


class Handmade(Kind):
    """A hostile file is refused in one sentence or read, in little time and memory."""

    name: ClassVar[str] = "hand-made files"
    whole: ClassVar[bool] = True

    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield each of them once."""
        yield from ({"file": name} for name in FILES)

    def problem(self, case: Case) -> str | None:
        """Make the file and use it, in a child."""
        with self.bench.folder() as folder:
            return crashed(run(FILES[case["file"]], folder))


def made(function: Callable[[], None]) -> Callable[[], None]:
    """Add to the list what makes a hostile file and uses it."""
    FILES[function.__name__.replace("_", " ")] = function
    return function


def _read(function: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """Call something that may refuse what it is given, in one sentence."""
    try:
        repr(function(*arguments, **options))
    except cs.CoresiftError as error:
        assert "\n" not in str(error) and str(error).endswith((".", "?")), repr(str(error))


@made
def tables_of_many_columns() -> None:
    """Names were compared each with all others, which took hours."""
    table = pa.table({f"c{column}": [1.0, 2.0] for column in range(100_000)})
    with pa.OSFile("wide.arrow", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    _read(cs.open_rows, "wide.arrow")


@made
def a_header_that_is_too_long() -> None:
    """Python's reader of CSV files has a limit and an exception of its own."""
    Path("long.csv").write_text("x" * 200_000 + ",b\n1,2\n")
    cli("select", "long.csv", "--budget", 1)


@made
def lines_without_common_names() -> None:
    """A table has a cell for every name in every line."""
    Path("sparse.jsonl").write_text("".join(json.dumps({f"n{row}": 1}) + "\n" for row in range(40_000)))
    cli("select", "sparse.jsonl", "--budget", 5, status=2)


@made
def endless_nesting() -> None:
    """Python's JSON parser gives up by an exception of its own."""
    noted = pa.table({"x": [1.0, 2.0, 5.0]}).replace_schema_metadata({"pandas": DEEP})
    pq.write_table(noted, "noted.parquet")
    cli("select", "noted.parquet", "--budget", 2, status=0)
    for name in ("state.json", "dataset_info.json", "manifest.json", "coresift.json", "embeddings.json"):
        Path("folder").mkdir(exist_ok=True)
        pq.write_table(noted, "folder/rows.parquet")
        Path("folder", name).write_text(DEEP)
        cli("select", "folder", "--budget", 2)
    Path("picked.work").mkdir()
    Path("picked.work/picked.csv.json").write_text(DEEP)
    cli("report", "picked.csv", "--out", "page.html", status=0)
    for name in ("deep.json", "deep.jsonl", "deep.state", "deep.csv", "deep.eval"):
        Path(name).write_text(DEEP)
        _read(cs.signals.from_log, name)
        cli("tell", "active-learning.state", name, status=2)
        cli("report", "picked.csv", "--diagnosis", name, "--out", "page.html", status=2)
        cli("status", name, status=2)


@made
def folders_of_embeddings_with_odd_manifests() -> None:
    """A manifest may say anything."""
    from coresift.rows.embedded import FORMAT, MANIFEST

    Path("vectors").mkdir()
    np.save("vectors/a.npy", np.ones((3, 2), np.float32))
    sound = {"format": FORMAT, "shards": ["a.npy"], "rows": 3, "dimension": 2, "ids": None}
    odd = (float("inf"), float("nan"), 10**400, -1, None, "x", [], {}, ["../a.npy"], [5], True, "\ud800")
    for name in sound:
        for value in odd:
            Path("vectors", MANIFEST).write_text(json.dumps({**sound, name: value}))
            _read(cs.open_rows, "vectors")
    for whole in (5, [], "x", None):
        Path("vectors", MANIFEST).write_text(json.dumps(whole))
        _read(cs.open_rows, "vectors")


@made
def logs_that_grow() -> None:
    """A small log could ask for any amount of memory."""
    with zipfile.ZipFile("bomb.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("summaries.json", b"[" + b"[]," * 10**7 + b"[]]")
    _read(cs.signals.from_log, "bomb.eval")
    line = {"doc_id": 0, "metrics": ["acc"], "acc": 1, "target": "0"}
    many = [{**line, "doc_id": row, "filtered_resps": [[-1, 0], [-2, 0]]} for row in range(20_000)]
    many[0]["filtered_resps"] = [[-1, 0]] * 100_000
    Path("choices.jsonl").write_text("".join(json.dumps(one) + "\n" for one in many))
    _read(cs.signals.from_log, "choices.jsonl")
    names = [{"doc_id": row, "metrics": [f"m{row}"], f"m{row}": 1} for row in range(40_000)]
    Path("names.jsonl").write_text("".join(json.dumps(one) + "\n" for one in names))
    _read(cs.signals.from_log, "names.jsonl")


@made
def columns_that_are_packed() -> None:
    """A column of one value takes a few bytes per million rows; rows are read a block at a time."""
    pq.write_table(pa.table({"x": pa.array(np.zeros(20_000_000, np.float32))}), "packed.parquet")
    assert Path("packed.parquet").stat().st_size < 200_000
    rows = cs.open_rows("packed.parquet")
    for _, block in rows.blocks():
        block()


@made
def state_files_of_other_jobs() -> None:
    """Each verb takes the state of its own job, and says so of others."""
    for name in ("select", "regression", "diagnose", "active-learning", "evaluate", "oracle"):
        state = f"{name}.state"
        cli("evaluate", "report", state, "--out", "page.html", status=0 if name == "evaluate" else 2)
        cli("evaluate", "plan", state, status=None if name == "evaluate" else 2)
        learning = name == "active-learning"
        cli("active-learning", "report", state, "--out", "page.html", status=0 if learning else 2)
        cli("evaluate", "start", "rows.csv", "--predictions", "kind", "--budget", 7, "--state", state, status=2)
        cli("select", "rows.npy", "--budget", 5, "--losses", state, status=2)


@made
def links_and_pipes() -> None:
    """A page replaces what a link to a file names; a link to nowhere, a loop or a pipe is no file to read."""
    os.symlink("loop.csv", "loop.csv")
    os.symlink("nowhere/rows.csv", "dangling.csv")
    for suffix in (".csv", ".json", ".npy", ".npz", ".txt", ".parquet", ".eval", ".state"):
        os.mkfifo(f"pipe{suffix}")
    for words in PIPED:
        cli(*words.split(), status=2)
    for name in ("pipe.json", "pipe.eval"):
        _read(cs.signals.from_log, name)
    Path("elsewhere").mkdir()
    os.symlink("elsewhere", "pages")
    for name in ("loop.csv", "dangling.csv", "pipe.csv"):
        cli("select", name, "--budget", 5, status=2)
        cli("select", "rows.npy", "--budget", 5, "--losses", name, status=2)
        cli("status", name, status=2)
    cli("report", "picked.csv", "--out", "pages/page.html", status=0)
    assert Path("elsewhere/page.html").is_file()
    cli("report", "picked.csv", "--out", "pages", status=2)
    cli("select", "rows.npy", "--budget", 5, "--out", "loop.csv", status=2)
    cli("start", "select", "rows.npy", "--budget", 5, "--state", "pipe.csv", status=2)


@made
def long_texts() -> None:
    """Secrets were looked for in the square of a text's length, and a sentence named all columns there are."""
    from coresift.redaction import redact
    from coresift.tables.places import hide_secrets

    for text in ("a.", ".", "eyJ-", "a?", "://a", "key ", "bearer ", "a:", "sk-", "?a=", "-", "key=", "AKIA"):
        redact(text * (200_000 // len(text)))
        hide_secrets(text * (200_000 // len(text)))
    pq.write_table(pa.table({f"column {number}": [1.0, 2.0] for number in range(20_000)}), "wide.parquet")
    cli("select", "wide.parquet", "--column", "colum", "--budget", 1, status=2)
    pq.write_table(pa.table({"a?" * 100_000: [1.0, 2.0], "row": [0, 1]}), "named.parquet")
    cli("select", "rows.npy", "--losses", "named.parquet", "--budget", 5, status=2)
    labels = [{"row": row, "label": "a." * 100_000} for row in range(60)]
    Path("long.jsonl").write_text("".join(json.dumps(one) + "\n" for one in labels))
    cli("tell", "active-learning.state", "long.jsonl")

    def broken(ids: Any) -> Any:
        raise ConnectionError("a." * 100_000)

    _read(cs.select, np.load("rows.npy"), cs.Oracle(broken, retries=0), 10)
