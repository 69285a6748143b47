"""The docs: every block of code runs, page by page, as a reader would run it."""

from __future__ import annotations

import re
import shlex
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import coresift as cs
from coresift.checks import CoresiftWarning
from coresift.cli import app
from coresift.types import REGISTERED

REPOSITORY = Path(__file__).parent.parent
PAGES = sorted((REPOSITORY / "docs").glob("*.md"))
BLOCK = re.compile(r"^(?:<!-- (needs [\w ]+) -->\n)?```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What people come for; README and docs have a section and a page for each.
JOBS = {
    "Label": "label.md",
    "Train or fine-tune": "training.md",
    "Evaluate": "evaluating.md",
    "Summarize": "summarize.md",
    "Fit a regression": "regression.md",
}
# A block of text is for the eye: what a program prints, or a command that needs what a test has not.
FOR_THE_EYE = ("text",)


def blocks(page):
    """Yield language and content; of a block that needs more than the tests have, only the syntax counts."""
    for needs, language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if needs:
            compile(block, str(page), "exec", dont_inherit=True)
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


@pytest.fixture
def own_strategies():
    """Forget the strategies that a page defines, but not coresift's own, which are registered on their first use."""
    assert all([cs.pilots.Centers, cs.scores.Sensitivity, cs.designs.Pivotal, cs.estimators.Hajek])
    before = {kind: dict(names) for kind, names in REGISTERED.items()}
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


@pytest.mark.slow
@pytest.mark.usefixtures("own_strategies")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoresiftWarning)
        for language, block in blocks(page):
            if language == "python":
                exec(compile(block, str(page), "exec", dont_inherit=True), names)
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
        "train": lambda ids: None,
        "good_examples": rows[:5],
        "predicted": np.where(rows[:, 0] > 0.5, "yes", "no"),
        "table": pd.DataFrame({"text": [f"row {row}" for row in range(len(rows))]}),
        "A": rows[:, 1:],
        "labels_of": lambda ids: rows[ids, 0],
        "ask_people": lambda ids: np.where(rows[ids, 0] > 0, "yes", "no"),
    }
    found = list(blocks(REPOSITORY / "README.md"))
    assert sum(language == "python" for language, _ in found) == len(JOBS)
    for language, block in found:
        if language == "python":
            exec(compile(block, "README.md", "exec", dont_inherit=True), names)


def test_every_page_is_in_the_contents():
    contents = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    assert all(f": {page.name}\n" in contents for page in PAGES)


def test_every_public_name_is_in_the_reference():
    import coresift as cs

    listed = set(re.findall(r"^::: coresift\.(\w+)$", (REPOSITORY / "docs/reference.md").read_text(), re.MULTILINE))
    assert listed == {name for name in cs.__all__ if not name.startswith("__")}


def test_the_readme_is_short_and_has_a_section_and_a_page_for_every_job():
    lines = (REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) < 150
    assert all(f"## {job}" in lines for job in JOBS)
    assert all(any(f"[More](docs/{page})" in line for line in lines) for page in JOBS.values())


@pytest.mark.parametrize("page", JOBS.values())
def test_a_page_for_a_job_begins_with_the_lines_that_do_it(page):
    """At most twelve lines of code, within the first dozen of the page."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    before, _, rest = text.partition("```python\n")
    code = [line for line in rest.partition("```")[0].splitlines() if line and not line.startswith(("import", "from"))]
    assert before.count("\n") <= 12
    assert 1 <= len(code) <= 12
