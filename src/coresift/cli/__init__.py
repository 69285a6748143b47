"""The command line: one short function per verb, each with an example in its help."""

# The order of the verbs in the help.
# isort: off
from coresift.cli.app import app, main
from coresift.cli import demo, embedding, selecting, covering, estimating, diagnosing, regression, comparing, reporting
from coresift.cli import steps
# isort: on

__all__ = [
    "app",
    "comparing",
    "covering",
    "demo",
    "diagnosing",
    "embedding",
    "estimating",
    "main",
    "regression",
    "reporting",
    "selecting",
    "steps",
]
