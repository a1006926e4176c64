"""Run `onnxwire info` on a model of more than 4 GiB and on a model of one node, and `onnxwire --version`."""

from __future__ import annotations

from benchmarks import chain, installed
from benchmarks.data import FOLDER, make_once, write_decoder
from benchmarks.installed import run_python
from benchmarks.row import Row

PATH = FOLDER / "decoder_4_gib_sparse.onnx"


def prepare() -> None:
    """Make the file. Its weights are holes, which take no disk space."""
    make_once(PATH, write_decoder)


ROWS = [
    Row(
        "`onnxwire info` on a file of more than 4 GiB",
        prepare=lambda: installed.prepare(prepare),
        ours=run_python("-m", "onnxwire", "info", str(PATH)),
        official=None,
        in_child=True,
        note="can't: over 2 GiB",
    ),
    Row(
        "`onnxwire info` on a model of one node, beside `python -c pass`",
        prepare=lambda: installed.prepare(chain.prepare),
        ours=run_python("-m", "onnxwire", "info", str(chain.SMALL)),
        official=run_python("-c", "pass"),
        in_child=True,
        other_program="python -c pass",
        repeats=15,
    ),
    Row(
        "`onnxwire --version`, beside `python -c pass`",
        prepare=installed.prepare,
        ours=run_python("-m", "onnxwire", "--version"),
        official=run_python("-c", "pass"),
        in_child=True,
        other_program="python -c pass",
        repeats=15,
    ),
]
