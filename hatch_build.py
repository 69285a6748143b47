"""Compile the inner loops of clustering while the package is built; without a C compiler, it is built without them.

The package then uses the same loops in numpy, which are several times slower. CORESIFT_COMPILE=0 leaves the compiler
out, and CORESIFT_COMPILE=1 makes its failure an error, for those who build wheels.
"""

import os
import shlex
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path(__file__).parent / "src" / "coresift" / "clustering"
# Products and sums are rounded one by one, so that every processor computes the same numbers.
OPTIONS = ["-O3", "-ffp-contract=off", "-shared", "-fPIC"]


class CustomBuildHook(BuildHookInterface):
    """Builds `_kernels.so` next to its sources, for wheels and for editable installations."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and mark the wheel as one for this platform."""
        wanted = os.environ.get("CORESIFT_COMPILE", "")
        library = FOLDER / "_kernels.so"
        library.unlink(missing_ok=True)
        if wanted == "0":
            return
        problem = compile_library(sorted(FOLDER.glob("*.c")), library)
        if problem and wanted == "1":
            raise RuntimeError(f"The clustering loops could not be compiled: {problem}")
        if problem:
            self.app.display_warning(f"coresift is built without compiled clustering loops: {problem}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        build_data["artifacts"].append("src/coresift/clustering/_kernels.so")


def compile_library(sources: list[Path], library: Path) -> str:
    """Compile C files; return what went wrong, or nothing."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        # A compiler that cannot build one function for several processors builds it for the plain one.
        for extra in ([], ["-DPLAIN"]):
            partial = Path(folder) / library.name
            try:
                command = [*compiler, *OPTIONS, *extra, "-o", str(partial), *map(str, sources), "-lm"]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except OSError as error:
                return str(error)
            if done.returncode == 0:
                partial.replace(library)
                return ""
    return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}"
