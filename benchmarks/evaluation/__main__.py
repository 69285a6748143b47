"""Compare coresift's evaluation with uniform rows, ppi-python, active inference, glide and FAQ, with known truth.

pip install '.[benchmarks]'
python -m benchmarks.evaluation                 run what is missing (up to 2,000 seeds), then write the report
python -m benchmarks.evaluation --seeds 100     fewer seeds
python -m benchmarks.evaluation --report        only write the report, from the stored runs
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
    parser.add_argument("--population", nargs="+", help="run only these populations")
    parser.add_argument("--method", nargs="+", default=list(methods()), choices=list(methods()))
    parser.add_argument("--report", action="store_true", help="only write the report, without new runs")
    options = parser.parse_args()
    if not options.report:
        for line in run(options.seeds, options.population or names(), options.method):
            print(line, flush=True)
        for name in [] if options.population else history_study.CASES:
            for line in history_study.run(name):
                print(line, flush=True)
    print(write_report(RESULTS.parent))


if __name__ == "__main__":
    main()
