"""Compare evaluations: ours, uniform rows, ppi-python, active inference, glide and FAQ, on populations of known truth.

pip install '.[benchmarks]'
python -m benchmarks.evaluation                 run what is missing (1,000 seeds), then write the report
python -m benchmarks.evaluation --seeds 100     fewer seeds
python -m benchmarks.evaluation --report        only write the report from the runs that are kept
"""

from __future__ import annotations

import argparse

from benchmarks.evaluation import history_study
from benchmarks.evaluation.populations import names
from benchmarks.evaluation.report import write_report
from benchmarks.evaluation.study import RESULTS, SEEDS, methods, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--population", nargs="+", help="only these, by name")
    parser.add_argument("--method", nargs="+", default=list(methods()), choices=list(methods()))
    parser.add_argument("--report", action="store_true", help="run nothing")
    given = parser.parse_args()
    if not given.report:
        for made in run(given.seeds, given.population or names(), given.method):
            print(made, flush=True)
        for name in [] if given.population else history_study.CASES:
            for made in history_study.run(name):
                print(made, flush=True)
    print(write_report(RESULTS.parent))


if __name__ == "__main__":
    main()
