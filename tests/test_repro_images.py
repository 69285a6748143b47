"""Active learning and cover in the reproduction of the paper's image experiments."""

import os

import numpy as np
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the libraries are imported: no test waits for a network

import torch

import coresift as cs
from repro import data, images_curves, images_pixels, images_table
from repro.images import METHODS, TABLE, Split, journal_of
from repro.images_pixels import contrasts, local_contrast, next_to, one_run, pixel_journal
from repro.networks import Images, accuracy, train
from repro.results import Setting

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(6)
    classes = np.arange(500) % 10
    pixels = (rng.integers(200, size=(500, 28, 28)) + 5 * classes[:, None, None]).astype(np.uint8)
    return Split(Images.of(pixels, classes), Images.of(pixels[:100], classes[:100]))


@pytest.fixture(scope="module")
def rows(split):
    return images_pixels.principal_components(split.train)


def setting(tmp_path):
    return Setting(data.Home((), tmp_path / "cache"), tmp_path)


def test_principal_components_are_those_of_the_singular_value_decomposition(split, rows):
    pixels = split.train.pixels.numpy().astype(np.float64)
    left, sizes, _ = np.linalg.svd(pixels - pixels.mean(axis=0), full_matrices=False)
    slow = (left * sizes)[:, : rows.shape[1]]
    np.testing.assert_allclose(rows @ rows.T, slow @ slow.T, atol=1e-2 * np.abs(slow).max())


def test_contrast_is_the_mean_difference_of_neighboring_pixels():
    rng = np.random.default_rng(7)
    colored = rng.integers(256, size=(3, 5, 5, 3), dtype=np.uint8)
    for pixels in (colored, colored[..., 0]):
        values = pixels.reshape(3, 5, 5, -1) / 255
        slow = []
        for image in values:
            across = [abs(image[i, j] - image[i, j + 1]) for i in range(5) for j in range(4)]
            down = [abs(image[i, j] - image[i + 1, j]) for i in range(4) for j in range(5)]
            slow.append((np.mean(across) + np.mean(down)) / 2)
        np.testing.assert_allclose(local_contrast(Images.of(pixels, np.zeros(3))), slow, rtol=1e-5)


def test_cover_trains_the_network_of_the_run_on_its_rows(split, rows):
    contrast = local_contrast(split.train)
    run = one_run(split, rows, contrast, "cover", (50, 3))
    ids = cs.cover(rows, 50, seed=3, progress=False).ids
    (network,) = train(split.train, [ids.copy()], 3)
    assert run["accuracy"] == {"cover": accuracy(network, split.test)}
    assert run["contrast"]["cover"] == pytest.approx(contrast[ids].mean() / contrast.mean(), abs=1e-4)


def test_the_networks_probabilities_are_in_the_table_only(split, rows):
    assert images_pixels.methods("learning", TABLE) == ["learning-head", "learning-network"]
    run = one_run(split, rows, local_contrast(split.train), "learning", (40, 0))
    assert set(run["accuracy"]) == {"learning-head"}


def some_runs(tmp_path):
    """Runs of the paper's methods with the numbers 0 to 3, of cover with 1 to 4, of active learning with 0 and 1."""
    some = setting(tmp_path)
    for number in range(4):
        found = dict.fromkeys(METHODS, 0.5 + 0.01 * number)
        journal_of(some, "mnist").add((500, number), {"accuracy": found, "first": 0.4})
    for number in (4, 2, 1, 3):
        entry = {"accuracy": {"cover": 0.49 + 0.01 * number}, "contrast": {"cover": 0.9 + 0.1 * (number == 4)}}
        pixel_journal(some, "cover", "mnist").add((500, number), entry)
    for number in (0, 1):
        pixel_journal(some, "learning", "mnist").add((500, number), {"accuracy": {"learning-head": 0.6}})
    return some


def test_differences_to_uniform_are_paired_by_number(tmp_path):
    some = some_runs(tmp_path)
    others = {name: np.array([0.5, 0.51, 0.52, 0.53]) for name in METHODS}
    pairs = next_to(others, some, "mnist", 500)
    assert list(pairs) == [*METHODS, "learning-head", "cover"]
    values, base = pairs["cover"]  # run 4 has no uniform
    np.testing.assert_allclose(values, [0.5, 0.51, 0.52])
    np.testing.assert_allclose(base, [0.51, 0.52, 0.53])
    np.testing.assert_allclose(pairs["learning-head"][1], [0.5, 0.51])
    assert contrasts(some, "cover", "mnist") == {500: pytest.approx(0.925)}
    assert contrasts(some, "learning-head", "mnist") == {}


def test_the_page_says_where_cover_loses_and_how_many_runs_there_are(tmp_path):
    some = some_runs(tmp_path)
    runs = images_curves.all_runs(some)
    line = images_curves.line("mnist", 500, runs["mnist"][500], "cover")
    assert (line.runs, line.difference) == (3, "-0.0100 ± 0.0000 to uniform")
    notes = images_curves.pixel_notes(some, runs)
    assert "- MNIST (3 runs): worse than uniform at 500 (from -0.0100 to -0.0100)." in notes
    assert "- MNIST (2 runs): better than uniform at 500 (from +0.0950 to +0.0950)." in notes


def test_a_method_with_fewer_runs_is_named_in_the_title():
    ten, three = (np.ones(10), np.ones(10)), (np.ones(3), np.ones(3))
    assert images_table.counted({"uniform": ten, "cover": three}) == "10 runs (cover: 3)"
    assert images_table.counted({"uniform": ten, "cover": ten}) == "10 runs"
