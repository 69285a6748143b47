"""The paper's data sets: read from a folder, or downloaded from their official source.

A data set is looked for in `--data-home`, in the folder that `CORESIFT_DATA` names, in `../shared/data` beside the
project and in the user's cache, in this order. If it is in none of them, it is downloaded into the cache, and
refused if its checksum is not the published one.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import io
import os
import re
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import CoresiftError

Arrays = dict[str, NDArray[Any]]
Pairs = tuple[list[str], list[str]]

CHUNK = 1 << 20
PATIENCE = 60.0  # seconds without an answer


class DataError(CoresiftError):
    """Data are missing or damaged."""


@dataclass(frozen=True)
class Download:
    """A file of the official source and its checksum."""

    url: str
    md5: str


@dataclass(frozen=True)
class Home:
    """The folders to search for data, and the folder for downloads."""

    folders: tuple[Path, ...]
    cache: Path

    def find(self, name: str) -> Path | None:
        """Return the first folder of this name."""
        return next((folder / name for folder in (*self.folders, self.cache) if (folder / name).is_dir()), None)


def home(folder: str | Path | None = None) -> Home:
    """Return the folders to search, beginning with `folder`."""
    named = [folder, os.environ.get("CORESIFT_DATA"), Path(__file__).parents[2] / "shared" / "data"]
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    if folder is not None and not Path(folder).is_dir():
        raise DataError(f"--data-home must be a folder; there is none at {folder}.")
    return Home(tuple(Path(path) for path in named if path), Path(base) / "coresift" / "data")


def images(name: str, where: Home, most: int | None = None) -> Arrays:
    """Return X_train, y_train, X_test and y_test of "mnist", "fashion_mnist" or "cifar10": pixels as uint8.

    most: how many of each at most, from the beginning.
    """
    arrays = _cifar(where, most) if name == "cifar10" else _mnist(name, where)
    return {part: array[:most] for part, array in arrays.items()}


# ------------------------------------------------------------------ MNIST and Fashion-MNIST

PARTS = {
    "X_train": "train-images-idx3-ubyte.gz",
    "y_train": "train-labels-idx1-ubyte.gz",
    "X_test": "t10k-images-idx3-ubyte.gz",
    "y_test": "t10k-labels-idx1-ubyte.gz",
}
MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
SOURCES: dict[str, dict[str, Download]] = {
    "mnist": {
        "X_train": Download(MNIST + PARTS["X_train"], "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        "y_train": Download(MNIST + PARTS["y_train"], "d53e105ee54ea40749a09fcbcd1e9432"),
        "X_test": Download(MNIST + PARTS["X_test"], "9fb629c4189551a2d022fa330f9573f3"),
        "y_test": Download(MNIST + PARTS["y_test"], "ec29112dd5afa0611ce80d1b7f02629c"),
    },
    "fashion_mnist": {
        "X_train": Download(FASHION + PARTS["X_train"], "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        "y_train": Download(FASHION + PARTS["y_train"], "25c81989df183df01b3e8a0aad5dffbe"),
        "X_test": Download(FASHION + PARTS["X_test"], "bef4ecab320f06d8554ea6380940ec79"),
        "y_test": Download(FASHION + PARTS["y_test"], "bb300cfdad3c16e7a12a480ee83cd310"),
    },
    "cifar10": {
        "all": Download("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
    },
    "newstest2014": {  # the checksum is the one that sacreBLEU has for it
        "all": Download("https://statmt.org/wmt14/test-full.tgz", "a8cd784e006feb32ac6f3d9ec7eb389a"),
    },
}


def _mnist(name: str, where: Home) -> Arrays:
    folder = where.find(name) or _make(where.cache / name, lambda partial: _download_mnist(name, partial))
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        return {part: file[part] for part in PARTS}


def _download_mnist(name: str, folder: Path) -> None:
    arrays = {part: read_idx(fetch(source)) for part, source in SOURCES[name].items()}
    np.savez_compressed(folder / f"{name}.npz", **arrays)  # type: ignore[arg-type]


def read_idx(packed: bytes) -> NDArray[np.uint8]:
    """Return the array of a gzipped IDX file of bytes: two zeros, the type, the dimensions, each size, the numbers."""
    raw = gzip.decompress(packed)
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise DataError("An IDX file of bytes must begin with 0, 0, 8; this one does not.")
    shape = np.frombuffer(raw, ">u4", raw[3], 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


# ------------------------------------------------------------------ CIFAR-10

SHEETS = {"train": 20, "test": 4}
SHEET = 2_500
RECORD = 1 + 3 * 32 * 32  # a class, then the red, green and blue pixels


def _cifar(where: Home, most: int | None) -> Arrays:
    folder = where.find("cifar10") or _make(where.cache / "cifar10", _download_cifar)
    if (folder / "cifar10.npz").exists():
        with np.load(folder / "cifar10.npz", allow_pickle=False) as file:
            return {part: file[part] for part in PARTS}
    arrays = {}
    for split, count in SHEETS.items():
        needed = count if most is None else min(count, -(-most // SHEET))
        arrays[f"X_{split}"] = np.concatenate([_sheet(folder / f"{split}_{i:02d}.webp") for i in range(needed)])
        arrays[f"y_{split}"] = np.load(folder / f"{split}_labels.npy", allow_pickle=False)
    return arrays


def _sheet(path: Path) -> NDArray[np.uint8]:
    """Return the 2,500 images of a sheet."""
    from PIL import Image  # noqa: PLC0415

    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    return pixels.reshape(50, 32, 50, 32, 3).transpose(0, 2, 1, 3, 4).reshape(-1, 32, 32, 3)


def _download_cifar(folder: Path) -> None:
    packed = fetch(SOURCES["cifar10"]["all"])
    records_of: dict[str, list[NDArray[np.uint8]]] = {"train": [], "test": []}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        members = {Path(member.name).name: member for member in archive.getmembers() if member.isfile()}
        for file in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
            content = archive.extractfile(members[file])
            assert content is not None
            records = np.frombuffer(content.read(), np.uint8).reshape(-1, RECORD)
            records_of["test" if file.startswith("test") else "train"].append(records)
    arrays: Arrays = {}
    for split, parts in records_of.items():
        records = np.concatenate(parts)
        arrays[f"X_{split}"] = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        arrays[f"y_{split}"] = records[:, 0]
    np.savez_compressed(folder / "cifar10.npz", **arrays)  # type: ignore[arg-type]


# ------------------------------------------------------------------ gas sensors

GAS = "https://archive.ics.uci.edu/static/public/270/gas+sensor+array+drift+dataset+at+different+concentrations.zip"
# The archive has no published checksum, so its contents are compared: features of batches 1–6, 8 and 9 as float32.
GAS_BATCHES = (1, 2, 3, 4, 5, 6, 8, 9)
GAS_DIGEST = "7c93201c5c360a204bc9ca5d419046b1504fbd7ec22c3b0730a8933860bd434c"


def gas(where: Home) -> Arrays:
    """Return X (13,910 × 128), concentration (NaN where it is unknown), gas_class and batch of the gas sensor data."""
    folder = where.find("gas_drift") or _make(where.cache / "gas_drift", download_gas)
    with np.load(folder / "gas_drift.npz", allow_pickle=False) as file:
        return {part: file[part] for part in ("X", "concentration", "gas_class", "batch")}


def download_gas(folder: Path, url: str = GAS, digest: str = GAS_DIGEST) -> None:
    """Write the arrays of the archive at `url`, if their digest is the known one."""
    arrays = read_gas(_read(url))
    if gas_digest(arrays) != digest:
        raise DataError(f"What {url} holds is not the gas sensor data that is known here; nothing was kept.")
    np.savez_compressed(folder / "gas_drift.npz", **arrays)  # type: ignore[arg-type]


def read_gas(packed: bytes) -> Arrays:
    """Return the arrays of the archive: lines of "class;concentration 1:value … 128:value" with one file per batch."""
    rows, classes, concentration, batches = [], [], [], []
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        names = {Path(name).name: name for name in archive.namelist()}
        for batch in range(1, 11):
            for line in archive.read(names[f"batch{batch}.dat"]).decode().splitlines():
                head, *cells = line.split()
                classes.append(int(head.split(";")[0]))
                concentration.append(float(head.split(";")[1]))
                rows.append([float(cell.split(":")[1]) for cell in cells])
                batches.append(batch)
    return {
        "X": np.array(rows, np.float32),
        "concentration": np.array(concentration, np.float32),
        "gas_class": np.array(classes, np.int8),
        "batch": np.array(batches, np.int8),
    }


def gas_digest(arrays: Arrays) -> str:
    """Return a digest of the features of the batches that are compared."""
    compared = np.isin(arrays["batch"], GAS_BATCHES)
    return hashlib.sha256(np.ascontiguousarray(arrays["X"][compared], "<f4").tobytes()).hexdigest()


# ------------------------------------------------------------------ translation pairs


def newstest(where: Home, most: int | None = None) -> Pairs:
    """Return the 3,003 English and German sentences of newstest2014, or the first of them."""
    folder = where.find("newstest2014_de_en") or _make(where.cache / "newstest2014_de_en", _download_newstest)
    return read_pairs(folder / "newstest2014.tsv.gz", most)


def europarl(where: Home, most: int | None = None) -> Pairs:
    """Return 200,000 aligned English and German sentences of the European Parliament, or the first of them."""
    name, file = "europarl_de_en", "europarl_de_en_200k.tsv.gz"
    folder = where.find(name)
    if folder is None:
        raise DataError(
            f"{name} cannot be downloaded, because this selection has no public source; put {file} (columns en and de) "
            f"into the folder {name}/ of --data-home."
        )
    return read_pairs(folder / file, most)


def read_pairs(path: Path, most: int | None = None) -> Pairs:
    """Return both sides of a gzipped table with the columns en and de, or of its first lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        header, *cells = (line.rstrip("\n").split("\t") for line in islice(lines, most and most + 1))
    en, de = header.index("en"), header.index("de")
    return [cell[en] for cell in cells], [cell[de] for cell in cells]


def _download_newstest(folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(fetch(SOURCES["newstest2014"]["all"]))) as archive:
        members = {Path(member.name).name: member for member in archive.getmembers() if member.isfile()}
        sides = []
        for file in ("newstest2014-deen-src.en.sgm", "newstest2014-deen-ref.de.sgm"):
            content = archive.extractfile(members[file])
            assert content is not None
            sides.append(read_segments(content.read().decode()))
    with gzip.open(folder / "newstest2014.tsv.gz", "wt", encoding="utf-8", newline="\n") as out:
        for pair in zip(["en", *sides[0]], ["de", *sides[1]], strict=True):
            out.write("\t".join(pair) + "\n")


def read_segments(markup: str) -> list[str]:
    """Return the sentences of an SGM file, which are between <seg …> and </seg>."""
    segments = re.findall(r"<seg[^>]*>(.*?)</seg>", markup, re.DOTALL)
    return [" ".join(html.unescape(text).split()) for text in segments]


# ------------------------------------------------------------------ downloads


def fetch(source: Download) -> bytes:
    """Return a file of the source if its checksum is right."""
    content = _read(source.url)
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if digest != source.md5:
        raise DataError(f"{source.url} must have the checksum {source.md5}; got {digest}, so nothing was kept.")
    return content


def _read(url: str) -> bytes:
    from coresift.progress import choose, stage  # noqa: PLC0415

    parts: list[bytes] = []
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            total = int(answer.headers.get("Content-Length") or 0)
            with stage(choose(None), f"downloading {url.rsplit('/', 1)[-1]}", total) as bar:
                while part := answer.read(CHUNK):
                    parts.append(part)
                    bar.advance(len(part))
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise DataError(
            f"{url} cannot be read ({reason}); give a folder that has the data with --data-home or CORESIFT_DATA."
        ) from error
    return b"".join(parts)


def _make(folder: Path, write: Callable[[Path], None]) -> Path:
    """Fill a temporary folder, and rename it when it is complete."""
    partial = folder.with_name(folder.name + ".part")
    partial.mkdir(parents=True, exist_ok=True)
    write(partial)
    partial.replace(folder)
    return folder
