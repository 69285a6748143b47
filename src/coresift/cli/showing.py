"""How commands print their results: as text, as JSON, or not at all. Everything that is printed goes through here."""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coresift.cli.wording import flags_of, in_flags, reword
from coresift.errors import COMMANDS, CoresiftError, CoresiftWarning, clean, one_line
from coresift.progress import silence

if TYPE_CHECKING:
    from rich.table import Table

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object, and nothing else.")]


@dataclass
class Voice:
    """What a command may print, and its results so far."""

    loud: bool = True
    flags: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


VOICE: ContextVar[Voice | None] = ContextVar("voice", default=None)


def prepare_streams() -> None:
    """Make standard output and standard error escape characters that they cannot encode."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # it was closed before the process started
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def speaking(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options --quiet and --json, which control what it prints."""
    own = list(inspect.signature(verb, eval_str=True).parameters.values())
    kind, named = inspect.Parameter.KEYWORD_ONLY, flags_of(own)
    more = [
        inspect.Parameter("quiet", kind, default=False, annotation=Quiet),
        inspect.Parameter("as_json", kind, default=False, annotation=AsJson),
    ]

    @functools.wraps(verb)
    def run(*, quiet: bool = False, as_json: bool = False, **flags: Any) -> None:
        with _voice(loud=not (quiet or as_json), flags=named) as voice:
            try:
                verb(**flags)
            except typer.Exit:
                _print_facts(voice, as_json)
                raise
            except CoresiftError as error:
                reword(error, named)
                raise
            _print_facts(voice, as_json)

    run.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
    run.__annotations__ = {part.name: part.annotation for part in (*own, *more)}
    return run


@contextmanager
def _voice(*, loud: bool, flags: dict[str, str]) -> Iterator[Voice]:
    voice = Voice(loud, flags)
    token = VOICE.set(voice)
    try:
        if loud:
            yield voice
        else:
            with silence():
                yield voice
    finally:
        VOICE.reset(token)


def _print_facts(voice: Voice, as_json: bool) -> None:
    if as_json:
        from coresift.reporting.facts import plain

        facts = plain(voice.facts | ({"warnings": voice.warnings} if voice.warnings else {}))
        print(as_json_text(facts, sys.stdout.encoding))


def as_json_text(facts: Any, encoding: str | None = "utf-8") -> str:
    """Return JSON in characters of this encoding, with those escaped that a terminal interprets."""
    unicode = (encoding or "ascii").lower().replace("-", "").startswith("utf")
    text = json.dumps(facts, indent=1, ensure_ascii=not unicode, allow_nan=False)
    return COMMANDS.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def tell(**facts: Any) -> None:
    """Add to what --json prints."""
    voice = VOICE.get()
    if voice is not None:
        voice.facts |= facts


def show_facts(title: str, lines: list[tuple[str, str]]) -> None:
    """Print a title, and a line for each name and value."""
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in lines:
        table.add_row(one_line(name), one_line(value))
    show(title)
    if lines:
        _print(table)


def show_page(page: Path, facts: Path | None = None, lines: Iterable[tuple[str, str]] = ()) -> None:
    """Print where a web page was written, and how large it is; `facts` is the file with its numbers."""
    size = page.stat().st_size
    tell(wrote=[str(path) for path in (page, facts) if path is not None], bytes=size)
    title = f"Wrote {page}" + ("" if facts is None else f" and {facts}")
    show_facts(title, [("size", f"{size / 1e6:,.2f} MB, one file that works offline"), *lines])


def show_table(titles: Iterable[str], lines: Iterable[Sequence[str]]) -> None:
    """Print a table; cells are wrapped and never cut off, so that no digit is hidden."""
    from rich.table import Table

    table = Table()
    for title in titles:
        table.add_column(one_line(title), overflow="fold")
    for line in lines:
        table.add_row(*map(one_line, line))
    _print(table)


def show(text: str) -> None:
    """Print a text."""
    _print(clean(text))


def _print(what: str | Table) -> None:
    voice = VOICE.get()
    if voice is not None and not voice.loud:
        return
    from rich.console import Console

    # Texts from the user's data are not markup, and a file or a pipe has no width at which to break lines.
    width = None if sys.stdout.isatty() else 500
    Console(markup=False, emoji=False, highlight=False, width=width).print(what, soft_wrap=isinstance(what, str))


def show_warning(message: Any, category: type[Warning] = CoresiftWarning, *_: Any) -> None:
    """Print our own warnings, one line each; those of libraries are left out."""
    if issubclass(category, CoresiftWarning):
        voice = VOICE.get()
        text = str(message) if voice is None else in_flags(str(message), voice.flags)
        if voice is not None:
            voice.warnings.append(text)
        print(f"Warning: {one_line(text)}", file=sys.stderr)
