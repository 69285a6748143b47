"""Time and size of the report of a selection of 10,000 of 1,000,000 rows with texts, and how fast the page reacts.

    python -m benchmarks.report                      1,000,000 × 128, about a minute
    python -m benchmarks.report --rows 100000        fewer rows (printed, not written)

Rows are a float16 file, texts a Parquet column; the selection and the clustering are made first and are not counted.
The report runs in this process; the least CPU time of three counts. Then Chromium opens the page, and the pointer moves
over 100 places of the map: how long until the row's text is shown, by the page's clock, and at how many places a row
was near enough to show. Writes `results/report.json`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from playwright.sync_api import sync_playwright

import coresift as cs
from benchmarks.measuring import write_rows

RESULTS = Path(__file__).parent / "results"
POINT = """() => {
  const canvas = document.querySelector("#picture"), box = canvas.getBoundingClientRect(), times = [];
  const hint = document.querySelector("#hint");
  let shown = 0;
  for (let i = 0; i < 100; i++) {
    const clientX = box.left + box.width * (0.2 + 0.6 * ((i * 37) % 100) / 100);
    const clientY = box.top + box.height * (0.2 + 0.6 * ((i * 17) % 100) / 100);
    const start = performance.now();
    canvas.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, bubbles: true }));
    hint.getBoundingClientRect();
    times.push(performance.now() - start);
    shown += !hint.hidden && hint.textContent.length > 0;
  }
  return { times, shown };
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--budget", type=int, default=10_000)
    parser.add_argument("--keep", type=Path, help="Leave the page here, to look at.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        facts = measure(Path(folder), arguments.rows, arguments.dimension, arguments.budget, arguments.keep)
    print(json.dumps(facts, indent=1))
    if arguments.rows == parser.get_default("rows"):
        (RESULTS / "report.json").write_text(json.dumps(facts, indent=1) + "\n")


def measure(folder: Path, n: int, d: int, budget: int, keep: Path | None) -> dict[str, Any]:
    path, table = folder / "rows.npy", folder / "texts.parquet"
    write_rows(path, n, d)
    texts = pa.array([f"The text of row {row:,}, which is about as long as a short question is." for row in range(n)])
    pq.write_table(pa.table({"text": texts, "kind": pa.array(np.arange(n) % 40)}), table)
    losses = np.abs(np.sin(np.arange(n)))
    clustering = cs.cluster(path, budget // 10)
    picked = cs.select(path, losses, budget, clusters=clustering)
    page = keep or folder / "page.html"
    full: dict[str, Any] = {"clustering": clustering, "losses": losses, "table": table, "text": "text", "label": "kind"}
    cases = {"rows, clusters, losses, texts, classes": full, "rows alone": {}}
    facts: dict[str, Any] = {"rows": n, "dimension": d, "selected": budget, "reports": {}}
    for name, options in reversed(cases.items()):
        seconds = []
        for _ in range(3):
            start = time.process_time()
            cs.report(picked, page, rows=path, **options)
            seconds.append(time.process_time() - start)
        facts["reports"][name] = {"cpu_seconds": min(seconds), "megabytes": page.stat().st_size / 1e6, **hover(page)}
    return facts


def hover(page: Path) -> dict[str, Any]:
    """Open the page and point at places of its map; return the milliseconds until the hint is laid out."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.goto(page.as_uri())
        result = tab.evaluate(POINT)
        browser.close()
    times = sorted(result["times"])
    return {"hover_ms": {"median": times[len(times) // 2], "worst": times[-1]}, "places_with_a_row": result["shown"]}


if __name__ == "__main__":
    main()
