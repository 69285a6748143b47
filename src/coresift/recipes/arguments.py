"""Check the arguments that `select` and related functions share, and fill in defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, get_type_hints

import numpy as np

from coresift.bounds import paper_size
from coresift.checks import InputError, positive, refuse, unknown_option, whole
from coresift.clustering.strata import encode
from coresift.designs import Pivotal, Systematic
from coresift.pilots import Informed, Representatives
from coresift.recipes.known import read_signals, rows_of_signals
from coresift.rows import ClassesLike, NumbersLike, Rows, RowsLike, SignalsLike, check_clustered, open_rows
from coresift.rows.numbering import numbers_of, warn_of_budget
from coresift.scores import Distance, Portfolio
from coresift.types import Clustering, Design, Frame, Pilot, Provenance, Recipe, Score, SignalTable

EXAMPLES = {"pilot": Representatives(), "score": Portfolio(), "design": Systematic()}


# The most draws with replacement: each takes a number, and they are sorted together.
MOST_DRAWS = 10**8


class PartOptions(TypedDict, total=False):
    """Options of selecting jobs besides rows, budget, seed and clusters; `settle` checks them."""

    recipe: Recipe | None
    z: float | None
    pilot: Pilot | None
    score: Score | None
    design: Design | None
    given: NumbersLike | None
    exclude: NumbersLike | None
    normalize: bool | None
    strata: ClassesLike | None
    signals: SignalsLike | None
    epsilon: float | None
    delta: float | None


class Options(PartOptions, total=False):
    """Options of selecting jobs besides rows, budget and seed."""

    clusters: int | Clustering | None


def check_options(function: str, options: Mapping[str, Any], arguments: Sequence[str], options_type: type) -> None:
    """Refuse an option that a function does not have, and suggest the most similar one."""
    names = list(get_type_hints(options_type))
    for name in options:
        if name not in names:
            unknown_option(function, name, [*arguments, *names])


@dataclass(frozen=True)
class Job:
    """The checked arguments of a selection, with defaults filled in; nothing has been computed yet.

    `clustering` is an existing one; without it, `clusters` says how many clusters to make.
    """

    rows: Rows
    frame: Frame
    clusters: int
    clustering: Clustering | None
    z: float
    normalize: bool
    pilot: Pilot | None
    score: Score
    design: Design
    budget: int
    seed: int

    @property
    def room(self) -> int:
        """How many rows to choose besides the given ones."""
        return self.budget - self.frame.given.size

    def provenance(self, name: str, clustering: Clustering, options: dict[str, str]) -> Provenance:
        """Return the provenance of a selection that this job makes."""
        recipe = Recipe(
            clustering.k, clustering.z, clustering.normalized, pilot=self.pilot, score=self.score, design=self.design
        )
        return Provenance(
            name,
            self.budget,
            recipe,
            self.frame.record(),
            clustering.seed,
            options,
            **self.rows.origin(),
        )


def settle(
    rows: RowsLike | None,
    budget: int | None,
    seed: int,
    *,
    asking: bool,
    recipe: Recipe | None = None,
    clusters: int | Clustering | None = None,
    z: float | None = None,
    pilot: Pilot | None = None,
    score: Score | None = None,
    design: Design | None = None,
    given: NumbersLike | None = None,
    exclude: NumbersLike | None = None,
    normalize: bool | None = None,
    strata: ClassesLike | None = None,
    signals: SignalsLike | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
) -> Job:
    """Check the arguments and fill in defaults; the recipe replaces arguments that are None."""
    opened, seed = None if rows is None else open_rows(rows), whole("seed", seed, least=0)
    signal_table = read_signals(signals, opened)
    rows = rows_of_signals(signal_table) if opened is None else opened
    frame = _frame(rows, given, exclude, strata, signal_table)
    overrides = {"z": z, "normalize": normalize, "pilot": pilot, "score": score, "design": design}
    overrides["clusters"] = None if isinstance(clusters, Clustering) else clusters
    settings = merge_recipe(recipe, overrides)
    pilot_part, score_part, design_part = _parts(
        settings, asking, informed=signal_table is not None and opened is not None
    )
    budget = _budget(budget, epsilon, delta, (pilot_part, score_part, design_part), frame)
    clustering = clusters if isinstance(clusters, Clustering) else None
    if clustering is not None:
        _check_clustering(clustering, rows, settings, frame)
        settings = replace(settings, clusters=clustering.k, z=clustering.z, normalize=clustering.normalized)
        frame = replace(frame, strata=clustering.classes())
    rows.warn_of_columns()
    if design_part.distinct and budget >= frame.population:
        warn_of_budget(budget, frame.population)
        score_part, pilot_part = Distance(floor=1.0), None  # every row is selected, so there is nothing to learn
    return Job(
        rows=rows,
        frame=frame,
        clusters=clustering.k if clustering is not None else _cluster_count(settings.clusters, budget, frame),
        clustering=clustering,
        z=2.0 if settings.z is None else positive("z", settings.z),
        normalize=bool(settings.normalize),
        pilot=pilot_part,
        score=score_part,
        design=design_part,
        budget=budget,
        seed=seed,
    )


def _frame(rows: Rows, given: Any, exclude: Any, strata: Any, signals: SignalTable | None) -> Frame:
    classes = np.zeros(0, np.int32) if strata is None else encode(strata, rows)
    return Frame(rows.n, numbers_of("given", given, rows), numbers_of("exclude", exclude, rows), classes, signals)


def merge_recipe(recipe: Recipe | None, overrides: dict[str, Any]) -> Recipe:
    """Return the recipe with the given options replaced; None means not given."""
    if recipe is not None and not isinstance(recipe, Recipe):
        refuse("recipe", "a Recipe, such as cs.recipes.paper(holder=0.1)", type(recipe).__name__)
    return replace(recipe or Recipe(), **{name: value for name, value in overrides.items() if value is not None})


def _parts(recipe: Recipe, asking: bool, *, informed: bool) -> tuple[Pilot | None, Score, Design]:
    pilot = checked_part("pilot", recipe.pilot, Pilot)
    score = checked_part("score", recipe.score, Score) or (Portfolio() if asking else Distance())
    needs = score.needs.pilot
    if informed and not score.needs.signals:
        if not asking:
            raise InputError("signals need losses to confirm them; give losses, or leave signals out.")
        raise InputError(f"score={score!r} does not use signals; leave it out, or use score=cs.scores.Portfolio().")
    if not asking and (needs or pilot is not None):
        culprit = f"score={score!r}" if needs else f"pilot={pilot!r}"
        raise InputError(f"{culprit} asks for losses, and there are none; give losses, or leave it out.")
    if pilot is None and needs:
        pilot = Informed() if informed and score.needs.signals else Representatives()
    # Both sorted designs have nearly the same error. After a random pilot, order and sizes differ between seeds, and a
    # systematic draw is the more even one. Without a pilot, order and sizes are fixed, and the start of a systematic
    # draw is its only randomness; pivotal duels are random enough for a valid interval.
    design = checked_part("design", recipe.design, Design) or (Systematic() if needs else Pivotal())
    return pilot, score, design


def checked_part(name: str, part: Any, kind: type) -> Any:
    """Return the part, or refuse it if it is not an instance of `kind`."""
    if part is not None and not isinstance(part, kind):
        refuse(name, f"one of coresift's {name}s, such as {EXAMPLES[name]}", repr(part))
    return part


def _budget(
    budget: int | None,
    epsilon: float | None,
    delta: float | None,
    strategies: tuple[Pilot | None, Score, Design],
    frame: Frame,
) -> int:
    if epsilon is not None:
        pilot, score, design = strategies
        is_paper_mode = (
            pilot is not None and pilot.asks_centers and not pilot.keep and score.theorem and design.independent
        )
        if budget is not None or not is_paper_mode:
            raise InputError("epsilon replaces the budget in paper mode only: recipe=cs.recipes.paper(holder=...).")
        return paper_size(epsilon, delta)
    if delta is not None:
        raise InputError("delta goes with epsilon; give both, or a budget alone.")
    if budget is None:
        raise InputError("budget must say how many rows to select; got none.")
    whole("budget", budget)
    if budget > MOST_DRAWS and not strategies[2].distinct:
        refuse("budget", f"at most {MOST_DRAWS:,} for a design that draws with replacement", budget)
    if frame.population == 0:
        raise InputError("exclude leaves no row to select.")
    given = frame.given.size
    if budget < given or budget == given < frame.population:
        refuse("budget", f"more than the {given} given rows, which count toward it", budget)
    return int(budget)


def _cluster_count(clusters: Any, budget: int, frame: Frame) -> int:
    least = int(frame.strata.max()) + 1 if frame.strata.size else 1
    if clusters is None:
        # Classes already do part of the clusters' work, and with fewer clusters the pilot has more rows in each.
        return min(max(budget // (20 if frame.strata.size else 10), least), frame.n)
    if whole("clusters", clusters) < least:
        refuse("clusters", f"at least {least}, one for each class in strata", clusters)
    return int(clusters)


def _check_clustering(clustering: Clustering, rows: Rows, settings: Recipe, frame: Frame) -> None:
    check_clustered(clustering, rows)
    if settings.z is not None and settings.z != clustering.z:
        raise InputError(f"z must be that of the clustering, {clustering.z:g}; got {settings.z}.")
    if settings.normalize and not clustering.normalized:
        raise InputError("normalize=True needs a clustering of normalized rows; this one is not.")
    if frame.strata.size and not clustering.strata.size:
        raise InputError("strata needs a clustering that was made within classes; this one was not.")
    if frame.strata.size and not np.array_equal(frame.strata, clustering.classes()):
        raise InputError("strata must be the classes that the clustering was made with; these are different.")
