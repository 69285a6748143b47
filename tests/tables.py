"""Small tables written in every format that answers may come in."""

import json

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
