"""One tool does one job: `python -m benchmarks.peers.child JOB TOOL BUDGET SEED DATA.npz OUT.npz`.

Prints a line of JSON: CPU seconds of importing and calling the tool (without reading the data), the peak of the
process's memory in megabytes, interpreter and imports included, or the error.
"""

from __future__ import annotations

import json
import re
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.peers.tools import JOBS


def main() -> None:
    job, tool, budget, seed, source, out = sys.argv[1:]
    warnings.simplefilter("ignore")
    with np.load(source) as kept:
        data = {name: kept[name] for name in kept.files}
    start = time.process_time()
    try:
        found = JOBS[job][tool](data, int(budget), int(seed))
    except Exception as error:  # what a tool raises is a result
        print(json.dumps({"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}))
        return
    seconds = time.process_time() - start
    np.savez(out, **found)
    print(json.dumps({"cpu_seconds": round(seconds, 3), "peak_megabytes": round(peak_megabytes(), 1)}))


def peak_megabytes() -> float:
    """Return the peak of this process since its program began; ru_maxrss would count its parent, too. Linux only."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1000 if found else float("nan")


if __name__ == "__main__":
    main()
