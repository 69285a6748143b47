"""The tiers of tests: whatever needs heavy libraries is told apart, so that the quick tier never imports them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tiers import HEAVY, ROOT, SLOW, group_of, kind_of

LIBRARIES = {
    "coresift.models": "models",
    "nodes": "ray",
    "ray": "ray",
    "tiny_models": "models",
    "torch": "models",
    "transformers": "models",
}


def imported_at_once(path):
    """Return what a file imports when it is imported itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lines = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [one.name for node in lines if isinstance(node, ast.Import) for one in node.names]
    for node in lines:
        if isinstance(node, ast.ImportFrom):
            names += [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
    return {name[: length or None] for name in names for length in (0, *places(name))}


def places(name):
    return [place for place, letter in enumerate(name) if letter == "."]


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "tests").glob("test_*.py")), ids=lambda path: path.stem)
def test_a_file_with_heavy_libraries_is_marked(path):
    kinds = {LIBRARIES[name] for name in imported_at_once(path) if name in LIBRARIES}
    assert not kinds or kind_of(path) in kinds


def test_what_is_marked_is_there():
    assert not [place for place in (*HEAVY, *SLOW) if not (ROOT / place.partition("::")[0]).exists()]


def test_marks_are_those_of_the_file_or_its_folder():
    assert kind_of(ROOT / "tests" / "test_models.py") == "models"
    assert kind_of(ROOT / "src" / "coresift" / "remote" / "blocks.py") == "ray"
    assert kind_of(Path(__file__)) is None


def test_heavy_tests_of_a_kind_share_a_worker_and_others_go_anywhere():
    assert group_of("tests/test_repro.py::test_a[x::y]") == group_of("src/coresift/models/losses.py::b") == "models"
    assert group_of("tests/test_golden.py::test_rows_give_the_stored_bytes[a]") == "golden_rows"
    assert group_of("tests/test_run.py::test_a") != group_of("tests/test_run.py::test_b")
