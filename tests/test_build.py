"""The error of a build from source without a C compiler."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_last_line_of_the_output_reports_a_missing_compiler_before_any_translation(tmp_path):
    for name in ["setup.py", "pyproject.toml", "README.md", "LICENSE", "onnxwire_dropin.pth", "onnxwire_dropin.py"]:
        shutil.copy(ROOT / name, tmp_path)
    for name in ["schema", "onnxwire"]:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__"))
    result = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext"],
        cwd=tmp_path,
        env=os.environ | {"CC": "/nonexistent/cc"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "error: building onnxwire needs a C compiler and Python's headers (Debian: apt install gcc python3-dev; "
        "macOS: xcode-select --install; Windows: Build Tools for Visual Studio); a wheel needs neither: "
        "pip install --only-binary onnxwire onnxwire"
    )
    assert not list(tmp_path.rglob("*.c"))
