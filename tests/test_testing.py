"""The public checks: our own parts and a third party's pass, wrong ones are caught; foreign parts work everywhere."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from parts import DESIGNS, PILOTS, scores

import coresift as cs
from coresift import testing
from coresift.inclusion import fixed_size_inclusion
from coresift.testing import check_design, check_pilot, check_score
from coresift.testing.enumeration import outcomes
from coresift.types import REGISTERED, Needs, Opaque, PilotPlan, Scores
from coresift.variance import by_neighbors, within_clusters

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module")
def own():
    """The example's module; what it registers goes again afterwards."""
    before = {kind: dict(names) for kind, names in REGISTERED.items()}
    sys.path.insert(0, str(EXAMPLES))
    import own_strategy

    yield own_strategy
    sys.path.remove(str(EXAMPLES))
    del sys.modules["own_strategy"]
    REGISTERED.clear()
    REGISTERED.update(before)


@pytest.fixture
def registered():
    """Let a test define strategies that nobody sees afterwards."""
    before = {kind: dict(names) for kind, names in REGISTERED.items()}
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


def unless_in_its_docstring(check, parts):
    """Return the parts, but for one that the check's own example, which is run as a test too, has already."""
    return [part for part in parts if f">>> {check.__name__}({part!r})\n" not in check.__doc__]


@pytest.mark.slow
@pytest.mark.parametrize("design", unless_in_its_docstring(check_design, DESIGNS), ids=repr)
def test_our_designs_pass(design):
    check_design(design)


@pytest.mark.slow
@pytest.mark.parametrize("pilot", unless_in_its_docstring(check_pilot, [*PILOTS, cs.pilots.Informed()]), ids=repr)
def test_our_pilots_pass(pilot):
    check_pilot(pilot)


@pytest.mark.slow
@pytest.mark.parametrize("score", scores(7)[:-1], ids=repr)
def test_our_scores_pass(score):
    check_score(score)


def test_a_third_party_s_parts_are_checked(own, monkeypatch):
    """The example checks its own three parts when `test_examples` runs it; here it is made sure that it does."""
    checked = []
    for name in ("check_design", "check_score", "check_pilot"):
        monkeypatch.setattr(own, name, lambda part, name=name: checked.append((name, part)))
    own.main()
    parts = {"check_design": own.CoinFlips(), "check_score": own.FarFirst(), "check_pilot": own.EvenPilot()}
    assert dict(checked) == parts


def test_enumeration_finds_the_exact_distribution():
    inclusion = np.array([0.5, 0.75, 0.75])
    found = {
        tuple(result.positions.tolist()): result.probability for result in outcomes(cs.designs.Poisson(), inclusion)
    }
    for drawn, probability in found.items():
        exact = np.prod([p if row in drawn else 1 - p for row, p in enumerate(inclusion)])
        assert probability == pytest.approx(exact, abs=1e-9)
    assert len(found) == 8


@pytest.mark.slow
def test_a_design_with_a_wrong_variance_is_caught(registered, monkeypatch):
    monkeypatch.setattr(testing, "SEEDS", 80)

    @dataclass(frozen=True)
    class Renamed(cs.designs.Poisson):
        def moments(self, sample):
            return by_neighbors(sample)  # as if the number of rows were fixed

    with pytest.raises(AssertionError, match=r"Renamed\(\) claims a standard error of .* its moments are wrong"):
        check_design(Renamed())


def test_a_design_with_wrong_probabilities_is_caught(registered):
    @dataclass(frozen=True)
    class Greedy(cs.designs.Systematic):
        def draw(self, inclusion, uniforms):
            uniforms.random(1)
            largest = np.sort(np.argsort(-inclusion, kind="stable")[: round(inclusion.sum())])
            return largest, np.ones(largest.size, np.int64)

    with pytest.raises(AssertionError, match=r"Greedy\(\) draws row \d with probability"):
        check_design(Greedy())


def test_a_score_with_a_zero_where_a_row_matters_is_caught(registered):
    @dataclass(frozen=True)
    class Forgetful(cs.scores.Score):
        @property
        def needs(self):
            return Needs(pilot=False, answers=False)

        def scores(self, evidence):
            n = evidence.clustering.n
            return Scores(np.where(np.arange(n) == 3, 0.0, 1.0), np.arange(n))

    with pytest.raises(AssertionError, match=r"Forgetful\(\) gives row 3 size 0, but its loss is above 0"):
        check_score(Forgetful())


def test_a_score_that_changes_its_mind_is_caught(registered):
    turns = itertools.count(1)

    @dataclass(frozen=True)
    class Fickle(cs.scores.Score):
        @property
        def needs(self):
            return Needs(pilot=False, answers=False)

        def scores(self, evidence):
            n = evidence.clustering.n
            return Scores(np.arange(n) + next(turns), np.arange(n))

    with pytest.raises(AssertionError, match=r"Fickle\(\) must give the same sizes and the same order to the same"):
        check_score(Fickle())


@dataclass(frozen=True)
class _Uneven(cs.pilots.Pilot):
    """Asks half of the rows, and claims a share of the others too."""

    def size(self, clusters, budget):
        return 2

    def plan(self, clustering, frame, budget):
        reach = frame.open() & (np.arange(frame.n) < 4)
        inclusion = fixed_size_inclusion(reach.astype(float), 2)
        return PilotPlan(inclusion, np.full(frame.n, 0.5), np.arange(frame.n), keep=True, origin="pilot")

    def moments(self, sample):
        return within_clusters(sample)


def test_a_biased_pilot_is_caught(registered):
    REGISTERED["pilot"]["_Uneven"] = _Uneven
    with pytest.raises(AssertionError, match="gives row 4 a share, but can never draw it"):
        check_pilot(_Uneven())


def test_without_moments_there_is_a_total_but_no_interval(registered):
    @dataclass(frozen=True)
    class Silent(cs.designs.Design):
        def inclusion(self, sizes, count):
            return fixed_size_inclusion(sizes, count)

        def draw(self, inclusion, uniforms):
            return cs.designs.Systematic().draw(inclusion, uniforms)

    rows = np.random.default_rng(0).normal(size=(200, 3))
    picked = cs.select(rows, budget=40, design=Silent())
    found = cs.estimate(picked, np.arange(40.0))
    assert np.isfinite(found.total.value)
    assert np.isinf(found.total.high)
    # Of a rate, no more is said than that it is one.
    rate = cs.estimate(picked, np.ones(40)).mean
    assert (rate.low, rate.high) == (0, 1)
    assert found.warnings == ("Silent() does not say how much its draws vary: there is a total, but no interval.",)


@pytest.mark.slow
def test_foreign_parts_are_stored_and_load_as_records_where_nobody_knows_them(own, tmp_path):
    rows = np.random.default_rng(0).normal(size=(300, 3))
    losses = np.abs(rows[:, 0])
    picked = cs.select(rows, losses, 60, pilot=own.EvenPilot(), design=own.CoinFlips())
    paths = [cs.save(picked, tmp_path / f"picked{suffix}") for suffix in (".parquet", ".csv", ".jsonl")]
    for path in paths:
        assert cs.load(path) == picked
        assert cs.estimate(cs.load(path), losses[picked.ids]) == cs.estimate(picked, losses[picked.ids])
    script = (
        "import sys, coresift as cs, json, numpy as np\n"
        "for path in sys.argv[1:]:\n"
        "    picked = cs.load(path)\n"
        "    found = cs.estimate(picked, np.ones(len(picked)))\n"
        "    kind, imported = type(picked.phases[1]).__name__, 'own_strategy' in sys.modules\n"
        "    print(json.dumps([kind, found.total.value, found.warnings, imported]))"
    )
    words = [sys.executable, "-c", script, *map(str, paths)]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == len(paths)
    for line in lines:
        kind, total, warnings, imported = json.loads(line)
        assert (kind, imported) == (Opaque.__name__, False)
        assert total == pytest.approx(picked.weights.sum())
        assert "there is a total, but no interval" in warnings[0]


COMMANDS = """
import json, sys
from coresift.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["coresift", *words]
    try:
        main()
    except SystemExit as end:
        with open("statuses", "a") as file:
            file.write(f"{end.code or 0} ")
"""


@pytest.mark.slow
def test_foreign_parts_work_on_the_command_line_and_in_comparisons(tmp_path):
    """A package that declares its strategies by an entry point is found by name."""
    (tmp_path / "own_strategy.py").write_text((EXAMPLES / "own_strategy.py").read_text())
    declared = tmp_path / "own_strategy-1.0.dist-info"
    declared.mkdir()
    (declared / "METADATA").write_text("Metadata-Version: 2.1\nName: own-strategy\nVersion: 1.0\n")
    (declared / "entry_points.txt").write_text("[coresift.strategies]\nown = own_strategy\n")
    rows = np.random.default_rng(0).normal(size=(400, 3))
    np.save(tmp_path / "rows.npy", rows)
    losses = "\n".join(["row,loss", *(f"{row},{abs(value):.6f}" for row, value in enumerate(rows[:, 0]))])
    (tmp_path / "losses.csv").write_text(losses + "\n")
    shared = ["rows.npy", "--losses", "losses.csv"]
    methods = ["--method", "coresift", "--method", "coresift(score=FarFirst(times=2.0), design=CoinFlips)"]
    commands = [
        ["select", *shared, "--budget", "50", "--pilot", "EvenPilot(part=0.4)", "--design", "CoinFlips"],
        ["report", "picked.parquet", "--rows", "rows.npy", "--losses", "losses.csv"],
        ["compare-methods", *shared, "--budget", "40", "--seeds", "2", "--no-plot", *methods],
        ["select", "rows.npy", "--budget", "50", "--design", "CoinFlip"],
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    run = [sys.executable, "-c", COMMANDS, json.dumps(commands)]
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert (tmp_path / "statuses").read_text() == "0 0 0 2 ", done.stderr
    assert "Did you mean CoinFlips?" in done.stderr.splitlines()[-1]
