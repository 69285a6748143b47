"""The tiers of tests hold for the examples in docstrings, too, so they are set up here."""

from tiers import pytest_collection_modifyitems, pytest_ignore_collect, pytest_xdist_make_scheduler

__all__ = ["pytest_collection_modifyitems", "pytest_ignore_collect", "pytest_xdist_make_scheduler"]
