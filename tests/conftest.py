"""Configure the test run: `--long`, the number of workers, the order of the test files, and garbage collection."""

import gc
import os
from importlib.util import find_spec

import budget
import pytest

pytest.register_assert_rewrite("wire", "stored_tensors")
# The slowest files run first. If one of them started last, the other workers would be idle until its end.
SLOWEST_FILES = (
    "test_hostile.py", "test_crashes.py", "test_view_browser.py", "test_view_edit_browser.py", "test_growth.py",
    "test_json_parser.py", "test_view_map_browser.py", "test_catalog.py", "test_text_parser.py", "test_formats.py",
    "test_save_interrupts.py",
)  # fmt: skip
# Without `--long`, tests that need one of these packages are skipped if it is missing.
LONG_PACKAGES = ("torch", "ray", "dask", "distributed", "nbclient", "ipykernel", "ziglang")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the long tests too, and draw ten times as many examples")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks, select the short or the long run, and set a default of xdist."""
    config.addinivalue_line("markers", "long: a test that takes more than a few seconds; run with --long")
    config.addinivalue_line("markers", "normal_build: a test that fails with the memory or limits of `make sanitize`")
    if config.getoption("--long"):
        missing_packages = [name for name in LONG_PACKAGES if not find_spec(name)]
        if missing_packages:
            raise pytest.UsageError(
                f"--long needs {', '.join(missing_packages)}; run `make test-long`, or install '.[test-long]'"
            )
    budget.choose_run(config.getoption("--long"))
    # xdist 3.8 assigns the completed files of a crashed worker to its replacement and waits for their results forever.
    if config.getoption("maxworkerrestart", None) is None:
        config.option.maxworkerrestart = "0"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Return the number of processors that this process may use, plus one. xdist with psutil would count all cores.

    Returns None, for xdist's number, if PYTEST_XDIST_AUTO_NUM_WORKERS is set or the system does not report the
    processors. The additional worker uses the time in which others wait for child processes, servers and browsers.
    """
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ or not hasattr(os, "sched_getaffinity"):
        return None
    return len(os.sched_getaffinity(0)) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the tests by SLOWEST_FILES, and deselect tests with the mark `long` unless `--long` is set."""
    ranks = {name: rank for rank, name in enumerate(SLOWEST_FILES)}
    items.sort(key=lambda item: ranks.get(item.path.name, len(ranks)))
    if not config.getoption("--long"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("long")])
        items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.fixture(autouse=True, scope="module")
def freeze_objects_of_other_modules() -> None:
    """Exclude the objects of earlier test files from garbage collections. Tests start thousands of collections."""
    gc.collect()
    gc.freeze()
