"""Losses that are kept in a file, so that a row's loss under a model is computed only once, over all runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from coresift.models.corpus import Corpus
from coresift.models.gradients import gradient_norms
from coresift.models.loading import find_model, fingerprint
from coresift.models.losses import BATCH, BATCHES_AT_ONCE, RowLoss, RowValues, text_loss
from coresift.oracle import Oracle
from coresift.oracle.journal import Journal
from coresift.types import Floats, Ints, digest


class KeptLosses(Oracle):
    """An oracle whose answers stay in a file for later runs; the file's name depends on texts, model and options.

    The model is loaded when the first row is asked that is not in the file.
    """

    def __init__(self, model: str, corpus: Corpus, folder: Path, *, gradient: bool, **options: Any) -> None:
        model_folder = find_model(model, "loss_model")
        facts = {name: repr(value) for name, value in options.items() if name != "device"}
        facts |= {"gradient": repr(gradient), "texts": corpus.digest(options["text"])}
        if options["target"] is not None:
            facts["targets"] = digest(_bytes("\x00".join(map(str, corpus.labels(options["target"])))))
        self._facts, self._n, self._model = facts, corpus.n, fingerprint(model_folder)
        self.path = folder / f"losses-{digest(_bytes(repr((facts, self._model))))[:12]}.jsonl"
        self.computed = self.reused = 0
        self._values: RowValues | None = None
        self._make: Callable[[], RowLoss] = lambda: text_loss(model_folder, corpus, **options)
        self._gradient = gradient
        super().__init__(self._answer, name=f"loss of {self._model}", batch=BATCH * BATCHES_AT_ONCE, retries=0)

    @property
    def kept(self) -> str:
        """How many losses were computed and how many were reused, as text."""
        return f"{self.computed:,} computed and {self.reused:,} found in {self.path}"

    def _answer(self, ids: Ints) -> Floats:
        with closing(Journal(self.path, self._model, self._facts, self._n)) as journal:
            missing = np.array([row for row in ids.tolist() if row not in journal.values], np.int64)
            if missing.size:
                journal.append(missing, self._compute(missing))
            losses = np.array([journal.values[row] for row in ids.tolist()])
        self.computed, self.reused = self.computed + missing.size, self.reused + ids.size - missing.size
        return losses

    def _compute(self, ids: Ints) -> Floats:
        if self._values is None:
            loss = self._make()
            self._values = gradient_norms(loss) if self._gradient else loss
        return self._values(ids)


def kept_losses(model: str, corpus: Corpus, folder: Path, *, gradient: bool = False, **options: Any) -> KeptLosses:
    """Return the losses of the rows of a table under a model, kept in a file in `folder`."""
    corpus.require_texts("text", options["text"])
    if options["target"] is not None:
        corpus.require("target", options["target"])
    return KeptLosses(model, corpus, folder, gradient=gradient, **options)


def _bytes(text: str) -> Any:
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
