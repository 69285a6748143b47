"""Every public name is documented in Google style, so that the reference page, editors and help() show it as lists."""

import pytest
from documented import examples_outside, faults, public


@pytest.mark.parametrize("name", sorted(public()))
def test_public_names_are_documented_in_google_style(name):
    assert list(faults(public()[name])) == []


def test_examples_are_in_their_section():
    assert examples_outside(public()) == []
