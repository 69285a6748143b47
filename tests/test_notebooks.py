"""The notebooks of the docs run from top to bottom, draw plots, and are stored without outputs."""

import json
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
NOTEBOOKS = sorted((REPOSITORY / "docs" / "notebooks").glob("*.ipynb"))
PAGES = {"label": "label", "train": "training", "evaluate": "evaluating", "summarize": "summarize"}
PAGES |= {"regression": "regression"}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """One kernel for all notebooks, so that libraries are imported once; a notebook leaves no names to the next."""
    manager = pytest.importorskip("jupyter_client.manager", reason="needs nbclient and ipykernel, of the dev extra")
    started = manager.KernelManager(kernel_name="python3")
    started.start_kernel(cwd=str(tmp_path_factory.mktemp("notebooks")))
    yield started
    started.shutdown_kernel(now=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of Jupyter's own code; the kernel's are in the outputs
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_draws(path, kernel):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))
    client = nbclient.NotebookClient(notebook, km=kernel, timeout=300)
    client.execute()
    client.kc.stop_channels()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    assert not [output.text for output in outputs if output.get("name") == "stderr"]


def test_there_is_a_notebook_for_every_job_and_its_page_links_to_it():
    assert {path.stem for path in NOTEBOOKS} == set(PAGES)
    for notebook, page in PAGES.items():
        assert f"](notebooks/{notebook}.ipynb)" in (REPOSITORY / "docs" / f"{page}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
