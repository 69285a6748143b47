"""Real processes in hostile surroundings: planted modules and links, poor output, strict warnings, full disks."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from faults.judging import misbehaved
from faults.kind import Bench, Case, Kind
from faults.processes import Outcome

PLANTED = ("json", "numpy", "csv", "pickle", "scipy", "matplotlib", "pandas", "typing", "coresift", "rich", "vectors")
COMPARE = "compare-methods rows.npy --losses loss.csv --budget 12 --seeds 1 --method uniform --no-plot --out compared"
COMMANDS = {
    "compare-methods": COMPARE,
    "select": "select rows.npy --losses loss.csv --budget 12 --out new.csv",
    "diagnose": "diagnose rows.npy --losses loss.csv --budget 30 --holder 1",
    "help": "select --help",
    "estimate": "estimate picked.csv --values loss.csv --group label",
    "warned": "select rows.npy --budget 12 --clusters 61 --out new.jsonl",
    "regression": "regression rows.npy --labels labels.csv --budget 12 --out new.csv",
    "report": "report picked.csv --rows rows.npy --out new.html",
    "active-learning": "active-learning start rows.npy --budget 12 --state new.state",
    "cluster": "cluster rows.npy --clusters 3 --out new.npz",
    "cover": "cover rows.npy --budget 5 --out new.parquet",
    "refused": "select rows.npy",
}
# What is different, and with which commands it is tried.
SETTINGS: dict[str, tuple[str, ...]] = {
    "warnings as errors": ("warned", "select", "diagnose", "report"),
    "leftovers": ("select",),
    "private old file": ("select", "cover"),
    "links in the folder": ("compare-methods",),
    "planted modules": ("compare-methods", "select", "report", "active-learning", "cluster", "estimate"),
    "closed stdout": ("select", "diagnose", "refused", "help"),
    "closed stdout and stderr": ("select", "refused"),
    "full stdout": ("select", "diagnose"),
    "latin-1 stdout": ("diagnose", "help", "regression"),
    "ASCII stdout": ("diagnose", "help", "select"),
    "no HOME": ("select", "active-learning"),
    "no environment": ("select", "cluster"),
    "optimized": ("select", "report"),
    "full disk": ("select", "cluster", "cover", "report", "active-learning"),
    "no space at all": ("select", "cover", "active-learning"),
    "little memory": ("select", "cluster"),
    "folder read-only": ("select", "active-learning"),
}


class Surroundings(Kind):
    """Whatever the surroundings are, a command ends in a result or in one sentence, and runs no planted code."""

    name: ClassVar[str] = "hostile surroundings"

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        # As an installed script is: its own folder is where Python looks for modules first, not the current one.
        self._script = bench.top / "bin" / "coresift"
        self._script.parent.mkdir(exist_ok=True)
        self._script.write_text("from coresift.cli import main\nmain()\n")

    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield every setting with its commands."""
        for setting, names in SETTINGS.items():
            yield from ({"setting": setting, "command": name} for name in names)

    def problem(self, case: Case) -> str | None:
        """Run the command in its surroundings."""
        with self.bench.folder() as folder:
            name = case["setting"].replace(" ", "_").replace("-", "_").lower()
            words = COMMANDS[case["command"]].split()
            judge: Callable[..., str | None] = getattr(self, f"_{name}")
            return judge(folder, words)

    def _run(self, folder: Path, words: list[str], env: dict[str, str] | None = None, **options: Any) -> Outcome:
        python = options.pop("python", [sys.executable])
        paths = [str(Path(path).resolve()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        base = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)} if env is None else env
        options = {"capture_output": True, "stdin": subprocess.DEVNULL, **options}
        line = [*python, str(self._script), *words]
        if shell := options.pop("shell_end", None):
            line = ["sh", "-c", f'exec "$@" {shell}', "sh", *line]
        ended = subprocess.run(line, cwd=folder, env=base, check=False, timeout=600, **options)
        texts = [(text or b"").decode("utf-8", "backslashreplace") for text in (ended.stdout, ended.stderr)]
        return Outcome(ended.returncode, *texts, 0, False)

    def _with(self, **changes: str) -> dict[str, str]:
        return {**os.environ, **changes}

    def _planted_modules(self, folder: Path, words: list[str]) -> str | None:
        for name in PLANTED:
            (folder / f"{name}.py").write_text(f"open('PWNED-{name}', 'w').close()\n")
        problem = misbehaved(self._run(folder, words))
        ran = sorted(path.name for path in folder.glob("PWNED-*"))
        return f"ran {ran[0]}" if ran else problem

    def _links_in_the_folder(self, folder: Path, words: list[str]) -> str | None:
        other = folder.parent / "other"
        other.write_text("untouched")
        (folder / "compared").mkdir()
        written = ("comparison.md", "comparison.csv", "comparison.json", "comparison.svg")
        for name in (".losses.npy", ".rows.npy", "methods.log", *written):
            (folder / "compared" / name).symlink_to(other)
        problem = misbehaved(self._run(folder, words))
        return "wrote through a link" if other.read_bytes() != b"untouched" else problem

    def _closed_stdout(self, folder: Path, words: list[str]) -> str | None:
        return misbehaved(self._run(folder, words, shell_end=">&-"))

    def _closed_stdout_and_stderr(self, folder: Path, words: list[str]) -> str | None:
        outcome = self._run(folder, words, shell_end=">&- 2>&-")
        return None if outcome.status in (0, 2) else f"exit {outcome.status}"

    def _full_stdout(self, folder: Path, words: list[str]) -> str | None:
        return misbehaved(self._run(folder, words, shell_end=">/dev/full"))

    def _latin_1_stdout(self, folder: Path, words: list[str]) -> str | None:
        return misbehaved(self._run(folder, words, self._with(PYTHONIOENCODING="latin-1")))

    def _ascii_stdout(self, folder: Path, words: list[str]) -> str | None:
        env = self._with(PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C", PYTHONCOERCECLOCALE="0")
        return misbehaved(self._run(folder, words, env))

    def _warnings_as_errors(self, folder: Path, words: list[str]) -> str | None:
        return misbehaved(self._run(folder, words, self._with(PYTHONWARNINGS="error")))

    def _no_home(self, folder: Path, words: list[str]) -> str | None:
        env = {name: value for name, value in os.environ.items() if name not in ("HOME", "USER", "LOGNAME")}
        return misbehaved(self._run(folder, words, env))

    def _no_environment(self, folder: Path, words: list[str]) -> str | None:
        paths = {name: value for name, value in os.environ.items() if name == "PYTHONPATH"}
        return misbehaved(self._run(folder, words, paths))

    def _optimized(self, folder: Path, words: list[str]) -> str | None:
        return misbehaved(self._run(folder, words, python=[sys.executable, "-OO"]))

    def _full_disk(self, folder: Path, words: list[str]) -> str | None:
        return self._limited(folder, words, resource.RLIMIT_FSIZE, 512)

    def _no_space_at_all(self, folder: Path, words: list[str]) -> str | None:
        return self._limited(folder, words, resource.RLIMIT_FSIZE, 0)

    def _little_memory(self, folder: Path, words: list[str]) -> str | None:
        return self._limited(folder, words, resource.RLIMIT_AS, 3 * 2**29)

    def _limited(self, folder: Path, words: list[str], which: int, limit: int) -> str | None:
        target = folder / words[words.index("--out") + 1] if "--out" in words else None
        if target is not None:
            target.write_bytes(b"an older file")
        outcome = self._run(folder, words, preexec_fn=lambda: resource.setrlimit(which, (limit, limit)))
        if problem := misbehaved(outcome):
            return problem
        kept = target is None or target.read_bytes() == b"an older file"
        return None if outcome.status == 0 or kept else "is refused, but the old file is gone"

    def _folder_read_only(self, folder: Path, words: list[str]) -> str | None:
        """Write to a folder that does not take files: /proc, for root writes into any other."""
        words = [f"/proc/{word}" if word.startswith("new.") else word for word in words]
        return misbehaved(self._run(folder, words))

    def _private_old_file(self, folder: Path, words: list[str]) -> str | None:
        target = folder / words[words.index("--out") + 1]
        target.touch(0o600)
        problem = misbehaved(self._run(folder, words))
        return problem or (None if target.stat().st_mode & 0o77 == 0 else "others may read what was private")

    def _leftovers(self, folder: Path, words: list[str]) -> str | None:
        left = folder / ".coresift-0123456789abcdef.tmp"
        left.write_text("half")
        os.utime(left, (0, 0))
        problem = misbehaved(self._run(folder, words))
        return problem or ("what a killed run left is never removed" if left.exists() else None)
