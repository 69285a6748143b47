"""The paper's figure of Hölder constants in fine-tuning: accuracy and BLEU with λ from 0.05 to 500.

    python -m repro translation-holder

Cost: 20 CPU minutes, and the model of `translation`. The paper, in a plot: a large λ, 500, drops to about what
diversity sampling gives. Here: the small study of `translation`, sensitivity sampling by MiniLM embeddings, six values
of λ, five seeds. Those of λ = 0.1 are runs of `translation`, and taken from there if it has them.
"""

from __future__ import annotations

import numpy as np

from repro.plans import QUICK, SMALL
from repro.results import (
    Entry,
    Experiment,
    Floats,
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
from repro.translation import MEASURES, TITLES

HOLDERS = (0.05, 0.1, 0.5, 5.0, 50.0, 500.0)


def run(setting: Setting) -> None:
    """Do the fine-tunings that are missing."""
    plan = QUICK if setting.quick else SMALL
    holders = sorted({HOLDERS[0], HOLDERS[-1]}) if setting.quick else HOLDERS
    keys: list[Key] = [(holder, seed) for seed in range(setting.runs or plan.seeds) for holder in holders]
    journal = Journal(setting.out / "translation-holder.jsonl")
    if all(key in journal.read() for key in keys) or not setting.time_left():
        return
    study, encoder = Study(setting, plan), next(iter(plan.encoders))
    known = Journal(setting.out / "translation.jsonl").read()

    def one_run(key: Key) -> Entry:
        holder, seed = key
        same = known.get(("sensitivity", encoder, seed)) if holder == plan.holder else None
        if same is not None:
            return {"tests": {name: values for name, values in same.items() if isinstance(values, dict)}}
        return {"tests": study.one_run("sensitivity", encoder, seed, holder=holder)}

    journal.fill(setting, "λ", keys, one_run)


def report(setting: Setting) -> Report:
    """Write the table and the curves."""
    found = there(values_of(setting))
    lines, cells = [], []
    for (test, holder), values in found.items():
        base = found[test, min(of for name, of in found if name == test)]
        both = min(len(values), len(base))
        for place, measure in enumerate(MEASURES):
            gap, error = paired(values[:both, place], base[:both, place])
            mean = float(values[:, place].mean())
            shown = f"{gap:+.4f} ± {error:.4f} to the least λ" if values is not base else ""
            lines.append(
                Line(f"{test}, λ = {holder:g}, {TITLES[measure]}", "plot only", f"{mean:.4f}", len(values), shown)
            )
            cells.append([test, holder, measure, len(values), mean, gap, error])
    head = ["test", "holder", "measure", "runs", "mean", "minus_least", "standard_error"]
    write_table(setting.out / "translation-holder.csv", head, cells)
    test, most = next(iter(found))[0], max(holder for _, holder in found)
    return Report(tuple(lines), verdict(found), (plot(setting, found),), glance=f"{test}, λ = {most:g}")


def values_of(setting: Setting) -> dict[tuple[str, float], Floats]:
    """Return accuracy and BLEU of every seed by test set and λ."""
    made: dict[tuple[str, float], list[list[float]]] = {}
    for (holder, _), entry in sorted(Journal(setting.out / "translation-holder.jsonl").read().items()):
        for test, values in entry["tests"].items():
            made.setdefault((test, holder), []).append([values[measure] for measure in MEASURES])
    return {key: np.array(values) for key, values in sorted(made.items())}


def verdict(found: dict[tuple[str, float], Floats]) -> str:
    """Say whether the largest λ does worse than the least, as in the paper."""
    words, held = [], []
    for test in dict.fromkeys(name for name, _ in found):
        holders = [holder for name, holder in found if name == test]
        least, most = found[test, min(holders)][:, 0], found[test, max(holders)][:, 0]
        both = min(least.size, most.size)
        gap, error = paired(most[:both], least[:both])
        if np.isfinite(error):
            held.append(gap < -2 * error)
        words.append(
            f"{test}: accuracy at λ = {max(holders):g} minus that at {min(holders):g} is {gap:+.4f} ± {error:.4f}"
        )
    if not held:
        return "Too few runs for a verdict."
    return f"{degree(held)} (the largest λ below the least in next-token accuracy). {'. '.join(words)}."


def plot(setting: Setting, found: dict[tuple[str, float], Floats]) -> str:
    """Draw accuracy and BLEU against λ, with two standard errors."""
    plots = pyplot()
    tests = list(dict.fromkeys(name for name, _ in found))
    figure, panels = plots.subplots(len(tests), 2, figsize=(10, 3.2 * len(tests)), layout="constrained", squeeze=False)
    for line, test in zip(panels, tests, strict=True):
        holders = [holder for name, holder in found if name == test]
        for place, (panel, measure) in enumerate(zip(line, MEASURES, strict=True)):
            values = [found[test, holder][:, place] for holder in holders]
            errors = [np.nan_to_num(2 * standard_error(one)) for one in values]
            panel.errorbar(holders, [one.mean() for one in values], yerr=errors, marker="o", capsize=3)
            panel.set_xscale("log")
            panel.set_xlabel("λ")
            panel.set_title(f"{test}: {TITLES[measure]}")
            panel.grid(alpha=0.25)
    return save_plot(figure, setting.out / "translation-holder")


EXPERIMENT = Experiment(
    "translation-holder",
    "Fine-tuning with λ from 0.05 to 500",
    "Sensitivity sampling of the small study with six values of λ. Cost: 20 CPU minutes, and 17 for the first model.",
    run,
    report,
)
