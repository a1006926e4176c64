"""What several tests of the page begin with."""

from pathlib import Path

import pytest
from browser import start_driver

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    driver = start_driver(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    yield driver
    driver.quit()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(DIGITS.read_bytes())
    return path
