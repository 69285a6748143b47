"""Imports of the libraries in the extra `models`; if one is missing, the error says how to install it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from coresift.errors import CoresiftError, install_hint


class MissingExtraError(CoresiftError, ImportError):
    """A required library is not installed; the message says how to install it."""


def need(library: str) -> Any:
    """Import a library of the extra `models`, or raise an error that says how to install it.

    >>> need("no_such_library")
    Traceback (most recent call last):
        ...
    coresift.models.extra.MissingExtraError: This needs no_such_library, which is not installed: \
run pip install ".[models]" in a clone of coresift.
    """
    try:
        return import_module(library)
    except ModuleNotFoundError as error:
        name = library.partition(".")[0]
        raise MissingExtraError(f"This needs {name}, which is not installed: {install_hint('models')}.") from error
