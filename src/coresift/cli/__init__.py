"""The command line: one short function per verb, each with an example in its help."""

from coresift.cli.app import app, main

__all__ = ["app", "main"]
