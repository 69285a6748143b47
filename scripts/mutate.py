"""Make one small error after another in a copy of the source, and see that the golden results notice each.

    python scripts/mutate.py            all of them, some minutes
    python scripts/mutate.py 3 17       those with these numbers

A mutation is a file under `src/coresift`, a text that stands in it exactly once, and what is put in its place. A text
that is not found, or found twice, is an error, so that the list stays current. The exit code is 0 if every mutation
broke at least one golden case.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = 2


@dataclass(frozen=True)
class Mutation:
    """One small error: what it is, and the text that makes it."""

    name: str
    file: str
    text: str
    instead: str


MUTATIONS = (
    # Random streams
    Mutation("stream of the second draw", "streams.py", "    DRAW = 3", "    DRAW = 2"),
    Mutation("stream of the pilot", "streams.py", "    PILOT = 2", "    PILOT = 3"),
    Mutation("stream of the rounds' centers", "streams.py", "    CLUSTERING = 1", "    CLUSTERING = 2"),
    Mutation("stream of Λ's probes", "streams.py", "    HOLDER = 4", "    HOLDER = 5"),
    Mutation("stream of the baselines", "streams.py", "    BASELINES = 8", "    BASELINES = 4"),
    Mutation("stream of the diagnosis' probes", "streams.py", "    PROBES = 6", "    PROBES = 4"),
    Mutation("stream of the diagnosis' folds", "streams.py", "    DIAGNOSIS = 5", "    DIAGNOSIS = 7"),
    Mutation("rounds share one stream", "selection.py", "Stream.DRAW, *draft.stream)", "Stream.DRAW)"),
    # Weights and shares
    Mutation("1 − α left out of the draw", "selection.py", " * (1 - share[order[rows]])", ""),
    Mutation("1 − α left out of drawn weights", "phases.py", "times * own_share / chances", "times / chances"),
    Mutation("1 − α left out of pilot weights", "phases.py", "chances + later[rows, phases]", "chances"),
    Mutation(
        "share of a selection that grows", "growing.py", "kept * selection.weights + (1 - kept)", "selection.weights"
    ),
    Mutation("law of the pilot's share", "pilots.py", "later * smaller**2", "later * smaller"),
    Mutation("finite correction of the share", "pilots.py", "now * (1 - np.minimum(now + later, 1.0))", "now"),
    Mutation("balance of the pilot", "pilots.py", "balance: float = 0.4", "balance: float = 0.41"),
    Mutation("stand-in of an excluded center", "pilots.py", "candidates[first]])", "candidates[first + 1]])"),
    # Scores
    Mutation("floor of Learned", "scores.py", "floor: float = 0.5\n\n", "floor: float = 0.51\n\n"),
    Mutation("floor of Distance", "scores.py", "floor: float = 0.5\n    power", "floor: float = 0.51\n    power"),
    Mutation("floor of Portfolio", "scores.py", "floor: float = 0.1\n", "floor: float = 0.11\n"),
    Mutation("a cluster's prior", "scores.py", "PRIOR = 0.5", "PRIOR = 0.6"),
    Mutation("what is uniform without a loss", "inclusion.py", "FLAT = 0.6", "FLAT = 0.61"),
    Mutation(
        "a row's loss in its own mean",
        "scores.py",
        "(sums[labels] - losses) / (counts[labels] - 1)",
        "sums[labels] / counts[labels]",
    ),
    Mutation("cluster losses without 1/π", "types/flow.py", "expansion * self.losses", "self.losses"),
    Mutation("part of leverage", "scores.py", "leverage: float = 0.7", "leverage: float = 0.71"),
    Mutation("snake order", "order.py", "stop % 2 == 1", "stop % 2 == 0"),
    Mutation(
        "order of Sensitivity",
        "scores.py",
        "Scores(sizes, outward(clustering, levels), holder)",
        "Scores(sizes, snake(clustering), holder)",
    ),
    # Designs
    Mutation("duel of Pivotal", "designs.py", "(2 - filled[:-1]", "(1.9 - filled[:-1]"),
    Mutation("start of Systematic", "designs.py", "uniforms.random(1)[0] + np", "uniforms.random(1)[0] / 2 + np"),
    # Λ
    Mutation("rank of the free Λ", "holder.py", "NEIGHBORS, RANK = 5, 0.8", "NEIGHBORS, RANK = 5, 0.6"),
    Mutation("slope of the free Λ", "holder.py", "slopes.mean() - 2 *", "slopes.mean() - 1 *"),
    Mutation("ln n of the lemma", "holder.py", "max(math.log(probes.clustering.n), 1.0)", "1.0"),
    Mutation(
        "outliers of the robust Λ",
        "holder.py",
        "allowed = 1 / max(clustering.k, 2)",
        "allowed = 2 / max(clustering.k, 2)",
    ),
    # Variances
    Mutation(
        "finite correction of a sorted draw",
        "variance.py",
        "local(uncertain.expanded, 1 - uncertain.inclusion)",
        "local(uncertain.expanded, np.ones_like(uncertain.inclusion))",
    ),
    Mutation(
        "finite correction of Poisson",
        "variance.py",
        "    chance = 1 - sample.inclusion\n",
        "    chance = np.ones_like(sample.inclusion)\n",
    ),
    Mutation(
        "variance of another design", "designs.py", "return independent_rows(sample)", "return by_neighbors(sample)"
    ),
    Mutation("sample variance without s − 1", "variance.py", "draws / (draws - 1) * residual**2", "residual**2"),
    Mutation(
        "1 − α left out of the variance",
        "estimation/intervals.py",
        "carried = selection.carried(number) * values",
        "carried = 1.0 * values",
    ),
    Mutation("variance inside clusters", "variance.py", "np.maximum(worth - 1, LEAST_WORTH - 1)", "worth"),
    Mutation("rows alone in their cluster", "variance.py", "LEAST_WORTH = 1.5", "LEAST_WORTH = 2.5"),
    # Estimates
    Mutation("degrees of freedom", "estimation/intervals.py", "stdtrit(3 * summed", "stdtrit(summed"),
    Mutation("correction for skewness", "estimation/intervals.py", "rate * (quantile - rate / 4)", "rate * quantile"),
    Mutation("skewness of evaluations", "evaluation/intervals.py", "moments.third / error**3", "0.0"),
    Mutation("Bernstein's constant", "estimation/intervals.py", "spread + 7 * draws", "spread + 3 * draws"),
    Mutation(
        "variance of Difference",
        "estimation/methods.py",
        "Adjusted(float(total), residuals, residuals)",
        "Adjusted(float(total), residuals, values)",
    ),
    Mutation(
        "calibration of Regression",
        "estimation/regression.py",
        "missing = self.totals - base",
        "missing = self.totals - 0.9 * base",
    ),
    Mutation("draws of the paper's bound", "bounds.py", "(2 + 2 * epsilon / 3)", "(2 + epsilon / 3)"),
    # Other roads to a selection
    Mutation("x₀ counts excluded rows", "regression.py", "members -= np.bincount", "members -= 0 * np.bincount"),
    Mutation("ridge of a fit", "fitting.py", "np.sqrt(ridge) * np.eye", "ridge * np.eye"),
    Mutation(
        "second phase of the diagnosis", "diagnosis/gain.py", "weights * (1 - first) if", "weights * (1 + first) if"
    ),
    Mutation("rows without leverage", "baselines/making.py", "(self.room - certain) /", "self.room /"),
)


def main() -> None:
    """Run the mutations that the command line names, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("numbers", nargs="*", type=int, help="which mutations; all unless said")
    numbers = parser.parse_args().numbers or range(1, len(MUTATIONS) + 1)
    chosen = [(number, MUTATIONS[number - 1]) for number in numbers]
    stale = [mutation for _, mutation in chosen if occurrences(mutation) != 1]
    for mutation in stale:
        print(f"{mutation.name}: {occurrences(mutation)} times in {mutation.file}, must be once: {mutation.text!r}")
    if stale:
        sys.exit(2)
    if broken := first_broken(ROOT / "src"):
        sys.exit(f"The golden case {broken} is broken without any mutation; mend or renew it first.")
    missed = list(report(chosen))
    if missed:
        sys.exit(f"{len(missed)} of {len(chosen)} mutations broke no golden case: {', '.join(missed)}.")
    print(f"All {len(chosen)} mutations were caught.")


def occurrences(mutation: Mutation) -> int:
    """Return how often the text stands in its file."""
    path = ROOT / "src" / "coresift" / mutation.file
    return path.read_text().count(mutation.text) if path.exists() else 0


def report(chosen: list[tuple[int, Mutation]]) -> Iterator[str]:
    """Print a line for each mutation, and yield the names of those that nothing noticed."""
    print(f"{'':>3} {'mutation':<36} {'file':<26} the first golden case that it breaks")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        broken = pool.map(lambda one: broken_by(one[1]), chosen)
        for (number, mutation), case in zip(chosen, broken, strict=True):
            print(f"{number:>3} {mutation.name:<36} {mutation.file:<26} {case or 'NONE'}", flush=True)
            if not case:
                yield mutation.name


def broken_by(mutation: Mutation) -> str:
    """Return the first golden case that a copy of the source with this mutation breaks."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy)  # with its bytecode: only the changed file is compiled again
        path = copy / "coresift" / mutation.file
        path.write_text(path.read_text().replace(mutation.text, mutation.instead))
        return first_broken(copy)


def first_broken(source: Path) -> str:
    """Run the golden cases on this source; return the first that it breaks, or nothing."""
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "tests/golden_cases.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"The golden cases did not run:\n{done.stdout}{done.stderr}")
    loaded, broken = done.stdout.splitlines()
    if not loaded.startswith(str(source)):
        raise RuntimeError(f"The copy in {source} is not what Python loads, but {loaded}.")
    return broken


if __name__ == "__main__":
    main()
