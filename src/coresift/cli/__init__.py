"""The command line: one short function per verb, each with an example in its help."""

# The order of the verbs in the help.
# isort: off
from coresift.cli.app import app, main
from coresift.cli import demo, embedding, selecting, covering, learning, estimating, diagnosing, regression, comparing
from coresift.cli import reporting, steps
# isort: on

__all__ = [
    "app",
    "comparing",
    "covering",
    "demo",
    "diagnosing",
    "embedding",
    "estimating",
    "learning",
    "main",
    "regression",
    "reporting",
    "selecting",
    "steps",
]
