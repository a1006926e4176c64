"""Run `onnxwire info` on a model of more than 4 GiB and on a model of one node, and `onnxwire --version`."""

from __future__ import annotations

import subprocess
import sys

from benchmarks import chain
from benchmarks.data import FOLDER, make_once, write_decoder
from benchmarks.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.row import Side

PATH = FOLDER / "decoder_4_gib_sparse.onnx"


def prepare() -> None:
    """Make the file. Its weights are holes, which take no disk space."""
    make_once(PATH, write_decoder)


def run_python(*arguments: str) -> Side:
    """Return a side that runs Python with arguments."""

    def side() -> Callable[[], object]:
        command = [sys.executable, *arguments]
        return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return side


ROWS = [
    Row(
        "`onnxwire info` on a file of more than 4 GiB",
        prepare=prepare,
        ours=run_python("-m", "onnxwire", "info", str(PATH)),
        official=None,
        in_child=True,
        note="can't: over 2 GiB",
    ),
    Row(
        "`onnxwire info` on a model of one node, beside `python -c pass`",
        prepare=chain.prepare,
        ours=run_python("-m", "onnxwire", "info", str(chain.SMALL)),
        official=run_python("-c", "pass"),
        in_child=True,
        other_program="python -c pass",
        repeats=15,
    ),
    Row(
        "`onnxwire --version`, beside `python -c pass`",
        ours=run_python("-m", "onnxwire", "--version"),
        official=run_python("-c", "pass"),
        in_child=True,
        other_program="python -c pass",
        repeats=15,
    ),
]
