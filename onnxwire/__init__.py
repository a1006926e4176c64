"""Read, edit and write ONNX files of any size, without protobuf: lazy, zero-copy views over memory-mapped files."""

from onnxwire._message import Message
from onnxwire._numbers import RepeatedScalar
from onnxwire._repeated import RepeatedSpan
from onnxwire._version import __version__
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
from onnxwire.messages import *  # noqa: F403
from onnxwire.messages import __all__ as _messages
from onnxwire.model import ExternalDataWarning, LargeFileWarning, load, save, verify
from onnxwire.schema import load_schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.arrow.sql import sql
    from onnxwire.arrow.table import ArrowTable, to_arrow
    from onnxwire.bridges.onnxruntime import inference_session
    from onnxwire.bridges.safetensors import from_safetensors, to_safetensors
    from onnxwire.bridges.torch import to_torch
    from onnxwire.checker import Problem, check
    from onnxwire.difference import Difference, diff
    from onnxwire.extraction import UntypedValueWarning, extract
    from onnxwire.index import TensorInfo, tensors
    from onnxwire.json import to_json
    from onnxwire.json_parser import from_json
    from onnxwire.npy import to_npy, to_npz
    from onnxwire.rename import rename_nodes, rename_values
    from onnxwire.sparse_tensor import from_coo, from_dense
    from onnxwire.tensor import from_array, join_segments
    from onnxwire.text import to_text
    from onnxwire.text_parser import RetiredFieldWarning, from_text
else:
    _LAZY = {
        "ArrowTable": "onnxwire.arrow.table",
        "Problem": "onnxwire.checker",
        "Difference": "onnxwire.difference",
        "RetiredFieldWarning": "onnxwire.text_parser",
        "TensorInfo": "onnxwire.index",
        "check": "onnxwire.checker",
        "UntypedValueWarning": "onnxwire.extraction",
        "diff": "onnxwire.difference",
        "extract": "onnxwire.extraction",
        "from_array": "onnxwire.tensor",
        "from_coo": "onnxwire.sparse_tensor",
        "from_dense": "onnxwire.sparse_tensor",
        "from_json": "onnxwire.json_parser",
        "from_safetensors": "onnxwire.bridges.safetensors",
        "from_text": "onnxwire.text_parser",
        "inference_session": "onnxwire.bridges.onnxruntime",
        "join_segments": "onnxwire.tensor",
        "rename_nodes": "onnxwire.rename",
        "rename_values": "onnxwire.rename",
        "sql": "onnxwire.arrow.sql",
        "tensors": "onnxwire.index",
        "to_arrow": "onnxwire.arrow.table",
        "to_json": "onnxwire.json",
        "to_npy": "onnxwire.npy",
        "to_npz": "onnxwire.npy",
        "to_safetensors": "onnxwire.bridges.safetensors",
        "to_text": "onnxwire.text",
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
