"""Classes that may be misspellings of others, so that people notice them before a model learns from them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

# What labelers write when they cannot tell.
NO_LABEL = frozenset(
    {"?", "??", "cannot tell", "can't tell", "can not tell", "don't know", "not sure", "unsure", "n/a"}
)
# Shorter classes are not compared letter by letter, and from this length on two letters may differ.
SHORTEST, LONG = 5, 9


def misspellings(counts: Mapping[str, int], among: Collection[str]) -> dict[str, str]:
    """Return classes that may be misspelled, each with the more frequent class that it resembles.

    Two classes resemble each other if they differ only in case or white space. So do a class with a single label and a
    class with several, if one or two letters differ and all digits are the same.

    Args:
        counts: How many labels each class has.
        among: The classes to check, such as those of the latest labels.

    Examples:
        >>> misspellings({"health": 12, "helath": 1, "Health": 2, "class 11": 5, "class 12": 1}, ["helath", "Health"])
        {'helath': 'health', 'Health': 'health'}
        >>> misspellings({"class 11": 5, "class 12": 1, "cat": 5, "car": 1}, ["class 12", "car"])
        {}
    """
    rank = {name: place for place, name in enumerate(sorted(counts, key=lambda name: -counts[name]))}
    pairs = {}
    for name in sorted(set(among) & set(counts), key=rank.__getitem__, reverse=True):
        larger = [other for other in counts if rank[other] < rank[name]]
        similar = [other for other in larger if _folded(other) == _folded(name)]
        if not similar and counts[name] == 1 and len(name) >= SHORTEST:
            similar = [other for other in larger if counts[other] > 1 and _close(_folded(name), _folded(other))]
        if similar:
            pairs[name] = min(similar, key=rank.__getitem__)
    return pairs


def _folded(name: str) -> str:
    return "".join(name.casefold().split())


def _close(name: str, other: str) -> bool:
    most = 1 if len(name) < LONG else 2
    if abs(len(name) - len(other)) > most or re.findall(r"\d+", name) != re.findall(r"\d+", other):
        return False
    return edits(name, other) <= most


def edits(name: str, other: str) -> int:
    """Return the optimal string alignment distance: letters inserted, removed, replaced, or swapped with the next one.

    >>> edits("helath", "health"), edits("biolgy", "biology"), edits("law", "laws"), edits("", "abc")
    (1, 1, 1, 3)
    """
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(name, start=1):
        line = [i]
        for j, wanted in enumerate(other, start=1):
            cost = min(last[j] + 1, line[j - 1] + 1, last[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and name[i - 2] == wanted:
                cost = min(cost, before[j - 2] + 1)
            line.append(cost)
        before, last = last, line
    return last[-1]
