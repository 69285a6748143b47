"""The report of the cluster benchmark, with estimates for larger data and more nodes."""

from __future__ import annotations

from typing import Any

from coresift.clustering import LARGEST_SAMPLE, SAMPLE_PER_CENTER, SMALLEST_SAMPLE
from coresift.clustering.refine import fold_size
from coresift.clustering.space import MOST_AXES
from coresift.engine import RUNS
from coresift.rows.base import block_length

SIZES = (10**7, 10**8, 10**9)
NODES = (1, 10, 100)
# Assumptions: cores per node, each as fast as those measured; bytes per second that a node reads from storage; and
# bytes per second that the driver receives and adds up.
CORES, READ, DRIVER = 16, 1e9, 0.5e9
PASSES = ("refining centers", "assigning rows", "measuring distances")
# The driver's memory: libraries, bytes per row at the end, the most bytes for all rows (with more rows, arrays are in
# files), bytes per number of the sample, and bytes per number of the centers (several tables).
LIBRARIES, PER_ROW, MOST_FOR_ROWS, PER_NUMBER, PER_CENTER_NUMBER = 100e6, 110, 500e6, 8, 40


def sample_rows(n: int, k: int, axes: int) -> int:
    """Return the size of the sample that the centers are learned from."""
    return min(n, SAMPLE_PER_CENTER * k, max(SMALLEST_SAMPLE, LARGEST_SAMPLE // axes))


def driver_memory(n: int, d: int, k: int, axes: int) -> float:
    """Return the driver's peak memory in bytes, by the documented formula."""
    sample = PER_NUMBER * sample_rows(n, k, axes) * (axes + 1)
    return LIBRARIES + max(min(PER_ROW * n, MOST_FOR_ROWS), sample) + PER_CENTER_NUMBER * k * d


def traffic(n: int, d: int, k: int, axes: int) -> dict[str, float]:
    """Return the bytes over the network: from storage, to each node, to and from the driver, and between workers."""
    block = block_length(d)
    run = fold_size(k, block) * block
    table = 8 * min(k, run) * (d + 2)
    return {
        "read": 3 * 2.0 * n * d + 2.0 * sample_rows(n, k, axes) * d,
        "to_a_node": 3 * 4.0 * k * d + 2 * 4.0 * k * axes,
        "to_driver": 16.0 * n + -(-n // (RUNS * run)) * table + 4.0 * sample_rows(n, k, axes) * (axes + 2),
        "from_driver": 8.0 * n,
        "between": 1.0 * -(-n // run) * table,
    }


def seconds(n: int, d: int, nodes: int, figures: dict[str, Any]) -> dict[str, float]:
    """Return the estimated seconds of a selection: the passes, and the driver's learning, transfers and draw.

    The time of the draw is that of `select` outside the stages of its clustering, and grows with the number of rows.
    """
    measured, selection = figures["stages"], figures["ray"]
    k, axes, stages = measured["clusters"], MOST_AXES, measured["stages"]
    passes = sum(stages[name] for name in PASSES)
    per_block = passes * measured["threads"] / measured["blocks"]
    blocks = -(-n // block_length(d))
    bytes_moved = traffic(n, d, k, axes)
    return {
        "passes": max(blocks * per_block / (CORES * nodes), bytes_moved["read"] / (READ * nodes)),
        "learns": measured["seconds"] - passes,
        "moves": (bytes_moved["to_driver"] + bytes_moved["from_driver"]) / DRIVER,
        "draws": (selection["seconds"] - sum(selection["stages"].values())) / figures["rows"] * n,
    }


def write_report(figures: dict[str, Any]) -> str:
    """Return the figures as a page."""
    n, d, k = figures["rows"], figures["dimension"], figures["budget"] // 10
    axes = min(MOST_AXES, d // 2)
    formula = driver_memory(n, d, k, axes) / 1e6
    stages = figures["stages"]
    lines = [
        "# A selection on a Ray cluster",
        "",
        f"`select` chooses {figures['budget']:,} of {n:,} × {d} rows in .npy shards, with {k:,} clusters. Threads: two "
        "threads in one process. Cluster: one node with two workers of one core each, on the same two cores; starting "
        "it is not counted. Both selections are the same, byte for byte.",
        "",
        "| engine | seconds | × threads | peak anonymous MB of the driver | MB by the formula |",
        "| --- | --- | --- | --- | --- |",
        f"| threads | {figures['local']['seconds']:.1f} | 1.00 | {figures['local']['peak_mb']:.0f} | |",
        f"| cluster | {figures['ray']['seconds']:.1f} | {figures['ratio']:.2f} | {figures['ray']['peak_mb']:.0f} "
        f"| {formula:.0f} |",
        "",
        "| stage | threads, s | cluster, s |",
        "| --- | --- | --- |",
    ]
    for name, value in figures["local"]["stages"].items():
        lines.append(f"| {name} | {value:.1f} | {figures['ray']['stages'].get(name, 0.0):.1f} |")
    lines += [
        "",
        f"## Stages of a clustering: {stages['rows']:,} × {stages['dimension']}, k = {stages['clusters']:,}",
        "",
        f"Two threads. Search: {stages['search']}. In total {stages['seconds']:.1f} s for {stages['blocks']:,} blocks "
        f"of {block_length(stages['dimension']):,} rows.",
        "",
        "| stage | seconds | core-ms per block |",
        "| --- | --- | --- |",
    ]
    for name, value in stages["stages"].items():
        each = f"{1e3 * value * stages['threads'] / stages['blocks']:.1f}" if name in PASSES else ""
        lines.append(f"| {name} | {value:.1f} | {each} |")
    lines += ["", *estimates(figures)]
    return "\n".join(lines) + "\n"


def estimates(figures: dict[str, Any]) -> list[str]:
    """Return the tables of estimates for larger data."""
    d, k = figures["stages"]["dimension"], figures["stages"]["clusters"]
    lines = [
        f"## Estimates for larger data: {d} columns, k = {k:,}, float16 files",
        "",
        "| rows | read from storage | to each node | to the driver | from the driver | between workers "
        "| driver's memory |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for n in SIZES:
        bytes_moved = {name: f"{value / 1e9:,.3g} GB" for name, value in traffic(n, d, k, MOST_AXES).items()}
        cells = [bytes_moved[name] for name in ("read", "to_a_node", "to_driver", "from_driver", "between")]
        memory = f"{driver_memory(n, d, k, MOST_AXES) / 1e9:,.1f} GB"
        lines.append(f"| {n:.0e} | {' | '.join(cells)} | {memory} |".replace("e+0", "e"))
    lines += [
        "",
        f"Minutes of `select`, on nodes with {CORES} cores like those measured, with {READ / 1e9:g} GB/s per node from "
        f"storage and {DRIVER / 1e9:g} GB/s through the driver. In parentheses: the passes over the rows; learning "
        "centers from the sample; the driver's transfers; scores and draw.",
        "",
        "| rows | " + " | ".join(f"{count} node{'s' if count > 1 else ''}" for count in NODES) + " |",
        "| --- |" + " --- |" * len(NODES),
    ]
    for n in SIZES:
        cells = []
        for count in NODES:
            parts = seconds(n, d, count, figures)
            minutes = "; ".join(f"{value / 60:,.1f}" for value in parts.values())
            cells.append(f"{sum(parts.values()) / 60:,.1f} ({minutes})")
        lines.append(f"| {n:.0e} | {' | '.join(cells)} |".replace("e+0", "e"))
    return lines
