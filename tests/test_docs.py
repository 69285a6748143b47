"""The docs: every block of code runs, page by page, as a reader would run it."""

from __future__ import annotations

import re
import shlex
import warnings
from pathlib import Path

import numpy as np
import pytest

from coresift.checks import CoresiftWarning
from coresift.cli import app

REPOSITORY = Path(__file__).parent.parent
PAGES = sorted((REPOSITORY / "docs").glob("*.md"))
BLOCK = re.compile(r"^(?:<!-- (needs a model) -->\n)?```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A block of text is for the eye: what a program prints, or a command that needs what a test has not.
FOR_THE_EYE = ("text",)


def blocks(page):
    """Yield language and content; of a block that is marked as needing a model, only the syntax counts."""
    for needs, language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if needs:
            compile(block, str(page), "exec")
        else:
            yield language, block


def run_shell(block, page):
    """Run the commands of a block; a line that ends in a backslash goes on, and comments are left out."""
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        assert words[0] == "coresift", f"{page.name} has a command that nobody can check: {line}"
        app(words[1:], standalone_mode=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoresiftWarning)
        for language, block in blocks(page):
            if language == "python":
                exec(compile(block, str(page), "exec"), names)
            elif language == "sh":
                run_shell(block, page)
            else:
                assert language in FOR_THE_EYE, f"{page.name} has a block of {language or 'no language'}"


@pytest.mark.slow
def test_the_blocks_of_the_readme_run(tmp_path, monkeypatch, capsys):
    """The README speaks of a model and of files that are the reader's; here are some."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(30, 6))[rng.integers(30, size=12_000)] * 4 + rng.normal(size=(12_000, 6))).astype(
        "float32"
    )
    np.save("embeddings.npy", rows)
    truth = np.abs(rows[:, 0])
    names = {
        "__name__": "page",
        "my_model_loss": lambda ids: truth[ids],
        "retrained_model_loss": lambda ids: truth[ids] / 2,
        "train": lambda rows_to_use, sample_weight: None,
        "A": rows[:, 1:],
        "labels_of": lambda ids: rows[ids, 0],
        "ask_people": lambda ids: np.where(rows[ids, 0] > 0, "yes", "no"),
    }
    found = list(blocks(REPOSITORY / "README.md"))
    assert sum(language == "python" for language, _ in found) >= 4
    for language, block in found:
        if language == "python":
            exec(compile(block, "README.md", "exec"), names)


def test_every_page_is_in_the_contents():
    contents = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    assert all(f": {page.name}\n" in contents for page in PAGES)


def test_every_public_name_is_in_the_reference():
    import coresift as cs

    listed = set(re.findall(r"^::: coresift\.(\w+)$", (REPOSITORY / "docs/reference.md").read_text(), re.MULTILINE))
    assert listed == {name for name in cs.__all__ if not name.startswith("__")}
