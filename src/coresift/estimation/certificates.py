"""Certificates for a finished selection: one from its draws alone, and one that assumes a well-behaved loss."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coresift.bounds import difference_error, difference_size, paper_error, paper_size
from coresift.checks import InputError, loss_vector, named_options, positive, refuse, share
from coresift.estimation import check_method, estimate, scaled
from coresift.estimation.centers import check_clustering
from coresift.estimation.intervals import bernstein, uncertain
from coresift.estimation.methods import Method
from coresift.notebook import card, interval_texts
from coresift.types import Clustering, Estimate, Floats, Interval, Value, WeightedSelection, freeze

ONE_SIDE = 1 / math.e  # the largest probability that the paper's bound fails on one side


@dataclass(frozen=True)
class Statistical:
    """What the draws say about the total and the mean loss, without any assumption about the embedding.

    `kind` is "finite-sample" (the interval holds for any number of draws, given the stated bound on the loss),
    "asymptotic" (it holds as the number of drawn rows grows) or "exact" (all rows were selected). `why` explains it.
    """

    estimate: Estimate
    kind: str
    why: str
    rows: int
    population: int
    effective_size: float
    largest_weight: float

    def __str__(self) -> str:
        level = f"{100 * self.estimate.confidence:.6g}%"
        weights = f"largest weight {self.largest_weight:,.6g}, worth {self.effective_size:,.0f} rows of equal weight"
        lines = [
            f"Statistical, {self.kind}: {self.why}.",
            f"  total loss  {_format_interval(self.estimate.total, level)}",
            f"  mean loss   {_format_interval(self.estimate.mean, level)}",
            f"  rows        {self.rows:,} of {self.population:,}, {weights}",
            *(f"  warning     {remark}" for remark in self.estimate.warnings),
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class Bound:
    """A relative error ε, the absolute error, and the probability of a larger error (at most `failure`).

    `low` and `high` are the smallest and largest total that the bound allows.
    """

    epsilon: float
    error: float
    failure: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Conditional(Value):
    """What the theorem says if |ℓ(e) − ℓ(c)| ≤ Λ·‖e − c‖^z for every row e and its center c, which is not checked.

    `cost` is Φ^Λ as measured. `theorem` is "sampling" (Algorithm 1: error ε(Σℓ + 2Φ^Λ), with the estimated Σℓ),
    "difference" (error ε·Φ^Λ), or "" if neither covers this selection; `why` explains it. `one_sided` uses the paper's
    constant: it fails with probability at most 1/e on one side. `two_sided` fails with probability at most δ on both
    sides together. `draws_one_sided` and `draws_two_sided` are the draws that the desired ε (and δ) would take.
    """

    holder: Floats
    z: float
    cost: float
    theorem: str
    why: str
    draws: int
    one_sided: Bound | None
    two_sided: Bound | None
    wished_epsilon: float
    wished_delta: float
    draws_one_sided: int | None
    draws_two_sided: int

    def __post_init__(self) -> None:
        freeze(self, holder=np.float64)

    def __str__(self) -> str:
        holder = _format_holder(self.holder)
        lines = [
            f"Conditional: if every loss is within Λ·distance^{self.z:g} of its center's, which is not checked here.",
            f"  Λ = {holder}, Φ^Λ = {self.cost:,.6g}; {self.why}.",
        ]
        if self.one_sided is not None:
            lines.append(f"  {_format_bound(self.one_sided, self.theorem)} on one side (the paper's constant)")
        if self.two_sided is not None:
            lines.append(f"  {_format_bound(self.two_sided, self.theorem)} on both sides together")
            lines.append(f"              so the total is from {self.two_sided.low:,.6g} to {self.two_sided.high:,.6g}")
        first = "" if self.draws_one_sided is None else f"{self.draws_one_sided:,} draws as in the paper, and "
        wish = f"ε = {self.wished_epsilon:g}"
        enough = f"{self.draws_two_sided:,} draws to fail with at most {self.wished_delta:g}"
        lines.append(f"  {wish} would take {first}{enough}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(Value):
    """How far off a selection's total can be: one part needs only the draws, the other makes an assumption."""

    statistical: Statistical
    conditional: Conditional | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of the statistical part."""
        return self.statistical.estimate.warnings

    def __str__(self) -> str:
        return "\n\n".join(str(part) for part in (self.statistical, self.conditional) if part is not None)

    def __repr__(self) -> str:
        total, parts = self.statistical.estimate.total, "" if self.conditional is None else ", and a conditional part"
        return f"Certificate(total={total}, {self.statistical.kind}{parts})"

    def _repr_html_(self) -> str:
        part = self.statistical
        level = f"{100 * part.estimate.confidence:.6g}%"
        lines = [
            ("total loss", _format_interval(part.estimate.total, level)),
            ("mean loss", _format_interval(part.estimate.mean, level)),
            (part.kind, part.why),
            ("based on", f"{part.rows:,} of {part.population:,} rows"),
        ]
        conditional = [] if self.conditional is None else str(self.conditional).splitlines()
        return card("Certificate", lines, [*self.warnings, *conditional])


@named_options
def certify(
    selection: WeightedSelection,
    losses: Any,
    *,
    upper: float | None = None,
    clustering: Clustering | None = None,
    holder: Any = None,
    epsilon: float = 0.1,
    delta: float = 0.05,
    method: Method | None = None,
    confidence: float = 0.95,
) -> Certificate:
    """Bound the error of the estimated total loss, from the losses of all selected rows.

    Args:
        selection: The selection.
        losses: One loss for each of `selection.ids`, in that order.
        upper: An upper bound on every row's loss, drawn or not. With independent draws (`Independent`, and no random
            pilot) the interval then holds for finite samples, by the empirical Bernstein inequality; otherwise it is
            asymptotic.
        clustering: The clustering that the selection was made with, for the conditional part.
        holder: Λ, one number or one per cluster, if it is not the one that the selection was made with.
        epsilon: The error for which the conditional part computes the number of draws.
        delta: The failure probability for which the conditional part computes the number of draws.
        method: The estimator, as in `estimate`; the default is always an unbiased one.
        confidence: The confidence level of the interval.

    Returns:
        The interval (`statistical`) and, with a clustering, what the theorem says under a stated Λ (`conditional`).

    Examples:
        >>> import numpy as np, coresift as cs
        >>> rows = np.random.default_rng(0).normal(size=(1000, 2))
        >>> loss, clustering = np.abs(rows[:, 0]), cs.cluster(rows, 20, seed=0)
        >>> picked = cs.select(rows, loss, budget=400, clusters=clustering, recipe=cs.recipes.paper(holder=1.0))
        >>> certificate = cs.certify(picked, loss[picked.ids], upper=4.0, clustering=clustering)
        >>> certificate.statistical.kind, certificate.conditional.theorem
        ('finite-sample', 'sampling')
    """
    method = check_method(selection, method)
    values = loss_vector(losses, selection.ids)
    statistical = _statistical(selection, values, upper, method, share("confidence", confidence))
    positive("epsilon", epsilon)
    share("delta", delta)
    if clustering is None:
        if holder is not None:
            raise InputError("holder needs the clustering too, to measure Φ^Λ; give both.")
        return Certificate(statistical)
    total = statistical.estimate.total.value
    target = (epsilon, delta)
    return Certificate(statistical, _conditional(selection, values, total, clustering, holder, target, method))


def _statistical(
    selection: WeightedSelection, values: Floats, upper: float | None, method: Method, confidence: float
) -> Statistical:
    kind, why = "asymptotic", "the interval holds as the number of drawn rows grows"
    if upper is not None:
        positive("upper", upper)
        if values.size and values.max() > upper:
            refuse("upper", f"at least the largest observed loss, {values.max():g}", f"{upper:g}")
    ends = None if upper is None else (0.0, float(upper))
    result: Estimate = estimate(selection, values, confidence=confidence, method=method, ends=ends)
    if not any(uncertain(selection, phase).size for phase in range(1, len(selection.phases) + 1)) and len(selection):
        kind, why = "exact", "every row that matters was selected"
    elif upper is not None and (obstacle := _obstacle(selection, method)):
        why += f"; a finite-sample interval needs {obstacle}"
    elif upper is not None:
        result = _finite_sample(selection, values, upper, method, result)
        kind, why = "finite-sample", f"the interval holds for any number of draws if no loss is above {upper:g}"
    return Statistical(
        estimate=result,
        kind=kind,
        why=why,
        rows=len(selection),
        population=selection.population,
        effective_size=result.effective_size,
        largest_weight=float(selection.weights.max(initial=0.0)),
    )


def _obstacle(selection: WeightedSelection, method: Method) -> str:
    """Return what is missing for a finite-sample interval."""
    if not _independent(selection):
        return "independent draws (design=Independent())"
    if uncertain(selection, 1).size:
        return "a pilot that is not random (pilot=Centers(), or none)"
    if selection.least_inclusion == 0:
        return "every row to have a probability above 0"
    return "an unbiased method" if method.ends(1.0) is None else ""


def _finite_sample(
    selection: WeightedSelection, values: Floats, upper: float, method: Method, asymptotic: Estimate
) -> Estimate:
    """Return the estimate with an empirical Bernstein interval, clipped to the totals that the known losses allow."""
    ends = method.ends(upper)
    assert ends is not None
    residuals = method.adjust(selection, values).residuals
    margin = bernstein(selection, residuals, ends, 1 - asymptotic.confidence)
    least = float(values.sum())
    most = least + upper * (selection.population - len(selection))
    value = asymptotic.total.value
    low, high = max(value - margin, least), min(value + margin, most)
    total = replace(asymptotic.total, low=low, high=high)
    return replace(
        asymptotic,
        total=total,
        mean=scaled(total, 1 / selection.population),
        method=f"{method.label}; empirical Bernstein inequality",
        assumption=f"no loss is above {upper:g}",
        warnings=(),
    )


def _conditional(
    selection: WeightedSelection,
    values: Floats,
    total: float,
    clustering: Clustering,
    holder: Any,
    target: tuple[float, float],
    method: Method,
) -> Conditional:
    check_clustering(selection, clustering)
    scale = _holder(selection, clustering, holder)
    costs = np.bincount(clustering.labels, clustering.powers, clustering.k)
    cost = float(np.broadcast_to(scale, clustering.k) @ costs)
    theorem, why = _theorem(selection, values, clustering, scale, method)
    drawn = uncertain(selection, 2)
    draws = int(selection.multiplicity[drawn].sum())
    certain = float(values.sum() - values[drawn].sum())
    (epsilon, delta), difference = target, theorem == "difference"
    one_sided = two_sided = None
    if theorem == "sampling":
        one_sided = _sampling_bound(paper_error(draws), total, certain, cost, ONE_SIDE)
        two_sided = _sampling_bound(paper_error(draws, delta), total, certain, cost, delta)
    elif difference:
        error = difference_error(draws, delta) * cost
        two_sided = Bound(difference_error(draws, delta), error, delta, max(total - error, 0.0), total + error)
    return Conditional(
        holder=scale,
        z=clustering.z,
        cost=cost,
        theorem=theorem,
        why=why,
        draws=draws,
        one_sided=one_sided,
        two_sided=two_sided,
        wished_epsilon=epsilon,
        wished_delta=delta,
        draws_one_sided=None if difference else paper_size(epsilon),
        draws_two_sided=difference_size(epsilon, delta) if difference else paper_size(epsilon, delta),
    )


def _sampling_bound(epsilon: float, total: float, certain: float, cost: float, failure: float) -> Bound:
    """Return ε(Σℓ + 2Φ^Λ) at the estimated Σℓ, and the range of totals that it allows.

    The bound covers R, the total of all rows that are not certain. |R̂ − R| ≤ ε(R + 2Φ^Λ) means that R is from
    (R̂ − 2εΦ^Λ)/(1 + ε) to (R̂ + 2εΦ^Λ)/(1 − ε).
    """
    uncertain_total = total - certain
    low = certain + max(uncertain_total - 2 * epsilon * cost, 0.0) / (1 + epsilon)
    high = certain + (uncertain_total + 2 * epsilon * cost) / (1 - epsilon) if epsilon < 1 else math.inf
    return Bound(epsilon, epsilon * (uncertain_total + 2 * cost), failure, low, high)


def _holder(selection: WeightedSelection, clustering: Clustering, holder: Any) -> Floats:
    if holder is None and not selection.holder.size:
        raise InputError("holder must say which Λ to use: this selection was made without one.")
    try:
        scale = np.atleast_1d(np.array(selection.holder if holder is None else holder, dtype=np.float64))
    except (TypeError, ValueError):
        refuse("holder", "a number, or one per cluster", type(holder).__name__)
    if scale.ndim > 1 or scale.size not in (1, clustering.k) or not np.all(np.isfinite(scale) & (scale >= 0)):
        refuse("holder", f"a finite number of at least 0, or {clustering.k} such, one per cluster", f"{scale.size}")
    return scale


def _theorem(
    selection: WeightedSelection, values: Floats, clustering: Clustering, scale: Floats, method: Method
) -> tuple[str, str]:
    """Return which theorem covers this selection and estimator, and the reason."""
    if not _independent(selection) or uncertain(selection, 1).size:
        return "", "no theorem covers this selection: it needs independent draws and a pilot that is not random"
    return method.theorem(selection, values, clustering, scale)


def _independent(selection: WeightedSelection) -> bool:
    design = selection.phases[-1] if selection.phases else None
    return design is not None and design.independent


def _format_interval(interval: Interval, level: str) -> str:
    value, low, high = interval_texts(interval.value, interval.low, interval.high)
    return f"{value}, {level} interval {low} to {high}"


def _format_bound(bound: Bound, theorem: str) -> str:
    relative = "Φ^Λ" if theorem == "difference" else "(Σℓ + 2Φ^Λ)"
    return (
        f"error at most {bound.error:,.6g} = {bound.epsilon:.4g}·{relative}, "
        f"except with probability at most {bound.failure:.3g}"
    )


def _format_holder(holder: Floats) -> str:
    if holder.size == 1:
        return f"{holder[0]:g}"
    return f"{holder.min():g} to {holder.max():g} in {holder.size} clusters"
