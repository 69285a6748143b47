"""What values show of themselves in a notebook, and in one line everywhere else."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import coresift as cs
from coresift.notebook import card
from coresift.types import Interval

ROWS = np.random.default_rng(0).normal(size=(1_000, 4)).astype(np.float32)
LOSSES = np.abs(ROWS[:, 0])
CLUSTERING = cs.cluster(ROWS, 8)
PICKED = cs.select(ROWS, LOSSES, 80, clusters=CLUSTERING)
VALUES = {
    "WeightedSelection": PICKED,
    "Clustering": CLUSTERING,
    "Estimate": cs.estimate(PICKED, LOSSES[PICKED.ids]),
    "Plan": cs.plan(ROWS, 80),
    "Diagnosis": cs.diagnose(ROWS, LOSSES, 80, probes=30),
    "Certificate": cs.certify(PICKED, LOSSES[PICKED.ids]),
    "LearningRun": cs.active_learning(ROWS, 20, rounds=2),
    "Rows": cs.open_rows(ROWS),
    "Fit": cs.regression.select(ROWS, LOSSES, 80).fit(),
}
SAID = {
    "WeightedSelection": ("80 of 1,000 rows", "losses asked", "rows of equal weight"),
    "Clustering": ("8 clusters of 1,000 rows", "median"),
    "Estimate": ("95% intervals", "total", "mean", "from"),
    "Plan": ("80 of 1,000 rows", "losses", "memory", "time"),
    "Diagnosis": ("error relative to a uniform sample's", "losses asked"),
    "Certificate": ("total loss", "95% interval", "80 of 1,000 rows"),
    "LearningRun": ("0 of 20", "to come"),
    "Rows": ("1,000 rows", "numbers per row"),
    "Fit": ("intercept", "coefficient 3"),
}


class Words(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def words(markup):
    reader = Words()
    reader.feed(markup)
    reader.close()
    assert reader.open == []
    return " ".join(reader.text)


@pytest.mark.parametrize("name", VALUES)
def test_a_small_card(name):
    markup = VALUES[name]._repr_html_()
    assert len(markup) < 3_000
    assert all(said in words(markup) for said in SAID[name])


@pytest.mark.parametrize("name", VALUES)
def test_one_line_elsewhere(name):
    assert repr(VALUES[name]).startswith(f"{name}(")
    assert "\n" not in repr(VALUES[name])
    assert len(repr(VALUES[name])) < 200


def test_nothing_in_a_card_is_markup():
    markup = card("<b>", [("<i>", "</table>")], ["<script>"])
    assert words(markup).split() == ["<b>", "<i>", "</table>", "<script>"]
    assert "<script>" not in markup


def test_methods_without_weights_say_so():
    assert "none; this method does not define any" in cs.baselines.k_center(ROWS, 9)._repr_html_()


def test_warnings_of_an_estimate_show():
    lopsided = np.zeros(80)
    lopsided[0] = 1.0
    found = cs.estimate(PICKED, lopsided)
    assert found.warnings
    assert found.warnings[0] in words(found._repr_html_())
    assert repr(found).endswith(f"; warning: {found.warnings[0]})")


def test_numbers_of_an_interval_have_the_same_decimals():
    def of(*numbers):
        return Interval(*numbers, 1.0)

    assert repr(of(987637.2, 951042.0, 1027580.3)) == str(of(987637.2, 951042.0, 1027580.3))
    assert repr(of(987637.2, 951042.0, 1027580.3)) == "987,637 [951,042, 1,027,580]"
    assert repr(of(50.5521, 48.679, 52.5966)) == "50.55 [48.68, 52.60]"
    assert repr(of(0.00123, 0.0011, 0.0013)) == "0.001230 [0.001100, 0.001300]"
    assert repr(of(7.0, 7.0, 7.0)) == "7.00 [7.00, 7.00]"
    assert repr(of(3e-12, 1e-12, 5e-12)) == "3e-12 [1e-12, 5e-12]"
    assert repr(of(1.0, -np.inf, np.inf)) == "1 [-inf, inf]"
    assert repr(of(0.0, 0.0, 0.0)) == "0 [0, 0]"


def test_a_plan_says_the_price_everywhere():
    plan = cs.plan(ROWS, 80, cost=0.5)
    assert f"{plan.losses_asked} losses asked for {plan.price:,.2f}" in repr(plan)


def test_a_card_says_strata_scaling_and_equal_weights():
    frame = pd.DataFrame(ROWS, columns=list("abcd"))
    classes = np.arange(1_000) % 3
    markup = words(cs.select(cs.open_rows(frame, standardize=True), LOSSES, 80, strata=classes)._repr_html_())
    assert all(said in markup for said in ("a, b, c, d", "standardized yes", "strata 3 classes"))
    assert "12.5 each" in words(cs.baselines.uniform(ROWS, 80)._repr_html_())


def test_a_grown_selection_says_once_how_the_variance_is_estimated():
    grown = cs.grow(PICKED, LOSSES, 120, rows=ROWS, clusters=CLUSTERING)
    assert cs.estimate(grown, LOSSES[grown.ids]).method.count("neighbors") == 1


def test_a_regression_has_a_report_and_a_card_of_its_coefficients(tmp_path):
    frame = pd.DataFrame(ROWS, columns=list("abcd"))
    chosen = cs.regression.select(cs.open_rows(frame, standardize=True), ROWS @ [1.0, 2.0, 3.0, 4.0], 80)
    assert cs.report(chosen, tmp_path / "page.html", rows=frame).stat().st_size > 1_000
    fit = chosen.fit()
    assert repr(fit).startswith("Fit(4 coefficients of rank 4, intercept=")
    markup = words(fit._repr_html_())
    assert f"d {fit.coefficients[3]:,.6g}" in markup
    assert "per standard deviation" in markup
    raw = fit.coefficients / fit.scaling[1]
    np.testing.assert_allclose(raw, [1, 2, 3, 4], rtol=1e-3)
