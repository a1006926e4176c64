"""The files of onnx in protobuf's own pool of descriptors, for other packages' messages that name them."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

POOL = "google.protobuf.descriptor_pool"


def register_files(names: list[str]) -> None:
    """Run the modules of `onnx` that protoc has written, without keeping them: they put their files into the pool.

    So a module whose .proto imports onnx/onnx-ml.proto can be made, and `Any`, text_format and symbol_database know the
    names of onnx's messages. The classes that protobuf makes for them are its own.
    names: of the modules. Does nothing where `onnx` or its modules are not found, or are too new for this protobuf.
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


def is_imported() -> bool:
    """Whether protobuf's pool is in use, and so there."""
    return POOL in sys.modules
