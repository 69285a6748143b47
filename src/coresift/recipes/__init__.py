"""Recipes: how a selection is made, for the argument `recipe=` of `select` and related functions.

Only this package knows the strategies' classes; everything else uses their interfaces.
"""

from __future__ import annotations

from typing import Any

from coresift.checks import named_options
from coresift.designs import Independent, Pivotal, Systematic
from coresift.pilots import Centers, Representatives
from coresift.recipes.arguments import checked_part
from coresift.scores import Distance, LeverageMixture, Mixture, Portfolio, Proxy, Sensitivity
from coresift.types import Design, Pilot, Recipe, Score

__all__ = ["Recipe", "by_distance", "by_proxy", "default", "mixture", "paper", "paper_training"]

# A fixed number of distinct rows, spread along their order; pilots are drawn this way, and baselines by default.
EVEN_DRAW: Design = Systematic()
# The same, but random within every step, so that the variance does not depend on how one random start meets the rows.
SPREAD_DRAW: Design = Pivotal()
# Regressions with more columns than this are not drawn by leverage scores unless you ask for it.
MOST_LEVERAGE_COLUMNS = 2_000


def default() -> Recipe:
    """Return the default recipe of `select` with losses.

    Returns:
        A random pilot (`Representatives`), a portfolio of densities (`Portfolio`), and a systematic draw
        (`Systematic`).

    Examples:
        >>> default().score
        Portfolio(floor=0.1, prior=4.0, components=16)
    """
    return Recipe(pilot=Representatives(), score=Portfolio(), design=Systematic())


@named_options
def paper(holder: Any, *, keep: bool = False) -> Recipe:
    """Return the paper's Algorithm 1: ask for the centers' losses, then draw independently ∝ ℓ(c) + Λ‖e − c‖^z.

    Args:
        holder: Λ: a number, one number per cluster, or "free", "robust" or "estimate" to estimate it.
        keep: Keep the centers in the selection, with weight 1, as the paper's experiments do.

    Returns:
        The recipe.

    Examples:
        >>> paper(holder=0.1).design
        Independent()
    """
    return Recipe(pilot=Centers(keep=keep), score=Sensitivity(holder=holder), design=Independent())


@named_options
def paper_training(holder: Any = "free") -> Recipe:
    """Return the recipe of the paper's training experiments: keep the centers, and draw distinct rows.

    Args:
        holder: Λ, as in `paper`.

    Returns:
        The recipe.

    Examples:
        >>> paper_training().pilot
        Centers(keep=True)
    """
    return Recipe(pilot=Centers(keep=True), score=Sensitivity(holder=holder), design=Pivotal())


@named_options
def mixture(loss: float = 0.25, distance: float = 0.25) -> Recipe:
    """Return a recipe that keeps the centers and draws from a fixed mixture of loss, distance and uniform.

    Args:
        loss: The share that is proportional to the losses of the centers.
        distance: The share that is proportional to the distance from the center. The rest is uniform.

    Returns:
        The recipe.

    Examples:
        >>> mixture(loss=0.5).score
        Mixture(loss=0.5, distance=0.25)
    """
    return Recipe(pilot=Centers(keep=True), score=Mixture(loss, distance))


@named_options
def by_distance(floor: float = 0.5) -> Recipe:
    """Return a recipe that asks for no losses: rows are drawn by distance, above a uniform floor.

    Args:
        floor: The uniform share.

    Returns:
        The recipe.

    Examples:
        >>> by_distance().score.floor
        0.5
    """
    return Recipe(score=Distance(floor))


@named_options
def by_proxy(losses: Any, floor: float = 0.2) -> Recipe:
    """Return a recipe that draws by a cheap model's loss for every row, above a uniform floor.

    Args:
        losses: One cheap loss per row.
        floor: The uniform share.

    Returns:
        The recipe. It asks for no losses.

    Examples:
        >>> by_proxy([1.0, 2.0, 3.0]).clusters
        1
    """
    # Rows are drawn in the order of the cheap losses, so one cluster is as good as many.
    return Recipe(clusters=1, score=Proxy(losses, floor))


def rounds(*, asking: bool) -> Recipe:
    """Return the default recipe of `cs.rounds`: the paper's Algorithm 3, or distances alone without losses.

    Args:
        asking: Whether losses are asked.

    Returns:
        The recipe.

    Examples:
        >>> rounds(asking=True).pilot
        Centers(keep=False)
    """
    if not asking:
        return Recipe(score=Distance(), design=Independent())
    return Recipe(pilot=Centers(keep=False), score=Sensitivity(holder="free"), design=Independent())


def regression(score: Any, pilot: Any, design: Any, columns: int) -> tuple[Score, Pilot | None, Design]:
    """Return the parts of a regression; by default, draws are by leverage scores, distances and a uniform floor.

    Leverage scores take time cubic in the number of columns. Beyond 2,000 columns, or with a pilot, the default is to
    draw by squared distance above a floor, and to keep the medoids unless the pilot says otherwise.

    Args:
        score: The score, or None for the default.
        pilot: The pilot, or None for the default. A score that uses leverage instead of a pilot gets none.
        design: The design, or None for the default.
        columns: How many columns the rows have.

    Returns:
        The score, the pilot (or None) and the design.

    Examples:
        >>> regression(None, None, None, columns=20)
        (LeverageMixture(leverage=0.7, floor=0.15, ridge=0.0), None, Pivotal())
    """
    pilot = checked_part("pilot", pilot, Pilot)
    by_leverage = pilot is None and columns <= MOST_LEVERAGE_COLUMNS
    default = LeverageMixture() if by_leverage else Distance(floor=0.3, power=2.0)
    score = checked_part("score", score, Score) or default
    if pilot is None and score.needs.leverage is None:
        pilot = Centers(keep=True)
    return score, pilot, checked_part("design", design, Design) or Pivotal()
