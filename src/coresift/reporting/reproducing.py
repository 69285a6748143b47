"""From a recipe back to the code and the command that make the same selection."""

from __future__ import annotations

import re
import shlex

from coresift.types import Selection

PARTS = ("pilot", "score", "design")
# What the command line takes as a text; others need an array, or labels, that only code can pass.
BY_COMMAND = ("Representatives", "Centers", "Learned", "Mixture", "Distance", "Sensitivity")
NO_ROWS = "no rows"


def as_code(selection: Selection, rows: str = "rows", losses: str = "losses") -> str | None:
    """Return Python that makes the selection again; None for other functions than `select`.

    What a recipe holds only a digest of (given rows, classes, a cheap model's losses) stands there as a name.
    """
    recipe = selection.recipe
    if not _by_select(recipe):
        return None
    k, seed = recipe["clusters"].split(", seed ")
    arguments = [rows, losses if selection.ledger.asked else "None"]
    arguments += [f"budget={_budget(selection)}", f"seed={selection.seed}"]
    lines = [", ".join(arguments) + ","]
    strata = ["strata=strata,"] if "strata" in recipe else []
    normalize = ["normalize=True,"] if recipe["normalize"] == "True" else []
    if int(seed) == selection.seed:
        lines += [f"clusters={k}, z={recipe['z']},", *normalize, *strata]
    else:
        inside = " ".join([f"z={recipe['z']}, seed={seed},", *normalize, *strata]).rstrip(",")
        lines.append(f"clusters=cs.cluster({rows}, {k}, {inside}),")
    lines += [f"{name}={_with_prefix(recipe[name], name)}," for name in PARTS if recipe[name] != "None"]
    lines += [f"{name}={name},  # {recipe[name]}" for name in ("given", "exclude") if recipe[name] != NO_ROWS]
    body = "\n".join(f"    {line}" for line in lines)
    return f"import coresift as cs\n\nselection = cs.select(\n{body}\n)\n"


def as_command(
    selection: Selection, rows: str = "ROWS", losses: str = "LOSSES", out: str = "picked.parquet"
) -> str | None:
    """Return the command that makes the selection again, where the command line takes all of its parts."""
    recipe = selection.recipe
    if not _by_select(recipe) or "strata" in recipe or any(recipe[name] != NO_ROWS for name in ("given", "exclude")):
        return None
    k, seed = recipe["clusters"].split(", seed ")
    named = [(name, recipe[name]) for name in PARTS if recipe[name] != "None"]
    if int(seed) != selection.seed or any("array(" in text or text.startswith("Proxy") for _, text in named):
        return None
    words = ["coresift", "select", rows, "--budget", _budget(selection), "--seed", str(selection.seed)]
    words += ["--losses", losses] if selection.ledger.asked else []
    words += ["--clusters", k, "--z", recipe["z"].removesuffix(".0")]
    words += ["--normalize"] if recipe["normalize"] == "True" else []
    for name, text in named:
        words += [f"--{name}", text]
    return shlex.join([*words, "--out", out])


def _by_select(recipe: object) -> bool:
    return (
        isinstance(recipe, dict)
        and {"budget", "clusters", *PARTS} <= set(recipe)
        and not {"task", "round", "method"} & set(recipe)
    )


def _budget(selection: Selection) -> str:
    return selection.recipe["budget"]


def _with_prefix(text: str, name: str) -> str:
    """Return a part's text as code; an array in it becomes a name to fill in."""
    text = re.sub(r"array\(shape=[^)]*\), digest='[0-9a-f]+'\)", f"{name}_numbers", text)
    return re.sub(r"\b([A-Z]\w*)\(", r"cs.\1(", text)
