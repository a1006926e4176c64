"""Register the .proto files of onnx in protobuf's descriptor pool, since .proto files of other packages import
them."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

POOL = "google.protobuf.descriptor_pool"


def register_files(names: list[str]) -> None:
    """Run the modules of `onnx` that protoc generated, which adds their files to the pool. Discard the modules.

    Then modules that protoc generated from files that import onnx/onnx-ml.proto can be imported, and `Any`, text_format
    and symbol_database know the names of onnx's messages. Protobuf makes classes of its own for these messages.
    names: the names of the modules. No-op if `onnx` is not found. Modules that are not found or raise an exception,
    such as those that are too new for this protobuf, are skipped.
    """
    package = PathFinder.find_spec("onnx")
    if package is None:
        return
    for name in names:
        spec = PathFinder.find_spec(name, package.submodule_search_locations)
        if spec is None or spec.loader is None:
            continue
        module = module_from_spec(spec)
        with suppress(Exception):
            spec.loader.exec_module(module)


def is_pool_imported() -> bool:
    """Return whether the program has imported protobuf's descriptor pool."""
    return POOL in sys.modules
