"""Forged files with right checksums: every value of a wrong type or full of markup, and the page in a browser.

Selections have their manifest forged, state files the arguments in their header and the answers in their lines.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import reduce
from itertools import cycle
from operator import getitem
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from faults.browser import chromium
from faults.forging import forge_at, forge_state, state_lines
from faults.judging import misbehaved
from faults.kind import Bench, Case, Kind
from faults.mutating import leaves
from faults.processes import command, run

MARKUP = (
    '<meta http-equiv="refresh" content="0;url=data:text/html,x">',
    "</script><script>window.broken = 1</script>",
    "<img src=x onerror='window.broken = 2'>",
    '"><base href="https://example.invalid/">',
    "x\nimport os; os.system('touch PWNED')",
    "\x1b]0;x\x07",
)
VALUES: tuple[Any, ...] = (
    None,
    0,
    -1,
    1.5,
    10**400,
    1e308,
    True,
    "",
    "x",
    [],
    {},
    [[]],
    {"a": {}},
    "9" * 5_000,
    *MARKUP,
)
_ESTIMATES = ("estimate FILE --values loss.csv", "certify FILE --losses loss.csv")
_STEPS = ("status FILE", "ask FILE --out new.csv", "tell FILE loss.csv")
# The files that are forged, and every way of using them that shows something of them.
USES = {
    "picked.jsonl": (*_ESTIMATES, "report FILE --out page.html"),
    "covered.jsonl": ("report FILE --out page.html",),
    "select.state": _STEPS,
    "regression.state": (*_STEPS[:2], "tell FILE labels.csv"),
    "diagnose.state": _STEPS,
    "active-learning.state": (*_STEPS[:2], "tell FILE studio.json", "active-learning report FILE --out page.html"),
    "evaluate.state": (*_STEPS, "evaluate plan FILE", "evaluate report FILE --out page.html"),
}


class Forged(Kind):
    """A forged file is refused, or read for what it says; no markup of it gets into the page, and nothing runs."""

    name: ClassVar[str] = "forged files"
    share: ClassVar[float] = 2.0

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._browser: subprocess.Popen[str] | None = None
        self._pages = 0

    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield markup and wrong values in all places of each file in turn."""
        turns = {name: _turns(self._content(name), rng) for name in USES}
        for name in cycle(("picked.jsonl", *USES)):  # the manifest that holds most comes twice
            place, value = next(turns[name])
            yield {"source": name, "place": place, "value": value if value != 10**400 else "10**400"}

    def _content(self, name: str) -> Any:
        path = self.bench.originals / name
        if path.suffix == ".state":
            return state_lines(path)
        return json.loads(json.loads(path.read_text().splitlines()[0])["coresift"])

    def problem(self, case: Case) -> str | None:
        """Use the forged file in every way that shows something of it."""
        value = 10**400 if case["value"] == "10**400" else case["value"]
        source, place = case["source"], case["place"]
        with self.bench.folder() as folder:
            forged = folder / f"forged{Path(source).suffix}"
            if source.endswith(".state"):
                shutil.copy(folder / source, forged)
                made = run(lambda: forge_state(forged, place, value), folder)
            else:
                made = run(lambda: forge_at(folder / source, forged, place, value), folder)
            if made.status:
                return f"cannot be forged: {made.err[-200:]}"
            for words in USES[source]:
                if problem := misbehaved(run(command(words.replace("FILE", forged.name).split()), folder)):
                    return f"{words.partition(' FILE')[0]}: {problem}"
            page = folder / "page.html"
            return self._look_at(page) if page.exists() and value in MARKUP and chromium() is not None else None

    def remark(self) -> str:
        """Return how many pages were opened in a browser, or that none could be."""
        return f"{self._pages:,} pages opened" if chromium() is not None else "pages not opened: there is no Chromium"

    def _look_at(self, page: Path) -> str | None:
        """Open the page in Chromium."""
        self._pages += 1
        if self._browser is None:
            words = [sys.executable, "-m", "faults.browser"]
            self._browser = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._browser.stdin is not None and self._browser.stdout is not None
        self._browser.stdin.write(f"{page}\n")
        self._browser.stdin.flush()
        answer = self._browser.stdout.readline()
        if not answer:
            raise RuntimeError("The browser ended.")
        return json.loads(answer)

    def close(self) -> None:
        """End the browser."""
        if self._browser is not None:
            self._browser.communicate()


def _turns(content: Any, rng: np.random.Generator) -> Iterator[tuple[list[Any], Any]]:
    """Yield markup in place of a text, markup in any place, and a wrong value in any place, in turn."""
    places = [
        place for place in leaves(content) if place != ["digest"] and (len(place) > 1 or isinstance(content, dict))
    ]
    texts = [place for place in places if isinstance(reduce(getitem, place, content), str)]
    ways = ((texts, MARKUP), (places, MARKUP), (places, VALUES[: -len(MARKUP)]))
    orders = [(_endless(own, rng), values) for own, values in ways]
    while True:
        for order, values in orders:
            yield next(order), values[rng.integers(len(values))]


def _endless(places: list[list[Any]], rng: np.random.Generator) -> Iterator[list[Any]]:
    while True:
        yield from (places[number] for number in rng.permutation(len(places)))
