"""The errors and warnings of coresift."""

import re
import sys
import warnings

# Characters that a terminal interprets: control characters, and marks that change the writing direction.
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_LINES = re.compile("[\t\n\u2028\u2029]")


def clean(text: str) -> str:
    r"""Escape the characters that a terminal interprets.

    >>> clean("\x1b[31mred")
    '\\x1b[31mred'
    """
    return COMMANDS.sub(_escaped, text)


def one_line(text: str) -> str:
    r"""Escape line breaks and tabs, too.

    >>> one_line("one\ntwo")
    'one\\ntwo'
    """
    return _LINES.sub(_escaped, clean(text))


def _escaped(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode()


class CoresiftError(Exception):
    """The base class of all errors that coresift raises; the message is a full sentence, in one line.

    Examples:
        >>> import coresift as cs
        >>> try:
        ...     cs.load("missing.parquet")
        ... except cs.CoresiftError as error:
        ...     print(error)
        There is no file missing.parquet.
    """

    def __init__(self, message: str = "", *rest: object) -> None:
        super().__init__(one_line(message), *rest)


class InputError(CoresiftError, ValueError):
    """An argument, file or row is unusable."""


class AnswerError(CoresiftError, RuntimeError):
    """The source of losses or labels failed, or gave an unusable answer."""


class CoresiftWarning(UserWarning):
    """The result is usable, with the stated caveat."""


class ScaleWarning(CoresiftWarning):
    """Columns are on very different scales, so one column dominates all distances."""


def install_hint(extra: str) -> str:
    """Return how to install an optional part of coresift, as a part of an error message.

    >>> install_hint("plots")
    'run pip install ".[plots]" in a clone of coresift'
    """
    return f'run pip install ".[{extra}]" in a clone of coresift'


def warn(message: str, category: type[CoresiftWarning] = CoresiftWarning) -> None:
    """Issue a warning that points to the user's own line, however deep inside coresift this is called."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "coresift":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
