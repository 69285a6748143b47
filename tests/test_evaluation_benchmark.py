"""The benchmark of evaluations: its peers are what they claim to be, and its runs can be continued."""

import itertools

import numpy as np
import pytest

from benchmarks.evaluation import published_factors, report, study
from benchmarks.evaluation.faq import Settings, faq, horvitz_thompson_width
from benchmarks.evaluation.history import Factors, fit, sigmoid
from benchmarks.evaluation.history_limits import switched
from benchmarks.evaluation.peers import active_inference, capped, uniform
from benchmarks.evaluation.populations import Population

RNG = np.random.default_rng(0)
CHANCE = RNG.beta(1, 6, size=600)
WRONG = (RNG.random(600) < CHANCE).astype(np.float64)
GIVEN = Population("made up", "tuning", WRONG, {"chance": CHANCE}, CHANCE, np.sqrt(CHANCE * (1 - CHANCE)), True)


def test_probabilities_are_capped_and_keep_their_sum():
    chance = capped(np.array([100.0, 1.0, 2.0, 1.0]), 2)
    np.testing.assert_allclose(chance, [1.0, 0.25, 0.5, 0.25])


@pytest.mark.parametrize("peer", [uniform, active_inference])
def test_peers_are_unbiased_and_cover(peer):
    lines = peer(GIVEN, 120, range(400))
    found = report.measures(lines, GIVEN.truth)
    # Five standard errors of a mean over 400 runs.
    assert abs(found["bias"]) < 5 * found["rmse"] / 20
    assert found["coverage"] > 0.9


def test_active_inference_beats_uniform_rows_where_doubts_are_right():
    flat, active = (report.measures(peer(GIVEN, 120, range(400)), GIVEN.truth) for peer in (uniform, active_inference))
    assert active["rmse"] < 0.95 * flat["rmse"]


def made_up_factors():
    items, models = RNG.normal(size=(200, 2)) * 1.5, RNG.normal(size=(40, 2))
    answers = (RNG.random((200, 40)) < sigmoid(items @ models.T)).astype(np.float64)
    return items, models, answers


@pytest.mark.slow
def test_faq_is_unbiased_and_narrower_than_the_papers_uniform():
    _, _, answers = made_up_factors()
    found = fit(answers[:, 1:], 2, 1.0)
    lines = faq(Factors(found.items, found.models), answers[:, 0], 60, range(300), Settings())
    truth = float(answers[:, 0].mean())
    own = report.measures(lines, truth)
    assert abs(own["bias"]) < 5 * own["rmse"] / np.sqrt(300)
    assert own["coverage"] > 0.88
    assert own["width"] < horvitz_thompson_width(truth, 200, 60)


def test_factors_are_found_again():
    items, models, answers = made_up_factors()
    found = fit(answers, 2, 1.0)
    chance = sigmoid(found.items @ found.models.T)
    assert np.corrcoef(chance.ravel(), sigmoid(items @ models.T).ravel())[0, 1] > 0.85


def test_runs_are_kept_and_continued(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    asked = []

    def peer(given, budget, seeds):
        asked.append(list(seeds))
        return uniform(given, budget, seeds)

    assert study.extend(GIVEN, 50, "uniform", peer, 10)
    assert study.extend(GIVEN, 50, "uniform", peer, 15)
    assert not study.extend(GIVEN, 50, "uniform", peer, 15)
    assert asked == [list(range(10)), list(range(10, 15))]
    kept = study.read(study.path_of("made up"))
    np.testing.assert_allclose(kept.lines[50, "uniform", 0], uniform(GIVEN, 50, range(15)), atol=3e-4)
    assert kept.truth == GIVEN.truth


def test_runs_of_another_version_or_population_are_not_mixed(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    study.extend(GIVEN, 50, study.OURS, uniform, 5)
    version = study.BINARY_VERSIONS[study.OURS]
    monkeypatch.setitem(study.BINARY_VERSIONS, study.OURS, version + 1)
    study.extend(GIVEN, 50, study.OURS, active_inference, 3)
    kept = study.Runs.of(GIVEN)
    assert {key[2]: len(lines) for key, lines in kept.lines.items()} == {version: 5, version + 1: 3}
    assert kept.most(50, study.OURS)[1] == version
    other = Population("made up", "tuning", 1 - WRONG, {}, CHANCE, CHANCE, True)
    assert study.Runs.of(other).lines == {}


def test_runs_are_kept_if_the_processor_changes_one_of_many_answers(tmp_path, monkeypatch):
    """One answer of 10,000 moves the truth by .0001; the runs keep their deviations from the truth."""
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    wrong = np.tile([1.0, *np.zeros(9)], 1_000)
    chance = np.full(10_000, 0.1)
    given = Population("made up", "tuning", wrong, {}, chance, chance, True)
    study.extend(given, 50, "uniform", uniform, 5)
    changed = wrong.copy()
    changed[0] = 0.0
    before = study.read(study.path_of("made up")).lines[50, "uniform", 0] - given.truth
    now = Population("made up", "tuning", changed, {}, chance, chance, True)
    np.testing.assert_allclose(study.Runs.of(now).lines[50, "uniform", 0] - now.truth, before, atol=1e-12)
    changed[:500] = 0.0
    assert study.Runs.of(Population("made up", "tuning", changed, {}, chance, chance, True)).lines == {}


def test_the_best_covers():
    methods = {
        "a": {"rmse": 1.0, "coverage": 0.80, "width": 1.0},
        study.OURS: {"rmse": 1.1, "coverage": 0.95, "width": 1.0},
        "uniform": {"rmse": 1.2, "coverage": 0.95, "width": 1.0},
    }
    case = {"population": "x", "answers": 5, "rows": 10, "methods": methods}
    assert report.best(case) == study.OURS
    assert "in 1 of 1 cases" in report.verdict([case])


def test_the_order_of_two_answers_follows_from_the_text_and_the_seed():
    """As in AlpacaEval: about half of the texts are switched, other seeds switch others, and it can be repeated."""
    texts = [f"Write sentence {number}." for number in range(400)]
    orders = [[switched(text, seed, newer) for text in texts] for newer in (False, True) for seed in (0, 1)]
    assert orders[0] == [switched(text) for text in texts]
    assert all(abs(np.mean(order) - 0.5) < 0.1 for order in orders)
    assert all(abs(np.mean(np.equal(a, b)) - 0.5) < 0.1 for a, b in itertools.combinations(orders, 2))


def test_published_factors_are_read_from_files_of_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    models, items = torch.arange(6.0).reshape(3, 2), torch.ones(5, 2)
    for tensor, name in ((models, published_factors.FILES["models"]), (items, published_factors.FILES["items"])):
        torch.save(tensor, tmp_path / name)
    factors = published_factors.published(tmp_path)
    assert factors.models.tolist() == models.tolist()
    assert factors.items.tolist() == items.tolist()
    drawn = published_factors.answers(factors, 2)  # the chance is σ(4 + 5)
    assert drawn.tolist() == [1.0] * 5


def test_figures_are_those_of_mean_widths_and_errors():
    """Two models and two runs, by hand."""
    truths = [np.array([1.0, 0, 0, 0]), np.array([1.0, 1, 0, 0])]
    lines = [np.array([[0.25, 0.15, 0.35], [0.35, 0.3, 0.4]]), np.array([[0.5, 0.4, 0.6], [0.4, 0.3, 0.5]])]
    found = published_factors.figures(lines, truths, 2)
    baseline = (horvitz_thompson_width(0.25, 4, 2) + horvitz_thompson_width(0.5, 4, 2)) / 2
    assert found["by_papers_width"] == pytest.approx((baseline / 0.175) ** 2)
    assert found["by_error"] == pytest.approx((0.25 + 1 / 3) / 2 * (1 / 2 - 1 / 4) / ((0.01 + 0.01) / 4))
    assert found["coverage"] == 0.75
