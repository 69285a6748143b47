"""Turn a selection's provenance into the code and the command that repeat it."""

from __future__ import annotations

import shlex
from keyword import iskeyword
from typing import Any

from coresift.types import Recipe, Selection, Strategy

PARTS = ("pilot", "score", "design")


def as_code(selection: Selection, rows: str = "rows", losses: str = "losses") -> str | None:
    """Return Python code that repeats the selection; None for other functions than `select`.

    Where a file has only a digest (given rows, classes, a cheap model's losses), the code has a name to fill in. People
    copy and run this code, so there is none if a strategy's name is not a Python identifier.
    """
    provenance, recipe = selection.provenance, selection.recipe
    if provenance.job != "select" or recipe is None or not all(_is_named(part) for _, part in _parts(recipe)):
        return None
    arguments = [rows, losses if selection.ledger.asked else "None"]
    lines = [", ".join([*arguments, f"budget={provenance.budget}", f"seed={selection.seed}"]) + ","]
    strata = ["strata=strata,"] if "strata" in provenance.frame else []
    normalize = ["normalize=True,"] if recipe.normalize else []
    if provenance.clustering_seed == selection.seed:
        lines += [f"clusters={recipe.clusters}, z={recipe.z},", *normalize, *strata]
    else:
        inside = " ".join([f"z={recipe.z}, seed={provenance.clustering_seed},", *normalize, *strata]).rstrip(",")
        lines.append(f"clusters=cs.cluster({rows}, {recipe.clusters}, {inside}),")
    lines += [f"{kind}={_code(kind, part)}," for kind, part in _parts(recipe)]
    lines += [
        f"{name}={name},  # {_one_line(provenance.lines()[name])}"
        for name in ("given", "exclude", "signals")
        if name in provenance.frame
    ]
    body = "\n".join(f"    {line}" for line in lines)
    return f"import coresift as cs\n\nselection = cs.select(\n{body}\n)\n"


def as_command(
    selection: Selection, rows: str = "ROWS", losses: str = "LOSSES", out: str = "picked.parquet"
) -> str | None:
    """Return the command that repeats the selection, if the command line can express it."""
    provenance, recipe = selection.provenance, selection.recipe
    if (
        provenance.job != "select"
        or recipe is None
        or {"strata", "given", "exclude", "signals"} & set(provenance.frame)
    ):
        return None
    parts = _parts(recipe)
    if provenance.clustering_seed != selection.seed or any(_has_array(part) for _, part in parts):
        return None
    words = ["coresift", "select", rows, "--budget", str(provenance.budget), "--seed", str(selection.seed)]
    words += ["--losses", losses] if selection.ledger.asked else []
    words += ["--clusters", str(recipe.clusters), "--z", f"{recipe.z:g}"]
    words += ["--normalize"] if recipe.normalize else []
    for kind, part in parts:
        words += [f"--{kind}", repr(part)]
    return shlex.join([*words, "--out", out])


def _parts(recipe: Recipe) -> list[tuple[str, Strategy]]:
    return [(kind, part) for kind in PARTS if (part := getattr(recipe, kind)) is not None]


def _is_named(part: Strategy) -> bool:
    record = part.record()
    return all(name.isidentifier() and not iskeyword(name) for name in (record["name"], *record["options"]))


def _one_line(words: str) -> str:
    return " ".join(words.split())


def _has_array(part: Strategy) -> bool:
    return any(isinstance(value, dict) and "digest" in value for value in part.record()["options"].values())


def _code(kind: str, part: Strategy) -> str:
    """Return a part as code; an array among its options becomes a name to fill in."""
    record = part.record()
    options = ", ".join(f"{name}={_literal(kind, value)}" for name, value in record["options"].items())
    return f"cs.{kind}s.{record['name']}({options})"


def _literal(kind: str, value: Any) -> str:
    if isinstance(value, dict):
        return f"float({str(value['float'])!r})" if "float" in value else f"{kind}_numbers"
    return repr(value)
