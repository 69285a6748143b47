"""Ways to find the nearest center of every row: compare all centers, a few that are listed, or a few found quickly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from coresift.clustering.codes import Codes
from coresift.clustering.kernels import nearest_of
from coresift.clustering.nearest import Codebook, Labels, distances_to, nearest
from coresift.clustering.space import Axes
from coresift.engine import Fold, Workers
from coresift.rows import Rows
from coresift.types import Singles

T = TypeVar("T")
# A function that is applied to a block with its centers: start, rows, labels, distances.
Then = Callable[[int, Singles, Labels, Singles], T]

# How many centers the quantized search compares in full dimension.
BEST = 4


class Search(Protocol):
    """Finds the nearest centers of rows; `path` says how, and why."""

    @property
    def path(self) -> str:
        """Which search it is, and the reason."""
        ...

    def assign(
        self, rows: Rows, then: Then[T], workers: Workers, name: str, fold: Fold[T] | None = None
    ) -> Iterator[T]:
        """Yield then(start, block, labels, distances) for every block."""
        ...


@dataclass(frozen=True)
class Exact:
    """Every center is compared with every row in full dimension."""

    codebook: Codebook
    path: str

    @classmethod
    def of(cls, centers: Singles, reason: str = "asked for") -> Exact:
        """Prepare the search."""
        return cls(Codebook.of(centers), f"exact: {reason}")

    def assign(
        self, rows: Rows, then: Then[T], workers: Workers, name: str, fold: Fold[T] | None = None
    ) -> Iterator[T]:
        """Compare every block with all centers."""
        codebook = self.codebook

        def near(start: int, block: Singles) -> T:
            return then(start, block, *nearest(block, codebook))

        return workers.map(rows, near, fold=fold, name=name)


@dataclass(frozen=True)
class KnownLabels:
    """No search: the labels are known."""

    centers: Singles
    labels: Labels
    path: str = "labels were given"

    def assign(
        self, rows: Rows, then: Then[T], workers: Workers, name: str, fold: Fold[T] | None = None
    ) -> Iterator[T]:
        """Compute only the distances."""
        centers = self.centers

        def measure(start: int, block: Singles, labels: Labels) -> T:
            return then(start, block, labels, distances_to(block, centers, labels))

        return workers.map(rows, measure, beside=[self.labels], fold=fold, name=name)


@dataclass(frozen=True)
class Listed:
    """Compares each row with the few centers on its own list, in full dimension."""

    centers: Singles
    lists: Labels
    path: str = "lists"

    def assign(
        self, rows: Rows, then: Then[T], workers: Workers, name: str, fold: Fold[T] | None = None
    ) -> Iterator[T]:
        """Compare every row with the centers on its list."""
        centers = self.centers

        def near(start: int, block: Singles, lists: Labels) -> T:
            return then(start, block, *nearest_of(block, centers, lists))

        return workers.map(rows, near, beside=[self.lists], fold=fold, name=name)


@dataclass(frozen=True)
class Quantized:
    """Compares a row with all centers as whole numbers of 8 bits, on some axes, and with the best four in full
    dimension."""

    centers: Singles
    axes: Axes
    codes: Codes
    path: str = "quantized"

    def assign(
        self, rows: Rows, then: Then[T], workers: Workers, name: str, fold: Fold[T] | None = None
    ) -> Iterator[T]:
        """Search block by block."""

        def near(start: int, block: Singles) -> T:
            return then(start, block, *nearest_of(block, self.centers, self.few(block)))

        return workers.map(rows, near, fold=fold, name=name)

    def few(self, block: Singles) -> Labels:
        """Return the centers that are compared with each row."""
        return self.codes.best(self.axes.project(self.axes.shift(block))[:, :-1], BEST)
