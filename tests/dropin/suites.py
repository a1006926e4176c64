"""The tests of `onnx` and of packages that use it, on protobuf and on onnxwire instead: `make dropin`.

    python tests/dropin/suites.py FOLDER [SUITE ...]

Makes a virtual environment in the folder, installs the packages there, and downloads their sources. Each suite runs
once on protobuf and once on onnxwire, in separate processes, and the outcomes are compared test by test. Prints the CPU
time of both. Returns 1 if a test that passes on protobuf does not pass on onnxwire.

The wheels and sources of onnx-ir, onnx-array-api, onnxscript, onnx-graphsurgeon, onnxmltools and polygraphy contain no
tests. Those of onnxruntime's Python package need models that only its repository has.
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

    requirement: the package; tests: their folder in the sources; left_out: files, without test_ and .py, that need
    models from the network, packages that are not installed, read the command line, or fail by chance; skipped: tests
    that take many minutes before they reach onnx; installed: the release that is tested, where it is another one than
    that of the sources.
    """

    requirement: str
    tests: str
    left_out: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    installed: str = ""


# The newest sources of onnxconverter-common that contain tests are those of 1.14. In test_shape_folding of onnxslim,
# three of nine tests fail both ways, and other ones when it runs alone.
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
    "skl2onnx": Suite("skl2onnx==1.20.0", "tests", skipped=("test_x_issue_789",)),
}


def make_environment(folder: Path) -> str:
    """Make a virtual environment with all packages, unless it exists; return its Python."""
    python = folder / "venv" / "bin" / "python"
    done = folder / "installed"
    if not done.exists():
        if not python.exists():
            venv.create(folder / "venv", with_pip=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
        subprocess.run([*pip, ONNX, *TOOLS], check=True)
        # Installed without their requirements, some of which name older releases of onnx.
        packages = [suite.installed or suite.requirement for suite in SUITES.values()]
        subprocess.run([*pip, "--no-deps", *packages], check=True)
        done.touch()
    return str(python)


def fetch(python: str, requirement: str, folder: Path) -> Path:
    """Download and unpack the sources of a package; return their folder."""
    name, _, version = requirement.partition("==")
    pattern = f"{name.replace('-', '?')}-{version}.tar.gz"
    found = sorted(folder.glob(pattern))
    if not found:
        command = [python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name, "-d", str(folder)]
        subprocess.run([*command, requirement], check=True)
        found = sorted(folder.glob(pattern))
    sources = folder / found[-1].name.removesuffix(".tar.gz")
    if not sources.exists():
        with tarfile.open(found[-1]) as archive:
            archive.extractall(folder, filter="data")
    return sources


def run(python: str, sources: Path, tests: Path, suite: Suite, is_ours: bool) -> tuple[dict[str, str], float]:
    """Run a suite; return the outcome of each test, and the CPU seconds of all."""
    report = sources / ("ours.xml" if is_ours else "protobuf.xml")
    report.unlink(missing_ok=True)
    switch = ["-m", "onnxwire.dropin"] if is_ours else []
    command = [python, *switch, "-m", "pytest", str(tests), "-q", "-W", "ignore", "--tb=no", "-o", "addopts="]
    command += ["-p", "no:cacheprovider", "--continue-on-collection-errors", f"--rootdir={sources}"]
    command += [f"--ignore={tests / f'test_{name}.py'}" for name in suite.left_out]
    if suite.skipped:
        command += ["-k", f"not ({' or '.join(suite.skipped)})"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Run in a folder without the package, so that the installed one is imported.
    # Some tests of onnxslim pass or fail by the order of a set.
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    subprocess.run([*command, f"--junitxml={report}"], cwd=tests, env=environment, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = kinds.pop() if kinds else "passed"
    return outcomes, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def has_another_name(test: str, theirs: dict[str, str], ours: dict[str, str]) -> bool:
    """Return whether a test has another name here, and all tests of its function pass.

    pytest calls the case of a message by its `__name__`, which messages of protobuf have, and else by its number.
    """
    function = test.partition("[")[0] + "["
    outcomes = [[outcomes[name] for name in outcomes if name.startswith(function)] for outcomes in (theirs, ours)]
    return test not in ours and len(outcomes[0]) == len(outcomes[1]) and {*outcomes[1]} == {"passed"}


def main() -> int:
    """Run the suites and report differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], help="default: all")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = options.folder.resolve()
    python = make_environment(folder)
    lost = 0
    for name in options.suites or SUITES:
        suite = SUITES[name]
        sources = fetch(python, suite.requirement, folder)
        theirs, their_time = run(python, sources, sources / suite.tests, suite, False)
        ours, our_time = run(python, sources, sources / suite.tests, suite, True)
        passed = [test for test, outcome in theirs.items() if outcome == "passed"]
        failed = [test for test in passed if ours.get(test) != "passed" and not has_another_name(test, theirs, ours)]
        kept = len(passed) - len(failed)
        print(f"{name}: {len(passed):,} of {len(theirs):,} pass on protobuf, {kept:,} of those here")
        print(f"{name}: {their_time:.0f} s of processors on protobuf, {our_time:.0f} s here")
        for test in failed:
            print(f"  {ours.get(test, 'missing')}: {test}")
        lost += len(failed)
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
