"""Weights for any number of phases, and how a selection's shares change when it grows.

Phase k draws from the rows that no earlier phase drew, row e with probability πₖ(e) > 0. Every row has a share aₖ in
each phase, with Σₖ aₖ = 1: phase k estimates that share of its value, and rows drawn earlier represent only themselves:

    T̂ = Σₖ Tₖ,    Tₖ = Σ_{drawn before k} aₖ·y + Σ_{Sₖ} aₖ·y/πₖ.

So a row drawn in phase j has weight aⱼ/πⱼ + Σ_{k>j} aₖ. Given all earlier phases, the expectation of Tₖ is Σ aₖ·y, no
matter how πₖ was computed, as long as aₖ does not depend on draw k or later draws. So every Tₖ is unbiased, the errors
of different phases are uncorrelated, and their variances add.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coresift.checks import InputError, refuse, whole
from coresift.types import Floats, Ints

# Shares must sum to 1; a larger deviation than this is a mistake, not rounding.
ROUNDING = 1e-9
# When a selection grows, a row drawn before counts as much as this part of a new one: the new draw knows more answers,
# so its rows say more about the total, many times more if few rows have most of it.
EARLIER = 0.7


def phase_weights(phase: Any, inclusion: Any, shares: Any, multiplicity: Any = None) -> Floats:
    """Return the weight of every selected row: aⱼ/πⱼ + Σ_{k>j} aₖ for a row that phase j drew.

    Args:
        phase: The phase that drew each selected row, starting at 1; 0 for a row that was certain.
        inclusion: The probability with which that phase drew the row, given the earlier phases.
        shares: The shares of each selected row, one column per phase.
        multiplicity: How often each row was drawn, if a phase can draw it more than once; by default once.

    Returns:
        The weights; 1 for certain rows.

    Examples:
        >>> phase_weights([1, 2, 0], [0.5, 0.25, 1.0], [[0.2, 0.8]] * 3)
        array([1.2, 3.2, 1. ])
    """
    phases, chances, share_table = _check_arrays(phase, inclusion, shares)
    times = np.ones(phases.size) if multiplicity is None else np.asarray(multiplicity, np.float64)
    if times.shape != phases.shape:
        refuse("multiplicity", f"one number for each of {phases.size} selected rows", f"shape {times.shape}")
    rows = np.arange(phases.size)
    later = np.concatenate([np.cumsum(share_table[:, ::-1], axis=1)[:, ::-1], np.zeros((phases.size, 1))], axis=1)
    own_share = share_table[rows, np.maximum(phases - 1, 0)]
    return np.where(phases == 0, 1.0, times * own_share / chances + later[rows, phases])


def phase_values(values: Any, phase: Any, inclusion: Any, shares: Any, k: int) -> tuple[Ints, Floats]:
    """Return the positions of the rows that phase k drew, and aₖ·y/πₖ of each, from which its variance is computed.

    Args:
        values: y, one number per selected row.
        phase: As in `phase_weights`.
        inclusion: As in `phase_weights`.
        shares: As in `phase_weights`.
        k: The phase, starting at 1.

    Returns:
        Positions and expanded values.

    Examples:
        >>> phase_values([3.0, 5.0], [1, 2], [0.5, 0.25], [[0.2, 0.8]] * 2, k=2)
        (array([1]), array([16.]))
    """
    phases, chances, share_table = _check_arrays(phase, inclusion, shares)
    if whole("k", k) > share_table.shape[1]:
        refuse("k", f"a phase from 1 to {share_table.shape[1]}", k)
    positions = np.flatnonzero(phases == k)
    return positions, share_table[positions, k - 1] * np.asarray(values, np.float64)[positions] / chances[positions]


def sum_of_phases(variances: Sequence[float]) -> float:
    """Return the variance of the total: the phases' errors are uncorrelated, so their variances add.

    Examples:
        >>> sum_of_phases([4.0, 2.5])
        6.5
    """
    if any(not variance >= 0 for variance in variances):
        refuse("variances", "numbers of at least 0", str(list(variances)))
    return float(sum(variances))


def poisson_variance(values: Any, phase: Any, inclusion: Any, shares: Any) -> float:
    """Return the estimated variance of the total if every phase is a Poisson draw: Σ (1 − π)·(a·y/π)².

    It is unbiased for Poisson draws, and usually too large for a fixed-size draw along a sorted order.

    Examples:
        >>> poisson_variance([3.0, 5.0], [1, 2], [0.5, 0.25], [[0.2, 0.8]] * 2)
        192.72
    """
    phases, chances, share_table = _check_arrays(phase, inclusion, shares)
    own_share = share_table[np.arange(phases.size), np.maximum(phases - 1, 0)]
    squares = (1 - chances) * (own_share * np.asarray(values, np.float64) / chances) ** 2
    return sum_of_phases([float(squares[phases == k].sum()) for k in range(1, share_table.shape[1] + 1)])


def kept_part(planned: int, added: int) -> float:
    """Return the part of every earlier share that is left after `added` rows join `planned` ones.

    It depends only on planned sizes, so it is fixed before any draw.

    Examples:
        >>> kept_part(planned=500, added=350)
        0.5
    """
    return EARLIER * planned / (EARLIER * planned + added)


def grow_shares(shares: Any, planned: int, added: int) -> Floats:
    """Return the shares after one more phase of `added` rows, for a selection that was planned with `planned` rows.

    Every earlier share is multiplied by `kept_part`, and the new phase takes the rest, so each phase counts in
    proportion to its number of rows, earlier ones a little less. The split depends only on planned sizes. If answers
    decide whether or how far a selection grows, the shares depend on the draws, and the total is biased; the bias is
    small if no single answer affects the size much.

    Args:
        shares: The shares of any rows in the phases so far, one column per phase.
        planned: How many rows those phases were planned to select.
        added: How many rows the new phase is planned to select.

    Returns:
        The shares with one more column; every line sums to 1.

    Examples:
        >>> grow_shares([[0.2, 0.8]], planned=500, added=350)
        array([[0.1, 0.4, 0.5]])
    """
    share_table = _check_shares(shares)
    whole("planned", planned)
    whole("added", added)
    kept = kept_part(planned, added)
    return np.concatenate([kept * share_table, np.full((len(share_table), 1), 1 - kept)], axis=1)


def split_last_share(shares: Any, planned: int, added: int) -> Floats:
    """Return the shares after one more phase: the last share is split by planned sizes, the others do not change.

    Use this if earlier phases must keep their shares. `grow_shares` has the smaller variance if the growth was not
    planned: a pilot of 100 rows that estimates a fifth of every total is too small for a selection of 2,000.

    Examples:
        >>> split_last_share([[0.2, 0.8]], planned=400, added=280)
        array([[0.2, 0.4, 0.4]])
    """
    share_table = _check_shares(shares)
    last = grow_shares(np.ones((len(share_table), 1)), planned, added)
    return np.concatenate([share_table[:, :-1], share_table[:, -1:] * last], axis=1)


def _check_arrays(phase: Any, inclusion: Any, shares: Any) -> tuple[Ints, Floats, Floats]:
    phases, chances, share_table = np.asarray(phase, np.int64), np.asarray(inclusion, np.float64), _check_shares(shares)
    if phases.ndim != 1 or chances.shape != phases.shape or len(share_table) != phases.size:
        raise InputError("phase, inclusion and shares must have one entry per selected row.")
    if phases.size and not (phases.min() >= 0 and phases.max() <= share_table.shape[1]):
        refuse("phase", f"from 0 to {share_table.shape[1]}, the number of columns of shares", phases.max())
    if not np.all(chances > 0):
        refuse("inclusion", "probabilities above 0", chances.min())
    return phases, chances, share_table


def _check_shares(shares: Any) -> Floats:
    share_table = np.asarray(shares, np.float64)
    if share_table.ndim != 2 or share_table.shape[1] < 1:
        refuse("shares", "one line per row and one column per phase", f"shape {share_table.shape}")
    if not (np.all(share_table >= 0) and np.all(np.abs(share_table.sum(axis=1) - 1) <= ROUNDING)):
        refuse("shares", "numbers of at least 0 that sum to 1 in every line", "other numbers")
    return share_table
