"""The examples run, and the README's promises about commands hold."""

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# A study that takes minutes runs here with a few rows.
QUICK = {"finetune_banking77.py": "--method coresift --budget 15 --epochs 1 --limit 10 --questions 60 --out results"}


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_example_runs(path, capsys, request, monkeypatch, tmp_path):
    words = QUICK.get(path.name, "").split()
    if " DATA " in path.read_text(encoding="utf-8").split('"""')[1]:
        words = [str(request.getfixturevalue("data_home"))]
    elif words:
        monkeypatch.setenv("CORESIFT_DATA", str(request.getfixturevalue("data_home")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path), *words])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
