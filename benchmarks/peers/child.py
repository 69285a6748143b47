"""Run one tool on one job: `python -m benchmarks.peers.child JOB TOOL BUDGET SEEDS DATA.npz OUT.npz`.

It prints one line of JSON per seed: the CPU seconds of the call (the first call includes imports), and, after the first
call, the process's peak memory in megabytes, including interpreter and imports; or the error.
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

# A process that needs more seconds of CPU time is killed.
CPU_LIMIT = 300


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT))
    job, tool, budget, seeds, source, out = sys.argv[1:]
    warnings.simplefilter("ignore")
    with np.load(source) as file:
        data = {name: file[name] for name in file.files}
    results: dict[str, Array] = {}
    for number, seed in enumerate(map(int, seeds.split(","))):
        facts: dict[str, Any] = {"seed": seed, "first": number == 0}
        start = time.process_time()
        try:
            arrays = JOBS[job][tool](_data_of_run(data, number), int(budget), seed)
        except Exception as error:  # an error is a result, too
            print(json.dumps({"seed": seed, "error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}))
            break
        facts["cpu_seconds"] = round(time.process_time() - start, 3)
        if number == 0:
            facts["peak_megabytes"] = round(peak_megabytes(), 1)
        results |= {f"{seed} {name}": values for name, values in arrays.items()}
        print(json.dumps(facts))
    np.savez(out, **results)


def _data_of_run(data: dict[str, Array], number: int) -> dict[str, Array]:
    """Return the arrays of one run; those with the prefix "own" have one entry per run."""
    return {
        name.removeprefix("own "): values[number] if name.startswith("own ") else values
        for name, values in data.items()
    }


def peak_megabytes() -> float:
    """Return this process's peak memory (Linux only); ru_maxrss would also count its parent."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(match[1]) / 1000 if match else float("nan")


if __name__ == "__main__":
    main()
