"""Compare coresift with the tools that people use, job by job: same data, same budget, one thread.

    python -m benchmarks.peers                             all jobs, 10 to 100 seeds each
    python -m benchmarks.peers --jobs label --seeds 1      a part of it
    python -m benchmarks.peers --python PATH [PATH ...]    interpreters that have the other tools, tried in this order
    python -m benchmarks.peers --report                    only write the table again

The other tools: `pip install apricot-select coreax faiss-cpu modAL-python ppi-python scikit-activeml scikit-learn
semhash small-text` (and glide-py, on Python 3.12 or newer), best in an environment of their own. Each tool runs in a
process of its own. A run is a line of `results/peers.jsonl`, and runs that are there are not run again; a tool that is
not installed or fails has its error there, and is tried again. Then `results/peers.md` is written. modAL 0.4.2 needs
scikit-learn below 1.6, so it needs an environment of its own, too.

| job | data | quality |
|---|---|---|
| label | 300 of 8,003 questions to a bank; 100 of 1,297 digits | accuracy of logistic regression on other rows |
| evaluate | 500 labels of 9,203 questions | distance of the estimated accuracy from the true one |
| summarize | 500 of 10,003 questions | relative error of the estimated total loss |
| cover | 200 of 10,003 questions; 100 of 1,797 digits | mean distance to the nearest chosen row |
| cluster | 100 clusters of 10,003 questions; 50 of 1,797 digits | mean squared distance to the nearest center |
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances_argmin_min

from benchmarks.peers.report import write_report
from benchmarks.peers.tools import JOBS, Array, Data, logistic
from coresift.demo import load_demo

RESULTS = Path(__file__).parent.parent / "results"
KEPT = RESULTS / "peers.jsonl"
# Errors of estimates vary more from seed to seed than the other qualities, and evaluations are cheap.
SEEDS = {"label": 10, "evaluate": 100, "summarize": 30, "cover": 10, "cluster": 10}
TIMEOUT = 900
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
ONE_THREAD |= {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
# The budget of each job on each data set.
BUDGETS = {
    "label": {"questions": 300, "digits": 100},
    "evaluate": {"questions": 500},
    "summarize": {"questions": 500},
    "cover": {"questions": 200, "digits": 100},
    "cluster": {"questions": 100, "digits": 50},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="+", default=list(JOBS), choices=list(JOBS))
    parser.add_argument("--seeds", type=int, help="At most this many seeds of each job.")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="Interpreters that have the other tools.")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    lines = [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() else []
    if not given.report:
        done = {key(line) for line in lines if "error" not in line}
        missing = set()
        for run in wanted(given.jobs, given.seeds):
            if key(run) not in done and run["tool"] not in missing:
                lines.append(run | try_all(run, given.python))
                if "ModuleNotFoundError" in lines[-1].get("error", ""):
                    missing.add(run["tool"])
                with KEPT.open("a") as kept:
                    kept.write(json.dumps(lines[-1]) + "\n")
                print(json.dumps(lines[-1]), flush=True)
    write_report(lines, RESULTS / "peers.md")


def key(run: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what makes a run the same run."""
    return run["job"], run["data"], run["tool"], run["seed"]


def wanted(jobs: list[str], most: int | None) -> Iterator[dict[str, Any]]:
    """Yield all runs, a seed of everything before the next seed."""
    for seed in range(max(SEEDS.values()) if most is None else most):
        for job in (job for job in jobs if seed < SEEDS[job]):
            for data in BUDGETS[job]:
                for tool in JOBS[job]:
                    yield {"job": job, "data": data, "tool": tool, "seed": seed}


def try_all(run: Mapping[str, Any], pythons: list[str]) -> dict[str, Any]:
    """Do a run with the first interpreter that can; without one, the error of the first that has the tool."""
    errors: list[dict[str, Any]] = []
    for python in [sys.executable] if run["tool"] == "coresift" else pythons:
        facts = do(run, python)
        if "error" not in facts:
            return facts
        errors.append(facts)
    return next((facts for facts in errors if "ModuleNotFoundError" not in facts["error"]), errors[0])


def do(run: Mapping[str, Any], python: str) -> dict[str, Any]:
    """Let a tool do a job in a process of its own, and judge what it found."""
    job, tool, seed = run["job"], run["tool"], run["seed"]
    given, judge = MAKERS[job](run["data"])
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "data.npz", Path(folder) / "out.npz"
        np.savez(source, **given)
        words = [python, "-m", "benchmarks.peers.child", job, tool]
        words += [str(BUDGETS[job][run["data"]]), str(seed), str(source), str(out)]
        try:
            ended = subprocess.run(
                words, capture_output=True, text=True, env=os.environ | ONE_THREAD, timeout=TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired:
            return {"error": f"took more than {TIMEOUT} seconds"}
        said = [line for line in ended.stdout.splitlines() if line.startswith("{")]
        if not said:
            return {"error": (ended.stderr.strip().splitlines() or ["no output"])[-1][:200]}
        facts: dict[str, Any] = json.loads(said[-1])
        if "error" in facts:
            return facts
        with np.load(out) as found:
            return facts | judge({name: found[name] for name in found.files}, BUDGETS[job][run["data"]])


# ------------------------------------------------------------------------------------- what is given, and what counts

Judge = Callable[[Data, int], dict[str, Any]]


@cache
def _rows(name: str) -> tuple[Array, Array]:
    """Return vectors, and classes from 0 on."""
    if name == "digits":
        digits = load_digits()
        return digits.data.astype(np.float32), digits.target.astype(np.int64)
    demo = load_demo()
    return demo.embeddings.astype(np.float32), np.unique(demo.intents, return_inverse=True)[1].astype(np.int64)


def _check(ids: Array, budget: int) -> None:
    if len(np.unique(ids)) != len(ids) or len(ids) > budget:
        raise ValueError(
            f"a tool chose {len(ids)} rows, {len(np.unique(ids))} different ones, for a budget of {budget}"
        )


def _label(name: str) -> tuple[Data, Judge]:
    x, y = _rows(name)
    order = np.random.default_rng(42).permutation(len(x))
    test, pool = np.split(order, [2_000 if name == "questions" else 500])

    def judge(found: Data, budget: int) -> dict[str, Any]:
        _check(found["ids"], budget)
        known = pool[found["ids"]]
        return {"quality": float((logistic().fit(x[known], y[known]).predict(x[test]) == y[test]).mean())}

    return {"x": x[pool], "y": y[pool]}, judge


@cache
def _model(name: str) -> tuple[Array, Array, Array]:
    """Return the rows that a model was not trained on, and its probabilities and predictions of them."""
    x, y = _rows(name)
    known, rest = np.split(np.random.default_rng(43).permutation(len(x)), [800])
    model = logistic().fit(x[known], y[known])
    probabilities = model.predict_proba(x[rest])
    return rest, probabilities, model.classes_[probabilities.argmax(axis=1)]


def _evaluate(name: str) -> tuple[Data, Judge]:
    rest, probabilities, predicted = _model(name)
    y = _rows(name)[1][rest]
    truth = (y == predicted).mean()

    def judge(found: Data, budget: int) -> dict[str, Any]:
        value, low, high = found["interval"].tolist()
        covered = bool(low <= truth <= high)
        return {"quality": abs(value - truth), "half_width": (high - low) / 2, "covered": covered}

    return {"y": y, "predicted": predicted, "probabilities": probabilities}, judge


def _summarize(name: str) -> tuple[Data, Judge]:
    losses = load_demo().losses

    def judge(found: Data, budget: int) -> dict[str, Any]:
        return {"quality": abs(float(found["total"]) / losses.sum() - 1)}

    return {"x": _rows(name)[0], "losses": losses}, judge


def _cover(name: str) -> tuple[Data, Judge]:
    x = _rows(name)[0]

    def judge(found: Data, budget: int) -> dict[str, Any]:
        _check(found["ids"], budget)
        return {"quality": float(pairwise_distances_argmin_min(x, x[found["ids"]])[1].mean())}

    return {"x": x}, judge


def _cluster(name: str) -> tuple[Data, Judge]:
    x = _rows(name)[0]

    def judge(found: Data, budget: int) -> dict[str, Any]:
        if len(found["centers"]) > budget:
            raise ValueError(f"a tool found {len(found['centers'])} centers for {budget} clusters")
        return {"quality": float((pairwise_distances_argmin_min(x, found["centers"].astype(x.dtype))[1] ** 2).mean())}

    return {"x": x}, judge


MAKERS: dict[str, Callable[[str], tuple[Data, Judge]]] = {
    "label": _label,
    "evaluate": _evaluate,
    "summarize": _summarize,
    "cover": _cover,
    "cluster": _cluster,
}

if __name__ == "__main__":
    main()
