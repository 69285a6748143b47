"""The k-means of other libraries, each in its own process: `python -m benchmarks.kmeans_peers NAME ROWS.npy K OUT.npy`.

It prints the seconds of the fit by the clock and by the processor, without imports and reading, and writes the
centers. All libraries use both cores and
one initialization. faiss has its own OpenBLAS, which must be told the type of CPU; `run` does that.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

Matrix = NDArray[np.float32]


def sklearn_kmeans(rows: Matrix, k: int) -> Matrix:
    """Run k-means++ and up to 25 Lloyd iterations."""
    from sklearn.cluster import KMeans  # noqa: PLC0415

    return KMeans(k, init="k-means++", n_init=1, max_iter=25, random_state=0).fit(rows).cluster_centers_


def sklearn_minibatch(rows: Matrix, k: int) -> Matrix:
    """Run with default options and one initialization."""
    from sklearn.cluster import MiniBatchKMeans  # noqa: PLC0415

    return MiniBatchKMeans(k, n_init=1, random_state=0).fit(rows).cluster_centers_


def faiss_kmeans(rows: Matrix, k: int) -> Matrix:
    """Run 25 iterations from random rows; by default, faiss uses 256 rows per center."""
    import faiss  # noqa: PLC0415

    fitted = faiss.Kmeans(rows.shape[1], k, niter=25, seed=1)
    fitted.train(rows)
    return np.asarray(fitted.centroids)


PEERS = {"sklearn KMeans": sklearn_kmeans, "MiniBatchKMeans": sklearn_minibatch, "faiss.Kmeans": faiss_kmeans}


def run(name: str, rows: Matrix, k: int) -> tuple[float, float, Matrix]:
    """Fit in a new process; return the seconds by the clock and by the processor, and the centers."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "rows.npy", Path(folder) / "centers.npy"
        np.save(source, rows)
        command = [sys.executable, "-m", "benchmarks.kmeans_peers", name, str(source), str(k), str(out)]
        environment = os.environ | {"OPENBLAS_CORETYPE": core_type()} if name.startswith("faiss") else None
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        clock, processor = map(float, done.stdout.split()[-2:])
        return clock, processor, np.load(out).astype(np.float32)


def core_type() -> str:
    """Return the type of CPU that numpy's OpenBLAS detected."""
    return next(str(pool["architecture"]) for pool in threadpool_info() if pool["internal_api"] == "openblas")


def import_library(name: str) -> None:
    """Import a peer's library, so that it does not count."""
    import_module("faiss" if name.startswith("faiss") else "sklearn.cluster")


def main() -> None:
    name, source, k, out = sys.argv[1:]
    rows = np.load(source)
    import_library(name)
    start, used = time.perf_counter(), time.process_time()
    centers = PEERS[name](rows, int(k))
    print(time.perf_counter() - start, time.process_time() - used)
    np.save(out, centers)


if __name__ == "__main__":
    main()
