"""The command: `python -m repro NAME`."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from coresift.checks import CoresiftError
from repro.data import home
from repro.results import RESULTS, Experiment, Setting, write_readme, write_report

NAMES = {
    "holder-table": "repro.holder_table",
    "loss-histogram": "repro.loss_histogram",
    "images-table": "repro.images_table",
    "images-curves": "repro.images_curves",
    "runtimes": "repro.runtimes",
    "regression": "repro.regression",
    "translation": "repro.translation",
    "translation-holder": "repro.translation_holder",
    "translation-paper": "repro.translation_paper",
    "language-model": "repro.language_model",
}
QUICK = Path(__file__).parent / ".quick"


def main(words: list[str] | None = None) -> int:
    """Run one reproduction, or list all of them."""
    arguments = parser().parse_args(words)
    if arguments.list or arguments.name is None:
        show_list()
        return 0
    try:
        experiment = load(arguments.name)
        out = arguments.out or (QUICK if arguments.quick else RESULTS)
        setting = Setting(home(arguments.data_home), out, arguments.quick, arguments.minutes, arguments.runs)
        if not arguments.report:
            experiment.run(setting)
        report = experiment.report(setting)
        write_report(setting, experiment, report)
        path = write_readme(setting, [load(name) for name in NAMES])
    except CoresiftError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    for line in report.lines:
        print(f"{line.what}: paper {line.paper}, ours {line.ours} ({line.runs} runs), {line.difference}")
    print(f"{report.verdict}\nSee {path}.")
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    arguments = argparse.ArgumentParser("python -m repro", description="Reproduce a table or figure of the paper.")
    arguments.add_argument(
        "name", nargs="?", choices=list(NAMES), metavar="NAME", help="the study; --list shows all names"
    )
    arguments.add_argument("--list", action="store_true", help="list all studies and their costs")
    arguments.add_argument("--quick", action="store_true", help="run a short version, to see that everything works")
    arguments.add_argument(
        "--report", action="store_true", help="only write table, plot and README, from the stored runs"
    )
    arguments.add_argument("--data-home", type=Path, help="folder of the data sets")
    arguments.add_argument("--out", type=Path, help="folder for results; by default repro/results, or repro/.quick")
    arguments.add_argument("--runs", type=count, help="the number of runs, instead of the study's own")
    arguments.add_argument(
        "--minutes", type=float, default=float("inf"), help="start no run after this time; call again to continue"
    )
    return arguments


def count(word: str) -> int:
    """Parse a positive whole number."""
    if not word.isdigit() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number above 0; got {word!r}")
    return int(word)


def load(name: str) -> Experiment:
    """Return an experiment by its name; this imports its libraries."""
    experiment: Experiment = importlib.import_module(NAMES[name]).EXPERIMENT
    return experiment


def show_list() -> None:
    """Print each name with the first paragraphs of its file."""
    for name in NAMES:
        experiment = load(name)
        print(f"{name}\n  {experiment.title}.\n  {experiment.about}")


if __name__ == "__main__":
    sys.exit(main())
