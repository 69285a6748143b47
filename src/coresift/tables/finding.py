"""Resolve a path, a folder, a glob pattern or a list of paths to files."""

from __future__ import annotations

import glob
import json
import os
from pathlib import Path
from typing import Any, NoReturn

from coresift.checks import InputError, refuse

BINARY = (".parquet", ".arrow", ".feather")
TEXTUAL = (".csv", ".jsonl")
SUFFIXES = (*BINARY, *TEXTUAL)
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")


def find_files(source: Any, suffixes: tuple[str, ...], argument: str) -> list[Path]:
    """Return the files in `source`: sorted by name for a folder or pattern, in the given order for a list.

    Files of other types in a folder are ignored, because tools that write shards put markers such as _SUCCESS next to
    them. CSV and JSONL files are ignored if the folder also has binary tables.
    """
    if isinstance(source, list | tuple):
        not_paths = [item for item in source if not isinstance(item, str | os.PathLike)]
        if not_paths or not source:
            allowed = "an array, a table, or a list of paths"
            refuse(argument, allowed, f"a list with {type(not_paths[0]).__name__}" if not_paths else "[]")
        return [check_file(Path(item), suffixes, argument) for item in source]
    path = Path(source)
    if path.is_dir():
        return _files_in_folder(path, suffixes, argument)
    if path.exists() or not glob.has_magic(str(path)):
        return [check_file(path, suffixes, argument)]
    matches = sorted(glob.glob(str(path), recursive=True))
    if not matches:
        refuse(argument, "a pattern that matches files", repr(str(path)))
    return [check_file(Path(match), suffixes, argument) for match in matches]


def _files_in_folder(folder: Path, suffixes: tuple[str, ...], argument: str) -> list[Path]:
    if (folder / "dataset_dict.json").is_file():
        splits = ", ".join(sorted(entry.name for entry in folder.iterdir() if entry.is_dir()))
        raise InputError(f"{folder} holds several data sets ({splits}); give the folder of one of them.")
    if (folder / "state.json").is_file():
        _check_dataset_order(folder)
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in suffixes and file.is_file())
    files = [file for file in files if file.suffix.lower() not in TEXTUAL] or files
    return files or refuse(argument, f"a folder with files of type {', '.join(suffixes)}", folder)


def check_file(path: Path, suffixes: tuple[str, ...], argument: str) -> Path:
    """Refuse a file of another type, and one that does not exist."""
    if path.suffix.lower() not in suffixes:
        refuse_type(path, suffixes, argument)
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    return path


def refuse_type(path: Any, suffixes: tuple[str, ...], argument: str) -> NoReturn:
    """Refuse a file of another type; the sheet of a spreadsheet can be saved as a CSV file."""
    hint = "; save the sheet as CSV" if path.suffix.lower() in SPREADSHEETS else ""
    refuse(argument, f"a {', '.join(suffixes[:-1])} or {suffixes[-1]} file", f"{path}{hint}")


def _check_dataset_order(folder: Path) -> None:
    """Refuse a folder from an old version of `Dataset.save_to_disk`, which keeps the row order in a separate file."""
    try:
        state = json.loads((folder / "state.json").read_bytes())
        shuffled = isinstance(state, dict) and bool(state.get("_indices_data_files"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{folder} is not a readable data set folder (state.json is damaged).") from error
    if shuffled:
        raise InputError(f"{folder} keeps its row order in a separate file; load the data set and save it again first.")
