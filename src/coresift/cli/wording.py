"""Translate error messages of the library for the command line, where arguments are flags."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from typer.models import OptionInfo

# Phrases that Python and the command line write differently.
PHRASES = {
    "recipe=cs.recipes.paper(holder=...)": "--paper HOLDER",
    "recipe=cs.recipes.paper(holder=0.1)": "--paper 0.1",
}
# The same for phrases that vary.
PATTERNS = {
    r"a callable of row numbers, an array of \w+, or (?=a \.parquet)": "",
    r"(?<=, which is not a file); if it is a column, .*(?=\.$)": "; a column of the table goes there with row or id",
    r"metric=cs\.evaluation\.\w+\(positive=\.\.\.\)": "--positive CLASS",
}
CANNOT_TELL = "None if nobody can tell"
PLURALS = {"exclude_column": "exclude_columns"}


def flags_of(parameters: Iterable[inspect.Parameter]) -> dict[str, str]:
    """Return the flags of a command by the names of the library's arguments."""
    flags: dict[str, str] = {}
    for part in parameters:
        for option in get_args(part.annotation):
            if isinstance(option, OptionInfo):
                named = [name for name in option.param_decls or () if name.startswith("--")]
                flag = named[0] if named else f"--{part.name.replace('_', '-')}"
                flags |= {part.name: flag, PLURALS.get(part.name, part.name): flag}
    return flags


def in_flags(sentence: str, flags: Mapping[str, str]) -> str:
    """Return a sentence with flags in place of arguments.

    >>> in_flags("budget must say how many rows to select; got none.", {"budget": "--budget"})
    '--budget must say how many rows to select; got none.'
    >>> in_flags("Row 3 has an answer; with correct=True it gets another.", {"correct": "--correct"})
    'Row 3 has an answer; with --correct it gets another.'
    >>> in_flags("score=Learned(floor=0.5) asks for losses.", {"score": "--score", "losses": "--losses"})
    '--score Learned(floor=0.5) asks for losses.'
    """
    for phrase, words in PHRASES.items():
        sentence = sentence.replace(phrase, words)
    for pattern, words in PATTERNS.items():
        sentence = re.sub(pattern, words, sentence)
    nothing = "the word of --cannot-tell" if "cannot_tell" in flags else "an empty cell if nobody can tell"
    sentence = sentence.replace(CANNOT_TELL, nothing)
    sentence = re.sub(r"\bcs\.(?:pilots|scores|designs)\.", "", sentence)
    for name, flag in flags.items():
        sentence = re.sub(rf"(?<![\w(.-]){name}=True\b", flag, sentence)
        sentence = re.sub(rf"(?<![\w(.-]){name}=(?=\S)", f"{flag} ", sentence)
        sentence = re.sub(rf"\b(needs|with|give|leave|or) {name}(?=[,;.]| out\b)", rf"\1 {flag}", sentence)
        sentence = re.sub(rf"^{name}(?= (?:must|is|goes|replaces|needs|leaves|says)\b)", flag, sentence)
    return sentence


def reword(error: Exception, flags: Mapping[str, str]) -> None:
    """Rewrite the message of an error for the command line."""
    if error.args and isinstance(error.args[0], str):
        rest: tuple[Any, ...] = error.args[1:]
        error.args = (in_flags(error.args[0], flags), *rest)


def differences(before: Any, name: str, arguments: Mapping[str, Any], flags: Mapping[str, str]) -> str:
    """Say how the arguments in a state file differ from those of this start."""
    if not isinstance(before, dict):
        return "which Python started"
    if before.get("job") != name:
        return f"of {before.get('job')}"
    changed = [argument for argument, value in arguments.items() if before.get(argument) != value]
    return "; ".join(
        f"{flags.get(argument, argument.upper())} {_written(before.get(argument))} then, "
        f"{_written(arguments[argument])} now"
        for argument in changed
    )


def _written(value: Any) -> str:
    """Return an argument as on the command line."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "left out" if value in (None, "") else str(value)
