"""What the tests share: real data where it is to be had, and the command line."""

import os
import sys
import warnings
from pathlib import Path

import pytest

# Several workers share the cores; threads of BLAS and OpenMP that wait for each other would spin in the others' way.
os.environ.setdefault("OMP_NUM_THREADS", "1")
pytest.register_assert_rewrite("command_line")
from command_line import Outcome  # noqa: E402 (its assertions are to be rewritten too)


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
