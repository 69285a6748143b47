"""Results stay what they were: every golden case gives the arrays that are stored for it."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

import golden_cases
import numpy as np
import pytest
from golden_cases import differences

import coresift as cs

FROM_ROWS = os.environ.get("CI") == "true" or os.environ.get("CORESIFT_GOLDEN_ROWS") == "1"


@pytest.mark.parametrize("name", golden_cases.CASES)
def test_a_stored_clustering_gives_the_stored_result(name):
    found, expected = golden_cases.run(name), golden_cases.stored(name)
    assert not differences(found, expected, exactly=False, near=golden_cases.nearness(name))


@pytest.fixture(scope="session")
def rows_now():
    """What differs in each case from rows, found in one process that has the kernels of the stored bytes."""
    words = [sys.executable, golden_cases.__file__, "--check-rows"]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(
    not FROM_ROWS, reason="exact bytes are compared in continuous integration; CORESIFT_GOLDEN_ROWS=1 does so here"
)
@pytest.mark.parametrize("name", golden_cases.ROW_CASES)
def test_rows_give_the_stored_bytes(name, rows_now):
    assert not rows_now[name]


def test_nothing_is_stored_that_no_case_makes():
    names = {path.stem for path in golden_cases.HOME.glob("*.npz")}
    assert names == {*golden_cases.EVERY_CASE, golden_cases.INPUTS.stem}


@pytest.mark.parametrize("name", golden_cases.files())
def test_files_of_this_format_load_as_what_was_saved(name):
    """Predictions come from products of matrices, whose last digits depend on the processor."""
    loaded, made = cs.load(golden_cases.FILES / name), golden_cases.files()[name]
    assert type(loaded) is type(made)
    for field in dataclasses.fields(made):
        found, expected = getattr(loaded, field.name), getattr(made, field.name)
        if isinstance(expected, (np.ndarray, float)):
            near = golden_cases.NEAR_PREDICTIONS if name.startswith("predicted") else 0.0
            assert not golden_cases.difference(np.asarray(found), np.asarray(expected), exactly=False, near=near)
        else:
            assert found == expected


def test_a_file_of_an_earlier_format_is_refused_in_a_sentence():
    with pytest.raises(cs.InputError, match=r"has format 1; this version of coresift reads format \d+\.$"):
        cs.load(golden_cases.FILES / "format-1.parquet")


def test_a_difference_is_told():
    whole, real = np.array([1, 2]), np.array([1.0, 2.0, np.nan])
    same = {"whole": whole, "real": real}
    assert not differences(same, same, exactly=True)
    assert not differences(same | {"real": real * (1 + 1e-14)}, same, exactly=False)
    assert differences(same | {"real": real * (1 + 1e-14)}, same, exactly=True) == ["real: other bytes"]
    assert differences(same | {"real": real * (1 + 1e-11)}, same, exactly=False)[0].startswith("real: [1. 2.]")
    assert differences(same | {"whole": whole + 1}, same, exactly=False) == ["whole: [2, 3] instead of [1, 2]"]
    assert differences(same | {"whole": whole[:1]}, same, exactly=False) == ["whole: shape (1,) instead of (2,)"]
    assert differences({"whole": whole}, same, exactly=False) == ["arrays ['real'] are there only once"]
