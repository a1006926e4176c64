"""Read, edit and write ONNX files of any size, without protobuf: lazy, zero-copy views over memory-mapped files."""

from onnxwire._message import Message
from onnxwire._numbers import RepeatedScalar
from onnxwire._repeated import RepeatedSpan
from onnxwire._version import __version__
from onnxwire.errors import ClosedError, DecodeError, EditError, Error, InUseError, SaveError, SourceError
from onnxwire.messages import *  # noqa: F403
from onnxwire.messages import __all__ as _messages
from onnxwire.model import LargeFileWarning, load, save, verify
from onnxwire.schema import load_schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.json import to_json
    from onnxwire.json_parser import from_json
    from onnxwire.text import to_text
    from onnxwire.text_parser import from_text
else:
    _LAZY = {
        "from_json": "onnxwire.json_parser",
        "from_text": "onnxwire.text_parser",
        "to_json": "onnxwire.json",
        "to_text": "onnxwire.text",
    }

    def __getattr__(name):
        """Import what few programs need when it is first asked for."""
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(__import__(_LAZY[name], fromlist=[name]), name)
        return value


__all__ = [
    "ClosedError",
    "DecodeError",
    "EditError",
    "Error",
    "InUseError",
    "LargeFileWarning",
    "Message",
    "RepeatedScalar",
    "RepeatedSpan",
    "SaveError",
    "SourceError",
    "__version__",
    "from_json",
    "from_text",
    "load",
    "load_schema",
    "save",
    "to_json",
    "to_text",
    "verify",
    *_messages,
]
