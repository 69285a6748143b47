"""The command line: one short function a verb, each with an example in its help."""

# The order of the verbs in the help.
# isort: off
from coresift.cli.app import app, main
from coresift.cli import demo, embedding, selecting, estimating, regression, comparing, reporting
from coresift.cli import learning
# isort: on

__all__ = [
    "app",
    "comparing",
    "demo",
    "embedding",
    "estimating",
    "learning",
    "main",
    "regression",
    "reporting",
    "selecting",
]
