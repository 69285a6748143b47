"""What the benchmark of the cluster found, and what follows from it for larger data and more nodes."""

from __future__ import annotations

from typing import Any

from coresift.clustering import LARGEST_SAMPLE, SAMPLE_AXES, SAMPLE_PER_CENTER, SMALLEST_SAMPLE
from coresift.clustering.refine import fold_size
from coresift.clustering.search import TOGETHER
from coresift.engine import RUNS
from coresift.rows.base import block_length

SIZES = (10**7, 10**8, 10**9)
NODES = (1, 10, 100)
# The assumptions of the table: a node's cores, each as fast as those measured; what a node reads a second from storage;
# and what passes through the driver's network and its additions a second.
CORES, READ, DRIVER = 16, 1e9, 0.5e9
PASSES = ("refining centers", "assigning rows", "measuring distances")
# What the driver holds: its libraries, bytes per row in the end, bytes per number of the sample, tables of centers.
LIBRARIES, A_ROW, A_NUMBER, TABLES = 100e6, 110, 8, 40


def sample_rows(n: int, k: int, axes: int) -> int:
    """How many rows many centers are learned from."""
    return min(n, SAMPLE_PER_CENTER * k, max(SMALLEST_SAMPLE, LARGEST_SAMPLE // axes))


def driver_memory(n: int, d: int, k: int, axes: int) -> float:
    """The documented formula of what the driver holds at its peak, in bytes."""
    return LIBRARIES + max(A_ROW * n, A_NUMBER * sample_rows(n, k, axes) * (axes + 1)) + TABLES * k * d


def moved(n: int, d: int, k: int, axes: int) -> dict[str, float]:
    """Bytes over the network: from storage, to each node, to and from the driver, and between workers."""
    block = block_length(d)
    run = max(TOGETHER, fold_size(k, block)) * block
    table = 8 * min(k, run) * (d + 2)
    return {
        "read": 3 * 2.0 * n * d + 2.0 * sample_rows(n, k, axes) * d,
        "to_a_node": 3 * 4.0 * k * d + 2 * 4.0 * k * axes,
        "to_driver": 16.0 * n + -(-n // (RUNS * run)) * table + 4.0 * sample_rows(n, k, axes) * (axes + 2),
        "from_driver": 8.0 * n,
        "between": 1.0 * -(-n // run) * table,
    }


def seconds(n: int, d: int, nodes: int, found: dict[str, Any]) -> dict[str, float]:
    """What a selection from n rows takes on so many nodes: passes, and what the driver learns, moves and draws.

    To draw is all that `select` does outside of the stages of its clustering, in proportion to the rows.
    """
    measured, drawn = found["stages"], found["ray"]
    k, axes, stages = measured["clusters"], SAMPLE_AXES, measured["stages"]
    passes = sum(stages[name] for name in PASSES)
    per_block = passes * measured["threads"] / measured["blocks"]
    blocks = -(-n // block_length(d))
    bytes_moved = moved(n, d, k, axes)
    return {
        "passes": max(blocks * per_block / (CORES * nodes), bytes_moved["read"] / (READ * nodes)),
        "learns": measured["seconds"] - passes,
        "moves": (bytes_moved["to_driver"] + bytes_moved["from_driver"]) / DRIVER,
        "draws": (drawn["seconds"] - sum(drawn["stages"].values())) / found["rows"] * n,
    }


def write_report(found: dict[str, Any]) -> str:
    """The figures as a page."""
    n, d, k = found["rows"], found["dimension"], found["budget"] // 10
    axes = min(SAMPLE_AXES, d // 2)
    formula = driver_memory(n, d, k, axes) / 1e6
    stages = found["stages"]
    lines = [
        "# A selection on a Ray cluster",
        "",
        f"`select` of {found['budget']:,} from {n:,} × {d} rows in .npy shards, {k:,} clusters. Threads: two, in one "
        "process. Cluster: one node with two workers of one core each, on the same two cores; its start is not "
        "counted. Both selected the same bytes.",
        "",
        "| engine | seconds | × threads | peak anonymous MB of the driver | MB by the formula |",
        "| --- | --- | --- | --- | --- |",
        f"| threads | {found['local']['seconds']:.1f} | 1.00 | {found['local']['peak_mb']:.0f} | |",
        f"| cluster | {found['ray']['seconds']:.1f} | {found['ratio']:.2f} | {found['ray']['peak_mb']:.0f} "
        f"| {formula:.0f} |",
        "",
        "| stage | threads, s | cluster, s |",
        "| --- | --- | --- |",
    ]
    for name, value in found["local"]["stages"].items():
        lines.append(f"| {name} | {value:.1f} | {found['ray']['stages'].get(name, 0.0):.1f} |")
    lines += [
        "",
        f"## Stages of a clustering: {stages['rows']:,} × {stages['dimension']}, k = {stages['clusters']:,}",
        "",
        f"Two threads. Search: {stages['search']}. In all {stages['seconds']:.1f} s for {stages['blocks']:,} blocks of "
        f"{block_length(stages['dimension']):,} rows.",
        "",
        "| stage | seconds | ms a block and core |",
        "| --- | --- | --- |",
    ]
    for name, value in stages["stages"].items():
        each = f"{1e3 * value * stages['threads'] / stages['blocks']:.1f}" if name in PASSES else ""
        lines.append(f"| {name} | {value:.1f} | {each} |")
    lines += ["", *derived(found)]
    return "\n".join(lines) + "\n"


def derived(found: dict[str, Any]) -> list[str]:
    """The tables of what larger data would take."""
    d, k = found["stages"]["dimension"], found["stages"]["clusters"]
    lines = [
        f"## Derived: × {d}, k = {k:,}, float16 files",
        "",
        "| rows | read from storage | to each node | to the driver | from it | between workers | driver's memory |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for n in SIZES:
        bytes_moved = {name: f"{value / 1e9:,.3g} GB" for name, value in moved(n, d, k, SAMPLE_AXES).items()}
        cells = [bytes_moved[name] for name in ("read", "to_a_node", "to_driver", "from_driver", "between")]
        memory = f"{driver_memory(n, d, k, SAMPLE_AXES) / 1e9:,.1f} GB"
        lines.append(f"| {n:.0e} | {' | '.join(cells)} | {memory} |".replace("e+0", "e"))
    lines += [
        "",
        f"Nodes of {CORES} cores like those measured, {READ / 1e9:g} GB/s from storage for each node, "
        f"{DRIVER / 1e9:g} GB/s through the driver. Minutes of `select` (the passes; what the driver learns from the "
        "sample; what it moves; what it scores and draws):",
        "",
        "| rows | " + " | ".join(f"{count} node{'s' if count > 1 else ''}" for count in NODES) + " |",
        "| --- |" + " --- |" * len(NODES),
    ]
    for n in SIZES:
        cells = []
        for count in NODES:
            part = seconds(n, d, count, found)
            each = "; ".join(f"{value / 60:,.1f}" for value in part.values())
            cells.append(f"{sum(part.values()) / 60:,.1f} ({each})")
        lines.append(f"| {n:.0e} | {' | '.join(cells)} |".replace("e+0", "e"))
    return lines
