"""What coresift raises and warns of."""

import sys
import warnings


class CoresiftError(Exception):
    """Anything that coresift itself reports to its user; the message is a full sentence.

    Examples:
        >>> import coresift as cs
        >>> try:
        ...     cs.load("missing.parquet")
        ... except cs.CoresiftError as error:
        ...     print(error)
        There is no file missing.parquet.
    """


class InputError(CoresiftError, ValueError):
    """An argument, file or row that cannot be used."""


class AnswerError(CoresiftError, RuntimeError):
    """The source of losses or labels failed, or answered with something that cannot be used."""


class CoresiftWarning(UserWarning):
    """The result is usable, with the stated reservation."""


class ScaleWarning(CoresiftWarning):
    """Columns are on very different scales, so that distances are almost one column's alone."""


def warn(message: str, category: type[CoresiftWarning] = CoresiftWarning) -> None:
    """Warn at the line outside of coresift that has called it, however deep in it this is."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "coresift":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
