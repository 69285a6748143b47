"""The package: light to import, complete when built, documented where it is public."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import metadata
from pathlib import Path

import pytest

import coresift as cs
from coresift.demo import load_demo

EXTRAS = ("torch", "transformers", "sentence_transformers", "sklearn", "ray", "matplotlib", "pandas", "datasets")
HEAVY = (*EXTRAS, "pyarrow", "rich", "typer", "scipy")
REPOSITORY = Path(__file__).parent.parent


def test_importing_it_is_light():
    script = f"import coresift, sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_selecting_needs_none_of_the_extras(tmp_path):
    """The whole flow works where only the declared dependencies can be imported."""
    for name in EXTRAS:
        (tmp_path / f"{name}.py").write_text("raise ImportError('not one of the dependencies')\n")
    script = (
        "import numpy as np, coresift as cs\n"
        "rows = np.random.default_rng(0).normal(size=(500, 3))\n"
        "picked = cs.select(rows, lambda ids: rows[ids, 0] ** 2, budget=40)\n"
        "for suffix in ('parquet', 'csv', 'jsonl'):\n"
        "    assert cs.load(cs.save(picked, f'picked.{suffix}')) == picked\n"
        "cs.estimate(picked, rows[picked.ids, 0])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path, env=environment)


# The package on the index that has a module, where its name is another.
PACKAGES = {"PIL": "pillow", "sklearn": "scikit-learn"}


def imported(path):
    """Yield the names of packages that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (one.name.split(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


@pytest.mark.slow
def test_whatever_is_imported_is_declared():
    """As a dependency or in an extra; what needs an extra says so when it is missing."""
    declared = {
        re.match(r"[\w-]+", text)[0].replace("_", "-") for text in metadata("coresift").get_all("Requires-Dist")
    }
    for path in (REPOSITORY / "src" / "coresift").rglob("*.py"):
        others = set(imported(path)) - set(sys.stdlib_module_names) - {"coresift"}
        assert {PACKAGES.get(name, name).replace("_", "-") for name in others} <= declared, path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--disable-pip-version-check"]
    words.append("--no-build-isolation")  # hatchling is here already: no test waits for a network
    done = subprocess.run(
        [*words, "--wheel-dir", str(folder), str(REPOSITORY)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("coresift-*.whl")
    with zipfile.ZipFile(path) as file:
        yield file


@pytest.mark.slow
def test_the_wheel_has_all_that_it_needs_and_nothing_else(wheel):
    names = set(wheel.namelist())
    modules = {
        path.relative_to(REPOSITORY / "src").as_posix()
        for path in (REPOSITORY / "src" / "coresift").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"coresift/py.typed", "coresift/cli/__init__.py", "coresift/data/README.md"} <= modules
    assert names >= modules
    others = {name for name in names - modules if ".dist-info/" not in name}
    assert others == set()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    entry_points = next(name for name in names if name.endswith("entry_points.txt"))
    assert b"coresift = coresift.cli:main" in wheel.read(entry_points)


@pytest.mark.slow
def test_the_demo_data_takes_at_most_three_megabytes_of_the_wheel(wheel):
    data = [file for file in wheel.infolist() if file.filename.startswith("coresift/data/")]
    assert len(data) >= 3
    assert sum(file.file_size for file in data) <= 3_000_000


def test_the_demo_data_are_what_they_are_said_to_be():
    data = load_demo()
    assert data.embeddings.shape == (10_003, 64)
    assert data.embeddings.dtype == "float16"
    assert len(data.texts) == len(data.intents) == len(data.losses) == 10_003
    assert len(set(data.intents)) == 77
    assert (data.losses >= 0).all()
    notice = (REPOSITORY / "src" / "coresift" / "data" / "README.md").read_text(encoding="utf-8")
    assert "CC-BY-4.0" in notice or "CC BY 4.0" in notice


PUBLIC = [name for name in cs.__all__ if not name.startswith("__")]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.models if name == "models" else ()) for name in PUBLIC]
)
def test_every_public_name_is_documented(name):
    thing = getattr(cs, name)
    assert inspect.getdoc(thing)
    assert "Initialize self" not in inspect.getdoc(thing)
    # A dataclass without a docstring gets its signature for one.
    assert not inspect.getdoc(thing).startswith(f"{name}(")
    if inspect.isclass(thing):
        own = {key: value for key, value in vars(thing).items() if not key.startswith("_")}
        methods = [key for key, value in own.items() if callable(value) or isinstance(value, property)]
        assert all(inspect.getdoc(own[key]) for key in methods)


def test_public_names_are_listed_once_and_in_order():
    assert sorted(set(cs.__all__)) == list(cs.__all__)
    assert all(hasattr(cs, name) for name in cs.__all__)
    assert not [name for name in vars(cs) if name in HEAVY]


def test_the_version_is_that_of_the_distribution():
    assert metadata("coresift")["Version"] == cs.__version__
    assert metadata("coresift")["License-Expression"] == "Apache-2.0"
