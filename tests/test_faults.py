"""The fault campaign: a short seeded part of it, every case that ever failed, and the campaign's own tools."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from faults.campaign import KEPT, KINDS

ROOT = Path(__file__).parent.parent


def run(*words, cwd=ROOT):
    return subprocess.run(
        [sys.executable, "-m", "faults", *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_a_seeded_part_of_the_campaign_finds_nothing(tmp_path):
    kinds = "known,kills,flips,reading,damage,races,calls,words,types,forged,handmade,results"
    ended = run("--seconds", 600, "--most", 3, "--seed", 1, "--only", kinds, "--keep", tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.slow
def test_what_failed_once_does_not_fail_again():
    kept = sorted(KEPT.glob("*.json"))
    if kept:
        ended = run("--replay", *kept)
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_kept_cases_can_be_replayed():
    for path in KEPT.glob("*.json"):
        kept = json.loads(path.read_text())
        assert kept["kind"] in KINDS, path
        assert isinstance(kept["case"], dict), path


@pytest.mark.slow
def test_a_fault_is_found_and_kept_and_told_by_the_exit_status(tmp_path):
    """With the checksums of state files switched off, flipped bits are another result."""
    code = (
        "import sys; sys.argv = ['faults', *sys.argv[1:]]\n"
        "from coresift.oracle.lines import Lines\n"
        "Lines._checked = lambda self, line, before, number: ''\n"
        "from faults.__main__ import main; sys.exit(main())\n"
    )
    words = ["--seconds", "120", "--only", "flips", "--most", "80", "--stop", "--keep", str(tmp_path)]
    ended = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    kept = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    assert kept[0]["kind"] == "flips"
    assert "| bits flipped in state files |" in ended.stdout
