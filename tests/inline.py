"""Methods of a comparison in the test's own process, through the code that a worker process runs.

A process of its own costs a second of imports. Tests whose subject is not the process run their methods here.
"""

from __future__ import annotations

import json
import pickle
import warnings

from coresift.checks import CoresiftWarning
from coresift.comparison import worker


class InlineWorker:
    """Has the methods of `running._Worker`, and replies at once."""

    def __init__(self, label, job, setting, events):
        self.label, self.task, self._events = label, None, events
        self._bench = self._try(lambda: worker.prepare(pickle.loads(job)))
        self._reply(self._bench if isinstance(self._bench, dict) else {"ready": True})

    def send(self, task):
        self.task = task
        self._reply(self._try(lambda: self._bench.run(*task)))

    def look(self, timeout):
        pass

    def close(self):
        pass

    def _try(self, action):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoresiftWarning)
            return worker._try(action)

    def _reply(self, facts):
        self._events.put((self, json.loads(json.dumps(facts))))
