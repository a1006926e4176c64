"""Check a document completely, optionally with the checksums of its external data files."""

from __future__ import annotations

from onnxwire.engine.message import Message, root_view
from onnxwire.engine.verify import verify_document
from onnxwire.errors import ExternalDataError
from onnxwire.io.load import find_external_files
from onnxwire.io.source import open_document
from onnxwire.messages import ModelProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.io.source import Source


def verify(source: Source, type: type[Message] = ModelProto, *, checksums: bool = False) -> None:
    """Check every message, field and packed run of a document, without creating objects for them.

    source, type: as for `load`; an empty buffer is a valid, empty message. checksums: also compare the SHA-1 of
    external data files with the checksums that tensors contain.
    Raises DecodeError at the first fault that a protobuf parser would reject, and for an empty file; SourceError and
    TypeError as `load` does. With `checksums`, also raises ExternalDataError for a file with a different checksum and
    for an invalid or forbidden reference, and SourceError for an external data file that can't be opened or read.
    """
    document = open_document(source)
    try:
        verify_document(document, type)
        if checksums:
            document.files = find_external_files(source, document, mmap=False)
            _verify_checksums(root_view(document, type))
    finally:
        document.close()


def _verify_checksums(message: Message) -> None:
    """Compare external data files with the checksums in the tensors. Read each file once."""
    from onnxwire.io.prefetch import open_external
    from onnxwire.io.tensor_list import find_tensors, is_external
    from onnxwire.tensor.error import tensor_error
    from onnxwire.tensor.external_data import locate_payload, reference_of

    digests: dict[int, str] = {}
    open_external(message)
    for _, tensor in find_tensors(message):
        if not is_external(tensor):
            continue
        checksum = reference_of(tensor).checksum
        if checksum is None:
            continue
        file, _, _ = locate_payload(tensor, message._document.files)
        if id(file) not in digests:
            digests[id(file)] = file.sha1()
        if digests[id(file)] != checksum.lower():
            reason = f"{file.name} has the SHA-1 {digests[id(file)]}, not the checksum {checksum}; fetch it again"
            raise tensor_error(tensor, reason, ExternalDataError)
