"""The methods that a comparison knows by name, and how texts and functions become methods."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import inspect
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np

from coresift import recipes, registry
from coresift.baselines import METHODS
from coresift.checks import InputError, refuse, whole
from coresift.clustering import cluster
from coresift.covering import cover
from coresift.engine import Engine
from coresift.oracle import Oracle, as_oracle
from coresift.progress import Progress
from coresift.rows import Rows
from coresift.selection import select
from coresift.tables.npy import map_npy
from coresift.types import Clustering, Selection

Runner: TypeAlias = Callable[[Rows, Any, int, int, Engine], Selection]

# Options of methods whose values are strategies, and their kinds.
PARTS = ("pilot", "score", "design")
IMPORTED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
ALLOWED = 'names such as "coresift" or "paper(holder=0.1)", texts such as "module:function", or functions'


@dataclass(frozen=True)
class Method:
    """One method of a comparison: its label in tables, what is run, and how to find it.

    `text` identifies the method in kept results: a name with its options, or where a function comes from.
    """

    label: str
    text: str
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    function: Callable[..., Selection] | None = None

    def runner(self) -> Runner:
        """Return the function that selects; its modules and files are opened only now."""
        options = {name: _opened(value) for name, value in self.options.items()}
        if self.name:
            return functools.partial(KNOWN[self.name], **options)
        return _without_engine(self.function or import_function(self.text))


def _without_engine(function: Callable[..., Selection]) -> Runner:
    return lambda rows, losses, budget, seed, engine: function(rows, losses, budget, seed)


# ------------------------------------------------------------------ methods with a name


def ours(
    rows: Rows,
    losses: Any,
    budget: int,
    seed: int,
    engine: Engine,
    *,
    clusters: int | None = None,
    z: float | None = None,
    normalize: bool = False,
    pilot: Any = None,
    score: Any = None,
    design: Any = None,
    strata: Any = None,
) -> Selection:
    """Select as `select` does with these options."""
    parts = {"pilot": pilot, "score": score, "design": design}
    options: dict[str, Any] = {"clusters": clusters, "z": z, "normalize": normalize, "strata": strata, **parts}
    return select(rows, losses, budget, seed, engine=engine, progress=False, **options)


def paper(
    rows: Rows,
    losses: Any,
    budget: int,
    seed: int,
    engine: Engine,
    *,
    holder: float | None = None,
    balance: float = 1.0,
    clusters: int | None = None,
    z: float = 2.0,
    keep: bool = False,
) -> Selection:
    """Run the paper's Algorithm 1 with a budget for its k centers and its draws together.

    `holder` is Λ. Without it Λ = balance·Σℓ̂/Φ, so that losses and distances have the same weight if balance is 1.
    """
    oracle = as_oracle(losses)
    if oracle is None:
        raise InputError("paper needs losses.")
    k = max(1, budget // 10) if clusters is None else whole("clusters", clusters)
    clustering = cluster(rows, k, z=z, seed=seed, engine=engine, progress=False)
    draws = budget if keep else budget - clustering.k
    if draws < 1:
        raise InputError(f"paper asks for {clustering.k} centers, so a budget of {budget} leaves no row to draw.")
    if holder is None:
        holder = balance * _typical_holder(rows, oracle, clustering)
    recipe = recipes.paper(holder, keep=keep)
    return select(rows, oracle, draws, seed, recipe=recipe, clusters=clustering, engine=engine, progress=False)


def _typical_holder(rows: Rows, oracle: Oracle, clustering: Clustering) -> float:
    """Return Σℓ̂/Φ; Algorithm 1 asks for the centers anyway, and the oracle never asks twice."""
    with oracle.session(rows.n, {"rows": rows.fingerprint()}, clustering.k, Progress()) as session:
        levels = session.ask(clustering.centers, round=1, reason="centers")
    return float(levels[clustering.labels].sum() / max(clustering.powers.sum(), np.finfo(np.float64).tiny))


def mixture(
    rows: Rows,
    losses: Any,
    budget: int,
    seed: int,
    engine: Engine,
    *,
    loss: float = 0.25,
    distance: float = 0.25,
    clusters: int | None = None,
    z: float = 2.0,
) -> Selection:
    """Keep the centers, and draw the rest by a fixed mixture of losses, distances and uniform probabilities."""
    recipe = recipes.mixture(loss, distance)
    return select(rows, losses, budget, seed, recipe=recipe, clusters=clusters, z=z, engine=engine, progress=False)


def by_distance(
    rows: Rows,
    losses: Any,
    budget: int,
    seed: int,
    engine: Engine,
    *,
    floor: float = 0.5,
    clusters: int | None = None,
    z: float = 2.0,
) -> Selection:
    """Draw by distance, above a uniform floor, without asking for losses."""
    recipe = recipes.by_distance(floor)
    return select(rows, None, budget, seed, recipe=recipe, clusters=clusters, z=z, engine=engine, progress=False)


def by_proxy(
    rows: Rows,
    losses: Any,
    budget: int,
    seed: int,
    engine: Engine,
    *,
    cheap: Any,
    floor: float = 0.2,
) -> Selection:
    """Draw by a cheap model's loss for every row, above a uniform floor."""
    return select(rows, None, budget, seed, recipe=recipes.by_proxy(cheap, floor), engine=engine, progress=False)


def _baseline(method: Callable[..., Selection]) -> Callable[..., Selection]:
    """Return a baseline with the arguments of the methods above, and its own options."""

    @functools.wraps(method)
    def run(rows: Rows, losses: Any, budget: int, seed: int, engine: Engine, **options: Any) -> Selection:
        return method(rows, budget, seed=seed, engine=engine, progress=False, **options)

    return run


KNOWN: dict[str, Callable[..., Selection]] = {
    "coresift": ours,
    "paper": paper,
    "mixture": mixture,
    "distance": by_distance,
    "proxy": by_proxy,
}
KNOWN |= {name: _baseline(method) for name, method in {**METHODS, "cover": cover}.items()}

# The arguments that every method gets, which are not its own options.
GIVEN = {"rows", "losses", "budget", "seed", "engine", "given", "exclude", "progress"}


def options_of(name: str) -> list[str]:
    """Return the options of a known method.

    >>> options_of("distance")
    ['floor', 'clusters', 'z']
    """
    return [option for option in inspect.signature(KNOWN[name]).parameters if option not in GIVEN]


# ------------------------------------------------------------------ from texts and functions


def methods_of(sources: Any) -> list[Method]:
    """Return methods from a list of texts and functions, or from a mapping of labels to them.

    >>> [method.label for method in methods_of(["coresift", "paper(holder=0.1)"])]
    ['coresift', 'paper(holder=0.1)']
    """
    if isinstance(sources, str) or callable(sources):
        sources = [sources]
    if not isinstance(sources, Iterable):
        refuse("methods", ALLOWED, type(sources).__name__)
    pairs = sources.items() if isinstance(sources, Mapping) else ((None, source) for source in sources)
    methods = [_method(label, source) for label, source in pairs]
    if not methods:
        refuse("methods", ALLOWED, "none")
    for name in ("label", "text"):
        values = [getattr(method, name) for method in methods]
        repeated = next((value for value in values if values.count(value) > 1), None)
        if repeated is not None:
            refuse("methods", "different ones", f"{repeated} twice")
    return methods


def names_module(text: str) -> bool:
    """Return whether a text names a function of a module.

    >>> names_module("my_methods:first"), names_module("paper(holder=0.1)")
    (True, False)
    """
    return IMPORTED.fullmatch(text.strip()) is not None


def _method(label: str | None, source: Any) -> Method:
    if label is not None and not (isinstance(label, str) and label.strip() and label.isprintable()):
        refuse("methods", "labeled with one line of text each", repr(label))
    if callable(source):
        text = name_of(source) or label or repr(source)
        check_travels("methods", source, text)
        return Method(label or str(getattr(source, "__name__", text)), text, function=source)
    if not isinstance(source, str):
        refuse("methods", ALLOWED, repr(source))
    text = source.strip()
    if names_module(text):
        check_module("methods", text)
        return Method(label or text, text)
    name, options = parse(text)
    return Method(label or text, text, name, options)


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of a text such as "paper(holder=0.1)", without running it.

    >>> parse("coresift(clusters=30, design=Poisson)")
    ('coresift', {'clusters': 30, 'design': Poisson()})
    """
    written, bracket, rest = text.partition("(")
    try:
        # A name may have hyphens, which Python would parse as minus signs.
        name, words = _call(ast.parse(written.strip().replace("-", "_") + bracket + rest, mode="eval").body)
        options = {word: _value(word, node) for word, node in words.items()}
    except (KeyError, ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        _refuse_name(text)
    name = next((known for known in KNOWN if known.replace("-", "_") == name), "")
    if not name:
        _refuse_name(text)
    takes = options_of(name)
    if not options.keys() <= set(takes):
        raise InputError(f"methods: {text} has an unknown option; {name} takes {', '.join(takes) or 'no options'}.")
    for value in options.values():
        if _is_file(value) and not Path(value).is_file():
            raise InputError(f"methods: {text} names a file that does not exist, {value}.")
    return name, options


def _refuse_name(text: str) -> NoReturn:
    known = ", ".join(KNOWN)
    raise InputError(
        f"methods must be {known}, with options if needed, as in paper(holder=0.1), or module:function; got {text}."
    ) from None


def _call(node: ast.expr) -> tuple[str, dict[str, ast.expr]]:
    call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
    if not isinstance(call.func, ast.Name) or call.args or not all(word.arg for word in call.keywords):
        raise ValueError
    return call.func.id, {str(word.arg): word.value for word in call.keywords}


def _value(option: str, node: ast.expr) -> Any:
    """Return a literal, or a strategy by its name and options."""
    if option in PARTS and not isinstance(node, ast.Constant):
        return registry.from_node(option, node, f"methods: {option}")
    return ast.literal_eval(node)


def _is_file(value: Any) -> bool:
    return isinstance(value, str) and value.endswith(".npy")


def _opened(value: Any) -> Any:
    return map_npy(value) if _is_file(value) else value


# ------------------------------------------------------------------ functions that run in another process


def name_of(function: Any) -> str | None:
    """Return "module:function" for a function that can be imported, else None.

    >>> name_of(parse)
    'coresift.comparison.methods:parse'
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    return f"{module}:{name}" if module and name else None


def check_travels(argument: str, function: Any, shown: str) -> None:
    """Refuse a function that another process could not find."""
    main = getattr(function, "__module__", None) == "__main__"
    try:
        pickle.dumps(function)
        importable = not main or getattr(sys.modules["__main__"], "__file__", None) is not None
    except Exception:  # pickling a user's object can raise anything
        importable = False
    if not importable:
        raise InputError(
            f"{argument}: {shown} must be defined at module level, because it runs in another process; "
            "put it into a file, such as my_methods.py, and import it from there."
        )


def check_module(argument: str, text: str) -> None:
    """Refuse "module:function" if there is no such module, without importing it."""
    module = text.partition(":")[0]
    try:
        exists = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError, AttributeError):
        exists = False
    if not exists:
        raise InputError(f"{argument}: there is no module {module} for {text}.")


def import_function(text: str) -> Callable[..., Any]:
    """Return the function that "module:function" names."""
    module, name = text.split(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except AttributeError:
        raise InputError(f"There is no {name} in the module {module}.") from None
    if not callable(function):
        raise InputError(f"{text} must be a function; it is {type(function).__name__}.")
    checked: Callable[..., Any] = function
    return checked
