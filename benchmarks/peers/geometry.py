"""How each tool chooses rows that cover the data, or finds cluster centers."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers.shared import Array, Data, Tool, draw, one_thread


def cover_coresift(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run `cs.cover` with default options."""
    import coresift as cs  # noqa: PLC0415

    return {"ids": cs.cover(data["x"], budget, seed=seed, engine=one_thread()).ids}


def cover_uniform(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Choose random rows."""
    return {"ids": draw(len(data["x"]), budget, seed)}


def cover_kmeans(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Choose the row nearest to each center of scikit-learn's KMeans."""
    return {"ids": np.unique(nearest_to_centers(data["x"], budget, seed)[0])}


def cover_kmedoids(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run FasterPAM by kmedoids, which minimizes the sum of distances directly; it needs all distances in memory."""
    import kmedoids  # noqa: PLC0415
    from sklearn.metrics import pairwise_distances  # noqa: PLC0415

    result = kmedoids.fasterpam(pairwise_distances(data["x"]), budget, random_state=seed, n_cpu=1)
    return {"ids": np.asarray(result.medoids, np.int64)}


def cover_apricot(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run facility location by apricot."""
    return {"ids": apricot_rows(data["x"], budget, seed)}


def cover_coreax(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run kernel herding by coreax."""
    return {"ids": herded_rows(data["x"], budget)[0]}


def cover_semhash(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Find representatives by semhash, by cosine similarity; all rows are candidates.

    Its strategy "cover" is not compared: it was worse on the small data sets, and slow on the others.
    """
    from semhash import SemHash  # noqa: PLC0415

    class NoEncoder:
        def encode(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("the embeddings are known, so nothing must be encoded")

    records = [{"row": str(row)} for row in range(len(data["x"]))]
    hashed = SemHash.from_embeddings(data["x"], records, NoEncoder(), columns=["row"])
    result = hashed.self_find_representative(selection_size=budget, candidate_limit=len(records))
    return {"ids": np.array([int(record["row"]) for record in result.selected])}


# ---------------------------------------------------------------------------------------------------------- cluster


def cluster_coresift(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run `cs.cluster` with default options; like the other tools, it may place centers anywhere."""
    import coresift as cs  # noqa: PLC0415

    return {"centers": cs.cluster(data["x"], budget, seed=seed, engine=one_thread()).free_centers}


def cluster_kmeans(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run KMeans with one initialization, its default."""
    from sklearn.cluster import KMeans  # noqa: PLC0415

    return {"centers": KMeans(budget, n_init=1, random_state=seed).fit(data["x"]).cluster_centers_}


def cluster_minibatch(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run MiniBatchKMeans with one initialization, its default."""
    from sklearn.cluster import MiniBatchKMeans  # noqa: PLC0415

    return {"centers": MiniBatchKMeans(budget, n_init=1, random_state=seed).fit(data["x"]).cluster_centers_}


def cluster_faiss(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run faiss with 25 iterations, its default."""
    import faiss  # noqa: PLC0415

    fitted = faiss.Kmeans(data["x"].shape[1], budget, niter=25, seed=seed + 1)
    fitted.train(np.ascontiguousarray(data["x"]))
    return {"centers": np.asarray(fitted.centroids)}


# ----------------------------------------------------------------------------------------------------------- shared


def nearest_to_centers(x: Array, budget: int, seed: int) -> tuple[Array, Array]:
    """Return the row nearest to each center of scikit-learn's KMeans, and each row's cluster."""
    from sklearn.cluster import KMeans  # noqa: PLC0415
    from sklearn.metrics import pairwise_distances_argmin  # noqa: PLC0415

    fitted = KMeans(budget, n_init=1, random_state=seed).fit(x)
    return pairwise_distances_argmin(fitted.cluster_centers_, x), fitted.labels_


def apricot_rows(x: Array, budget: int, seed: int) -> Array:
    """Return the rows chosen by apricot's facility location."""
    from apricot import FacilityLocationSelection  # noqa: PLC0415

    return np.asarray(FacilityLocationSelection(budget, metric="euclidean", random_state=seed).fit(x).ranking)


def herded_rows(x: Array, budget: int, *, weighted: bool = False) -> tuple[Array, Array]:
    """Return the rows chosen by coreax's kernel herding; the length scale is the median distance among 1,000 rows."""
    from coreax import Data as CoreaxData  # noqa: PLC0415
    from coreax import SquaredExponentialKernel  # noqa: PLC0415
    from coreax.solvers import KernelHerding  # noqa: PLC0415
    from coreax.weights import MMDWeightsOptimiser  # noqa: PLC0415
    from scipy.spatial.distance import pdist  # noqa: PLC0415

    kernel = SquaredExponentialKernel(length_scale=float(np.median(pdist(x[draw(len(x), 1_000, 0)]))))
    coreset, _ = KernelHerding(budget, kernel=kernel, unique=True).reduce(CoreaxData(x))
    if weighted:
        coreset = coreset.solve_weights(MMDWeightsOptimiser(kernel))
    return np.asarray(coreset.unweighted_indices), np.asarray(coreset.points.weights, float)


COVER: dict[str, Tool] = {
    "coresift": cover_coresift,
    "uniform": cover_uniform,
    "scikit-learn, KMeans": cover_kmeans,
    "kmedoids": cover_kmedoids,
    "apricot": cover_apricot,
    "coreax, herding": cover_coreax,
    "semhash": cover_semhash,
}
CLUSTER: dict[str, Tool] = {
    "coresift": cluster_coresift,
    "scikit-learn, KMeans": cluster_kmeans,
    "scikit-learn, MiniBatchKMeans": cluster_minibatch,
    "faiss": cluster_faiss,
}
