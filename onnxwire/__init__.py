"""Read ONNX files of any size, without protobuf: lazy, zero-copy views over memory-mapped files."""

from onnxwire._message import Message
from onnxwire._numbers import RepeatedScalar
from onnxwire._repeated import RepeatedSpan
from onnxwire._version import __version__
from onnxwire.errors import ClosedError, DecodeError, Error, InUseError, SourceError
from onnxwire.messages import *  # noqa: F403
from onnxwire.messages import __all__ as _messages
from onnxwire.model import load, verify
from onnxwire.schema import load_schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.json import to_json
    from onnxwire.json_parser import from_json
    from onnxwire.text import to_text
    from onnxwire.text_parser import from_text
else:

    def __getattr__(name):
        """Import what few programs need when it is first asked for."""
        if name == "from_json":
            from onnxwire.json_parser import from_json as value
        elif name == "from_text":
            from onnxwire.text_parser import from_text as value
        elif name == "to_json":
            from onnxwire.json import to_json as value
        elif name == "to_text":
            from onnxwire.text import to_text as value
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


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
    "from_json",
    "from_text",
    "load",
    "load_schema",
    "to_json",
    "to_text",
    "verify",
    *_messages,
]
