"""The files that verbs read and write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from coresift.answers import AnswerFile, MissingRowsError
from coresift.checks import InputError
from coresift.cli.showing import tell
from coresift.storage import SELECTION_SUFFIXES
from coresift.tables.finding import BINARY
from coresift.tables.writing import check_target, write_table


def check_out(out: Path, what: str, *sources: str | Path | None, flag: str = "--out") -> None:
    """Refuse a target of another kind, or one of the files that are read."""
    check_target(out, SELECTION_SUFFIXES, what)
    for source in (Path(source) for source in sources if source is not None):
        if source.is_dir() and out.parent.samefile(source) and _would_be_rows(out, source):
            raise InputError(f"{flag} must not lie in {source}, whose files are the rows; got {out}.")
        if source.exists() and out.exists() and out.samefile(source):
            raise InputError(f"{flag} must be another file than {source}, which is read.")


def _would_be_rows(out: Path, folder: Path) -> bool:
    """Say whether a file of this kind, in a folder of rows, would be rows the next time."""
    kinds = {file.suffix.lower() for file in folder.iterdir()}
    return out.suffix == ".parquet" or (out.suffix in kinds and not kinds & {".npy", *BINARY})


@contextmanager
def explaining(advice: str) -> Iterator[None]:
    """Say what the reason is, as a rule, when a file lacks rows."""
    try:
        yield
    except MissingRowsError as error:
        raise InputError(f"{error} {advice}") from error


def has_column(path: Path, column: str) -> bool:
    """Say whether a file is there and has that column."""
    try:
        return path.exists() and column in AnswerFile(path).columns
    except InputError:
        return False


def write_rows(path: Path, ids: Any, names: list[Any] | None, columns: Any = None) -> None:
    """Write row numbers, ids where rows have them, and the columns of a table beside them."""
    import pyarrow as pa

    table = pa.table({"row": ids} if names is None else {"row": ids, "id": names})
    for name in [] if columns is None else columns.column_names:
        table = table.append_column(name, columns[name])
    write_table(table, path)


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
    """Return what is shown of a selection that was written, and tell it to --json."""
    facts = [("rows selected", f"{len(picked):,} of {picked.n:,}"), ("losses asked", f"{picked.ledger.asked:,}")]
    tell(wrote=str(out), selected=len(picked), rows=picked.n, losses_asked=picked.ledger.asked, seed=picked.seed)
    if len(picked):
        weights, worth = picked.weights, picked.effective_size
        facts.append(("weights", f"{weights.min():,.2f} to {weights.max():,.2f}, {weights.sum():,.0f} in all"))
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
            f"({bad.size} of {len(picked)} rows are like that)."
        )
    return vector


def losses_of_all(path: Path, rows: cs.rows.Rows) -> Any:
    """Return the losses of all rows."""
    ids = np.arange(rows.n)
    return AnswerFile(path).numbers("loss")(ids, rows.names(ids))
