"""Loading, saving and verifying documents."""

from __future__ import annotations

import errno
import os
import sys
from numbers import Integral
from operator import index
from types import EllipsisType

from onnxwire.engine.message import Message
from onnxwire.errors import (
    Error,
    FieldTypeError,
    FieldValueError,
    SaveError,
)
from onnxwire.io.source import open_document
from onnxwire.messages import TensorProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import IO, Any

    from onnxwire.engine.document import Document
    from onnxwire.engine.encode import Piece
    from onnxwire.engine.file_writer import FileWriter
    from onnxwire.io.atomic_file import AtomicFile
    from onnxwire.io.external_save import Choice, Relocation


_STEP = 1 << 23  # bytes that are written to a file object at a time
_IN_MEMORY = 1 << 26  # bytes of an encoding that is held there
_LARGEST_ALIGN = 1 << 30  # bytes of the largest pages of memory


INLINE_LIMIT = (1 << 31) - 1  # bytes that protobuf-based tools can read


class LargeFileWarning(UserWarning):
    """A file was saved that protobuf-based tools can't read, because it has more than 2 GiB."""

    __module__ = "onnxwire"


class ExternalDataWarning(UserWarning):
    """A model was saved to a folder that does not have the external data that it names."""

    __module__ = "onnxwire"


def save(
    message: Message,
    path: str | os.PathLike[str] | IO[bytes],
    *,
    deterministic: bool = False,
    progress: Callable[[int, int], object] | None = None,
    external: Choice | EllipsisType = ...,
    threshold: int = 1024,
    align: int = 4096,
    shard_size: int | None = None,
    checksum: bool = False,
    overwrite: bool = False,
    inline_align: int = 0,
    store: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> int:
    """Write a message to a file, whole or not at all; returns how many bytes that is.

    message: any message; saving does not change it. What was not edited goes from its file to the new one as it stands,
    without being read into memory. path: where to; an old file there is replaced, in one step, when the new one is
    safely on the disk. It may be the file that the message was loaded from, whose views stay as they are. Permissions
    are kept, symbolic links followed, and pipes and devices written directly. A file that can't be replaced, because it
    is mounted by itself or its folder may not be written, is written over: not in one step, though its old bytes are
    put back where that fails. Or a binary file object, which is written to and not closed; one that takes nothing (its
    `write` returns None or 0) is an error, which says how much it has.
    deterministic: as for SerializeToString. progress: called with the bytes written so far and their total.

    external: where the payloads of tensors go. By default they stay where they are, inline or in the files that the
    tensors name. None: all inline. "weights.data": into that file, beside the new one; "data/{name}.bin": each into a
    file of its own; or a function from TensorInfo to such a name, or None for inline. Payloads of fewer than
    `threshold` bytes, and strings, are inline; each other one begins at a multiple of `align` bytes. shard_size: the
    bytes from which on another file is begun, weights-00001-of-00003.data and so on. checksum: also store the SHA-1 of
    the files.
    overwrite: allow to replace files that hold more than the data of the old model at the path, to save the model over
    a file that its own tensors have their data in, and to refer to files that others have come in place of since they
    were opened.
    New files get their names after the last byte of all is on the disk, the model last; where that fails, the old
    ones are put back. A kill in that moment, which is as short as a few renames, can leave the old model beside new
    data of the same name; the old data is then in a file of a name that ends with .old, and the checksums tell. Ctrl-C
    is no such case: whenever it comes, the old files or the new ones are there. Data and model are in one folder, that
    of the path: a symbolic link that leads to a model in another folder is replaced by the new model.
    path may also be an address, such as s3://bucket/model.onnx, or with `store` a name in that: the file is sent in
    parts, and is there when all are. store, storage_options: as of `load`; `external` can't be given then.
    inline_align: begin each inline payload of `threshold` bytes or more at a multiple of this number of bytes, by
    padding that readers skip.

    Raises SaveError where a file can't be written, and the old ones are then as they were; SourceError where one that
    the data is in can't be read any more; TensorError for a tensor that can't be moved because its parts do not fit
    together. Warns, with LargeFileWarning, of a result above 2 GiB, and with ExternalDataWarning where files that the
    model names are not beside it.
    """
    from onnxwire.io.atomic_file import AtomicFile
    from onnxwire.io.references import look_at_references

    if not isinstance(message, Message):
        raise FieldTypeError(f"expected a message of onnxwire, not {type(message).__name__}")
    threshold = _bytes("threshold", threshold, 0)
    align = _bytes("align", align, 1, _LARGEST_ALIGN)
    shard_size = None if shard_size is None else _bytes("shard_size", shard_size, 1)
    inline_align = _bytes("inline_align", inline_align, 0, _LARGEST_ALIGN)
    if store is not None or (isinstance(path, str) and "://" in path):
        from onnxwire.io.remote.address import is_address, shown_source

        if store is not None or is_address(path):
            if not isinstance(external, EllipsisType):
                reason = "external= is for files on this machine; save there, and copy them"
                raise SaveError(errno.EINVAL, reason, shown_source(os.fspath(path)))  # type: ignore[arg-type]
            total, pieces = _encode(message, deterministic, None, inline_align, threshold)
            from onnxwire.io.remote.upload import upload

            upload(pieces, total, os.fspath(path), store, storage_options, progress)  # type: ignore[arg-type]
            _warn_of_size(total)
            return total
    file = AtomicFile(path) if isinstance(path, str | os.PathLike) else None
    if file is None and not hasattr(path, "write"):
        raise FieldTypeError(f"expected a path or a binary file object, not {type(path).__name__}")
    if file is not None and not overwrite:
        message._document.check_unchanged()
        refuse_weights(message, file.path)
    if isinstance(external, EllipsisType):
        advice = "" if file is None else look_at_references(message, file.path, refuse=not overwrite)
        total = _save(message, file or path, None, deterministic, progress, inline_align, threshold)  # type: ignore[arg-type]
        if advice:
            import warnings

            warnings.warn(advice, ExternalDataWarning, stacklevel=2)
    else:
        from onnxwire.io.external_save import Relocation

        with Relocation(
            message, file, external, threshold=threshold, align=align, shard_size=shard_size, checksum=checksum,
            overwrite=overwrite,
        ) as moved:  # fmt: skip
            total = _save(message, file or path, moved, deterministic, progress, inline_align, threshold)  # type: ignore[arg-type]
    _warn_of_size(total)
    return total


def _bytes(name: str, value: object, least: int, most: int = sys.maxsize) -> int:
    """A number of bytes that was given for an argument; raises FieldTypeError and FieldValueError for another thing."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise FieldTypeError(f"{name} is a number of bytes, an int, not {type(value).__name__}") from None
    if not least <= number <= most:
        raise FieldValueError(f"{name} is a number of bytes from {least} to {most:,}, not {number:,}")
    return number


def refuse_weights(message: Message, path: str) -> None:
    """Raise SaveError where the file to write is one that tensors of the message have their data in."""
    from onnxwire.io.folder import identity_of
    from onnxwire.io.tensor_list import find_locations

    files = message._document.files
    if files is None or not os.path.isfile(path):
        return
    wanted = identity_of(os.stat(path))
    for location in {location for _, location in find_locations(message)}:
        try:
            with files.look_at(location) as file:
                is_same = file.descriptor >= 0 and identity_of(os.fstat(file.descriptor)) == wanted
        except Error:
            continue  # it is not there, or may not be read
        if is_same:
            raise SaveError(errno.EINVAL, "the model's weights are in this file; choose another one", path)


def _save(
    message: Message,
    file: AtomicFile | IO[bytes],
    moved: Relocation | None,
    deterministic: bool,
    progress: Callable[[int, int], object] | None,
    alignment: int,
    threshold: int,
) -> int:
    """Write a message, and the files that its payloads were moved to; returns the bytes of its own."""
    from onnxwire.engine.write import write_pieces
    from onnxwire.io.atomic_file import AtomicFile

    content = message if moved is None else moved.copy
    if not isinstance(file, AtomicFile):
        total, pieces = _encode(content, deterministic, None, alignment, threshold)
        _write_to_object(file, total, pieces, progress)
        return total
    message._document.check_unchanged()
    beside = 0 if moved is None else moved.size
    full = 0
    done = None
    if progress is not None:

        def done(written: int) -> object:
            return progress(min(written, full), full)

        file.progress = lambda written: done(beside + written)
    with file as target:
        if moved is not None:
            full = beside + (content.ByteSize() if progress is not None else 0)
            moved.write(done)
        total, pieces = _encode(content, deterministic, target, alignment, threshold)
        file.size = total
        full = beside + total
        write_pieces(target, pieces)
        if not target.is_stream:
            target.seek(total)
        if done is not None:
            done(full)
        if moved is not None:
            file.prepare()
            moved.publish()
    return total


def _encode(
    message: Message, deterministic: bool, target: FileWriter | None, alignment: int, threshold: int
) -> tuple[int, list[bytes | Piece]]:
    """The size of a message's encoding, and what of it is still to be written to the target."""
    from onnxwire.engine.write import encode_pieces

    if alignment <= 1:
        return encode_pieces(message, deterministic, target)
    from onnxwire.engine.align import aligned_pieces
    from onnxwire.tensor.dtypes import PADDING

    document = message._document
    if deterministic or document.is_edited or message._span != (0, len(document)):
        document = encoded_document(message, deterministic)
    return aligned_pieces(document, type(message), [(TensorProto, "raw_data", PADDING)], threshold, alignment)


def encoded_document(message: Message, deterministic: bool) -> Document:
    """A document of a message's encoding, in memory or, where that is much, in a file that has no name."""
    import tempfile

    from onnxwire.engine.document import Document
    from onnxwire.engine.file_writer import FileWriter
    from onnxwire.engine.write import encode_pieces, write_pieces

    if message.ByteSize() < _IN_MEMORY:
        return Document(message.SerializeToString(deterministic))
    with tempfile.TemporaryFile() as file:
        target = FileWriter(file.fileno(), fresh=True)
        total, pieces = encode_pieces(message, deterministic, target)
        write_pieces(target, pieces)
        target.seek(total)
        target.finish()
        return open_document(file)


def _write_to_object(
    file: IO[bytes], total: int, pieces: list[bytes | Piece], progress: Callable[[int, int], object] | None
) -> None:
    from onnxwire.engine.write import chunks_of

    written = 0
    for rest in chunks_of(pieces, _STEP):
        while rest:
            # An unbuffered file may take a part of it only.
            taken = _hand_over(file, rest, written, total)
            rest = rest[taken:]
            written += taken
        if progress is not None:
            progress(written, total)


def _hand_over(file: IO[bytes], rest: memoryview, written: int, total: int) -> int:
    """Give a file object bytes to write; returns how many it took. Source: io.RawIOBase.write."""
    try:
        taken = file.write(rest)
        if taken is None:
            raise BlockingIOError(errno.EAGAIN, "it takes nothing now: its write gave None; make it blocking")
        if not isinstance(taken, Integral) or not 0 < taken <= len(rest):
            raise OSError(errno.EIO, f"its write was given {len(rest):,} bytes and returned {taken!r}, not how many")
    except OSError as error:
        if isinstance(error, Error):
            raise
        name = getattr(file, "name", None)
        name = name if isinstance(name, str) else f"<{type(file).__name__}>"
        # What a buffered file object took of this before it failed.
        written += getattr(error, "characters_written", 0) if isinstance(error, BlockingIOError) else 0
        raise SaveError.from_os_error(error, name, f"{written:,} of {total:,} bytes are written") from None
    return taken


def _warn_of_size(size: int) -> None:
    if size > INLINE_LIMIT:
        import warnings

        warnings.warn(
            f"the file has {size:,} bytes; tools that use protobuf can't read more than {INLINE_LIMIT:,}, unless the "
            "weights are moved to a file of their own (external data)",
            LargeFileWarning,
            stacklevel=3,
        )
