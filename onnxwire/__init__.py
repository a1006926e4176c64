"""Read, edit and write ONNX files of any size, without protobuf: lazy, zero-copy views over memory-mapped files."""

from onnxwire._version import __version__

# Names that are imported on first use, by module. The names of messages are imported on first use, too, but not listed.
_LAZY_BY_MODULE = {
    "onnxwire.analysis.comparison": ("Difference",),
    "onnxwire.analysis.diff": ("diff",),
    "onnxwire.analysis.statistics": ("Histogram", "Statistics", "TensorStatistics", "measure", "measure_all"),
    "onnxwire.catalog.sql": ("sql",),
    "onnxwire.arrow.arrow_table": ("ArrowTable", "to_arrow"),
    "onnxwire.bridges.npy": ("to_npy", "to_npz"),
    "onnxwire.bridges.onnx": ("apply", "from_onnx", "to_onnx"),
    "onnxwire.bridges.onnx_tools": ("check_official", "convert_version", "infer_shapes"),
    "onnxwire.bridges.onnxruntime": ("inference_session",),
    "onnxwire.bridges.optimize": ("optimize",),
    "onnxwire.bridges.safetensors": ("from_safetensors", "to_safetensors"),
    "onnxwire.bridges.torch": ("to_torch",),
    "onnxwire.checker": ("Problem", "check"),
    "onnxwire.viewer.notebook": ("view",),
    "onnxwire.engine.message": ("Message",),
    "onnxwire.engine.numbers": ("RepeatedScalar",),
    "onnxwire.engine.repeated_span": ("RepeatedSpan",),
    "onnxwire.engine.schema": ("load_schema",),
    "onnxwire.errors": (
        "ClosedError",
        "DecodeError",
        "EditError",
        "Error",
        "ExternalDataError",
        "InUseError",
        "SaveError",
        "SourceError",
        "TensorError",
    ),
    "onnxwire.include": ("get_include",),
    "onnxwire.io.load": ("load",),
    "onnxwire.io.tensor_list": ("TensorInfo", "tensors"),
    "onnxwire.io.prefetch": ("prefetch",),
    "onnxwire.io.save": ("ExternalDataWarning", "LargeFileWarning", "save"),
    "onnxwire.io.verify_file": ("verify",),
    "onnxwire.messages.constructors": ("from_array", "from_coo", "from_dense"),
    "onnxwire.tensor.numpy_conversion": ("join_segments",),
    "onnxwire.text.json_reader": ("from_json",),
    "onnxwire.text.json_writer": ("to_json",),
    "onnxwire.text.text_reader": ("from_text",),
    "onnxwire.text.text_values": ("RetiredFieldWarning",),
    "onnxwire.text.text_writer": ("to_text",),
    "onnxwire.transforms.extract": ("UntypedValueWarning", "extract"),
    "onnxwire.transforms.merge_changes": ("Conflict", "merge_changes"),
    "onnxwire.transforms.rename": ("rename_nodes", "rename_values"),
}
# Modules and subpackages that are attributes of the package without an explicit import.
_SUBMODULES = ("engine", "errors", "io", "messages", "tensor")
_LAZY = {name: module for module, names in _LAZY_BY_MODULE.items() for name in names}

__all__ = [
    "ArrowTable",
    "ClosedError",
    "Conflict",
    "DecodeError",
    "Difference",
    "EditError",
    "Error",
    "ExternalDataError",
    "ExternalDataWarning",
    "Histogram",
    "InUseError",
    "LargeFileWarning",
    "Message",
    "Problem",
    "RepeatedScalar",
    "RepeatedSpan",
    "RetiredFieldWarning",
    "SaveError",
    "SourceError",
    "Statistics",
    "TensorError",
    "TensorInfo",
    "TensorStatistics",
    "UntypedValueWarning",
    "__version__",
    "apply",
    "check",
    "check_official",
    "convert_version",
    "diff",
    "extract",
    "from_array",
    "from_coo",
    "from_dense",
    "from_json",
    "from_onnx",
    "from_safetensors",
    "from_text",
    "get_include",
    "infer_shapes",
    "inference_session",
    "join_segments",
    "load",
    "load_schema",
    "measure",
    "measure_all",
    "merge_changes",
    "optimize",
    "prefetch",
    "rename_nodes",
    "rename_values",
    "save",
    "sql",
    "tensors",
    "to_arrow",
    "to_json",
    "to_npy",
    "to_npz",
    "to_onnx",
    "to_safetensors",
    "to_text",
    "to_torch",
    "verify",
    "view",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.analysis.comparison import Difference
    from onnxwire.analysis.diff import diff
    from onnxwire.analysis.statistics import Histogram, Statistics, TensorStatistics, measure, measure_all
    from onnxwire.arrow.arrow_table import ArrowTable, to_arrow
    from onnxwire.bridges.npy import to_npy, to_npz
    from onnxwire.bridges.onnx import apply, from_onnx, to_onnx
    from onnxwire.bridges.onnx_tools import check_official, convert_version, infer_shapes
    from onnxwire.bridges.onnxruntime import inference_session
    from onnxwire.bridges.optimize import optimize
    from onnxwire.bridges.safetensors import from_safetensors, to_safetensors
    from onnxwire.bridges.torch import to_torch
    from onnxwire.catalog.sql import sql
    from onnxwire.checker import Problem, check
    from onnxwire.engine.message import Message
    from onnxwire.engine.numbers import RepeatedScalar
    from onnxwire.engine.repeated_span import RepeatedSpan
    from onnxwire.engine.schema import load_schema
    from onnxwire.errors import (
        ClosedError,
        DecodeError,
        EditError,
        Error,
        ExternalDataError,
        InUseError,
        SaveError,
        SourceError,
        TensorError,
    )
    from onnxwire.include import get_include
    from onnxwire.io.load import load
    from onnxwire.io.prefetch import prefetch
    from onnxwire.io.save import ExternalDataWarning, LargeFileWarning, save
    from onnxwire.io.tensor_list import TensorInfo, tensors
    from onnxwire.io.verify_file import verify
    from onnxwire.messages import *  # noqa: F403
    from onnxwire.messages import __all__ as _messages
    from onnxwire.messages.constructors import from_array, from_coo, from_dense
    from onnxwire.tensor.numpy_conversion import join_segments
    from onnxwire.text.json_reader import from_json
    from onnxwire.text.json_writer import to_json
    from onnxwire.text.text_reader import from_text
    from onnxwire.text.text_values import RetiredFieldWarning
    from onnxwire.text.text_writer import to_text
    from onnxwire.transforms.extract import UntypedValueWarning, extract
    from onnxwire.transforms.merge_changes import Conflict, merge_changes
    from onnxwire.transforms.rename import rename_nodes, rename_values
    from onnxwire.viewer.notebook import view

    __all__ += _messages
else:
    _names_without_messages = __all__
    del __all__  # __getattr__ creates the complete list, with the messages, on first use

    def __getattr__(name):
        if name in _LAZY:
            value = getattr(__import__(_LAZY[name], fromlist=[name]), name)
            # Pickles, reprs and tracebacks show the public name. Classes whose instances may exist before their name is
            # used set their `__module__` themselves.
            if value.__module__ != __name__:
                value.__module__ = __name__
        elif name in _SUBMODULES:
            value = __import__(f"{__name__}.{name}", fromlist=[name])
        elif name == "_c_api":  # for PyCapsule_Import in C
            from onnxwire.engine.c_api import CAPSULE as value
        elif name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        else:
            from onnxwire import messages

            if name == "__all__":
                value = [*_names_without_messages, *messages.__all__]
            elif name in messages.__all__:
                value = getattr(messages, name)
            else:
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__getattr__("__all__")})
