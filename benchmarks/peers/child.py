"""One tool does one job with some seeds: `python -m benchmarks.peers.child JOB TOOL BUDGET SEEDS DATA.npz OUT.npz`.

Prints a line of JSON per seed: CPU seconds of calling the tool, those of the first call with its imports, the peak of
the process's memory in megabytes after the first call, interpreter and imports included; or the error.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.shared import Array
from benchmarks.peers.tools import JOBS

# A process that needs more seconds of CPU time is ended.
CPU_LIMIT = 300


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT))
    job, tool, budget, seeds, source, out = sys.argv[1:]
    warnings.simplefilter("ignore")
    with np.load(source) as kept:
        data = {name: kept[name] for name in kept.files}
    results: dict[str, Array] = {}
    for place, seed in enumerate(map(int, seeds.split(","))):
        facts: dict[str, Any] = {"seed": seed, "first": place == 0}
        start = time.process_time()
        try:
            found = JOBS[job][tool](_given(data, place), int(budget), seed)
        except Exception as error:  # what a tool raises is a result
            print(json.dumps({"seed": seed, "error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}))
            break
        facts["cpu_seconds"] = round(time.process_time() - start, 3)
        if place == 0:
            facts["peak_megabytes"] = round(peak_megabytes(), 1)
        results |= {f"{seed} {name}": values for name, values in found.items()}
        print(json.dumps(facts))
    np.savez(out, **results)


def _given(data: dict[str, Array], place: int) -> dict[str, Array]:
    """Return what a tool is given: arrays called "own" have a part for each seed."""
    return {
        name.removeprefix("own "): values[place] if name.startswith("own ") else values for name, values in data.items()
    }


def peak_megabytes() -> float:
    """Return the peak of this process since its program began; ru_maxrss would count its parent, too. Linux only."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1000 if found else float("nan")


if __name__ == "__main__":
    main()
