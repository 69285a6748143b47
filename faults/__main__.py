"""`python -m faults --seconds 3600 --seed 0`: the campaign, its table, and exit status 1 if anything failed."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from faults import record
from faults.campaign import KEPT, KINDS, Tally, campaign, counts, replay, table
from faults.kind import Bench
from faults.processes import warm


def main() -> int:
    """Run the campaign, or cases that were kept."""
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long, by the clock (default 600)")
    parser.add_argument("--seed", type=int, default=0, help="of all random cases (default 0)")
    parser.add_argument("--only", default=",".join(KINDS), help=f"kinds, with commas: {', '.join(KINDS)}")
    parser.add_argument("--most", type=int, help="at most so many cases of each kind")
    parser.add_argument("--keep", type=Path, default=KEPT, help="folder for cases that fail (default tests/faults)")
    parser.add_argument(
        "--originals", type=Path, help="folder of sound files, made unless it is there (default: a new one)"
    )
    parser.add_argument("--stop", action="store_true", help="stop at the first failure")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE", help="run cases that were kept instead")
    record.add_option(parser)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what came of it so far is told and recorded
    warm()
    if options.replay:
        return _replay(options.replay)
    began = time.monotonic()

    def tell(tallies: dict[str, Tally]) -> None:
        cases, failures = (sum(numbers) for numbers in zip(*map(_numbers, tallies.values()), strict=True))
        remarks = [remark for tally in tallies.values() if (remark := tally.kind.remark())]
        said = f"{cases:,} cases, {failures} failures; {'; '.join(remarks)}"
        print(f"{time.monotonic() - began:,.0f} s: {said}", file=sys.stderr, flush=True)

    tallies = campaign(
        options.seconds,
        options.seed,
        options.only.split(","),
        most=options.most,
        keep=options.keep,
        stop_at_failure=options.stop,
        originals=options.originals,
        tell=lambda line: print(line, flush=True),
        note=tell,
    )
    seconds = round(time.monotonic() - began)
    print(f"Seed {options.seed}, {seconds:,} s by the clock.\n\n{table(tallies)}\n")
    if options.record is not None:
        record.add(options.record, "campaign", seed=options.seed, seconds=seconds, kinds=counts(tallies))
    return int(any(tally.failures for tally in tallies.values()))


def _numbers(tally: Tally) -> tuple[int, int]:
    return tally.attempts, len(tally.failures)


def _replay(paths: list[Path]) -> int:
    bench, wrong = Bench(), 0
    try:
        for path in paths:
            problem = replay(path, bench)
            wrong += problem is not None
            print(f"{path.name}: {problem or 'all is well'}", flush=True)
    finally:
        bench.close()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
