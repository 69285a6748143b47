"""Estimation problems: rows with known values, so that an estimated total can be compared with the truth.

Real problems carry losses, errors and squared gradient norms of models that saw a small part of the data, squared
residuals, counts and money from tables; synthetic ones each break, or satisfy, one assumption. Problems come in pairs
that are alike; one of each pair is for tuning, the other is held out (`halves`). Everything is seeded, and what takes
time is kept in `.cache` in the folder above (plain arrays; delete it to build them again).

    python -m benchmarks.problems        builds all problems and prints a line about each
"""

from benchmarks.problems.base import CACHE, Problem, Source, data_folder
from benchmarks.problems.catalog import PROBLEMS, SOURCES, halves, load_problem

__all__ = [
    "CACHE",
    "PROBLEMS",
    "SOURCES",
    "Problem",
    "Source",
    "cross_entropy",
    "data_folder",
    "halves",
    "load_problem",
]
