"""Evaluate models that answer as the factors say that FAQ's authors published.

pip install '.[benchmarks]'
python -m benchmarks.evaluation.published_factors                  ten minutes
python -m benchmarks.evaluation.published_factors --folder DIR     with the two files of factors from this folder

The repository of FAQ's paper (github.com/skbwu/efficiently-evaluating-llms, Apache 2.0) has 64 factors of 2,212 models
and of the 12,032 items of MMLU-Pro, and the options that the authors chose for each number of answers. So our FAQ can
be checked with them: it should come close to the 3.57, 4.27, 4.89 and 4.91 times uniform's effective sample size that
the paper reports for 2.5, 5, 10 and 25 % of the items. The real answers are archives that we could not get, so answers
are drawn from the factors. 60 models take a turn as the new one, and the others' answers are its history.

FAQ runs twice: with the published factors, which is more than anybody can know, since answers are drawn from them; and
with factors that are learned from the history. Coresift sees only the history. The results are written to
`results/evaluation/published-factors.json`.
"""

from __future__ import annotations

import argparse
import json
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coresift as cs
from benchmarks.evaluation.faq import Settings, faq, horvitz_thompson_width
from benchmarks.evaluation.history import Factors, fit, sigmoid
from benchmarks.evaluation.study import OURS, RESULTS
from benchmarks.features import cache_folder

Floats = NDArray[np.float64]
Run = Callable[[Floats, int, range], Floats]
PATH = RESULTS / "published-factors.json"
COMMIT = "cb931006fcebe82c34445a2a0c6d7831314b77c7"
SOURCE = f"https://raw.githubusercontent.com/skbwu/efficiently-evaluating-llms/{COMMIT}/factor_models/final/mmlu-pro/"
FILES = {"models": "U_nfobs=None_p=1.0.pt", "items": "V_nfobs=None_p=1.0.pt"}
# The number of answers, with the options that FAQ's authors chose for it and the effective sample size they published.
CASES: dict[int, tuple[Settings, float]] = {
    300: (Settings(explore=0.05, uniform=0.25), 3.57),
    601: (Settings(explore=0.0, uniform=0.05), 4.27),
    1_203: (Settings(explore=0.0, uniform=0.05), 4.89),
    3_008: (Settings(explore=0.0, uniform=0.05), 4.91),
}
NEW_MODELS, RUNS = 60, 2
# The factors that FAQ learns from the history: their number, and the penalty. Neither was tuned.
RANK, PENALTY = 16, 1.0
NAMES = ("FAQ, published factors", "FAQ, learned factors", OURS)


def published(folder: Path) -> Factors:
    """Read the published factors; they are downloaded if they are not in the folder."""
    import torch  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    parts = {}
    for part, name in FILES.items():
        path = folder / name
        if not path.exists():
            partial = path.with_suffix(".part")
            try:
                urllib.request.urlretrieve(SOURCE + urllib.parse.quote(name), partial)
            except OSError as error:
                advice = "give a folder that has it with --folder"
                raise SystemExit(f"{SOURCE}{name} cannot be read ({error}); {advice}.") from error
            partial.replace(path)
        parts[part] = torch.load(path, map_location="cpu", weights_only=True).numpy().astype(np.float64)
    return Factors(**parts)


def answers(factors: Factors, model: int) -> Floats:
    """Draw a model's answers to all items: 1 if it is right."""
    chances = sigmoid(factors.items @ factors.models[model])
    return np.asarray(np.random.default_rng([18, model]).random(chances.size) < chances, np.float64)


def methods(factors: Factors, history: Floats) -> dict[str, Run]:
    """Return all methods: from a model's answers, a number of answers and seeds to lines of estimate, low and high."""
    learned, past = fit(history, RANK, PENALTY), cs.signals.history(history)

    def ours(truth: Floats, budget: int, seeds: range) -> Floats:
        runs = (cs.evaluate(values=truth, signals=past, metric="rate", budget=budget, seed=seed) for seed in seeds)
        return np.array([(found.value, found.low, found.high) for found in (run.complete() for run in runs)])

    def theirs(known: Factors) -> Run:
        return lambda truth, budget, seeds: faq(known, truth, budget, seeds, CASES[budget][0])

    return dict(zip(NAMES, (theirs(factors), theirs(learned), ours), strict=True))


def study(factors: Factors) -> list[dict[str, Any]]:
    """Return the figures of each number of answers and method."""
    every = np.arange(len(factors.models))
    new = np.random.default_rng(18).choice(every, NEW_MODELS, replace=False)
    calls = methods(factors, np.stack([answers(factors, model) for model in np.setdiff1d(every, new)], axis=1))
    truths = [answers(factors, model) for model in new]
    entries = []
    for budget, (_, reported) in CASES.items():
        for name, call in calls.items():
            lines = [
                call(truth, budget, range(RUNS * model, RUNS * (model + 1)))
                for model, truth in zip(new.tolist(), truths, strict=True)
            ]
            entries.append({"answers": budget, "method": name, "published": reported} | figures(lines, truths, budget))
            print(entries[-1], flush=True)
    return entries


def figures(lines: list[Floats], truths: list[Floats], budget: int) -> dict[str, float]:
    """Return effective sample sizes, as the paper does: from widths and errors that are averaged over models."""
    means = np.array([truth.mean() for truth in truths])
    n = truths[0].size
    flat = np.array([truth.var(ddof=1) for truth in truths]) * (1 / budget - 1 / n)
    value, low, high = np.stack(lines).transpose(2, 0, 1)
    baseline = np.mean([horvitz_thompson_width(mean, n, budget) for mean in means])
    inside = (low <= means[:, None]) & (means[:, None] <= high)
    return {
        "by_papers_width": float((baseline / np.mean(high - low)) ** 2),
        "by_error": float(flat.mean() / np.mean((value - means[:, None]) ** 2)),
        "coverage": float(inside.mean()),
    }


def text() -> str:
    """Return the figures as a table for the report, or nothing if they were not computed."""
    if not PATH.exists():
        return ""
    lines = [
        "Does our FAQ reach the figures of its paper? With the factors that its authors published (`python -m "
        f"benchmarks.evaluation.published_factors`), {NEW_MODELS} models take a turn as the new one, with {RUNS} runs "
        "each. The authors' real answers could not be had, so answers are drawn from the factors, which *FAQ, "
        f"published factors* knows. *FAQ, learned factors* learns {RANK} factors from all other models' answers (not a "
        "tuned number); coresift sees nothing but these answers. FAQ has the options that its authors chose for each "
        "budget.",
        "",
        "| answers of 12,032 | method | ESS by the paper's width | published | ESS by error | coverage |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {entry['answers']:,} | {entry['method']} | {entry['by_papers_width']:.2f} | {entry['published']:.2f} "
        f"| {entry['by_error']:.2f} | {entry['coverage']:.3f} |"
        for entry in json.loads(PATH.read_text())
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=cache_folder() / "faq-factors")
    PATH.write_text(json.dumps(study(published(parser.parse_args().folder)), indent=1) + "\n")
    print(text())


if __name__ == "__main__":
    main()
