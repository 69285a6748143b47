"""The libraries of the extra, imported where they are used; if one is missing, the error has the install command."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from coresift.checks import CoresiftError

INSTALL = "pip install 'coresift[models]'"


class MissingExtraError(CoresiftError, ImportError):
    """A library that is needed is not installed; the message has the command that installs it."""


def need(library: str) -> Any:
    """Import a library of the extra, or say how to install it.

    >>> need("no_such_library")
    Traceback (most recent call last):
        ...
    coresift.models.extra.MissingExtraError: This needs no_such_library, which is not installed: \
pip install 'coresift[models]'.
    """
    try:
        return import_module(library)
    except ModuleNotFoundError as error:
        name = library.partition(".")[0]
        raise MissingExtraError(f"This needs {name}, which is not installed: {INSTALL}.") from error
