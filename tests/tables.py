"""Small tables in every format that answers may come in, and selections apart from their table."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet


def write(path, columns):
    if path.suffix == ".parquet":
        pa.parquet.write_table(pa.table(columns), path)
    elif path.suffix == ".csv":
        pa.csv.write_csv(pa.table(columns), path)
    else:
        lines = [dict(zip(columns, entry, strict=True)) for entry in zip(*columns.values(), strict=True)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def without_columns(selection):
    """Return a selection that does not name the columns of its table: rows in an array have none."""
    return replace(selection, provenance=replace(selection.provenance, columns=None, id_column=None))
