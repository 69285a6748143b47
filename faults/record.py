"""What campaigns came to, one JSON object per line, and the page made of them.

python -m faults.record             writes benchmarks/results/faults.md from faults.jsonl
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"
RECORD = RESULTS / "faults.jsonl"


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the flag with which a command adds what came of it to the record."""
    parser.add_argument(
        "--record",
        type=Path,
        nargs="?",
        const=RECORD,
        metavar="FILE",
        help="add what came of it to the record (benchmarks/results/faults.jsonl, unless a file is given)",
    )


def add(path: Path, what: str, **facts: Any) -> None:
    """Add a line to a record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"what": what, **facts}) + "\n")


def page(lines: Iterable[dict[str, Any]]) -> str:
    """Return the page about all lines of a record."""
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_kind.setdefault(line["what"], []).append(line)
    parts = ["# Faults: what the campaign came to", "Made by `python -m faults.record` from `faults.jsonl`."]
    makers = {"campaign": _campaigns, "revert": _reverts, "fuzz": _fuzz, "soak": _soak, "speed": _speed}
    parts += [makers[what](by_kind[what]) for what in makers if what in by_kind]
    return "\n\n".join(parts) + "\n"


def _campaigns(lines: list[dict[str, Any]]) -> str:
    """Show the last of the longest runs in full, and the others by a line each."""
    lead = max(reversed(lines), key=lambda line: line["seconds"] >= 3600 or line["seconds"] / 3600)
    rows = [
        f"| `{name}` | {found['cases']:,} | {found['failures']} | {found['cpu']:,.0f} | {found.get('remark', '')} |"
        for name, found in lead["kinds"].items()
    ]
    cases, failures, cpu, kills = _sums(lead)
    text = (
        f"## The campaign\n\n`python -m faults --seconds {lead['seconds']} --seed {lead['seed']}`, on two cores "
        f"shared with other work: {cases:,} inputs in child processes, {kills:,} kills that came to a "
        f"named point, and {failures} failures. `faults/README.md` says what the kinds are.\n\n"
        "| kind | cases in child processes | failures | CPU s | |\n|---|---|---|---|---|\n"
        + "\n".join([*rows, f"| all | {cases:,} | {failures} | {cpu:,.0f} | |"])
    )
    others = [line for line in lines if line is not lead]
    if not others:
        return text
    runs = [(line["seed"], line["seconds"], *_sums(line)) for line in others]
    table = [f"| {seed} | {s:,} | {cases:,} | {kills:,} | {failures} |" for seed, s, cases, failures, _, kills in runs]
    return (
        f"{text}\n\nOther runs, in their order.\n\n"
        "| seed | seconds by the clock | cases | kills | failures |\n|---|---|---|---|---|\n" + "\n".join(table)
    )


def _sums(line: dict[str, Any]) -> tuple[int, int, float, int]:
    """Return the cases, failures, processor seconds and kills of a run."""
    kinds = line["kinds"]
    cases, failures, cpu = (sum(found[name] for found in kinds.values()) for name in ("cases", "failures", "cpu"))
    kills = kinds.get("kills", {}).get("remark", "0").split()[0].replace(",", "")
    return cases, failures, cpu, int(kills)


def _reverts(lines: list[dict[str, Any]]) -> str:
    last = {line["fault"]: line for line in lines}
    found = sum(line["report"] is not None for line in last.values())
    rows = [
        f"| {line['fault']} | {line['kinds']} | {line['seconds']} | {_cell(line['report'])} |" for line in last.values()
    ]
    return (
        f"## Faults that are brought back\n\n`python -m faults.reverts` brings each fault back in a copy of the "
        f"source and runs "
        f"the kinds it belongs to, without the list of known faults: {found} of {len(last)} were reported "
        f"within ten minutes by "
        "the clock (on a busy machine).\n\n| fault | kinds | seconds | first report |\n|---|---|---|---|\n"
        + "\n".join(rows)
    )


def _cell(report: str | None) -> str:
    return "**not reported**" if report is None else report.replace("|", "/").rpartition(" (")[0][:140] or report[:140]


def _fuzz(lines: list[dict[str, Any]]) -> str:
    last = {line["target"]: line for line in lines}
    rows = [
        f"| {line['target']} | {line['inputs']:,} | {line['reached']:,} | {line['seconds']} | {line['failure'] or 0} |"
        for line in last.values()
    ]
    return (
        "## Fuzzing by coverage\n\n`python -m faults.fuzzing` (atheris); all inputs of a target run in one "
        "process, so they are "
        "counted apart.\n\n| target | inputs | places reached | seconds | failures |\n|---|---|---|---|---|\n"
        + "\n".join(rows)
    )


def _soak(lines: list[dict[str, Any]]) -> str:
    rows = [
        f"| {line['seed']} | {line['seconds']:,} | {line['turns']} | {line['kills']} | {line['nodes']} | "
        f"{line['answered']:,} | {line['again']} | {' → '.join(map(str, line['memory'])) or '-'} | "
        f"{len(line['failures'])} |"
        for line in reversed(lines)
    ]
    return (
        "## Long runs\n\n`python -m faults.soak`: select, active learning and evaluate in turn with a bad oracle, on a "
        "Ray cluster of three nodes on one machine, the newest run first. Memory is that of a driver that is never "
        "killed: the most in its first turns, and at the end.\n\n"
        "| seed | seconds by the clock | jobs | drivers killed | nodes killed | answers | "
        "answered again (in flight, or too late) | memory, MB | failures |\n|---|---|---|---|---|---|---|---|---|\n"
        + "\n".join(rows)
    )


def _speed(lines: list[dict[str, Any]]) -> str:
    last = {line["file"]: line for line in lines}
    rows = [
        f"| {line['file']} | {line['before']} | {line['after']} | {line['after'] / line['before']:.3f} |"
        for line in last.values()
    ]
    return (
        "## What validation costs\n\n`python -m faults.speed`: a selection from a million rows of 16 numbers "
        "with ids, CPU "
        "seconds, smallest of the runs in turn.\n\n| file | without validation | with it | ratio "
        "|\n|---|---|---|---|\n" + "\n".join(rows)
    )


def main() -> None:
    """Write the page."""
    record = RECORD.read_text(encoding="utf-8").splitlines()
    (RESULTS / "faults.md").write_text(page(json.loads(line) for line in record), encoding="utf-8")


if __name__ == "__main__":
    main()
