"""Load documents."""

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
    untrusted: bool = False,
) -> MessageT:
    """Open a document and return a view of its root message.

    source: a path, which is mapped, not read; bytes, bytearray, memoryview or mmap, which are shared, not copied; a
    binary file object; or an address, such as https://host/model.onnx or s3://bucket/model.onnx. Ranges of a file on a
    server are fetched on demand; its external data is expected beside it. type: the class of the root message.
    mmap: whether files are mapped. If False, the document is read into memory, and external data files are read on
    demand. The system kills a process that touches a mapped page beyond the end of a truncated file, so use False for
    files that other programs may overwrite. Reading a payload, array or encoding from a file that is mapped or read on
    demand raises SourceError if the file was written to since it was opened.
    external_root: a folder that may contain external data, in addition to the document's own folder. external_data: the
    data itself: a mapping from location to a bytes-like object, or a function from location to a bytes-like object or
    None; for a location without data the file is opened.
    storage_options: options of the address's store (credentials, region, `client_options`, `retry_config`), with the
    names and values of the keyword arguments of obstore's `from_url`. store: an existing obstore store or fsspec file
    system, in which `source` is a file name. cache: a folder that stores fetched ranges for later runs; default: the
    environment variable ONNXWIRE_CACHE, if set. allow_hosts: servers, as `host` or `host:port`, that an HTTP server may
    redirect to; default: ONNXWIRE_ALLOW_HOSTS, separated by commas. If none are given, requests for the model may be
    redirected anywhere, and requests for external data to the servers that the model was redirected to. Redirects from
    a public server to a private address, or from https to http, are always refused. Addresses of buckets, such as
    s3://, need the extra `remote`.
    untrusted: refuse every redirect of an HTTP server, also for external data that is opened later, except those to
    servers that allow_hosts names. ONNXWIRE_UNTRUSTED=1 in the environment sets this for all models. Files that a model
    names are restricted to its folder and external_root in any case.
    The view is a context manager that closes the document and its external data files. Only the records of the root
    message are scanned at this point.
    Raises SourceError for a file or external_root that can't be opened; DecodeError for bytes that are empty, damaged,
    or not a message of the type, with the format of the bytes if it is recognized; TypeError for a source,
    store, external_data or allow_hosts of another type, for storage_options or allow_hosts with a local source, and for
    cache or allow_hosts with `store`.
    """
    document = open_document(source, mmap, store, storage_options, cache, allow_hosts, untrusted)
    try:
        refuse_empty(document)
        document.files = find_external_files(source, document, root=external_root, data=external_data, mmap=mmap)
        return _open_root(document, type)
    except BaseException:
        # The caller may store the error, whose traceback references this frame and the source. So the source is
        # released here.
        document.close()
        raise


def find_external_files(source: Source, document: Document, **options: Any) -> ExternalFiles:
    """Return the external data files of the document of a source, none of them open. options: as for ExternalFiles."""
    origin = getattr(document.files if document.memory is None else document.memory.source, "origin", None)
    if origin is not None:
        from onnxwire.io.remote.remote_document import RemoteFiles

        return RemoteFiles(origin, **options)
    path = os.fsdecode(source) if isinstance(source, str | os.PathLike) else None
    status = os.fstat(document.descriptor) if document.descriptor >= 0 else None
    return ExternalFiles(path, model_status=status, **options)


def _open_root(document: Document, type: type[MessageT]) -> MessageT:
    """Return the root view of a document. Raise DecodeError if its format or message type is probably another one."""
    try:
        message = root_view(document, type)
    except DecodeError as error:
        from onnxwire.io.sniff import describe_foreign_format

        reason = describe_foreign_format(document)
        if reason is None:
            raise
        raise DecodeError(reason, 0, "", document.name) from error
    # A ModelProto has distinctive fields, so it is examined only if `_is_doubtful`. Other types are always examined.
    if message._is_doubtful or type is not ModelProto:
        from onnxwire.io.sniff import describe_type_mismatch

        reason = describe_type_mismatch(message)
        if reason is not None:
            raise DecodeError(reason, 0, "", document.name)
    return message
