"""Which files a path, a folder, a pattern or a list of paths means."""

from __future__ import annotations

import glob
import json
import os
from pathlib import Path
from typing import Any

from coresift.checks import InputError, refuse

BINARY = (".parquet", ".arrow", ".feather")
TEXTUAL = (".csv", ".jsonl")
SUFFIXES = (*BINARY, *TEXTUAL)


def find_files(source: Any, suffixes: tuple[str, ...], argument: str) -> list[Path]:
    """Return the files of this name, in order: of a folder or pattern that of their names, of a list its own.

    In a folder, files of other types are left alone, as writers of shards put notes such as _SUCCESS beside them; so
    are CSV and JSONL files if there are any of the other types.
    """
    if isinstance(source, list | tuple):
        odd = [item for item in source if not isinstance(item, str | os.PathLike)]
        if odd or not source:
            allowed = "an array, a table, or a list of paths"
            refuse(argument, allowed, f"a list with {type(odd[0]).__name__}" if odd else "[]")
        return [_known(Path(item), suffixes, argument) for item in source]
    path = Path(source)
    if path.is_dir():
        return _inside(path, suffixes, argument)
    if path.exists() or not glob.has_magic(str(path)):
        return [_known(path, suffixes, argument)]
    matches = sorted(glob.glob(str(path), recursive=True))
    if not matches:
        refuse(argument, "a pattern that matches files", repr(str(path)))
    return [_known(Path(match), suffixes, argument) for match in matches]


def _inside(folder: Path, suffixes: tuple[str, ...], argument: str) -> list[Path]:
    if (folder / "dataset_dict.json").is_file():
        splits = ", ".join(sorted(inside.name for inside in folder.iterdir() if inside.is_dir()))
        raise InputError(f"{folder} holds several data sets ({splits}); give the folder of one of them.")
    if (folder / "state.json").is_file():
        _check_saved(folder)
    found = sorted(file for file in folder.iterdir() if file.suffix.lower() in suffixes and file.is_file())
    found = [file for file in found if file.suffix.lower() not in TEXTUAL] or found
    return found or refuse(argument, f"a folder with files of type {', '.join(suffixes)}", folder)


def _known(path: Path, suffixes: tuple[str, ...], argument: str) -> Path:
    if path.suffix.lower() not in suffixes:
        refuse(argument, f"a file of type {', '.join(suffixes)}", path)
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    return path


def _check_saved(folder: Path) -> None:
    """Refuse a folder of `Dataset.save_to_disk` whose row order is in a separate file, as old versions wrote it."""
    try:
        state = json.loads((folder / "state.json").read_bytes())
        shuffled = isinstance(state, dict) and bool(state.get("_indices_data_files"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{folder} is not a folder of datasets that can be read (state.json is damaged).") from error
    if shuffled:
        raise InputError(f"{folder} holds a data set in the order of another file; load it and save it again first.")
