"""One small sound file of every kind that coresift reads."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from pyarrow import feather

import coresift as cs

N = 60
CHANGING = (".state", ".log")  # files that commands add to


def make_originals() -> None:
    """Write the files into the current folder."""
    rng = np.random.default_rng(0)
    rows = (np.eye(3)[np.arange(N) % 3] * 3 + rng.normal(size=(N, 3))).astype(np.float32)
    losses = np.abs(rows[:, 0]) + rng.exponential(size=N)
    _write_rows(rows)
    _write_answers(losses)
    _write_results(rows, losses)
    _write_states(rows, losses)
    _write_exports()
    _write_logs()
    _write_pictures()


def _write_rows(rows: Any) -> None:
    np.save("rows.npy", rows)
    table = pa.table(
        {
            "id": [f"k{row:03}" for row in range(N)],
            "emb": pa.array(list(rows), pa.list_(pa.float32())),
            "text": [f"text {row} " * (row % 4) for row in range(N)],
            "kind": pa.array([f"c{row % 3}" for row in range(N)]).dictionary_encode(),
            "fixed": pa.array(list(rows.astype(np.float64)), pa.list_(pa.float64(), 3)),
            "struct": pa.array([{"a": [row], "b": str(row)} for row in range(N)]),
        }
    )
    views = table.append_column("view", pa.array([f"a long view of row {row}" for row in range(N)], pa.string_view()))
    feather.write_feather(table, "rows.feather", compression="lz4", chunksize=25)
    feather.write_feather(table, "plain.feather", compression="uncompressed")
    for name, opened in (("rows.arrow", pa.ipc.new_file), ("stream.arrow", pa.ipc.new_stream)):
        with pa.OSFile(name, "wb") as sink, opened(sink, views.schema) as writer:
            writer.write_table(views, max_chunksize=25)
    pq.write_table(table, "rows.parquet", row_group_size=25)
    flat = {"id": table["id"], **{f"x{axis}": rows[:, axis].astype(np.float64) for axis in range(3)}}
    flat |= {"text": table["text"], "kind": [f"c{row % 3}" for row in range(N)]}
    pyarrow.csv.write_csv(pa.table(flat), "rows.csv")
    lines = [json.dumps({name: _plain(column[row]) for name, column in flat.items()}) for row in range(N)]
    Path("rows.jsonl").write_text("\n".join(lines) + "\n")


def _plain(cell: Any) -> Any:
    return cell.as_py() if hasattr(cell, "as_py") else cell.item() if hasattr(cell, "item") else cell


def _write_answers(losses: Any) -> None:
    table = pa.table({"row": np.arange(N), "loss": losses, "label": [f"c{row % 3}" for row in range(N)]})
    pq.write_table(table, "loss.parquet")
    pyarrow.csv.write_csv(table, "loss.csv")
    Path("loss.jsonl").write_text("\n".join(json.dumps(line) for line in table.to_pylist()) + "\n")
    numbers = pa.table({"row": np.arange(N), "label": losses, "value": losses})
    pyarrow.csv.write_csv(numbers, "labels.csv")
    np.save("predictions.npy", losses * 1.1)
    pq.write_table(pa.table({"hard": losses, "kind": [f"c{row % 3}" for row in range(N)]}), "signals.parquet")
    Path("given.txt").write_text("3\n7\n")


def _write_results(rows: Any, losses: Any) -> None:
    clustering = cs.cluster(rows, 4)
    cs.save(clustering, "clusters.npz")
    picked = cs.select(cs.open_rows("rows.parquet", column="emb"), losses, 20, clusters=4)
    for suffix in (".parquet", ".csv", ".jsonl"):
        cs.save(cs.select(rows, losses, 20, clusters=clustering), f"picked{suffix}")
        cs.save(picked, f"ids{suffix}", table="rows.parquet")
        cs.save(cs.cover(rows, 8), f"covered{suffix}")
    cs.save(cs.regression.select(rows, losses, 20).selection, "fitted.csv")
    labels = np.array([f"c{row % 3}" for row in range(N)])
    cs.save(cs.active_learning(rows, 20, rounds=2, labels=labels).complete(), "labeled.csv")
    _command("diagnose", "rows.npy", "--losses", "loss.csv", "--budget", 30, "--json", out="diagnosis.json")


def _write_states(rows: Any, losses: Any) -> None:
    cs.select(rows, cs.Oracle(lambda ids: losses[ids], journal="oracle.state", batch=4), 20)
    for job, answers, options in (
        ("select", "loss.csv", ()),
        ("regression", "labels.csv", ()),
        ("diagnose", "loss.csv", ()),
        ("active-learning", "loss.csv", ("--rounds", 2)),
    ):
        words = ["start", job] if job != "active-learning" else [job, "start"]
        out = f"{job}-out.{'json' if job == 'diagnose' else 'csv'}"
        _command(*words, "rows.npy", "--budget", 30, "--state", f"{job}.state", "--out", out, *options)
        _command("ask", f"{job}.state", "--out", f"{job}-ask.csv")
        _command("tell", f"{job}.state", _answered(f"{job}-ask.csv", answers, 4))

    words = (
        "rows.csv",
        "--predictions",
        "kind",
        "--budget",
        20,
        "--state",
        "evaluate.state",
        "--out",
        "evaluated.json",
    )
    _command("evaluate", "start", *words)
    _command("evaluate", "ask", "evaluate.state", "--out", "evaluate-ask.csv")
    _command("evaluate", "tell", "evaluate.state", _answered("evaluate-ask.csv", "loss.csv", 4))


def _answered(ask: str, answers: str, most: int) -> str:
    """Write the first answers that were asked for; return the name of their file."""
    asked = pyarrow.csv.read_csv(ask)["row"].to_pylist()[:most]
    table = pyarrow.csv.read_csv(answers)
    pyarrow.csv.write_csv(table.take(asked), f"told-{ask}")
    return f"told-{ask}"


def _write_exports() -> None:
    asked = pyarrow.csv.read_csv("active-learning-ask.csv")["row"].to_pylist()
    value = {"from_name": "kind", "to_name": "text", "type": "choices"}
    studio = [
        {
            "id": row,
            "data": {"row": row, "text": "x"},
            "annotations": [
                {"id": 1, "was_cancelled": False, "result": [{**value, "value": {"choices": [f"c{row % 3}"]}}]}
            ],
        }
        for row in asked
    ]
    Path("studio.json").write_text(json.dumps(studio))
    argilla = [
        {
            "id": str(row),
            "fields": {"text": "x"},
            "metadata": {},
            "responses": {"kind": [{"value": f"c{row % 3}", "user_id": "00000000", "status": "submitted"}]},
        }
        for row in asked
    ]
    Path("argilla.json").write_text(json.dumps(argilla))


def _write_logs() -> None:
    """Write logs of evaluation tools: a multiple-choice task of lm-evaluation-harness, and two forms of inspect_ai."""
    answers = [[[-1.0 - row % 2, False], [-1.5, True]] for row in range(12)]
    lines = [
        {"doc_id": row, "target": "1", "metrics": ["acc"], "acc": row % 2, "filter": "none", "filtered_resps": answer}
        for row, answer in enumerate(answers)
    ]
    Path("samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    samples = [
        {"id": f"q{row % 9}", "epoch": 1 + row // 9, "scores": {"match": {"value": "C" if row % 3 else "I"}}}
        for row in range(12)
    ]
    Path("inspected.json").write_text(json.dumps({"version": 2, "samples": samples}))
    with zipfile.ZipFile("inspected.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/summaries/1.json", json.dumps(samples[:6]))
        archive.writestr("summaries.json", json.dumps(samples))


def _write_pictures() -> None:
    """Write pixels, and a table of encoded pictures, some too large to be shown as they are."""
    from coresift.reporting.images import png

    rng = np.random.default_rng(1)
    pixels, large = (rng.integers(256, size=(N, side, side), dtype=np.uint8) for side in (8, 90))
    np.save("pixels.npy", pixels)
    pictures = [png(large[row] if row % 7 == 0 else pixels[row]) for row in range(N)]
    pq.write_table(pa.table({"row": np.arange(N), "picture": pictures}), "pictures.parquet")


def _command(*words: object, out: str | None = None) -> None:
    """Run a command, which must succeed, and perhaps keep what it prints."""
    from faults.known import cli

    outcome = cli(*words, status=0)
    if out is not None:
        Path(out).write_text(outcome.out)
