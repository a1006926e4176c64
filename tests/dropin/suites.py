"""The tests of `onnx` and of packages that use it, on protobuf and on onnxwire instead: `make dropin`.

    python tests/dropin/suites.py FOLDER [SUITE ...]

Sources are fetched from the package index into the folder. Each suite is run once each way, in processes of its own.
Returns 1 where a test that passes on protobuf does not pass on onnxwire; prints the CPU time of both.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tarfile
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
# The sources, the folder of the tests in them, and the tests that need models from the network or read the command
# line; test_shape_folding fails in three of nine tests either way, in others when it runs alone. The sources
# of onnx-ir bring no tests; the newest of onnxconverter-common that do are those of 1.14.
SUITES = {
    "onnx": ("onnx==1.23.2", "tests/python", []),
    "onnxconverter-common": ("onnxconverter-common==1.14.0", "tests", []),
    "onnxslim": (
        "onnxslim==0.1.98",
        "tests",
        ["amd", "benchmark", "folder", "modelzoo", "nvidia", "onnx_nets", "shape_folding", "ultralytics"],
    ),
}


def fetch(requirement: str, folder: Path) -> Path:
    """The unpacked sources of a package."""
    name = requirement.partition("==")[0]
    found = sorted(folder.glob(f"{name.replace('-', '?')}-*.tar.gz"))
    if not found:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name, "-d", str(folder)]
        subprocess.run([*command, requirement], check=True)
        found = sorted(folder.glob(f"{name.replace('-', '?')}-*.tar.gz"))
    sources = folder / found[-1].name.removesuffix(".tar.gz")
    if not sources.exists():
        with tarfile.open(found[-1]) as archive:
            archive.extractall(folder, filter="data")
    return sources


def run(sources: Path, tests: Path, left_out: list[str], is_ours: bool) -> tuple[dict[str, str], float]:
    """The outcome of each test, and the seconds of processors that all took."""
    report = sources / ("ours.xml" if is_ours else "protobuf.xml")
    report.unlink(missing_ok=True)
    switch = ["-m", "onnxwire.dropin"] if is_ours else []
    command = [sys.executable, *switch, "-m", "pytest", str(tests), "-q", "-W", "ignore", "--tb=no", "-o", "addopts="]
    command += ["-p", "no:cacheprovider", "--continue-on-collection-errors", f"--rootdir={sources}"]
    command += [f"--ignore={tests / f'test_{name}.py'}" for name in left_out]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # From a folder where the package is not, so that the one that is installed is found.
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
    """Whether a test is called otherwise here, and all of its function pass.

    pytest calls the case of a message by its `__name__`, which messages of protobuf have, and else by its number.
    """
    function = test.partition("[")[0] + "["
    outcomes = [[outcomes[name] for name in outcomes if name.startswith(function)] for outcomes in (theirs, ours)]
    return test not in ours and len(outcomes[0]) == len(outcomes[1]) and {*outcomes[1]} == {"passed"}


def main() -> int:
    """Run the suites and tell where they differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], help="all, if none is named")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    lost = 0
    for name in options.suites or SUITES:
        requirement, tests, left_out = SUITES[name]
        sources = fetch(requirement, options.folder.resolve())
        theirs, their_time = run(sources, sources / tests, left_out, False)
        ours, our_time = run(sources, sources / tests, left_out, True)
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
