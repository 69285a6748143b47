"""A Selection or Clustering to and from files: nothing about the run in them, nothing half-written.

A selection is a table (Parquet, CSV or JSON lines) that any tool reads, one line per row. What holds for the whole
selection is its manifest: inside a Parquet file, beside the others as `NAME.manifest.json`. The manifest has a digest
of everything, so a table that was changed, or put beside another manifest, is told. A clustering is `.npz`.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from coresift.checks import CoresiftError, InputError, refuse
from coresift.registry import restore
from coresift.types import (
    ORIGINS,
    Clustering,
    Ledger,
    Opaque,
    Provenance,
    Recipe,
    Selection,
    Strategy,
    WeightedSelection,
    digest,
)
from coresift.version import __version__

FORMAT = 2
SELECTION_SUFFIXES = (".parquet", ".csv", ".jsonl")
CLUSTERING_SUFFIX = ".npz"
MANIFEST_KEY = b"coresift"
SCALARS = ("z", "free_cost", "snapped_cost", "seed", "normalized", "fingerprint", "search")
PARTS = ("pilot", "score", "design")
ARRAYS = ("centers", "labels", "distances", "free_centers")


def save(value: Selection | Clustering, path: str | Path, *, table: Any = None) -> Path:
    """Write a Selection to `.parquet`, `.csv` or `.jsonl`, a Clustering to `.npz`; the whole file or nothing.

    table: an Arrow table with a line for each selected row, written beside the selection's own columns, so that the
        file is ready to train on; one that has the name of such a column becomes `table_NAME`. `load` ignores it.

    >>> import numpy as np, tempfile, coresift as cs
    >>> picked = cs.select(np.random.default_rng(0).normal(size=(100, 2)), budget=10)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load(save(picked, folder + "/picked.parquet")) == picked
    True
    """
    path = Path(path)
    if not isinstance(value, (Selection, Clustering)):
        refuse("value", "a Selection or a Clustering", type(value).__name__)
    if isinstance(value, Clustering):
        if table is not None:
            refuse("table", "left out for a clustering", type(table).__name__)
        _check_suffix(path, (CLUSTERING_SUFFIX,), "a clustering")
        _write_whole({path: lambda file: _write_clustering(value, file)})
        return path
    _check_suffix(path, SELECTION_SUFFIXES, "a selection")
    manifest = _manifest(value)
    whole = _beside(_table(value, manifest), table, path)
    if path.suffix == ".parquet":
        write_table(whole.replace_schema_metadata({MANIFEST_KEY: _json(manifest)}), path)
        return path
    # The manifest first, so that a table never stands without one; the digest tells a wrong pair.
    text = _json(manifest, indent=1) + b"\n"
    _write_whole({_manifest_path(path): lambda file: _write(file, text), path: _table_writer(whole, path)})
    return path


def check_target(path: str | Path, suffixes: tuple[str, ...], what: str) -> None:
    """Refuse a file that could not be written in the end, before the work begins."""
    path = Path(path)
    _check_suffix(path, suffixes, what)
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent} to write {path.name} in.")
    if os.path.isdir(path):
        raise InputError(f"{path} must be a file to write to; it is a folder.")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"The folder {path.parent} is not one that you may write in.")


def write_table(table: Any, path: str | Path) -> None:
    """Write an Arrow table to `.parquet`, `.csv` or `.jsonl`, the whole file or nothing."""
    path = Path(path)
    _check_suffix(path, SELECTION_SUFFIXES, "a table")
    _write_whole({path: _table_writer(table, path)})


def write_bytes(content: bytes, path: str | Path) -> None:
    """Write a file, the whole of it or nothing."""
    _write_whole({Path(path): lambda file: _write(file, content)})


def load(path: str | Path) -> Selection | Clustering:
    """Read what `save` wrote, by the file's suffix; it is equal to what was saved."""
    path = Path(path)
    _check_suffix(path, (*SELECTION_SUFFIXES, CLUSTERING_SUFFIX), "a file of coresift")
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        return _read_clustering(path) if path.suffix == CLUSTERING_SUFFIX else _read_selection(path)
    except InputError:
        raise
    except Exception as error:  # whatever a damaged file makes a reader raise
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise InputError(f"{path} is not a file that coresift wrote, or it is damaged ({reason}).") from error


def _check_suffix(path: Path, allowed: tuple[str, ...], what: str) -> None:
    if path.suffix not in allowed:
        refuse(f"The name of {what}", f"one that ends in {' or '.join(allowed)}", path.name)


def _write_whole(writers: dict[Path, Callable[[BinaryIO], None]]) -> None:
    """Write each file beside its target, then rename: a reader sees the old one, or the whole new one."""
    asides: dict[Path, Path] = {}
    try:
        for path, write in writers.items():
            check_target(path, (path.suffix,), "a file")
            target = path.resolve()  # through a link, to the file that it stands for
            aside = asides[target] = target.with_name(f".coresift-{secrets.token_hex(8)}.tmp")
            with aside.open("xb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
        for target, aside in asides.items():
            aside.replace(target)
    except OSError as error:
        raise CoresiftError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        for aside in asides.values():
            aside.unlink(missing_ok=True)


def _table_writer(table: Any, path: Path) -> Callable[[BinaryIO], None]:
    return lambda file: _WRITERS[path.suffix](table, file)


def _write(file: BinaryIO, content: bytes) -> None:
    file.write(content)


def _json(facts: dict[str, Any], indent: int | None = None) -> bytes:
    return json.dumps(facts, indent=indent, sort_keys=True).encode()


def _manifest_path(path: Path) -> Path:
    return path.with_name(path.name + ".manifest.json")


def _manifest(selection: Selection) -> dict[str, Any]:
    facts = {
        "format": FORMAT,
        "version": __version__,
        "rows": int(selection.n),
        "population": int(selection.population),
        "seed": int(selection.seed),
        "provenance": _provenance_record(selection.provenance),
        "ledger": [list(entry) for entry in selection.ledger.entries],
        "ids": _kind(selection.names),
        "weighted": isinstance(selection, WeightedSelection),
    }
    if isinstance(selection, WeightedSelection):
        facts |= {
            "z": float(selection.z),
            "holder": selection.holder.tolist(),
            "least_inclusion": float(selection.least_inclusion),
            "phases": [None if part is None else {"kind": part.kind, **part.record()} for part in selection.phases],
        }
    return {**facts, "digest": _digest(selection, facts)}


def _provenance_record(made: Provenance) -> dict[str, Any]:
    record = {"job": made.job, "budget": int(made.budget), "frame": dict(made.frame), "options": dict(made.options)}
    record["clustering_seed"] = None if made.clustering_seed is None else int(made.clustering_seed)
    record["recipe"] = None if made.recipe is None else _recipe_record(made.recipe)
    return record


def _recipe_record(recipe: Recipe) -> dict[str, Any]:
    parts = {kind: getattr(recipe, kind) for kind in PARTS}
    records = {kind: None if part is None else part.record() for kind, part in parts.items()}
    return {"clusters": recipe.clusters, "z": recipe.z, "normalize": recipe.normalize, **records}


def _provenance(record: dict[str, Any]) -> Provenance:
    recipe = record["recipe"]
    if recipe is not None:
        parts = {kind: restore(kind, recipe[kind]) for kind in PARTS}
        clusters, z = recipe["clusters"], recipe["z"]
        recipe = Recipe(int(clusters), float(z), bool(recipe["normalize"]), **parts)
    seed = record["clustering_seed"]
    return Provenance(
        job=str(record["job"]),
        budget=int(record["budget"]),
        recipe=recipe,
        frame=dict(record["frame"]),
        clustering_seed=None if seed is None else int(seed),
        options={str(name): str(value) for name, value in record["options"].items()},
    )


def _phases(records: list[Any]) -> tuple[Strategy | Opaque | None, ...]:
    return tuple(None if record is None else restore(str(record["kind"]), record) for record in records)


def _digest(selection: Selection, facts: dict[str, Any]) -> str:
    """Return a fingerprint of all that a file holds, from what was or will be read back."""
    weights = selection.weights if isinstance(selection, WeightedSelection) else np.zeros(0)
    losses = np.where(np.isnan(selection.losses), np.nan, selection.losses)  # one NaN of the many that there are
    columns = [getattr(selection, name) for name in selection.COLUMNS if name != "losses"]
    names = _plain(selection.names, facts["ids"])
    text = np.frombuffer(_json({**facts, "digest": None, "names": names}), np.uint8)
    return digest(text, selection.ids, weights, losses, *columns)


def _plain(names: tuple[Any, ...] | None, kind: str | None) -> list[Any] | None:
    if names is None:
        return None
    plain = str if kind == "string" else int
    return [None if name is None else plain(name) for name in names]


def _kind(names: tuple[Any, ...] | None) -> str | None:
    """Return the type that holds the own ids: whole numbers as such, everything else as text; None stays None."""
    if names is None:
        return None
    known = [name for name in names if name is not None]
    if not known or not all(isinstance(name, (int, np.integer)) for name in known):
        return "string"
    return "int64" if max(known) < 2**63 else "uint64"


def _columns(manifest: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return (WeightedSelection if manifest["weighted"] else Selection).COLUMNS


def _schema(manifest: dict[str, Any]) -> Any:
    import pyarrow as pa

    columns: list[tuple[str, Any]] = [("row", pa.int64())]
    if manifest["ids"]:
        columns.append(("id", pa.type_for_alias(manifest["ids"])))
    if manifest["weighted"]:
        columns.append(("weight", pa.float64()))
    columns += [(name, pa.type_for_alias(kind)) for name, kind in _columns(manifest).values()]
    return pa.schema(columns)


def _table(selection: Selection, manifest: dict[str, Any]) -> Any:
    import pyarrow as pa

    columns: dict[str, Any] = {short: getattr(selection, name) for name, (short, _) in selection.COLUMNS.items()}
    columns["row"] = selection.ids
    if isinstance(selection, WeightedSelection):
        columns["weight"] = selection.weights
    columns["id"] = _plain(selection.names, manifest["ids"])
    columns["origin"] = [ORIGINS[code] for code in selection.origin]
    columns["loss"] = pa.array(selection.losses, mask=np.isnan(selection.losses))
    schema = _schema(manifest)
    return pa.table([columns[field.name] for field in schema], schema=schema)


def _beside(own: Any, table: Any, path: Path) -> Any:
    """Return the columns of a selection and those of its rows' own table side by side."""
    if table is None:
        return own
    if table.num_rows != own.num_rows:
        refuse("table", f"one line for each of {own.num_rows} selected rows", f"{table.num_rows} lines")
    for name in table.column_names:
        column = table[name]
        if name == "id" and "id" in own.column_names and column.cast("string").equals(own["id"].cast("string")):
            continue
        if path.suffix == ".csv" and column.type.num_fields:
            raise InputError(f"A .csv file cannot hold the lists in column {name}; write to .parquet or .jsonl.")
        own = own.append_column(f"table_{name}" if name in own.column_names else name, column)
    return own


def _write_parquet(table: Any, file: BinaryIO) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, file, compression="zstd")


def _write_csv(table: Any, file: BinaryIO) -> None:
    import pyarrow.csv

    pyarrow.csv.write_csv(table, file)


def _write_jsonl(table: Any, file: BinaryIO) -> None:
    file.writelines(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in table.to_pylist())


_WRITERS = {".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_jsonl}


def _read_selection(path: Path) -> Selection:
    manifest = _read_manifest(path)
    _check_format(path, manifest)
    selection = _selection(_READERS[path.suffix](path, _schema(manifest)), manifest)
    if _digest(selection, manifest) != manifest["digest"]:
        raise InputError(f"{path} does not fit its manifest: one of them has changed since coresift wrote them.")
    return selection


def _selection(table: Any, manifest: dict[str, Any]) -> Selection:
    shared: dict[str, Any] = {
        name: table[short].to_numpy() for name, (short, _) in _columns(manifest).items() if name != "origin"
    }
    shared |= {
        "ids": table["row"].to_numpy(),
        "origin": np.array([ORIGINS.index(name) for name in table["origin"].to_pylist()], np.uint8),
        "n": int(manifest["rows"]),
        "population": int(manifest["population"]),
        "seed": int(manifest["seed"]),
        "provenance": _provenance(manifest["provenance"]),
        "ledger": Ledger(tuple((int(turn), str(why), int(rows)) for turn, why, rows in manifest["ledger"])),
        "names": tuple(table["id"].to_pylist()) if manifest["ids"] else None,
    }
    if not manifest["weighted"]:
        return Selection(**shared)
    return WeightedSelection(
        **shared,
        weights=table["weight"].to_numpy(),
        z=float(manifest["z"]),
        phases=_phases(manifest["phases"]),  # type: ignore[arg-type]
        holder=np.array(manifest["holder"], np.float64),
        least_inclusion=float(manifest["least_inclusion"]),
    )


def _read_manifest(path: Path) -> dict[str, Any]:
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        text = (pq.read_schema(path).metadata or {}).get(MANIFEST_KEY)
        if text is None:
            raise InputError(f"{path} is a Parquet file, but not a selection of coresift (it has no manifest).")
    else:
        beside = _manifest_path(path)
        if not beside.is_file():
            raise InputError(f"{path} must have its manifest {beside.name} beside it; there is none.")
        text = beside.read_bytes()
    manifest: dict[str, Any] = json.loads(text)
    return manifest


def _read_parquet(path: Path, schema: Any) -> Any:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:  # one file, never the folder or the partition that its path may look like
        return file.read(columns=schema.names)


def _read_csv(path: Path, schema: Any) -> Any:
    import pyarrow.csv

    return pyarrow.csv.read_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=schema,
            include_columns=schema.names,
            # No own id is an empty cell, an empty one is a pair of quotes.
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _read_jsonl(path: Path, schema: Any) -> Any:
    import pyarrow as pa

    with path.open("rb") as file:
        return pa.Table.from_pylist([json.loads(line) for line in file], schema=schema)


_READERS = {".parquet": _read_parquet, ".csv": _read_csv, ".jsonl": _read_jsonl}


def _write_clustering(clustering: Clustering, file: BinaryIO) -> None:
    facts = {"format": FORMAT, **{name: getattr(clustering, name) for name in SCALARS}}
    arrays = {name: getattr(clustering, name) for name in ARRAYS}
    if clustering.strata.size:
        arrays["strata"] = clustering.strata
    np.savez(file, manifest=np.frombuffer(_json(facts), np.uint8), **arrays)


def _read_clustering(path: Path) -> Clustering:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
        facts = json.loads(content["manifest"].tobytes())
        _check_format(path, facts)
        arrays = {name: content[name] for name in ARRAYS}
        if "strata" in content:
            arrays["strata"] = content["strata"]
    return Clustering(**arrays, **{name: facts[name] for name in SCALARS})


def _check_format(path: Path, manifest: dict[str, Any]) -> None:
    if manifest["format"] != FORMAT:
        raise InputError(f"{path} has format {manifest['format']}; this version of coresift reads format {FORMAT}.")
