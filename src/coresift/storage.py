"""A Selection or Clustering to and from files: nothing about the run in them, nothing half-written.

A selection is a table (Parquet, CSV or JSON lines) that any tool reads, one line a row. What holds for the whole
selection is its manifest: inside a Parquet file, beside the others as `NAME.manifest.json`. A clustering is `.npz`.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from coresift.checks import InputError, refuse
from coresift.types import ORIGINS, Clustering, Ledger, Selection
from coresift.version import __version__

FORMAT = 1
SELECTION_SUFFIXES = (".parquet", ".csv", ".jsonl")
CLUSTERING_SUFFIX = ".npz"
MANIFEST_KEY = b"coresift"
SCALARS = ("z", "free_cost", "snapped_cost", "seed", "normalized", "fingerprint")
# Field of a Selection → its column and type in a file.
COLUMNS = {
    "inclusion": ("inclusion", "double"),
    "share": ("share", "double"),
    "clusters": ("cluster", "int32"),
    "distances": ("distance", "float"),
    "origin": ("origin", "string"),
    "phase": ("phase", "uint8"),
    "order": ("order", "int64"),
    "multiplicity": ("multiplicity", "int64"),
    "losses": ("loss", "double"),
}
ARRAYS = ("centers", "labels", "distances", "free_centers")


def save(value: Selection | Clustering, path: str | Path) -> Path:
    """Write a Selection to `.parquet`, `.csv` or `.jsonl`, a Clustering to `.npz`; the whole file or nothing.

    >>> import numpy as np, tempfile, coresift as cs
    >>> picked = cs.select(np.random.default_rng(0).normal(size=(100, 2)), budget=10)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load(save(picked, folder + "/picked.parquet")) == picked
    True
    """
    path = Path(path)
    if isinstance(value, Clustering):
        _check_suffix(path, (CLUSTERING_SUFFIX,), "a clustering")
        _write_aside(path, lambda aside: _write_clustering(value, aside))
        return path
    if not isinstance(value, Selection):
        refuse("value", "a Selection or a Clustering", type(value).__name__)
    _check_suffix(path, SELECTION_SUFFIXES, "a selection")
    manifest = _manifest(value)
    table = _table(value, manifest)
    if path.suffix != ".parquet":
        text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
        _write_aside(_manifest_path(path), lambda aside: _write_text(aside, text))
    else:
        table = table.replace_schema_metadata({MANIFEST_KEY: json.dumps(manifest, sort_keys=True).encode()})
    write_table(table, path)
    return path


def write_table(table: Any, path: str | Path) -> None:
    """Write an Arrow table to `.parquet`, `.csv` or `.jsonl`, the whole file or nothing."""
    path = Path(path)
    _check_suffix(path, SELECTION_SUFFIXES, "a table")
    _write_aside(path, lambda aside: _WRITERS[path.suffix](table, aside))


def load(path: str | Path) -> Any:
    """Read what `save` wrote, by the file's suffix; it is equal to what was saved."""
    path = Path(path)
    _check_suffix(path, (*SELECTION_SUFFIXES, CLUSTERING_SUFFIX), "a file of coresift")
    if not path.exists():
        raise InputError(f"There is no file {path}.")
    try:
        return _read_clustering(path) if path.suffix == CLUSTERING_SUFFIX else _read_selection(path)
    except InputError:
        raise
    except Exception as error:  # whatever a damaged file makes a reader raise
        raise InputError(f"{path} is not a file that coresift wrote, or it is damaged ({error}).") from error


def _check_suffix(path: Path, allowed: tuple[str, ...], what: str) -> None:
    if path.suffix not in allowed:
        refuse(f"The name of {what}", f"one that ends in {' or '.join(allowed)}", path.name)


def _write_aside(path: Path, write: Callable[[Path], None]) -> None:
    """Write beside the target, then rename: a reader sees the old file, or the whole new one."""
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent} to write {path.name} in.")
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    aside = Path(name)
    try:
        write(aside)
        os.chmod(aside, 0o666 & ~_umask())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _manifest_path(path: Path) -> Path:
    return path.with_name(path.name + ".manifest.json")


def _manifest(selection: Selection) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": __version__,
        "rows": selection.n,
        "population": selection.population,
        "seed": selection.seed,
        "z": selection.z,
        "holder": selection.holder.tolist(),
        "designs": list(selection.designs),
        "recipe": dict(selection.recipe),
        "ledger": [list(entry) for entry in selection.ledger.entries],
        "weighted": selection.weights is not None,
        "ids": _kind(selection.names),
    }


def _kind(names: tuple[Any, ...] | None) -> str | None:
    if names is None:
        return None
    return "int64" if all(isinstance(name, int) for name in names) else "string"


def _schema(manifest: dict[str, Any]) -> Any:
    import pyarrow as pa

    columns: list[tuple[str, Any]] = [("row", pa.int64())]
    if manifest["ids"]:
        columns.append(("id", pa.type_for_alias(manifest["ids"])))
    if manifest["weighted"]:
        columns.append(("weight", pa.float64()))
    columns += [(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.values()]
    return pa.schema(columns)


def _table(selection: Selection, manifest: dict[str, Any]) -> Any:
    import pyarrow as pa

    columns: dict[str, Any] = {short: getattr(selection, name) for name, (short, _) in COLUMNS.items()}
    columns |= {"row": selection.ids, "weight": selection.weights}
    columns["id"] = None if selection.names is None else [_plain(name, manifest["ids"]) for name in selection.names]
    columns["origin"] = [ORIGINS[code] for code in selection.origin]
    columns["loss"] = pa.array(selection.losses, mask=np.isnan(selection.losses))
    schema = _schema(manifest)
    return pa.table([columns[field.name] for field in schema], schema=schema)


def _plain(name: Any, kind: str) -> Any:
    return name if kind == "int64" else str(name)


def _write_parquet(table: Any, path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, path, compression="zstd")


def _write_csv(table: Any, path: Path) -> None:
    import pyarrow.csv

    pyarrow.csv.write_csv(table, path)


def _write_jsonl(table: Any, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in table.to_pylist())


_WRITERS = {".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_jsonl}


def _read_selection(path: Path) -> Selection:
    if path.suffix == ".parquet":
        table, manifest = _read_parquet(path)
    else:
        manifest = _read_manifest(path)
        read = _read_csv if path.suffix == ".csv" else _read_jsonl
        table = read(path, _schema(manifest))
    if manifest.get("format") != FORMAT:
        raise InputError(f"{path} has format {manifest.get('format')}; this version of coresift reads format {FORMAT}.")
    columns = {name: table[short].to_numpy() for name, (short, _) in COLUMNS.items() if name != "origin"}
    return Selection(
        ids=table["row"].to_numpy(),
        weights=table["weight"].to_numpy() if manifest["weighted"] else None,
        origin=np.array([ORIGINS.index(name) for name in table["origin"].to_pylist()], np.uint8),
        **columns,
        n=manifest["rows"],
        population=manifest["population"],
        seed=manifest["seed"],
        z=manifest["z"],
        designs=tuple(manifest["designs"]),
        recipe=manifest["recipe"],
        ledger=Ledger(tuple((int(turn), str(why), int(rows)) for turn, why, rows in manifest["ledger"])),
        holder=np.array(manifest["holder"], np.float64),
        names=tuple(table["id"].to_pylist()) if manifest["ids"] else None,
    )


def _read_parquet(path: Path) -> tuple[Any, dict[str, Any]]:
    import pyarrow.parquet as pq

    # One file, never the folder or the partition that its path may look like.
    table = pq.ParquetFile(path).read()
    metadata = table.schema.metadata or {}
    if MANIFEST_KEY not in metadata:
        raise InputError(f"{path} is a Parquet file, but not a selection of coresift (it has no manifest).")
    return table, json.loads(metadata[MANIFEST_KEY])


def _read_csv(path: Path, schema: Any) -> Any:
    import pyarrow.csv

    return pyarrow.csv.read_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(column_types=schema),
    )


def _read_jsonl(path: Path, schema: Any) -> Any:
    import pyarrow as pa

    with path.open(encoding="utf-8") as file:
        return pa.Table.from_pylist([json.loads(line) for line in file], schema=schema)


def _read_manifest(path: Path) -> dict[str, Any]:
    beside = _manifest_path(path)
    if not beside.exists():
        raise InputError(f"{path} has lost its manifest {beside.name}, which must lie beside it.")
    manifest: dict[str, Any] = json.loads(beside.read_text(encoding="utf-8"))
    return manifest


def _write_clustering(clustering: Clustering, path: Path) -> None:
    facts = {"format": FORMAT, **{name: getattr(clustering, name) for name in SCALARS}}
    manifest = np.frombuffer(json.dumps(facts, sort_keys=True).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, manifest=manifest, **{name: getattr(clustering, name) for name in ARRAYS})


def _read_clustering(path: Path) -> Clustering:
    with np.load(path, allow_pickle=False) as file:
        facts = json.loads(file["manifest"].tobytes())
        if facts.pop("format") != FORMAT:
            raise InputError(f"{path} has another format than {FORMAT}, which this version of coresift reads.")
        return Clustering(**{name: file[name] for name in ARRAYS}, **facts)
