"""Selection files with forged manifests: every value of a wrong type or full of markup, and the page in a browser."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from faults.forging import forge_at, leaves
from faults.judging import misbehaved
from faults.kind import Bench, Case, Kind
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
USES = (
    "estimate forged.jsonl --values loss.csv",
    "certify forged.jsonl --losses loss.csv",
    "report forged.jsonl --out page.html",
)
SOURCES = ("picked.jsonl", "covered.jsonl")


class Forged(Kind):
    """A forged file is refused, or read for what it says; no markup of it gets into the page, and nothing runs."""

    name: ClassVar[str] = "forged manifests"

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._browser: subprocess.Popen[str] | None = None

    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield markup in every place of the manifest, then every wrong value in every place."""
        places = {name: leaves(self._manifest(name)) for name in SOURCES}
        for value in (MARKUP[0], *MARKUP[1:], *VALUES[: -len(MARKUP)]):
            every = [(name, place) for name in SOURCES for place in places[name]]
            for number in rng.permutation(len(every)):
                name, place = every[number]
                yield {"source": name, "place": place, "value": value if value != 10**400 else "10**400"}

    def _manifest(self, name: str) -> dict[str, Any]:
        first = (self.bench.originals / name).read_text().splitlines()[0]
        found: dict[str, Any] = json.loads(json.loads(first)["coresift"])
        return found

    def problem(self, case: Case) -> str | None:
        """Use the forged file in every way that shows something of it."""
        with self.bench.folder() as folder:
            value = 10**400 if case["value"] == "10**400" else case["value"]
            made = run(lambda: forge_at(folder / case["source"], folder / "forged.jsonl", case["place"], value), folder)
            if made.status:
                return f"cannot be forged: {made.err[-200:]}"
            for words in USES if case["source"] == "picked.jsonl" else USES[2:]:
                if problem := misbehaved(run(command(words.split()), folder)):
                    return f"{words.split()[0]}: {problem}"
            page = folder / "page.html"
            return self._look_at(page) if page.exists() and value in MARKUP else None

    def _look_at(self, page: Path) -> str | None:
        """Open the page in Chromium, if it is there."""
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
