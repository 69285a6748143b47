"""Strategies own their consequences: no other module asks which strategy it has, in any spelling."""

from __future__ import annotations

import ast

import pytest
from tiers import ROOT

import coresift as cs

PACKAGE = ROOT / "src" / "coresift"
# Modules of strategies may know their own classes, and `recipes` picks the defaults among them.
OWN = {"pilots.py", "scores.py", "designs.py", "portfolio.py", "signal_pilot.py", "recipes/__init__.py"}
# Every class of a strategy; what kind it is (`Pilot`, `Score`, `Design`) may be asked.
NAMES = {name for kind in (cs.pilots, cs.scores, cs.designs) for name in kind.__all__} - {"Pilot", "Score", "Design"}
ASKING = (ast.Compare, ast.Match)


def modules():
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).as_posix() not in OWN]


def named(node):
    """Yield the strategies that a piece of code names: as a class, an attribute of a module, or a text."""
    for part in ast.walk(node):
        name = getattr(part, "id", None) or getattr(part, "attr", None) or getattr(part, "value", None)
        if isinstance(name, str) and name in NAMES:
            yield name


def questions(tree):
    """Yield the pieces of code that ask what something is: comparisons, matches, and the functions for it."""
    for node in ast.walk(tree):
        asks = isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass", "hasattr")
        if asks or isinstance(node, ASKING):
            yield node


def test_no_module_asks_which_strategy_it_has():
    found = []
    for path in modules():
        place = path.relative_to(PACKAGE)
        for question in questions(ast.parse(path.read_text(encoding="utf-8"))):
            found += [f"{place}:{question.lineno} {name}" for name in named(question)]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(score, Sensitivity)",
        "isinstance(score, (cs.scores.Learned, int))",
        'type(design).__name__ == "Poisson"',
        'recipe["pilot"] in ("Centers", "Representatives")',
        "match score:\n    case Portfolio():\n        pass",
    ],
)
def test_every_spelling_is_found(text):
    assert [name for question in questions(ast.parse(text)) for name in named(question)]
