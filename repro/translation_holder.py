"""The paper's figure of Hölder constants in fine-tuning: accuracy and BLEU with λ from 0.05 to 500.

    python -m repro translation-holder

The paper, in a plot: a large λ, 500, drops to about what diversity sampling gives. Here: the study of `translation`,
sensitivity sampling by MiniLM embeddings, six values of λ, three seeds. Those of λ = 0.1 are runs of `translation`, and
taken from there if it has them.
"""

from __future__ import annotations

import numpy as np

from repro.plans import QUICK, SMALL
from repro.results import (
    Entry,
    Experiment,
    Journal,
    Key,
    Line,
    Report,
    Setting,
    degree,
    paired,
    pyplot,
    save_plot,
    standard_error,
    there,
    write_table,
)
from repro.seq2seq import Study
from repro.translation import DIGITS, ENOUGH, MEASURES, TITLES

HOLDERS = (0.1, 500.0, 0.05, 0.5, 5.0, 50.0)  # in the order of the runs: the two ends of the claim first
SEEDS = 3


def run(setting: Setting) -> None:
    """Do the fine-tunings that are missing."""
    plan = QUICK if setting.quick else SMALL
    holders = sorted(HOLDERS)[:: len(HOLDERS) - 1] if setting.quick and len(HOLDERS) > 1 else HOLDERS
    keys: list[Key] = [(holder, seed) for seed in range(setting.runs or min(SEEDS, plan.seeds)) for holder in holders]
    journal = Journal(setting.out / "translation-holder.jsonl")
    if all(key in journal.read() for key in keys) or not setting.time_left():
        return
    study, encoder = Study(setting, plan), next(iter(plan.encoders))
    known = Journal(setting.out / "translation.jsonl").read()

    def one_run(key: Key) -> Entry:
        holder, seed = key
        same = known.get(("sensitivity", encoder, seed)) if holder == plan.holder else None
        entry = same if same is not None else study.one_run("sensitivity", encoder, seed, holder=holder)
        return {
            "model": entry["model"],
            "tests": {name: values for name, values in entry.items() if isinstance(values, dict)},
        }

    journal.fill(setting, "λ", keys, one_run)


def report(setting: Setting) -> Report:
    """Write the table and the curves."""
    kept = there(Journal(setting.out / "translation-holder.jsonl").read())
    found = values_of(kept)
    lines, cells = [], []
    for (test, holder), runs in found.items():
        least = found[test, min(of for name, of in found if name == test)]
        for place, measure in enumerate(MEASURES):
            gap, error = against(runs, least, place)
            mean, digits = float(np.mean([values[place] for values in runs.values()])), DIGITS[measure]
            shown = f"{gap:+.{digits}f} ± {error:.{digits}f} to the least λ" if runs is not least else ""
            what = f"{test}, {TITLES[measure]}, λ = {holder:g}"
            lines.append(Line(what, "plot only", f"{mean:.{digits}f}", len(runs), shown))
            cells.append([test, holder, measure, len(runs), mean, gap, error])
    head = ["test", "holder", "measure", "runs", "mean", "minus_least", "standard_error"]
    write_table(setting.out / "translation-holder.csv", head, cells)
    word, number, text = verdict(found)
    model = " and ".join(sorted({entry["model"] for entry in kept.values()}))
    return Report(word, number, tuple(lines), text, (plot(setting, found),), f"Model: {model}. {NOTES}")


NOTES = """Differences are to the least λ, paired by seed, ± one standard error. With z = 2 and vectors of length 1, the
squared distance to a center is below 1 and the loss about 2: at λ = 0.05 and 0.1 the loss of the center decides almost
alone, at 500 the distance does."""

Runs = dict[int, list[float]]  # accuracy, loss and BLEU by seed


def values_of(kept: dict[Key, Entry]) -> dict[tuple[str, float], Runs]:
    """Return the measures of every seed by test set and λ."""
    made: dict[tuple[str, float], Runs] = {}
    for (holder, seed), entry in sorted(kept.items()):
        for test, values in entry["tests"].items():
            made.setdefault((test, holder), {})[seed] = [values[measure] for measure in MEASURES]
    return dict(sorted(made.items()))


def against(runs: Runs, base: Runs, place: int) -> tuple[float, float]:
    """Return the mean difference of a measure over the seeds that both have, and its standard error."""
    seeds = sorted(set(runs) & set(base))
    if not seeds:
        return float("nan"), float("nan")
    return paired(np.array([runs[seed][place] for seed in seeds]), np.array([base[seed][place] for seed in seeds]))


def verdict(found: dict[tuple[str, float], Runs]) -> tuple[str, str, str]:
    """Say whether the largest λ does worse than the least, as in the paper."""
    words, held, number = [], [], ""
    for test in dict.fromkeys(name for name, _ in found):
        holders = [holder for name, holder in found if name == test]
        gap, error = against(found[test, max(holders)], found[test, min(holders)], 0)
        shown = f"accuracy at λ = {max(holders):g} minus that at {min(holders):g} is {gap:+.4f} ± {error:.4f}"
        words.append(f"{test}: {shown}")
        if np.isfinite(error) and len(found[test, max(holders)]) >= ENOUGH:
            held.append(gap < -2 * error)
            number = number or f"{test}: {shown}"
    number = number or f"{max(len(runs) for runs in found.values())} of {SEEDS} seeds so far"
    return degree(held), number, f"The claim: a λ of 500 is worse than a small one. {'. '.join(words)}."


def plot(setting: Setting, found: dict[tuple[str, float], Runs]) -> str:
    """Draw each measure against λ, with two standard errors."""
    plots = pyplot()
    tests = list(dict.fromkeys(name for name, _ in found))
    size = (4.2 * len(MEASURES), 3.2 * len(tests))
    figure, panels = plots.subplots(len(tests), len(MEASURES), figsize=size, layout="constrained", squeeze=False)
    for row, test in zip(panels, tests, strict=True):
        holders = [holder for name, holder in found if name == test]
        for place, (panel, measure) in enumerate(zip(row, MEASURES, strict=True)):
            values = [np.array([some[place] for some in found[test, holder].values()]) for holder in holders]
            errors = [np.nan_to_num(2 * standard_error(one)) for one in values]
            panel.errorbar(holders, [one.mean() for one in values], yerr=errors, marker="o", capsize=3)
            panel.set_xscale("log")
            panel.set_xlabel("λ")
            panel.set_title(f"{test}: {TITLES[measure]}", fontsize=10)
            panel.grid(alpha=0.25)
    return save_plot(figure, setting.out / "translation-holder")


EXPERIMENT = Experiment(
    "translation-holder",
    "Fine-tuning with λ from 0.05 to 500",
    "Sensitivity sampling of `translation` with six values of λ, three seeds.",
    run,
    report,
)
