"""Hand-overs to tools that are too heavy for every run of the tests: they run where the tool is installed.

In an environment of its own, since these tools ask for versions that exclude each other:

    python -m pip install -e . pytest pandas TOOL          TOOL: lm-eval, inspect_ai, label-studio-sdk or argilla
    python -m pytest tests/test_hand_over.py -rs -W ignore
"""

import json
import re
import uuid
from pathlib import Path

import numpy as np
import pytest

import coresift as cs
from coresift.cli import app
from coresift.tables.tasks import read_tasks

PAGE = Path(__file__).parent.parent / "docs" / "hand-over.md"
CONFIG = """
<View><Text name="text" value="$text"/>
<Choices name="label" toName="text"><Choice value="odd"/><Choice value="even"/></Choices></View>
"""
N = 400
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # the tools' own warnings


def block(tool):
    """Return the code of the page that needs a tool."""
    return re.search(rf"<!-- needs {tool} -->\n```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)[1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def asked(folder):
    """Start a run of labels; return a function that writes its rows for a tool."""
    np.save("rows.npy", np.random.default_rng(0).normal(size=(60, 3)))
    (folder / "texts.csv").write_text("text\n" + "\n".join(f"row {row}" for row in range(60)))
    start = ["active-learning", "start", "rows.npy", "--table", "texts.csv", "--budget", "8", "--out", "labeled.csv"]
    app(start, standalone_mode=False)

    def asked(form):
        app(["ask", "run.state", "--format", form, "--quiet"], standalone_mode=False)
        return folder / "ask.json"

    return asked


def label_of(text):
    return "odd" if int(text.split()[-1]) % 2 else "even"


def test_label_studio_takes_the_tasks_and_its_annotations_come_back(asked, folder):
    interface = pytest.importorskip("label_studio_sdk.label_interface", reason="needs label-studio-sdk")
    checked = interface.LabelInterface(CONFIG)
    tasks = json.loads(asked("label-studio").read_text())
    for number, task in enumerate(tasks):
        assert checked.validate_task(task)
        value = {"choices": [label_of(task["data"]["text"])]}
        region = {"id": f"r{number}", "from_name": "label", "to_name": "text", "type": "choices", "value": value}
        task["annotations"] = [{"id": number, "was_cancelled": False, "result": [region]}]
        assert checked.validate_annotation(task["annotations"][0])
    (folder / "export.json").write_text(json.dumps(tasks))
    table = read_tasks(folder / "export.json", "label").to_pydict()
    assert table["label"] == [label_of(f"row {row}") for row in table["row"]]
    assert len(table["row"]) == len(tasks) > 0


def test_argilla_takes_the_records_and_its_export_comes_back(asked, folder):
    argilla = pytest.importorskip("argilla", reason="needs argilla")
    from argilla.records._io._json import JsonIO  # what dataset.records.from_json and to_json call

    records = JsonIO._records_from_json(asked("argilla"))
    for record in records:
        answer = label_of(record.fields["text"])
        record.responses.add(argilla.Response("label", answer, user_id=uuid.UUID(int=1), status="submitted"))
    JsonIO.to_json(records, folder / "export.json")
    table = read_tasks(folder / "export.json", "label").to_pydict()
    assert table["label"] == [label_of(f"row {row}") for row in table["row"]]
    assert len(table["row"]) == len(records) > 0


def test_the_harness_is_asked_about_chosen_items(folder, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pytest.importorskip("lm_eval", reason="needs lm-eval")
    from lm_eval.tasks import TaskManager

    lines = [{"question": f"Is {n} even?", "choices": ["yes", "no"], "answer": n % 2} for n in range(N)]
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    config = {"task": "even", "dataset_path": "json", "test_split": "test", "output_type": "multiple_choice"}
    config |= {"dataset_kwargs": {"data_files": {"test": str(folder / "data.jsonl")}}}
    config |= {"doc_to_text": "question", "doc_to_choice": "choices", "doc_to_target": "answer"}
    (folder / "even.yaml").write_text(json.dumps(config | {"metric_list": [{"metric": "acc"}]}))
    cheap = [{"doc_id": n, "metrics": ["acc"], "acc": float(n % 3 > 0)} for n in range(N)]
    (folder / "samples_even.jsonl").write_text("\n".join(map(json.dumps, cheap)))
    settings = {"model": "dummy", "task_manager": TaskManager(include_path=str(folder)), "bootstrap_iters": 0}
    names = {"cs": cs, "task": "even", "n": N, "settings": settings, "cheap_log": folder / "samples_even.jsonl"}
    exec(compile(block("lm_eval"), str(PAGE), "exec"), names)
    found = names["run"].result
    assert 200 <= found.asked <= N
    assert abs(found.value - 0.5) < 0.15  # the dummy model guesses: this fails by chance once in 100,000 runs


def test_inspect_is_asked_about_chosen_samples(folder):
    inspect_ai = pytest.importorskip("inspect_ai", reason="needs inspect_ai")
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import match
    from inspect_ai.solver import solver

    @solver
    def sums():
        async def solve(state, generate):
            number = int(state.sample_id[1:])
            state.output = ModelOutput.from_content("mockllm/model", str(2 * number if number % 4 else 1))
            return state

        return solve

    samples = [Sample(id=f"s{n}", input=f"What is {n} + {n}?", target=str(2 * n)) for n in range(N)]
    task = inspect_ai.Task(dataset=MemoryDataset(samples), solver=sums(), scorer=match())
    cheap = inspect_ai.eval(task, model="mockllm/model", log_dir="cheap", display="none")[0].location
    names = {"cs": cs, "task": task, "model": "mockllm/model", "cheap_log": cheap}
    exec(compile(block("inspect_ai"), str(PAGE), "exec"), names)
    found = names["run"].result
    assert found.asked < N
    assert found.low <= 0.75 <= found.high
