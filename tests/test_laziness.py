"""What is public is imported when it is first used: names, modules and verbs."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command

import coresift as cs
from coresift.cli.app import VERBS, app

HEAVY = ("numpy", "scipy", "pyarrow", "pandas", "rich", "mpmath", "pydantic", "torch")


def loaded_after(code: str) -> set[str]:
    """Return which heavy libraries a fresh process has loaded in the end."""
    report = f"import sys; print('loaded', *[name for name in {HEAVY} if name in sys.modules])"
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit as end:\n    assert not end.code\n{report}"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ran.stdout.splitlines()[-1].split()[1:])


def test_import_and_help_load_nothing_heavy():
    assert loaded_after("import coresift") == set()
    run = "from coresift.cli import main; sys.argv = ['coresift', {!r}]; main()"
    assert loaded_after(run.format("--version")) == set()
    assert loaded_after(run.format("--help")) == set()


def test_type_checkers_are_told_what_is_imported():
    tree = ast.parse(Path(cs.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    told = {}
    for line in block.body:
        for name in line.names:
            told[name.name] = line.module.removeprefix("coresift").lstrip(".")
    assert sorted(told) == sorted(cs.__all__)
    assert {name: home for name, home in told.items() if home} == cs._HOMES


def test_every_name_is_there_and_is_the_same_each_time():
    assert set(cs.__all__) <= set(dir(cs))
    for name in set(cs.__all__) - {"models"}:
        assert getattr(cs, name) is getattr(cs, name)
    assert cs.rows is import_module("coresift.rows")
    with pytest.raises(AttributeError, match="module 'coresift' has no attribute 'selekt'"):
        _ = cs.selekt


@pytest.mark.slow
def test_a_file_is_read_whole_before_anything_else_was_used(tmp_path):
    picked = cs.select([[float(row), row % 7] for row in range(90)], [1.0] * 90, 9)
    cs.save(picked, tmp_path / "picked.parquet")
    code = f"import coresift as cs; print(cs.load({str(tmp_path / 'picked.parquet')!r}).recipe)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == repr(picked.recipe)


@pytest.mark.slow
def test_the_help_names_every_verb():
    group = get_command(app)
    for name, (_, line) in VERBS.items():
        assert group.get_command(None, name).name == name
        assert line.endswith(".")
        assert len(line) <= 60, "a longer line is broken in a narrow terminal"
    assert set(group.commands) == set(VERBS)
