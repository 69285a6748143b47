"""The command line itself: what all verbs share, and how their faults are told."""

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

from coresift.cli.showing import clean, prepare_streams, show_warning
from coresift.errors import CoresiftError, CoresiftWarning, ScaleWarning
from coresift.version import __version__

# The verbs in the order of a user's work, each with its module and its line in the help.
VERBS = {
    "demo": ("demo", "Select from 10,003 questions; compare with the truth."),
    "embed": ("embedding", "Embed a column of texts."),
    "cluster": ("selecting", "Cluster the rows once, for other verbs to use."),
    "select": ("selecting", "Select weighted rows that stand for all rows."),
    "plan": ("selecting", "Say what a selection will cost, before it runs."),
    "cover": ("covering", "Choose rows that cover all rows, to label or train on."),
    "active-learning": ("learning", "Label rows in rounds, the most instructive ones first."),
    "evaluate": ("evaluating", "Know a model's accuracy or another number from few answers."),
    "estimate": ("estimating", "Estimate totals and means over all rows."),
    "certify": ("estimating", "Say how far off the estimated total loss can be."),
    "diagnose": ("diagnosing", "Say whether a selection would beat a uniform sample."),
    "regression": ("regression", "Select weighted rows for least squares, and fit."),
    "compare-methods": ("comparing", "Compare methods where every loss is known."),
    "report": ("reporting", "Write a page that shows a selection."),
    "start": ("steps", "Start a job whose answers come later."),
    "ask": ("steps", "Write the rows that a run has to have answered next."),
    "tell": ("steps", "Tell a run answers: some or all of them."),
    "status": ("steps", "Say how far a run has come."),
}
LONGEST = 4_000  # characters of a sentence
HELP = {"help_option_names": ["-h", "--help"]}
# The headings in the help of a verb, in their order.
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
    """The verbs; the module of one is imported when it is used, so that the help of all of them takes no time."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the verbs in their order."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a verb; for a name that is none, every verb is loaded, to find the nearest one."""
        if cmd_name not in self.commands:
            for module in {VERBS[name][0] for name in VERBS if name == cmd_name or cmd_name not in VERBS}:
                import_module(f"coresift.cli.{module}")
            self.commands.update(get_group(app).commands)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line about each verb, without loading it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in VERBS.items()])


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
    warnings.filterwarnings("ignore", category=ScaleWarning)  # verbs say it beside the columns that they used
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
    """Return a message on one line, without keys in addresses, without what a terminal would obey, and not too long."""
    if ":/" in message:
        from coresift.tables.places import hide_secrets

        message = hide_secrets(message)
    message = clean(" ".join(message.split()))
    if len(message) > LONGEST:  # what stands in someone's file may be of any length
        message = f"{message[: LONGEST // 2]} … {message[-LONGEST // 2 :]}"
    return message


def _version() -> int:
    """Print the version at once, without the libraries that typer loads to read options."""
    print(f"coresift {__version__}")
    return 0


def _usage(error: Any) -> str:
    """Return what is wrong with the words of a command, and the nearest right one."""
    nearest = getattr(error, "possibilities", None)
    if nearest:
        return f"{error.message.rstrip('.')}; the nearest is {nearest[0]}."
    message: str = error.format_message().strip()
    return message.replace(". Did you mean ", "; the nearest is ").rstrip("?.") + "."


def _system(error: OSError) -> str:
    """Return what the system says as a sentence, with the file that it is about."""
    where = "" if error.filename is None else f"{error.filename}: "
    return f"{where}{error.strerror or error}.".replace("..", ".")


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
        raise typer.Exit(_version())
    if context.invoked_subcommand is None:
        print(context.get_help())
