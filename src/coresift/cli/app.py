"""The command line itself: what all verbs share, and how their faults are told."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from coresift.checks import CoresiftError, CoresiftWarning
from coresift.cli.showing import clean, prepare_streams, show_warning
from coresift.version import __version__

HELP = {"help_option_names": ["-h", "--help"]}
# The headings in the help of a verb, in their order.
READING, CHOOSING, TEXTS, COMPUTING = "How ROWS are read", "How rows are chosen", "From texts", "Who computes"
HEADINGS = ("Arguments", "Options", READING, CHOOSING, TEXTS, COMPUTING)
UsageError: Any = typer.BadParameter.__base__  # click's, or that of the copy of click inside newer versions of typer


class Verb(TyperCommand):
    """A command whose help has a heading for each group of options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the options without a heading, then those of each heading."""
        sections: dict[str, list[tuple[str, str]]] = {heading: [] for heading in HEADINGS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                plain = "Arguments" if parameter.param_type_name == "argument" else "Options"
                sections.setdefault(getattr(parameter, "rich_help_panel", None) or plain, []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Verbs(TyperGroup):
    """The verbs in the order of a user's work: `start`, itself a group, before what goes on with it."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the verbs in their order."""
        names = super().list_commands(ctx)
        if "start" in names and "ask" in names:
            names.remove("start")
            names.insert(names.index("ask"), "start")
        return names


app = typer.Typer(cls=Verbs, rich_markup_mode=None, pretty_exceptions_enable=False, context_settings=HELP)


def verb(name: str | None = None, on: typer.Typer = app) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what makes a function a verb of the command line."""
    return on.command(name, cls=Verb)


def main() -> None:
    """Run the command line; what the user can mend is one sentence and exit status 2."""
    prepare_streams()
    warnings.showwarning = show_warning  # type: ignore[assignment]
    # Whatever PYTHONWARNINGS says: a reservation about a result does not undo it.
    warnings.filterwarnings("default", category=CoresiftWarning)
    try:
        status = app(standalone_mode=False)
        sys.stdout.flush()
        raise SystemExit(status)
    except UsageError as error:
        message = _usage(error)
    except BrokenPipeError:
        _let_go_of_output()
        raise SystemExit(1) from None
    except (CoresiftError, OSError) as error:
        message = str(error)
        _let_go_of_output()
    except MemoryError as error:
        message = f"There is not enough memory: {error or 'nothing more is known'}."
    except typer.Abort:
        raise SystemExit(130) from None
    print("Error:", clean(" ".join(message.split())), file=sys.stderr)
    raise SystemExit(2)


def _usage(error: Any) -> str:
    """Return what is wrong with the words of a command, and the nearest right one."""
    nearest = getattr(error, "possibilities", None)
    if nearest:
        return f"{error.message.rstrip('.')}; the nearest is {nearest[0]}."
    message: str = error.format_message().strip()
    return message.replace(". Did you mean ", "; the nearest is ").rstrip("?.") + "."


def _let_go_of_output() -> None:
    """Have the end of the process not fail once more because of what standard output could not take."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, sys.stdout.fileno())


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False,
) -> None:
    """Pick the few rows of a large data set that stand for all of it.

    Start with: coresift demo

    For completion of verbs and options by the Tab key: coresift --install-completion
    """
    if version:
        print(f"coresift {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
