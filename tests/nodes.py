"""A real Ray cluster on this machine: nodes with processes and resources of their own, all of them ended at the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

# Ray reads these when it is imported: nothing is reported, and everything stays on the loopback interface.
os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}

MARK = "CORESIFT_TEST_CLUSTER"
STORE = 128 * 2**20
# A node that is gone refuses connections, which is noticed within a few seconds; one that is slow has long to answer.
SYSTEM = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 20_000,
    "health_check_failure_threshold": 4,
}


class Nodes:
    """A head and two more nodes, each with one worker; any node but the head can be killed and replaced."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._mark = uuid.uuid4().hex
        self._folder = tempfile.mkdtemp(prefix="ray-")  # short: sockets live in it
        # Whatever is started from here on can be told by the mark.
        os.environ |= {MARK: self._mark, "RAY_TMPDIR": self._folder}
        self.others: list[Any] = []
        try:
            head = {"temp_dir": f"{self._folder}/ray", "include_dashboard": False, "_system_config": SYSTEM}
            self._cluster = Cluster(initialize_head=True, head_node_args={**self._node(), **head})
            for _ in range(2):
                self.add()
        except BaseException:
            self.end()
            raise

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self) -> None:
        self.others.append(self._cluster.add_node(**self._node()))

    def _node(self) -> dict[str, Any]:
        return {"num_cpus": 1, "object_store_memory": STORE, "node_ip_address": "127.0.0.1"}

    def kill(self, node: Any) -> int:
        """SIGKILL all processes of a node; return how many there were."""
        root = node.all_processes["raylet"][0].process.pid
        pids = [root, *_below(root)]
        for pid in pids:
            _kill(pid)
        self.others.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)
        return len(pids)

    def processes(self) -> list[int]:
        """Whatever was started for the cluster and is still there, apart from this process."""
        return [pid for pid in _all() if pid != os.getpid() and self._is_ours(pid)]

    def _is_ours(self, pid: int) -> bool:
        try:
            alive = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
            return alive and f"{MARK}={self._mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False

    def end(self) -> list[int]:
        """End everything; return what did not end by itself within ten seconds and was killed."""
        import ray

        ray.shutdown()
        if hasattr(self, "_cluster"):
            self._cluster.shutdown()
        late = time.monotonic() + 10
        while (left := self.processes()) and time.monotonic() < late:
            time.sleep(0.1)
        for pid in left:
            _kill(pid)
        for name in (MARK, "RAY_TMPDIR"):
            os.environ.pop(name, None)
        shutil.rmtree(self._folder, ignore_errors=True)
        return left


def _all() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _below(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for pid in _all():
        try:
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        parents.setdefault(parent, []).append(pid)
    found, left = [], [root]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
