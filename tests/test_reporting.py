"""The report: facts that are true, a page that is small, safe and complete, and what it leaves out is said."""

from __future__ import annotations

import ast
import dataclasses
import io
import json
import math
import re
import shlex
import struct
import zlib
from html.parser import HTMLParser

import hostile
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given as holds_for
from hypothesis import strategies as st
from parts import pairwise, show

import coresift as cs
from coresift.checks import InputError
from coresift.progress import Progress
from coresift.reporting import facts_of
from coresift.reporting.facts import plain
from coresift.reporting.gathering import examples_of, weighted_percentiles
from coresift.reporting.images import png, thumbnail
from coresift.reporting.mapping import HEIGHT, WIDTH, draw_map, shades
from coresift.reporting.page import as_page
from coresift.reporting.reproducing import as_code
from coresift.reporting.sections import number
from coresift.types import Opaque

N = 1_500
RNG = np.random.default_rng(0)
ROWS = (RNG.normal(size=(15, 6))[RNG.integers(15, size=N)] * 3 + RNG.normal(size=(N, 6))).astype(np.float32)
LOSSES = np.abs(ROWS[:, 0]) + RNG.exponential(size=N)
TEXTS = [f"text of row {row}" for row in range(N)]
CLASSES = [f"class {row % 7 if row > 3 else 'rare'}" for row in range(N)]
TABLE = pa.table({"text": TEXTS, "class": CLASSES})


@pytest.fixture(scope="module")
def clustering():
    return cs.cluster(ROWS, 12, seed=1)


@pytest.fixture(scope="module")
def picked(clustering):
    return cs.select(ROWS, LOSSES, budget=120, seed=1, clusters=clustering)


@pytest.fixture(scope="module")
def full(picked, clustering):
    """All that a report can say."""
    return facts_of(picked, rows=ROWS, clustering=clustering, losses=LOSSES, table=TABLE, text="text", label="class")


class Checker(HTMLParser):
    """Reads a page and keeps what it is made of."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.ids, self.words, self.attributes, self.open = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(page):
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    assert len(set(checker.ids)) == len(checker.ids)
    return checker


# Facts


def test_the_summary_is_that_of_the_library(full, picked):
    found = cs.estimate(picked, LOSSES[picked.ids])
    assert full.estimate == found
    assert full.truth == pytest.approx(LOSSES.sum())
    assert (full.selected, full.rows, full.asked) == (120, N, picked.ledger.asked)
    weights = np.sort(picked.weights)[::-1]
    assert full.weights.effective == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert weights[: full.weights.half].sum() >= weights.sum() / 2 > weights[: full.weights.half - 1].sum()
    assert sum(full.weights.histogram.counts) == sum(full.weights.inclusion.counts) == 120
    assert [row.weight for row in full.listed] == weights.tolist()


def test_cluster_lines_add_up(full, picked, clustering):
    clusters = full.clusters
    assert clusters.exact
    assert clusters.number == tuple(range(clustering.k))
    assert clusters.size == tuple(clustering.sizes)
    for at in clusters.number:
        inside = clustering.labels == at
        assert clusters.cost[at] == pytest.approx((clustering.distances[inside].astype(float) ** 2).sum())
        assert clusters.selected[at] == (picked.clusters == at).sum()
        assert clusters.representative[at] == clustering.centers[at]
        assert set(clusters.examples[at]) <= set(np.flatnonzero(inside)) - set(picked.ids.tolist())
    assert sum(clusters.share) == pytest.approx(1)
    assert sum(clusters.total) == pytest.approx(1)
    mean = np.array(clusters.loss) @ np.bincount(picked.clusters, picked.weights, clustering.k)
    assert mean == pytest.approx(picked.weights @ LOSSES[picked.ids])


@pytest.mark.slow
def test_without_the_clustering_sizes_are_unbiased_estimates(clustering):
    """Mean over many seeds within five standard errors: a false alarm in less than one of 10,000 runs."""
    sizes = [facts_of(cs.select(ROWS, LOSSES, 120, seed, clusters=clustering)).clusters for seed in range(60)]
    estimates = np.zeros((60, clustering.k))
    for turn, found in enumerate(sizes):
        assert not found.exact
        estimates[turn, list(found.number)] = found.size
    error = estimates.std(axis=0, ddof=1) / np.sqrt(60)
    assert np.all(np.abs(estimates.mean(axis=0) - clustering.sizes) <= 5 * error + 1e-9)


def test_examples_are_other_rows_of_the_cluster(clustering, picked):
    found = examples_of(clustering, picked.ids)
    free = np.setdiff1d(np.arange(N), np.concatenate([picked.ids, clustering.centers]))
    for at, padded in enumerate(found):
        line = padded[padded >= 0]
        mine = free[clustering.labels[free] == at]
        assert set(line) <= set(mine)
        assert len(set(line)) == min(3, mine.size)


def test_each_row_of_a_cover_shows_others_that_it_stands_for():
    chosen = cs.cover(ROWS[:400], 30)
    found = facts_of(chosen, rows=ROWS[:400]).clusters
    assert found.cover
    assert sum(found.size) == 400
    for row, size, examples in zip(found.representative, found.size, found.examples, strict=True):
        others = set(chosen.members(row).tolist()) - {row}
        assert size == len(others) + 1
        assert set(examples) <= others
        assert len(set(examples)) == len(examples) == min(3, len(others))


def test_losses_of_classes_have_the_intervals_of_estimate(full, picked):
    classes = np.array(CLASSES)[picked.ids]
    own = cs.estimate(picked, LOSSES[picked.ids], groups=classes)
    assert len(full.coverage.losses) == sum((classes == name).sum() > 1 for name in own)
    for name, count, mean in full.coverage.losses:
        assert count == (classes == name).sum()
        assert mean == own[name].mean


def test_coverage_is_that_of_a_uniform_sample(full):
    found = full.coverage
    counts = {name: CLASSES.count(name) for name in set(CLASSES)}
    assert dict(zip(found.names, found.rows, strict=True)) == counts
    exact = sum(1 - math.comb(N - count, 120) / math.comb(N, 120) for count in counts.values())
    assert found.uniform_covers == pytest.approx(exact)
    assert found.covered == sum(count > 0 for count in found.selected)
    assert sum(found.selected) == 120
    assert sum(found.by_uniform) == pytest.approx(120)


@holds_for(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=30),
    st.lists(st.integers(1, 99), min_size=1, max_size=3),
)
def test_weighted_percentiles_are_those_of_repeated_values(pairs, percentiles):
    values, weights = np.array(pairs, np.float64).T
    repeated = np.sort(np.repeat(values, weights.astype(int)))
    found = weighted_percentiles(values, weights, percentiles)
    for value, percentile in zip(found, percentiles, strict=True):
        assert value == repeated[max(math.ceil(percentile / 100 * repeated.size - 1e-9), 1) - 1]


def test_holder_percentiles_come_from_the_centers_where_their_losses_are_known(full, picked, clustering):
    ratios, weights = [], []
    for place, row in enumerate(picked.ids):
        center = clustering.centers[picked.clusters[place]]
        away = float(picked.distances[place])
        if away > 0:
            ratios.append(abs(LOSSES[row] - LOSSES[center]) / away**2)
            weights.append(picked.weights[place])
    assert full.smoothness.exact
    assert full.smoothness.compared == len(ratios)
    expected = weighted_percentiles(np.array(ratios), np.array(weights), (20, 40, 60, 80, 99))
    assert full.smoothness.percentiles == pytest.approx(expected)


def test_holder_percentiles_else_come_from_the_selected_row_nearest_to_the_center(picked):
    found = facts_of(picked, rows=ROWS, losses=LOSSES[picked.ids]).smoothness
    ratios, weights = [], []
    for at in np.unique(picked.clusters):
        inside = np.flatnonzero(picked.clusters == at)
        nearest = picked.ids[inside[np.argmin(picked.distances[inside])]]
        for place in inside:
            row = picked.ids[place]
            if row != nearest:
                away = np.linalg.norm(ROWS[row].astype(float) - ROWS[nearest])
                ratios.append(abs(LOSSES[row] - LOSSES[nearest]) / away**2)
                weights.append(picked.weights[place])
    assert not found.exact
    expected = weighted_percentiles(np.array(ratios), np.array(weights), (20, 40, 60, 80, 99))
    assert found.percentiles == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 40])
def test_the_map_shows_all_rows_on_their_principal_axes(d):
    rng = np.random.default_rng(d)
    rows = (rng.normal(size=(800, d)) * np.linspace(3, 1, d) + 7).astype(np.float32)
    ids = np.array([3, 700, 44])
    found = draw_map(cs.open_rows(rows), ids, cs.engines.Local(2), Progress())
    assert found.counts.shape == (HEIGHT, WIDTH)
    assert found.counts.sum() == 800
    shifted = rows - rows.mean(axis=0)
    singular = np.linalg.svd(shifted, full_matrices=False)
    assert found.captured == pytest.approx((singular[1][:2] ** 2).sum() / (singular[1] ** 2).sum(), abs=0.02)
    for axis, places in enumerate((found.x, found.y)[: min(d, 2)]):
        truth = shifted[ids] @ singular[2][axis]
        order = np.argsort(truth)
        assert np.array_equal(np.argsort(places), order) or np.array_equal(np.argsort(places), order[::-1])
    assert np.all((found.x >= 0) & (found.x <= 1) & (found.y >= 0) & (found.y <= 1))


def test_the_map_is_the_same_for_any_number_of_threads():
    rows = cs.open_rows(np.random.default_rng(0).normal(size=(70_000, 33)).astype(np.float32))
    one, two = (draw_map(rows, np.arange(50), cs.engines.Local(threads), Progress()) for threads in (1, 2))
    assert one == two


def test_shades_rise_with_counts_and_end_at_the_darkest():
    counts = np.zeros((HEIGHT, WIDTH), np.int64)
    assert shades(counts).max() == 0
    counts[20:60, 20:60] = 5
    counts[100:140, 100:140] = 500
    found = shades(counts)
    assert found.max() == 255
    assert 0 < found[40, 40] < found[120, 120]
    assert found[-1, -1] == 0


@pytest.mark.slow
def test_normalized_rows_are_mapped_as_they_were_clustered():
    picked = cs.select(ROWS, LOSSES, budget=50, normalize=True)
    unit = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
    one = facts_of(picked, rows=ROWS).map
    plainly = facts_of(cs.select(unit, LOSSES, budget=50), rows=unit).map
    np.testing.assert_allclose(one["counts"].sum(axis=0), plainly["counts"].sum(axis=0), atol=8)


# What is left out


def test_a_bare_selection_says_what_is_missing(picked):
    found = facts_of(picked)
    names = [name for name, _ in found.left_out]
    assert names == [
        "The map",
        "The estimated loss, and losses against distances",
        "Exact clusters with their centers",
        "The verdict of a diagnosis",
        "Texts or images of the rows",
        "Classes",
    ]
    page = as_page(found)
    checker = read(page)
    assert {"map", "losses", "classes"}.isdisjoint(checker.ids)
    assert {"weights", "clusters", "making", "left-out"} <= set(checker.ids)


def test_losses_of_some_selected_rows_are_not_enough_and_no_mistake(picked, tmp_path):
    known = picked.ids[np.isfinite(picked.losses)]
    pa.csv.write_csv(pa.table({"row": known, "loss": LOSSES[known]}), tmp_path / "ask.csv")
    found = facts_of(picked, losses=tmp_path / "ask.csv")
    assert found.estimate is None
    (why,) = [why for name, why in found.left_out if name.startswith("The estimated loss")]
    assert why.startswith(f"only the losses of {known.size} of 120 selected rows are known")
    pa.csv.write_csv(pa.table({"row": picked.ids, "loss": LOSSES[picked.ids]}), tmp_path / "all.csv")
    assert facts_of(picked, losses=tmp_path / "all.csv").estimate == cs.estimate(picked, LOSSES[picked.ids])
    pa.csv.write_csv(pa.table({"row": [N - 1 + N], "loss": [1.0]}), tmp_path / "others.csv")
    with pytest.raises(cs.InputError, match="120 of 120 are missing"):
        facts_of(picked, losses=tmp_path / "others.csv")


def test_a_full_report_leaves_nothing_out_but_the_diagnosis(full):
    assert [name for name, _ in full.left_out] == ["The verdict of a diagnosis"]
    assert {"map", "weights", "losses", "clusters", "classes", "making"} <= set(read(as_page(full)).ids)


def test_a_method_without_weights_and_clusters_has_a_page():
    chosen = cs.baselines.k_center(ROWS, 30)
    found = facts_of(chosen, rows=ROWS, losses=LOSSES)
    assert found.weights is found.estimate is found.clusters is found.code is None
    assert "defines no weights" in as_page(found)
    read(as_page(found))


@pytest.mark.parametrize("budget", [1, 2, N])
def test_extreme_budgets_have_a_page(budget):
    picked = cs.select(ROWS, LOSSES, budget=budget)
    read(as_page(facts_of(picked, rows=ROWS, losses=LOSSES)))


def test_an_empty_draw_has_a_page():
    picks = (cs.select(ROWS, budget=1, seed=seed, design=cs.designs.Poisson()) for seed in range(50))
    empty = next(picked for picked in picks if not len(picked))
    read(as_page(facts_of(empty, rows=ROWS)))


def test_excluded_rows_are_told():
    picked = cs.select(ROWS, LOSSES, budget=40, exclude=np.arange(100))
    assert "1,400 rows (100 more were excluded)" in as_page(facts_of(picked))


# The verdict


def test_the_verdict_comes_from_a_diagnosis_or_its_file(picked, clustering, tmp_path):
    diagnosis = cs.diagnose(ROWS, LOSSES, 120, seed=1, clusters=clustering)
    found = facts_of(picked, diagnosis=diagnosis)
    assert (found.verdict, found.reason) == (diagnosis.verdict, diagnosis.reason)
    (tmp_path / "d.json").write_text(json.dumps({"verdict": diagnosis.verdict, "reason": diagnosis.reason}))
    assert facts_of(picked, diagnosis=tmp_path / "d.json").verdict == diagnosis.verdict


# Tables


def test_texts_are_found_by_row_by_id_and_by_place(picked, tmp_path):
    def said(found):
        return {row: words for row, words in found.texts.items() if row in set(picked.ids.tolist())}

    expected = {row: TEXTS[row] for row in picked.ids.tolist()}
    assert said(facts_of(picked, table=TABLE, text="text")) == expected
    order = np.random.default_rng(0).permutation(N)
    mixed = {"row": order, "text": [TEXTS[row] for row in order]}
    assert said(facts_of(picked, table=pa.table(mixed), text="text")) == expected
    pa.csv.write_csv(pa.table(mixed), tmp_path / "t.csv")
    assert said(facts_of(picked, table=tmp_path / "t.csv", text="text")) == expected
    lines = "".join(json.dumps({"row": int(row), "text": TEXTS[row]}) + "\n" for row in order)
    (tmp_path / "t.jsonl").write_text(lines)
    assert said(facts_of(picked, table=tmp_path / "t.jsonl", text="text")) == expected
    own = pa.table({"id": [f"q{row}" for row in range(N)], "embedding": ROWS.tolist(), "text": TEXTS})
    named = cs.select(own, LOSSES, budget=120, seed=1)
    by_id = pa.table({"id": [f"q{row}" for row in order], "text": [TEXTS[row] for row in order]})
    for options in ({"rows": own}, {"rows": own, "table": by_id}, {"table": by_id}):
        found = facts_of(named, text="text", **options).texts
        assert {row: found[row] for row in named.ids.tolist()} == {row: TEXTS[row] for row in named.ids.tolist()}


def test_a_row_without_a_line_has_no_text(picked):
    half = picked.ids[::2]
    table = pa.table({"row": half, "text": [TEXTS[row] for row in half]})
    assert facts_of(picked, table=table, text="text").texts == {int(row): TEXTS[row] for row in half}


def test_classes_may_come_by_row_too(picked):
    order = np.random.default_rng(0).permutation(N)
    table = pa.table({"row": order, "class": [CLASSES[row] for row in order]})
    assert (
        facts_of(picked, table=table, label="class").coverage == facts_of(picked, table=TABLE, label="class").coverage
    )


BAD = {
    "no table": ({"text": "text"}, "text must be given together with a table"),
    "no column": ({"table": TABLE, "text": "nothing"}, "The column must be one of the columns 'text', 'class';"),
    "too short": ({"table": TABLE.slice(0, 5), "text": "text"}, "table must have a line for each of 1500 rows"),
    "no file": ({"table": "no.csv", "text": "text"}, "There is no file no.csv"),
    "no kind": ({"table": "no.xlsx", "text": "text"}, "table must be a .parquet, .arrow,"),
    "other rows": ({"rows": ROWS[:9]}, "rows must be the 1500 rows that were selected from; got 9 rows"),
    "other clusters": (
        {"clustering": cs.cluster(ROWS, 5)},
        "clustering must be the one that the selection was made with",
    ),
    "no clusters": ({"clustering": 5}, "clustering must be a Clustering; got int"),
    "losses": ({"losses": [1.0, 2.0]}, "losses must be one number for each of 120 selected or of all 1500 rows"),
    "diagnosis": ({"diagnosis": 3}, "diagnosis must be a Diagnosis, or a file that diagnose --json wrote; got int"),
    "images": ({"image": np.zeros((4, 2, 2), np.uint8)}, "image must be one picture for each of 1500 rows; got 4"),
    "no images": ({"image": np.zeros(4)}, "image must be a column's name, or pixels"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_nothing_is_written(picked, tmp_path, case):
    options, sentence = BAD[case]
    with pytest.raises(cs.InputError, match=re.escape(sentence)):
        cs.report(picked, tmp_path / "page.html", **options)
    assert list(tmp_path.iterdir()) == []


def test_the_page_must_be_html(picked, tmp_path):
    with pytest.raises(cs.InputError, match=r"must be a file with the extension .html"):
        cs.report(picked, tmp_path / "page.pdf")


# Reproduction


@pytest.mark.slow
@pytest.mark.parametrize("combination", list(pairwise(200)), ids=show)
@pytest.mark.filterwarnings("ignore::coresift.CoresiftWarning")
def test_the_code_on_the_page_makes_the_same_selection(combination):
    rows, losses = ROWS[:200], LOSSES[:200]
    picked = cs.select(rows, losses, 60, seed=3, clusters=8, **combination)
    names = {"rows": rows, "losses": losses, "score_numbers": getattr(combination["score"], "losses", None)}
    exec(facts_of(picked).code, names)
    assert names["selection"] == picked


@pytest.mark.slow
def test_the_code_names_what_only_the_user_has():
    own = cs.cluster(ROWS, 9, seed=8)
    picked = cs.select(ROWS, LOSSES, 60, seed=3, clusters=own, given=[1, 2], exclude=[7])
    names = {"rows": ROWS, "losses": LOSSES, "given": [1, 2], "exclude": [7]}
    found = facts_of(picked)
    exec(found.code, names)
    assert names["selection"] == picked
    assert found.command is None


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [None, cs.cluster(ROWS, 9, seed=8)], ids=["its own", "given"])
def test_the_code_of_a_grown_selection_grows_it(clusters):
    picked = cs.select(ROWS, LOSSES, 60, seed=3, clusters=clusters, given=[1, 2])
    for budget in (90, 150):
        picked = cs.grow(picked, LOSSES, budget, rows=ROWS, clusters=clusters)
    found, names = facts_of(picked), {"rows": ROWS, "losses": LOSSES, "given": [1, 2]}
    exec(found.code, names)
    assert names["selection"] == picked
    assert found.command is None


@pytest.mark.slow
def test_the_command_on_the_page_makes_the_same_selection(tmp_path, monkeypatch):
    from coresift.cli import app

    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS)
    pa.csv.write_csv(pa.table({"row": np.arange(N), "loss": LOSSES}), "losses.csv")
    picked = cs.select("rows.npy", "losses.csv", 60, seed=3, normalize=True)
    found = facts_of(picked, rows="rows.npy", losses="losses.csv")
    app(shlex.split(found.command)[1:], standalone_mode=False)
    assert cs.load("picked.parquet") == picked
    names = {}
    exec(found.code, names)
    assert names["selection"] == picked


# The page


def test_the_page_allows_its_own_style_and_script_alone(full):
    checker = read(as_page(full))
    (policy,) = [value for tag, name, value in checker.attributes if name == "content" and "default-src" in value]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not [one for one in checker.attributes if one[1] == "style" or one[1].startswith("on")]
    addresses = [value for _, name, value in checker.attributes if name in ("href", "src")]
    assert all(value.startswith(("#", "data:")) for value in addresses)


@pytest.mark.slow
def test_hostile_words_stay_words(tmp_path):
    rows, texts, ids, classes, losses = hostile.data()
    table = pa.table({"id": ids, "embedding": rows.tolist(), "text": texts, "class": classes})
    picked = cs.select(table, losses, budget=100)
    title = "</title><script>window.broken = 11</script>"
    facts = tmp_path / "facts.json"
    path = cs.report(
        picked, tmp_path / "p.html", rows=table, losses=losses, text="text", label="class", title=title, facts=facts
    )
    page = path.read_text(encoding="utf-8")
    tame = as_page(facts_of(cs.select(rows, losses, budget=100), rows=rows, losses=losses))
    assert len(re.findall("<script", page)) == len(re.findall("<script", tame)) == 2
    checker = read(page)
    assert {"img", "svg", "base", "a", "style"} & set(checker.tags) <= {"svg", "a", "style"}
    assert checker.tags.count("style") == 1
    assert path.stat().st_size < 2_000_000
    data = json.loads(re.search(r'id="facts">(.*?)</script>', page, re.DOTALL).group(1))
    assert all(len(words) <= 300 for words in data["texts"].values())
    assert "window.broken = 1<" in " ".join(data["texts"].values())
    assert json.loads(facts.read_text(encoding="utf-8"))["title"] == title


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["<meta http-equiv=refresh>", 1.5, None, True])
def test_a_selection_has_whole_numbers_and_the_page_escapes_whatever_it_shows(picked, seed):
    with pytest.raises(InputError, match="seed must be a whole number"):
        dataclasses.replace(picked, seed=seed)
    forged = dataclasses.replace(picked)
    object.__setattr__(forged, "seed", "<meta http-equiv=refresh>")
    page = as_page(facts_of(forged))
    assert page.count("<meta http-equiv") == 1  # the page's own policy
    assert "&lt;meta http-equiv=refresh&gt;" in page


@pytest.mark.parametrize(
    "part",
    [
        Opaque("score", "Learned(); import os; os.system('x') #", {}),
        Opaque("score", "Learned", {"floor=1); print(1": 2}),
        Opaque("score", "Learned", {"floor": {"float": '1"); print("ran'}}),
    ],
)
def test_the_code_on_the_page_runs_nothing_that_a_file_has_made_up(picked, part):
    recipe = dataclasses.replace(picked.recipe, score=part)
    frame = {"given": {"count": "1\nprint('ran')", "digest": "\rprint('ran')"}}
    made = dataclasses.replace(picked.provenance, recipe=recipe, frame=frame)
    code = as_code(dataclasses.replace(picked, provenance=made))
    calls = [] if code is None else [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    assert {ast.unparse(call.func) for call in calls} <= {"cs.select", "cs.scores.Learned", "float", *OWN_PARTS}


OWN_PARTS = {"cs.pilots.Representatives", "cs.designs.Systematic", "cs.cluster"}


def test_texts_and_images_fill_the_page_up_to_its_limit_largest_weights_first():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 4)).astype(np.float32)
    picked = cs.select(rows, np.abs(rows[:, 0]), budget=10_000)
    table = pa.table({"text": ["<&>" * 100] * 20_000})
    found = facts_of(picked, rows=rows, table=table, text="text")
    page = as_page(found)
    assert 1_900_000 < len(page.encode()) <= 2_000_000
    data = json.loads(re.search(r'id="facts">(.*?)</script>', page, re.DOTALL).group(1))
    there = [str(row.row) in data["texts"] for row in found.listed]
    assert data["cut"]
    first_missing = there.index(False)
    assert first_missing > 500
    centers = set(found.clusters.representative)
    assert not [
        row
        for row, shown in zip(found.listed[first_missing:], there[first_missing:], strict=True)
        if shown and row.row not in centers
    ]


def test_facts_as_json_have_everything(full):
    found = json.loads(json.dumps(plain(full), allow_nan=False))
    assert found["estimate"]["total"]["value"] == full.estimate.total.value
    assert len(found["listed"]) == 120
    assert found["map"]["counts"] == full.map["counts"].tolist()


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.5, "0.500"), (123.4, "123"), (12.34, "12.3"), (1e12, "1e+12"), (3e-9, "3e-09"), (np.nan, "")],
)
def test_numbers_are_short(value, shown):
    assert number(value) == shown


# Pictures


@pytest.mark.parametrize("shape", [(28, 28), (5, 300), (32, 32, 3), (300, 200, 3), (1, 1), (9, 9, 1)])
def test_pixels_become_images_that_others_can_read(shape):
    image = pytest.importorskip("PIL.Image", reason="needs Pillow, which comes with matplotlib")
    pixels = np.random.default_rng(0).integers(256, size=shape).astype(np.uint8)
    address = thumbnail(pixels)
    import base64

    opened = image.open(io.BytesIO(base64.b64decode(address.split(",")[1])))
    assert max(opened.size) <= 64
    if max(shape) <= 64:
        np.testing.assert_array_equal(np.asarray(opened), pixels.squeeze() if shape[-1] == 1 else pixels)


def test_a_picture_of_very_many_pixels_is_not_opened(monkeypatch, recwarn):
    image, opened = pytest.importorskip("PIL.Image", reason="needs Pillow, which comes with matplotlib"), []
    monkeypatch.setattr(image.Image, "convert", lambda self, *_: opened.append(self.size))
    noise = np.random.default_rng(0).integers(256, size=(90, 90), dtype=np.uint8)
    content = png(noise)
    for size in (90, 12_000):
        head = b"IHDR" + struct.pack(">II", size, size) + content[24:29]
        thumbnail(content[:12] + head + struct.pack(">I", zlib.crc32(head)) + content[33:])
    assert opened == [(90, 90)]
    assert not recwarn.list


def test_images_are_small_and_nothing_else_is_one():
    image = pytest.importorskip("PIL.Image", reason="needs Pillow, which comes with matplotlib")
    file = io.BytesIO()
    image.fromarray(np.random.default_rng(0).integers(256, size=(500, 400, 3)).astype(np.uint8)).save(file, "PNG")
    assert len(thumbnail({"bytes": file.getvalue(), "path": None})) < 20_000
    assert thumbnail(png(np.zeros((3, 3), np.uint8))).startswith("data:image/png")
    for other in (
        b"<svg onload=alert(1)>",
        b"",
        None,
        "text",
        [1, 2],
        [["a"]],
        b"\x89PNG\r\n\x1a\n" + b"broken" * 2000,
    ):
        assert thumbnail(other) is None


def test_images_come_from_a_column_an_array_or_a_file(picked, tmp_path):
    pixels = np.random.default_rng(0).integers(256, size=(N, 8, 8)).astype(np.uint8)
    np.save(tmp_path / "pixels.npy", pixels)
    column = pa.table({"image": [png(one) for one in pixels]})
    by_array = facts_of(picked, image=pixels).images
    assert len(by_array) == 120
    assert facts_of(picked, image=str(tmp_path / "pixels.npy")).images == by_array
    assert facts_of(picked, table=column, image="image").images == by_array


@pytest.mark.parametrize("verdict", ["", None, 5, []])
def test_a_diagnosis_without_a_verdict_is_refused(picked, tmp_path, verdict):
    path = tmp_path / "diagnosis.json"
    path.write_text(json.dumps({"verdict": verdict, "reason": "x"}))
    with pytest.raises(InputError, match="wrote; it has no verdict"):
        cs.report(picked, tmp_path / "page.html", diagnosis=path)
