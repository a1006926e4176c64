"""Run programs in separate processes, with or without the switch of `onnxwire.dropin`.

The switch makes `import onnx` use the classes of onnxwire.
"""

import os
import subprocess
import sys
from pathlib import Path

import onnxwire

ROOT = Path(onnxwire.__file__).parent.parent
# Code that hides protobuf (the package google) from a process, as if it was not installed.
HIDE_PROTOBUF = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = classmethod(lambda cls, name, *args: None if name.startswith("google") else find(name, *args))
"""
INSTALL_SWITCH = "import onnxwire.dropin; onnxwire.dropin.install()\n"


def run_python(*arguments, status=0, **environment):
    """Run Python, and assert its exit status. Return its stdout, or its stderr if the expected status is not 0.

    environment: additional environment variables. If PYTHONPATH is not set, it is the folder with the tested onnxwire.
    """
    environment = {"PYTHONPATH": str(ROOT)} | os.environ | environment
    command = [sys.executable, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == status, result.stderr[-2000:]
    return result.stderr if status else result.stdout
