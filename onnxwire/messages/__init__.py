"""The message classes of ONNX, made from the tables of `schema/`."""

from onnxwire.engine.schema import Schema
from onnxwire.messages._tables import TABLES
from onnxwire.tensor.sparse_tensor import SparseTensor
from onnxwire.tensor.tensor import Tensor

SCHEMA = Schema(TABLES, "onnxwire", {"onnx.TensorProto": (Tensor,), "onnx.SparseTensorProto": (SparseTensor,)})
"""All tables of ONNX: classes, enums, and the messages of releases past."""

_public = {name: value for name, value in vars(SCHEMA).items() if name not in ("messages", "enums", "retired")}
globals().update(_public)
__all__ = list(_public)
