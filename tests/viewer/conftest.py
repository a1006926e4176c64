"""Fixtures of the tests of `onnxwire view`: a browser, and the paths of two models."""

import importlib.util
from pathlib import Path

import pytest
from browser import start_driver, stop_driver

EXAMPLES = Path(__file__).parents[2] / "examples"
DIGITS = EXAMPLES / "digits_cnn.onnx"


@pytest.fixture(scope="session")
def driver():
    """Return the driver of a browser that all tests of a process share."""
    driver = start_driver()
    yield driver
    stop_driver(driver)


@pytest.fixture
def path(tmp_path):
    """Return the path of a copy of the digits model."""
    path = tmp_path / "m.onnx"
    path.write_bytes(DIGITS.read_bytes())
    return path


@pytest.fixture(scope="session")
def big_model(tmp_path_factory):
    """Return the path of a transformer of more than 4 GiB with ten equal layers; its weights are holes in the file."""
    spec = importlib.util.spec_from_file_location("make_big_model", EXAMPLES / "make_big_model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = tmp_path_factory.mktemp("big") / "big.onnx"
    assert module.write_model(path) > 1 << 32
    yield path
    path.unlink()
