"""The command line itself: what all verbs share, and how their faults are told."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer

import coresift as cs
from coresift.checks import CoresiftError
from coresift.cli.showing import show_warning

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
UsageError: Any = typer.BadParameter.__base__  # click's, or that of the copy of click inside newer versions of typer


def main() -> None:
    """Run the command line; what the user can mend is one sentence and exit status 2."""
    warnings.showwarning = show_warning  # type: ignore[assignment]
    try:
        raise SystemExit(app(standalone_mode=False))
    except UsageError as error:
        message = error.format_message().strip().rstrip(".") + "."
    except (CoresiftError, OSError) as error:
        message = str(error)
    except MemoryError as error:
        message = f"There is not enough memory: {error or 'nothing more is known'}."
    except typer.Abort:
        raise SystemExit(130) from None
    print("Error:", " ".join(message.split()), file=sys.stderr)
    raise SystemExit(2)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False,
) -> None:
    """Pick the few rows of a large data set that stand for all of it.

    Start with: coresift demo
    """
    if version:
        print(f"coresift {cs.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
