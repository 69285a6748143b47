"""What the tests share: the tiers, real data where it is to be had, and the command line."""

import os
import sys
import warnings
from pathlib import Path

import pytest

pytest.register_assert_rewrite("command_line")
from command_line import Outcome  # noqa: E402 (its assertions are to be rewritten too)

ROOT = Path(__file__).parent.parent
# Files that need libraries which take seconds to import. Each kind runs in one worker, so that only one imports them.
HEAVY = {
    "tests/test_browser.py": "browser",
    "tests/test_models.py": "models",
    "tests/test_models_cli.py": "models",
    "tests/test_remote.py": "ray",
    "tests/test_repro.py": "models",
    "tests/test_sources.py": "models",
    "tests/test_training.py": "models",
    "tests/tiny_models.py": "models",
    "src/coresift/models": "models",
    "src/coresift/remote": "ray",
}


def kind_of(path):
    """Return the marker of a heavy file, if it is one."""
    place = Path(path).relative_to(ROOT)
    kinds = (HEAVY.get(one.as_posix()) for one in (place, *place.parents))
    return next((kind for kind in kinds if kind), None)


def pytest_ignore_collect(collection_path, config):
    """Leave out files whose tests were deselected altogether: even to look at them would import their libraries."""
    if collection_path.is_relative_to(ROOT) and f"not {kind_of(collection_path)}" in config.getoption("markexpr"):
        return True
    return None


def pytest_collection_modifyitems(items):
    """Mark the tests of heavy files."""
    for item in items:
        kind = kind_of(item.path)
        if kind:
            item.add_marker(kind)
            item.add_marker(pytest.mark.xdist_group(kind))


@pytest.fixture(scope="session")
def data_home():
    """Folder of the real data sets; without it the test says so."""
    default = Path(__file__).parent.parent.parent / "shared" / "data"
    folder = Path(os.environ.get("CORESIFT_DATA", default))
    if not folder.is_dir():
        pytest.skip("needs the real data: set CORESIFT_DATA to the folder that holds them")
    return folder


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command line in this process, inside a folder of its own."""
    from coresift.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["coresift", *map(str, words)])
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            with pytest.raises(SystemExit) as end:
                main()
        return Outcome(end.value.code or 0, *capsys.readouterr())

    return run
