"""What values show of themselves in a notebook, and in one line everywhere else."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest

import coresift as cs
from coresift.notebook import card

ROWS = np.random.default_rng(0).normal(size=(1_000, 4)).astype(np.float32)
LOSSES = np.abs(ROWS[:, 0])
CLUSTERING = cs.cluster(ROWS, 8)
PICKED = cs.select(ROWS, LOSSES, 80, clusters=CLUSTERING)
VALUES = {
    "WeightedSelection": PICKED,
    "Clustering": CLUSTERING,
    "Estimate": cs.estimate(PICKED, LOSSES[PICKED.ids]),
    "Plan": cs.plan(ROWS, 80),
}
SAID = {
    "WeightedSelection": ("80 of 1,000 rows", "losses asked", "rows of equal weight"),
    "Clustering": ("8 clusters of 1,000 rows", "median"),
    "Estimate": ("95% intervals", "total", "mean", "from"),
    "Plan": ("80 of 1,000 rows", "losses", "memory", "time"),
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
    assert "this method defines none" in cs.baselines.k_center(ROWS, 9)._repr_html_()


def test_warnings_of_an_estimate_show():
    lopsided = np.zeros(80)
    lopsided[0] = 1.0
    found = cs.estimate(PICKED, lopsided)
    assert found.warnings
    assert found.warnings[0] in words(found._repr_html_())
    assert "1 warning" in repr(found)
