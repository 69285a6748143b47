"""What campaigns came to, one JSON object per line, and the page made of them.

python -m faults.record             writes benchmarks/results/faults.md from faults.jsonl
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"


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
    sums: dict[str, list[float]] = {}
    for line in lines:
        for name, found in line["kinds"].items():
            own = sums.setdefault(name, [0, 0, 0.0, 0])
            kills = int(found.get("remark", "0 kills").split()[0].replace(",", ""))
            for place, value in enumerate((found["cases"], found["failures"], found["cpu"], kills)):
                own[place] += value
    rows = [f"| `{name}` | {own[0]:,} | {own[1]} | {own[2]:,.0f} |" for name, own in sums.items()]
    total = [sum(own[place] for own in sums.values()) for place in range(4)]
    runs = ", ".join(f"{line['seed']} ({line['seconds']:,} s)" for line in lines)
    return (
        f"## The campaign\n\n`python -m faults`, seeds with seconds by the clock: {runs}, on two cores shared "
        f"with other work: "
        f"{total[2]:,.0f} CPU seconds in all. Every case has a process of its own; {total[3]:,} kills came to a "
        f"named point. "
        "`faults/README.md` says what the kinds are.\n\n| kind | cases in child processes | failures | CPU s "
        "|\n|---|---|---|---|\n" + "\n".join([*rows, f"| all | {total[0]:,} | {total[1]} | {total[2]:,.0f} |"])
    )


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
    rows = [
        f"| {line['target']} | {line['inputs']:,} | {line['reached']:,} | {line['seconds']} | {line['failure'] or 0} |"
        for line in lines
    ]
    return (
        "## Fuzzing by coverage\n\n`python -m faults.fuzzing` (atheris); all inputs of a target run in one "
        "process, so they are "
        "counted apart.\n\n| target | inputs | places reached | seconds | failures |\n|---|---|---|---|---|\n"
        + "\n".join(rows)
    )


def _soak(lines: list[dict[str, Any]]) -> str:
    rows = [
        f"| {line['seconds']:,} | {line['turns']} | {line['kills']} | {line['nodes']} | {line['answered']:,} | "
        f"{line['again']} | "
        f"{len(line['failures'])} |"
        for line in lines
    ]
    return (
        "## Long runs\n\n`python -m faults.soak`: select, active learning and evaluate in turn with a bad "
        "oracle, on a Ray "
        "cluster of three nodes on one machine.\n\n| seconds by the clock | jobs | drivers killed | nodes "
        "killed | answers | "
        "answered again (in flight, or too late) | failures |\n|---|---|---|---|---|---|---|\n" + "\n".join(rows)
    )


def _speed(lines: list[dict[str, Any]]) -> str:
    rows = [
        f"| {line['file']} | {line['before']} | {line['after']} | {line['after'] / line['before']:.3f} |"
        for line in lines
    ]
    return (
        "## What validation costs\n\n`python -m faults.speed`: a selection from a million rows of 16 numbers "
        "with ids, CPU "
        "seconds, smallest of the runs in turn.\n\n| file | without validation | with it | ratio "
        "|\n|---|---|---|---|\n" + "\n".join(rows)
    )


def main() -> None:
    """Write the page."""
    record = (RESULTS / "faults.jsonl").read_text(encoding="utf-8").splitlines()
    (RESULTS / "faults.md").write_text(page(json.loads(line) for line in record), encoding="utf-8")


if __name__ == "__main__":
    main()
