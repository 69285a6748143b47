"""Load models from folders and the hub: only safetensors weights, and never any code of theirs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from coresift.checks import CoresiftError, InputError, refuse
from coresift.models.extra import need
from coresift.tables.parts import first_line

# The files that are downloaded; everything else, code and pickles above all, is left on the hub.
WANTED = ("*.json", "*.txt", "*.model", "*.safetensors")
UNSAFE = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack")
POOLINGS = ("mean", "cls")
LONGEST = 512  # tokens, if a model does not say how many it takes


def find_model(name: str | Path, argument: str = "model") -> Path:
    """Return the folder of a model: `name` itself if it is a folder, else a download from the hub.

    Only configurations, tokenizers and safetensors weights are downloaded. A folder with other weights only, or with
    classes of its own, is refused.
    """
    folder = Path(name)
    if not folder.exists():
        folder = _download(str(name), argument)
    if not folder.is_dir():
        refuse(argument, "the folder of a model, or its name on the Hugging Face hub", folder)
    if not any((folder / file).is_file() for file in ("config.json", "modules.json")):
        refuse(argument, "a folder with a model's config.json", folder)
    for module in _modules(folder, argument):
        part = folder / module
        pickles = [path.name for pattern in UNSAFE for path in sorted(part.glob(pattern)) if "arg" not in path.name]
        if pickles and not any(part.glob("*.safetensors")):
            refuse(argument, "a model with safetensors weights", f"{part} with only {pickles[0]}")
    return folder


def fingerprint(folder: Path) -> str:
    """Return a digest of all files that a model is loaded from."""
    state = hashlib.blake2b(digest_size=12)
    files = sorted({path for pattern in WANTED for path in folder.rglob(pattern) if path.is_file()})
    for path in files:
        state.update(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while piece := file.read(2**22):
                state.update(piece)
    return state.hexdigest()


def choose_device(device: str | None) -> torch.device:
    """Return the device with this name; by default cuda if available, else mps, else the cpu."""
    if device is None:
        mps = getattr(torch.backends, "mps", None)
        device = "cuda" if torch.cuda.is_available() else "mps" if mps and mps.is_available() else "cpu"
    try:
        usable = torch.device(device)
        torch.empty(0, device=usable)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = (str(error).splitlines() or ["unknown"])[0].rstrip(".")
        raise InputError(
            f"device must be one that this machine has, such as cpu; got {device!r} ({reason})."
        ) from error
    return usable


def load_sentence_encoder(folder: Path, device: torch.device, *, normalize: bool = True) -> Any:
    """Load a sentence-transformers model; without `normalize`, remove its step that scales vectors to length 1."""
    library = need("sentence_transformers")
    with _loading(folder):
        options = {"use_safetensors": True, "dtype": torch.float32}
        model = library.SentenceTransformer(
            str(folder), device=str(device), trust_remote_code=False, local_files_only=True, model_kwargs=options
        )
        if normalize:
            return model
        kept = [module for module in model if type(module).__name__ != "Normalize"]
        return library.SentenceTransformer(modules=kept, device=str(device))


def load_encoder(folder: Path, device: torch.device) -> tuple[Any, Any]:
    """Load a transformers encoder and its tokenizer; from an encoder-decoder, only the encoder."""
    transformers = need("transformers")
    with _loading(folder):
        tokenizer = load_tokenizer(folder)
        model = transformers.AutoModel.from_pretrained(folder, **_options())
        if getattr(model.config, "is_encoder_decoder", False):
            model = model.get_encoder()
    return model.to(device).eval(), tokenizer


def load_scorer(name: str | Path, device: str | None = None) -> tuple[Any, Any, str]:
    """Load a model with a loss; return it, its tokenizer, and its kind: seq2seq, causal or classifier."""
    folder = find_model(name)
    transformers = need("transformers")
    with _loading(folder):
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        kind = _kind(config, folder)
        classes = {
            "seq2seq": transformers.AutoModelForSeq2SeqLM,
            "causal": transformers.AutoModelForCausalLM,
            "classifier": transformers.AutoModelForSequenceClassification,
        }
        model = classes[kind].from_pretrained(folder, config=config, **_options())
        tokenizer = load_tokenizer(folder)
    return model.to(choose_device(device)).eval(), tokenizer, kind


def load_tokenizer(folder: Path) -> Any:
    """Load a tokenizer."""
    return need("transformers").AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)


def _options() -> dict[str, Any]:
    # Always float32, so that results do not depend on how a device handles half precision.
    options = {"use_safetensors": True, "trust_remote_code": False, "local_files_only": True}
    return {**options, "dtype": torch.float32}


def _kind(config: Any, folder: Path) -> str:
    names = " ".join(getattr(config, "architectures", None) or [])
    if "ForSequenceClassification" in names:
        return "classifier"
    if getattr(config, "is_encoder_decoder", False):
        return "seq2seq"
    if "CausalLM" in names or "LMHead" in names:
        return "causal"
    allowed = "a seq2seq or causal language model, or a sequence classifier"
    refuse("The model for losses", allowed, f"{folder} with {names or 'no architecture'}")


def _download(name: str, argument: str) -> Path:
    hub = need("huggingface_hub")
    try:
        return Path(hub.snapshot_download(name, allow_patterns=list(WANTED)))
    except hub.errors.LocalEntryNotFoundError:  # no network, no answer, or HF_HUB_OFFLINE, and no earlier download
        refuse(argument, "the folder of a model, since the Hugging Face hub cannot be reached", repr(name))
    except Exception as error:  # the hub raises many kinds of errors for a missing name
        allowed = "a folder that exists, or the name of a model on the Hugging Face hub"
        refuse(argument, allowed, f"{name!r} (the hub says: {first_line(error)})")


def _modules(folder: Path, argument: str) -> list[str]:
    listing = folder / "modules.json"
    if not listing.is_file():
        return [""]
    try:
        modules = [(str(module["path"]), str(module["type"])) for module in json.loads(listing.read_bytes())]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{listing} cannot be read: {first_line(error)}.") from error
    for path, kind in modules:
        if not kind.startswith("sentence_transformers."):
            refuse(argument, "a model without code of its own", f"{folder} with {kind}")
        if not Path(os.path.realpath(folder / path)).is_relative_to(os.path.realpath(folder)):
            refuse(argument, "a model whose modules lie in its folder", f"{folder} with {path}")
    return ["", *(path for path, _ in modules)]


@contextmanager
def _loading(folder: Path) -> Iterator[None]:
    """Turn off log output while a model loads, and turn a failure into one sentence."""
    logging = need("transformers").utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError, ImportError) as error:
        if isinstance(error, CoresiftError):
            raise
        raise InputError(f"The model in {folder} cannot be loaded: {first_line(error)}.") from error
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
