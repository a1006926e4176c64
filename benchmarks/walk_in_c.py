"""Read the fields of 100,000 nodes and 100,000 value_infos with `onnxwire.h`. The official runtime only parses them."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.data import FOLDER
from benchmarks.row import Row, Skip
from benchmarks.structure import PATH, prepare
from benchmarks.walk_nodes import walk

LIBRARY = FOLDER / "walk_in_c.so"


def compile_walk() -> None:
    """Compile `walk_in_c.c` and make the model. Skip the row if there is no C compiler."""
    from onnxwire import get_include

    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    if shutil.which(compiler[0]) is None:
        raise Skip("there is no C compiler")
    prepare()
    source = Path(__file__).with_suffix(".c")
    command = [*compiler, "-O2", "-shared", "-fPIC", f"-I{get_include()}", str(source), "-o", str(LIBRARY)]
    subprocess.run(command, check=True)


def walk_in_c() -> Callable[[], object]:
    """Return an operation that walks the bytes in C."""
    walk_model = ctypes.CDLL(str(LIBRARY)).walk_model
    walk_model.restype = ctypes.c_double
    walk_model.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    data = PATH.read_bytes()
    return lambda: walk_model(data, len(data))


def parse() -> Callable[[], object]:
    """Return an operation that parses the bytes with onnx."""
    from onnx import ModelProto

    data = PATH.read_bytes()
    return lambda: ModelProto.FromString(data)


def checksum(result: Any) -> float:
    """Return the checksum of the walk in C, or compute that of an official message. Not measured."""
    return result if isinstance(result, float) else walk(result)


ROWS = [
    Row(
        "walk 100,000 nodes, 100,000 value_infos with onnxwire.h (official: only parse)",
        prepare=compile_walk,
        ours=walk_in_c,
        official=parse,
        fingerprint=checksum,
        goal=3,
        cpu_time=True,
    ),
]
