"""What a command came to, and what it must have come to."""

from __future__ import annotations

import re
from typing import NamedTuple


class Outcome(NamedTuple):
    status: int | str | None
    out: str
    err: str


def succeeded(outcome):
    assert outcome.status == 0, outcome.err
    assert outcome.err == ""
    return outcome.out


def refused(outcome):
    """Return the one sentence of an outcome that must be nothing else."""
    assert outcome.status == 2
    assert outcome.out == ""
    assert re.fullmatch(r"Error: [^\n]+\.\n", outcome.err), outcome.err
    return outcome.err.removeprefix("Error: ").removesuffix("\n")
