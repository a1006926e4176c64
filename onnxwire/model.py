"""Loading and verifying documents."""

from __future__ import annotations

from onnxwire._message import root_view
from onnxwire._walk import verify_document
from onnxwire.errors import DecodeError
from onnxwire.messages import ModelProto
from onnxwire.source import open_document, refuse_empty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from onnxwire._document import Document
    from onnxwire._message import Message
    from onnxwire.source import Source

    MessageT = TypeVar("MessageT", bound=Message, default=ModelProto)


def load(source: Source, type: type[MessageT] = ModelProto) -> MessageT:  # type: ignore[assignment]
    """Open a document and return a view of its root message.

    source: a path, which is mapped and not read; bytes, bytearray, memoryview or mmap, which are shared and not copied;
    or a binary file object. type: the class of the root message.
    The view is a context manager that closes the document. Only the records of the root message are looked at now.
    Raises SourceError for a file that can't be opened, and DecodeError for bytes that are empty, damaged, or no message
    of the type: it says what they look like instead.
    """
    document = open_document(source)
    try:
        refuse_empty(document)
        return _root(document, type)
    except BaseException:
        # The error may be kept, with its frames; the source must be free again.
        document.close()
        raise


def _root(document: Document, type: type[MessageT]) -> MessageT:
    """The root view of a document, or what speaks against it being of the type."""
    try:
        message = root_view(document, type)
    except DecodeError as error:
        from onnxwire.sniff import foreign_format

        foreign = foreign_format(document)
        if foreign is None:
            raise
        raise DecodeError(foreign, 0, "", document.name) from error
    # The tags of a model are like no other message's; any other type is looked at more closely.
    if message._is_doubtful or type is not ModelProto:
        from onnxwire.sniff import doubt

        reason = doubt(message)
        if reason is not None:
            raise DecodeError(reason, 0, "", document.name)
    return message


def verify(source: Source, type: type[Message] = ModelProto) -> None:
    """Walk every message, field and packed run of a document, without making objects of them.

    source, type: as for `load`; bytes of length 0 are a sound, empty message.
    Raises DecodeError at the first fault that a protobuf parser would refuse, and SourceError as `load` does.
    """
    document = open_document(source)
    try:
        verify_document(document, type)
    finally:
        document.close()
