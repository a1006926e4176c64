"""Run Python as after a regular installation of onnxwire.

In an editable installation each start of Python imports a finder of setuptools, which takes 10 to 15 ms, and modules
that changed are compiled to bytecode again at each start if PYTHONDONTWRITEBYTECODE is set. A regular installation has
neither cost.
"""

from __future__ import annotations

import compileall
import subprocess
import sysconfig
import venv
from pathlib import Path

from benchmarks.data import FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.row import Side

_ROOT = Path(__file__).parents[1]
_ENVIRONMENT = FOLDER / "environment"


def prepare(make_inputs: Callable[[], object] | None = None) -> None:
    """Make the inputs of a row, compile onnxwire's modules to bytecode, and make an environment.

    The environment's Python finds onnxwire and the packages that are installed for this interpreter.
    """
    if make_inputs is not None:
        make_inputs()
    compileall.compile_dir(_ROOT / "onnxwire", quiet=1)
    venv.EnvBuilder(clear=True, symlinks=True).create(_ENVIRONMENT)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(_ENVIRONMENT)}))
    # Files named .pth in the folders that this file lists are not read.
    (packages / "folders.pth").write_text(f"{_ROOT}\n{sysconfig.get_path('platlib')}\n")


def run_python(*arguments: str) -> Side:
    """Return a side that runs the environment's Python with arguments."""

    def side() -> Callable[[], object]:
        command = [str(_ENVIRONMENT / "bin" / "python"), *arguments]
        return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=FOLDER)

    return side
