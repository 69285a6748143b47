"""Predict what a selection will cost before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np

from coresift.checks import InputError, named_options, positive
from coresift.clustering import MANY_CENTERS
from coresift.engine import Engine, Local
from coresift.holder import most_queries
from coresift.holder import plan as plan_probes
from coresift.notebook import card
from coresift.planning.calibration import calibrate, free_memory
from coresift.planning.effort import (
    LIBRARIES,
    NONE,
    TABLES,
    Effort,
    effort,
    effort_within,
    file_bytes,
    memory_afterwards,
)
from coresift.progress import Progress
from coresift.recipes.arguments import Job, Options, check_options, settle
from coresift.rows import RowsLike
from coresift.rows.tables import TableRows
from coresift.scratch import room

# Seconds that do not depend on the rows (libraries that are loaded when first needed), and seconds per row for what
# follows the clustering: orders, probabilities, draws.
ONCE, AFTERWARDS = 0.4, 7e-7


@dataclass(frozen=True, repr=False)
class Plan:
    """What will be asked, read and computed.

    `losses_for_estimate` is the number of rows whose loss is needed to estimate the total loss afterwards. `passes` is
    the number of passes over all rows. `arithmetic` is the number of floating-point operations without a reduced
    search. If Λ is estimated, its losses are included; before the clusters are known, this is an upper bound.

    `seconds` and `memory` are predictions for this machine, or for the engine that was given, from a short calibration
    with some of the rows. `seconds` does not include your model. `memory` is the peak in bytes, including libraries,
    without pages of mapped files.
    """

    rows: int
    dimension: int
    budget: int
    clusters: int
    losses_asked: int
    losses_for_estimate: int
    passes: int
    arithmetic: float
    memory: float
    seconds: float
    price: float | None = None

    def __repr__(self) -> str:
        price = "" if self.price is None else f" for {self.price:,.2f}"
        return (
            f"Plan({self.budget} of {self.rows} rows, {self.losses_asked} losses asked{price}, {self.passes} passes, "
            f"about {spoken(self.seconds)}, {self.memory / 1e6:,.0f} MB)"
        )

    def lines(self) -> list[tuple[str, str]]:
        """Return the plan as pairs of a name and a value."""
        price = [] if self.price is None else [("price of the losses asked", f"{self.price:,.2f}")]
        return [
            ("losses asked to choose them", f"{self.losses_asked:,}"),
            *price,
            ("losses to estimate the total loss", f"{self.losses_for_estimate:,} in total, including the pilot"),
            ("time on this machine", f"about {spoken(self.seconds)}, without your model"),
            ("memory", f"about {self.memory / 1e6:,.0f} MB"),
            ("passes over all rows", f"{self.passes}"),
            ("clusters", f"{self.clusters:,}"),
            ("arithmetic", f"{_billions(self.arithmetic)} billion operations at most"),
        ]

    def _repr_html_(self) -> str:
        return card(f"To select {self.budget:,} of {self.rows:,} rows of {self.dimension:,} numbers", self.lines())


def _billions(count: float) -> str:
    return f"{count / 1e9:,.0f}" if count >= 1e12 else f"{count / 1e9:.3g}"


@named_options
def plan(
    rows: RowsLike | None = None,
    budget: int | None = None,
    seed: int = 0,
    *,
    cost: float | None = None,
    engine: Engine | None = None,
    **options: Unpack[Options],
) -> Plan:
    """Say what `select` with the same arguments will cost; `losses` are taken to be there.

    A part of the rows is read to see how fast this machine is with them, for less than a second. What would not fit
    into the memory or the temporary folder is refused, with how much it takes.

    Args:
        rows: As in `select`.
        budget: As in `select`.
        seed: As in `select`.
        cost: The price of one loss; the plan then states the price of all losses asked.
        engine: As in `select`. The nodes of a cluster are taken to be as fast as this machine, and the memory is that
            of this process.
        **options: The other options of `select`.

    Returns:
        The losses, passes, time and memory that the selection will take.

    Examples:
        >>> import numpy as np
        >>> planned = plan(np.zeros((100_000, 64), np.float32), budget=2_000, cost=0.01)
        >>> planned.losses_asked, planned.price
        (400, 4.0)
    """
    check_options("plan", options, ("rows", "budget", "seed", "cost", "engine"), Options)
    job = settle(rows, budget, seed, asking=True, **options)
    n, d = job.rows.n, job.rows.d
    k = min(job.clusters, n)
    asked = job.pilot.size(k, job.room) if job.pilot else 0
    beside = asked if job.pilot is not None and not job.pilot.keep else 0
    with (engine or Local()).open(Progress()) as workers:
        threads, nodes = workers.here.count, workers.count if workers.here is not workers else 0
    taken = _clustering(job, k, threads, nodes)
    probes = _probes(job, k)
    asked, beside = asked + probes, beside + probes
    components = min(job.score.needs.components, d)
    libraries = LIBRARIES + (TABLES if isinstance(job.rows, TableRows) else 0.0)
    planned = Plan(
        rows=n,
        dimension=d,
        budget=job.budget,
        clusters=k,
        losses_asked=asked,
        losses_for_estimate=min(job.budget + beside, n),
        passes=taken.passes + (components > 0),
        arithmetic=taken.arithmetic,
        memory=libraries + max(taken.memory, memory_afterwards(n, d, components, threads)),
        seconds=ONCE + AFTERWARDS * n + taken.seconds,
        price=None if cost is None else asked * positive("cost", cost, zero=True),
    )
    _refuse_too_large(planned)
    _refuse_full_disk(planned, file_bytes(n, components))
    return planned


def spoken(seconds: float) -> str:
    """Return a time in words.

    >>> spoken(0.42), spoken(75), spoken(9000)
    ('0.4 seconds', '75 seconds', '2.5 hours')
    """
    if seconds < 120:
        return f"{seconds:.1f} seconds" if seconds < 10 else f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def _clustering(job: Job, k: int, threads: int, nodes: int) -> Effort:
    if job.clustering is not None:
        return NONE
    rows = job.rows.normalized() if job.normalize else job.rows
    rates = calibrate(rows, k, many=k >= MANY_CENTERS, threads=threads)
    if not job.frame.strata.size:
        return effort(rows, k, rates, threads, nodes=nodes)
    return effort_within(rows, np.bincount(job.frame.strata), k, rates, threads, nodes=nodes)


def _refuse_too_large(planned: Plan) -> None:
    free = free_memory()
    if free is not None and planned.memory > free:
        raise InputError(
            f"Selecting {planned.budget:,} of {planned.rows:,} rows takes about {planned.memory / 1e9:,.1f} GB of "
            f"memory, and only {free / 1e9:,.1f} GB are free; use fewer clusters or rows, or a larger machine."
        )


def _refuse_full_disk(planned: Plan, needed: float) -> None:
    if needed and needed > (free := room()):
        raise InputError(
            f"Selecting {planned.budget:,} of {planned.rows:,} rows takes about {needed / 1e9:,.1f} GB of temporary "
            f"files, and only {free / 1e9:,.1f} GB are free; set TMPDIR to a folder on a disk with more room."
        )


def _probes(job: Job, k: int) -> int:
    method = job.score.needs.probes
    if job.pilot is None or not method:
        return 0
    if job.clustering is not None:
        return plan_probes(job.clustering, method, exclude=job.frame.excluded, seed=job.seed).ids.size
    return min(most_queries(k, method), max(job.rows.n - k, 0))
