"""Damaged files of every kind, each used by a command in a process of its own."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np

from faults.judging import misbehaved
from faults.kind import Case, Kind
from faults.mutating import damage
from faults.originals import CHANGING
from faults.processes import command, run

SELECT = "--budget 12 --clusters 4 --out new.csv"
COLUMN = "--column emb " + SELECT
# The file that is damaged, and a command that reads it.
USES = (
    ("rows.npy", f"select rows.npy {SELECT}"),
    ("rows.npy", f"select URI(rows.npy) {SELECT}"),
    ("rows.npy", "cover rows.npy --budget 5 --out new.csv"),
    ("rows.arrow", f"select rows.arrow {COLUMN}"),
    ("rows.arrow", "cover rows.arrow --column fixed --budget 5 --out new.parquet"),
    ("stream.arrow", f"select stream.arrow {COLUMN}"),
    ("rows.feather", f"select rows.feather --column fixed {SELECT}"),
    ("plain.feather", f"select plain.feather {COLUMN} --strata kind"),
    ("plain.feather", "report picked.csv --table plain.feather --text text --label kind --out new.html"),
    ("rows.parquet", f"select rows.parquet {COLUMN}"),
    ("rows.parquet", "report picked.csv --rows rows.parquet --column emb --text text --label kind --out new.html"),
    ("rows.csv", f"select rows.csv {SELECT} --strata kind"),
    ("rows.jsonl", f"select rows.jsonl {SELECT}"),
    ("loss.csv", f"select rows.npy --losses loss.csv {SELECT}"),
    ("loss.jsonl", f"select rows.npy --losses loss.jsonl {SELECT}"),
    ("loss.parquet", f"select rows.npy --losses loss.parquet {SELECT}"),
    ("loss.csv", "estimate picked.csv --values loss.csv --group label"),
    ("loss.parquet", "certify picked.csv --losses loss.parquet"),
    ("labels.csv", "regression rows.npy --labels labels.csv --budget 12 --fit fit.csv --out new.csv"),
    ("predictions.npy", "estimate picked.csv --values loss.csv --predictions predictions.npy"),
    ("signals.parquet", f"select rows.npy --losses loss.csv --signals signals.parquet {SELECT}"),
    ("given.txt", f"select rows.npy --losses loss.csv --given given.txt {SELECT}"),
    ("clusters.npz", "select rows.npy --budget 12 --clusters clusters.npz --out new.csv"),
    ("clusters.npz", "report picked.csv --rows rows.npy --clusters clusters.npz --out new.html"),
    *((f"picked{suffix}", f"estimate picked{suffix} --values loss.csv") for suffix in (".parquet", ".csv", ".jsonl")),
    *((f"ids{suffix}", f"report ids{suffix} --text text --out new.html") for suffix in (".parquet", ".csv", ".jsonl")),
    *((f"covered{suffix}", f"report covered{suffix} --out new.html") for suffix in (".parquet", ".csv", ".jsonl")),
    ("labeled.csv", "report labeled.csv --out new.html"),
    ("pictures.parquet", "report picked.csv --table pictures.parquet --image picture --out new.html"),
    ("pixels.npy", "report picked.csv --rows rows.npy --image pixels.npy --out new.html"),
    ("diagnosis.json", "report picked.csv --diagnosis diagnosis.json --out new.html"),
    ("select.state", "status select.state"),
    ("select.state", "ask select.state --out new.csv"),
    ("select.state", "tell select.state loss.csv"),
    ("regression.state", "tell regression.state labels.csv"),
    ("diagnose.state", "tell diagnose.state loss.csv"),
    ("active-learning.state", "ask active-learning.state --format label-studio --out new.json"),
    ("active-learning.state", "tell active-learning.state studio.json"),
    ("active-learning.state", "active-learning report active-learning.state --out new.html"),
    ("evaluate.state", "evaluate status evaluate.state"),
    ("evaluate.state", "evaluate tell evaluate.state loss.csv"),
    ("evaluate.state", "evaluate ask evaluate.state --out new.csv"),
    ("evaluate.state", "evaluate plan evaluate.state"),
    ("evaluate.state", "evaluate report evaluate.state --out new.html"),
    ("rows.parquet", "evaluate start rows.parquet --predictions kind --budget 20 --state new.state"),
    (
        "rows.csv",
        "evaluate run rows.csv --predictions kind --groups kind --rows rows.npy --answers loss.csv --within 0.1",
    ),
    ("rows.csv", "active-learning start rows.npy --table rows.csv --budget 8 --state new.state"),
    ("rows.parquet", "active-learning start rows.parquet --column emb --budget 8 --state new.state"),
    ("rows.csv", "start select rows.csv --budget 12 --state new.state"),
    ("loss.csv", "diagnose rows.npy --losses loss.csv --budget 30"),
    ("rows.npy", "diagnose rows.npy --losses loss.csv --budget 30 --holder 1"),
    ("rows.parquet", "cover rows.parquet --column emb --budget 5 --out new.jsonl"),
    ("rows.parquet", "plan rows.parquet --column emb --budget 12 --strata kind"),
    ("rows.npy", "cluster rows.npy --clusters 4 --out new.npz"),
    ("rows.csv", "evaluate run rows.csv --predictions kind --answers loss.csv --budget 20 --out new.json"),
    ("loss.csv", "evaluate run rows.csv --predictions kind --answers loss.csv --budget 20 --out new.json"),
    ("studio.json", "tell active-learning.state studio.json"),
    ("argilla.json", "tell active-learning.state argilla.json"),
    ("told-select-ask.csv", "tell select.state told-select-ask.csv"),
    ("told-evaluate-ask.csv", "evaluate tell evaluate.state told-evaluate-ask.csv --correct"),
)


class Damage(Kind):
    """Whatever a file has become, a command that reads it ends in a result or in one sentence."""

    name: ClassVar[str] = "damaged files"
    share: ClassVar[float] = 4.0

    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield damage to each file in turn."""
        for name, words in USES:
            yield {"file": name, "words": words, "sound": True}
        while True:
            for name, words in USES:
                seed = int(rng.integers(2**31))
                case: Case = {"file": name, "words": words, "seed": seed}
                if (
                    Path(name).suffix not in CHANGING
                ):  # a state file names the folder of its rows, which is new each time
                    case["content"] = base64.b64encode(self._damaged(name, seed)).decode()
                yield case

    def _damaged(self, name: str, seed: int) -> bytes:
        return damage((self.bench.originals / name).read_bytes(), np.random.default_rng(seed))

    def _content(self, case: Case) -> bytes:
        if "content" in case:
            return base64.b64decode(case["content"])
        return self._damaged(case["file"], case["seed"]) if "seed" in case else self._sound(case["file"])

    def _sound(self, name: str) -> bytes:
        return (self.bench.originals / name).read_bytes()

    def problem(self, case: Case) -> str | None:
        """Run the command; if it refuses, it must have left no file behind and the damaged one alone."""
        with self.bench.folder() as folder:
            target, content = folder / case["file"], self._content(case)
            target.unlink(missing_ok=True)
            target.write_bytes(content)
            before = files_in(folder)
            outcome = run(command(words_of(case["words"], folder)), folder)
            if problem := misbehaved(outcome):
                return problem
            left = files_in(folder) - before
            if case.get("sound") and outcome.status:
                return f"a sound file is refused: {outcome.err}"
            if outcome.status == 2 and left:
                return f"is refused, but leaves {sorted(left)[0]}"
            if outcome.status == 2 and target.read_bytes() != content:
                return "is refused, but the file was changed"
        return None


def words_of(text: str, folder: Path) -> list[str]:
    """Return the words of a command; URI(name) becomes the file's URI."""
    return [(folder / word[4:-1]).as_uri() if word.startswith("URI(") else word for word in text.split()]


def files_in(folder: Path) -> set[str]:
    """Return the names of all files."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and ".work" not in str(path)}
