"""Speed and memory of coverage: beside apricot's facility location, and beside clustering as rows and budget grow.

    python -m benchmarks.coverage                  both, about half an hour on two cores
    python -m benchmarks.coverage apricot          one of them (the other's figures stay)
    python -m benchmarks.coverage scale --again    forget its figures first

Each case is stored once it is done, so a run goes on where the last one stopped.

*apricot* maximizes the same sum, Σ max κ with the same Gaussian kernel, on 20,000 × 64 made-up rows; the time that it
takes to compute the kernel counts. *scale* chooses from made-up rows of 384 numbers in a file, and clusters the same
rows into as many clusters. Everything runs in a process of its own; seconds are those of the clock, processor seconds
those of all threads together, which a busy machine changes less. Memory is the peak of what is not a page of the mapped
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
# Rows and budgets, the largest first: growing together, and the budget alone.
SCALES = ((1_000_000, 10_000), (100_000, 1_000), (300_000, 3_000), (1_000_000, 1_000), (1_000_000, 3_000))
DIMENSION = 384
Facts = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", help=", ".join(SECTIONS))
    parser.add_argument("--again", action="store_true", help="measure again what has been measured")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        name, source, n, budget = arguments.run
        if name == "apricot":
            theirs(np.eye(50, dtype=np.float32), 2)  # what it compiles on its first use does not count
        print(json.dumps(timed(lambda: RUNS[name](np.load(source, mmap_mode="r")[: int(n)], int(budget)))))
        return
    path = RESULTS / "coverage.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    for name in arguments.sections or SECTIONS:
        known = [] if arguments.again else kept.get(name, [])
        for fact in SECTIONS[name](known):
            print(json.dumps(fact, indent=1), flush=True)
            known = [*known, fact]
            kept[name] = known
            path.write_text(json.dumps(kept, indent=1) + "\n")
            (RESULTS / "coverage.md").write_text(report(kept))
    if kept.get("scale"):
        plot(kept["scale"], RESULTS / "coverage.svg")


def apricot(known: list[Facts], n: int = 20_000, d: int = 64, budget: int = 1_000) -> Iterator[Facts]:
    """Compare with apricot on clusters and on noise, where that is not known yet."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((n, d), np.float32)
    middles = rng.standard_normal((50, d), np.float32)
    clusters = middles[rng.integers(50, size=n)] + 0.7 * rng.standard_normal((n, d), np.float32)
    for name, rows in (("50 clusters", clusters), ("isotropic noise", noise)):
        if any(fact["rows"] == name for fact in known):
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "rows.npy"
            np.save(source, rows)
            runs = {method: in_a_process(method, source, n, budget) for method in ("exact", "groups", "apricot")}
        yield {"rows": name, "n": n, "d": d, "budget": budget, **runs}


def scale(known: list[Facts]) -> Iterator[Facts]:
    """Compare with clustering as rows and budgets grow, where that is not known yet."""
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
    words = [sys.executable, "-m", "benchmarks.coverage", "--run", method, str(source), str(n), str(budget)]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def timed(choose: Callable[[], float]) -> Facts:
    with peak_memory() as peak:
        start, processor = time.perf_counter(), time.process_time()
        value = choose()
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
    return {"seconds": seconds, "processor": processor, "peak_gb": peak[0] / 1e9, "value": value}


def bandwidth(rows: np.ndarray) -> float:
    """A bandwidth for all: half the root mean square distance between rows of this kind."""
    return float(0.5 * np.sqrt(2 * rows.var(axis=0).sum()))


def ours(rows: np.ndarray, budget: int, exact: bool) -> float:
    with Local().open(Progress()) as workers:
        rng = np.random.default_rng(0)
        found = cover_rows(open_rows(rows), budget, workers, rng, bandwidth=bandwidth(rows), exact=exact)
    return float(found.kernel().sum(dtype=np.float64))


def theirs(rows: np.ndarray, budget: int) -> float:
    from apricot import FacilityLocationSelection  # noqa: PLC0415

    squares = np.einsum("ij,ij->i", rows, rows)
    kernel = rows @ rows.T
    kernel *= 2
    kernel -= squares + squares[:, None]
    kernel /= 2 * bandwidth(rows) ** 2
    np.exp(np.minimum(kernel, 0, out=kernel), out=kernel)
    chosen = FacilityLocationSelection(budget, metric="precomputed").fit(kernel.astype(np.float64)).ranking
    return float(kernel[:, chosen].max(axis=1).sum(dtype=np.float64))


def clustered(rows: np.ndarray, budget: int) -> float:
    return cs.cluster(rows, budget, progress=False).snapped_cost


def covered(rows: np.ndarray, budget: int) -> float:
    return float(cover(rows, budget, progress=False).ids.size)


RUNS: dict[str, Callable[[np.ndarray, int], float]] = {
    "exact": lambda rows, budget: ours(rows, budget, exact=True),
    "groups": lambda rows, budget: ours(rows, budget, exact=False),
    "apricot": theirs,
    "cover": covered,
    "cluster": clustered,
}
SECTIONS = {"apricot": apricot, "scale": scale}


def report(found: dict[str, list[Facts]]) -> str:
    text = "# Coverage: speed and memory on two cores\n"
    if "apricot" in found:
        text += "\n## The same sum, beside apricot's facility location\n\n"
        text += "| rows | n × d | chosen | method | seconds | processor seconds | peak memory, GB | sum |\n"
        text += "|---|---|---|---|---|---|---|---|\n"
        for fact in found["apricot"]:
            for method in ("exact", "groups", "apricot"):
                one = fact[method]
                text += f"| {fact['rows']} | {fact['n']:,} × {fact['d']} | {fact['budget']:,} | {method} "
                text += (
                    f"| {one['seconds']:.1f} | {one['processor']:.1f} | {one['peak_gb']:.2f} | {one['value']:,.1f} |\n"
                )
    if "scale" in found:
        text += "\n## Beside clustering into as many clusters\n\n"
        text += "| n × d | chosen | seconds | of clustering | ratio | processor seconds | of clustering | ratio "
        text += "| peak memory, GB |\n|---|---|---|---|---|---|---|---|---|\n"
        for fact in found["scale"]:
            one, other = fact["cover"], fact["cluster"]
            text += f"| {fact['n']:,} × {fact['d']} | {fact['budget']:,} "
            for unit in ("seconds", "processor"):
                text += f"| {one[unit]:.0f} | {other[unit]:.0f} | {one[unit] / other[unit]:.2f} "
            text += f"| {one['peak_gb']:.2f} |\n"
    return text


def plot(facts: list[Facts], path: Path) -> None:
    """Draw the time against rows and against the budget."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "coresift"  # the same figures give the same file
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    most = max(fact["n"] for fact in facts)
    growing = sorted((fact for fact in facts if fact["budget"] * 100 == fact["n"]), key=lambda fact: fact["n"])
    largest = sorted((fact for fact in facts if fact["n"] == most), key=lambda fact: fact["budget"])
    for axis, some, name, label in (
        (axes[0], growing, "n", "rows (a hundredth is chosen)"),
        (axes[1], largest, "budget", f"rows chosen of {most:,}"),
    ):
        for method in ("cover", "cluster"):
            axis.loglog([one[name] for one in some], [one[method]["seconds"] for one in some], "o-", label=method)
        axis.set_xlabel(label)
        axis.set_ylabel("seconds")
        axis.legend()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
