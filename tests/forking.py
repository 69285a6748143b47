"""Many short processes that can be killed: one process imports everything and forks each of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress

LOOP = """
import json, os, sys, traceback
for line in sys.stdin:
    folder, *words = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.chdir(folder)
        code = 1
        try:
            code = main(*words) or 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Forks:
    """Runs `main(*words)` of a script in a folder, in one process after the other."""

    def __init__(self, server):
        self._server, self.pid = server, 0

    def start(self, folder, *words):
        folder.mkdir(exist_ok=True)
        self._server.stdin.write(json.dumps([str(folder), *words]) + "\n")
        self._server.stdin.flush()
        self.pid = int(self._server.stdout.readline())

    def wait(self):
        """Return the exit status of the process, negative if a signal has ended it."""
        return int(self._server.stdout.readline())

    def kill(self):
        """Kill the process; say whether it was still there."""
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(self.pid, signal.SIGKILL)
        return self.wait() == -signal.SIGKILL


@contextmanager
def forks(script):
    """Start the process that forks, and end it whatever happens."""
    words = [sys.executable, "-c", script + LOOP]
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Forks(server)
    finally:
        server.stdin.close()
        server.kill()
        server.wait()
        server.stdout.close()
