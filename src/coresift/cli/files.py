"""The files that commands read and write."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from coresift.answers import AnswerFile, MissingRowsError
from coresift.checks import InputError
from coresift.cli.showing import show_warning, tell
from coresift.notebook import counted
from coresift.storage import SELECTION_SUFFIXES
from coresift.tables.finding import BINARY
from coresift.tables.tasks import SUFFIX, Tool, read_tasks, write_tasks
from coresift.tables.writing import check_target, formulas_in, write_table

MOST_NAMED = 12  # columns that are listed by name


def check_out(
    out: Path,
    what: str,
    *sources: str | Path | None,
    flag: str = "--out",
    suffixes: tuple[str, ...] = SELECTION_SUFFIXES,
) -> None:
    """Refuse a target of another type, and a target that is one of the files that are read."""
    check_target(out, suffixes, what)
    named = [str(source) for source in sources if source is not None]
    # A flag may name a column of a file, as FILE:NAME.
    named += [text.rpartition(":")[0] for text in named if ":" in text]
    for source in (Path(text) for text in named if os.path.exists(text)):  # False even for impossible names
        if source.is_dir() and out.parent.samefile(source) and _would_be_rows(out, source):
            raise InputError(f"{flag} must not be in {source}, whose files are the rows; got {out}.")
        if out.exists() and out.samefile(source):
            raise InputError(f"{flag} must be another file than {source}, which is an input.")


def _would_be_rows(out: Path, folder: Path) -> bool:
    """Return whether this file, in a folder of rows, would be read as rows the next time."""
    kinds = {file.suffix.lower() for file in folder.iterdir()}
    return out.suffix == ".parquet" or (out.suffix in kinds and not kinds & {".npy", *BINARY})


@contextmanager
def explaining(advice: str) -> Iterator[None]:
    """Add the usual reason to the error when a file lacks rows."""
    try:
        yield
    except MissingRowsError as error:
        raise InputError(f"{error} {advice}") from error


def has_column(path: Path, column: str) -> bool:
    """Return whether a file exists and has that column; for an export of a labeling tool, whether it has labels."""
    try:
        if path.suffix.lower() == SUFFIX:
            return path.exists() and len(read_tasks(path, column)) > 0
        return path.exists() and AnswerFile(path).has(column)
    except InputError:
        return False


def open_source(
    rows: str,
    column: str | None = None,
    id_column: str | None = None,
    exclude_column: Sequence[str] | None = None,
    standardize: bool = False,
    target: str | None = None,
) -> cs.rows.Rows:
    """Open ROWS with the options of the flags."""
    return cs.open_rows(
        rows,
        column=column,
        id_column=id_column,
        exclude_columns=exclude_column or (),
        standardize=standardize,
        target=target,
    )


def table_of(rows: cs.rows.Rows) -> cs.rows.Rows | None:
    """Return the rows if they come from a table, so that `save` can add its columns."""
    return None if rows.table is None else rows


def used_columns(rows: cs.rows.Rows) -> list[tuple[str, str]]:
    """Return which columns of a table were used, and a hint if their scales differ a lot."""
    if rows.columns is None:
        return []
    tell(columns=list(rows.columns))
    count = len(rows.columns)
    shown = ", ".join(rows.columns[:MOST_NAMED]) + (f" and {count - MOST_NAMED:,} more" if count > MOST_NAMED else "")
    hint = rows.scale_hint()
    if hint is None:
        return [("columns used", shown)]
    hint = hint.replace("open the rows with standardize=True to put", "--standardize puts")
    tell(hint=hint)
    return [("columns used", shown), ("hint", hint)]


def write_rows(
    path: Path,
    ids: Any,
    names: list[Any] | None,
    table: Any = None,
    answers: str = "loss",
    tool: Tool | None = None,
    id_column: str | None = None,
    answered: Mapping[str, Any] | None = None,
) -> None:
    """Write row numbers, ids if rows have them, and the other columns of their table.

    Ids are written once: under the table's own name if it has them, else as `id`.

    Args:
        path: The file.
        ids: Row numbers.
        names: Their ids.
        table: The same rows of the table that they come from, an Arrow table.
        answers: The column that will have the answers. If the table has a column of this name, or of another column
            of the file, it is written as `table_NAME`.
        tool: The labeling tool that the file is for; by default none, and the file is a table.
        id_column: The table's column of ids.
        answered: Columns of answers, if they are known already.
    """
    import pyarrow as pa

    own = None if table is None or names is None else _column_of_ids(table, names, {id_column, "id"} - {"row", answers})
    written = pa.table({"row": ids} if names is None else {"row": ids, own or "id": names})
    taken = {"row", answers, *(answered or ())} | (set() if names is None else {"id"})
    for name in () if table is None else table.column_names:
        if name != own:
            written = written.append_column(f"table_{name}" if name in taken else name, table[name])
    for name, values in (answered or {}).items():
        written = written.append_column(name, pa.array(values, from_pandas=True))
    if tool is None:
        write_table(written, path)
        warn_of_formulas(path, written)
    else:
        write_tasks(written, path, tool)


def _column_of_ids(table: Any, names: list[Any], candidates: set[str | None]) -> str | None:
    """Return which of the candidates is a column with these ids."""
    for name in table.column_names:
        if name in candidates and [str(cell) for cell in table[name].to_pylist()] == list(map(str, names)):
            return str(name)
    return None


def warn_of_formulas(path: Path, *tables: Any) -> None:
    """Say how many cells of these tables have an apostrophe in the CSV file that they were written to."""
    count = sum(map(formulas_in, tables)) if path.suffix == ".csv" else 0
    if count:
        show_warning(
            f"{counted(count, 'cell')} of {path} {'begins' if count == 1 else 'begin'} like a formula (=, +, -, @) and "
            "got an apostrophe, so that no spreadsheet runs a text; coresift removes the apostrophe when it reads the "
            "file, and .parquet and .jsonl files have none."
        )


def load_selection(path: Path) -> cs.Selection:
    """Load a selection."""
    picked = cs.load(path)
    if not isinstance(picked, cs.Selection):
        raise InputError(f"{path} must be a selection; it is a clustering.")
    return picked


def load_weighted(path: Path) -> cs.WeightedSelection:
    """Load a selection that has weights."""
    picked = load_selection(path)
    if not isinstance(picked, cs.WeightedSelection):
        raise InputError(f"{path} must be a selection with weights; its method, {picked.provenance.job}, defines none.")
    return picked


def describe(picked: cs.WeightedSelection, out: Path) -> list[tuple[str, str]]:
    """Return the lines that are shown about a selection, and add them to --json."""
    facts = [("rows selected", f"{len(picked):,} of {picked.n:,}"), ("losses asked", f"{picked.ledger.asked:,}")]
    tell(wrote=str(out), selected=len(picked), rows=picked.n, losses_asked=picked.ledger.asked, seed=picked.seed)
    if len(picked):
        weights, worth = picked.weights, picked.effective_size
        facts.append(("weights", f"{weights.min():,.2f} to {weights.max():,.2f}, {weights.sum():,.0f} in total"))
        facts.append(("worth", f"{worth:,.0f} rows of equal weight"))
        tell(weights={"least": weights.min(), "largest": weights.max(), "total": weights.sum()}, effective_size=worth)
    return facts


def numbers_of(answers: AnswerFile, column: str, picked: cs.Selection) -> Any:
    """Return a column's numbers for the selected rows."""
    vector = answers.numbers(column)(picked.ids, picked.names)
    bad = np.flatnonzero(~np.isfinite(vector))
    if bad.size:
        row = picked.ids[bad[0]] if picked.names is None else picked.names[bad[0]]
        raise InputError(
            f"{column} in {answers.path} must be finite numbers; row {row} has {vector[bad[0]]} "
            f"(unusable in {bad.size} of {len(picked)} rows)."
        )
    return vector


def losses_of_all(path: Path, rows: cs.rows.Rows) -> Any:
    """Return the losses of all rows."""
    ids = np.arange(rows.n)
    return AnswerFile(path).numbers("loss")(ids, rows.names(ids))
