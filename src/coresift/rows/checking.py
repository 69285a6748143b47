"""Is this the clustering of these rows?"""

from __future__ import annotations

from coresift.checks import InputError
from coresift.rows.base import Rows
from coresift.types import Clustering


def check_clustered(clustering: Clustering, rows: Rows) -> None:
    """Refuse a clustering of other rows: one rule for everyone, by the content of the rows."""
    if clustering.n != rows.n or clustering.fingerprint != rows.fingerprint():
        raise InputError(
            f"The clustering is of other rows ({clustering.n} of them) than these {rows.n}; cluster these rows again."
        )
