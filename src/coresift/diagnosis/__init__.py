"""Predict from a few losses whether a selection would beat a uniform sample."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from coresift.checks import InputError, named_options, positive, refuse, whole
from coresift.diagnosis.facts import (
    PERCENTILES,
    Gaps,
    HolderLine,
    compare_gaps,
    explained_share,
    holder_line,
    violations,
)
from coresift.diagnosis.gain import Asked, proxied_ratio, selected_ratio
from coresift.diagnosis.probing import FEWEST, ProbeRows, draw_probes
from coresift.engine import Engine
from coresift.notebook import card
from coresift.oracle import LossesLike, as_oracle
from coresift.oracle.driving import Prepared
from coresift.progress import Progress, choose
from coresift.recipes import by_proxy
from coresift.recipes.arguments import Options, check_options, settle
from coresift.rows import RowsLike, open_rows
from coresift.rows.numbering import numbers_of
from coresift.selection import Draft, prepare
from coresift.streams import Stream, generator
from coresift.types import Clustering, Floats, Interval, Ints, Ledger, Request, Value, freeze

__all__ = ["PERCENTILES", "Diagnosis", "Gaps", "HolderLine", "begin", "diagnose"]

USE = "use it"
WITH_PROXY = "use it with a proxy"
UNIFORM = "sample uniformly"
CANNOT_TELL = "cannot tell from this many probes"

# A selection is worth it if its predicted error is below this part of uniform's. The prediction leaves out a part of
# the gain: where 0.95 was measured, about this is predicted.
WORTH = 0.975
# If fewer than this part of the probes have half of the loss, the probes say too little about it.
RARE = 0.01
# A predicted gain is not trusted if two probes have more than this part of the squared deviations.
TWO_PROBES = 0.9


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Value):
    """Whether a selection is worth it, predicted from a few losses: the `verdict`, and the `reason` in a sentence.

    `ratio` is the predicted error (RMSE) of the estimated total loss from `select` with this budget, relative to a
    uniform sample's. `proxy_ratio` is the same with the proxy, if there is one. `explained` is the share of the loss's
    variance that is between clusters. `holder` has a line for each z; `best_z` has the lowest price. `gaps` compares a
    row's loss with its center's and with a random row's. `violations` is the share of rows that violate the given Λ.
    These four come from the probes that were drawn with equal probability. Intervals are nominal 95 % intervals for the
    random choice of the probes. `probes` and `losses` are the rows that were asked besides the `centers`.
    """

    verdict: str
    reason: str
    ratio: Interval
    proxy_ratio: Interval | None
    explained: Interval
    holder: tuple[HolderLine, ...]
    best_z: float
    gaps: Gaps
    violations: Interval | None
    n: int
    budget: int
    clusters: int
    z: float
    seed: int
    centers: Ints
    center_losses: Floats
    probes: Ints
    losses: Floats
    ledger: Ledger

    def __post_init__(self) -> None:
        freeze(self, centers=np.int64, center_losses=np.float64, probes=np.int64, losses=np.float64)

    @property
    def gain(self) -> Interval:
        """How much smaller the error is than uniform's, relative to it: 1 − `ratio`."""
        return Interval(1 - self.ratio.value, 1 - self.ratio.high, 1 - self.ratio.low, self.ratio.standard_error)

    def __repr__(self) -> str:
        return f"Diagnosis({self.verdict}: {self.reason} {self.ledger.asked} losses asked)"

    def lines(self, holder: float | None = None) -> list[tuple[str, str]]:
        """Return the figures behind the verdict as pairs of a name and a value; `holder` is the Λ that was given."""

        def shown(interval: Interval, form: str) -> str:
            return f"{interval.value:{form}}, 95% interval {interval.low:{form}} to {interval.high:{form}}"

        facts = [("error relative to a uniform sample's", shown(self.ratio, ".2f"))]
        if self.proxy_ratio is not None:
            facts.append(("error with the proxy", shown(self.proxy_ratio, ".2f")))
        facts.append(("variance explained by clusters", shown(self.explained, ".0%")))
        facts.append(("loss closer to its center's than to a random row's", f"{self.gaps.nearer:.0%} of the time"))
        if self.violations is not None:
            violated = "Λ" if holder is None else f"Λ = {holder:g}"
            facts.append((f"rows that violate {violated}", shown(self.violations, ".1%")))
        counts = ", ".join(f"{count:,} {reason}" for _, reason, count in self.ledger.entries)
        return [*facts, ("losses asked", f"{self.ledger.asked:,}: {counts}")]

    def _repr_html_(self) -> str:
        return card(f"{self.verdict[:1].upper()}{self.verdict[1:]}", self.lines(), [self.reason])


@named_options
def diagnose(
    rows: RowsLike | None,
    losses: LossesLike,
    budget: int | None = None,
    seed: int = 0,
    *,
    probes: int = 200,
    powers: Sequence[float] = (0.5, 1.0, 2.0),
    holder: float | None = None,
    proxy: Any = None,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
    **options: Unpack[Options],
) -> Diagnosis:
    """Predict whether `select` is worth it for these rows and losses, before the budget is spent.

    It asks for the losses of the centers and of at most `probes` other rows, and counts them in the ledger. Up to half
    of the probes are rows of the pilot that `select` would ask first; the others are drawn with equal probability. If
    `losses` is an `Oracle` with a journal, `select` with the same arguments reuses these answers.

    Args:
        rows: As in `select`; None if there are only `signals`.
        losses: As in `select`.
        budget: As in `select`; the verdict is about this budget. The default is ten times the number of clusters.
        seed: As in `select`.
        probes: The most rows that are asked besides the centers.
        powers: The z of the Hölder table, measured to the same centers.
        holder: A value of Λ, to estimate how many rows violate |ℓ(e) − ℓ(c)| ≤ Λ‖e − c‖^z.
        proxy: A cheap model's loss for every row, to predict whether drawing by it would be better.
        engine: As in `select`.
        progress: As in `select`.
        **options: The other options of `select`, such as `strata`, `score` or `exclude`.

    Returns:
        The verdict, its reason, and the figures behind it.

    Examples:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> group = rng.integers(20, size=4000)
        >>> rows = rng.normal(size=(20, 4))[group] * 9 + rng.normal(size=(4000, 4))
        >>> diagnose(rows, losses=rng.exponential(size=20)[group], budget=200).verdict
        'use it'
        >>> diagnose(rows, losses=rng.exponential(size=4000), budget=200, seed=1).verdict
        'sample uniformly'
    """
    oracle, progress = as_oracle(losses), choose(progress)
    if oracle is None:
        raise InputError("diagnose needs losses.")
    opened = None if rows is None else open_rows(rows)
    if opened is not None:
        oracle.verify(opened.n, names=opened.names, skip=numbers_of("exclude", options.get("exclude"), opened))
    prepared = begin(
        opened,
        budget,
        seed,
        probes=probes,
        powers=powers,
        holder=holder,
        proxy=proxy,
        engine=engine,
        progress=progress,
        **options,
    )
    return prepared.complete(oracle, progress)


def begin(
    rows: RowsLike | None,
    budget: int | None,
    seed: int,
    *,
    probes: int = 200,
    powers: Sequence[float] = (0.5, 1.0, 2.0),
    holder: float | None = None,
    proxy: Any = None,
    engine: Engine | None,
    progress: Progress,
    **options: Unpack[Options],
) -> Prepared[Diagnosis]:
    """Return `diagnose` up to its first question."""
    exponents = _powers(powers)
    holder = None if holder is None else positive("holder", holder, zero=True)
    cheap = None if proxy is None else by_proxy(proxy).score
    draft, drawn = _prepare(rows, budget, seed, probes, engine, progress, options)
    if proxy is not None and len(proxy) != draft.clustering.n:
        refuse("proxy", f"one number for each of {draft.clustering.n} rows", len(proxy))
    limit = draft.clustering.k + drawn.new.size
    return Prepared(
        lambda: _steps(draft, drawn, exponents, holder, cheap, progress),
        draft.job.rows,
        draft.fingerprint,
        limit,
        never=draft.job.frame.excluded,
    )


def _steps(
    draft: Draft, probes: ProbeRows, powers: tuple[float, ...], holder: float | None, cheap: Any, progress: Progress
) -> Generator[Request, Floats, Diagnosis]:
    job, clustering, rng = draft.job, draft.clustering, generator(draft.job.seed, Stream.DIAGNOSIS)
    requests = [Request(clustering.centers, "centers"), Request(probes.new, "probes")]
    center_losses = yield requests[0]
    answers = yield requests[1]
    asked = Asked(clustering.centers, center_losses, probes.ids, probes.losses(center_losses, answers), probes.chance)
    even, losses = probes.ids[probes.even], asked.losses[probes.even]
    labels, away = clustering.labels[even].astype(np.int64), clustering.distances[even].astype(np.float64)
    to_center = np.abs(losses - center_losses[labels])
    lines = tuple(holder_line(to_center, away, power) for power in powers)
    ratio = selected_ratio(clustering, draft.pilot.plan, job, asked, rng, progress, draft.components)
    proxy_ratio = None if cheap is None else proxied_ratio(job.frame, clustering, cheap, job.budget, asked)
    scaled = asked.scaled()
    verdict, reason = judge(scaled.losses, asked.weights, ratio, proxy_ratio)
    return Diagnosis(
        verdict=verdict,
        reason=reason,
        ratio=ratio,
        proxy_ratio=proxy_ratio,
        explained=explained_share(scaled.losses[probes.even], labels),
        holder=lines,
        best_z=min(lines, key=lambda line: line.price).z,
        gaps=compare_gaps(losses, center_losses[labels], rng),
        violations=None if holder is None else violations(to_center, away, clustering.z, holder),
        n=clustering.n,
        budget=job.budget,
        clusters=clustering.k,
        z=clustering.z,
        seed=job.seed,
        centers=clustering.centers,
        center_losses=center_losses,
        probes=probes.new,
        losses=answers,
        ledger=Ledger.of(requests),
    )


def judge(losses: Floats, weights: Floats, ratio: Interval, proxy_ratio: Interval | None) -> tuple[str, str]:
    """Return the verdict and its reason from the probes' losses and the predicted errors.

    `weights` has the number of rows that each probe stands for.
    """
    if not losses.any():
        return CANNOT_TELL, f"All {losses.size} probes have the loss 0."
    half = _rows_of_half(weights * losses)
    if half < max(2.0, RARE * losses.size):
        return CANNOT_TELL, f"{half} of {losses.size} probes {_stands(half)} for half of the loss."
    best, verdict = (ratio, USE)
    if proxy_ratio is not None and proxy_ratio.value < ratio.value:
        best, verdict = (proxy_ratio, WITH_PROXY)
    about = f"about {best.value:.2f} times the error of a uniform sample"
    if best.value >= WORTH:
        return UNIFORM, f"A selection would have {about}."
    squares = np.sort(weights * (losses - weights @ losses / weights.sum()) ** 2)
    if squares[-2:].sum() > TWO_PROBES * squares.sum():
        return CANNOT_TELL, f"It promises {about}, but one or two of {losses.size} probes carry that."
    return verdict, f"Expect {about}."


def _prepare(
    rows: RowsLike | None,
    budget: int | None,
    seed: int,
    probes: int,
    engine: Engine | None,
    progress: Progress,
    options: Options,
) -> tuple[Draft, ProbeRows]:
    """Do everything that `select` would do before it asks for a loss, and draw the probes."""
    check_options("diagnose", options, ARGUMENTS, Options)
    whole("probes", probes, least=FEWEST)
    clusters = options.get("clusters")
    if budget is None and clusters is not None and options.get("epsilon") is None:
        budget = 10 * (clusters.k if isinstance(clusters, Clustering) else whole("clusters", clusters))
    job = settle(rows, budget, seed, asking=True, **options)
    if job.budget >= job.frame.population:
        refuse("budget", f"below the number of rows, {job.frame.population}", job.budget)
    draft = prepare(job, engine, progress)
    return draft, draw_probes(draft, probes, generator(job.seed, Stream.PROBES))


ARGUMENTS = ("rows", "losses", "budget", "seed", "probes", "powers", "holder", "proxy", "engine", "progress")


def _powers(powers: Sequence[float]) -> tuple[float, ...]:
    try:
        values = tuple(positive("powers", power) for power in powers)
    except TypeError:
        values = ()
    if not values or isinstance(powers, str):
        refuse("powers", "one or more finite numbers above 0", repr(powers))
    return values


def _rows_of_half(parts: Floats) -> int:
    """Return the smallest number of parts that add up to half of the loss."""
    carried = np.cumsum(np.sort(parts)[::-1])
    return int(np.searchsorted(carried, carried[-1] / 2)) + 1


def _stands(count: int) -> str:
    return "stands" if count == 1 else "stand"
