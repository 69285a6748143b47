"""Labels and predicted classes as numbers, and remarks about labels that no model predicts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.evaluation.metrics import Context, Labels
from coresift.types import Floats, Ints, numbered

# How many classes a remark names.
MOST_NAMED = 3


def right(answers: Labels, ids: Ints, context: Context) -> Floats:
    """Return 1 if a model's prediction is the label, one column per model; NaN if there is no label."""
    truth = coded(answers, context)
    hits = np.stack([codes[ids] == truth for codes in context.codes], axis=1).astype(np.float64)
    return np.where(np.isnan(truth)[:, None], np.nan, hits)


def coded(answers: Labels, context: Context) -> Floats:
    """Return labels as numbers of the predicted classes, −1 for another class, NaN for no label."""
    known = {name: float(code) for code, name in enumerate(context.classes)}
    known.setdefault("", np.nan)  # an empty text is no label
    return np.array([np.nan if answer is None else known.get(key_of(answer), -1.0) for answer in answers])


def never_predicted(answers: Labels, context: Context) -> tuple[str, ...]:
    """Return a sentence about labels of classes that no model predicts, if there are any.

    Examples:
        >>> never_predicted(np.array(["CAT", "dog", None], object), Context(3, classes=("cat", "dog")))
        ("1 of 2 labels counts as wrong, because no row is predicted as 'CAT' (but as 'cat').",)
    """
    labels = [key_of(answer) for answer in answers if answer is not None and key_of(answer)]
    counts = Counter(label for label in labels if label not in context.classes)
    if not counts:
        return ()
    alike = {name.lower(): name for name in context.classes}
    listed = ", ".join(
        f"{name!r}" + (f" (but as {alike[name.lower()]!r})" if name.lower() in alike else "")
        for name, _ in counts.most_common(MOST_NAMED)
    )
    wrong = sum(counts.values())
    more = ", …" if len(counts) > MOST_NAMED else ""
    verb = "counts" if wrong == 1 else "count"
    return (f"{wrong:,} of {len(labels):,} labels {verb} as wrong, because no row is predicted as {listed}{more}.",)


def encode(predictions: list[NDArray[Any]]) -> tuple[tuple[Ints, ...], tuple[str, ...]]:
    """Return predictions as numbers, and the classes they stand for; 1, 1.0, True and "1" are one class.

    Examples:
        >>> encode([np.array([1, 0]), np.array(["1", "2"])])
        ((array([1, 0]), array([1, 2])), ('0', '1', '2'))
    """
    names_of_each, places = [], []
    for values in predictions:
        if values.dtype == object:
            names, place = numbered([key_of(value) for value in values.tolist()])
        else:
            distinct, place = np.unique(values, return_inverse=True)
            names = [key_of(value) for value in distinct.tolist()]
        names_of_each.append(names)
        places.append(place)
    classes = sorted({name for names in names_of_each for name in names})
    number = {name: code for code, name in enumerate(classes)}
    codes = tuple(
        np.array([number[name] for name in names], np.int64)[place]
        for names, place in zip(names_of_each, places, strict=True)
    )
    return codes, tuple(classes)


def key_of(label: Any) -> str:
    """Return a label as text, without white space around it: 1, 1.0, True and "1" are the same label.

    Examples:
        >>> key_of(True), key_of(1.0), key_of(" cat")
        ('1', '1', 'cat')
    """
    label = label.item() if isinstance(label, np.generic) else label
    if isinstance(label, bool) or (isinstance(label, float) and label.is_integer()):
        label = int(label)
    return str(label).strip()
