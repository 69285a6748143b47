"""A Ray cluster that coresift starts: nobody without its token may use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import ClassVar

import numpy as np

from faults.kind import Case, Kind

START = """
import json, os, sys, numpy as np, coresift as cs
try:
    cs.select(np.random.default_rng(0).normal(size=(60, 3)), None, 10, clusters=2, engine=cs.engines.Ray())
except cs.CoresiftError as error:
    sys.exit(f"Error: {error}")
import ray
token = {name: value for name, value in os.environ.items() if name.startswith("RAY_AUTH_")}
print(json.dumps([ray.get_runtime_context().gcs_address, token]), flush=True)
sys.stdin.read()
"""
TRIES, LATE = 3, "Ray does not start here"
# What a client does first; Ray answers it or turns it away.
QUESTION = (
    "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1]).internal_kv_keys(b'', None, 20)"
)


class Cluster(Kind):
    """A process without the token is turned away, and one that has it is not."""

    name: ClassVar[str] = "a cluster of our own"
    share: ClassVar[float] = 0.5

    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield the one case."""
        if find_spec("ray") is not None:
            yield {}

    def problem(self, case: Case) -> str | None:
        """Try a cluster; on a busy machine Ray may take too long to start, and coresift says so in one sentence."""
        for _ in range(TRIES):
            found = self._problem()
            if found is None or not found.startswith(LATE):
                return found
        return found

    def _problem(self) -> str | None:
        """Start a cluster, and ask it something from processes with and without the token."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        words = [sys.executable, "-c", START]
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
        ) as owner:
            assert owner.stdout is not None and owner.stdin is not None and owner.stderr is not None
            line = owner.stdout.readline()
            if not line:
                said = owner.stderr.read()
                late = said.startswith("Error: Ray could not start") and said.count("\n") == 1
                return f"{LATE if late else 'the cluster does not start'}: {said[-300:]}"
            address, token = json.loads(line)
            try:
                if not _answers(address, env | token):
                    return "the cluster does not answer its owner, so nothing is known of others"
                return "anyone may use it" if _answers(address, env) else None
            finally:
                owner.stdin.close()


def _answers(address: str, env: dict[str, str]) -> bool:
    try:
        words = [sys.executable, "-c", QUESTION, address]
        return not subprocess.run(words, env=env, timeout=120, check=False, capture_output=True).returncode
    except subprocess.TimeoutExpired:
        return False
