"""Tables in text files, CSV and JSON lines, which are read into memory as a whole.

CSV: Cells are separated by commas. If the header has no comma but semicolons or tabs, those separate the cells, as in
files that spreadsheets save in many countries. An empty cell is null, and a quoted empty cell is an empty string. A
column is numeric if every cell is a number in its usual form (so 007 and +49 stay strings) or marks a missing value
(NA, NaN, null, …). To get a column's cells as they were written, name it in `texts`. A string that a spreadsheet would
run as a formula is written with a leading apostrophe, which is removed here (`FORMULA`).

JSON lines: One object per line. Numbers, strings and lists keep their types; a column that mixes strings with other
scalars becomes a column of strings.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coresift.checks import InputError
from coresift.tables.parts import open_input, reading
from coresift.tables.places import Place
from coresift.tables.values import NO_NUMBER, is_nested

if TYPE_CHECKING:
    import pyarrow as pa

# Spreadsheets run a cell that begins with = + - @, a tab or a carriage return; a leading apostrophe makes it text.
FORMULA = r"^('*[=+\-@\t\r])"
WHOLE = r"^-?(0|[1-9][0-9]*)$"
NUMBER = r"^-?((0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?|[iI]nf(inity)?)$"
SEPARATORS = (",", ";", "\t")
BLOCKS = (2**24, 2**31 - 1)  # bytes to parse at a time; a row must fit into a block
LINES_AT_ONCE = 2**16
# A JSONL file's table may have this many cells, plus this many for each cell that its lines fill.
FREE_CELLS, MOST_EMPTY = 2**20, 100
NOTE = "coresift"  # the column of a text file that holds the note about the whole table


def read_csv(path: Path | Place, texts: Collection[str] | None = None) -> pa.Table:
    """Read a CSV file; the columns in `texts` (None: all of them) stay strings, as they were written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = path.write_text("id,code,x\\n1,007,1.5\\n2,,2\\n")
    >>> read_csv(path, texts=["id"]).to_pylist()
    [{'id': '1', 'code': '007', 'x': 1.5}, {'id': '2', 'code': None, 'x': 2.0}]
    """
    import pyarrow as pa

    with reading(str(path)):
        names, separator = _header(path)
        if len(set(names)) < len(names):  # `Part` refuses duplicate names
            return pa.table([pa.array([], pa.string())] * len(names), names=names)
        table = _parse(path, names, separator)
        clean_names = [re.sub("^'" + FORMULA[1:], r"\1", name) for name in names]
        columns = [
            _as_written(table[raw]) if texts is None or name in texts else _as_numbers(table[raw])
            for raw, name in zip(names, clean_names, strict=True)
        ]
        return pa.table(columns, names=clean_names)


def read_jsonl(path: Path | Place) -> pa.Table:
    """Read a file with one JSON object per line; a key that a line lacks is null."""
    import pyarrow as pa

    with reading(str(path)):
        tables, lines = [], []
        for line in _objects(path):
            lines.append(line)
            if len(lines) == LINES_AT_ONCE:
                tables.append(_table_of(lines))
                lines = []
        if lines or not tables:
            tables.append(_table_of(lines))
        if len(tables) == 1:
            return tables[0]
        schema = _common_schema([table.schema for table in tables])
        return pa.concat_tables([fit_to_schema(table, schema) for table in tables])


def split_note(table: pa.Table) -> tuple[bytes | None, pa.Table]:
    """Return the note that `write_table` put into the first cell of a separate column, and the table without it."""
    notes = [] if NOTE not in table.column_names else table[NOTE].drop_null().to_pylist()
    if len(notes) != 1 or not isinstance(notes[0], str) or not notes[0].startswith("{"):
        return None, table
    table = table.drop_columns(NOTE)
    placeholder = table.num_rows == 1 and all(column.null_count for column in table.columns)
    return notes[0].encode(), table.slice(0, 0) if placeholder else table


def _header(path: Path | Place) -> tuple[list[str], str]:
    """Return the names of the columns, and the character that separates cells."""
    names = _names(path, SEPARATORS[0])
    if len(names) > 1:
        return names, SEPARATORS[0]
    splits = {separator: _names(path, separator) for separator in SEPARATORS}
    separator = max(splits, key=lambda separator: len(splits[separator]))
    return splits[separator], separator


def _names(path: Path | Place, separator: str) -> list[str]:
    with open_input(path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as lines:
        try:
            names = next((line for line in csv.reader(lines, delimiter=separator) if line), None)
        except csv.Error as error:
            raise InputError(f"The file {path} cannot be read: {error}.") from error
    if names is None:
        raise InputError(f"The file {path} cannot be read: it is empty.")
    return names


def _parse(path: Path | Place, names: list[str], separator: str) -> pa.Table:
    """Return all cells as texts."""
    import pyarrow as pa
    import pyarrow.csv

    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    for block in BLOCKS:
        try:
            with open_input(path) as file:
                # One byte more than the file: if it has no final line break, its end must not be the end of a block.
                options = pyarrow.csv.ReadOptions(block_size=min(block, max(file.size() + 1, 2**16)))
                return pyarrow.csv.read_csv(file, read_options=options, parse_options=parse, convert_options=convert)
        except pa.ArrowInvalid as error:
            if "straddling" not in str(error) or block == BLOCKS[-1]:
                raise
    raise AssertionError


def _as_written(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    if not pc.any(pc.starts_with(column, "'")).as_py():
        return column
    return pc.replace_substring_regex(column, "^'" + FORMULA[1:], r"\1")


def _as_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as integers or floats if all of its cells are, and otherwise as strings."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(column)
    cells = pc.if_else(pc.is_in(trimmed, value_set=pa.array(NO_NUMBER)), None, trimmed)
    if len(cells) == cells.null_count:
        return _as_written(column)
    for pattern, kind in ((WHOLE, pa.int64()), (NUMBER, pa.float64())):
        if pc.all(pc.match_substring_regex(cells, pattern)).as_py():
            try:
                return cells.cast(kind)
            except pa.ArrowInvalid:  # an integer too large for int64
                continue
    return _as_written(column)


def _objects(path: Path | Place) -> Iterator[dict[str, Any]]:
    with open_input(path) as file:
        for number, line in enumerate(io.BufferedReader(file), start=1):
            if not line.strip():
                continue
            entry = json.loads(line, object_pairs_hook=_unique_keys)
            if not isinstance(entry, dict):
                raise InputError(f"{path} must have one JSON object per line; line {number} is something else.")
            yield entry


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entry = dict(pairs)
    if len(entry) < len(pairs):
        raise ValueError("an object has the same key twice")
    return entry


def _table_of(lines: list[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    names = list(dict.fromkeys(chain.from_iterable(lines)))
    filled = sum(map(len, lines))
    if len(names) * len(lines) > FREE_CELLS + MOST_EMPTY * filled:
        raise ValueError(f"its lines have little in common, {filled:,} values in {len(names):,} columns")
    return pa.table([_array([line.get(name) for line in lines]) for name in names], names=names)


def _array(values: list[Any]) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(values)
    except OverflowError:
        return pa.array(values, pa.uint64())
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        if not any(isinstance(value, str) for value in values) or any(
            isinstance(value, list | dict) for value in values
        ):
            raise
        return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _common_schema(schemas: list[pa.Schema]) -> pa.Schema:
    """Return the union of the columns, each with a type that can hold all of its values."""
    import pyarrow as pa

    names = list(dict.fromkeys(chain.from_iterable(schema.names for schema in schemas)))
    fields = []
    for name in names:
        variants = [schema.field(name) for schema in schemas if name in schema.names]
        try:
            merged = pa.unify_schemas([pa.schema([field]) for field in variants], promote_options="permissive").field(0)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            if any(is_nested(field.type) for field in variants):
                raise
            merged = pa.field(name, pa.string())
        fields.append(merged)
    return pa.schema(fields)


def fit_to_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of a schema, cast to its types; a column that the table lacks is all nulls."""
    import pyarrow as pa

    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
