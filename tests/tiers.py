"""The tiers of tests: which files need heavy libraries, and how those are left out where nobody wants them."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Files and tests that need libraries which take seconds to import. Each kind runs in one worker: only one imports them.
HEAVY = {
    "tests/test_browser.py": "browser",
    "tests/test_docs.py::test_every_block_runs[hand-over]": "models",
    "tests/test_examples.py::test_example_runs[finetune_banking77.py]": "models",
    "tests/test_golden.py::test_rows_give_the_stored_bytes": "golden_rows",
    "tests/test_models.py": "models",
    "tests/test_models_cli.py": "models",
    "tests/test_notebooks.py": "notebooks",
    "tests/test_remote.py": "ray",
    "tests/test_repro.py": "models",
    "tests/test_repro_finetuning.py": "models",
    "tests/test_repro_images.py": "models",
    "tests/test_sources.py": "models",
    "tests/test_training.py": "models",
    "tests/tiny_models.py": "models",
    "src/coresift/models": "models",
    "src/coresift/remote": "ray",
}

# Files whose tests need tools that only an environment of its own has: they are left out where none of these is there.
ELSEWHERE = {"tests/test_hand_over.py": ("argilla", "inspect_ai", "label_studio_sdk", "lm_eval")}
# Examples in docstrings that take long.
SLOW = ("src/coresift/comparison", "src/coresift/testing")


@cache
def kind_of(path):
    """Return the marker of a heavy file, if it is one."""
    return next((HEAVY[place] for place in places(path) if place in HEAVY), None)


@cache
def places(path):
    """Return a file's path and those of its folders, as they stand in the tables above."""
    place = Path(path).relative_to(ROOT)
    return [one.as_posix() for one in (place, *place.parents)]


def pytest_ignore_collect(collection_path, config):
    """Leave out what is not worth an import: files whose tests were all deselected, and modules without examples."""
    if not collection_path.is_relative_to(ROOT):
        return None
    tools = ELSEWHERE.get(collection_path.relative_to(ROOT).as_posix())
    if tools is not None and not any(map(find_spec, tools)):
        return True
    if f"not {kind_of(collection_path)}" in config.getoption("markexpr") or without_examples(collection_path):
        return True
    return None


def without_examples(path):
    """Say whether a file is a module of the package whose docstrings have no examples to run."""
    package = path.suffix == ".py" and path.is_relative_to(ROOT / "src")
    return package and ">>>" not in path.read_text(encoding="utf-8")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the tests of heavy files, and slow examples."""
    for item in items:
        if any(place in SLOW for place in places(item.path)):
            item.add_marker("slow")
        if (kind := group_of(item.nodeid)) != item.nodeid:
            item.add_marker(kind)


@pytest.hookimpl(optionalhook=True)  # where pytest-xdist is installed
def pytest_xdist_make_scheduler(config, log):
    """Give all heavy tests of a kind to one worker; xdist's own groups do nothing with pytest 9.2, and say nothing."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class OneWorkerPerKind(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group_of(nodeid)

    return OneWorkerPerKind(config, log)


def group_of(nodeid):
    """Return what must run in one worker with this test: all heavy tests of its kind, or the test alone."""
    alone = HEAVY.get(nodeid) or HEAVY.get(nodeid.partition("[")[0])
    return alone or kind_of(ROOT / nodeid.partition("::")[0]) or nodeid
