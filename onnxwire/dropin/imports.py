"""Finders of the modules that `install` provides: onnxwire's classes, patched modules of `onnx`, protobuf's
descriptor pool with the files of `onnx`, substitutes for protobuf."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

from onnxwire.dropin.pool import POOL, register_files
from onnxwire.engine.descriptor import Descriptor, EnumDescriptor
from onnxwire.messages import SCHEMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

# The .proto file of each module that protoc generates, and "" for the package that contains them.
MODULES = {
    "onnx": "",
    "onnx.onnx_ml_pb2": "onnx/onnx-ml.proto",
    "onnx.onnx_data_pb2": "onnx/onnx-data.proto",
    "onnx.onnx_operators_ml_pb2": "onnx/onnx-operators-ml.proto",
}
_PATCHED_MODULES = ("onnx", "onnx.external_data_helper", "onnx.numpy_helper")
# The files of the substitutes for the modules of protobuf that `onnx` 1.17 to 1.23 imports, and "" for `google`, a
# package without a file.
_SUBSTITUTES = {
    "google": "",
    "google.protobuf": "__init__.py",
    "google.protobuf.message": "message.py",
    "google.protobuf.text_format": "text_format.py",
    "google.protobuf.json_format": "json_format.py",
}


class Finder(MetaPathFinder):
    """A finder of the modules with onnxwire's classes, of patched modules of `onnx`, and of protobuf's descriptor pool.

    check_version: called with the version of `onnx` when `onnx` is imported.
    """

    def __init__(self, check_version: Callable[[str], None]) -> None:
        self.check_version = check_version

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module with onnxwire's classes, of a patched module or of the pool; else None."""
        if MODULES.get(name):
            return ModuleSpec(name, _ClassesLoader(MODULES[name]), origin="onnxwire.dropin")
        if name not in _PATCHED_MODULES and name != POOL:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                break
        if spec is None or spec.loader is None:
            return None
        original_exec_module = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            from onnxwire.dropin.replacements import replace_functions

            original_exec_module(module)
            if name == POOL:
                register_files([name for name, file in MODULES.items() if file])
                return
            replace_functions(module)
            if name == "onnx":
                self.check_version(module.__version__)

        # Only `exec_module` of this loader object is replaced, so that its other features, such as data files, still
        # work.
        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class _ClassesLoader(Loader):
    """A loader that fills a module as protoc does, with onnxwire's classes, enums, their values, and descriptors.

    file: the name of the module's .proto file.
    """

    def __init__(self, file: str) -> None:
        self.file = file

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None, so that Python creates the module object."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module."""
        names = vars(module)
        for cls in SCHEMA.messages.values():
            descriptor = cls.DESCRIPTOR
            if descriptor.file.name == self.file:
                if descriptor.containing_type is None:
                    names[descriptor.name] = cls
                names[_descriptor_name(descriptor)] = descriptor
                names["DESCRIPTOR"] = descriptor.file
        for full_name, wrapper in SCHEMA.enums.items():
            enum = wrapper.DESCRIPTOR
            if enum.file.name != self.file or not enum.values:
                continue
            names[_descriptor_name(enum)] = enum
            if enum.containing_type is None:
                names[full_name.rpartition(".")[2]] = wrapper
                names.update((value.name, value.number) for value in enum.values)


def _descriptor_name(descriptor: Descriptor | EnumDescriptor) -> str:
    """Return the name of a descriptor in protoc's modules, such as _TENSORPROTO_DATATYPE."""
    return "_" + descriptor.full_name.partition(".")[2].replace(".", "_").upper()


class SubstituteFinder(MetaPathFinder):
    """A finder of substitutes for the protobuf modules that `onnx` imports, if protobuf is not installed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a substitute, or None for any other module."""
        if name not in _SUBSTITUTES:
            return None
        if name == "google":
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = []
            return spec
        file = os.path.join(os.path.dirname(__file__), "protobuf", _SUBSTITUTES[name])
        return importlib.util.spec_from_file_location(name, file)
