"""Read, edit and write ONNX files of any size, without protobuf: lazy, zero-copy views over memory-mapped files."""

from onnxwire._version import __version__
from onnxwire.engine.message import Message
from onnxwire.engine.numbers import RepeatedScalar
from onnxwire.engine.repeated import RepeatedSpan
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
from onnxwire.io.save import ExternalDataWarning, LargeFileWarning, load, save, verify
from onnxwire.messages import *  # noqa: F403
from onnxwire.messages import __all__ as _messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.analysis.diff import Difference, diff
    from onnxwire.arrow.sql import sql
    from onnxwire.arrow.table import ArrowTable, to_arrow
    from onnxwire.bridges.npy import to_npy, to_npz
    from onnxwire.bridges.onnxruntime import inference_session
    from onnxwire.bridges.safetensors import from_safetensors, to_safetensors
    from onnxwire.bridges.torch import to_torch
    from onnxwire.checker import Problem, check
    from onnxwire.io.index import TensorInfo, tensors
    from onnxwire.tensor.sparse_tensor import from_coo, from_dense
    from onnxwire.tensor.tensor import from_array, join_segments
    from onnxwire.text.json_reader import from_json
    from onnxwire.text.json_writer import to_json
    from onnxwire.text.text_reader import RetiredFieldWarning, from_text
    from onnxwire.text.text_writer import to_text
    from onnxwire.transforms.extract import UntypedValueWarning, extract
    from onnxwire.transforms.rename import rename_nodes, rename_values
else:
    _LAZY = {
        "ArrowTable": "onnxwire.arrow.table",
        "Problem": "onnxwire.checker",
        "Difference": "onnxwire.analysis.diff",
        "RetiredFieldWarning": "onnxwire.text.text_reader",
        "TensorInfo": "onnxwire.io.index",
        "check": "onnxwire.checker",
        "UntypedValueWarning": "onnxwire.transforms.extract",
        "diff": "onnxwire.analysis.diff",
        "extract": "onnxwire.transforms.extract",
        "from_array": "onnxwire.tensor.tensor",
        "from_coo": "onnxwire.tensor.sparse_tensor",
        "from_dense": "onnxwire.tensor.sparse_tensor",
        "from_json": "onnxwire.text.json_reader",
        "from_safetensors": "onnxwire.bridges.safetensors",
        "from_text": "onnxwire.text.text_reader",
        "inference_session": "onnxwire.bridges.onnxruntime",
        "join_segments": "onnxwire.tensor.tensor",
        "rename_nodes": "onnxwire.transforms.rename",
        "rename_values": "onnxwire.transforms.rename",
        "sql": "onnxwire.arrow.sql",
        "tensors": "onnxwire.io.index",
        "to_arrow": "onnxwire.arrow.table",
        "to_json": "onnxwire.text.json_writer",
        "to_npy": "onnxwire.bridges.npy",
        "to_npz": "onnxwire.bridges.npy",
        "to_safetensors": "onnxwire.bridges.safetensors",
        "to_text": "onnxwire.text.text_writer",
        "to_torch": "onnxwire.bridges.torch",
    }

    def __getattr__(name):
        """Import what few programs need when it is first asked for."""
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(__import__(_LAZY[name], fromlist=[name]), name)
        return value


__all__ = [
    "ArrowTable",
    "ClosedError",
    "DecodeError",
    "Difference",
    "EditError",
    "Error",
    "ExternalDataError",
    "ExternalDataWarning",
    "InUseError",
    "LargeFileWarning",
    "Message",
    "Problem",
    "RepeatedScalar",
    "RepeatedSpan",
    "RetiredFieldWarning",
    "SaveError",
    "SourceError",
    "TensorError",
    "TensorInfo",
    "UntypedValueWarning",
    "__version__",
    "check",
    "diff",
    "extract",
    "from_array",
    "from_coo",
    "from_dense",
    "from_json",
    "from_safetensors",
    "from_text",
    "inference_session",
    "join_segments",
    "load",
    "load_schema",
    "rename_nodes",
    "rename_values",
    "save",
    "sql",
    "tensors",
    "to_arrow",
    "to_json",
    "to_npy",
    "to_npz",
    "to_safetensors",
    "to_text",
    "to_torch",
    "verify",
    *_messages,
]
