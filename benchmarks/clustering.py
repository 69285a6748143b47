"""Speed, cost and memory of the clustering, compared with the arithmetic limit and with other libraries.

    python -m benchmarks.clustering                  everything, about forty minutes on two cores
    python -m benchmarks.clustering kernel           one section: kernel, clustering, sentences, cifar, texts, mixtures,
                                                     paper or growth
    python -m benchmarks.clustering --report         only write the page and the plot, from the stored figures

*The limit* is the time of the matrix product in one assignment of n rows to k centers: 2nkd operations, in chunks of
rows, on all cores, in the same run. Costs are those of free centers, with every row at its nearest center in full
dimension. Each section writes its part of `results/clustering.json`, from which `results/clustering.md` and the plot
are made. The sentence embeddings come from `benchmarks.embeddings`, CIFAR-10 features from `benchmarks.features`, and
MNIST from the data folder. Nothing was tuned on the rows of `cifar`, `texts` and `mixtures`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from benchmarks import kmeans_peers
from benchmarks.clustering_report import write_report
from benchmarks.embeddings import embeddings, read_sentences
from benchmarks.features import load
from benchmarks.measuring import (
    assign,
    both_times,
    costs,
    limit,
    peak_memory,
    powers,
    processor_name,
    side_by_side,
    write_rows,
)
from benchmarks.problems import data_folder
from benchmarks.problems.base import Arrays, cached
from benchmarks.problems.texts import latent
from benchmarks.weiszfeld import weiszfeld
from coresift.clustering.search import choose_search
from coresift.clustering.snapping import assign_rows
from coresift.clustering.space import principal_axes
from coresift.progress import Progress

RESULTS = Path(__file__).parent / "results"
Facts = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", help=", ".join(SECTIONS))
    parser.add_argument("--report", action="store_true", help="only write the page and the plot")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(run(**json.loads(arguments.run))))
        return
    path = RESULTS / "clustering.json"
    for name in [] if arguments.report else arguments.sections or SECTIONS:
        facts = [fact | {"machine": processor_name()} for fact in SECTIONS[name]()]
        print(json.dumps(facts, indent=1))
        stored = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(stored | {name: facts}, indent=1) + "\n")
    write_report(json.loads(path.read_text()), RESULTS)


def mnist() -> np.ndarray:
    with np.load(data_folder() / "mnist" / "mnist.npz", allow_pickle=False) as file:
        pixels = file["X_train"]
    return (pixels.reshape(len(pixels), -1) / 255.0).astype(np.float32)


# ------------------------------------------------------------------ one assignment of rows to given centers


def kernel() -> list[Facts]:
    rng = np.random.default_rng(0)
    facts = []
    for n, d in ((16_384, 768), (131_072, 64)):
        rows, centers = rng.standard_normal((n, d), np.float32), rng.standard_normal((4500, d), np.float32)
        times = side_by_side(
            {"limit": lambda: limit(n, 4500, d), "ours": lambda: assign(cs.open_rows(rows), centers)},  # noqa: B023
            times=8,
        )
        facts.append({"case": f"exact, d={d}", "n": n, "d": d, "ratio": times["ours"] / times["limit"]})
    noise = rng.standard_normal((65_536, 384), np.float32)
    facts.append(reduced("isotropic noise", noise, noise[:4500] * 0.5))
    pixels = mnist()
    facts.append(reduced("MNIST pixels", pixels, cs.cluster(pixels, 4500).free_centers))
    return facts


def reduced(name: str, array: np.ndarray, centers: np.ndarray) -> Facts:
    """Time the search that is chosen automatically: the assignment, and separately finding axes and choosing."""
    rows = cs.open_rows(array)
    n, d, k = rows.n, rows.d, len(centers)
    results: dict[str, Any] = {}

    def choose() -> None:
        with cs.engines.Local().open(Progress()) as workers:
            rng = np.random.default_rng(0)
            axes = principal_axes(rows, rng, workers)
            results["search"] = choose_search(rows, centers, 2.0, axes, rng, workers, tolerance=0.005)

    def ours() -> None:
        with cs.engines.Local().open(Progress()) as workers:
            results["distances"] = assign_rows(rows, results["search"], workers)[1]

    times, used = both_times({"limit": lambda: limit(n, k, d), "choice": choose, "ours": ours}, times=3)
    inflation = powers(results["distances"], 2.0) / powers(assign(rows, centers)[1], 2.0) - 1
    ratios = {"ratio": times["ours"] / times["limit"], "choice": times["choice"] / times["limit"]}
    ratios["processor"] = (used["ours"] + used["choice"]) / used["limit"]
    return {"case": name, "n": n, "d": d, **ratios, "inflation": inflation, "search": results["search"].path}


# --------------------------------------------------------------------- complete clusterings, and other libraries


def clustering() -> list[Facts]:
    return [against_peers("MNIST pixels", mnist(), 500), against_twin(mnist()[:6000], 300)]


def sentences() -> list[Facts]:
    """Measure the assignment and the clustering on sentence embeddings, which take fifteen minutes to compute once."""
    rows = embeddings().astype(np.float32)
    assignment = reduced("MiniLM sentences", rows, cs.cluster(rows, 4500).free_centers)
    return [assignment, against_peers("MiniLM sentences", rows, 1000)]


def cifar() -> list[Facts]:
    return [against_peers("CIFAR-10 features", load("cifar10").x, 500)]


def texts() -> list[Facts]:
    return [against_peers("latent semantic vectors", cached(sentence_vectors)["vectors"], 1000)]


def sentence_vectors() -> Arrays:
    """Return 100,000 sentences of the European Parliament as vectors of 64 latent semantic dimensions."""
    return {"vectors": latent(read_sentences()[:100_000], seed=21)}


def mixtures() -> list[Facts]:
    """Cluster isotropic Gaussian clusters of equal size, of which there are fewer or more than k."""
    facts = []
    for clusters in (20, 2_000):
        rng = np.random.default_rng(clusters)
        means = 2 * rng.standard_normal((clusters, 64), np.float32)
        rows = means[rng.integers(clusters, size=100_000)] + rng.standard_normal((100_000, 64), np.float32)
        facts.append(against_peers(f"{clusters:,} isotropic clusters", rows, 1000))
    return facts


def against_peers(name: str, array: np.ndarray, k: int) -> Facts:
    rows, methods = cs.open_rows(array), []
    tasks = {"limit": lambda: limit(rows.n, k, rows.d), "ours": lambda: cs.cluster(array, k)}
    times, used = both_times(tasks, times=3)
    ours = cs.cluster(array, k)
    free, snapped = costs(rows, ours.free_centers)
    taken = {"seconds": times["ours"], "processor": used["ours"]}
    methods.append({"method": "coresift", **taken, "free": free, "snapped": snapped})
    for peer in kmeans_peers.PEERS:
        seconds, processor, centers = kmeans_peers.run(peer, array, k)
        free, snapped = costs(rows, centers)
        taken = {"seconds": seconds, "processor": processor}
        methods.append({"method": peer, **taken, "free": free, "snapped": snapped})
        print(name, methods[-1], flush=True)
    limits = {
        "limit": times["limit"],
        "limit_processor": used["limit"],
        "own free cost": ours.free_cost,
        "search": ours.search,
    }
    return {"case": name, "n": rows.n, "d": rows.d, "k": k, **limits, "methods": methods}


def against_twin(array: np.ndarray, k: int) -> Facts:
    """Compare z = 1 with a plain implementation: seeding on all rows, and medians by Weiszfeld's iteration."""
    rows = cs.open_rows(array)
    methods = []
    for method, task in (
        ("coresift", lambda: cs.cluster(array, k, z=1).free_centers),
        ("plain Weiszfeld", lambda: weiszfeld(array, k)),
    ):
        start = time.perf_counter()
        centers = task()
        seconds = time.perf_counter() - start
        free, snapped = costs(rows, centers, z=1.0)
        methods.append({"method": method, "seconds": seconds, "free": free, "snapped": snapped})
    one_pass = limit(rows.n, k, rows.d)
    return {"case": "MNIST pixels, z=1", "n": rows.n, "d": rows.d, "k": k, "limit": one_pass, "methods": methods}


# ------------------------------------------------------------------------- large files, each in its own process


def paper() -> list[Facts]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        write_rows(path, 4_600_000, 768)
        selection = in_process(path=str(path), k=4_500, budget=45_000)
        write_rows(path, 1_000_000, 384)
        return [selection, in_process(path=str(path), k=45_000, tolerance=0.03, checked=60_000)]


def growth() -> list[Facts]:
    facts = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        for n in (100_000, 200_000, 400_000, 800_000, 1_600_000):
            write_rows(path, n, 256)
            facts.append({"against": "n", **in_process(path=str(path), k=1000)})
        write_rows(path, 500_000, 256)
        for k in (500, 1000, 2000, 4000, 8000, 16_000, 32_000):
            facts.append({"against": "k", **in_process(path=str(path), k=k)})
    return facts


def in_process(**task: Any) -> Facts:
    """Run a task in a new process, to measure its memory alone."""
    command = [sys.executable, "-m", "benchmarks.clustering", "--run", json.dumps(task)]
    facts: Facts = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    print(json.dumps(facts), flush=True)
    return facts


def run(path: str, k: int, budget: int | None = None, tolerance: float = 0.005, checked: int = 0) -> Facts:
    """Cluster the rows of a file, or select from them. The limit is timed on some of the rows, before and after."""
    rows = cs.open_rows(path)
    part = min(rows.n, max(4096, int(4e11 / (2 * k * rows.d))))
    before = limit(part, k, rows.d)
    with peak_memory() as peak:
        start = time.perf_counter()
        if budget is None:
            clustering = cs.cluster(rows, k, tolerance=tolerance)
        else:
            selection = cs.select(rows, losses=lambda ids: np.abs(np.sin(ids)), budget=budget, clusters=k)
        seconds = time.perf_counter() - start
    least = min(before, limit(part, k, rows.d)) * rows.n / part
    facts = {"n": rows.n, "d": rows.d, "k": k, "seconds": seconds, "limit": least, "ratio": seconds / least}
    facts["peak_gb"] = peak[0] / 1e9
    if budget is not None:
        return facts | {"selected": len(selection)}
    facts["search"] = clustering.search
    if checked:
        ids = np.sort(np.random.default_rng(9).choice(rows.n, checked, replace=False))
        sample = rows.take(ids)
        centers = clustering.free_centers
        distances = np.linalg.norm(sample - centers[clustering.labels[ids]], axis=1)
        facts["inflation"] = powers(distances, 2.0) / powers(assign(cs.open_rows(sample), centers)[1], 2.0) - 1
    return facts


SECTIONS = {
    "kernel": kernel,
    "clustering": clustering,
    "sentences": sentences,
    "cifar": cifar,
    "texts": texts,
    "mixtures": mixtures,
    "paper": paper,
    "growth": growth,
}

if __name__ == "__main__":
    main()
