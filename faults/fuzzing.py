"""Coverage-guided fuzzing of everything that parses foreign bytes, with atheris (the extra `fuzz`).

    python -m faults.fuzzing --seconds 60                 every target in turn
    python -m faults.fuzzing journal manifest --seconds 600

Each target runs in a process of its own, begins with sound files, and mutates them towards code that no input has
reached yet. A value or one sentence is right; any other exception, a crash or an input that takes ten seconds is a
failure, and its bytes are kept in the folder of failures.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from faults.record import add, add_option

# The sound file that a target begins with, and how it is read.
TARGETS = {
    "journal": ("oracle.state", "_journal"),
    "learning": ("active-learning.state", "_journal"),
    "npy": ("rows.npy", "_rows"),
    "npz": ("clusters.npz", "_loaded"),
    "manifest": ("picked.jsonl", "_loaded"),
    "csv": ("loss.csv", "_answers"),
    "jsonl": ("loss.jsonl", "_answers"),
    "tasks": ("studio.json", "_tasks"),
    "records": ("argilla.json", "_tasks"),
    "log": ("samples.jsonl", "_log"),
    "inspected": ("inspected.json", "_log"),
    "rows": ("rows.csv", "_rows"),
}
PARSERS = (
    "coresift.oracle.lines",
    "coresift.oracle.journal",
    "coresift.storage",
    "coresift.answers",
    "coresift.logs",
    "coresift.registry",
    "coresift.tables.npy",
    "coresift.tables.textual",
    "coresift.tables.tasks",
    "coresift.tables.parts",
    "coresift.tables.table",
    "coresift.tables.values",
    "coresift.rows.tables",
    "coresift.types.selections",
    "coresift.types.flow",
    "coresift.types.provenance",
    "zipfile",
    "json.decoder",
)


def fuzz(target: str, sound: Path, arguments: list[str]) -> None:
    """Fuzz one target in this process, until libFuzzer's own limits end it."""
    import atheris

    with atheris.instrument_imports(include=list(PARSERS)):
        import coresift as cs
        from faults import reading

        for name in PARSERS:
            __import__(name)
    read: Callable[[Path], object] = getattr(reading, TARGETS[target][1])
    place = Path(tempfile.mkdtemp(prefix="fuzz-")) / f"input{sound.suffix}"

    def once(content: bytes) -> None:
        place.write_bytes(content)
        with suppress(cs.CoresiftError):
            read(place)

    atheris.Setup([sys.argv[0], *arguments], once)
    atheris.Fuzz()


def main() -> int:
    """Run targets one after the other and print a table."""
    if sys.argv[1:2] == ["--inside"]:
        fuzz(sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
        return 0
    parser = argparse.ArgumentParser(prog="python -m faults.fuzzing", description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"by default all: {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=int, default=60, help="for each target, by the clock (default 60)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=-1, help="the most inputs for each target")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="folder for inputs that fail")
    add_option(parser)
    options = parser.parse_args()
    from faults.kind import Bench
    from faults.processes import warm

    warm()
    bench, failed = Bench(), 0
    options.failures.mkdir(parents=True, exist_ok=True)
    print("| target | inputs, in one process | places reached | failures |\n|---|---|---|---|")
    for target in options.targets or TARGETS:
        inputs, reached, failure = _run(target, bench, options)
        failed += failure is not None
        if options.record is not None:
            add(
                options.record,
                "fuzz",
                target=target,
                inputs=inputs,
                reached=reached,
                seconds=options.seconds,
                seed=options.seed,
                failure=failure,
            )
        print(f"| {target} | {inputs:,} | {reached:,} | {failure or 0} |", flush=True)
    bench.close()
    return int(failed > 0)


def _run(target: str, bench: Any, options: argparse.Namespace) -> tuple[int, int, str | None]:
    sound = bench.originals / TARGETS[target][0]
    corpus = bench.top / f"corpus-{target}"
    corpus.mkdir()
    (corpus / "sound").write_bytes(sound.read_bytes())
    words = [sys.executable, "-m", "faults.fuzzing", "--inside", target, str(sound)]
    words += [f"-max_total_time={options.seconds}", f"-seed={options.seed}", f"-runs={options.runs}", "-timeout=10"]
    words += ["-rss_limit_mb=2048", "-max_len=20000", f"-artifact_prefix={options.failures}/{target}-", str(corpus)]
    ended = subprocess.run(words, capture_output=True, check=False, env=dict(os.environ))
    said = (ended.stdout + ended.stderr).decode("utf-8", "replace")
    inputs = [int(number) for number in re.findall(r"^#(\d+)", said, re.M)] + [0]
    reached = [int(number) for number in re.findall(r"cov: (\d+)", said)] + [0]
    done = re.search(r"Done (\d+) runs", said)
    if done is None or ended.returncode:
        found = re.search(r"=== Uncaught Python exception: ===\s*(.*)|SUMMARY: (.*)", said)
        return max(inputs), max(reached), (found[1] or found[2]) if found else said[-200:].replace("\n", " ")
    return int(done[1]), max(reached), None


if __name__ == "__main__":
    sys.exit(main())
