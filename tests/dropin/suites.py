"""Run the tests of `onnx`, and of packages that use it, on protobuf and on onnxwire: `make dropin`.

    python tests/dropin/suites.py FOLDER [SUITE ...]

The program makes a virtual environment in the folder, installs the packages there, and downloads their sources. Each
suite runs once on protobuf and once on onnxwire, in separate processes. The program compares the outcomes test by test
and prints the CPU time of both. Its exit status is 1 if a test passes on protobuf but not on onnxwire.

Some packages have no suite here: the wheels and sources of onnx-ir, onnx-array-api, onnxscript, onnx-graphsurgeon,
onnxmltools and polygraphy contain no tests, and the tests of onnxruntime's Python package need models that only its
repository has.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tarfile
import venv
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
ONNX = "onnx==1.23.2"
# Packages that the suites import, besides the tested packages.
TOOLS = ["pytest", "parameterized", "protobuf", "onnxruntime", "scikit-learn", "pandas", "hypothesis", "sympy", "attrs"]
TOOLS += ["bitstring", "clize", "sigtools", "toposort", "rich", "jinja2", "colorama", "ml_dtypes"]


@dataclass
class Suite:
    """The tests in the sources of a package.

    requirement: the package and the release of its sources. tests: their folder in the sources. excluded_files: names,
    without test_ and .py, of files that need models from the network or packages that are not installed, read the
    command line, or fail on protobuf, too. excluded_tests: tests that take many minutes before they use onnx.
    installed: the requirement for the tested release, if it differs from that of the sources.
    """

    requirement: str
    tests: str
    excluded_files: tuple[str, ...] = ()
    excluded_tests: tuple[str, ...] = ()
    installed: str = ""


# The newest sources of onnxconverter-common that contain tests are those of 1.14. In onnxslim's test_shape_folding,
# three of nine tests fail on both runtimes, and other tests fail if the file runs alone.
SUITES = {
    "onnx": Suite(ONNX, "tests/python"),
    "spox": Suite("spox==0.18.2", "tests"),
    "onnxconverter-common": Suite("onnxconverter-common==1.14.0", "tests", installed="onnxconverter-common==1.16.0"),
    "qonnx": Suite("qonnx==1.0.0", "tests"),
    "onnxslim": Suite(
        "onnxslim==0.1.98",
        "tests",
        ("amd", "benchmark", "folder", "modelzoo", "nvidia", "onnx_nets", "shape_folding", "ultralytics"),
    ),
    "onnxsim": Suite("onnxsim==0.8.1", "tests"),
    "skl2onnx": Suite("skl2onnx==1.20.0", "tests", excluded_tests=("test_x_issue_789",)),
}


def make_environment(folder: Path) -> str:
    """Make a virtual environment with all packages, unless it exists. Return the path of its Python."""
    python = folder / "venv" / "bin" / "python"
    marker = folder / "installed"
    if not marker.exists():
        if not python.exists():
            venv.create(folder / "venv", with_pip=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
        subprocess.run([*pip, ONNX, *TOOLS], check=True)
        # The packages are installed without their requirements, because some requirements name older releases of onnx.
        packages = [suite.installed or suite.requirement for suite in SUITES.values()]
        subprocess.run([*pip, "--no-deps", *packages], check=True)
        marker.touch()
    return str(python)


def fetch(python: str, requirement: str, folder: Path) -> Path:
    """Download and unpack the sources of a package. Return their folder."""
    name, _, version = requirement.partition("==")
    pattern = f"{name.replace('-', '?')}-{version}.tar.gz"  # some archives have _ in place of -
    archives = sorted(folder.glob(pattern))
    if not archives:
        command = [python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name, "-d", str(folder)]
        subprocess.run([*command, requirement], check=True)
        archives = sorted(folder.glob(pattern))
    sources = folder / archives[-1].name.removesuffix(".tar.gz")
    if not sources.exists():
        with tarfile.open(archives[-1]) as archive:
            archive.extractall(folder, filter="data")
    return sources


def run(python: str, sources: Path, tests: Path, suite: Suite, uses_onnxwire: bool) -> tuple[dict[str, str], float]:
    """Run a suite. Return the outcome of each test by its name, and the CPU seconds of the process."""
    report = sources / ("ours.xml" if uses_onnxwire else "protobuf.xml")
    report.unlink(missing_ok=True)
    dropin_words = ["-m", "onnxwire.dropin"] if uses_onnxwire else []
    command = [python, *dropin_words, "-m", "pytest", str(tests), "-q", "-W", "ignore", "--tb=no", "-o", "addopts="]
    command += ["-p", "no:cacheprovider", "--continue-on-collection-errors", f"--rootdir={sources}"]
    command += [f"--ignore={tests / f'test_{name}.py'}" for name in suite.excluded_files]
    if suite.excluded_tests:
        command += ["-k", f"not ({' or '.join(suite.excluded_tests)})"]
    usage_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # The working folder does not contain the package, so that the installed package is imported. PYTHONHASHSEED is set,
    # because the outcome of some tests of onnxslim depends on the order of a set.
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    subprocess.run([*command, f"--junitxml={report}"], cwd=tests, env=environment, check=False)
    usage_after = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        tags = {child.tag for child in case} & {"failure", "error", "skipped"}
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = tags.pop() if tags else "passed"
    return outcomes, usage_after.ru_utime + usage_after.ru_stime - usage_before.ru_utime - usage_before.ru_stime


def has_another_name(test: str, protobuf_outcomes: dict[str, str], our_outcomes: dict[str, str]) -> bool:
    """Return whether a test seems to have another name on onnxwire: its function has as many tests there, and all pass.

    pytest names a parameter by its `__name__`, which messages of protobuf have, and otherwise by its number.
    """
    function = test.partition("[")[0] + "["
    n_tests = sum(name.startswith(function) for name in protobuf_outcomes)
    outcomes = [outcome for name, outcome in our_outcomes.items() if name.startswith(function)]
    return test not in our_outcomes and len(outcomes) == n_tests and {*outcomes} == {"passed"}


def main() -> int:
    """Run the suites, and print the differences. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    # Without an argument, argparse looks up the value [] in the choices.
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], help="default: all")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = options.folder.resolve()
    python = make_environment(folder)
    n_failed = 0
    for name in options.suites or SUITES:
        suite = SUITES[name]
        sources = fetch(python, suite.requirement, folder)
        protobuf_outcomes, protobuf_seconds = run(python, sources, sources / suite.tests, suite, False)
        our_outcomes, our_seconds = run(python, sources, sources / suite.tests, suite, True)
        passed_tests = [test for test, outcome in protobuf_outcomes.items() if outcome == "passed"]
        failed_tests = [
            test
            for test in passed_tests
            if our_outcomes.get(test) != "passed" and not has_another_name(test, protobuf_outcomes, our_outcomes)
        ]
        n_passed = len(passed_tests) - len(failed_tests)
        n_tests = len(protobuf_outcomes)
        print(f"{name}: {len(passed_tests):,} of {n_tests:,} pass on protobuf, {n_passed:,} of those on onnxwire")
        print(f"{name}: {protobuf_seconds:.0f} CPU seconds on protobuf, {our_seconds:.0f} on onnxwire")
        for test in failed_tests:
            print(f"  {our_outcomes.get(test, 'missing')}: {test}")
        n_failed += len(failed_tests)
    return int(n_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
