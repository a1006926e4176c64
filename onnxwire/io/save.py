"""Save messages."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import nullcontext
from numbers import Integral
from operator import index
from types import EllipsisType

from onnxwire.engine.message import Message
from onnxwire.errors import (
    Error,
    FieldTypeError,
    FieldValueError,
    SaveError,
    count_text,
)
from onnxwire.io.source import needs_address, open_document
from onnxwire.messages import TensorProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from typing import IO, Any

    from onnxwire.engine.document import Document
    from onnxwire.engine.encoder import Piece
    from onnxwire.engine.file_writer import FileWriter
    from onnxwire.io.atomic_file import AtomicFile
    from onnxwire.io.external_save import Choice, Relocation


_CHUNK_BYTES = 1 << 23  # bytes written to a file object at a time
_MAX_BYTES_IN_MEMORY = 1 << 26  # an encoding of this size or more is written to a temporary file
_MAX_ALIGNMENT = 1 << 30  # the size of the largest memory pages

DEFAULT_THRESHOLD = 1024
"""The default of the parameter `threshold` of `save`, in bytes."""
INLINE_LIMIT = (1 << 31) - 1
"""The size in bytes of the largest file that protobuf-based tools can read."""


class LargeFileWarning(UserWarning):
    """A file of 2 GiB or more was saved, which protobuf-based tools can't read."""

    __module__ = "onnxwire"


class ExternalDataWarning(UserWarning):
    """A model was saved to a folder in which its external data is missing or different."""

    __module__ = "onnxwire"


def save(
    message: Message,
    path: str | os.PathLike[str] | IO[bytes],
    *,
    deterministic: bool = False,
    progress: Callable[[int, int], object] | None = None,
    external: Choice | EllipsisType = ...,
    threshold: int = DEFAULT_THRESHOLD,
    align: int = 4096,
    shard_size: int | None = None,
    checksum: bool = False,
    overwrite: bool = False,
    inline_align: int = 0,
    store: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> int:
    """Write a message to a file atomically. Return the size of this file in bytes, without external data files.

    message: any message; saving does not change it. Unedited parts are copied from file to file without being read into
    memory. path: the file to write. An old file there is replaced atomically once the new one is on disk. It may be the
    file that the message was loaded from, whose views stay valid. Permissions are preserved, symbolic links followed,
    and pipes and devices written directly. A file that can't be replaced, because it is a mount point or its folder is
    read-only, is overwritten (except on Windows); this is not atomic, but its old contents are restored if writing
    fails. path may also be a binary file object, which is written to and not closed; if its `write` returns None or 0,
    SaveError reports the number of bytes written.
    deterministic: as for SerializeToString. progress: called with the number of bytes written so far and in total.

    external: where to store the payloads of tensors. By default they stay inline, or in their external data files.
    None: all inline. "weights.data": in that file, beside the new model. "data/{name}.bin": each in its own file. A
    function from TensorInfo to a file name, or None for inline. If `external` is passed, payloads of fewer than
    `threshold` bytes, and strings, are inline. A payload in a data file begins at a multiple of `align` bytes.
    shard_size: the size in bytes beyond which another file is started, as weights-00001-of-00003.data. checksum: also
    store the SHA-1 of each file.
    overwrite: allow replacing files that contain other data than that of the old model at the path; allow saving over a
    file that contains the model's own external data; and allow referring to external files that were replaced since
    they were opened.
    New files are renamed into place once all data is on disk, the model last; if a rename fails, the old files are
    restored. A kill between these renames can leave the old model with new data files; the old data is then in files
    whose names end with .old, and checksums reveal the mismatch. Ctrl-C always leaves either all old or all new files.
    Data files are in or below the folder of the path itself. So if there are any, a symbolic link to a model in another
    folder is replaced, not followed.
    path may also be an address, such as s3://bucket/model.onnx, or, with `store`, a name in the store: the file is
    uploaded, and appears when the upload is complete; only a plain HTTP server may store an incomplete file.
    store, storage_options: as for `load`; they exclude `external`.
    inline_align: begin each inline payload of `threshold` bytes or more at a multiple of this number of bytes, with
    padding that readers skip.

    Raises SaveError if a file can't be written, and leaves the old files unchanged; SourceError for an invalid address
    or storage_options, or if a file that contains data of the message can't be read; TensorError for an inconsistent
    tensor that must be moved; FieldTypeError or FieldValueError for an argument of a wrong type or with an invalid
    value; TypeError for storage_options with a local path, or a store without `put`. Warns with LargeFileWarning if the
    file has 2 GiB or more, and with ExternalDataWarning if external files that the model refers to are missing from the
    new file's folder, or different there.
    """
    from onnxwire.io.atomic_file import AtomicFile
    from onnxwire.io.references import check_references, references_of, reject_own_data_file

    if not isinstance(message, Message):
        raise FieldTypeError(f"expected a message of onnxwire, not {type(message).__name__}")
    threshold = _check_bytes("threshold", threshold, 0)
    align = _check_bytes("align", align, 1, _MAX_ALIGNMENT)
    shard_size = None if shard_size is None else _check_bytes("shard_size", shard_size, 1)
    inline_align = _check_bytes("inline_align", inline_align, 0, _MAX_ALIGNMENT)
    if store is not None or (isinstance(path, str) and "://" in path):
        from onnxwire.io.remote.address import is_address, shown_source

        if store is not None or is_address(path):
            if not isinstance(external, EllipsisType):
                reason = "external= needs a local path; save locally, and upload the files"
                raise SaveError(errno.EINVAL, reason, shown_source(os.fspath(path)))  # type: ignore[arg-type]
            total, pieces = _encode(message, deterministic, None, inline_align, threshold)
            from onnxwire.io.remote.upload import upload

            upload(pieces, total, os.fspath(path), store, storage_options, progress)  # type: ignore[arg-type]
            _warn_of_size(total)
            return total
    if storage_options is not None:
        raise needs_address("storage_options=")
    file = AtomicFile(path) if isinstance(path, str | os.PathLike) else None
    if file is None and not hasattr(path, "write"):
        raise FieldTypeError(f"expected a path or a binary file object, not {type(path).__name__}")
    if file is not None:
        message._document.check_unchanged()  # before the search, which would read missing pages of a truncated file
    references = references_of(message) if file is not None and isinstance(external, EllipsisType) else None
    if file is not None and not overwrite:
        reject_own_data_file(message, file.path, references)
    if isinstance(external, EllipsisType):
        advice = (
            "" if file is None or references is None else check_references(references, file.path, refuse=not overwrite)
        )
        total = _save(message, file or path, None, deterministic, progress, inline_align, threshold)  # type: ignore[arg-type]
        if advice:
            import warnings

            warnings.warn(advice, ExternalDataWarning, stacklevel=2)
    else:
        from onnxwire.io.external_save import Relocation

        with Relocation(
            message, file, external, threshold=threshold, align=align, shard_size=shard_size, checksum=checksum,
            overwrite=overwrite,
        ) as relocation:  # fmt: skip
            total = _save(message, file or path, relocation, deterministic, progress, inline_align, threshold)  # type: ignore[arg-type]
    _warn_of_size(total)
    return total


def _check_bytes(name: str, value: object, minimum: int, maximum: int = sys.maxsize) -> int:
    """Return an argument that is a number of bytes as an int. Raises FieldTypeError and FieldValueError."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise FieldTypeError(f"{name} is a number of bytes, an int, not {type(value).__name__}") from None
    if not minimum <= number <= maximum:
        raise FieldValueError(f"{name} is a number of bytes from {minimum} to {maximum:,}, not {number:,}")
    return number


def _save(
    message: Message,
    file: AtomicFile | IO[bytes],
    relocation: Relocation | None,
    deterministic: bool,
    progress: Callable[[int, int], object] | None,
    alignment: int,
    threshold: int,
) -> int:
    """Write a message and its moved payloads. Return the size of the message's own file in bytes.

    alignment, threshold: as `inline_align` and `threshold` of `save`.
    """
    from onnxwire.engine.write import write_pieces
    from onnxwire.io.atomic_file import AtomicFile

    content = message if relocation is None else relocation.copy
    if not isinstance(file, AtomicFile):
        total, pieces = _encode(content, deterministic, None, alignment, threshold)
        with _fetch_in_order(pieces):
            _write_to_object(file, total, pieces, progress)
        return total
    message._document.check_unchanged()
    external_size = 0 if relocation is None else relocation.size
    full_size = 0
    report = None
    if progress is not None:

        def report(n_bytes: int) -> object:
            return progress(min(n_bytes, full_size), full_size)

        file.progress = lambda n_bytes: report(external_size + n_bytes)
    with file as target:
        if relocation is not None:
            full_size = external_size + (content.ByteSize() if progress is not None else 0)
            relocation.write(report)
        total, pieces = _encode(content, deterministic, target, alignment, threshold)
        file.size = total
        full_size = external_size + total
        with _fetch_in_order(pieces):
            write_pieces(target, pieces)
        if not target.is_stream:
            target.seek(total)
        if report is not None:
            report(full_size)
        if relocation is not None:
            file.prepare()
            relocation.publish()
    return total


def _fetch_in_order(pieces: list[bytes | Piece]) -> AbstractContextManager[object]:
    """Return a context in which pieces of files on servers are fetched concurrently before they are written."""
    from onnxwire.engine.write import missing_ranges

    ranges = missing_ranges(pieces)
    if not ranges:
        return nullcontext()
    from onnxwire.io.remote.schedule import Schedule

    return Schedule(ranges)


def _encode(
    message: Message, deterministic: bool, target: FileWriter | None, alignment: int, threshold: int
) -> tuple[int, list[bytes | Piece]]:
    """Return the size of a message's encoding, and the pieces that still have to be written to the target.

    target: the file, to which the encoder may write some pieces; None to return all pieces.
    """
    from onnxwire.engine.write import encode_pieces

    if alignment <= 1:
        return encode_pieces(message, deterministic, target)
    from onnxwire.engine.align import aligned_pieces
    from onnxwire.tensor.dtypes import PADDING_FIELD

    document = message._document
    if deterministic or document.is_edited or message._span != (0, len(document)):
        document = encoded_document(message, deterministic)
    return aligned_pieces(document, type(message), [(TensorProto, "raw_data", PADDING_FIELD)], threshold, alignment)


def encoded_document(message: Message, deterministic: bool) -> Document:
    """Return a document of a message's encoding, in memory or, if large, in a temporary file."""
    import tempfile

    from onnxwire.engine.document import Document
    from onnxwire.engine.file_writer import FileWriter
    from onnxwire.engine.write import encode_pieces, write_pieces

    if message.ByteSize() < _MAX_BYTES_IN_MEMORY:
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
    """Write pieces, of `total` bytes, to a file object. Raises SaveError."""
    from onnxwire.engine.write import chunks_of

    n_written = 0
    for chunk in chunks_of(pieces, _CHUNK_BYTES):
        while chunk:
            # An unbuffered file may accept only a part.
            count = _write_some(file, chunk, n_written, total)
            chunk = chunk[count:]
            n_written += count
        if progress is not None:
            progress(n_written, total)


def _write_some(file: IO[bytes], chunk: memoryview, n_written: int, total: int) -> int:
    """Write bytes to a file object. Return the number of bytes that it accepted. Source: io.RawIOBase.write."""
    try:
        count = file.write(chunk)
        if count is None:
            raise BlockingIOError(errno.EAGAIN, "its write returned None, so it is not blocking; make it blocking")
        if not isinstance(count, Integral) or not 0 < count <= len(chunk):
            raise OSError(
                errno.EIO, f"its write returned {count!r} for {count_text(len(chunk), 'byte')}, not the number written"
            )
    except OSError as error:
        if isinstance(error, Error):
            raise
        name = getattr(file, "name", None)
        name = name if isinstance(name, str) else f"<{type(file).__name__}>"
        # A buffered file object reports the number of bytes that it accepted before it failed.
        n_written += getattr(error, "characters_written", 0) if isinstance(error, BlockingIOError) else 0
        raise SaveError.from_os_error(error, name, f"{n_written:,} of {total:,} bytes are written") from None
    return count


def _warn_of_size(size: int) -> None:
    """Warn if protobuf can't read a file of this size. The warning refers to the caller of `save`."""
    if size > INLINE_LIMIT:
        import warnings

        warnings.warn(
            f"the file has {size:,} bytes; tools that use protobuf can't read more than {INLINE_LIMIT:,} bytes; move "
            "the weights to a separate file (external data)",
            LargeFileWarning,
            stacklevel=3,
        )
