"""What the tests share: real data where it is to be had."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_home():
    """Folder of the real data sets; without it the test says so."""
    default = Path(__file__).parent.parent.parent / "shared" / "data"
    folder = Path(os.environ.get("CORESIFT_DATA", default))
    if not folder.is_dir():
        pytest.skip("needs the real data: set CORESIFT_DATA to the folder that holds them")
    return folder
