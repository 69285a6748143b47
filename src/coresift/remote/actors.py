"""Functions on a cluster: each actor creates its own, such as a model on its GPU, and keeps it."""

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

# Per actor: the most items in flight, and the most items in flight or with an answer that waits for an earlier one.
IN_FLIGHT, WAITING = 2, 8


class Actors:
    """Losses (or any other answer per row) from a function that runs in several processes of a Ray cluster.

    If an actor's process or node dies, the actor is restarted and asked again. Pass the actors to an `Oracle` with a
    `batch` of several times `count` · `at_once`: this process counts and journals the answers, batch by batch.
    `close()`, or the end of a `with` block, stops the actors.

    Args:
        make: Called once in each actor, without arguments. It returns the function to ask, which takes an array of row
            numbers and returns an array with one answer per row. Slow setup, such as loading a model, belongs here.
        count: The number of actors.
        cpus: The number of the cluster's CPUs per actor.
        gpus: The number of the cluster's GPUs per actor.
        at_once: The number of rows per question to an actor.
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
        """Return one actor per GPU of the cluster or, if it has none, one per `cpus` of its CPUs."""
        resources = connect(address).cluster_resources()
        gpus = int(resources.get("GPU", 0))
        count = gpus or max(1, int(resources.get("CPU", 0)) // whole("cpus", cpus))
        return cls(make, count, cpus=1 if gpus else cpus, gpus=1 if gpus else 0, address=address)

    def __call__(self, ids: Ints) -> NDArray[Any]:
        """Return the answers for these rows, in their order."""
        pieces = [ids[start : start + self.at_once] for start in range(0, len(ids), self.at_once)]
        return np.concatenate([np.zeros(0), *map(np.asarray, self.map(pieces))])

    def map(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the actors' answer to each item, in order; only a few items are in flight at a time."""
        ray = connect(self.address)
        actors = self._start(ray)
        waiting: deque[Any] = deque()
        in_flight: dict[Any, int] = {}
        for item in items:
            actor = _least_busy(ray, in_flight, len(actors))
            waiting.append(actors[actor].answer.remote(item))
            in_flight[waiting[-1]] = actor
            if len(waiting) > WAITING * len(actors):
                yield _next_answer(ray, waiting, in_flight)
        while waiting:
            yield _next_answer(ray, waiting, in_flight)

    def close(self) -> None:
        """Stop the actors; the next question starts new ones."""
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

    def _start(self, ray: Any) -> list[Any]:
        if not self._actors:
            options = {
                "num_cpus": self.cpus,
                "num_gpus": self.gpus,
                "max_restarts": -1,
                "max_task_retries": RETRIES,
            }
            self._check_resources(ray)
            host = ray.remote(**options)(_Host)
            # `make` is passed by value: an object in the store can be lost with its node, and then an actor could not
            # be restarted.
            self._actors = [host.remote(__version__, self._make) for _ in range(self.count)]
        return self._actors

    def _check_resources(self, ray: Any) -> None:
        resources = ray.cluster_resources()
        for kind, needed in (("CPU", self.count * self.cpus), ("GPU", self.count * self.gpus)):
            if needed > (present := resources.get(kind, 0)):
                message = f"The actors need {needed:g} {kind}s, but the cluster has {present:g}: some may wait."
                warnings.warn(message, CoresiftWarning, stacklevel=2)


class _Host:
    """Runs in an actor: creates the function at the first question, so that an error in `make` reaches the driver."""

    def __init__(self, version: str, make: Callable[[], Callable[[Any], Any]]) -> None:
        self._version, self._make = version, make
        self._function: Callable[[Any], Any] | None = None

    def answer(self, item: Any) -> Any:
        try:
            check_version(self._version)
            if self._function is None:
                self._function = self._make()
            # Arrays from the object store are read-only, but the function may change its argument.
            return self._function(item.copy() if isinstance(item, np.ndarray) else item)
        except CoresiftError as error:
            return Failure(error)


def _least_busy(ray: Any, in_flight: dict[Any, int], count: int) -> int:
    """Wait until there is room for one more item, and return the least busy actor."""
    while len(in_flight) >= IN_FLIGHT * count:
        for reference in ray.wait(list(in_flight), num_returns=1)[0]:
            del in_flight[reference]
    load = Counter(in_flight.values())
    return min(range(count), key=lambda number: load[number])


def _next_answer(ray: Any, waiting: deque[Any], in_flight: dict[Any, int]) -> Any:
    answer = get(ray, waiting[0], "a question to an actor")
    in_flight.pop(waiting.popleft(), None)
    return answer
