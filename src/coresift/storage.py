"""Save selections and clusterings to files, and load them.

Files are written atomically and do not depend on when or where the run took place. A selection is a table (Parquet, CSV
or JSON lines) that any tool can read, with one line per row. Facts about the whole selection are in a manifest inside
the file (`tables.writing` says where). The manifest has a digest of everything, so changes are detected. A clustering
is an `.npz` file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from coresift.checks import InputError, named_options, refuse
from coresift.registry import restore
from coresift.rows.taking import take
from coresift.tables.npy import read_npz
from coresift.tables.textual import NOTE
from coresift.tables.values import text_of
from coresift.tables.writing import TABLE_SUFFIXES, check_suffix, open_noted, write_table, write_whole
from coresift.types import (
    ORIGINS,
    Clustering,
    CoverSelection,
    LearningSelection,
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

FORMAT = 3
SELECTION_SUFFIXES = TABLE_SUFFIXES
CLUSTERING_SUFFIX = ".npz"
SCALARS = ("z", "free_cost", "snapped_cost", "seed", "normalized", "fingerprint", "search")
PARTS = ("pilot", "score", "design")
ARRAYS = ("centers", "labels", "distances", "free_centers")
# The classes of selections without clusters, by the kind in their manifest.
KINDS: dict[str, type[Selection]] = {"cover": CoverSelection, "active learning": LearningSelection}
# Python type of labels → Arrow type of their column.
LABEL_TYPES = {bool: "bool", int: "int64", float: "double", str: "string"}


@named_options
def save(value: Selection | Clustering, path: str | Path, *, table: Any = None) -> Path:
    """Write a selection to `.parquet`, `.csv` or `.jsonl`, or a clustering to `.npz`, atomically.

    Args:
        value: A `Selection` or a `Clustering`.
        path: The file; its suffix determines the format.
        table: Anything that `open_rows` accepts, with all n rows or only the selected ones, in their order. Its columns
            are written next to the selection's own, so that the file is ready to train on. If both the selection and
            the table have ids, rows are looked up by id, in any order. Otherwise they are taken by position: if the
            table has the columns that were used, another order is refused, and other numbers cause a warning. A column
            whose name is taken becomes `table_NAME`. `load` ignores these columns.

    Returns:
        The path.

    Raises:
        InputError: The suffix is not allowed, or the table does not have the selected rows, or has them elsewhere.

    Examples:
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
        check_suffix(path, (CLUSTERING_SUFFIX,), "a clustering")
        write_whole(path, lambda file: _write_clustering(value, file))
        return path
    check_suffix(path, SELECTION_SUFFIXES, "a selection")
    manifest = _manifest(value)
    rows = None if table is None else _rows_of(value, table)
    write_table(_with_columns(_table(value, manifest), rows), path, note=_json(manifest))
    return path


def _rows_of(selection: Selection, table: Any) -> Any:
    provenance = selection.provenance
    return take(table, selection.ids, selection.n, selection.names, provenance.id_column, provenance)


@named_options
def load(path: str | Path) -> Selection | Clustering:
    """Read what `save` wrote.

    Args:
        path: The file; its suffix determines the format.

    Returns:
        A `Selection`, a `WeightedSelection` or a `Clustering`, equal to what was saved.

    Raises:
        InputError: There is no such file, coresift did not write it, or it is damaged.

    Examples:
        >>> import numpy as np, tempfile, coresift as cs
        >>> clusters = cs.cluster(np.random.default_rng(0).normal(size=(100, 2)), 5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     load(save(clusters, folder + "/clusters.npz")) == clusters
        True
    """
    path = Path(path)
    check_suffix(path, (*SELECTION_SUFFIXES, CLUSTERING_SUFFIX), "a file of coresift")
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        return _read_clustering(path) if path.suffix == CLUSTERING_SUFFIX else _read_selection(path)
    except InputError:
        raise
    except Exception as error:  # a damaged file can make a reader raise anything
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise InputError(f"{path} is not a file that coresift wrote, or it is damaged ({reason}).") from error


def _json(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, sort_keys=True).encode()


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
            "growth": selection.growth.tolist(),
            **({"predicted": selection.predicted.tolist()} if selection.predicted.size else {}),
            **({"learned_kept": True} if selection.learned_kept.size else {}),
            "phases": [None if part is None else {"kind": part.kind, **part.record()} for part in selection.phases],
        }
    if isinstance(selection, CoverSelection):
        facts["kind"] = "cover"
    if isinstance(selection, LearningSelection):
        facts |= {"kind": "active learning", "labels": _label_type(selection.labels)}
    return {**facts, "digest": _digest(selection, facts)}


def _provenance_record(provenance: Provenance) -> dict[str, Any]:
    record = {
        "job": provenance.job,
        "budget": int(provenance.budget),
        "frame": dict(provenance.frame),
        "options": dict(provenance.options),
    }
    if provenance.columns is not None:
        record |= {"columns": list(provenance.columns), "id_column": provenance.id_column}
    if provenance.standardized is not None:
        record["standardized"] = provenance.standardized
    if provenance.content is not None:
        record["content"] = provenance.content
    record["clustering_seed"] = None if provenance.clustering_seed is None else int(provenance.clustering_seed)
    record["recipe"] = None if provenance.recipe is None else _recipe_record(provenance.recipe)
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
        columns=tuple(record["columns"]) if "columns" in record else None,
        id_column=record.get("id_column"),
        standardized=record.get("standardized"),
        content=record.get("content"),
    )


def _phases(records: list[Any]) -> tuple[Strategy | Opaque | None, ...]:
    return tuple(None if record is None else restore(str(record["kind"]), record) for record in records)


def _digest(selection: Selection, facts: dict[str, Any]) -> str:
    """Return a digest of everything in the file, in the form in which it is read back."""
    weights = selection.weights if isinstance(selection, WeightedSelection) else np.zeros(0)
    losses = np.where(np.isnan(selection.losses), np.nan, selection.losses)  # all NaN get the same bits
    columns = [getattr(selection, name) for name in selection.columns if name != "losses"]
    texts: dict[str, Any] = {"names": _plain(selection.names, facts["ids"])}
    if isinstance(selection, LearningSelection):
        texts["label"] = list(selection.labels)
    text = np.frombuffer(_json({**facts, "digest": None, **texts}), np.uint8)
    return digest(text, selection.ids, weights, losses, *columns)


def _plain(names: tuple[Any, ...] | None, kind: str | None) -> list[Any] | None:
    if names is None:
        return None
    plain = str if kind == "string" else int
    return [None if name is None else plain(name) for name in names]


def _kind(names: tuple[Any, ...] | None) -> str | None:
    """Return the column type of the ids: an integer type, or else string; None if there are no ids."""
    if names is None:
        return None
    known = [name for name in names if name is not None]
    if not known or not all(isinstance(name, (int, np.integer)) for name in known):
        return "string"
    return "int64" if max(known) < 2**63 else "uint64"


def _label_type(labels: tuple[Any, ...]) -> str:
    kind = next((type(label) for label in labels if label is not None), str)
    if kind not in LABEL_TYPES:
        refuse("labels", "texts, numbers or booleans", kind.__name__)
    return LABEL_TYPES[kind]


def _columns(manifest: dict[str, Any]) -> dict[str, tuple[str, str]]:
    if "kind" in manifest:
        return KINDS[manifest["kind"]].COLUMNS
    if not manifest["weighted"]:
        return Selection.COLUMNS
    columns = WeightedSelection.COLUMNS | (WeightedSelection.PREDICTED if manifest.get("predicted") else {})
    return columns | (WeightedSelection.GROWN if manifest.get("learned_kept") else {})


def _schema(manifest: dict[str, Any]) -> Any:
    import pyarrow as pa

    columns: list[tuple[str, Any]] = [("row", pa.int64())]
    if manifest["ids"]:
        columns.append(("id", pa.type_for_alias(manifest["ids"])))
    if manifest["weighted"]:
        columns.append(("weight", pa.float64()))
    columns += [(name, pa.type_for_alias(kind)) for name, kind in _columns(manifest).values()]
    if "labels" in manifest:
        columns.append(("label", pa.type_for_alias(manifest["labels"])))
    return pa.schema(columns)


def _table(selection: Selection, manifest: dict[str, Any]) -> Any:
    import pyarrow as pa

    columns: dict[str, Any] = {short: getattr(selection, name) for name, (short, _) in selection.columns.items()}
    columns["row"] = selection.ids
    if isinstance(selection, WeightedSelection):
        columns["weight"] = selection.weights
    if isinstance(selection, LearningSelection):
        columns["label"] = list(selection.labels)
    columns["id"] = _plain(selection.names, manifest["ids"])
    columns["origin"] = [ORIGINS[code] for code in selection.origin]
    columns["loss"] = pa.array(selection.losses, mask=np.isnan(selection.losses))  # left out if the schema lacks it
    schema = _schema(manifest)
    return pa.table([columns[field.name] for field in schema], schema=schema)


def _with_columns(own: Any, table: Any) -> Any:
    """Return the columns of a selection, followed by those of its rows' table."""
    if table is None:
        return own
    for name in table.column_names:
        column = table[name]
        if name == "id" and "id" in own.column_names and text_of(column).equals(text_of(own["id"])):
            continue
        taken = name in own.column_names or name == NOTE
        own = own.append_column(f"table_{name}" if taken else name, column)
    return own


def _read_selection(path: Path) -> Selection:
    with open_noted(path) as (note, read):
        if note is None:
            raise InputError(f"{path} is a {path.suffix} file, but not a selection of coresift (it has no manifest).")
        manifest: dict[str, Any] = json.loads(note)
        _check_format(path, manifest)
        selection = _selection(read(_schema(manifest)), manifest)
    if _digest(selection, manifest) != manifest["digest"]:
        raise InputError(f"{path} does not match its manifest: it has changed since coresift wrote it.")
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
        "ledger": Ledger(tuple((int(turn), str(reason), int(rows)) for turn, reason, rows in manifest["ledger"])),
        "names": tuple(table["id"].to_pylist()) if manifest["ids"] else None,
    }
    if "labels" in manifest:
        shared["labels"] = tuple(table["label"].to_pylist())
    if "kind" in manifest:
        return KINDS[manifest["kind"]](**_without_clusters(table.num_rows), **shared)
    if not manifest["weighted"]:
        return Selection(**shared)
    return WeightedSelection(
        **shared,
        weights=table["weight"].to_numpy(),
        z=float(manifest["z"]),
        phases=_phases(manifest["phases"]),  # type: ignore[arg-type]
        holder=np.array(manifest["holder"], np.float64),
        least_inclusion=float(manifest["least_inclusion"]),
        growth=np.array(manifest.get("growth", ()), np.float64),
        predicted=np.array(manifest.get("predicted", ()), np.float64),
    )


def _without_clusters(count: int) -> dict[str, Any]:
    """Return the columns that files leave out for rows that were not drawn from clusters."""
    return {"clusters": np.full(count, -1), "distances": np.zeros(count), "losses": np.full(count, np.nan)}


def _write_clustering(clustering: Clustering, file: BinaryIO) -> None:
    facts = {"format": FORMAT, **{name: getattr(clustering, name) for name in SCALARS}}
    arrays = {name: getattr(clustering, name) for name in ARRAYS}
    if clustering.strata.size:
        arrays["strata"] = clustering.strata
    np.savez(file, manifest=np.frombuffer(_json(facts), np.uint8), **arrays)


def _read_clustering(path: Path) -> Clustering:
    arrays = read_npz(path)
    facts = json.loads(arrays["manifest"].tobytes())
    _check_format(path, facts)
    fields: dict[str, Any] = {name: arrays[name] for name in (*ARRAYS, "strata") if name in arrays or name in ARRAYS}
    return Clustering(**fields, **{name: facts[name] for name in SCALARS})


def _check_format(path: Path, manifest: dict[str, Any]) -> None:
    if manifest["format"] != FORMAT:
        raise InputError(f"{path} has format {manifest['format']}; this version of coresift reads format {FORMAT}.")
