"""The paper's figure of fine-tuning, at the size of two cores: accuracy and BLEU after fine-tuning on selected pairs.

    python -m repro translation

Cost: 48 CPU seconds a fine-tuning, of which there are 56, 17 CPU minutes for the model to begin with, and half a CPU
hour for the MiniLM embeddings, if `python -m benchmarks.embeddings` did not make them before; every fine-tuning is
kept, so it goes on where it was. The paper: T5-Small on 1 % of 4.6 million WMT pairs; accuracy .59 (random) to .60
(sensitivity), .70 on all pairs. Smaller here: 200,000 Europarl pairs; a T5 of 1.4 million parameters made here,
trained on a random tenth first; 2,000 pairs selected (1 %), seen twice; MiniLM and static embeddings instead of BERT
and Sentence-T5; 5 seeds; judged on 1,000 held-out pairs and the first 1,000 of newstest2014. `translation-paper` is
the paper's own configuration.
"""

from __future__ import annotations

import numpy as np

from repro.plans import QUICK, SMALL, Plan
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
from repro.selecting import METHODS
from repro.seq2seq import Study

ALIKE = ("random", "nothing")  # the embedding makes no difference to these
TITLES = {"accuracy": "next-token accuracy", "loss": "loss per token", "bleu": "BLEU"}
MEASURES = tuple(TITLES)


def run(setting: Setting) -> None:
    """Do the fine-tunings that are missing."""
    fill(setting, QUICK if setting.quick else SMALL, "translation")


def fill(setting: Setting, plan: Plan, name: str) -> None:
    """Do the fine-tunings of a plan that are missing."""
    keys = wanted(plan, setting.runs or plan.seeds)
    journal = Journal(setting.out / f"{name}.jsonl")
    if all(key in journal.read() for key in keys) or not setting.time_left():
        return
    study = Study(setting, plan)
    journal.fill(setting, name, keys, lambda key: study.one_run(*key))


def wanted(plan: Plan, seeds: int) -> list[Key]:
    """Return the runs of a study in their order: each seed in turn, so that any beginning is balanced."""
    first = next(iter(plan.encoders))
    keys: list[Key] = [("nothing", first, 0)]
    for encoder in plan.encoders:
        for seed in range(seeds):
            keys += [(name, encoder, seed) for name in METHODS if encoder == first or METHODS[name].embeds]
    return keys


def report(setting: Setting) -> Report:
    """Write the table, the plot and the verdict."""
    return reported(setting, "translation")


def reported(setting: Setting, name: str) -> Report:
    """Write what the runs of this name come to."""
    found = there(Journal(setting.out / f"{name}.jsonl").read())
    sets = [name for name, values in next(iter(found.values())).items() if isinstance(values, dict)]
    lines, cells, words, held = [], [], [], []
    for test in sets:
        every = gathered(found, test)
        for (method, encoder), values in every.items():
            gap, error = against_random(found, test, method, encoder)
            for place, measure in enumerate(MEASURES):
                shown = f"{gap[place]:+.4f} ± {error[place]:.4f} to random" if method != "random" else ""
                what = f"{test}, {titled(method)}"
                what += "" if method in ALIKE else f", {encoder}"
                paper = (
                    {"random": ".59", "sensitivity": ".60"}.get(method, "plot only") if measure == "accuracy" else ""
                )
                mean = values[:, place].mean()
                lines.append(Line(f"{what}, {TITLES[measure]}", paper, f"{mean:.4f}", len(values), shown))
                cells.append([test, method, encoder, measure, len(values), mean, gap[place], error[place]])
            if method == "sensitivity" and np.isfinite(error[0]):
                sure = "better" if gap[0] > 2 * error[0] else "worse" if gap[0] < -2 * error[0] else "no different"
                held.append(sure == "better")
                words.append(f"{test}, {encoder}: sensitivity {sure} than random ({gap[0]:+.4f} ± {error[0]:.4f})")
        gained = gain_of_random(every)
        words.append(f"{test}: fine-tuning on random pairs gains {gained:+.4f} itself")
    write_table(
        setting.out / f"{name}.csv",
        ["test", "method", "embedding", "measure", "runs", "mean", "minus_random", "standard_error"],
        cells,
    )
    verdict = f"{degree(held)} (sensitivity above random in next-token accuracy). {'. '.join(words)}."
    if not held:
        verdict = "Too few runs for a verdict."
    return Report(tuple(lines), verdict, (plot(setting, found, sets, name),), NOTES, f"{sets[0]}, sensitivity")


NOTES = """Differences are to random, paired by seed, ± one standard error. Accuracy is that of the next token with the
right ones before it; BLEU is sacreBLEU of greedy translations, on the first 300 pairs of each set. A model this small
knows which words are likely next but hardly translates: a BLEU near 1 says nothing about the methods, accuracy does.
The pairs to select from are like those that the model was trained on, ten times as many as are selected, so that
fine-tuning has little to gain, whatever is selected."""


def titled(method: str) -> str:
    """Return what the page calls a method."""
    return METHODS[method].title if method in METHODS else "before fine-tuning"


def gathered(found: dict[Key, Entry], test: str) -> dict[tuple[str, str], Floats]:
    """Return accuracy and BLEU of every run by method and embedding."""
    made: dict[tuple[str, str], list[list[float]]] = {}
    for (method, encoder, _), entry in sorted(found.items(), key=lambda item: item[0][2]):
        made.setdefault((method, encoder), []).append([entry[test][measure] for measure in MEASURES])
    return {key: np.array(values) for key, values in made.items()}


def gain_of_random(every: dict[tuple[str, str], Floats]) -> float:
    """Return how much better a model is after fine-tuning on random pairs, in accuracy."""
    after, before = (
        np.concatenate([values[:, 0] for (name, _), values in every.items() if name == method] or [np.full(1, np.nan)])
        for method in ("random", "nothing")
    )
    return float(after.mean() - before.mean())


def against_random(found: dict[Key, Entry], test: str, method: str, encoder: str) -> tuple[list[float], list[float]]:
    """Return the mean differences to random over the seeds that both have, and their standard errors."""
    base = {key[2]: entry[test] for key, entry in found.items() if key[0] == "random"}
    mine = {key[2]: entry[test] for key, entry in found.items() if key[:2] == (method, encoder)}
    seeds = sorted(set(base) & set(mine))
    if not seeds:
        return [float("nan")] * len(MEASURES), [float("nan")] * len(MEASURES)
    pairs = [
        paired(np.array([mine[seed][name] for seed in seeds]), np.array([base[seed][name] for seed in seeds]))
        for name in MEASURES
    ]
    return [gap for gap, _ in pairs], [error for _, error in pairs]


def plot(setting: Setting, found: dict[Key, Entry], sets: list[str], name: str) -> str:
    """Draw accuracy and BLEU of every method with two standard errors."""
    plots = pyplot()
    figure, panels = plots.subplots(len(sets), 2, figsize=(11, 3.6 * len(sets)), layout="constrained", squeeze=False)
    for line, test in zip(panels, sets, strict=True):
        every = gathered(found, test)
        shown = sorted((key for key in every if key[0] != "nothing"), key=lambda key: key[0] != "random")
        for place, (panel, measure) in enumerate(zip(line, MEASURES, strict=True)):
            for height, key in enumerate(shown):
                values = every[key][:, place]
                error = np.nan_to_num(2 * standard_error(values))
                panel.errorbar(values.mean(), height, xerr=error, fmt="o", capsize=3, color="tab:blue")
            labels = [titled(key[0]) + ("" if key[0] in ALIKE else f", {key[1]}") for key in shown]
            panel.set_yticks(range(len(shown)), labels, fontsize=8)
            panel.invert_yaxis()
            panel.locator_params(axis="x", nbins=5)
            panel.set_title(f"{test}: {TITLES[measure]}")
            panel.grid(alpha=0.25)
    return save_plot(figure, setting.out / name)


EXPERIMENT = Experiment(
    "translation",
    "Fine-tuning a translation model on 1 % of the pairs, at the size of two cores",
    "Smaller than the paper's in everything: 200,000 Europarl pairs instead of 4.6 million of WMT; a T5 of 1.4 million "
    "parameters, trained here on a random tenth, instead of the pretrained T5-Small of 77 million; 2,000 pairs "
    "selected instead of 45,000, seen twice, without dropout; MiniLM and static embeddings instead of BERT and "
    "Sentence-T5. Cost: an hour on one core, and 17 minutes for the first model.",
    run,
    report,
)
