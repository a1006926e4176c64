"""Loading documents."""

from __future__ import annotations

import os

from onnxwire.engine.message import Message, root_view
from onnxwire.errors import DecodeError
from onnxwire.io.external_files import ExternalFiles
from onnxwire.io.source import open_document, refuse_empty
from onnxwire.messages import ModelProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from typing_extensions import TypeVar

    from onnxwire.engine.document import Document
    from onnxwire.io.external_files import Data
    from onnxwire.io.source import Source

    MessageT = TypeVar("MessageT", bound=Message, default=ModelProto)


def load(
    source: Source,
    type: type[MessageT] = ModelProto,  # type: ignore[assignment]
    *,
    mmap: bool = True,
    external_root: str | os.PathLike[str] | None = None,
    external_data: Data | None = None,
    store: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
    allow_hosts: Iterable[str] | None = None,
) -> MessageT:
    """Open a document and return a view of its root message.

    source: a path, which is mapped and not read; bytes, bytearray, memoryview or mmap, which are shared and not copied;
    or a binary file object. Or an address, such as https://host/model.onnx or s3://bucket/model.onnx: what is asked for
    is fetched when it is asked for, and external data found beside it. type: the class of the root message.
    mmap: whether files are mapped. Without it the document is read into memory, and of files with external data what
    is asked for, when it is asked for. A process that touches a mapping of what was truncated ends: load so what other
    programs may write over. Bytes of a file that was written to since it was opened are refused with SourceError,
    mapped or not, when a payload, an array or an encoding is asked for.
    external_root: a folder that external data may be in, beside the document's own. external_data: the data itself, a
    mapping from location to a bytes-like object, or a function that returns one, or None for what is in a file.
    storage_options: what the store of an address is made with (credentials, region, `client_options`, `retry_config`),
    as keyword arguments of obstore's `from_url`. store: a ready store of obstore or file system of fsspec, in which
    source is the name of a file. cache: a folder in which what is fetched from an address is kept for later; else the
    one that the environment variable ONNXWIRE_CACHE names, if any. allow_hosts: servers, as `host` or `host:port`, that
    an HTTP server may redirect to; else those in ONNXWIRE_ALLOW_HOSTS, separated by commas. Without any, requests for
    the model are redirected anywhere, and those for external data to the servers that the model was redirected to;
    never from a public server to a private address, nor from https to http. Addresses but those of HTTP need the extra
    `remote`.
    The view is a context manager that closes the document, and the files beside it. Only the records of the root
    message are looked at now.
    Raises SourceError for a file that can't be opened, and DecodeError for bytes that are empty, damaged, or no message
    of the type: it says what they look like instead.
    """
    document = open_document(source, mmap, store, storage_options, cache, allow_hosts)
    try:
        refuse_empty(document)
        document.files = files_beside(source, document, root=external_root, data=external_data, mmap=mmap)
        return _root(document, type)
    except BaseException:
        # The error may be kept, with its frames; the source must be free again.
        document.close()
        raise


def files_beside(source: Source, document: Document, **options: Any) -> ExternalFiles:
    """The files that tensors of a document may name; options: as of ExternalFiles."""
    if document.memory is not None:
        from onnxwire.io.remote.remote_document import RemoteFiles

        return RemoteFiles(document.memory.source, **options)  # type: ignore[arg-type]
    path = os.fsdecode(source) if isinstance(source, str | os.PathLike) else None
    status = os.fstat(document.descriptor) if document.descriptor >= 0 else None
    return ExternalFiles(path, model=status, **options)


def _root(document: Document, type: type[MessageT]) -> MessageT:
    """The root view of a document, or what speaks against it being of the type."""
    try:
        message = root_view(document, type)
    except DecodeError as error:
        from onnxwire.io.sniff import foreign_format

        foreign = foreign_format(document)
        if foreign is None:
            raise
        raise DecodeError(foreign, 0, "", document.name) from error
    # The tags of a model are like no other message's; any other type is looked at more closely.
    if message._is_doubtful or type is not ModelProto:
        from onnxwire.io.sniff import type_mismatch

        reason = type_mismatch(message)
        if reason is not None:
            raise DecodeError(reason, 0, "", document.name)
    return message
