"""Methods for the tests of comparisons: good ones, and each way in which one can fail. Processes import them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import coresift as cs


def plain(rows, losses, budget, seed):
    return cs.select(rows, None, budget, seed, clusters=3, score=cs.scores.Distance())


def slow(rows, losses, budget, seed):
    note("slow", budget, seed)
    time.sleep(0.1)
    return plain(rows, losses, budget, seed)


def note(*words):
    """Add a line to the file that RIVALS names: who ran, and in which process."""
    if "RIVALS" in os.environ:
        with Path(os.environ["RIVALS"]).open("a") as file:
            file.write(" ".join(map(str, (os.getpid(), *words))) + "\n")


def unweighted(rows, losses, budget, seed):
    return cs.baselines.k_center(rows, budget, seed=seed, progress=False)


def chatty(rows, losses, budget, seed):
    print('{"error": 0}')
    os.write(1, b'{"ready": true}\n')
    subprocess.run([sys.executable, "-c", "print('{}')"], check=True)
    return plain(rows, losses, budget, seed)


def hungry(rows, losses, budget, seed):
    assert np.ones(40_000_000).sum() > 0  # 320 MB
    return plain(rows, losses, budget, seed)


def raises(rows, losses, budget, seed):
    raise ValueError("no\nsuch luck.")


def raises_late(rows, losses, budget, seed):
    if seed == 1 and budget == 20:
        raise ValueError("the second seed")
    return plain(rows, losses, budget, seed)


def leaves(rows, losses, budget, seed):
    sys.exit("done")


def dies(rows, losses, budget, seed):
    os.kill(os.getpid(), signal.SIGKILL)


def dies_with_child(rows, losses, budget, seed):
    """Leave a process behind that holds all pipes open."""
    if os.fork() == 0:
        note("orphan")
        time.sleep(600)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)


def dies_at_20(rows, losses, budget, seed):
    if budget == 20:
        os._exit(3)
    return plain(rows, losses, budget, seed)


def hangs(rows, losses, budget, seed):
    time.sleep(600)


def starves(rows, losses, budget, seed):
    return np.empty(2**62, np.uint8)


def rubbish(rows, losses, budget, seed):
    return [1, 2, 3]


def too_many(rows, losses, budget, seed):
    return plain(rows, losses, budget + 1, seed)


def part(rows, losses, budget, seed):
    return cs.select(rows, None, budget, seed, exclude=[0], clusters=3)


def score(selection):
    return selection.ids.mean() + len(selection)


def no_score(selection):
    return "good"


def loss_of(ids):
    return ids % 7 + 1.0
