"""Check that a clustering belongs to the rows."""

from __future__ import annotations

from coresift.checks import InputError
from coresift.rows.base import Rows
from coresift.types import Clustering


def check_clustered(clustering: Clustering, rows: Rows) -> None:
    """Refuse a clustering of other rows, judged by their content."""
    if clustering.n != rows.n or clustering.fingerprint != rows.fingerprint():
        raise InputError(
            f"The clustering is of other rows ({clustering.n} of them), not of these {rows.n}; "
            "cluster these rows again."
        )
