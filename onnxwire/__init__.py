"""Read ONNX files of any size, without protobuf: lazy, zero-copy views over memory-mapped files."""

from onnxwire._message import Message
from onnxwire._repeated import RepeatedScalar, RepeatedSpan
from onnxwire._version import __version__
from onnxwire.errors import ClosedError, DecodeError, Error, InUseError, SourceError
from onnxwire.messages import *  # noqa: F403
from onnxwire.messages import __all__ as _messages
from onnxwire.model import load, verify
from onnxwire.schema import load_schema

__all__ = [
    "ClosedError",
    "DecodeError",
    "Error",
    "InUseError",
    "Message",
    "RepeatedScalar",
    "RepeatedSpan",
    "SourceError",
    "__version__",
    "load",
    "load_schema",
    "verify",
    *_messages,
]
