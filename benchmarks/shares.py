"""Learned shares against fixed ones: the same draws, estimated with both.

`estimate` divides totals between the pilot and the draw by shares that the pilot's answers decide (`coresift.shares`).
This compares it, draw by draw, with the same estimate by the fixed shares of the weights: error, bias, coverage and
width, without signals and with a model's own confidence, on the problems of `benchmarks.problems`.

    python -m benchmarks.shares                      all problems; some need embeddings, which take long at first
    python -m benchmarks.shares holder murders       some of them
    python -m benchmarks.shares --draws 1000         more draws

About 15 ms per draw. Writes `results/shares.json` and `results/shares.md`; problems that were not run again keep their
figures there.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.drawing import Stage, components_of
from benchmarks.estimation import cluster_of, load, signals_of, variants_of
from benchmarks.problems import PROBLEMS, halves

RESULTS = Path(__file__).parent / "results"
CLUSTERINGS, DRAWS, FIRST_SEED = 3, 300, 500_000  # seeds that no other study uses
VARIANTS = ("default", "confidence", "cheap")
SAMPLES = 1_000


def main() -> None:
    """Run the study, and write its page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", help="names of problems; by default all")
    parser.add_argument("--draws", type=int, default=DRAWS, help="per problem and variant")
    arguments = parser.parse_args()
    path = RESULTS / "shares.json"
    figures: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for name in arguments.problems or PROBLEMS:
        for variant in VARIANTS:
            if variant in variants_of(load(name)):
                figures[f"{name}, {variant}"] = compare(name, variant, arguments.draws)
                path.write_text(json.dumps(dict(sorted(figures.items())), indent=1) + "\n")
                print(name, variant, figures[f"{name}, {variant}"], flush=True)
    (RESULTS / "shares.md").write_text(page(figures))


def compare(name: str, variant: str, draws: int) -> dict[str, Any]:
    """Return the figures of both kinds of shares, from the same draws."""
    problem = load(name)
    truth, found = problem.losses.sum(), {"learned": [], "fixed": []}
    for number in range(CLUSTERINGS):
        stage = Stage(problem, cluster_of(problem, number), signals_of(problem, variant), components_of(problem))
        for seed in range(FIRST_SEED + number * draws, FIRST_SEED + number * draws + draws // CLUSTERINGS):
            picked = stage.select(seed)
            for kind, selection in (("learned", picked), ("fixed", replace(picked, learned_share=picked.share))):
                total = cs.estimate(selection, problem.losses[picked.ids]).total
                found[kind].append([total.value, total.low, total.high])
    errors = {kind: np.array(totals) / truth - 1 for kind, totals in found.items()}
    squares = [errors[kind][:, 0] ** 2 for kind in ("learned", "fixed")]
    places = np.random.default_rng(0).integers(len(squares[0]), size=(SAMPLES, len(squares[0])))
    ratios = np.sqrt(squares[0][places].mean(1) / squares[1][places].mean(1))
    return {
        "draws": len(squares[0]),
        "ratio": float(np.sqrt(squares[0].mean() / squares[1].mean())),
        "low": float(np.quantile(ratios, 0.025)),
        "high": float(np.quantile(ratios, 0.975)),
        **{kind: figures_of(table) for kind, table in errors.items()},
    }


def figures_of(table: np.ndarray) -> dict[str, float]:
    """Return bias in standard errors, coverage, and width over 3.92 root mean squared errors."""
    error, low, high = table.T
    return {
        "bias": float(error.mean() / error.std()),
        "coverage": float(np.mean((low <= 0) & (high >= 0))),
        "width": float((high - low).mean() / 3.92 / np.sqrt((error**2).mean())),
    }


def page(figures: dict[str, Any]) -> str:
    """Return the page: one table per half and variant."""
    lines = [
        "# Learned and fixed shares, on the same draws",
        "",
        "The ratio is that of root mean squared errors, learned over fixed, with its 95 % bootstrap interval over",
        "paired draws. Bias is in standard errors, width in units of 3.92 root mean squared errors. How shares are",
        "learned was decided on 19 problems of the tuning half without signals; the held-out half was run once,",
        "afterward. Seeds are those of no other study. `python -m benchmarks.shares` writes this page.",
    ]
    for half, names in zip(("tuning", "held-out"), halves(), strict=True):
        for variant in VARIANTS:
            keys = [f"{name}, {variant}" for name in sorted(names) if f"{name}, {variant}" in figures]
            if keys:
                lines += ["", f"## {half.capitalize()} half, {TITLES[variant]}", "", *table_of(figures, keys)]
    return "\n".join(lines) + "\n"


TITLES = {"default": "no signals", "confidence": "the model's own confidence", "cheap": "a cheap model's loss"}


def table_of(figures: dict[str, Any], keys: list[str]) -> list[str]:
    """Return the lines of a table."""
    lines = [
        "| problem | draws | error, learned/fixed | bias, learned | bias, fixed | coverage, both | width, both |",
        "|---|---|---|---|---|---|---|",
    ]
    for key in keys:
        entry = figures[key]
        learned, fixed = entry["learned"], entry["fixed"]
        cells = [
            key.rsplit(", ", 1)[0],
            f"{entry['draws']:,}",
            f"{entry['ratio']:.3f} ({entry['low']:.3f}–{entry['high']:.3f})",
            f"{learned['bias']:+.2f}",
            f"{fixed['bias']:+.2f}",
            f"{learned['coverage']:.3f}, {fixed['coverage']:.3f}",
            f"{learned['width']:.2f}, {fixed['width']:.2f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    ratios = [figures[key]["ratio"] for key in keys]
    mean = float(np.exp(np.mean(np.log(ratios))))
    return [*lines, f"| geometric mean of {len(keys)} | | **{mean:.3f}**, worst {max(ratios):.3f} | | | | |"]


if __name__ == "__main__":
    main()
