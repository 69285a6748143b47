"""How verbs show what they found."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from coresift.checks import CoresiftWarning


def show_facts(title: str, lines: list[tuple[str, str]]) -> None:
    """Print a title, and lines of a name and a value each."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in lines:
        table.add_row(name, value)
    show(title)
    show(table)


def show(what: str | Table) -> None:
    """Print a text or a table."""
    # What stands in the user's data is no markup, and a file or a pipe has no width to break lines at.
    width = None if sys.stdout.isatty() else 500
    Console(markup=False, emoji=False, highlight=False, width=width).print(what, soft_wrap=isinstance(what, str))


def show_warning(message: Any, category: type[Warning] = CoresiftWarning, *_: Any) -> None:
    """Print our own warnings as a line each; those of others are not the user's business."""
    if issubclass(category, CoresiftWarning):
        print(f"Warning: {message}", file=sys.stderr)
