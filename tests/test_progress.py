"""Progress: silence off the terminal, and on it a bar for what proves slow, wiped when it ends."""

import io
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import coresift as cs
from coresift import progress as progress_module
from coresift.clustering import sample_size
from coresift.progress import Bar, Progress, choose, stage

SLOW = """if True:
    import sys, time
    from coresift.progress import Bar, choose, stage
    Bar.patience = 0.2
    bar = choose(None)
    print(type(bar).__name__, flush=True)
    try:
        with stage(bar, "counting sheep", 40):
            for _ in range(40):
                time.sleep({pause})
                bar.advance(1)
            {end}
    except ZeroDivisionError:
        pass
    print("over", file=sys.stderr)
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run_on_a_terminal(code: str) -> tuple[str, str]:
    """Run code with standard error on a terminal; return what came on standard output and there."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=theirs, env=environment) as run:
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(ours, 4096):
                seen += piece
        except OSError:  # the other end is closed
            pass
        out = run.stdout.read().decode()
    os.close(ours)
    assert run.returncode == 0
    return out, seen.decode()


@pytest.mark.slow
def test_a_slow_stage_shows_on_a_terminal_and_is_wiped():
    out, seen = run_on_a_terminal(SLOW.format(pause=0.02, end=""))
    assert out == "Bar\n"
    assert "counting sheep" in seen
    assert "/40" in seen
    assert "/s" in seen
    assert "\x1b[?25h" in seen  # the cursor is back
    wiped = seen.rindex("\x1b[2K")
    assert "counting sheep" not in seen[wiped:]
    assert seen[wiped:].endswith("over\r\n")


@pytest.mark.slow
def test_a_stage_that_fails_is_wiped_too():
    _, seen = run_on_a_terminal(SLOW.format(pause=0.02, end="1 / 0"))
    assert "counting sheep" in seen
    assert "counting sheep" not in seen[seen.rindex("\x1b[2K") :]
    assert "\x1b[?25h" in seen


@pytest.mark.slow
def test_a_quick_stage_shows_nothing():
    out, seen = run_on_a_terminal(SLOW.format(pause=0.0, end=""))
    assert (out, seen) == ("Bar\n", "over\r\n")


@pytest.mark.slow
def test_off_the_terminal_there_is_silence():
    code = SLOW.format(pause=0.02, end="")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("Progress\n", "over\n")


@pytest.mark.slow
def test_an_unfinished_clustering_wipes_its_bar(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(Bar, "patience", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    rows = np.random.default_rng(0).normal(size=(40_000, 60)).astype(np.float32)
    sampled = np.random.default_rng([0, 1]).choice(len(rows), sample_size(len(rows), 5), replace=False)
    bad = int(np.setdiff1d(np.arange(len(rows)), sampled)[-1])
    rows[bad, 0] = np.nan
    threads = threading.active_count()
    with pytest.raises(cs.InputError) as caught:
        cs.cluster(rows, 5)
    assert "refining centers" in screen.getvalue()
    assert f"row {bad} has NaN" in str(caught.value)
    assert threading.active_count() == threads
    assert screen.getvalue().count("\x1b[?25l") == screen.getvalue().count("\x1b[?25h") > 0


def test_stages_follow_one_another(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    bar = Bar()
    bar.patience = 0.01
    for name in ("first", "second"):
        with stage(bar, name, 3):
            time.sleep(0.02)
            bar.advance(3)
    bar.finish()
    assert "first" in screen.getvalue()
    assert "second" in screen.getvalue()


def test_choosing(monkeypatch):
    own = Progress()
    assert choose(own) is own
    assert isinstance(choose(True), Bar)
    assert type(choose(False)) is Progress
    for error_stream, kind in ((Terminal(), Bar), (io.StringIO(), Progress), (None, Progress)):
        monkeypatch.setattr(sys, "stderr", error_stream)
        assert type(choose(None)) is kind


def test_a_stage_is_closed_whatever_happens():
    class Noted(Progress):
        def __init__(self) -> None:
            self.notes: list = []

        def start(self, stage: str, total: int) -> None:
            self.notes.append((stage, total))

        def finish(self) -> None:
            self.notes.append("closed")

    noted = Noted()
    with pytest.raises(ZeroDivisionError), stage(noted, "dividing", 2):
        1 / 0  # noqa: B018
    assert noted.notes == [("dividing", 2), "closed"]


@pytest.mark.slow
def test_rich_is_imported_only_for_a_bar_that_shows():
    code = (
        "import sys, coresift.progress as p; b = p.Bar(); b.start('a', 1); b.advance(1); print('rich' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
    assert progress_module.Bar.patience == 1.0
