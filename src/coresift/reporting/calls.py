"""Turn a method of a comparison into the Python code that selects by it."""

from __future__ import annotations

from collections.abc import Mapping
from keyword import iskeyword
from typing import Any

from coresift.baselines import METHODS
from coresift.checks import InputError
from coresift.comparison.methods import PARTS, names_module, parse
from coresift.reporting.reproducing import part_as_code

# The recipe of a method with a name, and the options that belong to the recipe instead of to `select`.
RECIPES = {
    "mixture": ("mixture", {"loss": "loss", "distance": "distance"}),
    "distance": ("by_distance", {"floor": "floor"}),
    "proxy": ("by_proxy", {"cheap": "losses", "floor": "floor"}),
}
# Λ of the paper's method if none is given, as the comparison computed it.
TYPICAL_HOLDER = "losses[clustering.centers][clustering.labels].sum() / clustering.powers.sum()"


def as_call(text: str, budget: int) -> str | None:
    """Return code that selects `budget` rows by a method; None if the method has no name to call it by.

    >>> print(as_call("k-center", 100))
    import coresift as cs
    <BLANKLINE>
    selection = cs.baselines.k_center(rows, 100)
    <BLANKLINE>
    """
    if names_module(text):
        return _function_call(text, budget)
    try:
        name, options = parse(text)
    except InputError:
        return None
    lines = _paper(options, budget) if name == "paper" else [_call(name, options, budget)]
    body = "\n".join(lines)
    imports = "import numpy as np\n" if "np.load(" in body else ""
    return f"{imports}import coresift as cs\n\n{body}\n"


def _function_call(text: str, budget: int) -> str | None:
    module, function = text.strip().split(":")
    if any(iskeyword(word) for word in (*module.split("."), function)):
        return None
    imported = "" if module == "__main__" else f"from {module} import {function}\n\n"
    return f"{imported}selection = {function}(rows, losses, {budget}, seed)\n"


def _call(name: str, options: Mapping[str, Any], budget: int) -> str:
    if name == "coresift":
        return _assigned("cs.select", "rows", "losses", f"budget={budget}", **_written(options))
    if name == "cover":
        return _assigned("cs.cover", "rows", str(budget), **_written(options))
    if name in METHODS:
        return _assigned(f"cs.baselines.{METHODS[name].__name__}", "rows", str(budget), **_written(options))
    function, own = RECIPES[name]
    inside = {own[option]: code for option, code in _written(options).items() if option in own}
    others = {option: code for option, code in _written(options).items() if option not in own}
    losses = ["losses"] if name == "mixture" else []
    recipe = _code(f"cs.recipes.{function}", **inside)
    return _assigned("cs.select", "rows", *losses, f"budget={budget}", recipe=recipe, **others)


def _paper(options: Mapping[str, Any], budget: int) -> list[str]:
    """Return the lines of Algorithm 1, whose centers are part of the budget unless they are kept."""
    written = _written(options)
    clusters = int(options.get("clusters") or max(1, budget // 10))
    z = {"z": written["z"]} if "z" in written else {}
    holder = written.get("holder", "None")
    if holder == "None":
        factor = f"{written['balance']} * " if "balance" in written else ""
        holder = factor + TYPICAL_HOLDER
    keep = {"keep": written["keep"]} if "keep" in written else {}
    draws = f"{budget}" if options.get("keep") else f"{budget} - clustering.k"
    recipe = _code("cs.recipes.paper", "holder", **keep)
    return [
        f"clustering = {_code('cs.cluster', 'rows', str(clusters), **z)}",
        f"holder = {holder}",
        _assigned("cs.select", "rows", "losses", f"budget={draws}", recipe=recipe, clusters="clustering"),
    ]


def _written(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options as code: strategies by name, and .npy files opened."""
    return {name: _value(name, value) for name, value in options.items()}


def _value(option: str, value: Any) -> str:
    if option in PARTS and value is not None and not isinstance(value, str):
        return part_as_code(option, value)
    return f"np.load({value!r})" if isinstance(value, str) and value.endswith(".npy") else repr(value)


def _assigned(function: str, *arguments: str, **options: str) -> str:
    return f"selection = {_code(function, *arguments, **options)}"


def _code(function: str, *arguments: str, **options: str) -> str:
    return f"{function}({', '.join([*arguments, *(f'{name}={value}' for name, value in options.items())])})"
