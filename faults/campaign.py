"""The campaign: kinds take turns until the time is over, and every case that fails is kept."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from faults.arrow_types import ArrowTypes
from faults.calling import Calls
from faults.cluster import Cluster
from faults.damaging import Damage
from faults.flips import Flips
from faults.forged import Forged
from faults.handmade import Handmade
from faults.kills import Kills
from faults.kind import Bench, Case, Kind
from faults.races import Races
from faults.reading import Reading
from faults.reproductions import Reproductions
from faults.results import Results
from faults.surroundings import Surroundings
from faults.words import Words

KINDS: dict[str, type[Kind]] = {
    "known": Reproductions,
    "kills": Kills,
    "flips": Flips,
    "reading": Reading,
    "damage": Damage,
    "races": Races,
    "calls": Calls,
    "words": Words,
    "types": ArrowTypes,
    "forged": Forged,
    "handmade": Handmade,
    "surroundings": Surroundings,
    "results": Results,
    "cluster": Cluster,
}
KEPT = Path(__file__).parent.parent / "tests" / "faults"


@dataclass
class Tally:
    """What came of one kind: how many cases, how many failed, and the processor seconds that they took."""

    kind: Kind
    cases: Iterator[Case]
    attempts: int = 0
    failures: list[str] = field(default_factory=list)
    used: float = 0.0
    done: bool = False


def campaign(
    seconds: float,
    seed: int,
    names: Sequence[str] = tuple(KINDS),
    *,
    most: int | None = None,
    keep: Path | None = KEPT,
    stop_at_failure: bool = False,
    originals: Path | None = None,
    tell: Callable[[str], None] = print,
    note: Callable[[dict[str, Tally]], None] = lambda tallies: None,
) -> dict[str, Tally]:
    """Run cases of these kinds until the seconds are over, or all kinds have no more.

    Args:
        seconds: How long, by the clock.
        seed: Seed of all random cases; each kind has a stream of its own.
        names: Which kinds.
        most: How many cases of each kind at most.
        keep: The folder for cases that fail.
        stop_at_failure: Whether the first failure ends it.
        originals: A folder of sound files to use, or to make.
        tell: Called with a line for each failure.
        note: Called about once a minute with what came of each kind so far; an interrupt ends the campaign early.

    Returns:
        What came of each kind, by name.
    """
    bench = Bench(originals)
    tallies = {}
    for name in names:
        kind = KINDS[name](bench)
        tallies[name] = Tally(kind, kind.cases(np.random.default_rng([seed, list(KINDS).index(name)])))
    end, noted = time.monotonic() + seconds, time.monotonic()
    try:
        while time.monotonic() < end:
            if time.monotonic() > noted + 60:
                note(tallies)
                noted = time.monotonic()
            open_ones = [name for name, tally in tallies.items() if not tally.done]
            if not open_ones or (stop_at_failure and any(tally.failures for tally in tallies.values())):
                break
            name = min(open_ones, key=lambda name: tallies[name].used / tallies[name].kind.share)
            _turn(name, tallies[name], most, keep, tell)
    except KeyboardInterrupt:
        tell("interrupted")
    finally:
        for tally in tallies.values():
            tally.kind.close()
        bench.close()
    return tallies


def _turn(name: str, tally: Tally, most: int | None, keep: Path | None, tell: Callable[[str], None]) -> None:
    before = _processor()
    room = tally.kind.together if most is None or tally.kind.whole else min(tally.kind.together, most - tally.attempts)
    cases = list(islice(tally.cases, room))
    if not cases:
        tally.done = True
        return
    tally.attempts += len(cases)
    try:
        problems = tally.kind.problems(cases)
    except Exception as error:
        problems = [f"the campaign itself failed: {error!r}"] * len(cases)
    tally.used += _processor() - before
    for case, problem in zip(cases, problems, strict=True):
        if problem is not None:
            tally.failures.append(problem)
            kept = "" if keep is None else f" ({_keep(name, case, problem, keep).name})"
            tell(f"{tally.kind.name}: {problem}{kept}")


def _processor() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _keep(name: str, case: Case, problem: str, folder: Path) -> Path:
    """Write a case that failed, for `replay` and for the tests."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"kind": name, "case": case, "problem": problem}, indent=1, ensure_ascii=True)
    path = folder / f"{name}-{hashlib.blake2b(json.dumps(case).encode(), digest_size=5).hexdigest()}.json"
    path.write_text(text + "\n")
    return path


def replay(path: Path, bench: Bench) -> str | None:
    """Run a kept case again; return what is wrong, None if nothing is any more."""
    kept = json.loads(path.read_text())
    kind = KINDS[kept["kind"]](bench)
    try:
        return kind.problem(kept["case"])
    finally:
        kind.close()


def counts(tallies: dict[str, Tally]) -> dict[str, dict[str, Any]]:
    """Return what came of each kind as numbers: cases, failures, processor seconds, and kills where there are any."""
    found = {}
    for name, tally in tallies.items():
        found[name] = {"cases": tally.attempts, "failures": len(tally.failures), "cpu": round(tally.used, 1)}
        if tally.kind.remark():
            found[name]["remark"] = tally.kind.remark()
    return found


def table(tallies: dict[str, Tally]) -> str:
    """Return the table of attempts and failures; every case has a process of its own."""
    lines = ["| kind | cases in child processes | failures | CPU s |", "|---|---|---|---|"]
    for tally in tallies.values():
        name = tally.kind.name + (f" ({remark})" if (remark := tally.kind.remark()) else "")
        lines.append(f"| {name} | {tally.attempts:,} | {len(tally.failures)} | {tally.used:,.0f} |")
    attempts = sum(tally.attempts for tally in tallies.values())
    failures, used = (
        sum(len(tally.failures) for tally in tallies.values()),
        sum(tally.used for tally in tallies.values()),
    )
    return "\n".join([*lines, f"| all | {attempts:,} | {failures} | {used:,.0f} |"])
