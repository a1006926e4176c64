"""Loading, saving and verifying documents."""

from __future__ import annotations

import errno
import os

from onnxwire._message import Message, root_view
from onnxwire._walk import verify_document
from onnxwire.errors import DecodeError, FieldTypeError, SourceError
from onnxwire.messages import ModelProto
from onnxwire.source import open_document, refuse_empty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from typing_extensions import TypeVar

    from onnxwire._document import Document
    from onnxwire._encode import Piece
    from onnxwire.source import Source

    MessageT = TypeVar("MessageT", bound=Message, default=ModelProto)

_STEP = 1 << 23  # bytes that are written to a file object at a time


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


INLINE_LIMIT = (1 << 31) - 1  # bytes that protobuf-based tools can read


class LargeFileWarning(UserWarning):
    """A file was saved that protobuf-based tools can't read, because it has more than 2 GiB."""


def save(
    message: Message,
    path: str | os.PathLike[str] | IO[bytes],
    *,
    deterministic: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> int:
    """Write a message to a file, whole or not at all; returns how many bytes that is.

    message: any message. What was not edited goes from its file to the new one as it stands, without being read into
    memory. path: where to; an old file there is replaced, in one step, when the new one is safely on the disk. It may
    be the file that the message was loaded from, whose views stay as they are. Permissions are kept, symbolic links
    followed, and pipes and devices written directly. Or a binary file object, which is written to and not closed.
    deterministic: as for SerializeToString. progress: called with the bytes written so far and their total.
    Raises SaveError where the file can't be written, and the old one is then as it was; SourceError where the message's
    own file can't be read any more. Warns, with LargeFileWarning, of a result above 2 GiB.
    """
    from onnxwire._save import encode_pieces, write_pieces
    from onnxwire.atomic_file import AtomicFile

    if not isinstance(message, Message):
        raise FieldTypeError(f"expected a message of onnxwire, not {type(message).__name__}")
    if not isinstance(path, str | os.PathLike):
        total, pieces = encode_pieces(message, deterministic, None)
        _warn_of_size(total)
        _write_to_object(path, total, pieces, progress)
        return total
    _refuse_cut(message._document)
    done = None if progress is None else lambda written: progress(min(written, total), total)
    total = 0
    file = AtomicFile(path, progress=done)
    with file as target:
        total, pieces = encode_pieces(message, deterministic, target)
        file.size = total
        write_pieces(target, pieces)
        if not target.is_stream:
            target.seek(total)
        if done is not None:
            done(total)
    _warn_of_size(total)
    return total


def _refuse_cut(document: Document) -> None:
    """Raise SourceError where the file that a document maps was cut: to touch what is gone would end the process."""
    if document.descriptor < 0:
        return
    size = os.fstat(document.descriptor).st_size
    if size < len(document):
        reason = f"the file has {size:,} bytes now, and had {len(document):,} when it was opened; load it again"
        raise SourceError(errno.EIO, reason, document.name)


def _write_to_object(
    file: IO[bytes], total: int, pieces: list[bytes | Piece], progress: Callable[[int, int], object] | None
) -> None:
    written = 0
    for piece in pieces:
        with memoryview(piece if isinstance(piece, bytes) else piece.payload) as view:
            for start in range(0, len(view), _STEP):
                rest = view[start : start + _STEP]
                while rest:
                    # An unbuffered file may take a part of it only.
                    taken = file.write(rest)
                    rest = rest[len(rest) if taken is None else taken :]
                if progress is not None:
                    progress(written + min(start + _STEP, len(view)), total)
            written += len(view)


def _warn_of_size(size: int) -> None:
    if size > INLINE_LIMIT:
        import warnings

        warnings.warn(
            f"the file has {size:,} bytes; tools that use protobuf can't read more than {INLINE_LIMIT:,}, unless the "
            "weights are moved to a file of their own (external data)",
            LargeFileWarning,
            stacklevel=3,
        )


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
