"""All arguments of the public functions at once, hostile ones among them: a sound result or one sentence, in time."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

import coresift as cs
from faults.judging import crashed
from faults.kind import Bench, Case, Kind
from faults.processes import run

SHAPES = ((1, 1), (2, 1), (3, 2), (12, 2), (40, 3), (40, 3), (60, 3), (130, 5))
ROWS = ("normal", "normal", "grouped", "same", "few", "huge", "tiny", "nan", "int", "object", "masked")
VALUES = (
    "plain",
    "plain",
    "zeros",
    "one",
    "rare",
    "huge",
    "larger",
    "tiny",
    "mixed",
    "negative",
    "nan",
    "masked",
    "complex",
    "text",
    "short",
    "none",
    "function",
)
ODD = (None, 0, -1, 1, 2, 3, 2**31, 2**63, 2**64, 1e308, 5e-324, "x", "nan", True, [], [1, 2], 0.5, 1.5)
SETS = ("none", "none", "none", "few", "all", "half", "other half", "outside", "twice", "text", "wrong")
SCORES = (
    None,
    None,
    "Learned()",
    "Sensitivity(holder='robust')",
    "Sensitivity(holder='estimate')",
    "Distance()",
    "Sensitivity(holder=2.0)",
    "Mixture()",
    "Portfolio()",
    "Proxy(np.ones(N))",
)
PILOTS = (None, None, "Centers()", "Representatives()", "Informed()")
DESIGNS = (None, None, "Systematic()", "Pivotal()", "Poisson()", "Independent()")
CALLS = (
    "select",
    "select",
    "select",
    "estimate",
    "estimate",
    "certify",
    "cover",
    "rounds",
    "plan",
    "diagnose",
    "regression",
    "grow",
    "active_learning",
    "cluster",
    "report",
    "evaluate",
    "evaluate",
    "signals",
)
GROUPS = ("texts", "nan", "complex", "dicts", "lists", "none", "short", "number", "empty", "controls")
METRICS = (None, "mean", "total", "rate", "median", "p95", "ratio", "accuracy", "x", 5)
SIGNALS = ("history", "near", "from_probabilities", "disagreement")
REFUSED = ("masked", "complex", "text", "short")
# Combinations that have gone wrong once, before any random one.
FIRST: tuple[Case, ...] = (
    {"call": "select", "given": "half", "exclude": "other half", "budget": 5},
    {"call": "select", "given": "all", "budget": 10},
    {"call": "plan", "given": "all", "budget": 10},
    *({"call": call, "values": values} for call in ("select", "estimate", "certify") for values in sorted(set(VALUES))),
    *({"call": "select", "budget": 1, "score": score} for score in sorted({str(one) for one in SCORES if one})),
    *({"call": "estimate", "groups": groups} for groups in GROUPS),
    *({"call": call, "clusters": 2**64, "strata": strata} for call in ("select", "cluster") for strata in (0, 1)),
    *({"call": "report", "verdict": verdict} for verdict in ("", None, 5)),
)


class Calls(Kind):
    """A call of a public function ends in a sound result or in one sentence, within its time."""

    name: ClassVar[str] = "arguments of functions"
    share: ClassVar[float] = 3.0

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._folder = bench.top / "calling"
        self._folder.mkdir(exist_ok=True)

    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield the combinations that were once wrong, then random ones."""
        yield from FIRST
        while True:
            case: Case = {"call": str(rng.choice(CALLS)), "shape": [int(x) for x in SHAPES[rng.integers(len(SHAPES))]]}
            case |= {"rows": _one(rng, ROWS), "values": _one(rng, VALUES), "seed": int(rng.integers(1000))}
            case["budget"] = _one(rng, ODD) if rng.random() < 0.2 else int(rng.integers(1, case["shape"][0] + 2))
            for name, choices in (
                ("given", SETS),
                ("exclude", SETS),
                ("score", SCORES),
                ("pilot", PILOTS),
                ("design", DESIGNS),
                ("groups", GROUPS),
            ):
                if rng.random() < 0.35:
                    case[name] = _one(rng, choices)
            for name in ("clusters", "z", "epsilon", "delta", "confidence", "seed", "rounds"):
                if rng.random() < 0.08:
                    case[name] = _one(rng, ODD)
            if case["call"] == "evaluate":
                case["metric"] = _one(rng, METRICS)
                for name in ("within", "group_within", "repeats", "anytime", "n", "target"):
                    if rng.random() < 0.12:
                        case[name] = _one(rng, ODD)
                for name in ("predictions", "signals", "grouped"):
                    if rng.random() < 0.25:
                        case[name] = _one(rng, GROUPS if name != "signals" else VALUES)
            if case["call"] == "signals":
                case["of"] = _one(rng, SIGNALS)
            if rng.random() < 0.15:
                case["strata"] = int(rng.integers(3))
            yield case

    def problem(self, case: Case) -> str | None:
        """Make the call in a child."""
        outcome = run(lambda: _call(case), self._folder)
        if problem := crashed(outcome):
            return problem
        return outcome.err[-300:] or f"exit {outcome.status}" if outcome.status not in (0, 2) else None


def _one(rng: np.random.Generator, choices: Any) -> Any:
    return choices[rng.integers(len(choices))]


def _call(case: Case) -> int:
    warnings.simplefilter("error", RuntimeWarning)  # numbers that numpy doubts have no place in a result
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cs.CoresiftWarning)
            wrong = _checked(case)
    except cs.CoresiftError as error:
        sentence = str(error)
        if "\n" in sentence or not sentence.endswith((".", "?")):
            print("not one sentence:", repr(sentence), file=sys.stderr)
            return 3
        return 2
    if wrong:
        print(wrong, file=sys.stderr)
    return 3 if wrong else 0


def _checked(case: Case) -> str | None:
    """Make the call, and return what is wrong with the result."""
    n, d = case.get("shape", (40, 3))
    rng = np.random.default_rng(case.get("data", 0))
    rows = _rows(case.get("rows", "normal"), n, d, rng)
    values = _values(case.get("values", "plain"), n, rng)
    options = _options(case, n)
    call, budget = case["call"], case.get("budget", min(10, n))
    if call in ("select", "diagnose", "rounds"):
        more = {name: case[name] for name in ("rounds",) if name in case and call == "rounds"}
        if call == "rounds":
            options["clusters"] = options.get("clusters", 2)
        result = getattr(cs, call)(rows, values, budget, **options, **more)
        if call == "select" and case.get("values") in REFUSED and result.ledger.asked:
            return f"values that are {case['values']} are used"
        drawn = None if case.get("design") == "Poisson()" else budget  # whose number of rows is random
        return _sound(result, drawn) if call == "select" else None
    if call == "plan":
        repr(cs.plan(rows, budget, **options))
    elif call == "cover":
        chosen = {name: options[name] for name in ("given", "exclude", "seed") if name in options}
        cs.cover(rows, budget, importance=None if values is None or callable(values) else values, **chosen)
    elif call == "cluster":
        k = options.get("clusters", budget)
        cs.cluster(rows, k, **{name: options[name] for name in ("z", "seed", "strata") if name in options})
    elif call == "regression":
        cs.regression.select(
            rows,
            values,
            budget,
            **{name: options[name] for name in ("seed", "given", "exclude", "design") if name in options},
        )
    elif call == "evaluate":
        _evaluate(case, rows, values, n)
    elif call == "signals":
        known = rows if case["of"] in ("history", "near") else values
        others = [rows[: n // 2]] if case["of"] == "near" else [values] if case["of"] == "disagreement" else []
        repr(getattr(cs.signals, case["of"])(known, *others))
    elif call == "active_learning":
        labels = np.array([f"c{row % 3}" for row in range(n)]) if case.get("values") != "text" else values
        chosen = {name: options[name] for name in ("exclude", "seed") if name in options}
        cs.active_learning(rows, budget, rounds=case.get("rounds", 2), labels=labels, **chosen).complete()
    else:
        return _after(case, rows, values, n)
    return None


def _evaluate(case: Case, rows: Any, values: Any, n: int) -> None:
    names = ("seed", "confidence", "within", "group_within", "repeats", "anytime", "n", "target", "budget", "metric")
    options: dict[str, Any] = {name: case[name] for name in names if name in case}
    if "signals" in case:
        options["signals"] = _values(case["signals"], n, np.random.default_rng(1))
    if "grouped" in case:
        options["groups"] = _groups(case["grouped"], n)
    answers = {"values": values}
    if "predictions" in case:
        options["predictions"] = _groups(case["predictions"], n)
        answers = {"labels": np.array(["a", "b"] * n)[:n]}
    run = cs.evaluate(rows, **answers, **options)
    repr(run.complete())


def _after(case: Case, rows: Any, values: Any, n: int) -> str | None:
    """Make a call that takes a selection."""
    import dataclasses

    base = np.random.default_rng(1).normal(size=(n, 3))
    selection = cs.select(base, np.abs(base[:, 0]), max(1, min(n - 1, 12)), seed=int(case.get("data", 0)))
    if case["call"] == "grow":
        cs.grow(selection, values, case.get("budget", n), rows=base)
        return None
    if case["call"] == "report":
        diagnosis = cs.diagnose(base, np.abs(base[:, 0]), min(n, 30)) if "verdict" in case else None
        if diagnosis is not None:
            diagnosis = dataclasses.replace(diagnosis, verdict=case["verdict"])
        cs.report(selection, "page.html", rows=base, losses=values, diagnosis=diagnosis)
        return None
    own = values[selection.ids] if isinstance(values, np.ndarray) and values.shape == (n,) else values
    more = {name: case[name] for name in ("confidence", "delta", "epsilon") if name in case}
    if case["call"] == "certify":
        more = {name: value for name, value in more.items() if name != "confidence"}
        repr(cs.certify(selection, own, **more))
        return None
    groups = _groups(case["groups"], len(selection)) if "groups" in case else None
    found = cs.estimate(selection, own, groups=groups, confidence=case.get("confidence", 0.95))
    for one in found.values() if isinstance(found, dict) else [found]:
        total = one.total
        if case.get("values") in ("masked", "complex"):
            return f"values that are {case['values']} are used"
        if not np.all(np.isfinite([total.value, total.low, total.high])) and not one.warnings:
            return f"an estimate that is not finite, and no warning: {total}"
        if total.low == total.high and not one.warnings and len(selection) < n:
            return f"an interval without width, and no warning: {total}"
    return None


def _sound(selection: Any, budget: Any) -> str | None:
    if not np.all(np.isfinite(selection.weights)) or np.any(selection.weights < 0):
        return "weights that are not finite and positive"
    if isinstance(budget, int) and len(selection) > budget:
        return f"{len(selection)} rows for a budget of {budget}"
    return None if len(set(selection.ids.tolist())) == len(selection) else "a row twice"


def _options(case: Case, n: int) -> dict[str, Any]:
    options: dict[str, Any] = {
        name: case[name] for name in ("clusters", "z", "epsilon", "delta", "seed") if name in case
    }
    for name in ("given", "exclude"):
        if name in case:
            options[name] = _set(case[name], n)
    for name, module in (("score", cs.scores), ("pilot", cs.pilots), ("design", cs.designs)):
        if case.get(name):
            options[name] = eval(f"module.{case[name]}", {"module": module, "np": np, "N": n})  # a constant above
    if case.get("strata"):
        options["strata"] = np.arange(n) % (3 if case["strata"] == 1 else n)
    return options


def _set(name: str, n: int) -> Any:
    half = n // 2
    return {
        "none": None,
        "few": [0],
        "all": range(n),
        "half": range(half),
        "other half": range(half, n),
        "outside": [n],
        "twice": [0, 0],
        "text": ["a"],
        "wrong": [[1], [2, 3]],
    }[name]


def _rows(kind: str, n: int, d: int, rng: np.random.Generator) -> Any:
    rows = rng.normal(size=(n, d))
    if kind == "grouped":
        rows += 5 * (np.arange(n) % 3)[:, None]
    if kind in ("same", "few"):
        rows = np.repeat(rows[: 1 if kind == "same" else 2], n, 0)[:n]
    if kind in ("huge", "tiny"):
        rows *= 1e30 if kind == "huge" else 1e-35
    if kind == "nan":
        rows[n // 2] = np.nan
    if kind == "masked":
        return np.ma.masked_array(rows, mask=rows > 1)
    return rows.astype({"int": np.int64, "object": object}.get(kind, np.float32))


def _values(kind: str, n: int, rng: np.random.Generator) -> Any:
    values = np.abs(rng.normal(size=n))
    scaled = {"zeros": 0.0, "huge": 1e76, "larger": 1e307, "tiny": 1e-320}
    if kind in scaled:
        return values * scaled[kind]
    if kind == "one":
        return np.ones(n)
    if kind == "rare":
        return np.where(np.arange(n) == n // 2, 1e6, 0.0)
    if kind == "mixed":
        return values * 10.0 ** rng.integers(-300, 300, size=n)
    if kind == "negative":
        return -values
    if kind == "nan":
        return np.where(np.arange(n) % 5 == 4, np.nan, values)
    if kind == "masked":
        return np.ma.masked_array(values, mask=values > 1)
    others: dict[str, Any] = {
        "complex": values + 1j,
        "text": np.array(["x"] * n),
        "short": values[: n // 2],
        "none": None,
        "function": lambda ids: values[ids],
    }
    return others.get(kind, values)


def _groups(kind: str, n: int) -> Any:
    return {
        "texts": ["a", "b"] * (n // 2) + ["a"] * (n % 2),
        "nan": [np.nan] * n,
        "complex": [1j] * n,
        "dicts": [{"a": 1}] * n,
        "lists": [[1, 2]] * n,
        "none": [None] * n,
        "short": ["a"],
        "number": 5,
        "empty": [],
        "controls": ["\x1b]0;x\x07"] * n,
    }[kind]
