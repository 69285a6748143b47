"""Write rows to label as Label Studio tasks or Argilla records, and read labels from the exports of those tools.

Both are JSON files with a list of objects, one per row:

- Label Studio: `{"data": {"row": 7, "text": ...}}` to import; its JSON export adds `annotations` next to `data`.
- Argilla: `{"id": "7", "fields": {"text": ...}}` for `dataset.records.from_json`; `to_json` adds `responses`.

A skipped task or a discarded response means that nobody can label the row. Argilla's `to_json` leaves out the status
of responses (as of version 2.8), so drafts look like answers unless you export submitted responses only.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coresift.checks import InputError
from coresift.tables.writing import check_suffix, write_bytes

if TYPE_CHECKING:
    import pyarrow as pa


class Tool(StrEnum):
    """A labeling tool whose files coresift reads and writes."""

    LABEL_STUDIO = "label-studio"
    ARGILLA = "argilla"


SUFFIX = ".json"
SKIPPED = "skipped"
DIGITS = 20  # a string of fewer digits can be a row number
# The key of the label in a Label Studio result, which depends on the control.
LABEL_STUDIO_VALUES = ("choices", "rating", "number", "text")


def write_tasks(table: pa.Table, path: Path, tool: Tool) -> None:
    """Write rows for a labeling tool, the whole file or nothing.

    Args:
        table: The rows, with a column `row`.
        path: The file to write, `.json`.
        tool: The tool that will import it.
    """
    check_suffix(path, (SUFFIX,), f"a file for {tool.value}")
    make = _task if tool is Tool.LABEL_STUDIO else _record
    tasks = [make({name: _plain(cell) for name, cell in line.items()}) for line in table.to_pylist()]
    write_bytes(json.dumps(tasks, ensure_ascii=False, indent=1).encode(), path)


def read_tasks(path: Path, column: str) -> pa.Table:
    """Read the labels that a tool exported.

    Args:
        path: The export, `.json`.
        column: The control or question to read if a task has several.

    Returns:
        A table with a line per row that has a label or was skipped: `row`, the column, and `skipped`.
    """
    import pyarrow as pa

    rows: dict[int, tuple[Any, bool]] = {}
    for row, label, skipped in _answers(path, column):
        if rows.setdefault(row, (label, skipped)) != (label, skipped):
            raise InputError(
                f"{path} must have one label per row; row {row} has two, {rows[row][0]!r} and {label!r}: "
                "settle it in the labeling tool, or remove one of them."
            )
    labels = [label for label, _ in rows.values()]
    numeric = bool(labels) and all(isinstance(label, int | float) for label in labels if label is not None)
    convert = float if numeric else str
    values = [None if label is None else convert(label) for label in labels]
    return pa.table(
        {
            "row": pa.array(list(rows), pa.int64()),
            column: pa.array(values, pa.float64() if numeric else pa.string()),
            SKIPPED: pa.array([float(skipped) for _, skipped in rows.values()], pa.float64()),
        }
    )


def _answers(path: Path, column: str) -> Iterator[tuple[int, Any, bool]]:
    """Yield row, label and whether the row was skipped, for every annotation of an export."""
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        tasks = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must be the JSON export of Label Studio or Argilla; it is not JSON.") from error
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise InputError(f"{path} must be the JSON export of Label Studio or Argilla, a list of tasks.")
    for task in tasks:
        if isinstance(task.get("data"), dict):
            row, answers = task["data"].get("row"), _label_studio(task, column, path)
        elif isinstance(task.get("fields"), dict):
            row, answers = task.get("id"), _argilla(task, column, path)
        else:
            raise InputError(
                f"{path} must have tasks with data (Label Studio's JSON, not JSON-MIN) or fields (Argilla); "
                "one has neither."
            )
        number = _row_number(row, path)
        yield from ((number, _checked(label, number, path), skipped) for label, skipped in answers)


def _row_number(row: Any, path: Path) -> int:
    """Return a row number, which `ask` wrote as a number or, for Argilla, as a string."""
    if isinstance(row, str) and row.isascii() and row.isdecimal() and len(row) < DIGITS:
        row = int(row)
    if isinstance(row, float) and row.is_integer():
        row = int(row)
    if isinstance(row, bool) or not isinstance(row, int) or not 0 <= row < 2**63:
        raise InputError(f"{path} must have the row number that ask wrote in every task; one has {reprlib.repr(row)}.")
    return row


def _checked(label: Any, row: int, path: Path) -> Any:
    """Return the label; refuse anything but a string, a finite number that a float can hold exactly, or None."""
    try:
        if label is None or (isinstance(label, str) and label.encode() is not None):
            return label
        if math.isfinite(label) and float(label) == label:
            return label
    except (TypeError, UnicodeEncodeError, OverflowError):  # another type, a lone surrogate, too many digits
        pass
    raise InputError(f"{path} must have a text or a finite number as a label; row {row} has {reprlib.repr(label)}.")


def _objects(value: Any, what: str, path: Path) -> list[dict[str, Any]]:
    """Return a list of JSON objects, which is empty if the value is missing."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InputError(f"{path} must have a list of objects as {what} of a task; one has {reprlib.repr(value)}.")
    return value


def _object(value: Any, what: str, path: Path) -> dict[str, Any]:
    """Return a JSON object, which is empty if the value is missing."""
    if value is not None and not isinstance(value, dict):
        raise InputError(f"{path} must have an object as {what} of a task; one has {reprlib.repr(value)}.")
    return value or {}


def _label_studio(task: Mapping[str, Any], column: str, path: Path) -> Iterator[tuple[Any, bool]]:
    for annotation in _objects(task.get("annotations"), "annotations", path):
        if annotation.get("was_cancelled"):
            yield None, True
            continue
        results = _objects(annotation.get("result"), "a result", path)
        matching = [result for result in results if result.get("from_name") == column] or results
        names = sorted({str(result.get("from_name")) for result in matching})
        if len(names) > 1:
            raise InputError(f"{path} has several controls, {', '.join(names)}: name the one to read with --column.")
        for result in matching:
            value = _object(result.get("value"), "a value", path)
            for cell in (value[kind] for kind in LABEL_STUDIO_VALUES if kind in value):
                # Each of several choices counts as a label, so that read_tasks refuses them.
                yield from ((label, False) for label in (cell if isinstance(cell, list) else [cell]))


def _argilla(record: Mapping[str, Any], column: str, path: Path) -> Iterator[tuple[Any, bool]]:
    questions = _object(record.get("responses"), "responses", path)
    responses = questions.get(column) or (next(iter(questions.values())) if len(questions) == 1 else None)
    for response in _objects(responses, "the responses to a question", path):
        skipped = response.get("status") == "discarded"
        if skipped or response.get("value") is not None:
            yield (None if skipped else response["value"]), skipped


def _task(line: dict[str, Any]) -> dict[str, Any]:
    return {"data": line}


def _record(line: dict[str, Any]) -> dict[str, Any]:
    """Return a record whose id is the row number; Argilla's fields are strings."""
    row = line.pop("row")
    return {"id": str(row), "fields": {name: str(cell) for name, cell in line.items() if cell is not None}}


def _plain(cell: Any) -> Any:
    return cell if cell is None or isinstance(cell, str | int | float | bool) else str(cell)
