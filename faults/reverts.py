"""Bring back each fault of the first campaign in a copy of the source, and see that the campaign reports it.

    python -m faults.reverts            all of them
    python -m faults.reverts H1 L7      some of them

The list of known faults is left out: the other kinds must find them. Each run has the kinds that the fault belongs to,
stops at its first failure, and has ten minutes. The exit code is 0 if every fault was reported.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from faults.record import add, add_option

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 600


@dataclass(frozen=True)
class Revert:
    """What brings a fault back: in files under `src/coresift`, texts that stand there once, and what was there before.

    Attributes:
        kinds: The kinds of the campaign that look for such faults.
        changes: File, text, and what takes its place.
    """

    kinds: str
    changes: tuple[tuple[str, str, str], ...]


REVERTS = {
    "H1": Revert(
        "words,calls",
        (("recipes/arguments.py", "if budget < given or budget == given < frame.population:",
          "if budget <= given < frame.population:"),
         ("inclusion.py", "    total = min(total, int(limits.sum()))\n", "")),
    ),
    "H2": Revert(
        "reading,damage",
        (("tables/parts.py", "                batch.validate(full=True)\n", ""),
         ("tables/parts.py", "    batch.validate(full=True)\n    return int(batch", "    return int(batch")),
    ),
    "H3": Revert("surroundings", (("comparison/running.py", '[sys.executable, "-P", "-c"', '[sys.executable, "-c"'),)),
    "H4": Revert(
        "kills,races",
        (("tables/writing.py", "        temporary.replace(target)\n",
          "        target.unlink(missing_ok=True)\n        temporary.replace(target)\n"),),
    ),
    "M1": Revert(
        "calls,results",
        (("estimation/limits.py", "    sampled = values.sampled\n    if not sampled.size:\n        return mean\n",
          "    sampled = values.sampled\n    return mean\n"),
         ("estimation/__init__.py", "    has_variance = np.isfinite(total.standard_error)\n", "    return ()\n")),
    ),
    "M2": Revert("forged", (("reporting/sections.py", "<dd>{text(value)}</dd></div>\" for name, value in facts.recipe",
                             "<dd>{value}</dd></div>\" for name, value in facts.recipe"),)),
    "M3": Revert("types", (("tables/values.py", '    if hasattr(kind, "storage_type"):\n', "    if not kind:\n"),)),
    "M4": Revert("calls", (("estimation/intervals.py", "    largest = float(np.abs(values).max(initial=0.0))\n",
                            "    return 1.0\n"),)),
    "M5": Revert("flips", (("oracle/lines.py", "ending is None or ending[1].decode() != expected or not",
                            "ending is None or not"),)),
    "M6": Revert(
        "races",
        (("oracle/asking.py", "        if good.any():\n", "        if good.all():\n"),
         ("oracle/asking.py", "        return sending[bad], error\n", "        return sending, error\n")),
    ),
    "M7": Revert("reading,damage", (("tables/npy.py", "    except Exception as error:  # a damaged header",
                                     "    except ValueError as error:  # a damaged header"),)),
    "M8": Revert("types", (("tables/parts.py", "                batch.validate(full=True)\n",
                            "                batch.validate()\n"),)),
    "M9": Revert("types", (("tables/writing.py", "    texts: list[Any] = text_of(array).to_pylist()\n",
                            "    texts: list[Any] = array.to_pylist()\n"),)),
    "M10": Revert("types", (("tables/textual.py", "BLOCKS = (2**24, 2**31 - 1)", "BLOCKS = (2**20,)"),)),
    # Newer versions of Ray ask for a token by themselves, so it has to be told not to.
    "M11": Revert(
        "cluster",
        (("remote/connection.py", "        _require_token(ray)\n",
          '        os.environ["RAY_AUTH_MODE"] = "disabled"\n        ray._raylet.Config.initialize("")\n'),),
    ),
    "M12": Revert(
        "calls",
        (("selection.py", "if draft.probes is not None and pilot.ids.size:", "if draft.probes is not None:"),
         ("selection.py", "    if draft.probed.size:\n", "    if draft.pilot.ids.size and draft.probed.size:\n")),
    ),
    "L1": Revert("words", (("comparison/__init__.py", "whole(argument, values) > MOST_SEEDS",
                            "whole(argument, values) > 10**40"),)),
    "L2": Revert(
        "words",
        (("tables/npy.py", "        if sum(info.file_size", "        if 0 * sum(info.file_size"),
         ("tables/npy.py", "info.compress_type != zipfile.ZIP_STORED or not", "not")),
    ),
    "L3": Revert("calls", (("checks.py", "if isinstance(values, np.ma.MaskedArray):", "if values is None:"),)),
    "L4": Revert("words", (("errors.py", "    return COMMANDS.sub(_escaped, text)\n", "    return text\n"),)),
    "L5": Revert("words", (("tables/places.py", "    return _SECRETS.sub(", "    return text or _SECRETS.sub("),)),
    "L6": Revert(
        "words",
        (("tables/parts.py", "    if duplicate is not None:\n", "    if duplicate == 0:\n"),
         ("tables/parts.py", "OSError, ValueError, TypeError, KeyError, Over", "OSError, ValueError, TypeError, Over")),
    ),
    "L7": Revert("surroundings", (("cli/app.py", "    prepare_streams()\n", ""),)),
    "L8": Revert("calls", (("reporting/__init__.py", "    if not isinstance(part, str) or not part:\n",
                            "    if part is NotImplemented:\n"),)),
    "L9": Revert("surroundings", (("cli/app.py",
                                   '    warnings.filterwarnings("default", category=CoresiftWarning)\n', ""),)),
    "L10": Revert("surroundings", (("comparison/files.py",
                                    '    path.unlink(missing_ok=True)\n    with path.open("xb") as file:\n',
                                    '    with path.open("wb") as file:\n'),)),
    "L11": Revert("surroundings", (("tables/writing.py", "                os.fchmod(file.fileno(), ",
                                    "                print(end='') or str("),)),
    "L12": Revert("surroundings", (("tables/writing.py", "        _remove_stale(target.parent)\n", ""),)),
    "L13": Revert("results", (("rows/base.py", "zlib.crc32(np.ascontiguousarray(block, ",
                               "zlib.crc32(np.ascontiguousarray(block[:1024], "),)),
    "L14": Revert("results", (("tables/parts.py", "pa.OSFile(os.fsencode(path))",
                               "pa.OSFile(str(path).encode('utf-8', 'replace').decode())"),)),
    "L15": Revert("results", (("oracle/__init__.py", "                self._drop_unused()\n", ""),)),
    "L16": Revert("results", (("tables/writing.py", "    return pc.replace_substring_regex(array, FORMULA, ",
                               "    return array if True else pc.replace_substring_regex(array, FORMULA, "),)),
}  # fmt: skip


def bring_back(name: str, folder: Path) -> Path:
    """Copy the source and bring a fault back in it; return the copy."""
    source = folder / "src"
    shutil.copytree(ROOT / "src", source)  # with what is compiled, which holds for all files but the changed ones
    for file, text, instead in REVERTS[name].changes:
        path = source / "coresift" / file
        content = path.read_text(encoding="utf-8")
        if content.count(text) != 1:
            raise SystemExit(f"{name}: {text!r} stands {content.count(text)} times in {file}; mend the list.")
        path.write_text(content.replace(text, instead), encoding="utf-8")
    return source


def look_for(name: str, seed: int, originals: Path) -> tuple[str | None, float]:
    """Run the campaign against a source with the fault; return what it reports first, and the seconds by the clock."""
    with tempfile.TemporaryDirectory(prefix="revert-") as place:
        source = bring_back(name, Path(place))
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)])}
        words = [sys.executable, "-m", "faults", "--only", REVERTS[name].kinds, "--stop", "--seconds", str(SECONDS)]
        words += ["--seed", str(seed), "--keep", str(Path(place) / "kept"), "--originals", str(originals)]
        began = time.monotonic()
        ended = subprocess.run(words, env=env, cwd=place, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
        lines = ended.stdout.strip().splitlines()
        # Sound files that cannot be made any more are a report, too.
        report = lines[0] if ended.returncode == 1 and lines else None
        if report is None and (found := re.search(r"RuntimeError: ((The sound files|The job).*)", ended.stderr)):
            report = found[1]
        return report, seconds


def main() -> int:
    """Try the faults, and print a line about each."""
    parser = argparse.ArgumentParser(prog="python -m faults.reverts", description=__doc__.partition("\n")[0])
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=f"by default all: {', '.join(REVERTS)}")
    parser.add_argument("--seed", type=int, default=0)
    add_option(parser)
    options = parser.parse_args()
    reported = 0
    names = options.faults or list(REVERTS)
    originals = Path(tempfile.mkdtemp(prefix="originals-")) / "files"
    subprocess.run([sys.executable, "-m", "faults", "--only", "results", "--most", "0", "--originals", str(originals)],
                   check=True, capture_output=True, cwd=ROOT)  # fmt: skip
    for name in names:
        report, seconds = look_for(name, options.seed, originals)
        reported += report is not None
        if options.record is not None:
            add(options.record, "revert", fault=name, kinds=REVERTS[name].kinds, seconds=round(seconds), report=report)
        print(f"| {name} | {REVERTS[name].kinds} | {seconds:.0f} | {report or '**not reported**'} |", flush=True)
    print(f"{reported} of {len(names)} reported")
    return int(reported < len(names))


if __name__ == "__main__":
    sys.exit(main())
