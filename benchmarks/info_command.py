"""Run `onnxwire info` on a model of more than 4 GiB."""

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec

from benchmarks.data import FOLDER, make_once, write_decoder
from benchmarks.row import Row, Skip

PATH = FOLDER / "decoder_4_gib_sparse.onnx"


def prepare() -> None:
    """Make the file. Its weights are holes, which take no disk space."""
    import onnxwire.cli

    if not hasattr(onnxwire.cli, "main") or find_spec("onnxwire.__main__") is None:
        raise Skip("onnxwire has no command line yet")
    make_once(PATH, write_decoder)


def ours() -> Callable[[], object]:
    command = [sys.executable, "-m", "onnxwire", "info", str(PATH)]
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


ROWS = [
    Row(
        "`onnxwire info` on a file of more than 4 GiB",
        prepare=prepare,
        ours=ours,
        official=None,
        in_child=True,
        note="can't: over 2 GiB",
    )
]
