"""Bits flipped, lines moved and stretches removed in state files: the same result or a refusal, never another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from faults.jobs import STATEFUL, asked_in, contents
from faults.judging import crashed
from faults.kind import Bench, Case, Kind
from faults.processes import Outcome, run

LINES = ("remove", "double", "swap", "garbage", "stretch")


class Flips(Kind):
    """A state file that is not what it was gives the same result, or is refused and left alone."""

    name: ClassVar[str] = "bits flipped in state files"
    share: ClassVar[float] = 2.0

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._whole: dict[str, tuple[bytes, dict[str, bytes | None], int]] = {}

    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield a flip of each job's file in turn, and changes of whole lines in between."""
        while True:
            for name in STATEFUL:
                size = len(self._reference(name)[0])
                for _ in range(6):
                    yield {"job": name, "bit": int(rng.integers(8 * size))}
                yield {"job": name, "lines": str(rng.choice(LINES)), "seed": int(rng.integers(2**31))}

    def _reference(self, name: str) -> tuple[bytes, dict[str, bytes | None], int]:
        if name not in self._whole:
            job = STATEFUL[name]
            with self.bench.folder() as folder:
                outcome = run(job.run, folder, cpu=60)
                if outcome.status:
                    raise RuntimeError(f"The job {name} fails undisturbed: {outcome.err}")
                whole = (folder / str(job.state)).read_bytes()
                self._whole[name] = (whole, contents(job.outs, folder), len(asked_in(folder)))
        return self._whole[name]

    def problem(self, case: Case) -> str | None:
        """Run the job with the changed file."""
        job, (whole, expected, _) = STATEFUL[case["job"]], self._reference(case["job"])
        content = changed(whole, case)
        with self.bench.folder() as folder:
            (folder / str(job.state)).write_bytes(content)
            outcome = run(_refusing(job.run), folder)
            if outcome.status == 2:
                return None if (folder / str(job.state)).read_bytes() == content else "is refused, but was changed"
            if outcome.status == 0:
                return None if contents(job.outs, folder) == expected else "another result, and no word of it"
            return self._broken(outcome)

    def _broken(self, outcome: Outcome) -> str:
        return crashed(outcome) or f"exit {outcome.status}"


def changed(whole: bytes, case: Case) -> bytes:
    """Return the content with a bit flipped, or with its lines changed."""
    if "bit" in case:
        content = bytearray(whole)
        bit = case["bit"] % (8 * len(whole))  # a stored case stays one, whatever the file is later
        content[bit // 8] ^= 1 << bit % 8
        return bytes(content)
    rng, lines = np.random.default_rng(case["seed"]), whole.splitlines(keepends=True)
    at, to = (int(place) for place in rng.integers(len(lines), size=2))
    if case["lines"] == "remove":
        del lines[at]
    elif case["lines"] == "double":
        lines.insert(to, lines[at])
    elif case["lines"] == "swap":
        lines[at], lines[to] = lines[to], lines[at]
    elif case["lines"] == "garbage":
        lines[at] = rng.bytes(len(lines[at])) + b"\n"
    else:
        start, stop = sorted(int(place) for place in rng.integers(len(whole), size=2))
        return whole[:start] + whole[stop:]
    return b"".join(lines)


def _refusing(job: Any) -> Any:
    """Return the job with a refusal as exit status 2."""

    def run() -> int:
        import coresift as cs

        try:
            job()
        except cs.CoresiftError as error:
            sentence = str(error)
            return 2 if "\n" not in sentence and sentence.endswith((".", "?")) else 3
        return 0

    return run
