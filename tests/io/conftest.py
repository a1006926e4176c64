"""Fixtures of the tests of files and servers."""

import pytest

from onnxwire.io.remote import file


@pytest.fixture(autouse=True)
def small_files_are_small(monkeypatch) -> None:
    """Read files of more than 4 MiB in ranges, so that tests of ranges need no large files."""
    monkeypatch.setattr(file, "_SMALL_FILE", 1 << 22)
