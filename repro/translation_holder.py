"""The paper's figure of Hölder constants in fine-tuning: accuracy and BLEU with λ from 0.05 to 500.

    python -m repro translation-holder

In the paper's plot, a large λ of 500 drops to about the accuracy of diversity sampling. Here, the study of
`translation` runs sensitivity sampling with MiniLM embeddings, four values of λ and three seeds. The runs with λ = 0.1
are those of `translation`, if it has them.
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
    claim_and_parts,
    degree,
    paired,
    pyplot,
    require_runs,
    save_plot,
    standard_error,
    write_table,
)
from repro.seq2seq import Study
from repro.translation import DIGITS, ENOUGH, MEASURES, TITLES, products_of

HOLDERS = (0.1, 500.0, 5.0, 0.05)  # in the order of the runs: the two ends of the claim first
SEEDS = 3


def run(setting: Setting) -> None:
    """Do the missing fine-tunings."""
    plan = QUICK if setting.quick else SMALL
    holders = sorted(HOLDERS)[:: len(HOLDERS) - 1] if setting.quick and len(HOLDERS) > 1 else HOLDERS
    keys: list[Key] = [(holder, seed) for seed in range(setting.runs or min(SEEDS, plan.seeds)) for holder in holders]
    journal = Journal(setting.out / "translation-holder.jsonl")
    if all(key in journal.read() for key in keys) or not setting.time_left():
        return
    study, encoder = Study(setting, plan), next(iter(plan.encoders))
    translation = Journal(setting.out / "translation.jsonl").read()

    def one_run(key: Key) -> Entry:
        holder, seed = key
        entry = translation.get(("sensitivity", encoder, seed)) if holder == plan.holder else None
        if entry is None:
            entry = study.one_run("sensitivity", encoder, seed, holder=holder)
        return {
            "model": entry["model"],
            "products": entry.get("products", "bfloat16"),
            "tests": {name: values for name, values in entry.items() if isinstance(values, dict)},
        }

    journal.fill(setting, "λ", keys, one_run)


def report(setting: Setting) -> Report:
    """Write the table and the curves."""
    entries = require_runs(Journal(setting.out / "translation-holder.jsonl").read())
    by_test = values_of(entries)
    lines, cells = [], []
    for (test, holder), runs in by_test.items():
        least = by_test[test, min(holder for name, holder in by_test if name == test)]
        for number, measure in enumerate(MEASURES):
            gap, error = against(runs, least, number)
            mean, digits = float(np.mean([values[number] for values in runs.values()])), DIGITS[measure]
            difference = f"{gap:+.{digits}f} ± {error:.{digits}f} to the smallest λ" if runs is not least else ""
            title = f"{test}, {TITLES[measure]}, λ = {holder:g}"
            lines.append(Line(title, "plot only", f"{mean:.{digits}f}", len(runs), difference))
            cells.append([test, holder, measure, len(runs), mean, gap, error])
    head = ["test", "holder", "measure", "runs", "mean", "minus_least", "standard_error"]
    write_table(setting.out / "translation-holder.csv", head, cells)
    word, number, text = verdict(by_test)
    model = " and ".join(sorted({entry["model"] for entry in entries.values()}))
    return Report(
        word, number, tuple(lines), text, (plot(setting, by_test),), f"Model: {model}. {products_of(entries)} {NOTES}"
    )


NOTES = """Differences are to the smallest λ, paired by seed, ± one standard error. With z = 2 and vectors of length 1,
the squared distance to a center is about 1, and the loss about 3. So the score depends almost only on the center's loss
at λ = 0.05 and 0.1, on both at 5, and almost only on the distance at 500.

**Cause.** No λ makes the draw much different from a random one. The scores' standard deviation is .33 of their mean at
λ = 0.1, .21 at 5 and .24 at 500, because most pairs are about equally far from their centers. A pair's own loss has a
correlation of .16 with its center's loss and of .23 with its distance (10,182 pairs). Diversity itself, which the paper
likens a large λ to, draws by the distance to the rows drawn before, not to a center, and is clearly worse
(`translation`)."""

Runs = dict[int, list[float]]  # accuracy, loss and BLEU by seed


def values_of(entries: dict[Key, Entry]) -> dict[tuple[str, float], Runs]:
    """Return the measures of every seed, by test set and λ."""
    runs: dict[tuple[str, float], Runs] = {}
    for (holder, seed), entry in sorted(entries.items()):
        for test, values in entry["tests"].items():
            runs.setdefault((test, holder), {})[seed] = [values[measure] for measure in MEASURES]
    return dict(sorted(runs.items()))


def against(runs: Runs, base: Runs, number: int) -> tuple[float, float]:
    """Return the mean difference of a measure over the seeds that both have, and its standard error."""
    seeds = sorted(set(runs) & set(base))
    if not seeds:
        return float("nan"), float("nan")
    return paired(np.array([runs[seed][number] for seed in seeds]), np.array([base[seed][number] for seed in seeds]))


def verdict(by_test: dict[tuple[str, float], Runs]) -> tuple[str, str, str]:
    """Return whether the largest λ is worse than the smallest, as in the paper."""
    words, held, number = [], [], ""
    for test in dict.fromkeys(name for name, _ in by_test):
        holders = [holder for name, holder in by_test if name == test]
        gap, error = against(by_test[test, max(holders)], by_test[test, min(holders)], 0)
        text = f"accuracy at λ = {max(holders):g} minus that at {min(holders):g} is {gap:+.4f} ± {error:.4f}"
        words.append(f"{test}: {text}")
        if np.isfinite(error) and len(by_test[test, max(holders)]) >= ENOUGH:
            held.append(gap < -2 * error)
            number = number or f"{test}: {text}"
    number = number or f"{max(len(runs) for runs in by_test.values())} of {SEEDS} seeds so far"
    return degree(held), number, claim_and_parts("a λ of 500 is worse than a small one", words)


def plot(setting: Setting, by_test: dict[tuple[str, float], Runs]) -> str:
    """Plot each measure against λ, with two standard errors."""
    plots = pyplot()
    tests = list(dict.fromkeys(name for name, _ in by_test))
    size = (4.2 * len(MEASURES), 3.2 * len(tests))
    figure, panels = plots.subplots(len(tests), len(MEASURES), figsize=size, layout="constrained", squeeze=False)
    for row, test in zip(panels, tests, strict=True):
        holders = [holder for name, holder in by_test if name == test]
        for number, (panel, measure) in enumerate(zip(row, MEASURES, strict=True)):
            values = [np.array([run[number] for run in by_test[test, holder].values()]) for holder in holders]
            errors = [np.nan_to_num(2 * standard_error(runs)) for runs in values]
            panel.errorbar(holders, [runs.mean() for runs in values], yerr=errors, marker="o", capsize=3)
            panel.set_xscale("log")
            panel.set_xlabel("λ")
            panel.set_title(f"{test}: {TITLES[measure]}", fontsize=10)
            panel.grid(alpha=0.25)
    return save_plot(figure, setting.out / "translation-holder")


EXPERIMENT = Experiment(
    "translation-holder",
    "Fine-tuning with λ from 0.05 to 500",
    "Sensitivity sampling of `translation` with four values of λ, three seeds.",
    run,
    report,
)
