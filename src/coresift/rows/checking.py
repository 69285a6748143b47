"""Check that a clustering or a selection belongs to the rows."""

from __future__ import annotations

from coresift.checks import InputError, refuse
from coresift.rows.base import Rows
from coresift.rows.tables import ColumnChoice, TableRows, rows_of_table
from coresift.rows.views import Standardized
from coresift.types import Clustering, Provenance, Selection, has_changed


def check_clustered(clustering: Clustering, rows: Rows) -> None:
    """Refuse a clustering of other rows, judged by their content."""
    if clustering.n != rows.n or clustering.fingerprint != rows.fingerprint():
        raise InputError(
            f"The clustering is of other rows ({clustering.n} of them), not of these {rows.n}; "
            "cluster these rows again."
        )


def as_selected(rows: Rows, selection: Selection) -> Rows:
    """Return the rows as a selection was made from them: the columns it used, standardized if they were.

    Raises:
        InputError: These are other rows, judged by their number and by the numbers in the selected rows; or they are
            standardized, and were not.
    """
    rows = _with_columns(rows, selection.provenance)
    if rows.n != selection.n:
        refuse("rows", f"the {selection.n} rows that were selected from", f"{rows.n} rows")
    if has_changed(selection.provenance.content, rows.content(selection.ids)):
        refuse("rows", "the rows that were selected from, in their order", "other numbers in the selected rows")
    standardized = rows.scaling is not None
    if selection.provenance.standardized is False and standardized:
        refuse("rows", "opened without standardize=True, as they were for the selection", "standardized rows")
    return rows.standardized() if selection.provenance.standardized and not standardized else rows


def _with_columns(rows: Rows, provenance: Provenance) -> Rows:
    """Return a table's rows with the columns that the selection used; other rows are returned unchanged."""
    table, columns = rows.table, provenance.columns
    if table is None or columns is None or rows.columns == columns or not set(columns) <= set(table.columns):
        return rows
    if not isinstance(rows, TableRows | Standardized):  # the ids of other views are not in the table
        return rows
    return rows_of_table(table, ColumnChoice(columns=columns))
