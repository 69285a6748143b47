"""What the command line shows about a run of active learning: its plan, labels, classes and audits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from coresift.cli.showing import tell
from coresift.cli.wording import in_flags
from coresift.learning import LearningRun
from coresift.learning.misspellings import NO_LABEL, misspellings
from coresift.notebook import counted

# Why rows are asked, in the words of the people who label them.
REASONS = {
    "coverage": "rows from all over the data",
    "uncertainty": "rows that the model is unsure about",
    "mixed": "rows that the model is unsure about, and random rows",
    "random": "random rows",
    "audit": "random rows that measure the model",
}
MOST_CLASSES, MOST_NAMED = 40, 5  # classes that are listed, and classes that a warning names


def progress_of(run: LearningRun) -> list[tuple[str, str]]:
    """Return the lines about how far a run is and how good its model was, and add them to --json."""
    status, plan, answers, audits = run.status(), run.plan, run.answers, run.audits
    skipped = sum(label is None for label in answers.values())
    classes = Counter(str(label) for label in answers.values() if label is not None)
    tell(
        rows=run.n,
        rounds=plan.rounds,
        plan={"batches": plan.batches, "audits": plan.audits},
        budget=run.budget,
        labeled=len(answers) - skipped,
        skipped=skipped,
        audits=[asdict(audit) for audit in audits],
    )
    lines = [
        ("plan", in_flags(str(plan), {"audit": "--audit"})),
        ("round", f"{status.round} of {plan.rounds}"),
        ("labeled", f"{len(answers) - skipped:,} of {run.n:,} rows; {skipped:,} skipped; budget {run.budget:,}"),
    ]
    share = run.random_share
    if share and not status.finished:
        tell(random_share=share)
        lines.append(
            ("random", f"{share:.0%} of this round's batch, since the rows say little about the labels so far")
        )
    if not run.numeric:
        tell(classes=dict(classes.most_common()))
        lines += [("classes", f"{len(classes):,}: {_listed(classes)}")] if classes else []
    return [*lines, *_audit_lines(run)]


def remarks_on(run: LearningRun, labels: Sequence[Any]) -> list[str]:
    """Return warnings about labels that were just handed in: words for "no label", and classes that look misspelled."""
    if run.numeric or run.classes is not None:
        return []
    counts = Counter(str(label) for label in run.labels.values())
    latest = {str(label) for label in labels if label is not None}
    remarks = [
        f"{counted(counts[word], 'label')} {'is' if counts[word] == 1 else 'are'} {word!r}, which counts as a class; "
        f"if it means that nobody can label the row, hand the file in again with --correct --cannot-tell {word!r}."
        for word in sorted(latest)
        if word.casefold() in NO_LABEL
    ]
    pairs = misspellings(counts, latest)
    if pairs:
        named = [f"{name!r} ({counts[name]:,}) and {pairs[name]!r} ({counts[pairs[name]]:,})" for name in pairs]
        more = f" and {len(named) - MOST_NAMED:,} more" if len(named) > MOST_NAMED else ""
        remarks.append(
            f"{counted(len(pairs), 'class', 'classes')} may be misspelled, since {', '.join(named[:MOST_NAMED])}{more} "
            "are almost the same; to change labels, hand the file in again with --correct."
        )
    return remarks


def _listed(classes: Counter[str]) -> str:
    more = f" and {len(classes) - MOST_CLASSES:,} more" if len(classes) > MOST_CLASSES else ""
    return ", ".join(f"{name} {count:,}" for name, count in classes.most_common(MOST_CLASSES)) + more


def _audit_lines(run: LearningRun) -> list[tuple[str, str]]:
    audits, finished = run.audits, run.finished
    if not audits and finished and run.plan.audit_count:
        return [("audit", "not measured, since too few of its rows have a label")]
    if not audits:
        return [("first audit", run.next_audit)] if run.next_audit else []
    lines = [("last audit", str(audits[-1]))]
    if not run.numeric:
        lines += [("change", audits[-1].change_since(audits[-2]))] if len(audits) > 1 else []
        lines += [] if finished else [("stop or go on", audits[-1].advice(run.n))]
    if finished and len(run.labels) > audits[-1].trained_on:
        lines.append(("model now", f"trained on all {len(run.labels):,} labels; no audit measured it"))
    return lines
