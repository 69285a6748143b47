"""Speed and memory of `cover`, compared with apricot's facility location and with clustering.

    python -m benchmarks.coverage                  both, about half an hour on two cores
    python -m benchmarks.coverage apricot          one section (the other section's figures stay)
    python -m benchmarks.coverage scale --again    measure a section again

Each case is stored when it is done, so a new run continues where the last one stopped.

*apricot* maximizes the same sum, Σ max κ with the same Gaussian kernel, on 20,000 × 64 synthetic rows; its time
includes computing the kernel. *pairs* is what `cover` does with this many rows, *groups* what it does with more.
*scale* chooses from synthetic rows of 384 numbers in a file, and clusters the same rows into as many clusters as rows
are chosen. Every measurement has its own process. Seconds are wall-clock time; processor seconds are those of all
threads together, and depend less on what else the machine does. Memory is the peak without the pages of the mapped
file. Writes `results/coverage.json`, `.md` and `.svg`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.measuring import peak_memory, write_rows
from coresift.covering import cover
from coresift.engine import Local
from coresift.facility import cover_rows
from coresift.progress import Progress
from coresift.rows import open_rows

RESULTS = Path(__file__).resolve().parent / "results"
# Rows and budgets, the largest first: both grow together, and the budget grows alone.
SCALES = ((1_000_000, 10_000), (100_000, 1_000), (300_000, 3_000), (1_000_000, 1_000), (1_000_000, 3_000))
DIMENSION = 384
Facts = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", help=", ".join(SECTIONS))
    parser.add_argument("--again", action="store_true", help="ignore stored figures")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        name, source, n, budget = arguments.run
        if name == "apricot":
            run_apricot(np.eye(50, dtype=np.float32), 2)  # apricot compiles code on its first use, which does not count
        print(json.dumps(measure(lambda: RUNS[name](np.load(source, mmap_mode="r")[: int(n)], int(budget)))))
        return
    path = RESULTS / "coverage.json"
    stored = json.loads(path.read_text()) if path.exists() else {}
    for name in arguments.sections or SECTIONS:
        known = [] if arguments.again else stored.get(name, [])
        for fact in SECTIONS[name](known):
            print(json.dumps(fact, indent=1), flush=True)
            known = [*known, fact]
            stored[name] = known
            path.write_text(json.dumps(stored, indent=1) + "\n")
            (RESULTS / "coverage.md").write_text(report(stored))
    if stored.get("scale"):
        plot(stored["scale"], RESULTS / "coverage.svg")


def apricot(known: list[Facts], n: int = 20_000, d: int = 64, budget: int = 1_000) -> Iterator[Facts]:
    """Compare with apricot on clusters and on noise; skip known cases."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((n, d), np.float32)
    means = rng.standard_normal((50, d), np.float32)
    clusters = means[rng.integers(50, size=n)] + 0.7 * rng.standard_normal((n, d), np.float32)
    for name, rows in (("50 clusters", clusters), ("isotropic noise", noise)):
        if any(fact["rows"] == name for fact in known):
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "rows.npy"
            np.save(source, rows)
            runs = {method: in_a_process(method, source, n, budget) for method in ("pairs", "groups", "apricot")}
        yield {"rows": name, "n": n, "d": d, "budget": budget, **runs}


def scale(known: list[Facts]) -> Iterator[Facts]:
    """Compare with clustering as rows and budgets grow; skip known cases."""
    done = {(fact["n"], fact["budget"]) for fact in known}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "rows.npy"
        write_rows(source, max(n for n, _ in SCALES), DIMENSION)
        for n, budget in SCALES:
            if (n, budget) in done:
                continue
            runs = {method: in_a_process(method, source, n, budget) for method in ("cover", "cluster")}
            yield {"n": n, "d": DIMENSION, "budget": budget, **runs}


def in_a_process(method: str, source: Path, n: int, budget: int) -> Facts:
    command = [sys.executable, "-m", "benchmarks.coverage", "--run", method, str(source), str(n), str(budget)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(choose: Callable[[], float]) -> Facts:
    with peak_memory() as peak:
        start, processor = time.perf_counter(), time.process_time()
        value = choose()
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
    return {"seconds": seconds, "processor": processor, "peak_gb": peak[0] / 1e9, "value": value}


def bandwidth(rows: np.ndarray) -> float:
    """Return the bandwidth that all methods use: half the root mean square distance between two rows."""
    return float(0.5 * np.sqrt(2 * rows.var(axis=0).sum()))


def run_coresift(rows: np.ndarray, budget: int, grouped: bool | None) -> float:
    with Local().open(Progress()) as workers:
        rng = np.random.default_rng(0)
        chosen = cover_rows(open_rows(rows), budget, workers, rng, bandwidth=bandwidth(rows), grouped=grouped)
    return float(chosen.kernel().sum(dtype=np.float64))


def run_apricot(rows: np.ndarray, budget: int) -> float:
    from apricot import FacilityLocationSelection  # noqa: PLC0415

    squares = np.einsum("ij,ij->i", rows, rows)
    kernel = rows @ rows.T
    kernel *= 2
    kernel -= squares + squares[:, None]
    kernel /= 2 * bandwidth(rows) ** 2
    np.exp(np.minimum(kernel, 0, out=kernel), out=kernel)
    chosen = FacilityLocationSelection(budget, metric="precomputed").fit(kernel.astype(np.float64)).ranking
    return float(kernel[:, chosen].max(axis=1).sum(dtype=np.float64))


def run_cluster(rows: np.ndarray, budget: int) -> float:
    return cs.cluster(rows, budget, progress=False).snapped_cost


def run_cover(rows: np.ndarray, budget: int) -> float:
    return float(cover(rows, budget, progress=False).ids.size)


RUNS: dict[str, Callable[[np.ndarray, int], float]] = {
    "pairs": lambda rows, budget: run_coresift(rows, budget, grouped=None),
    "groups": lambda rows, budget: run_coresift(rows, budget, grouped=True),
    "apricot": run_apricot,
    "cover": run_cover,
    "cluster": run_cluster,
}
SECTIONS = {"apricot": apricot, "scale": scale}


def report(sections: dict[str, list[Facts]]) -> str:
    """Return the figures as a page."""
    text = "# Speed and memory of `cover` on two cores\n"
    if "apricot" in sections:
        text += "\n## Compared with apricot's facility location, which maximizes the same sum\n\n"
        text += "| rows | n × d | chosen | method | seconds | processor seconds | peak memory, GB | sum |\n"
        text += "|---|---|---|---|---|---|---|---|\n"
        for fact in sections["apricot"]:
            for method in (name for name, value in fact.items() if isinstance(value, dict)):
                run = fact[method]
                text += f"| {fact['rows']} | {fact['n']:,} × {fact['d']} | {fact['budget']:,} | {method} "
                text += (
                    f"| {run['seconds']:.1f} | {run['processor']:.1f} | {run['peak_gb']:.2f} | {run['value']:,.1f} |\n"
                )
    if "scale" in sections:
        text += "\n## Compared with clustering into as many clusters as rows are chosen\n\n"
        text += "| n × d | chosen | seconds | clustering's seconds | ratio | processor seconds "
        text += "| clustering's processor seconds | ratio | peak memory, GB |\n|---|---|---|---|---|---|---|---|---|\n"
        for fact in sections["scale"]:
            cover_run, cluster_run = fact["cover"], fact["cluster"]
            text += f"| {fact['n']:,} × {fact['d']} | {fact['budget']:,} "
            for unit in ("seconds", "processor"):
                text += f"| {cover_run[unit]:.0f} | {cluster_run[unit]:.0f} "
                text += f"| {cover_run[unit] / cluster_run[unit]:.2f} "
            text += f"| {cover_run['peak_gb']:.2f} |\n"
    return text


def plot(facts: list[Facts], path: Path) -> None:
    """Plot the time against the number of rows and against the budget."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "coresift"  # the same figures give the same file
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    most = max(fact["n"] for fact in facts)
    growing = sorted((fact for fact in facts if fact["budget"] * 100 == fact["n"]), key=lambda fact: fact["n"])
    largest = sorted((fact for fact in facts if fact["n"] == most), key=lambda fact: fact["budget"])
    for axis, series, name, label in (
        (axes[0], growing, "n", "rows (one in a hundred is chosen)"),
        (axes[1], largest, "budget", f"rows chosen out of {most:,}"),
    ):
        sizes = [fact[name] for fact in series]
        for method in ("cover", "cluster"):
            axis.loglog(sizes, [fact[method]["seconds"] for fact in series], "o-", label=method)
        axis.set_xlabel(label)
        axis.set_ylabel("seconds")
        axis.legend()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
