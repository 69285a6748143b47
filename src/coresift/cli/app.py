"""The command line itself: what all commands share, and how errors are shown."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from coresift.cli.showing import prepare_streams, show_warning
from coresift.errors import CoresiftError, CoresiftWarning, ScaleWarning, clean
from coresift.version import __version__

# The commands in the order in which a user needs them, each with its module and its line in the help.
VERBS = {
    "demo": ("demo", "Label, evaluate and summarize 10,003 questions."),
    "embed": ("embedding", "Compute embeddings of a column of texts."),
    "cluster": ("selecting", "Cluster the rows once, for other commands to use."),
    "select": ("selecting", "Select weighted rows that stand for all rows."),
    "grow": ("selecting", "Add rows to a selection, and keep the earlier ones."),
    "plan": ("selecting", "Predict what a selection will cost."),
    "cover": ("covering", "Choose rows that cover all rows, to label or train on."),
    "active-learning": ("learning", "Label rows in rounds, the most informative ones first."),
    "evaluate": ("evaluating", "Measure a model's accuracy from few answers."),
    "estimate": ("estimating", "Estimate totals and means over all rows."),
    "certify": ("estimating", "Show how far off the estimated total loss can be."),
    "diagnose": ("diagnosing", "Predict whether a selection would beat a uniform sample."),
    "regression": ("regression", "Select weighted rows for least squares, and fit."),
    "compare-methods": ("comparing", "Compare methods on data whose losses are all known."),
    "report": ("reporting", "Write a web page that shows a selection."),
    "start": ("steps", "Start a run whose answers come later."),
    "ask": ("steps", "Write the rows that a run needs answers for."),
    "tell": ("steps", "Hand in answers, some or all of them."),
    "status": ("steps", "Show how far a run is."),
}
LONGEST = 4_000  # characters of an error message
HELP = {"help_option_names": ["-h", "--help"]}
# The headings in the help of a command, in their order.
READING, CHOOSING, TEXTS, COMPUTING = "How ROWS are read", "How rows are chosen", "From texts", "Computing"
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
    """The commands; each module is imported when it is needed, so that `coresift --help` is fast."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in their order."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; for an unknown name, load all of them, to suggest the nearest one."""
        if cmd_name not in self.commands:
            for module in {VERBS[name][0] for name in VERBS if name == cmd_name or cmd_name not in VERBS}:
                import_module(f"coresift.cli.{module}")
            self.commands.update(get_group(app).commands)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line about each command, without loading it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in VERBS.items()])


app = typer.Typer(cls=Verbs, rich_markup_mode=None, pretty_exceptions_enable=False, context_settings=HELP)


def verb(name: str | None = None, on: typer.Typer = app) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that makes a function a command."""
    return on.command(name, cls=Verb)


def main() -> None:
    """Run the command line; an error that the user can fix is one sentence, with exit status 2."""
    prepare_streams()
    warnings.showwarning = show_warning  # type: ignore[assignment]
    # Whatever PYTHONWARNINGS says, a warning must not stop a command that has a result.
    warnings.filterwarnings("default", category=CoresiftWarning)
    warnings.filterwarnings("ignore", category=ScaleWarning)  # commands show it beside the columns that they used
    try:
        status = _version() if sys.argv[1:] == ["--version"] else app(standalone_mode=False)
        sys.stdout.flush()
        raise SystemExit(status)
    except UsageError as error:
        message = _usage(error)
    except BrokenPipeError:
        _let_go_of_output()
        raise SystemExit(1) from None
    except CoresiftError as error:
        message = str(error)
        _let_go_of_output()
    except OSError as error:
        message = _system(error)
        _let_go_of_output()
    except MemoryError as error:
        message = f"There is not enough memory: {error or 'nothing more is known'}."
    except typer.Abort:
        raise SystemExit(130) from None
    print("Error:", _shown(message), file=sys.stderr)
    raise SystemExit(2)


def _shown(message: str) -> str:
    """Return a message on one line: keys are hidden, control characters are escaped, and the length is limited."""
    if ":/" in message:
        from coresift.tables.places import hide_secrets

        message = hide_secrets(message)
    message = clean(" ".join(message.split()))
    if len(message) > LONGEST:  # a value from a file can be of any length
        message = f"{message[: LONGEST // 2]} … {message[-LONGEST // 2 :]}"
    return message


def _version() -> int:
    """Print the version without loading the libraries that typer needs to read options."""
    print(f"coresift {__version__}")
    return 0


def _usage(error: Any) -> str:
    """Return what is wrong with the arguments, and the nearest right one."""
    nearest = getattr(error, "possibilities", None)
    if nearest:
        return f"{error.message.rstrip('.')}; the nearest is {nearest[0]}."
    message: str = error.format_message().strip()
    return message.replace(". Did you mean ", "; the nearest is ").rstrip("?.") + "."


def _system(error: OSError) -> str:
    """Return the message of the operating system as a sentence, with the file that it is about."""
    where = "" if error.filename is None else f"{error.filename}: "
    return f"{where}{error.strerror or error}.".replace("..", ".")


def _let_go_of_output() -> None:
    """Keep Python from failing again at exit when standard output could not be written."""
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
    """Pick the few rows of a large data set that you should label, train on or evaluate.

    Start here: coresift demo

    Example: coresift select embeddings.npy --budget 2000 --out picked.parquet

    Each command has its own help with an example: coresift select --help

    For completion with the Tab key: coresift --install-completion
    """
    if version:
        raise typer.Exit(_version())
    if context.invoked_subcommand is None:
        print(context.get_help())
