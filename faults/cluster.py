"""A Ray cluster that coresift starts: nobody without its token may use it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import ClassVar

import numpy as np

from faults.kind import Case, Kind

START = """
import sys, numpy as np, coresift as cs
cs.select(np.random.default_rng(0).normal(size=(60, 3)), None, 10, clusters=2, engine=cs.engines.Ray())
import ray
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""
STRANGER = "import sys; from ray._raylet import GcsClient; GcsClient(sys.argv[1]).internal_kv_keys(b'', None, 10)"


class Cluster(Kind):
    """A process without the token is turned away."""

    name: ClassVar[str] = "a cluster of our own"
    share: ClassVar[float] = 0.5

    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield the one case."""
        if find_spec("ray") is not None:
            yield {}

    def problem(self, case: Case) -> str | None:
        """Start a cluster, and ask it something from a process that does not have the token."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        words = [sys.executable, "-c", START]
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
        ) as owner:
            assert owner.stdout is not None and owner.stdin is not None and owner.stderr is not None
            address = owner.stdout.readline().strip()
            if not address:
                return f"the cluster does not start: {owner.stderr.read()[-300:]}"
            try:
                ended = subprocess.run(
                    [sys.executable, "-c", STRANGER, address], env=env, timeout=120, check=False, capture_output=True
                )
                return "anyone may use it" if ended.returncode == 0 else None
            except subprocess.TimeoutExpired:
                return None
            finally:
                owner.stdin.close()
