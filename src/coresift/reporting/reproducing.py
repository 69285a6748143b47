"""Turn a selection's provenance into the code and the command that repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from keyword import iskeyword
from typing import Any

import numpy as np

from coresift.types import Provenance, Recipe, Selection, Strategy, WeightedSelection
from coresift.types.selections import MOST_PHASES

PARTS = ("pilot", "score", "design")


def as_code(selection: Selection, rows: str = "rows", losses: str = "losses") -> str | None:
    """Return Python code that repeats the selection; None for other functions than `select`.

    Where a file has only a digest (given rows, classes, a cheap model's losses), the code has a name to fill in. People
    copy and run this code, so there is none if a strategy's name is not a Python identifier.
    """
    provenance, recipe = selection.provenance, selection.recipe
    if provenance.job != "select" or recipe is None or not all(_is_named(part) for _, part in _parts(recipe)):
        return None
    opening = _opening(provenance, rows)
    rows = "rows" if opening else rows
    arguments = [rows, losses if selection.ledger.asked else "None"]
    first, *later = _budgets(selection)
    lines = [", ".join([*arguments, f"budget={first}", f"seed={selection.seed}"]) + ","]
    strata = ["strata=strata,"] if "strata" in provenance.frame else []
    normalize = ["normalize=True,"] if recipe.normalize else []
    if provenance.clustering_seed == selection.seed:
        lines += [f"clusters={recipe.clusters}, z={recipe.z},", *normalize, *strata]
    else:
        inside = " ".join([f"z={recipe.z}, seed={provenance.clustering_seed},", *normalize, *strata]).rstrip(",")
        opening += f"clustering = cs.cluster({rows}, {recipe.clusters}, {inside})\n"
        lines.append("clusters=clustering,")
    lines += [f"{kind}={part_as_code(kind, part)}," for kind, part in _parts(recipe)]
    lines += [
        f"{name}={name},  # {_one_line(provenance.lines()[name])}"
        for name in ("given", "exclude", "signals")
        if name in provenance.frame
    ]
    body = "\n".join(f"    {line}" for line in lines)
    growing = "".join(_growing(selection, budget, rows, losses) + "\n" for budget in later)
    return f"import coresift as cs\n\n{opening}selection = cs.select(\n{body}\n)\n{growing}"


def _budgets(selection: Selection) -> list[int]:
    """Return the budget of the selection, and then those that it grew to."""
    if not (isinstance(selection, WeightedSelection) and selection.growth.size):
        return [selection.provenance.budget]
    by_phase = np.bincount(selection.phase, minlength=MOST_PHASES + 1)
    return [int(by_phase[: last + 1].sum()) for last in range(MOST_PHASES, by_phase.size)]


def as_growth(selection: Selection, rows: str = "rows", losses: str = "losses") -> str | None:
    """Return Python code that doubles the selection; None if it cannot grow."""
    provenance, recipe = selection.provenance, selection.recipe
    budget = min(2 * provenance.budget, selection.population - 1)
    if provenance.job != "select" or recipe is None or budget <= provenance.budget:
        return None
    if not (getattr(recipe.design, "distinct", False) and getattr(recipe.design, "fixed_size", False)):
        return None
    return _growing(selection, budget, rows, losses)


def _growing(selection: Selection, budget: int, rows: str, losses: str) -> str:
    provenance = selection.provenance
    arguments = ["selection", *([losses] if selection.ledger.asked else []), f"budget={budget}"]
    if not ("signals" in provenance.frame and provenance.content is None):  # rows made from signals have no digest
        arguments.append(f"rows={rows}")
    arguments += [f"{name}={name}" for name in ("exclude", "strata", "signals") if name in provenance.frame]
    arguments += [] if provenance.clustering_seed == selection.seed else ["clusters=clustering"]
    return f"selection = cs.grow({', '.join(arguments)})"


def as_command(
    selection: Selection,
    rows: str = "ROWS",
    losses: str = "LOSSES",
    out: str = "picked.parquet",
    exclude_columns: Sequence[str] | None = (),
) -> str | None:
    """Return the command that repeats the selection, if the command line can express it.

    `exclude_columns` are the columns of the rows' table to leave out; None if they are unknown.
    """
    provenance, recipe = selection.provenance, selection.recipe
    if (
        exclude_columns is None
        or provenance.job != "select"
        or recipe is None
        or len(_budgets(selection)) > 1
        or {"strata", "given", "exclude", "signals"} & set(provenance.frame)
    ):
        return None
    parts = _parts(recipe)
    if provenance.clustering_seed != selection.seed or any(_has_array(part) for _, part in parts):
        return None
    words = ["coresift", "select", rows, "--budget", str(provenance.budget), "--seed", str(selection.seed)]
    for column in exclude_columns:
        words += ["--exclude-column", column]
    words += ["--id-column", provenance.id_column] if provenance.id_column not in (None, "id") else []
    words += ["--standardize"] if provenance.standardized else []
    words += ["--losses", losses] if selection.ledger.asked else []
    words += ["--clusters", str(recipe.clusters), "--z", f"{recipe.z:g}"]
    words += ["--normalize"] if recipe.normalize else []
    for kind, part in parts:
        words += [f"--{kind}", repr(part)]
    return shlex.join([*words, "--out", out])


def _opening(provenance: Provenance, rows: str) -> str:
    """Return the line that opens the rows as they were opened; empty if a plain matrix was used."""
    options = [] if provenance.columns is None else [f"columns={list(provenance.columns)!r}"]
    options += [f"id_column={provenance.id_column!r}"] if provenance.id_column not in (None, "id") else []
    options += ["standardize=True"] if provenance.standardized else []
    source = "table" if rows == "rows" else rows
    return f"rows = cs.open_rows({source}, {', '.join(options)})\n" if options else ""


def _parts(recipe: Recipe) -> list[tuple[str, Strategy]]:
    return [(kind, part) for kind in PARTS if (part := getattr(recipe, kind)) is not None]


def _is_named(part: Strategy) -> bool:
    record = part.record()
    return all(name.isidentifier() and not iskeyword(name) for name in (record["name"], *record["options"]))


def _one_line(words: str) -> str:
    return " ".join(words.split())


def _has_array(part: Strategy) -> bool:
    return any(isinstance(value, dict) and "digest" in value for value in part.record()["options"].values())


def part_as_code(kind: str, part: Strategy) -> str:
    """Return a part as code; an array among its options becomes a name to fill in."""
    record = part.record()
    options = ", ".join(f"{name}={_literal(kind, value)}" for name, value in record["options"].items())
    return f"cs.{kind}s.{record['name']}({options})"


def _literal(kind: str, value: Any) -> str:
    if isinstance(value, dict):
        return f"float({str(value['float'])!r})" if "float" in value else f"{kind}_numbers"
    return repr(value)
