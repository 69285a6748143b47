"""Functions that live on a cluster: each actor makes one of its own, such as a model on its GPU, and keeps it."""

from __future__ import annotations

import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import CoresiftError, CoresiftWarning, positive, refuse, whole
from coresift.remote.connection import RETRIES, Failure, check_version, connect, get
from coresift.types import Ints
from coresift.version import __version__

# Items that an actor has been given and not yet answered, and answers that wait for an earlier one.
GIVEN, WAITING = 2, 8


class Actors:
    """Losses (or any other answer per row) from a function that runs in several processes of a Ray cluster.

    An actor whose process or node dies is started again, and its question is asked again. Pass it to an `Oracle` with
    a `batch` of several times `count` · `at_once`: this process counts and journals the answers, batch by batch.
    `close()`, or the end of a `with` block, ends the actors.

    Args:
        make: Called once in each actor, without arguments. It returns the function to ask, which takes an array of row
            numbers and returns an array with one answer per row. Slow setup, such as loading a model, belongs here.
        count: How many actors.
        cpus: How many CPUs of the cluster each actor takes.
        gpus: How many GPUs of the cluster each actor takes.
        at_once: How many rows an actor is asked for at a time.
        address: The address of the cluster, as for `Ray`.

    Examples:
        >>> def make():
        ...     return lambda ids: ids / 10
        >>> Actors(make, 4, gpus=1)
        Actors(make, count=4, cpus=1.0, gpus=1.0)
    """

    def __init__(
        self,
        make: Callable[[], Callable[[Any], Any]],
        count: int,
        *,
        cpus: float = 1,
        gpus: float = 0,
        at_once: int = 64,
        address: str | None = None,
    ) -> None:
        if not callable(make):
            refuse("make", "a callable that returns the function to ask", type(make).__name__)
        self._make, self.count, self.at_once = make, whole("count", count), whole("at_once", at_once)
        self.cpus, self.gpus = positive("cpus", cpus, zero=True), positive("gpus", gpus, zero=True)
        self.address = address
        self._actors: list[Any] = []

    @classmethod
    def filling(cls, make: Callable[[], Callable[[Any], Any]], *, cpus: int = 1, address: str | None = None) -> Actors:
        """Return one actor for each GPU of the cluster or, where it has none, for every `cpus` of its CPUs."""
        there = connect(address).cluster_resources()
        gpus = int(there.get("GPU", 0))
        count = gpus or max(1, int(there.get("CPU", 0)) // whole("cpus", cpus))
        return cls(make, count, cpus=1 if gpus else cpus, gpus=1 if gpus else 0, address=address)

    def __call__(self, ids: Ints) -> NDArray[Any]:
        """Return the answers for these rows, in their order."""
        pieces = [ids[start : start + self.at_once] for start in range(0, len(ids), self.at_once)]
        return np.concatenate([np.zeros(0), *map(np.asarray, self.map(pieces))])

    def map(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield what the actors answer to each item, in their order; few of them are in flight at a time."""
        ray = connect(self.address)
        actors = self._started(ray)
        waiting: deque[Any] = deque()
        given: dict[Any, int] = {}
        for item in items:
            free = _free(ray, given, len(actors))
            waiting.append(actors[free].answer.remote(item))
            given[waiting[-1]] = free
            if len(waiting) > WAITING * len(actors):
                yield _answer(ray, waiting, given)
        while waiting:
            yield _answer(ray, waiting, given)

    def close(self) -> None:
        """End the actors; the next question starts new ones."""
        if self._actors:
            import ray

            for actor in self._actors:
                ray.kill(actor)
            self._actors = []

    def __enter__(self) -> Actors:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name = getattr(self._make, "__name__", type(self._make).__name__)
        return f"Actors({name}, count={self.count}, cpus={self.cpus}, gpus={self.gpus})"

    def _started(self, ray: Any) -> list[Any]:
        if not self._actors:
            options = {
                "num_cpus": self.cpus,
                "num_gpus": self.gpus,
                "max_restarts": -1,
                "max_task_retries": RETRIES,
            }
            self._check_room(ray)
            host = ray.remote(**options)(_Host)
            # By value: what lies in the object store may be lost with a node, and then an actor could not start anew.
            self._actors = [host.remote(__version__, self._make) for _ in range(self.count)]
        return self._actors

    def _check_room(self, ray: Any) -> None:
        there = ray.cluster_resources()
        for kind, wanted in (("CPU", self.count * self.cpus), ("GPU", self.count * self.gpus)):
            if wanted > there.get(kind, 0):
                message = (
                    f"The actors need {wanted:g} {kind}s, and the cluster has {there.get(kind, 0):g}: some may wait."
                )
                warnings.warn(message, CoresiftWarning, stacklevel=2)


class _Host:
    """Runs in an actor: makes the function at its first question, so that a fault in making it is an answer too."""

    def __init__(self, version: str, make: Callable[[], Callable[[Any], Any]]) -> None:
        self._version, self._make = version, make
        self._function: Callable[[Any], Any] | None = None

    def answer(self, item: Any) -> Any:
        try:
            check_version(self._version)
            if self._function is None:
                self._function = self._make()
            # What comes through the object store cannot be written to; a function may sort or change what it gets.
            return self._function(item.copy() if isinstance(item, np.ndarray) else item)
        except CoresiftError as error:
            return Failure(error)


def _free(ray: Any, given: dict[Any, int], count: int) -> int:
    """Return the actor that has the least to do, once one has room."""
    while len(given) >= GIVEN * count:
        for reference in ray.wait(list(given), num_returns=1)[0]:
            del given[reference]
    load = Counter(given.values())
    return min(range(count), key=lambda number: load[number])


def _answer(ray: Any, waiting: deque[Any], given: dict[Any, int]) -> Any:
    found = get(ray, waiting[0], "a question to an actor")
    given.pop(waiting.popleft(), None)
    return found
