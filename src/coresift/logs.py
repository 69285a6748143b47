"""Logs of evaluation tools: a model's results on each item of a benchmark, as columns of numbers.

- lm-evaluation-harness writes `samples_TASK_TIME.jsonl` with `--log_samples`: one line per item and filter.
- inspect_ai writes `.eval`, a zip file with summaries of its samples, or `.json`.

The tools themselves need not be installed.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from coresift.checks import CoresiftError, InputError, named_options, refuse
from coresift.signal_table import from_probabilities
from coresift.types import Floats, Value

# The words that inspect_ai's scorers use instead of a number.
WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
# The zip compression method Zstandard, which `zipfile` cannot read before Python 3.14.
ZSTANDARD = 93
# The most bytes to unpack from a log, because a damaged or hostile log could otherwise fill the memory.
MOST_BYTES = 1 << 30
# Nor may a log unpack to more than FREE_BYTES plus MOST_PACKED times its file size.
FREE_BYTES, MOST_PACKED = 1 << 24, 30
# The table of all items may have this many cells, plus this many for each cell that is filled.
FREE_CELLS, MOST_EMPTY = 1 << 20, 20
# What Python and its libraries raise for a file that is damaged, hostile or not a log.
UNREADABLE = (
    *(AttributeError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError, OverflowError),
    *(zipfile.BadZipFile, zlib.error),
)


@dataclass(frozen=True, eq=False)
class Log(Value):
    """One model's results on the items of a benchmark.

    Attributes:
        items: The items' names.
        scores: One number per item for each metric or scorer, by its name; NaN if the log has none.
        probabilities: For multiple choice, the model's probability of each choice, 0 beyond an item's last choice;
            otherwise None.
        targets: For multiple choice, the number of the right choice, or −1 if the log does not say; otherwise None.
    """

    items: tuple[str, ...]
    scores: Mapping[str, Floats]
    probabilities: Floats | None = None
    targets: Floats | None = None

    def __len__(self) -> int:
        return len(self.items)

    @property
    def signals(self) -> dict[str, Floats]:
        """Everything in the log, for `signals=`: the scores, and for multiple choice how sure the model was."""
        signals = dict(self.scores)
        if self.probabilities is None:
            return signals
        known = np.isfinite(self.probabilities).all(axis=1)
        for name, column in from_probabilities(self.probabilities[known]).items():
            signals[name] = np.full(len(self), np.nan)
            signals[name][known] = column
        if self.targets is not None and np.all(self.targets[known] >= 0):
            chance = self.probabilities[np.flatnonzero(known), self.targets[known].astype(np.int64)]
            signals["target_probability"] = np.full(len(self), np.nan)
            signals["target_probability"][known] = chance
        return signals

    def align(self, items: Sequence[Any]) -> Log:
        """Return the log for these items, in this order, with NaN for items that it does not have."""
        position_of = {name: position for position, name in enumerate(self.items)}
        positions = np.array([position_of.get(str(item), -1) for item in items], np.int64)

        def pick(column: Floats) -> Floats:
            values: Floats = column[positions].astype(np.float64)
            values[positions < 0] = np.nan
            return values

        return replace(
            self,
            items=tuple(str(item) for item in items),
            scores={name: pick(column) for name, column in self.scores.items()},
            probabilities=None if self.probabilities is None else pick(self.probabilities),
            targets=None if self.targets is None else pick(self.targets),
        )


@named_options
def from_log(path: str | os.PathLike[str]) -> Log:
    """Read a model's results on each item from a log of lm-evaluation-harness or inspect_ai.

    Logs of cheaper or earlier models on the same items are signals: `cs.evaluate(values=..., signals=log.signals)`.
    Items are sorted by number (lm-evaluation-harness) or in the order of the log (inspect_ai); `log.align(items)` puts
    several logs in the same order. Repeated samples of an item (epochs) are averaged.

    Args:
        path: `samples_*.jsonl` of lm-evaluation-harness, or `.eval` or `.json` of inspect_ai.

    Returns:
        The log, with one entry per item.

    Examples:
        >>> import pathlib, tempfile
        >>> line = '{"doc_id": %d, "target": "1", "metrics": ["acc"], "acc": %d, "filtered_resps": %s}'
        >>> lines = [line % (0, 1, "[[-3.0, false], [-1.0, true]]"), line % (1, 0, "[[-1.0, true], [-1.5, false]]")]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "samples_arc.jsonl")
        ...     _ = path.write_text("\\n".join(lines))
        ...     log = from_log(path)
        >>> log.scores["acc"].tolist(), log.signals["target_probability"].round(2).tolist()
        ([1.0, 0.0], [0.88, 0.38])
    """
    file = Path(path)
    readers = {".jsonl": _harness, ".json": _inspect_json, ".eval": _inspect_zip}
    if file.suffix.lower() not in readers:
        refuse("path", "a log: samples_*.jsonl, .eval or .json", file.name)
    if not file.is_file():
        raise InputError(f"There is no file {file}.")
    try:
        return readers[file.suffix.lower()](file)
    except CoresiftError:
        raise
    except UNREADABLE as cause:
        raise InputError(f"{file.name} is not a readable log: {_reason(cause)}.") from None


def _reason(cause: Exception) -> str:
    """Return what is wrong in a few words; the full message of a library may contain half the file."""
    text = getattr(cause, "strerror", None) or " ".join(str(cause).split())
    return f"{type(cause).__name__} {text[:100]}".rstrip(". ")


def _harness(path: Path) -> Log:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    filters = {line.get("filter", "none") for line in lines}
    rows: dict[int, dict[str, Any]] = {}
    for line in lines:
        suffix = f", {line['filter']}" if len(filters) > 1 else ""
        row = rows.setdefault(int(line["doc_id"]), {"line": line})
        row |= {name + suffix: _number(line.get(name)) for name in line["metrics"]}
    ordered = [rows[number] for number in sorted(rows)]
    _check_rows(path, ordered)
    probabilities, targets = _choices([row.pop("line") for row in ordered])
    return Log(tuple(str(number) for number in sorted(rows)), _columns(ordered), probabilities, targets)


def _choices(lines: Sequence[Mapping[str, Any]]) -> tuple[Floats | None, Floats | None]:
    """Return the probabilities of each item's choices and the right choice, if log-likelihoods were logged."""
    answers = [line.get("filtered_resps", ()) for line in lines]
    if not all(len(answer) > 1 and all(_is_likelihood(part) for part in answer) for answer in answers):
        return None, None
    _check_filled(len(lines) * max(map(len, answers)), sum(map(len, answers)))
    likelihoods = np.full((len(lines), max(map(len, answers))), -np.inf)
    for row, answer in enumerate(answers):
        likelihoods[row, : len(answer)] = [float(part[0]) for part in answer]
    odds = np.exp(likelihoods - likelihoods.max(axis=1, keepdims=True))
    targets = [_target(line.get("target"), len(answer)) for line, answer in zip(lines, answers, strict=True)]
    return odds / odds.sum(axis=1, keepdims=True), np.array(targets, np.float64)


def _is_likelihood(part: Any) -> bool:
    return isinstance(part, list) and len(part) == 2 and math.isfinite(_number(part[0]))


def _target(target: Any, choices: int) -> int:
    number = _number(target)
    return int(number) if number in range(choices) else -1


def _inspect_json(path: Path) -> Log:
    log = json.loads(path.read_bytes())
    return _inspect_log(path, log["samples"])


def _inspect_zip(path: Path) -> Log:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        # A run that was stopped has only summaries in its journal.
        parts = ["summaries.json"] if "summaries.json" in names else sorted(filter(_is_journal, names))
        _check_sizes(path, [archive.getinfo(name) for name in parts])
        samples = [sample for name in parts for sample in json.loads(_entry(path, archive, name))]
    return _inspect_log(path, samples)


def _is_journal(name: str) -> bool:
    return name.startswith("_journal/summaries/") and name.endswith(".json")


def _check_sizes(path: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse entries that would unpack to too many bytes, before any of them is read."""
    most = min(MOST_BYTES, FREE_BYTES + MOST_PACKED * path.stat().st_size)
    size = sum(entry.file_size for entry in entries)
    if size > most:
        raise InputError(
            f"{path.name} has summaries of {size:,} bytes; the limit for a file of its size is {most:,} bytes."
        )


def _entry(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    entry = archive.getinfo(name)
    if entry.compress_type != ZSTANDARD:
        return archive.read(name)
    with path.open("rb") as file:
        # The local header has 30 bytes; the last four are the lengths of the name and of the extra field.
        file.seek(entry.header_offset)
        header = file.read(30)
        file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), os.SEEK_CUR)
        packed = file.read(entry.compress_size)
    return _decompress(path, entry, packed)


def _decompress(path: Path, entry: zipfile.ZipInfo, packed: bytes) -> bytes:
    import pyarrow as pa

    try:
        content: bytes = pa.decompress(packed, entry.file_size, codec="zstd", asbytes=True)
    except (OSError, pa.ArrowException):
        _refuse_damaged(path, entry.filename)
    if zlib.crc32(content) != entry.CRC:
        _refuse_damaged(path, entry.filename)
    return content


def _refuse_damaged(path: Path, name: str) -> NoReturn:
    raise InputError(f"{path.name} is damaged: its entry {name} does not have the stated checksum.") from None


def _inspect_log(path: Path, samples: Iterable[Mapping[str, Any]]) -> Log:
    """Average each item's scores over its epochs."""
    epochs: dict[str, list[dict[str, float]]] = {}
    for sample in samples:
        scores = dict(_named_numbers(sample.get("scores") or {}))
        epochs.setdefault(str(sample["id"]), []).append(scores)
    rows = []
    for repeats in epochs.values():
        names = dict.fromkeys(name for scores in repeats for name in scores)
        rows.append({name: float(np.mean([s[name] for s in repeats if name in s])) for name in names})
    _check_rows(path, rows)
    return Log(tuple(epochs), _columns(rows))


def _named_numbers(scores: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, score in scores.items():
        value = score["value"]
        parts = {f"{name} {key}": part for key, part in value.items()} if isinstance(value, dict) else {name: value}
        for label, part in parts.items():
            if not math.isnan(number := _number(part)):
                yield label, number


def _number(value: Any) -> float:
    if isinstance(value, str) and value in WORDS:
        return WORDS[value]
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, Floats]:
    names = dict.fromkeys(name for row in rows for name in row)
    _check_filled(len(rows) * len(names), sum(map(len, rows)))
    columns = {name: np.array([row.get(name, math.nan) for row in rows], np.float64) for name in names}
    return {name: column for name, column in columns.items() if not np.isnan(column).all()}


def _check_filled(cells: int, filled: int) -> None:
    """Refuse a table that is nearly empty, because a small file could use any amount of memory that way."""
    if cells > FREE_CELLS + MOST_EMPTY * filled:
        raise ValueError(f"its items have little in common, {filled:,} values in a table of {cells:,}")


def _check_rows(path: Path, rows: Sequence[Any]) -> None:
    if not rows:
        raise InputError(f"{path.name} has no samples.")
