"""The command line with words at random: every verb, every flag, files of every kind and hostile values."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from faults.damaging import files_in
from faults.judging import misbehaved
from faults.kind import Bench, Case, Kind
from faults.processes import command, run

# Left out: what loads models, starts clusters, or changes the user's shell.
VERBS_LEFT_OUT = {"embed", "demo"}
FLAGS_LEFT_OUT = {
    "--engine",
    "--address",
    "--text",
    "--embed-model",
    "--loss-model",
    "--device",
    "--install-completion",
    "--show-completion",
    "--gradient",
    "--prefix",
    "--work",
}
VALUES = (
    "0",
    "-1",
    "1",
    "3",
    "12",
    "60",
    "61",
    "1e308",
    "nan",
    "inf",
    "9" * 30,
    "9" * 5_000,
    "",
    " ",
    "x",
    "emb",
    "kind",
    "loss",
    "label",
    "id",
    "row",
    "text",
    "é\u202e",
    "\x1b[31m",
    "Learned()",
    "Sensitivity(holder='robust')",
    "Distance(power=0)",
    "__import__('os').system('touch PWNED')",
    "Poisson()",
    "[1]",
    "free",
    "json",
    "..",
    "/",
    "/dev/null",
    "new.csv",
    "new.parquet",
    "new.jsonl",
    "new.html",
    "new.npz",
    "new.json",
    "none/new.csv",
    "s3://KEY1:SECRET1@b.invalid?endpoint_override=127.0.0.1:1",
    "rows.*",
    "kind,text",
    "loss.csv:loss",
    "label-studio",
    "argilla",
    "picture",
    "pixels.npy",
    "f1",
    "p95",
    "0.1",
)
# Commands that once went wrong, and the status that they must end with, if only one is right.
FIRST = (
    ("select rows.npy --losses loss.csv --budget 12 --given all.txt", 2),
    ("select rows.npy --clusters " + "9" * 5_000, 2),
    ("compare-methods rows.npy --losses loss.csv --budget 12 --seeds 99999999999999999999", 2),
    ("select s3://KEY1:SECRET1@b.invalid?endpoint_override=127.0.0.1:1 --budget 5", 2),
    ("estimate picked.csv --values groups.csv --group \x1b]0;x\x07", 2),
    ("estimate picked.csv --values groups.csv --group evil", 0),
    ("select evil.csv --losses bad.csv --budget 12", 2),
    ("select evil.csv --budget 12", 0),
    ("select rows.npy --losses two.csv --budget 12", 2),
    ("select rows.npy --losses two.parquet --budget 12", 2),
    ("select rows.npy --budget 12 --clusters bomb.npz", 2),
)


INFLATED = 400 * 2**20  # bytes that a command needs only if it inflates bomb.npz


class Words(Kind):
    """A command ends in a result or in one sentence; what is refused leaves nothing, and no secret is shown."""

    name: ClassVar[str] = "words of the command line"
    share: ClassVar[float] = 2.0

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        run(_more_files, bench.originals)

    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield commands that once went wrong, then random ones."""
        for words, status in FIRST:
            yield {"words": words.split(" "), "status": status}
        verbs = _verbs()
        files = sorted(path.name for path in self.bench.originals.iterdir())
        while True:
            yield {"words": _random(verbs, files, rng)}

    def problem(self, case: Case) -> str | None:
        """Run the command in a child."""
        with self.bench.folder() as folder:
            before = files_in(folder)
            os.environ |= {"HOME": str(folder), "HF_HUB_OFFLINE": "1"}
            outcome = run(command(case["words"]), folder)
            left = files_in(folder) - before
            if problem := misbehaved(outcome):
                return problem
            if outcome.status != case.get("status", outcome.status):
                return f"exit {outcome.status}: {outcome.out[:200]}{outcome.err[:200]}"
            if "bomb.npz" in case["words"] and outcome.peak > INFLATED:
                return f"{outcome.peak / 2**20:.0f} MB for a file of less than one"
            if "SECRET1" in outcome.out + outcome.err:
                return "shows a key"
            if "PWNED" in left:
                return "runs what it was given"
            return f"is refused, but leaves {sorted(left)[0]}" if outcome.status == 2 and left else None


def _verbs() -> dict[tuple[str, ...], list[Any]]:
    """Return the parameters of every verb, of verbs within verbs too."""
    from typer.main import get_group

    from coresift.cli.app import app

    found: dict[tuple[str, ...], list[Any]] = {}

    def look(names: tuple[str, ...], group: Any) -> None:
        for name, one in group.commands.items():
            if hasattr(one, "commands"):
                look((*names, name), one)
            elif name not in VERBS_LEFT_OUT:
                found[(*names, name)] = [part for part in one.params if not set(part.opts) & FLAGS_LEFT_OUT]

    look((), get_group(app))
    return found


def _random(verbs: dict[tuple[str, ...], list[Any]], files: list[str], rng: np.random.Generator) -> list[str]:
    names = list(verbs)
    verb = names[rng.integers(len(names))]
    if verb == ("compare-methods",) and rng.random() < 0.7:  # it starts processes, which take long
        verb = ("select",)
    words = list(verb)

    def value() -> str:
        pool = files if rng.random() < 0.5 else VALUES
        return str(pool[rng.integers(len(pool))])

    for part in verbs[verb]:
        if part.param_type_name == "argument":
            words.append("rows.npy" if part.name == "rows" and rng.random() < 0.7 else value())
        elif rng.random() < (0.8 if part.name in ("budget", "losses", "out") else 0.12):
            flag = part.opts[0]
            usual = {"--budget": "12", "--losses": "loss.csv", "--out": "new.csv"}.get(flag)
            sound = usual is not None and rng.random() < 0.8
            words += [flag] if part.is_flag else [flag, usual if sound and usual else value()]
    return words


def _more_files() -> None:
    """Write files that are sound, but hostile."""
    import zipfile
    from pathlib import Path

    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    evil = "\x1b]0;x\x07"
    Path("all.txt").write_text("\n".join(map(str, range(60))))
    ids = [f"{evil}{row}" for row in range(60)]
    table = pa.table({"id": ids, "x": np.arange(60.0), evil: np.ones(60)})
    pyarrow.csv.write_csv(table, "evil.csv")
    pyarrow.csv.write_csv(pa.table({"id": ids, "loss": -np.ones(60)}), "bad.csv")
    groups = {"row": np.arange(60), "loss": np.ones(60), "evil": [f"{evil}{row % 2}" for row in range(60)]}
    pyarrow.csv.write_csv(pa.table(groups), "groups.csv")
    two = pa.table([np.arange(60), np.ones(60), np.zeros(60)], names=["row", "loss", "loss"])
    pyarrow.csv.write_csv(two, "two.csv")
    pq.write_table(two, "two.parquet")
    with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("labels.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (5 * 10**7,)})
        for _ in range(50):
            file.write(bytes(8 * 10**6))
