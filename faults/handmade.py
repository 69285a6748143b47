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
from faults.forging import forge_state, state_lines
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


@made
def one_long_text_among_many() -> None:
    """Arrays of texts gave each of them the room of the longest: a file of 9 MB took 22 GB."""
    many, long = 20_000, "x" * 300_000
    np.save("many.npy", np.random.default_rng(0).normal(size=(many, 2)).astype(np.float32))
    kinds = [long, *(f"c{row % 2}" for row in range(1, many))]
    pq.write_table(pa.table({"row": np.arange(many), "label": kinds, "x": np.arange(many) % 7}), "kinds.parquet")
    cli("active-learning", "start", "many.npy", "--budget", 12, "--rounds", 2, "--state", "a.state", status=0)
    cli("tell", "a.state", "kinds.parquet", status=0)
    cli("ask", "a.state", "--out", "next.csv", status=0)
    start = ("evaluate", "start", "kinds.parquet", "--budget", 12, "--state")
    cli(*start, "b.state", "--predictions", "label", status=0)
    cli("evaluate", "tell", "b.state", "kinds.parquet", status=0)
    cli(*start, "c.state", "--groups", "label", "--signals", "label", status=0)
    labels = [{"row": row, "label": long if row == 7 else "a"} for row in range(0, many, 7)]
    _read(cs.evaluate, values=np.ones(many), groups=kinds, signals={"kind": kinds}, budget=5)
    Path("labels.jsonl").write_text("".join(json.dumps(one) + "\n" for one in labels))
    cli("tell", "a.state", "labels.jsonl")


@made
def a_group_for_every_row() -> None:
    """Each group had a column of its own, and each column was compared with all others: minutes, and gigabytes."""
    many = 20_000
    groups = [f"g{row % 2_000}" for row in range(many)]
    pq.write_table(pa.table({"row": np.arange(many), "group": groups, "value": np.arange(many) % 7}), "groups.parquet")
    words = ("groups.parquet", "--groups", "group", "--answers", "groups.parquet")
    cli("evaluate", "run", *words, "--budget", 2_000, "--out", "new.json", status=0)
    # Groups without an answer were left out of the total without a word.
    cli("evaluate", "run", *words, "--budget", 50, "--out", "new.json", status=2)
    cli("select", "groups.parquet", "--strata", "group", "--column", "value", "--budget", 5, status=2)


@made
def more_columns_than_rows() -> None:
    """Columns of signals, and models of a history, were compared each with all others."""
    rng = np.random.default_rng(0)
    names = [f"c{column}" for column in range(6_000)]
    signals = {name: rng.normal(size=60) for name in names}
    pq.write_table(pa.table({**signals, "kind": ["a", "b"] * 30}), "wide.parquet")
    select = ("select", "rows.npy", "--losses", "loss.csv", "--budget", 20, "--signals", "wide.parquet")
    cli(*select, "--out", "new.csv", status=0)
    evaluate = ("evaluate", "run", "wide.parquet", "--predictions", "kind", "--signals", ",".join(names))
    cli(*evaluate, "--budget", 20, "--answers", "loss.csv", "--out", "new.json", status=0)
    results = rng.random((6, 50_000))
    assert len(cs.signals.history(results)) == 6
    results[0, ::2] = np.nan
    assert len(cs.signals.history(results)) == 6


@made
def labels_of_tools_that_are_none() -> None:
    """Numbers that no float holds were a traceback; of two choices, one was taken without a word."""
    tasks, records = (json.loads(Path(name).read_text()) for name in ("studio.json", "argilla.json"))
    for cell in (2**53 + 1, -(2**60) - 1, 10**30, 10**400, ["c0", "c1"], [["c0"]], ["c0", 5], [None, "c1"]):
        for task in tasks:
            task["annotations"][0]["result"][0]["value"] = {"choices": cell}
        for record in records:
            record["responses"]["kind"][0]["value"] = cell
        for name, content in (("odd.json", tasks), ("odder.json", records)):
            Path(name).write_text(json.dumps(content))
            cli("tell", "active-learning.state", name, "--correct", status=2)
    told = [{"row": row, "label": "c0\0" if row % 2 else "c0"} for row in range(60)]
    Path("zeros.jsonl").write_text("".join(json.dumps(one) + "\n" for one in told))
    cli("tell", "active-learning.state", "zeros.jsonl", "--correct", status=0)
    assert "c0\\u0000" in Path("active-learning.state").read_text(), "a label lost the zero at its end"


@made
def files_of_a_run_that_are_one() -> None:
    """The result replaced the state file, with every answer in it; and what is asked replaced the rows."""
    for name in ("rows.csv", "rows.jsonl"):
        Path("own-" + name).write_bytes(Path(name).read_bytes())
    learn = ("active-learning", "start", "rows.npy", "--budget", 8)
    cli(*learn, "--state", "same.csv", "--out", "same.csv", status=2)
    os.symlink("link.csv", "same.csv")
    cli(*learn, "--state", "link.csv", "--out", "same.csv", status=2)
    words = ("start", "regression", "rows.npy", "--budget", 8, "--out", "new.csv")
    cli(*words, "--state", "fit.csv", "--fit", "fit.csv", status=2)
    for number, words in enumerate(
        (
            ("start", "select", "own-rows.csv", "--budget", 8),
            ("evaluate", "start", "own-rows.csv", "--predictions", "kind", "--budget", 8),
            (*learn, "--table", "own-rows.csv"),
        )
    ):
        cli(*words, "--state", f"{number}.state", status=0)
        cli("ask", f"{number}.state", "--out", "own-rows.csv", status=2)
    assert Path("own-rows.csv").read_bytes() == Path("rows.csv").read_bytes()


@made
def numbers_that_are_too_large_to_learn() -> None:
    """They were kept, and the page of the run could not be written."""
    cli("active-learning", "start", "rows.npy", "--budget", 30, "--rounds", 2, "--numeric", "--state", "n.state")
    for size, status in ((1e308, 2), (1.1e60, 2), (1e60, 0), (5e-324, 0)):
        lines = [f"{row},{size if row % 2 else -size}\n" for row in range(60)]
        Path("numbers.csv").write_text("row,label\n" + "".join(lines))
        cli("tell", "n.state", "numbers.csv", "--correct", status=status)
        cli("active-learning", "report", "n.state", "--out", "page.html", status=0)


@made
def forged_runs_of_a_comparison() -> None:
    """A folder of results may come from someone else, and its runs may say anything."""
    compare = {"methods": ["uniform"], "budgets": [12], "seeds": 1, "out": "compared", "plot": False}
    cs.compare_methods("rows.npy", np.arange(60.0), **compare)
    path = Path("compared", "runs.jsonl")
    whole = path.read_bytes()
    for name in state_lines(path)[1]:
        if name in ("text", "budget", "seed", "failure"):  # then it is another run, which is made anew
            continue
        for value in (None, float("nan"), float("inf"), 1e308, 10**400, "<b>", [], {}, -1):
            path.write_bytes(whole)
            forge_state(path, [1, name], value)
            _read(cs.compare_methods, "rows.npy", np.arange(60.0), **compare)
