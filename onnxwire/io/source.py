"""Open a path, bytes, a file object or an address as a document."""

from __future__ import annotations

import io
import os
import stat

from onnxwire.engine.document import Document
from onnxwire.engine.input_file import open_input, read_input, read_stream
from onnxwire.engine.mapping import map_file, skip_access_times
from onnxwire.errors import DecodeError, SourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from mmap import mmap
    from typing import IO, Any

    Source = str | os.PathLike[str] | bytes | bytearray | memoryview | mmap | IO[bytes]
    """A path or address, an object with the buffer protocol, or a binary file object."""


def open_document(
    source: Source,
    mmap: bool = True,
    store: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
    allow_hosts: Iterable[str] | None = None,
    untrusted: bool = False,
) -> Document:
    """Open a source as a document. Map regular files instead of reading them, unless `mmap` is False.

    store, storage_options, cache, allow_hosts, untrusted: for a file on a server, as for `load`.

    Raises SourceError for a file that can't be opened or read, DecodeError for an empty file, TypeError for a source
    of an unsupported type, and for storage_options or allow_hosts with a local source.
    """
    if store is not None or (isinstance(source, str) and "://" in source):
        from onnxwire.io.remote.address import is_address

        if store is not None or is_address(source):
            from onnxwire.io.remote.remote_document import open_remote

            def map_cached_file(descriptor: int, name: str) -> Document:
                return _map_cached(descriptor, name, mmap)

            return open_remote(source, store, storage_options, cache, allow_hosts, untrusted, map_file=map_cached_file)
    if storage_options is not None or allow_hosts is not None:
        name = "storage_options=" if storage_options is not None else "allow_hosts="
        raise needs_address(name)
    if isinstance(source, str) or hasattr(source, "__fspath__"):
        return refuse_empty(_map_path(os.fsdecode(source), mmap))
    if hasattr(source, "read") and not _has_buffer(source):
        return refuse_empty(_map_file_object(source, mmap))  # type: ignore[arg-type]
    try:
        return Document(source, f"<{type(source).__name__}>")  # type: ignore[arg-type]
    except (BufferError, ValueError) as error:
        raise TypeError(f"{type(source).__name__} is not a contiguous buffer of bytes: {error}") from None
    except TypeError:
        raise TypeError(
            f"expected a path, a bytes-like object or a binary file object, not {type(source).__name__}"
        ) from None


def needs_address(name: str) -> TypeError:
    """Return the error for an argument that has no meaning for a local file. name: the argument's name and "="."""
    return TypeError(f"{name} applies to addresses only, such as s3://bucket/model.onnx")


def _has_buffer(source: object) -> bool:
    try:
        memoryview(source)  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        return False
    return True


def _map_path(path: str, may_map: bool) -> Document:
    """Open the file at a path as a document. Raises SourceError."""
    try:
        descriptor = open_input(path)
    except (OSError, ValueError) as error:
        raise SourceError.from_os_error(error, path, _advice(path)) from None
    try:
        document = _map_descriptor(descriptor, path, may_map)
        skip_access_times(descriptor)
        return document
    except SourceError:
        raise
    except OSError as error:
        raise SourceError.from_os_error(error, path, _advice(path)) from None
    finally:
        os.close(descriptor)


def _advice(path: str) -> str:
    """Return the remedy for a path that can't be opened, or ""."""
    if os.path.isdir(path):
        return "pass the path of the .onnx file in it"
    if not os.path.exists(path):
        folder = os.path.dirname(path) or "."
        return "check the name" if os.path.isdir(folder) else f"there is no directory {folder}"
    return ""


def _map_cached(descriptor: int, name: str, may_map: bool) -> Document:
    """Return a document of an open file in a local cache, and close the descriptor. Raises SourceError."""
    try:
        return _map_descriptor(descriptor, name, may_map)
    except OSError as error:
        raise SourceError.from_os_error(error, name) from None
    finally:
        os.close(descriptor)


def _map_descriptor(descriptor: int, name: str, may_map: bool) -> Document:
    """Return a document of an open file: mapped, if it is regular and may be mapped, else read to its end."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return Document(read_input(descriptor, name), name)
    if not may_map:
        with open(descriptor, "rb", closefd=False) as file:
            return Document(file.read(), name)
    if status.st_size == 0:
        return Document(b"", name)
    mapping = map_file(descriptor, status.st_size)
    # The descriptor stays open for `save`, which copies data directly between files, and for checks that the file is
    # unchanged.
    return Document(mapping, name, mapping, os.dup(descriptor))


def _map_file_object(file: IO[bytes], may_map: bool) -> Document:
    """Return a document of a file object: mapped, if it is a regular file at its beginning and may be mapped.

    Otherwise the file object is read from its position.

    Raises SourceError if reading fails, TypeError if the file object does not return bytes.
    """
    name = getattr(file, "name", None)
    name = name if isinstance(name, str) else f"<{type(file).__name__}>"
    # Map only a plain file: the descriptor of a GzipFile has the compressed bytes instead of those that `read` returns.
    if type(getattr(file, "raw", file)) is io.FileIO:
        try:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                return Document(read_stream(file.read, name, mode), name)
            if may_map and file.tell() == 0:
                return _map_descriptor(file.fileno(), name, True)
        except SourceError:
            raise
        except (OSError, ValueError):
            pass  # the file can't be mapped, so it is read
    try:
        data = file.read()
    except OSError as error:
        raise SourceError.from_os_error(error, name) from None
    if not isinstance(data, bytes):
        raise TypeError(f"{name} returns {type(data).__name__}, not bytes; open it in binary mode")
    return Document(data, name)


def refuse_empty(document: Document) -> Document:
    """Return the document. Raise DecodeError if it is empty."""
    if len(document) == 0:
        raise DecodeError("the file is empty; it may not have been written completely", 0, "", document.name)
    return document
