"""What validation costs: the processor time of a selection from a million rows, with and without it.

python -m faults.speed                      without it: a copy of the source that lacks it
python -m faults.speed --before OTHER/src   or another version of the source
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

from faults.record import add, add_option
from faults.reverts import ROOT, bring_back

SELECT = """
import os, sys
import coresift as cs
cs.select(cs.open_rows(sys.argv[1], column="emb"), None, 1000, clusters=20, engine=ENGINE)
used = os.times()
print(used.user + used.system)  # imports included, which one version does at first and another when they are needed
"""


def seconds(source: Path, path: Path) -> float:
    """Return the processor time of one selection, in a process with this source."""
    # A version may have its engine elsewhere.
    code = SELECT.replace("ENGINE", "getattr(cs, 'engines', cs).Local(threads=1)")
    env = {**os.environ, "PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run([sys.executable, "-c", code, str(path)], env=env, capture_output=True, text=True, check=True)
    return float(ended.stdout)


def main() -> None:
    """Measure both sources in turn, and print the ratio of the smallest times."""
    parser = argparse.ArgumentParser(prog="python -m faults.speed", description=__doc__.partition("\n")[0])
    parser.add_argument("--before", type=Path, help="the source to compare with")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=3)
    add_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="speed-") as place:
        folder = Path(place)
        before = options.before or bring_back("H2", folder)
        numbers = np.random.default_rng(0).normal(size=options.rows * 16).astype(np.float32)
        emb = pa.FixedSizeListArray.from_arrays(numbers, 16)
        table = pa.table({"id": [f"row {row}" for row in range(options.rows)], "emb": emb})
        pq.write_table(table, folder / "rows.parquet")
        feather.write_feather(table, folder / "rows.arrow", compression="uncompressed")
        del table, emb, numbers
        print("| file | without (CPU s) | with | ratio |\n|---|---|---|---|")
        for name in ("rows.parquet", "rows.arrow"):
            found = [
                (seconds(before, folder / name), seconds(ROOT / "src", folder / name)) for _ in range(options.times)
            ]
            without, now = (min(times) for times in zip(*found, strict=True))
            if options.record is not None:
                add(
                    options.record,
                    "speed",
                    file=name,
                    before=round(without, 2),
                    after=round(now, 2),
                    times=options.times,
                )
            print(f"| {name} | {without:.2f} | {now:.2f} | {now / without:.3f} |", flush=True)


if __name__ == "__main__":
    main()
